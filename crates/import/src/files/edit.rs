//! Edits of a file's members, with its comments and its formatting kept.
//!
//! Both formats are edited as syntax trees that have every character of the file. What an edit changed is checked
//! afterwards: the edited text must parse to the content that was wanted, or else it is not used.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jsonc_parser::cst::{
    CstArray, CstComment, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode,
};
use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::comments::comments_above;
use crate::source::{item_value, literal, parse_toml, split_mark};
use config::load::{PARSE_OPTIONS, is_toml};

/// Changes of the members of one object in a file.
#[derive(Clone, Debug, Default)]
pub struct ObjectEdit {
    /// The keys that lead to the object. Missing objects are made.
    pub keys: Vec<String>,
    /// The members to remove.
    pub remove: Vec<String>,
    /// The members to set, in their order.
    pub set: Vec<(String, Value)>,
}

impl ObjectEdit {
    /// Creates an edit that sets members and removes none.
    pub fn set(keys: Vec<String>, set: Vec<(String, Value)>) -> Self {
        Self { keys, remove: Vec::new(), set }
    }
}

/// Returns the text of a file with these edits. Nothing is written: `path` only says which format the text has. An
/// empty text is an empty object. The comments above members that are removed stay.
///
/// # Errors
///
/// Says why the text cannot be edited so.
pub fn edit(path: &Path, text: &str, edits: &[ObjectEdit]) -> Result<String, String> {
    edited_text(path, text, edits, false)
}

/// Edits like [`edit`], and removes these comments of JSON, so that `--undo` can put them back with their members.
///
/// # Errors
///
/// As [`edit`].
pub(crate) fn edit_with_comments(path: &Path, text: &str, edits: &[ObjectEdit]) -> Result<String, String> {
    edited_text(path, text, edits, true)
}

fn edited_text(path: &Path, text: &str, edits: &[ObjectEdit], with_comments: bool) -> Result<String, String> {
    let (mark, body) = split_mark(text);
    let edited = match is_toml(path) {
        true => edit_toml(body, edits)?,
        false => edit_json(body, edits, with_comments)?,
    };
    if !is_as_wanted(path, body, &edited, edits)? {
        return Err("its content would not be as wanted".to_owned());
    }
    Ok(format!("{mark}{edited}"))
}

/// Returns whether `edited` has the content that these edits of `text` must give.
///
/// # Errors
///
/// Says why one of the texts cannot be read.
pub(crate) fn is_as_wanted(
    path: &Path,
    text: &str,
    edited: &str,
    edits: &[ObjectEdit],
) -> Result<bool, String> {
    let content = |text: &str| literal(path, text).map_err(|error| error.to_string());
    let (mut wanted, mut found) = (content(text)?, content(edited)?);
    edits.iter().for_each(|edit| apply_to_value(&mut wanted, edit));
    // In TOML, a table whose last member is removed may be gone.
    for keys in edits.iter().map(|edit| &edit.keys).filter(|_| is_toml(path)) {
        remove_empty(&mut wanted, keys);
        remove_empty(&mut found, keys);
    }
    Ok(wanted == found)
}

/// Removes the object to which these keys lead, if it is empty, and then those around it.
fn remove_empty(root: &mut Value, keys: &[String]) {
    let (Some((key, inner)), Some(members)) = (keys.split_first(), root.as_object_mut()) else { return };
    let Some(value) = members.get_mut(key) else { return };
    remove_empty(value, inner);
    if value.as_object().is_some_and(Map::is_empty) {
        members.shift_remove(key);
    }
}

fn edit_json(text: &str, edits: &[ObjectEdit], with_comments: bool) -> Result<String, String> {
    let root = parse_json(text)?;
    for edit in edits {
        apply(&object_at(&root, &edit.keys)?, edit, with_comments);
    }
    Ok(root.to_string())
}

