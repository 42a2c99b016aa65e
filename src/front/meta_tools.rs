//! The tools a model sees: their definitions and their words.
//!
//! `tools/list` is built from the config alone, so its bytes stay the same while the config does: clients' prompt
//! caches depend on it.

use crate::upstream::catalog::shorten;
use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub const GET: &str = "get_dynamic_tools";
pub const CALL: &str = "call_dynamic_tool";
pub const CALL_READONLY: &str = "call_dynamic_tool_readonly";
pub const SEARCH: &str = "search_dynamic_tools";
pub const STATUS: &str = "get_status";

/// Claude Code cuts descriptions and instructions at 2,048 characters without a word.
const LONGEST: usize = 2000;
/// English text and JSON have about four characters a token.
const CHARACTERS_PER_TOKEN: usize = 4;
/// What the groups' lines may take together: a constant part, so that few have room for a sentence, and a part for each.
const LINES: usize = 100;
const LINE: usize = 32;
/// A group's line is left out rather than shortened below this.
const SHORTEST_LINE: usize = 12;
/// Clients cut results at their own limits; this lifts Claude Code's for what upstreams really answer.
const RESULT_CHARS: u64 = 500_000;

/// A group as the list tells of it.
pub struct GroupLine<'a> {
    pub name: &'a str,
    /// From the config, else from the upstream.
    pub about: Option<&'a str>,
    /// Tools that may be named here.
    pub tools: &'a [String],
}

/// `tools/list`.
pub fn list(groups: &[GroupLine<'_>], names_budget: usize) -> Vec<Tool> {
    vec![get(groups, names_budget), call(), call_readonly(), search(), status()]
}

/// `instructions` of `initialize`: the groups first, then what to do with them.
pub fn instructions(groups: &[GroupLine<'_>]) -> String {
    const HOW: &str = "\nBefore you say that something cannot be done, look here: search_dynamic_tools finds tools by \
        what they do, get_dynamic_tools lists those of a group, call_dynamic_tool calls one. Servers start when they are \
        used.";
    if groups.is_empty() {
        return "dynamic-mcp has no MCP server configured that it could use; get_status says what is wrong."
            .to_owned();
    }
    let names: Vec<_> = groups.iter().map(|group| group.name).collect();
    let room = LONGEST - HOW.chars().count() - 1;
    let groups = format!("Tools of these MCP servers (groups) are behind this one: {}.", names.join(", "));
    format!("{}{HOW}", shorten(&groups, room))
}

fn get(groups: &[GroupLine<'_>], names_budget: usize) -> Tool {
    let names: Vec<_> = groups.iter().map(|group| group.name).collect();
    let mut group = json!({ "type": "string" });
    // An empty enum would be an invalid schema.
    if !names.is_empty() {
        group["enum"] = json!(names);
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "group": group,
            "tools": { "type": "array", "items": { "type": "string" }, "description": "Only these, in full" },
            "lazy": { "type": "boolean", "description": "true: names only; false: in full" },
            "detail": { "enum": ["stub", "signature", "full"] },
        },
        "required": ["group"],
    });
    let head = "Lists the tools of a group (an MCP server that starts when used): definitions if short, else signatures, \
        else names. Call them with call_dynamic_tool.";
    let room = LONGEST - head.chars().count();
    let description = format!("{head}{}", group_lines(groups, room, names_budget * CHARACTERS_PER_TOKEN));
    tool(GET, "List a group's tools", description, schema, Hints { read_only: true, open_world: true }, [])
}

fn call() -> Tool {
    let description = "Calls a tool of a group. get_dynamic_tools has its arguments.".to_owned();
    let hints = Hints { read_only: false, open_world: true };
    tool(CALL, "Call a tool", description, call_schema("The tool"), hints, [RESULT_META])
}

fn call_readonly() -> Tool {
    let description = "call_dynamic_tool for tools that only read (readOnlyHint); refuses others.".to_owned();
    let hints = Hints { read_only: true, open_world: true };
    tool(CALL_READONLY, "Call a read-only tool", description, call_schema(""), hints, [RESULT_META])
}

fn search() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "What is to be done" },
            "group": { "type": "string" },
            "limit": { "type": "integer" },
        },
        "required": ["query"],
    });
    let description = "Finds tools by what they do, in all groups.";
    let hints = Hints { read_only: true, open_world: false };
    let mut tool = tool(SEARCH, "Search all tools", description.to_owned(), schema, hints, []);
    if let Some(annotations) = &mut tool.annotations {
        annotations.idempotent_hint = Some(true);
    }
    tool
}

fn status() -> Tool {
    let schema = json!({ "type": "object", "properties": { "group": { "type": "string" } } });
    let description = "Which groups are connected, what failed and why.".to_owned();
    tool(
        STATUS,
        "Show the groups' states",
        description,
        schema,
        Hints { read_only: true, open_world: false },
        [],
    )
}

/// `about`: what is said of the name, once in the list.
fn call_schema(about: &str) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "group": { "type": "string" },
            "name": { "type": "string" },
            "args": { "type": "object", "additionalProperties": true },
        },
        "required": ["group", "name"],
    });
    if !about.is_empty() {
        schema["properties"]["name"]["description"] = json!(about);
    }
    schema
}

struct Hints {
    read_only: bool,
    open_world: bool,
}

const RESULT_META: (&str, u64) = ("anthropic/maxResultSizeChars", RESULT_CHARS);

