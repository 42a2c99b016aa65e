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
pub const STATUS: &str = "get_status";

/// Claude Code cuts descriptions and instructions at 2,048 characters without a word.
const LONGEST: usize = 2000;
/// A group's line is left out rather than shortened below this.
const SHORTEST_LINE: usize = 12;
/// Clients cut results at their own limits; this lifts Claude Code's for what upstreams really answer.
const RESULT_CHARS: u64 = 500_000;

/// A group as the list tells of it.
pub struct GroupLine<'a> {
    pub name: &'a str,
    pub description: Option<&'a str>,
}

/// `tools/list`.
pub fn list(groups: &[GroupLine<'_>]) -> Vec<Tool> {
    vec![get(groups), call(), call_readonly(), status()]
}

/// `instructions` of `initialize`: the groups first, then what to do with them.
pub fn instructions(groups: &[GroupLine<'_>]) -> String {
    const HOW: &str = "\nBefore you say that something cannot be done, look here: get_dynamic_tools lists the tools \
        of a group, call_dynamic_tool calls one. Servers start when they are used.";
    if groups.is_empty() {
        return "dynamic-mcp has no MCP server configured that it could use; get_status says what is wrong."
            .to_owned();
    }
    let names: Vec<_> = groups.iter().map(|group| group.name).collect();
    let room = LONGEST - HOW.chars().count() - 1;
    let groups = format!("Tools of these MCP servers (groups) are behind this one: {}.", names.join(", "));
    format!("{}{HOW}", shorten(&groups, room))
}

fn get(groups: &[GroupLine<'_>]) -> Tool {
    let names: Vec<_> = groups.iter().map(|group| group.name).collect();
    let mut group = json!({ "type": "string", "description": "The group" });
    // An empty enum would be an invalid schema.
    if !names.is_empty() {
        group["enum"] = json!(names);
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "group": group,
            "tools": { "type": "array", "items": { "type": "string" }, "description": "Only these, with their full definitions" },
            "lazy": { "type": "boolean", "description": "true: names and one line each; false: full definitions" },
        },
        "required": ["group"],
    });
    let head = "Lists the tools of a group (an MCP server that starts when it is used): full definitions if they are \
        short, else names with one line each. Then call them with call_dynamic_tool.";
    let description = format!("{head}{}", group_lines(groups, LONGEST - head.chars().count()));
    tool(GET, "List a group's tools", description, schema, Hints { read_only: true, open_world: true }, [])
}

fn call() -> Tool {
    let description =
        "Calls a tool of a group and gives its result back unaltered. Look its arguments up with \
        get_dynamic_tools first."
            .to_owned();
    let hints = Hints { read_only: false, open_world: true };
    tool(CALL, "Call a tool", description, call_schema(), hints, [RESULT_META])
}

fn call_readonly() -> Tool {
    let description =
        "The same as call_dynamic_tool, for tools that only read (readOnlyHint); refuses all others."
            .to_owned();
    let hints = Hints { read_only: true, open_world: true };
    tool(CALL_READONLY, "Call a read-only tool", description, call_schema(), hints, [RESULT_META])
}

fn status() -> Tool {
    let schema = json!({ "type": "object", "properties": { "group": { "type": "string", "description": "Only this group" } } });
    let description = "Shows the state of the groups: which are connected, what failed and why.".to_owned();
    tool(
        STATUS,
        "Show the groups' states",
        description,
        schema,
        Hints { read_only: true, open_world: false },
        [],
    )
}

fn call_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "group": { "type": "string", "description": "The group the tool belongs to" },
            "name": { "type": "string", "description": "The tool" },
            "args": { "type": "object", "description": "The tool's arguments", "additionalProperties": true },
        },
        "required": ["group", "name"],
    })
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

/// One line a group, in config order, in `room` characters: the texts shorten evenly, then vanish. The names are in
/// the schema.
fn group_lines(groups: &[GroupLine<'_>], room: usize) -> String {
    let described: Vec<_> = groups
        .iter()
        .filter_map(|group| {
            let text = group.description?.split_whitespace().collect::<Vec<_>>().join(" ");
            (!text.is_empty()).then_some((group.name, text))
        })
        .collect();
    let at_width = |width: usize| -> String {
        described.iter().map(|(name, text)| format!("\n- {name}: {}", shorten(text, width))).collect()
    };
    let longest = described.iter().map(|(_, text)| text.chars().count()).max().unwrap_or_default();
    let (mut fits, mut too_wide) = (0, longest + 1);
    while too_wide - fits > 1 {
        let width = usize::midpoint(fits, too_wide);
        if at_width(width).chars().count() <= room { fits = width } else { too_wide = width }
    }
    if fits >= SHORTEST_LINE.min(longest) { at_width(fits) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(n: usize, text: &str) -> Vec<(String, String)> {
        (0..n).map(|i| (format!("group-{i}"), text.to_owned())).collect()
    }

    fn as_groups(lines: &[(String, String)]) -> Vec<GroupLine<'_>> {
        lines.iter().map(|(name, text)| GroupLine { name, description: Some(text) }).collect()
    }

    #[test]
    fn no_text_of_ours_is_longer_than_clients_take() {
        for n in [0, 1, 10, 70, 500] {
            let lines = lines(n, &"Reads, writes and moves things around. ".repeat(9));
            let groups = as_groups(&lines);
            for tool in list(&groups) {
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
        let text = group_lines(&as_groups(&lines), 1000);
        let lengths: Vec<_> = text.lines().skip(1).map(|line| line.chars().count()).collect();
        assert_eq!(lengths.len(), 20);
        assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
        assert_eq!(group_lines(&as_groups(&lines), 300), "");
    }

    #[test]
    fn the_list_of_two_groups() {
        let groups = [
            GroupLine { name: "files", description: Some("Reads and\n writes files") },
            GroupLine { name: "time", description: None },
        ];
        insta::assert_snapshot!(serde_json::to_string_pretty(&list(&groups)).unwrap());
    }
}
