//! Puts entries of a file's old text into its present text, as they were written there: with the comments in them, those
//! above them and those behind them (`comments`). As in `edit`, the new text must have the content that was wanted. If it
//! has not, the entries come without comments.

use std::fmt::Display;
use std::path::Path;

use jsonc_parser::cst::{CstComment, CstInputValue, CstNode, CstObjectProp, CstRootNode};
use toml_edit::{Entry, Item, Table, TableLike};

use super::comments::{comments_above, comments_in, counts};
use super::edit::{
    ObjectEdit, edit, is_as_wanted, object_at, parse_json, properties_by_name, table_at, with_line_ends_of,
};
use crate::source::{literal, parse_toml, split_mark, value_at};
use config::load::{PARSE_OPTIONS, is_toml};

/// What stands in place of an entry's name and behind its value until its text is there.
const MARK: &str = "dynamic-mcp-puts-back-";

/// Entries that come back to one object of a file.
#[derive(Clone, Debug)]
pub(crate) struct ReturningEntries {
    /// The keys that lead to the object. Missing objects are made.
    pub keys: Vec<String>,
    /// A member that is removed. The entries take its place.
    pub remove: Option<String>,
    /// The names of the entries.
    pub names: Vec<String>,
}

impl ReturningEntries {
    /// Creates entries that take the place of none.
    pub(crate) fn new(keys: &[String], names: &[String]) -> Self {
        Self { keys: keys.to_vec(), remove: None, names: names.to_vec() }
    }
}

/// Returns `text` with these entries of the `old` text. Nothing is written: `path` only says which format the texts
/// have. Names that the old text does not have are ignored. If the comments cannot be put back as they were, the
/// entries come without them.
///
/// # Errors
///
/// Says why the text cannot be edited so.
pub(crate) fn put_back(
    path: &Path,
    text: &str,
    old: &str,
    places: &[ReturningEntries],
) -> Result<String, String> {
    let content = |text: &str| literal(path, text).map_err(|error| error.to_string());
    let old_root = content(old)?;
    let edits: Vec<ObjectEdit> = places
        .iter()
        .map(|place| {
            let known = value_at(&old_root, &place.keys);
            let entry = |name: &String| Some((name.clone(), known?.get(name)?.clone()));
            let set = place.names.iter().filter_map(entry).collect();
            ObjectEdit { keys: place.keys.clone(), remove: place.remove.iter().cloned().collect(), set }
        })
        .collect();
    let (mark, body) = split_mark(text);
    let old = old.trim_start_matches('\u{feff}');
    let with_comments = match is_toml(path) {
        true => put_back_toml(body, old, places),
        false => put_back_json(body, old, places),
    };
    let is_wanted = |edited: &String| is_as_wanted(path, body, edited, &edits) == Ok(true);
    match with_comments.filter(is_wanted) {
        Some(text) => Ok(format!("{mark}{text}")),
        None => edit(path, text, &edits),
    }
}

/// The text of an entry, as the file has it.
struct EntryText {
    /// The comments above it, and those before it on its line.
    above: Vec<String>,
    /// Its name, in quotation marks.
    name: String,
    /// Its value, with the comments in it.
    value: String,
    /// The comments behind it on its line.
    behind: Vec<String>,
}

impl EntryText {
    fn new(property: &CstObjectProp) -> Option<Self> {
        let last = property.trailing_comma().map_or_else(|| property.clone().into(), CstNode::from);
        Some(Self {
            above: comments_above(property).iter().map(CstComment::raw_value).collect(),
            name: CstNode::from(property.name()?).to_string(),
            value: property.value()?.to_string(),
            behind: last.trailing_comments_same_line().map(|comment| comment.raw_value()).collect(),
        })
    }

