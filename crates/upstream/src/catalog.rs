//! What is known of a server: what it says of itself, its tools and its other lists, as they were last read.
//!
//! # Theory of operation
//!
//! A [`Catalog`] is immutable. The task of a group replaces the catalog when it has read the lists again, and snapshots
//! share it. Definitions are the server's own bytes. A catalog from the cache leaves its definitions in their file
//! until they are needed.
//!
//! - `list_reader` reads the pages of a list, within the limits of `list_limits`.
//! - `server_info`, `tool`, `entries` and `other_lists` are the parts of a catalog.
//! - `overrides` applies the config to the definition of a tool.
//! - `reordering` decides whether a list differs from the known one by order only.
//! - `claims` finds the URIs that belong to the group although no list has to have them.
//! - `tool_findings` tells the user about rules that match no tool, and about tools that no list can have.

use base::blocking::{self, MAX_INLINE_BYTES};
use base::files::MAX_CACHED_BYTES;
use base::private_files::read_private;
use base::text::{summary, without_digits};
use config::tool_rules::{ToolOverride, ToolOverrides};
use entries::{ListEntries, ListEntry};
use list_limits::{CatalogList, LeftOff, LeftOffReason, MAX_LIST_BYTES};
use list_reader::{read_cached, within_room};
pub use other_lists::{ListHashes, OtherLists};
pub use server_info::ServerInfo;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
pub use tool::Tool;
use wire::Raw;
use wire::object::Object;

pub mod claims;
pub mod entries;
pub mod list_limits;
pub mod list_reader;
pub mod other_lists;
pub mod overrides;
pub(crate) mod reordering;
pub mod server_info;
pub mod tool;
pub(crate) mod tool_findings;

/// What is known of an upstream. The first use of the definitions, the claims or the other lists of a catalog from the
/// cache reads its file, which blocks.
#[derive(Debug)]
pub struct Catalog {
    /// The answer to `initialize` or `server/discover`.
    pub info: ServerInfo,
    /// Its tools, in its order.
    pub tools: Vec<Tool>,
    /// The places of the tools, sorted by their names.
    by_name: Box<[u32]>,
    /// What is left off the lists, because it exceeds a limit.
    pub left_off: LeftOff,
    /// What to know of the server although it works, such as what to change in its config.
    pub findings: Vec<String>,
    /// The bytes of all definitions.
    pub bytes: usize,
    /// The URIs that the group claims beside its lists. Computed when they are first needed.
    pub(super) claims: OnceLock<ListEntries>,
    /// The server's own bytes, or the file that has them.
    body: Arc<CatalogBody>,
    /// The catalog as lists show it, if the server lists its tools in another order each time.
    listed: Option<Arc<Self>>,
    /// When and how the catalog was read.
    pub source: CatalogSource,
    /// Whether the tools could not be read on the last connection. Those that were known before are used, or those of
    /// the pages that could be read.
    pub tools_unread: bool,
    /// The capabilities of the clients when the connection was made, if it was read from the server.
    pub offered: Option<Raw>,
    /// How long connecting took.
    pub connect_time: Option<Duration>,
    /// Hashes of the other lists.
    pub hashes: ListHashes,
}

/// Where the server's own bytes are.
#[derive(Debug)]
enum CatalogBody {
    /// In memory.
    Loaded(Definitions),
    /// In a file of the cache, which is read on demand.
    Cached { file: PathBuf, loaded: OnceLock<Option<Definitions>> },
    /// In another catalog. The overrides are applied on demand.
    Overridden {
        /// The catalog as the server has it.
        original: Arc<Catalog>,
        /// The tools, in the order of `Catalog::tools`.
        tools: Vec<OverriddenTool>,
    },
}

/// A tool of another catalog.
#[derive(Debug)]
struct OverriddenTool {
    /// Its place there.
    place: usize,
    /// What the config overrides.
    overrides: ToolOverride,
    /// The definition with the overrides. Made when it is first needed.
    definition: OnceLock<Raw>,
}

/// The server's own bytes.
#[derive(Debug, PartialEq, Eq)]
struct Definitions {
    /// The definitions of the tools, in the order of `Catalog::tools`.
    tools: Vec<Raw>,
    lists: OtherLists,
}

/// When and how a catalog was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogSource {
    /// In this process, from the server: a tool that it lacks does not exist.
    Live(Instant),
    /// By an earlier process. A cached catalog can answer a request but never reject one.
    Cached(SystemTime),
    /// By an earlier process that offered the server other client capabilities. A borrowed catalog answers like a
    /// cached one, until the lists are read from the server.
    Borrowed(SystemTime),
}

