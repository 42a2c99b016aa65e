//! Reads the pages of one list of a server, within the limits.
//!
//! A large page is read on a thread that may block. The reader copies the definitions that it keeps, so that the
//! message can be freed.

use super::entries::ListEntry;
use super::list_limits::{
    CatalogList, LeftOff, LeftOffReason, MAX_LIST_BYTES, MAX_REPEATED_PAGES, MAX_TOOLS,
};
use super::tool::{Tool, read_tool};
use base::blocking;
use std::collections::HashSet;
use wire::object::Object;
use wire::{Raw, raw};

/// An entry as it is kept.
pub trait Listed: Sized + Send + 'static {
    /// Reads an entry from its definition. `None` if the definition lacks the name or URI that identifies it.
    fn read(list: CatalogList, definition: Raw) -> Option<Self>;
    /// The definition.
    fn definition(&self) -> &Raw;
    /// The name or URI that identifies it, if that was read.
    fn key(&self) -> Option<&str>;
}

impl Listed for (Tool, Raw) {
    fn read(_: CatalogList, definition: Raw) -> Option<Self> {
        // A copy of its own, because the definition may outlive the catalog.
        let definition = Raw::copy_from_slice(&definition);
        Some((read_tool(&definition)?, definition))
    }

    fn definition(&self) -> &Raw {
        &self.1
    }

    fn key(&self) -> Option<&str> {
        Some(&self.0.name)
    }
}

impl Listed for Raw {
    /// A tool's definition, as the cache has it.
    fn read(_: CatalogList, definition: Raw) -> Option<Self> {
        Some(Self::copy_from_slice(&definition))
    }

    fn definition(&self) -> &Raw {
        self
    }

    fn key(&self) -> Option<&str> {
        None
    }
}

impl Listed for ListEntry {
    fn read(list: CatalogList, definition: Raw) -> Option<Self> {
        Some(Self { key: raw::get_str(&definition, list.key())?, definition })
    }

    fn definition(&self) -> &Raw {
        &self.definition
    }

    fn key(&self) -> Option<&str> {
        Some(&self.key)
    }
}

/// What was read of one list so far.
pub struct ListReader<E> {
    /// Which list it is.
    list: CatalogList,
    /// The entries within the limits.
    entries: Vec<E>,
    /// The bytes of their definitions.
    bytes: usize,
    /// What exceeds a limit.
    left_off: LeftOff,
    /// The names or URIs of the entries.
    keys: HashSet<Box<str>>,
    /// The number of pages that brought no new entry.
    repeated_pages: usize,
    /// The bytes of the pages.
    page_bytes: usize,
    /// The cursors that the pages named.
    cursors: HashSet<Raw>,
    /// Whether a page named a cursor again, so that later pages may have the entries of earlier ones.
    repeats: bool,
}

impl<E: Listed> ListReader<E> {
    /// Makes a reader that has read nothing yet.
    pub fn new(list: CatalogList) -> Self {
        Self {
            list,
            entries: Vec::new(),
            bytes: 0,
            left_off: LeftOff::default(),
            keys: HashSet::new(),
            repeated_pages: 0,
            page_bytes: 0,
            cursors: HashSet::new(),
            repeats: false,
        }
    }

    /// Reads a page. Returns the cursor of the next page. It is `None` after the last page, after a page without a new
    /// entry that names a cursor again, and when the limits leave no room for more; the last two are logged.
    ///
    /// # Errors
    ///
    /// It is no page of this list; or reading it took too long, and what was read before is lost.
    pub async fn read(&mut self, page: Raw) -> Result<Option<Raw>, String> {
        let mut reader = std::mem::replace(self, Self::new(self.list));
        let read = blocking::run_on(page.len(), move || {
            let next = reader.add(&page);
            (reader, next)
        });
        let (reader, next) = read.await.map_err(|error| format!("reading a page {error}"))?;
        *self = reader;
        next
    }

    /// Notes that the rest of the list could not be read.
    pub fn stop_unread(&mut self) {
        self.left_off.add_unknown(self.list, LeftOffReason::Unread);
    }

    /// Returns the entries that were read, and what was left off.
    pub fn into_parts(self) -> (Vec<E>, LeftOff) {
        (self.entries, self.left_off)
    }

