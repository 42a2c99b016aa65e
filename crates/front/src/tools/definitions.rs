//! The definitions of our own tools, and `instructions`. Models read every text here.

use crate::names::own_tools::{
    CALL_DYNAMIC_TOOL, CALL_DYNAMIC_TOOL_READONLY, GET_DYNAMIC_TOOLS, GET_STATUS, PAGE_ACTION,
    SEARCH_DYNAMIC_TOOLS, SHOW_STATUS, STATUS_DATA,
};
use crate::tools::status_page;
use base::text::{CHARACTERS_PER_TOKEN, name, one_line, quoted_lines, shorten};
use serde_json::{Value, json};

/// The limit for a description and for the instructions. Claude Code silently truncates at 2,048 characters.
const MAX_TEXT: usize = 2000;
/// How many characters the lines of all groups may have together: a constant part, so that a few groups have room for a
/// sentence, and a part for each group.
const LINES_BASE: usize = 100;
const LINES_PER_GROUP: usize = 32;
/// The lines are left out rather than shortened below this.
const MIN_LINE: usize = 12;
/// The instructions of a server are left out rather than shortened below this.
const MIN_INSTRUCTIONS: usize = 40;
/// What instructions say if the command line or the config has errors.
const PROBLEMS: &str = "\nThe configuration has errors; get_status says which. Tell the user.";
/// The result size that Claude Code is asked to accept. Without it, Claude Code truncates what upstreams really answer.
const RESULT_CHARACTERS: u64 = 500_000;
/// The members of `_meta` that Claude Code reads. Clients that defer tools must not defer the ones through which all
/// others are found.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";
const MAX_RESULT: &str = "anthropic/maxResultSizeChars";

/// What the list says about a group.
#[derive(Default)]
pub struct GroupLine<'a> {
    /// The group's name.
    pub name: &'a str,
    /// The description in the config, else the upstream's title or instructions.
    pub description: Option<&'a str>,
    /// What the upstream says of itself, for the flat surface.
    pub instructions: Option<&'a str>,
    /// The tools that may be named.
    pub tools: &'a [String],
    /// Why the group cannot be used, such as "not available: login needed".
    pub note: Option<String>,
}

impl GroupLine<'_> {
    /// Returns the group's name with its note.
    fn noted_name(&self) -> String {
        match &self.note {
            Some(note) => format!("{} ({note})", name(self.name)),
            None => name(self.name),
        }
    }
}