impl Catalog {
    /// A catalog that was just read from the server. What exceeds the limit for all definitions is left off.
    pub fn new(info: ServerInfo, tools: Vec<(Tool, Raw)>, lists: OtherLists, left_off: LeftOff) -> Self {
        let (mut left_off, mut room) = (left_off, MAX_LIST_BYTES);
        let tools = within_room(CatalogList::Tools, tools, &mut room, &mut left_off);
        let lists = lists.within_room(&mut room, &mut left_off);
        let (tools, definitions): (Vec<_>, _) = tools.into_iter().unzip();
        let (bytes, hashes) = (MAX_LIST_BYTES - room, lists.hashes());
        let body = CatalogBody::Loaded(Definitions { tools: definitions, lists }).into();
        let mut catalog = Self::of_body(info, tools, bytes, body, CatalogSource::Live(Instant::now()));
        (catalog.left_off, catalog.hashes) = (left_off, hashes);
        catalog
    }

    /// A catalog from the cache. `file` has the server's own bytes, `bytes` of them, as `body` wrote them.
    pub fn cached(
        info: ServerInfo,
        tools: Vec<Tool>,
        file: PathBuf,
        bytes: usize,
        source: CatalogSource,
    ) -> Self {
        let body = CatalogBody::Cached { file, loaded: OnceLock::new() }.into();
        Self::of_body(info, tools, bytes, body, source)
    }

    fn of_body(
        info: ServerInfo,
        tools: Vec<Tool>,
        bytes: usize,
        body: Arc<CatalogBody>,
        source: CatalogSource,
    ) -> Self {
        Self {
            info,
            by_name: by_name(&tools),
            tools,
            left_off: LeftOff::default(),
            findings: Vec::new(),
            bytes,
            claims: OnceLock::new(),
            body,
            listed: None,
            source,
            tools_unread: false,
            offered: None,
            connect_time: None,
            hashes: ListHashes::default(),
        }
    }

    /// Notes that the tools could not be read, for this reason. Such a catalog rejects no request.
    pub(super) fn set_tools_unread(&mut self, why: &str) {
        self.source = CatalogSource::Cached(SystemTime::now());
        self.tools_unread = true;
        let finding =
            format!("{why}; the tools that are known are used, and a call by name reaches the server");
        self.findings.push(finding);
    }

    /// Returns this catalog for a connection on which the tools could not be read: `read` has what could be.
    pub(super) fn kept_for(&self, read: &Self) -> Self {
        let read_at = self.age().and_then(|age| SystemTime::now().checked_sub(age));
        let read_at = read_at.unwrap_or(SystemTime::UNIX_EPOCH);
        let (tools, source) = (self.tools.clone(), CatalogSource::Cached(read_at));
        let mut kept = Self::of_body(read.info.clone(), tools, self.bytes, self.body.clone(), source);
        kept.listed.clone_from(&self.listed);
        kept.left_off.clone_from(&self.left_off);
        kept.left_off.add_unknown(CatalogList::Tools, LeftOffReason::Unread);
        kept.findings.clone_from(&read.findings);
        kept.offered.clone_from(&read.offered);
        (kept.connect_time, kept.hashes, kept.tools_unread) = (self.connect_time, self.hashes, true);
        kept
    }

    /// Returns the catalog as clients see it: with the overrides of the config. If an override gives a tool's name to
    /// another tool, the catalog lacks the first one.
    pub fn overridden(self: &Arc<Self>, overrides: &ToolOverrides) -> Arc<Self> {
        if overrides.is_empty() {
            return self.clone();
        }
        let (mut tools, mut places) = (Vec::new(), Vec::new());
        for (place, tool) in self.tools.iter().enumerate() {
            let Some(name) = overrides.shown_name(&tool.name) else { continue };
            let of_tool = overrides.of(&tool.name).cloned().unwrap_or_default();
            let description = of_tool.description.as_deref().map(summary);
            let summary = description.unwrap_or_else(|| tool.summary.clone());
            tools.push(Tool { name: name.to_owned(), summary, ..tool.clone() });
            places.push(OverriddenTool { place, overrides: of_tool, definition: OnceLock::new() });
        }
        let mut catalog =
            self.with_tools(tools, CatalogBody::Overridden { original: self.clone(), tools: places });
        catalog.listed = self.listed.as_ref().map(|listed| listed.overridden(overrides));
        Arc::new(catalog)
    }

