//! The forms in which tools are told, such that clients show the whole of them.

use crate::config::GroupName;
use crate::schema::signature::{Signature, signature};
use crate::upstream::catalog::{Tool, shorten};
use crate::wire::{Raw, raw};
use serde_json::json;

/// A stub's text: enough to tell tools apart, about eight tokens.
const STUB: usize = 46;
/// Characters of which a token holds one rather than four.
const WIDE: usize = 3;
/// A definition longer than this is broken at its members, because some clients show nothing of one long line.
const LINE: usize = 4000;
/// OpenCode cuts a result at 50 kB and 2,000 lines, Claude Code at 50,000 characters. Something is said at the end.
const CHARACTERS: usize = 47_000;
const LINES: usize = 1880;
/// Of the upstream's own instructions.
const INSTRUCTIONS: usize = 12_000;
const INSTRUCTION_LINES: usize = 400;

/// A tool and its definition.
pub type Entry<'a> = (&'a Tool, &'a Raw);

/// The group's name, how many tools follow, and the upstream's own instructions.
pub fn head(group: &GroupName, tools: &str, instructions: Option<&str>) -> String {
    let mut head = format!("Group {group}: {tools}");
    if let Some(instructions) = instructions {
        let shown = instructions.trim().lines().take(INSTRUCTION_LINES).collect::<Vec<_>>().join("\n");
        let shown = shorten(&shown, INSTRUCTIONS);
        head.push_str(&format!("\nInstructions of this server:\n{shown}\n"));
    }
    head
}

/// Names, each with the first sentence of its description.
pub fn stubs(head: String, tools: &[&Tool], group: &GroupName) -> String {
    let mut out = Bounded::new(head);
    for tool in tools {
        out.push(&match tool.summary.is_empty() {
            true => tool.name.clone(),
            false => format!("{}: {}", tool.name, stub(&tool.summary)),
        });
    }
    let rest = out.left_out("tools");
    format!("{}{rest}\nFull definitions: {}", out.text, by_name(group))
}

fn stub(summary: &str) -> String {
    let widths = summary.chars().scan(0, |width, c| {
        *width += if c.is_ascii() { 1 } else { WIDE };
        Some(*width)
    });
    let fitting = widths.take_while(|width| *width <= STUB).count();
    shorten(summary, fitting)
}