/// Parses JSON with comments. An empty file is an empty object.
///
/// # Errors
///
/// Says why it cannot be parsed.
pub(super) fn parse_json(text: &str) -> Result<CstRootNode, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    CstRootNode::parse(text, &PARSE_OPTIONS).map_err(|error| error.to_string())
}

/// Returns the object to which these keys lead. Makes those that are missing.
///
/// # Errors
///
/// Says which of them is something else than an object.
pub(super) fn object_at(root: &CstRootNode, keys: &[String]) -> Result<CstObject, String> {
    let object = root.object_value().ok_or("the file is not an object")?;
    keys.iter().try_fold(object, |object, key| {
        object.object_value_or_create(key).ok_or_else(|| format!("`{key}` is not an object"))
    })
}

fn apply(object: &CstObject, edit: &ObjectEdit, with_comments: bool) {
    let removed: HashSet<&str> = edit.remove.iter().map(String::as_str).collect();
    // A name may be there twice.
    let is_removed = |property: &CstObjectProp| {
        property.decoded_name().is_some_and(|name| removed.contains(name.as_str()))
    };
    let properties: Vec<_> = object.properties().into_iter().filter(is_removed).collect();
    // From the end, because the tree counts again what stands behind a node that is removed.
    for property in properties.iter().rev().filter(|_| with_comments) {
        comments_above(property).into_iter().rev().for_each(remove_comment);
    }
    properties.into_iter().for_each(CstObjectProp::remove);
    set_members(object, edit.set.iter().map(|(name, value)| (name, value)));
}

fn set_members<'v>(object: &CstObject, members: impl Iterator<Item = (&'v String, &'v Value)>) {
    let mut known = properties_by_name(object);
    for (name, value) in members {
        match known.get(name) {
            Some(property) => change(property, value),
            None => drop(known.insert(name.clone(), object.append(name, input(value)))),
        }
    }
}

/// Returns the members of an object by their names. Of a name that is there twice, the first one counts.
pub(super) fn properties_by_name(object: &CstObject) -> HashMap<String, CstObjectProp> {
    let mut known = HashMap::new();
    for property in object.properties() {
        if let Some(name) = property.decoded_name() {
            known.entry(name).or_insert(property);
        }
    }
    known
}

/// Gives a member a value. What the old value has of it stays as it is written, with the comments there.
fn change(property: &CstObjectProp, value: &Value) {
    let Some(node) = property.value() else { return property.set_value(input(value)) };
    if let (Some(object), Value::Object(members)) = (node.as_object(), value) {
        for member in object.properties() {
            if member.decoded_name().is_none_or(|name| !members.contains_key(&name)) {
                member.remove();
            }
        }
        return set_members(&object, members.iter());
    }
    let is_done = match (node.as_array(), value) {
        (Some(array), Value::Array(list)) => change_list(&array, list),
        _ => value_of(&node).as_ref() == Some(value),
    };
    if !is_done {
        property.set_value(input(value));
    }
}

/// Removes and appends elements so that a list is as wanted. Returns false if that is not enough.
fn change_list(array: &CstArray, wanted: &[Value]) -> bool {
    let elements: Vec<_> =
        array.elements().into_iter().map(|element| (value_of(&element), element)).collect();
    // Where as many strings stand, each is changed where it stands.
    let pairs =
        elements.iter().zip(wanted).map(|((_, element), wanted)| (element.as_string_lit(), wanted.as_str()));
    let pairs: Option<Vec<_>> = pairs.map(|(element, wanted)| Some((element?, wanted?))).collect();
    if let Some(pairs) = pairs.filter(|_| elements.len() == wanted.len()) {
        for (element, wanted) in pairs
            .into_iter()
            .filter(|(element, wanted)| element.decoded_value().ok().as_deref() != Some(*wanted))
        {
            element.set_raw_value(Value::from(wanted).to_string());
        }
        return true;
    }
    let is_wanted = |value: &Option<Value>| value.as_ref().is_some_and(|value| wanted.contains(value));
    let staying: Vec<_> = elements.iter().filter(|(value, _)| is_wanted(value)).collect();
    let stays = |(at, value): (usize, &Value)| staying[at].0.as_ref() == Some(value);
    if staying.len() > wanted.len() || !wanted.iter().take(staying.len()).enumerate().all(stays) {
        return false;
    }
    let count = staying.len();
    elements.into_iter().filter(|(value, _)| !is_wanted(value)).for_each(|(_, element)| element.remove());
    wanted[count..].iter().for_each(|value| drop(array.append(input(value))));
    true
}