/// Returns our tools. `names_budget`: how many tokens the names of upstreams' tools may take.
pub fn list(groups: &[GroupLine<'_>], names_budget: usize) -> Vec<Value> {
    vec![
        get_dynamic_tools(groups, names_budget),
        call_dynamic_tool(),
        call_dynamic_tool_readonly(),
        search_dynamic_tools(),
        get_status(),
    ]
}

/// Returns the tools of the status page: the one that shows it, which no page may call, because its result has the page's
/// token, and those that give it its data and do what its buttons say, which no model sees.
pub fn of_status_page() -> [Value; 3] {
    let annotations = json!({ "readOnlyHint": true, "openWorldHint": false });
    let schema = json!({ "type": "object", "properties": {} });
    [
        json!({
            "name": SHOW_STATUS,
            "title": "Show the status as a page",
            "description": "Shows the user a page: which MCP servers run, what failed, why, and what to do.",
            "inputSchema": schema,
            "annotations": annotations,
            "_meta": { "ui": { "resourceUri": status_page::URI, "visibility": ["model"] } },
        }),
        json!({
            "name": STATUS_DATA,
            "title": "Data of the status page",
            "description": "Gives the status page its data.",
            "inputSchema": schema,
            "annotations": annotations,
            "_meta": { "ui": { "visibility": ["app"] } },
        }),
        json!({
            "name": PAGE_ACTION,
            "title": "Act for the status page",
            "description": "Does what a person has pressed on the status page. It refuses everybody else.",
            "inputSchema": { "type": "object", "properties": { "token": { "type": "string" }, "action": { "type": "string" } } },
            "annotations": { "readOnlyHint": false, "destructiveHint": true, "openWorldHint": false },
            "_meta": { "ui": { "visibility": ["app"] } },
        }),
    ]
}

/// Returns the `instructions` of `initialize`: the groups first, then how to use them. The names of groups are cut if
/// there are too many. Without a group, says only that there is none.
///
/// `has_problems`: whether the command line or the config has errors.
pub fn instructions(groups: &[GroupLine<'_>], has_problems: bool) -> String {
    const HOW: &str = "\nBefore you say that you cannot do something, look here: search_dynamic_tools finds tools by what \
        they do, get_dynamic_tools lists the tools of a group, call_dynamic_tool calls one. Servers start when they are \
        used.";
    if groups.is_empty() {
        let text = match has_problems {
            true => "dynamic-mcp has no usable MCP server in its config; get_status says what is wrong.",
            false => "dynamic-mcp has no MCP servers yet; get_status says how the user adds some.",
        };
        return text.to_owned();
    }
    let names: Vec<_> = groups.iter().map(GroupLine::noted_name).collect();
    let problems = if has_problems { PROBLEMS } else { "" };
    let room = MAX_TEXT - HOW.chars().count() - problems.len() - 1;
    let groups =
        format!("This server gives access to the tools of these MCP servers (groups): {}.", names.join(", "));
    format!("{}{HOW}{problems}", shorten(&groups, room))
}

/// Returns the `instructions` of the flat surface: how its tools are named, and what the servers say of themselves, as far as
/// there is room.
///
/// `lists_ours`: whether the list has our tools, too, because some of the servers' tools are not known.
pub fn flat_instructions(groups: &[GroupLine<'_>], lists_ours: bool, has_problems: bool) -> String {
    if groups.is_empty() {
        return instructions(&[], has_problems);
    }
    let names: Vec<_> = groups.iter().map(GroupLine::noted_name).collect();
    let names =
        format!("The tools of these MCP servers (groups) are listed as GROUP__TOOL: {}.", names.join(", "));
    let more = match lists_ours {
        true => " search_dynamic_tools finds those that are not listed, and call_dynamic_tool calls them.",
        false => "",
    };
    let problems = if has_problems { PROBLEMS } else { "" };
    let room = MAX_TEXT - more.len() - problems.len();
    let mut text = format!("{}{more}{problems}", shorten(&names, room));
    let said: Vec<_> = groups.iter().filter_map(|group| Some((group.name, group.instructions?))).collect();
    for (at, (group, instructions)) in said.iter().enumerate() {
        let head = format!("\n{} says:\n", name(group));
        let room = MAX_TEXT.saturating_sub(text.chars().count()) / (said.len() - at);
        let room = room.saturating_sub(head.chars().count());
        if room >= MIN_INSTRUCTIONS {
            text = format!("{text}{head}{}", shorten(&quoted_lines(instructions.trim()), room));
        }
    }
    text
}

fn get_dynamic_tools(groups: &[GroupLine<'_>], names_budget: usize) -> Value {
    let names: Vec<_> = groups.iter().map(|group| group.name).collect();
    let mut group = json!({ "type": "string" });
    // An empty enum is not a valid schema.
    if !names.is_empty() {
        group["enum"] = json!(names);
    }
    let head = "Lists the tools of a group (an MCP server that starts when used): definitions if short, else signatures, \
        else names. Call them with call_dynamic_tool.";
    let room = MAX_TEXT - head.chars().count();
    json!({
        "name": GET_DYNAMIC_TOOLS,
        "title": "List a group's tools",
        "description": format!("{head}{}", group_lines(groups, room, names_budget * CHARACTERS_PER_TOKEN)),
        "inputSchema": {
            "type": "object",
            "properties": {
                "group": group,
                "tools": { "type": "array", "items": { "type": "string" }, "description": "Only these, in full" },
                "lazy": { "type": "boolean", "description": "true: names only; false: in full" },
                "detail": { "enum": ["stub", "signature", "full"] },
            },
            "required": ["group"],
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": true },
        "_meta": { ALWAYS_LOAD: true },
    })
}

fn call_dynamic_tool() -> Value {
    let mut schema = call_schema();
    schema["properties"]["name"]["description"] = json!("The tool");
    schema["properties"]["select"]["description"] = json!("jq program over the result");
    json!({
        "name": CALL_DYNAMIC_TOOL,
        "title": "Call a tool",
        "description": "Calls a tool of a group. get_dynamic_tools shows its arguments.",
        "inputSchema": schema,
        "annotations": { "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true },
        "_meta": { ALWAYS_LOAD: true, MAX_RESULT: RESULT_CHARACTERS },
    })
}

fn call_dynamic_tool_readonly() -> Value {
    json!({
        "name": CALL_DYNAMIC_TOOL_READONLY,
        "title": "Call a read-only tool",
        "description": "call_dynamic_tool for tools marked read-only (readOnlyHint); refuses others.",
        "inputSchema": call_schema(),
        "annotations": { "readOnlyHint": true, "openWorldHint": true },
        "_meta": { ALWAYS_LOAD: true, MAX_RESULT: RESULT_CHARACTERS },
    })
}

/// Only one of the two tools describes its properties.
fn call_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "group": { "type": "string" },
            "name": { "type": "string" },
            "args": { "type": "object", "additionalProperties": true },
            "select": { "type": "string" },
        },
        "required": ["group", "name"],
    })
}

fn search_dynamic_tools() -> Value {
    json!({
        "name": SEARCH_DYNAMIC_TOOLS,
        "title": "Search all tools",
        "description": "Finds tools by what they do, in all groups.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "What to do" },
                "group": { "type": "string" },
                "limit": { "type": "integer" },
            },
            "required": ["query"],
        },
        "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
        "_meta": { ALWAYS_LOAD: true },
    })
}