fn tool<const N: usize>(
    name: &'static str,
    title: &str,
    description: String,
    schema: Value,
    hints: Hints,
    meta: [(&str, u64); N],
) -> Tool {
    let schema: JsonObject = match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    let mut tool = Tool::new(name, description, schema);
    tool.title = Some(title.to_owned());
    let mut annotations = ToolAnnotations::default();
    annotations.read_only_hint = Some(hints.read_only);
    annotations.destructive_hint = (!hints.read_only).then_some(true);
    annotations.open_world_hint = Some(hints.open_world);
    tool.annotations = Some(annotations);
    // Clients that defer tools must not defer the ones that find all others.
    let mut object = JsonObject::from_iter([("anthropic/alwaysLoad".to_owned(), json!(true))]);
    object.extend(meta.map(|(key, value)| (key.to_owned(), json!(value))));
    tool.meta = Some(MetaObject::from(object));
    tool
}

/// One line a group, in config order, in `room` characters: what it is about, then names of its tools as far as the
/// budget (in characters) goes, shared evenly. When there is no room, the texts shorten evenly, then vanish: the names
/// of the groups are in the schema.
fn group_lines(groups: &[GroupLine<'_>], room: usize, names_budget: usize) -> String {
    let about: Vec<String> = groups
        .iter()
        .map(|group| group.about.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let lines = |width: usize, names: usize| -> (String, usize) {
        let mut named = 0;
        let lines = groups.iter().zip(&about).filter_map(|(group, about)| {
            let names = some_names(group.tools, names);
            named += names.chars().count();
            match (shorten(about, width), names) {
                (about, names) if about.is_empty() && names.is_empty() => None,
                (about, names) if about.is_empty() => Some(format!("\n- {}: {names}", group.name)),
                (about, names) if names.is_empty() => Some(format!("\n- {}: {about}", group.name)),
                (about, names) => Some(format!("\n- {}: {about} ({names})", group.name)),
            }
        });
        (lines.collect(), named)
    };
    let longest = about.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    let for_lines = room.min(LINES + LINE * groups.len());
    let width = most(longest, |width| lines(width, 0).0.chars().count() <= for_lines);
    if width < SHORTEST_LINE.min(longest) {
        return String::new();
    }
    let tools = groups.iter().map(|group| group.tools.len()).max().unwrap_or_default();
    let names = most(tools, |names| {
        let (text, named) = lines(width, names);
        text.chars().count() <= room && named <= names_budget
    });
    lines(width, names).0
}

/// The first names of a group's tools, and how many more there are.
fn some_names(tools: &[String], names: usize) -> String {
    let shown = tools.iter().take(names).map(String::as_str).collect::<Vec<_>>().join(", ");
    match tools.len().saturating_sub(names) {
        _ if shown.is_empty() => String::new(),
        0 => shown,
        more => format!("{shown}, +{more} more"),
    }
}

/// The largest number up to `limit` that fits, given that smaller ones fit too; 0 whether it fits or not.
fn most(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut good, mut bad) = (0, limit + 1);
    while bad - good > 1 {
        let middle = usize::midpoint(good, bad);
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(n: usize, text: &str) -> Vec<(String, String)> {
        (0..n).map(|i| (format!("group-{i}"), text.to_owned())).collect()
    }

    fn as_groups(lines: &[(String, String)]) -> Vec<GroupLine<'_>> {
        lines.iter().map(|(name, text)| GroupLine { name, about: Some(text), tools: &[] }).collect()
    }

    #[test]
    fn no_text_of_ours_is_longer_than_clients_take() {
        let tools: Vec<String> = (0..40).map(|n| format!("some_tool_with_a_name_{n}")).collect();
        for n in [0, 1, 10, 50, 70, 200, 500] {
            let lines = lines(n, &"Reads, writes and moves things around. ".repeat(9));
            let mut groups = as_groups(&lines);
            for group in &mut groups {
                group.tools = &tools;
            }
            for tool in list(&groups, 600) {
                let description = tool.description.unwrap_or_default();
                assert!(
                    description.chars().count() <= LONGEST,
                    "{} of {n}: {}",
                    tool.name,
                    description.len()
                );
            }
            assert!(instructions(&groups).chars().count() <= LONGEST);
        }
    }

    #[test]
    fn group_lines_shorten_evenly_then_vanish() {
        let lines = lines(20, &"word ".repeat(60));
        let text = group_lines(&as_groups(&lines), 1000, 0);
        let lengths: Vec<_> = text.lines().skip(1).map(|line| line.chars().count()).collect();
        assert_eq!(lengths.len(), 20);
        assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
        assert_eq!(group_lines(&as_groups(&lines), 300, 0), "");
        let few = group_lines(&as_groups(&lines[..2]), 1000, 0);
        assert!(few.chars().count() <= LINES + 2 * LINE && few.chars().count() > LINES, "{few}");
    }

    #[test]
    fn the_list_of_two_groups() {
        let groups = [
            GroupLine { name: "files", about: Some("Reads and\n writes files"), tools: &[] },
            GroupLine { name: "time", about: None, tools: &[] },
        ];
        insta::assert_snapshot!(serde_json::to_string_pretty(&list(&groups, 600)).unwrap());
    }

    #[test]
    fn names_of_tools_follow_as_far_as_their_budget_goes_shared_evenly() {
        let tools: Vec<String> = (0..40).map(|n| format!("tool_{n}")).collect();
        let groups = ["a", "b"].map(|name| GroupLine { name, about: Some("Things"), tools: &tools });
        let text = group_lines(&groups, 1500, 200);
        let lines: Vec<_> = text.lines().skip(1).collect();
        let names = (0..9).map(|n| format!("tool_{n}")).collect::<Vec<_>>().join(", ");
        for (line, group) in lines.iter().zip(["a", "b"]) {
            assert!(
                line.starts_with(&format!("- {group}: Things ({names}")) && line.ends_with(" more)"),
                "{line}"
            );
        }
        assert_eq!(lines[0][3..], lines[1][3..], "shared evenly");
        assert!(!group_lines(&groups, 1500, 0).contains("tool_"));
    }
}