    /// Writes the text up to the end of the entry, with the entry in the place of its marks, and returns what follows.
    fn replace_mark<'t>(
        &self,
        out: &mut String,
        text: &'t str,
        mark: &str,
        line_end: &str,
    ) -> Option<&'t str> {
        let (before, rest) = text.split_once(&format!("\"{mark}\""))?;
        let (between, after) = rest.split_once(mark)?;
        out.push_str(before);
        let line = out.rsplit('\n').next().unwrap_or_default();
        let (is_own_line, indent) = match line.trim().is_empty() {
            true => (true, line.to_owned()),
            false => (false, String::new()),
        };
        for comment in &self.above {
            out.push_str(comment);
            match is_own_line || comment.starts_with("//") {
                true => out.extend([line_end, &indent]),
                false => out.push(' '),
            }
        }
        out.extend([&*self.name, between]);
        let after = match after.strip_prefix(',') {
            Some(after) => {
                out.push(',');
                after
            }
            None => after,
        };
        self.behind.iter().for_each(|comment| out.extend([" ", comment]));
        let is_open = self.behind.last().is_some_and(|comment| comment.starts_with("//"));
        if is_open && !after.starts_with(['\r', '\n']) {
            out.push_str(line_end);
        }
        Some(after)
    }
}

/// Puts the entries in the places of their marks, which are numbered.
fn replace_marks(entries: &[EntryText], marked: &str) -> Option<String> {
    let line_end = if marked.contains("\r\n") { "\r\n" } else { "\n" };
    let (mut out, mut rest) = (String::new(), marked);
    for _ in entries {
        let (_, from_number) = rest.split_once(MARK)?;
        let (number, _) = from_number.split_once('-')?;
        let entry = entries.get(number.parse::<usize>().ok()?)?;
        rest = entry.replace_mark(&mut out, rest, &mark(number), line_end)?;
    }
    out.push_str(rest);
    Some(out)
}

fn mark(number: impl Display) -> String {
    format!("{MARK}{number}-")
}

fn put_back_json(text: &str, old: &str, places: &[ReturningEntries]) -> Option<String> {
    if text.contains(MARK) || old.contains(MARK) {
        return None;
    }
    let root = parse_json(text).ok()?;
    let old_root = CstRootNode::parse(old, &PARSE_OPTIONS).ok()?;
    let mut entries = Vec::new();
    let collected = |root: &CstRootNode| counts(comments_in(root));
    let (in_text, in_old) = (collected(&root), collected(&old_root));
    for place in places {
        let object = object_at(&root, &place.keys).ok()?;
        let old_object = old_root.object_value();
        let old_object = old_object
            .and_then(|root| place.keys.iter().try_fold(root, |object, key| object.object_value(key)));
        let mut index = object.properties().len();
        let mut removed = place.remove.as_ref().and_then(|name| object.get(name));
        let old_properties = old_object.as_ref().map(properties_by_name).unwrap_or_default();
        for property in place.names.iter().filter_map(|name| old_properties.get(name)) {
            let mut entry = EntryText::new(property)?;
            // Those that never left are there.
            entry.above.retain(|comment| in_text.get(comment) < in_old.get(comment));
            let mark = mark(entries.len());
            // A number is written as it is.
            let value = CstInputValue::Number(format!("{}{mark}", entry.value));
            match removed.take() {
                Some(removed) => {
                    index = removed.property_index();
                    removed.replace_with(&mark, value);
                }
                None => drop(object.insert(index, &mark, value)),
            }
            index += 1;
            entries.push(entry);
        }
        if let Some(removed) = removed {
            removed.remove();
        }
    }
    replace_marks(&entries, &root.to_string())
}

fn put_back_toml(text: &str, old: &str, places: &[ReturningEntries]) -> Option<String> {
    let (mut document, old_document) = (parse_toml(text).ok()?, parse_toml(old).ok()?);
    for place in places {
        let (table, _) = table_at(&mut document, &place.keys).ok()?;
        let old_table =
            place.keys.iter().try_fold(old_document.as_table() as &dyn TableLike, |table, key| {
                table.get(key)?.as_table_like()
            })?;
        let removed = place.remove.as_ref().and_then(|name| table.remove(name));
        let removed = removed.as_ref().and_then(Item::as_table);
        // Our entry has had the comment above the first one.
        let mut above = removed.and_then(comment_above);
        for (key, item) in place.names.iter().filter_map(|name| old_table.get_key_value(name)) {
            let mut item = item.clone();
            if let Item::Table(entry) = &mut item {
                set_position(entry, removed.and_then(Table::position));
                let known = comment_above(entry).unwrap_or_default();
                match above.take() {
                    Some(above) if above.contains(known.trim()) => entry.decor_mut().set_prefix(above),
                    // A comment that the user wrote since.
                    Some(above) if above.contains('#') && !old.contains(above.trim()) => {
                        entry.decor_mut().set_prefix(format!("{above}{known}"));
                    }
                    _ => {}
                }
            }
            match table.entry_format(key) {
                Entry::Occupied(mut known) => drop(known.insert(item)),
                Entry::Vacant(free) => drop(free.insert(item).is_none()),
            }
        }
    }
    Some(with_line_ends_of(text, document.to_string()))
}