/// Returns the value that a node of JSON stands for.
fn value_of(node: &CstNode) -> Option<Value> {
    let wrapped = literal(Path::new("value.json"), &format!("{{\"value\": {node}}}")).ok()?;
    wrapped.get("value").cloned()
}

/// Removes a comment, and its line if it stands alone in it.
fn remove_comment(comment: CstComment) {
    if let Some(space) = comment.previous_sibling().and_then(|node| node.as_whitespace()) {
        space.remove();
    }
    let is_alone = comment.next_sibling().is_none_or(|next| next.is_newline());
    if let Some(line_end) = comment.previous_sibling().filter(|_| is_alone).and_then(|node| node.as_newline())
    {
        line_end.remove();
    }
    comment.remove();
}

/// What an edit makes of the content of a file.
fn apply_to_value(root: &mut Value, edit: &ObjectEdit) {
    let mut value = root;
    for key in &edit.keys {
        let Some(object) = value.as_object_mut() else { return };
        value = object.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
    }
    let Some(object) = value.as_object_mut() else { return };
    let removed: HashSet<&String> = edit.remove.iter().collect();
    object.retain(|name, _| !removed.contains(name));
    object.extend(edit.set.iter().cloned());
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(*bool),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

fn edit_toml(text: &str, edits: &[ObjectEdit]) -> Result<String, String> {
    let mut document = parse_toml(text)?;
    for edit in edits {
        let (table, is_inline) = table_at(&mut document, &edit.keys)?;
        apply_to_table(table, is_inline, edit);
    }
    Ok(with_line_ends_of(text, document.to_string()))
}

/// Returns the table to which these keys lead, and whether it is an inline table. Makes those that are missing.
///
/// # Errors
///
/// Says which of them is something else than a table.
pub(super) fn table_at<'d>(
    document: &'d mut DocumentMut,
    keys: &[String],
) -> Result<(&'d mut dyn TableLike, bool), String> {
    let mut table: &mut dyn TableLike = document.as_table_mut();
    let mut is_inline = false;
    for key in keys {
        let item = table.entry(key).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        is_inline = item.is_inline_table();
        table = item.as_table_like_mut().ok_or_else(|| format!("`{key}` is not a table"))?;
    }
    Ok((table, is_inline))
}

/// The edited text with the line ends of Windows, if the text has no others: TOML is written without them.
pub(crate) fn with_line_ends_of(text: &str, edited: String) -> String {
    let count = text.matches('\n').count();
    match count > 0 && text.matches("\r\n").count() == count {
        true => edited.replace("\r\n", "\n").replace('\n', "\r\n"),
        false => edited,
    }
}

fn apply_to_table(table: &mut dyn TableLike, is_inline: bool, edit: &ObjectEdit) {
    // The comment above the first one may be about all of them.
    let mut comment = None;
    let mut position = None;
    for name in &edit.remove {
        let Some(item) = table.remove(name) else { continue };
        if let (Item::Table(removed), None) = (&item, &position) {
            comment = removed.decor().prefix().cloned();
            position = Some(removed.position());
        }
    }
    for (name, value) in &edit.set {
        let Value::Object(members) = value else {
            table.insert(name, toml_value(value).map_or(Item::None, Item::Value));
            continue;
        };
        if let Some(known) = table.get_mut(name).and_then(Item::as_table_like_mut) {
            change_table(known, members);
            continue;
        }
        if is_inline {
            table.insert(name, Item::Value(toml_edit::Value::InlineTable(members_of(members))));
            continue;
        }
        let mut new: Table = members_of(members);
        if let Some(prefix) = comment.take() {
            new.decor_mut().set_prefix(prefix);
        }
        if let Some(position) = position.take() {
            new.set_position(position);
        }
        table.insert(name, Item::Table(new));
    }
}