fn get_status() -> Value {
    json!({
        "name": GET_STATUS,
        "title": "Show the groups' states",
        "description": "Which groups are connected, what failed and why.",
        "inputSchema": { "type": "object", "properties": { "group": { "type": "string" } } },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
        "_meta": { ALWAYS_LOAD: true },
    })
}

/// One line per group, in config order, within `room` characters: its description, then names of its tools within the
/// budget (in characters), shared evenly. If there is too little room, the descriptions are shortened evenly, then left
/// out; the schema still has the names of the groups.
fn group_lines(groups: &[GroupLine<'_>], room: usize, names_budget: usize) -> String {
    let descriptions: Vec<String> =
        groups.iter().map(|group| one_line(group.description.unwrap_or_default())).collect();
    let lines = |width: usize, names: usize| -> (String, usize) {
        let mut named = 0;
        let lines = groups.iter().zip(&descriptions).filter_map(|(group, description)| {
            let names = some_names(group.tools, names);
            named += names.chars().count();
            let head = || format!("\n- {}", group.noted_name());
            match (shorten(description, width), names) {
                (text, names) if text.is_empty() && names.is_empty() => group.note.is_some().then(head),
                (text, names) if text.is_empty() => Some(format!("{}: {names}", head())),
                (text, names) if names.is_empty() => Some(format!("{}: {text}", head())),
                (text, names) => Some(format!("{}: {text} ({names})", head())),
            }
        });
        (lines.collect(), named)
    };
    let longest = descriptions.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    let notes =
        groups.iter().filter(|group| group.note.is_some()).map(|group| group.noted_name().chars().count());
    let lines_room = room.min(LINES_BASE + LINES_PER_GROUP * groups.len() + notes.sum::<usize>());
    let fits = |width: usize| lines(width, 0).0.chars().count() <= lines_room;
    // With many groups this is decided at once: their names alone are too long.
    let has_line =
        |(group, description): &(&GroupLine<'_>, &String)| !description.is_empty() || group.note.is_some();
    let with_line = groups.iter().zip(&descriptions).filter(has_line);
    let least: usize = with_line.map(|(group, _)| "\n- ".len() + group.name.chars().count()).sum();
    if least > lines_room || !fits(MIN_LINE.min(longest)) {
        return notes_only(groups, room);
    }
    let width = largest(longest, fits);
    let tools = groups.iter().map(|group| group.tools.len()).max().unwrap_or_default();
    // A name takes more than one character.
    let names = largest(tools.min(room), |names| {
        let (text, named) = lines(width, names);
        text.chars().count() <= room && named <= names_budget
    });
    lines(width, names).0
}

/// Returns the groups that cannot be used, where there is no room for a line about each group.
fn notes_only(groups: &[GroupLine<'_>], room: usize) -> String {
    let noted = groups.iter().filter(|group| group.note.is_some());
    let names: Vec<_> = noted.map(|group| name(group.name)).collect();
    match names.is_empty() {
        true => String::new(),
        false => {
            format!("\n{}", shorten(&format!("Not available (get_status): {}", names.join(", ")), room - 1))
        }
    }
}

/// The first names of a group's tools, and the number of the others.
fn some_names(tools: &[String], names: usize) -> String {
    let shown = tools.iter().take(names).map(|tool| name(tool)).collect::<Vec<_>>().join(", ");
    match tools.len().saturating_sub(names) {
        _ if shown.is_empty() => String::new(),
        0 => shown,
        more => format!("{shown}, +{more} more"),
    }
}

/// Returns the largest number up to `limit` that fits, if all smaller ones fit, too; 0 even if it does not fit.
fn largest(limit: usize, fits: impl Fn(usize) -> bool) -> usize {
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

    fn names_and_texts(n: usize, text: &str) -> Vec<(String, String)> {
        (0..n).map(|i| (format!("group-{i}"), text.to_owned())).collect()
    }

    fn group_lines_of(lines: &[(String, String)]) -> Vec<GroupLine<'_>> {
        lines
            .iter()
            .map(|(name, text)| GroupLine { name, description: Some(text), ..GroupLine::default() })
            .collect()
    }

    #[test]
    fn no_text_exceeds_the_limits_of_clients() {
        let tools: Vec<String> = (0..40).map(|n| format!("some_tool_with_a_name_{n}")).collect();
        for n in [0, 1, 10, 50, 70, 200, 500] {
            let lines = names_and_texts(n, &"Reads, writes and moves things around. ".repeat(9));
            let mut groups = group_lines_of(&lines);
            for (n, group) in groups.iter_mut().enumerate() {
                group.tools = &tools;
                group.note = (n % 2 == 0).then(|| "not available: it cannot be reached".to_owned());
            }
            for tool in list(&groups, 600) {
                let description = tool["description"].as_str().unwrap();
                assert!(
                    description.chars().count() <= MAX_TEXT,
                    "{} of {n}: {}",
                    tool["name"],
                    description.len()
                );
            }
            assert!(instructions(&groups, true).chars().count() <= MAX_TEXT);
        }
    }

    #[test]
    fn group_lines_are_shortened_evenly_then_left_out() {
        let lines = names_and_texts(20, &"word ".repeat(60));
        let text = group_lines(&group_lines_of(&lines), 1000, 0);
        let lengths: Vec<_> = text.lines().skip(1).map(|line| line.chars().count()).collect();
        assert_eq!(lengths.len(), 20);
        assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
        assert_eq!(group_lines(&group_lines_of(&lines), 300, 0), "");
        let few = group_lines(&group_lines_of(&lines[..2]), 1000, 0);
        assert!(
            few.chars().count() <= LINES_BASE + 2 * LINES_PER_GROUP && few.chars().count() > LINES_BASE,
            "{few}"
        );
    }

    #[test]
    fn the_list_of_two_groups_is_unchanged() {
        let groups = [
            GroupLine {
                name: "files",
                description: Some("Reads and\n writes files"),
                ..GroupLine::default()
            },
            GroupLine { name: "time", ..GroupLine::default() },
        ];
        insta::assert_snapshot!(serde_json::to_string_pretty(&list(&groups, 600)).unwrap());
    }

    #[test]
    fn a_group_that_cannot_be_used_has_a_note() {
        let note = Some("not available: login needed".to_owned());
        let line = |note: &Option<String>, description| GroupLine {
            name: "docs",
            description,
            note: note.clone(),
            ..GroupLine::default()
        };
        let groups = [line(&note, Some("Reads documents")), line(&note, None), line(&None, None)];
        let text = group_lines(&groups, 1000, 0);
        assert_eq!(
            text,
            "\n- docs (not available: login needed): Reads documents\n- docs (not available: login needed)"
        );
        assert!(instructions(&groups[..1], false).contains("(groups): docs (not available: login needed)."));
        assert!(instructions(&groups, true).ends_with("errors; get_status says which. Tell the user."));
        let names: Vec<_> = (0..400).map(|n| format!("group-{n}")).collect();
        let many: Vec<_> =
            names.iter().map(|name| GroupLine { name, note: note.clone(), ..GroupLine::default() }).collect();
        let text = group_lines(&many, 500, 0);
        assert!(
            text.starts_with("\nNot available (get_status): group-0, ") && text.chars().count() <= 500,
            "{text}"
        );
    }

    #[test]
    fn names_of_tools_share_their_budget_evenly() {
        let tools: Vec<String> = (0..40).map(|n| format!("tool_{n}")).collect();
        let groups = ["a", "b"].map(|name| GroupLine {
            name,
            description: Some("Things"),
            tools: &tools,
            ..GroupLine::default()
        });
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