/// Returns what stands above a table: its comment and empty lines.
fn comment_above(table: &Table) -> Option<String> {
    table.decor().prefix()?.as_str().map(str::to_owned)
}

/// Puts a table and those in it to one position of the document; of one position, their order counts.
fn set_position(table: &mut Table, position: Option<isize>) {
    table.set_position(position);
    for (_, item) in table.iter_mut() {
        if let Item::Table(table) = item {
            set_position(table, position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::comments::{comments, missing_comments};

    fn returning(keys: &[&str], names: &[&str]) -> ReturningEntries {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ReturningEntries { keys: owned(keys), remove: Some("dyn".to_owned()), names: owned(names) }
    }

    #[test]
    fn entries_of_json_come_back_with_their_comments() {
        let old = "{\n  \"mcpServers\": { // all\n    // of work\n    // (two lines)\n    \"a\": { \"command\": \"a\", /* in */ \"args\": [] }, // first\n\n    // heading\n\n    /* of b */ \"b\\u0062\": {\"command\": \"b\"} // last\n  }\n}\n";
        let now = "{\n  \"mcpServers\": { // all\n    // heading\n    \"dyn\": {},\n    \"new\": {\"command\": \"n\"} // mine\n  }\n}\n";
        let places = [returning(&["mcpServers"], &["a", "bb"])];
        let text = put_back(Path::new("x.json"), now, old, &places).unwrap();
        let wanted = "{\n  \"mcpServers\": { // all\n    // heading\n    // of work\n    // (two lines)\n    \"a\": { \"command\": \"a\", /* in */ \"args\": [] }, // first\n    /* of b */\n    \"b\\u0062\": {\"command\": \"b\"}, // last\n    \"new\": {\"command\": \"n\"} // mine\n  }\n}\n";
        assert_eq!(text, wanted);
        let alone = put_back(Path::new("x.json"), "", old, &[returning(&["mcpServers"], &["bb"])]).unwrap();
        assert_eq!(
            missing_comments(vec!["// last".to_owned()], comments(Path::new("x.json"), &alone)),
            [""; 0]
        );
        let in_line = put_back(Path::new("x.json"), "{\"mcpServers\": {\"z\": {}}}", old, &places).unwrap();
        assert_eq!(comments(Path::new("x.json"), &in_line).len(), 6, "{in_line}");
    }

    #[test]
    fn entries_of_toml_come_back_with_their_comments() {
        let old = "# Codex\nmodel = \"m\"\n\n# My servers\n[mcp_servers.a]\ncommand = \"a\" # first\n\n# of its env\n[mcp_servers.a.env]\nX = \"#y\"\n\n# Second\n[mcp_servers.b]\ncommand = 'b'\n\n[tui]\nx   = [ 1,2 ]\n";
        let now = "# Codex\nmodel = \"n\"\n\n# My servers\n[mcp_servers.dyn]\ncommand = \"d\"\n\n[tui]\nx   = [ 1,2 ]\n";
        let path = Path::new("c.toml");
        let text = put_back(path, now, old, &[returning(&["mcp_servers"], &["a", "b"])]).unwrap();
        assert_eq!(text, old.replace("\"m\"", "\"n\""));
        assert_eq!(comments(path, &text), ["# Codex", "# My servers", "# first", "# of its env", "# Second"]);
        let alone = put_back(path, "", old, &[returning(&["mcp_servers"], &["b"])]).unwrap();
        assert_eq!(alone.trim(), "# Second\n[mcp_servers.b]\ncommand = 'b'");
    }
}