    /// Returns a catalog of the same read with other tools.
    fn with_tools(&self, tools: Vec<Tool>, body: CatalogBody) -> Self {
        let mut catalog = Self::of_body(self.info.clone(), tools, self.bytes, body.into(), self.source);
        catalog.left_off.clone_from(&self.left_off);
        catalog.findings.clone_from(&self.findings);
        catalog.offered.clone_from(&self.offered);
        (catalog.connect_time, catalog.hashes) = (self.connect_time, self.hashes);
        catalog.tools_unread = self.tools_unread;
        catalog
    }

    /// Has lists show the tools as `known` lists them, if nothing but the order of tools, members, elements or words is
    /// different, so that no prompt cache of a client is void. Reads the definitions of `known`, which may block.
    pub(super) fn keep_listing_of(&mut self, known: &Self) {
        let known = known.listed.as_deref().unwrap_or(known);
        // Before the definitions are read.
        if self.info.version != known.info.version || self.tools.len() != known.tools.len() {
            return;
        }
        let (Some(ours), Some(theirs)) = (self.loaded(), known.loaded()) else { return };
        if ours.tools != theirs.tools && reordering::is_reordered(self, known) {
            let body = Definitions { tools: theirs.tools.clone(), lists: ours.lists.clone() };
            let listed = self.with_tools(known.tools.clone(), CatalogBody::Loaded(body));
            self.listed = Some(Arc::new(listed));
        }
    }

    /// Returns the catalog as lists show it: with the order and the bytes in which the tools were first read.
    pub fn as_listed(self: &Arc<Self>) -> &Arc<Self> {
        self.listed.as_ref().unwrap_or(self)
    }

    /// Sets how long connecting took.
    pub(super) fn set_connect_time(&mut self, took: Option<Duration>) {
        self.connect_time = took;
        if let Some(listed) = self.listed.as_mut().and_then(Arc::get_mut) {
            listed.connect_time = took;
        }
    }

    /// Returns the catalog as the server has it.
    pub fn original(self: &Arc<Self>) -> &Arc<Self> {
        self.overridden_catalog().unwrap_or(self)
    }

    /// Returns the catalog that this one alters.
    pub(super) fn overridden_catalog(&self) -> Option<&Arc<Self>> {
        match &*self.body {
            CatalogBody::Overridden { original, .. } => Some(original),
            CatalogBody::Loaded(_) | CatalogBody::Cached { .. } => None,
        }
    }

    /// Returns the definition of a tool as the server has it, by its place in `tools`; `None` if there is no such
    /// place, or if the cache has lost the definition.
    pub fn original_definition(&self, index: usize) -> Option<&Raw> {
        match &*self.body {
            CatalogBody::Overridden { original, tools } => original.definition(tools.get(index)?.place),
            CatalogBody::Loaded(_) | CatalogBody::Cached { .. } => self.definition(index),
        }
    }

    /// Returns the place in `tools` of the tool of exactly this name. The first one of this name counts.
    pub fn place(&self, name: &str) -> Option<usize> {
        let of = |place: &u32| self.tools[*place as usize].name.as_str();
        let first = self.by_name.partition_point(|place| of(place) < name);
        let place = self.by_name.get(first).filter(|place| of(place) == name)?;
        Some(*place as usize)
    }