pub fn signed(entries: &[Entry<'_>]) -> Vec<Signature> {
    entries.iter().map(|(_, definition)| signature(definition)).collect()
}

/// Signatures, and of which tools they are not all there is to know.
pub fn signatures(head: String, signed: &[Signature], group: &GroupName) -> String {
    let mut out = Bounded::new(head);
    let mut lossy = 0;
    for signature in signed {
        let mark = if signature.lossless { "" } else { " // see its full definition" };
        lossy += usize::from(!signature.lossless);
        out.push(&format!("{signature}{mark}"));
    }
    let rest = out.left_out("signatures");
    match rest.is_empty() && lossy == 0 {
        true => out.text,
        false => format!("{}{rest}\nFull definitions: {}", out.text, by_name(group)),
    }
}

/// The definitions, verbatim, one a line. One that no answer can hold is told by its signature.
pub fn definitions(head: String, entries: &[Entry<'_>], group: &GroupName) -> String {
    let alone = Bounded::new(head.clone());
    let mut out = Bounded::new(head);
    for (tool, definition) in entries {
        let text = broken(definition);
        if alone.fits(&text) {
            out.push(&text);
        } else {
            let length = definition.len();
            let short = signature(definition);
            out.push(&format!(
                "{short}\n(The definition of {} is too long to be shown: {length} bytes.)",
                tool.name
            ));
        }
    }
    let rest = out.left_out("definitions");
    match rest.is_empty() {
        true => out.text,
        false => format!("{}{rest} Ask for them by name: {}", out.text, by_name(group)),
    }
}

/// How to ask for full definitions.
fn by_name(group: &GroupName) -> String {
    format!("get_dynamic_tools {}", json!({ "group": group.as_str(), "tools": ["NAME"] }))
}

/// JSON with line ends between members where it is long; equal as JSON.
fn broken(json: &Raw) -> String {
    let text = || String::from_utf8_lossy(json).into_owned();
    if json.len() <= LINE {
        return text();
    }
    let Some(members) = raw::entries(json).filter(|members| !members.is_empty()) else { return text() };
    let members = members
        .iter()
        .map(|(key, value)| format!("{}:{}", serde_json::Value::from(key.as_str()), broken(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(",\n"))
}

/// Text within what clients show; what does not fit is counted. Whole entries only.
struct Bounded {
    text: String,
    characters: usize,
    lines: usize,
    left_out: usize,
}

impl Bounded {
    fn new(head: String) -> Self {
        Self { characters: head.chars().count(), lines: head.lines().count(), text: head, left_out: 0 }
    }

    fn fits(&self, entry: &str) -> bool {
        self.characters + entry.chars().count() < CHARACTERS && self.lines + entry.lines().count() <= LINES
    }

    fn push(&mut self, entry: &str) {
        if self.left_out > 0 || !self.fits(entry) {
            self.left_out += 1;
            return;
        }
        self.characters += entry.chars().count() + 1;
        self.lines += entry.lines().count();
        self.text.push('\n');
        self.text.push_str(entry);
    }

    fn left_out(&self, what: &str) -> String {
        match self.left_out {
            0 => String::new(),
            n => format!("\n{n} more {what} did not fit in this answer."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> (Tool, Raw) {
        let definition =
            json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        let page = format!("{{\"tools\":[{definition}]}}");
        crate::upstream::catalog::read_tools(&page.into()).remove(0)
    }

    #[test]
    fn long_definitions_are_broken_between_members_and_stay_equal() {
        let long = "x".repeat(3000);
        let schema = json!({ "type": "object", "properties": { "a": { "d": long }, "b": { "d": long } } });
        let definition = json!({ "name": "n", "inputSchema": schema });
        let text = broken(&definition.to_string().into());
        assert!(text.lines().count() > 3, "{text}");
        assert!(text.lines().all(|line| line.len() <= LINE));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), definition);
    }

    #[test]
    fn a_stub_is_about_as_many_tokens_in_any_script() {
        assert_eq!(stub("Short."), "Short.");
        assert_eq!(stub(&"word ".repeat(20)), format!("{}…", "word ".repeat(9).trim_end()));
        assert_eq!(stub(&"搜".repeat(40)), format!("{}…", "搜".repeat(14)));
    }

    #[test]
    fn what_does_not_fit_is_counted_and_named() {
        let group = GroupName::new("g");
        let tools: Vec<_> = (0..100).map(|n| tool(&format!("t{n}"), &"d".repeat(1000))).collect();
        let entries: Vec<_> = tools.iter().map(|(tool, definition)| (tool, definition)).collect();
        let instructions = "i\n".repeat(20_000);
        let head = || head(&group, "100 tools", Some(&instructions));
        let full = definitions(head(), &entries, &group);
        let short = signatures(head(), &signed(&entries), &group);
        for (text, what, each) in [(full, "definitions", "\"inputSchema\""), (short, "signatures", "()")] {
            assert!(text.chars().count() < 48_000 && text.lines().count() < 1900, "{}", text.len());
            let shown = text.matches(each).count();
            assert!(shown > 10 && text.contains(&format!("\n{} more {what} did not fit", 100 - shown)));
        }
    }

    #[test]
    fn a_definition_that_no_answer_can_hold_is_told_by_its_signature() {
        let group = GroupName::new("g");
        let head = head(&group, "1 of 2 tools", Some(&"i ".repeat(20_000)));
        for description in ["d".repeat(40_000), "d\n".repeat(40_000)] {
            let huge = tool("huge", &description);
            let text = definitions(head.clone(), &[(&huge.0, &huge.1)], &group);
            assert!(text.contains("huge()") && text.contains("too long to be shown"), "{}", text.len());
            assert!(text.chars().count() < 48_000 && text.lines().count() < 1900, "{}", text.len());
        }
    }
}