    fn add(&mut self, page: &Raw) -> Result<Option<Raw>, String> {
        let member = self.list.member();
        let elements = raw::elements(page, member).ok_or_else(|| format!("`{member}` is not a list"))?;
        let next = raw::get(page, "nextCursor").filter(|cursor| &cursor[..] != b"null");
        let next = next.map(|next| Raw::copy_from_slice(&next));
        let repeats = next.as_ref().is_some_and(|next| !self.cursors.insert(next.clone()));
        if repeats && !std::mem::replace(&mut self.repeats, true) {
            tracing::warn!("the server's list of {member} repeats a cursor; each entry counts once");
        }
        let (known, start) = (self.keys.len(), self.entries.len());
        self.add_elements(&elements);
        self.entries.split_off(start).into_iter().for_each(|entry| self.add_entry(entry));
        let is_new = self.keys.len() > known;
        self.repeated_pages += usize::from(!is_new);
        self.page_bytes += page.len();
        if next.is_some() && self.is_full() {
            tracing::warn!("the server's {member} do not end; the pages up to there are used");
            self.left_off.add_unknown(self.list, LeftOffReason::Pages);
            return Ok(None);
        }
        // Some servers name the same cursor until the last page.
        Ok(next.filter(|_| is_new || !repeats))
    }

    /// Returns whether no entry of a further page would be kept.
    fn is_full(&self) -> bool {
        self.repeated_pages >= MAX_REPEATED_PAGES
            || self.page_bytes >= MAX_LIST_BYTES
            || self.has_enough(self.entries.len())
    }

    /// Returns whether there are so many entries that a further one exceeds a limit.
    fn has_enough(&self, entries: usize) -> bool {
        self.list == CatalogList::Tools && entries >= MAX_TOOLS
    }

    /// Returns whether an element has a longer name or URI than a request may have.
    fn has_long_key(&self, element: &Raw) -> bool {
        let limit = self.list.max_key_bytes();
        element.len() > limit && raw::get_str(element, self.list.key()).is_some_and(|key| key.len() > limit)
    }

    /// Keeps the elements that are within the limits and have a name.
    fn add_elements(&mut self, elements: &[Raw]) {
        let mut kept = Vec::new();
        for element in elements {
            let limit = LeftOffReason::of(element)
                .or_else(|| self.has_long_key(element).then_some(LeftOffReason::LongName))
                .or_else(|| self.has_enough(self.entries.len() + kept.len()).then_some(LeftOffReason::Count))
                .or_else(|| (self.bytes + element.len() > MAX_LIST_BYTES).then_some(LeftOffReason::Total));
            match limit {
                Some(limit) => {
                    let key = self.list.key();
                    self.left_off.add(self.list, limit, || raw::get_str(element, key));
                }
                None => {
                    self.bytes += element.len();
                    kept.push(element);
                }
            }
        }
        // One copy for all of them.
        let copy = Raw::from(kept.iter().flat_map(|element| element.iter().copied()).collect::<Vec<u8>>());
        let mut at = 0;
        for element in kept {
            let definition = copy.slice(at..at + element.len());
            at += element.len();
            match E::read(self.list, definition) {
                Some(entry) => self.entries.push(entry),
                None => self.left_off.add(self.list, LeftOffReason::Nameless, || None),
            }
        }
    }

    /// Adds an entry, unless it repeats one. A name counts once; a URI may be listed several times on purpose.
    fn add_entry(&mut self, entry: E) {
        let is_new = entry.key().is_none_or(|key| self.keys.insert(key.into()));
        match (is_new, self.list) {
            (false, _) if self.repeats => {}
            (false, list @ (CatalogList::Tools | CatalogList::Prompts)) => {
                let key = || entry.key().map(str::to_owned);
                self.left_off.add(list, LeftOffReason::Repeated, key);
            }
            _ => self.entries.push(entry),
        }
    }
}

/// Leaves off the entries that exceed the limit for all definitions of a group. `room`: how many bytes are left for
/// them; what the entries take is subtracted. A small entry may still fit after one that does not.
pub(crate) fn within_room<E: Listed>(
    list: CatalogList,
    entries: Vec<E>,
    room: &mut usize,
    left_off: &mut LeftOff,
) -> Vec<E> {
    let mut fits = |entry: &E| match room.checked_sub(entry.definition().len()) {
        Some(rest) => {
            *room = rest;
            true
        }
        None => {
            left_off.add(list, LeftOffReason::Total, || raw::get_str(entry.definition(), list.key()));
            false
        }
    };
    entries.into_iter().filter(|entry| fits(entry)).collect()
}