    /// Returns the tool of exactly this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(self.place(name)?)
    }

    /// Returns the tools with their definitions, to which the overrides are applied if the catalog has some; `None` if
    /// the cache has lost them.
    pub fn definitions(&self) -> Option<impl Iterator<Item = (&Tool, &Raw)>> {
        self.loaded()?;
        let tools = self.tools.iter().enumerate();
        Some(tools.filter_map(|(place, tool)| Some((tool, self.definition(place)?))))
    }

    /// Returns the definition of a tool, by its place in `tools`. It is verbatim, unless the catalog has overrides for
    /// the tool. `None` if there is no such place, or if the cache has lost the definition.
    pub fn definition(&self, place: usize) -> Option<&Raw> {
        let CatalogBody::Overridden { original, tools } = &*self.body else {
            return self.loaded()?.tools.get(place);
        };
        let OverriddenTool { place, overrides, definition } = tools.get(place)?;
        let original = original.definition(*place)?;
        Some(definition.get_or_init(|| overrides::apply(original, overrides)))
    }

    /// Returns the resources, templates and prompts; `None` if the cache has lost them.
    pub fn lists(&self) -> Option<&OtherLists> {
        Some(&self.loaded()?.lists)
    }

    /// Returns the server's own bytes as one JSON object, for the cache; `None` if the cache has lost them.
    pub fn body(&self) -> Option<String> {
        let body = self.loaded()?;
        let array = |raws: &mut dyn Iterator<Item = &Raw>| {
            raws.map(|raw| String::from_utf8_lossy(raw)).collect::<Vec<_>>().join(",")
        };
        let listed = |list: &ListEntries| array(&mut list.iter().map(|entry| &entry.definition));
        let OtherLists { resources, templates, prompts, skills } = &body.lists;
        Some(format!(
            r#"{{"tools":[{}],"resources":[{}],"resourceTemplates":[{}],"prompts":[{}],"skills":[{}]}}"#,
            array(&mut body.tools.iter()),
            listed(resources),
            listed(templates),
            listed(prompts),
            listed(skills)
        ))
    }

    fn loaded(&self) -> Option<&Definitions> {
        match &*self.body {
            CatalogBody::Overridden { original, .. } => original.loaded(),
            CatalogBody::Loaded(body) => Some(body),
            CatalogBody::Cached { file, loaded } => {
                loaded.get_or_init(|| read_body(file, self.tools.len())).as_ref()
            }
        }
    }

    /// The size that decides whether work on the definitions may be done on the thread of the runtime
    /// ([`blocking::run_on`]): a file that has to be read first may hang.
    pub fn work_bytes(&self) -> usize {
        match &*self.body {
            CatalogBody::Overridden { original, .. } => original.work_bytes(),
            CatalogBody::Cached { loaded, .. } if loaded.get().is_none() => {
                self.bytes.max(MAX_INLINE_BYTES + 1)
            }
            CatalogBody::Cached { .. } | CatalogBody::Loaded(_) => self.bytes,
        }
    }

    /// Returns how long ago the catalog was read. `None`: not known, because the clock was set back since.
    pub fn age(&self) -> Option<Duration> {
        match self.source {
            CatalogSource::Live(at) => Some(at.elapsed()),
            CatalogSource::Cached(at) | CatalogSource::Borrowed(at) => at.elapsed().ok(),
        }
    }

    /// Returns whether both have the same content, whenever they were read. A cached catalog is compared by what is
    /// known without its file.
    pub fn is_same(&self, other: &Self) -> bool {
        self.info == other.info
            && self.tools == other.tools
            && self.left_off == other.left_off
            && have_same_words(&self.findings, &other.findings)
            && match (&*self.body, &*other.body) {
                (CatalogBody::Loaded(a), CatalogBody::Loaded(b)) => a == b,
                _ => true,
            }
    }
}

/// Returns whether findings differ in nothing but numbers, because a server may write the time.
fn have_same_words(ours: &[String], theirs: &[String]) -> bool {
    let words =
        |findings: &[String]| findings.iter().map(|finding| without_digits(finding)).collect::<Vec<_>>();
    words(ours) == words(theirs)
}

impl Drop for Catalog {
    fn drop(&mut self) {
        if self.bytes > MAX_INLINE_BYTES {
            let empty = Definitions { tools: Vec::new(), lists: OtherLists::default() };
            let body = std::mem::replace(&mut self.body, CatalogBody::Loaded(empty).into());
            blocking::discard((std::mem::take(&mut self.tools), body, self.claims.take()));
        }
    }
}

/// The places of tools, sorted by their names.
fn by_name(tools: &[Tool]) -> Box<[u32]> {
    let mut places: Box<[u32]> = (0..u32::try_from(tools.len()).unwrap_or(u32::MAX)).collect();
    // The sort is stable.
    places.sort_by(|a, b| tools[*a as usize].name.cmp(&tools[*b as usize].name));
    places
}

/// Reads a file of the cache; `None` if it cannot be read or does not have this number of tools.
fn read_body(file: &Path, tools: usize) -> Option<Definitions> {
    let text = read_private(file, MAX_CACHED_BYTES);
    let text = text.inspect_err(|error| tracing::debug!(%error, "failed to read a cached catalog"));
    let lists = Object::parse(&Raw::from(text.ok()?))?;
    let entries = |list| Some(ListEntries::from(read_cached::<ListEntry>(list, &lists)?));
    let body = Definitions {
        tools: read_cached(CatalogList::Tools, &lists)?,
        lists: OtherLists {
            resources: entries(CatalogList::Resources)?,
            templates: entries(CatalogList::Templates)?,
            prompts: entries(CatalogList::Prompts)?,
            skills: entries(CatalogList::Skills)?,
        },
    };
    (body.tools.len() == tools).then_some(body)
}