/// Gives a table these members. What stays of it, stays as it is written, with the comments there.
fn change_table(table: &mut dyn TableLike, members: &Map<String, Value>) {
    let names = table.iter().map(|(name, _)| name.to_owned());
    let gone: Vec<String> = names.filter(|name| !members.contains_key(name)).collect();
    for name in gone {
        table.remove(&name);
    }
    for (name, value) in members {
        let known = table.get_mut(name);
        if known.as_deref().is_some_and(|known| item_value(known) == *value) {
            continue;
        }
        match (known, value) {
            (Some(Item::Table(known)), Value::Object(members)) => change_table(known, members),
            (Some(Item::Value(known)), value) => {
                let Some(mut new) = toml_value(value) else { continue };
                *new.decor_mut() = known.decor().clone();
                *known = new;
            }
            (_, value) => {
                let Some(new) = toml_value(value) else { continue };
                table.insert(name, Item::Value(new));
            }
        }
    }
}

fn members_of<'v, T: FromIterator<(&'v String, toml_edit::Value)>>(members: &'v Map<String, Value>) -> T {
    members.iter().filter_map(|(name, value)| Some((name, toml_value(value)?))).collect()
}

/// TOML has no null.
fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(bool) => (*bool).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => toml_edit::Value::Array(list.iter().filter_map(toml_value).collect()),
        Value::Object(members) => toml_edit::Value::InlineTable(members_of(members)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn edited(name: &str, text: &str, keys: &[&str], remove: &[&str], set: &[(&str, Value)]) -> String {
        let edit_of = ObjectEdit {
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            remove: remove.iter().map(|&name| name.to_owned()).collect(),
            set: set.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        };
        edit(Path::new(name), text, &[edit_of]).unwrap()
    }

    #[test]
    fn a_changed_value_keeps_what_stays_of_it_as_it_is_written() {
        let text =
            "{ \"p\": {\n  // mine\n  \"a\": [ \"x\", // why\n    \"y\" ], \"b\":1, \"c\": [1,2]\n} }\n";
        let changed = |value: Value| edited("x.json", text, &[], &[], &[("p", value)]);
        let same = json!({"a": ["x", "y"], "b": 1, "c": [1, 2]});
        assert_eq!(changed(same), text);
        let more = changed(json!({"a": ["x", "z"], "b": 2, "c": [2, 1]}));
        for part in ["// mine", "// why", "\"b\":2", "[2, 1]"] {
            assert!(more.contains(part), "{part}: {more}");
        }
        assert_eq!(changed(json!([1])), "{ \"p\": [1] }\n");
    }

    #[test]
    fn comments_and_formatting_of_json_stay() {
        let text = "\u{feff}{\r\n  // My servers\r\n  \"mcpServers\": {\r\n    \"a\": { \"command\": \"a\" }, // first\r\n    \"b\": {\"command\": \"b\"},\r\n  },\r\n  \"z\" : [1,2]\r\n}\r\n";
        let edited = edited(
            "x.json",
            text,
            &["mcpServers"],
            &["a", "b"],
            &[("dyn", json!({"command": "d", "args": ["x"]}))],
        );
        let wanted = "\u{feff}{\n  // My servers\n  \"mcpServers\": {\n    \"dyn\": {\n      \"command\": \"d\",\n      \"args\": [\"x\"]\n    }\n  },\n  \"z\" : [1,2]\n}\n";
        assert_eq!(edited.replace("\r\n", "\n"), wanted);
        assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count());
    }

    #[test]
    fn comments_and_formatting_of_toml_stay() {
        let text = "# Codex\nmodel = \"m\" # best\n\n# My servers\n[mcp_servers.a]\ncommand = \"a\"\n\n[mcp_servers.a.env]\nX = \"y\"\n\n[mcp_servers.b]\ncommand = 'b'\n\n[tui]\nx   = [ 1,2 ]\n";
        let dyn_entry = json!({"command": "d", "args": ["x"], "env": {"A": "b"}});
        let edited = edited("c.toml", text, &["mcp_servers"], &["a", "b"], &[("dyn", dyn_entry)]);
        let wanted = "# Codex\nmodel = \"m\" # best\n\n# My servers\n[mcp_servers.dyn]\ncommand = \"d\"\nargs = [\"x\"]\nenv = { A = \"b\" }\n\n[tui]\nx   = [ 1,2 ]\n";
        assert_eq!(edited, wanted);
    }

    #[test]
    fn toml_keeps_the_line_ends_of_windows() {
        let text = "model = \"x\"\r\n\r\n[mcp_servers.a]\r\ncommand = \"a\"\r\n";
        let edited = edited("c.toml", text, &["mcp_servers"], &["a"], &[("dyn", json!({"command": "d"}))]);
        assert_eq!(edited, "model = \"x\"\r\n\r\n[mcp_servers.dyn]\r\ncommand = \"d\"\r\n");
    }

    #[test]
    fn a_changed_table_of_toml_keeps_its_comments() {
        let text = "[mcp_servers.a]\ncommand = \"a\"\n\n# mine\n[mcp_servers.dyn]\n# of the program\ncommand = \"d\" # old\nargs = [ \"x\" ]\nold = 1\n\n[mcp_servers.dyn.env]\n# of A\nA = 'b'\n\n[tui]\nx = 1\n";
        let dyn_entry =
            json!({"command": "e", "args": ["x"], "env": {"A": "b", "B": "c"}, "env_vars": ["D"]});
        let edited = edited("c.toml", text, &["mcp_servers"], &["a"], &[("dyn", dyn_entry)]);
        let wanted = "# mine\n[mcp_servers.dyn]\n# of the program\ncommand = \"e\" # old\nargs = [ \"x\" ]\nenv_vars = [\"D\"]\n\n[mcp_servers.dyn.env]\n# of A\nA = 'b'\nB = \"c\"\n\n[tui]\nx = 1\n";
        assert_eq!(edited.trim_start(), wanted);
    }

    #[test]
    fn missing_objects_are_made() {
        let dyn_entry = [("dyn", json!({"command": "d"}))];
        let json = edited("x.json", "", &["mcp", "servers"], &[], &dyn_entry);
        let wanted = "{\n  \"mcp\": {\n    \"servers\": {\n      \"dyn\": {\n        \"command\": \"d\"\n      }\n    }\n  }\n}\n";
        assert_eq!(json, wanted);
        let toml = edited("c.toml", "", &["mcp_servers"], &[], &dyn_entry);
        assert_eq!(toml, "[mcp_servers.dyn]\ncommand = \"d\"\n");
        let inline = "mcp_servers = { a = { command = \"x\" } }\n";
        let toml = edited("c.toml", inline, &["mcp_servers"], &["a"], &dyn_entry);
        assert_eq!(toml, "mcp_servers = { dyn = { command = \"d\" } }\n");
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let keys = vec!["mcpServers".to_owned()];
        let edit_of = [ObjectEdit { keys, ..ObjectEdit::default() }];
        for text in ["{", "[]", r#"{"mcpServers": []}"#] {
            assert!(edit(Path::new("x.json"), text, &edit_of).is_err(), "{text}");
        }
    }
}