/// Reads the entries of a list in `body`, as `Catalog::body` writes it. They were within the limits when they were
/// cached; those that are not, or have no name, are left out. `None` if `body` has no such list.
pub fn read_cached<E: Listed>(list: CatalogList, body: &Object) -> Option<Vec<E>> {
    let mut reader = ListReader::new(list);
    reader.add_elements(&raw::elements_of(&body.get(list.member())?)?);
    Some(reader.entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(tools: &str, next: Option<&str>) -> Raw {
        let next = next.map(|next| format!(r#","nextCursor":"{next}""#)).unwrap_or_default();
        format!(r#"{{"tools":[{tools}]{next}}}"#).into()
    }

    async fn read(pages: impl IntoIterator<Item = Raw>) -> (Vec<(Tool, Raw)>, LeftOff, bool) {
        let mut reader = ListReader::new(CatalogList::Tools);
        let mut is_over = false;
        for page in pages {
            assert!(!is_over);
            is_over = reader.read(page).await.unwrap().is_none();
        }
        let (tools, left_off) = reader.into_parts();
        (tools, left_off, is_over)
    }

    #[tokio::test]
    async fn definitions_are_kept_verbatim_and_nameless_tools_are_left_out() {
        let definition = r#"{"name":"a","inputSchema":{"$defs":{"x":1.0}},"zz":1e400,"annotations":{"readOnlyHint":true}}"#;
        let (tools, left_off, _) = read([page(&format!("{definition},{{}},3"), None)]).await;
        assert_eq!((tools.len(), &tools[0].1[..]), (1, definition.as_bytes()));
        assert!(tools[0].0.read_only && !left_off.lacks_named(CatalogList::Tools));
        assert_eq!(left_off.texts(), ["2 tools without a name"]);
    }

    #[tokio::test]
    async fn a_page_without_its_list_is_invalid() {
        let mut templates = ListReader::<ListEntry>::new(CatalogList::Templates);
        assert!(templates.read(r#"{"resourceTemplates":[]}"#.into()).await.is_ok());
        let error = ListReader::<ListEntry>::new(CatalogList::Templates).read("{}".into()).await.err();
        assert_eq!(error.as_deref(), Some("`resourceTemplates` is not a list"));
    }

    #[tokio::test]
    async fn the_first_ten_thousand_tools_are_kept_whatever_the_pages() {
        let tools = |from: usize, to: usize| {
            (from..to).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect::<Vec<_>>().join(",")
        };
        let (one, left_off, _) = read([page(&tools(0, MAX_TOOLS + 3), None)]).await;
        assert_eq!((one.len(), one[MAX_TOOLS - 1].0.name.as_str()), (MAX_TOOLS, "t9999"));
        assert!(
            left_off.texts()[0].starts_with(r#"3 tools after the first 10,000 ("t10000", "#),
            "{left_off:?}"
        );
        let (two, left_off, is_over) =
            read([page(&tools(0, 6000), Some("a")), page(&tools(6000, 10_000), Some("b"))]).await;
        assert_eq!(
            (two.len(), is_over, left_off.texts()),
            (MAX_TOOLS, true, vec!["the tools of further pages".to_owned()])
        );
    }

    fn names(tools: &[(Tool, Raw)]) -> Vec<&str> {
        tools.iter().map(|(tool, _)| tool.name.as_str()).collect()
    }

    #[tokio::test]
    async fn a_repeated_cursor_is_followed_while_it_brings_new_tools() {
        let tool = |name: &str| format!(r#"{{"name":"{name}"}}"#);
        // The same cursor until the last page; the same page again; cursors in a circle.
        let same = [page(&tool("a"), Some("x")), page(&tool("b"), Some("x")), page(&tool("c"), None)];
        let stuck = [page(&tool("a"), Some("x")), page(&tool("b"), Some("x")), page(&tool("b"), Some("x"))];
        let circle = [("a", "x"), ("b", "y"), ("c", "x"), ("b", "y")];
        let circle = circle.map(|(name, next)| page(&tool(name), Some(next)));
        for (pages, wanted) in [(same.to_vec(), "abc"), (stuck.to_vec(), "ab"), (circle.to_vec(), "abc")] {
            let (tools, left_off, is_over) = read(pages).await;
            assert_eq!((names(&tools).concat().as_str(), is_over), (wanted, true));
            assert!(left_off.is_empty(), "{left_off:?}");
        }
    }

    #[tokio::test]
    async fn of_two_tools_with_one_name_the_first_counts_and_the_name_is_told() {
        let both = page(r#"{"name":"a","x":1},{"name":"a","x":2},{"name":"b"}"#, None);
        let (tools, left_off, _) = read([both]).await;
        assert_eq!(names(&tools), ["a", "b"]);
        assert!(tools[0].1.ends_with(b"1}"), "the first one");
        assert_eq!(left_off.texts(), [r#"1 tool with the name of one before ("a")"#]);
    }

    #[tokio::test]
    async fn cursors_that_advance_for_ever_end_at_the_limit_of_tools() {
        let endless = |n: usize| page(&format!(r#"{{"name":"t{n}"}}"#), Some(&n.to_string()));
        let (tools, left_off, is_over) = read((0..MAX_TOOLS).map(endless)).await;
        assert_eq!((tools.len(), is_over), (MAX_TOOLS, true));
        assert_eq!(left_off.texts(), ["the tools of further pages"]);
        let empty = |n: usize| page("", Some(&n.to_string()));
        let (_, left_off, is_over) = read((0..MAX_REPEATED_PAGES).map(empty)).await;
        assert!(is_over && left_off.lacks_named(CatalogList::Tools));
    }

    #[tokio::test]
    async fn the_last_page_counts_against_the_bytes_of_a_list() {
        let half = |n| format!(r#"{{"name":"t{n}","x":"{}"}}"#, "x".repeat(1_000_000));
        let many = (0..20).map(half).collect::<Vec<_>>().join(",");
        let (tools, left_off, _) = read([page(&many, None)]).await;
        let bytes: usize = tools.iter().map(|(_, definition)| definition.len()).sum();
        assert!(bytes <= MAX_LIST_BYTES && tools.len() == 16, "{bytes}");
        assert!(left_off.texts()[0].starts_with("4 tools after the first 16 MiB"), "{left_off:?}");
    }

    #[tokio::test]
    async fn what_exceeds_a_limit_is_left_off_and_named() {
        let deep = format!(r#"{{"name":"deep","inputSchema":{}{}}}"#, "[".repeat(35_000), "]".repeat(35_000));
        let huge = format!(r#"{{"name":"huge","description":"{}"}}"#, "d".repeat(30_000_000));
        let (tools, left_off, _) =
            read([page(&format!(r#"{{"name":"a"}},{deep},{huge},{{"name":"b"}}"#), None)]).await;
        assert_eq!(tools.iter().map(|(tool, _)| tool.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let text = left_off.text().unwrap();
        assert!(text.contains(r#"("deep")"#) && text.contains(r#"("huge")"#), "{text}");
    }

    #[tokio::test]
    async fn a_name_or_uri_that_no_request_can_have_is_left_off() {
        let named = |length: usize| format!(r#"{{"name":"{}"}}"#, "é".repeat(length / 2));
        let (tools, left_off, _) = read([page(&format!("{},{}", named(1024), named(1026)), None)]).await;
        assert_eq!((tools.len(), tools[0].0.name.len()), (1, 1024));
        assert!(left_off.texts()[0].starts_with("1 tool with a `name` of more than 1 KiB"), "{left_off:?}");
        let uri = |length: usize| format!(r#"{{"uri":"a:{}"}}"#, "x".repeat(length - 2));
        let list = format!(r#"{{"resources":[{},{}]}}"#, uri(8192), uri(8193));
        let mut reader = ListReader::<ListEntry>::new(CatalogList::Resources);
        reader.read(list.into()).await.unwrap();
        let (entries, left_off) = reader.into_parts();
        assert_eq!((entries.len(), entries[0].key.len()), (1, 8192));
        assert!(left_off.texts()[0].contains("`uri` of more than 8 KiB"), "{left_off:?}");
    }

    #[test]
    fn all_lists_of_a_group_share_the_room() {
        let entry =
            |key: &str| ListEntry { key: key.to_owned(), definition: format!(r#"{{"uri":"{key}"}}"#).into() };
        let (mut room, mut left_off) = (25, LeftOff::default());
        let kept = within_room(
            CatalogList::Resources,
            vec![entry("a://1"), entry("a://2")],
            &mut room,
            &mut left_off,
        );
        assert_eq!((kept.len(), kept[0].key.as_str()), (1, "a://1"));
        assert!(left_off.texts()[0].contains(r#"("a://2")"#), "{left_off:?}");
    }
}
