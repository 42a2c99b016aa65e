//! Writes definitions, signatures and stubs of tools so that clients show all of the text.

use crate::results::content::text_block;
use base::text::{counted, joined_up_to, name, one_line, quoted, quoted_lines, shorten, visible};
use config::GroupName;
use schema::signature::{Signature, signature};
use serde_json::json;
use upstream::Tool;
use wire::tokens::Tokens;
use wire::{Raw, raw};

/// The length of a stub's text: about eight tokens, enough to tell tools apart.
const MAX_STUB: usize = 46;
/// The width of a character outside ASCII: a token has one of these, or four ASCII characters.
const WIDE_CHARACTER: usize = 3;
/// The length of the text about a group.
const MAX_GROUP_LINE: usize = 160;
/// A definition longer than this is split at its members, because some clients show nothing of one long line.
const MAX_LINE: usize = 4000;
/// The limits for an answer. OpenCode cuts a result at 50 kB and 2,000 lines, Claude Code at 50,000 characters; there
/// is room for a last line.
const MAX_CHARACTERS: usize = 47_000;
const MAX_LINES: usize = 1880;
/// The limits for the upstream's own instructions.
const MAX_INSTRUCTIONS: usize = 12_000;
const MAX_INSTRUCTION_LINES: usize = 400;

/// How many definitions that did not fit are named, and how long a name may be.
const MAX_NAMED: usize = 20;
const MAX_NAME: usize = 64;

/// A tool and its definition.
pub(crate) type ToolEntry<'a> = (&'a Tool, &'a Raw);

/// Returns the head of an answer: the group's name, the number of tools, and the upstream's own instructions.
pub fn head(group: &GroupName, tools: &str, instructions: Option<&str>) -> String {
    let mut head = format!("Group {group}: {tools}");
    if let Some(instructions) = instructions {
        let shown = instructions.trim().lines().take(MAX_INSTRUCTION_LINES).collect::<Vec<_>>().join("\n");
        let shown = quoted_lines(&shorten(&shown, MAX_INSTRUCTIONS));
        head.push_str(&format!("\nInstructions of this server:\n{shown}\n"));
    }
    head
}

/// Returns a line about a group. `tools`: how many it has, if that is known; `broken`: why it cannot be used, if that
/// is so; `about`: a text about it.
pub fn group(group: &GroupName, tools: Option<usize>, broken: Option<&str>, about: Option<&str>) -> String {
    let tools = match (broken, tools) {
        (Some(broken), _) => format!(" (not available: {broken})"),
        (None, Some(tools)) => format!(" ({})", counted(tools, "tool")),
        (None, None) => String::new(),
    };
    match about.map(one_line).filter(|about| !about.is_empty()) {
        Some(about) => format!("{group}{tools}: {}", shorten(&about, MAX_GROUP_LINE)),
        None => format!("{group}{tools}"),
    }
}

/// Lists groups, each on its line.
pub fn groups(lines: impl ExactSizeIterator<Item = String>) -> String {
    let mut out = BoundedText::new(format!("{} groups:", lines.len()));
    for line in lines {
        out.push(&line);
    }
    let rest = out.omitted("groups");
    format!("{}{rest}\nTheir tools: get_dynamic_tools {{\"group\":\"NAME\"}}", out.text)
}

/// Lists names, each with the first sentence of its description.
pub fn stubs(head: String, tools: &[&Tool], group: &GroupName) -> String {
    let mut out = BoundedText::new(head);
    for tool in tools {
        out.push(&match tool.summary.is_empty() {
            true => name(&tool.name),
            false => format!("{}: {}", name(&tool.name), stub(&tool.summary)),
        });
    }
    let rest = out.omitted("tools");
    format!("{}{rest}\nFull definitions: {}", out.text, by_name(group))
}

fn stub(summary: &str) -> String {
    let widths = summary.chars().scan(0, |width, c| {
        *width += if c.is_ascii() { 1 } else { WIDE_CHARACTER };
        Some(*width)
    });
    let fitting = widths.take_while(|width| *width <= MAX_STUB).count();
    shorten(summary, fitting)
}

/// Computes the signatures of tools.
pub(crate) fn signatures_of(entries: &[ToolEntry<'_>]) -> Vec<Signature> {
    entries.iter().map(|(_, definition)| signature(definition)).collect()
}

/// Computes the signatures of tools. `None` if one of them does not say everything, or if they take more than `budget`
/// bytes.
pub(crate) fn signatures_within(budget: usize, entries: &[ToolEntry<'_>]) -> Option<Vec<Signature>> {
    let mut size = 0;
    let within = |(_, definition): &ToolEntry<'_>| {
        let signature = signature(definition);
        size += signature.to_string().len();
        (size <= budget && signature.lossless).then_some(signature)
    };
    entries.iter().map(within).collect()
}

/// Lists signatures, and marks those that do not say everything.
pub fn signatures(head: String, signatures: &[Signature], group: &GroupName) -> String {
    let mut out = BoundedText::new(head);
    let mut lossy = 0;
    for signature in signatures {
        let mark = if signature.lossless { "" } else { " // see its full definition" };
        lossy += usize::from(!signature.lossless);
        out.push(&format!("{signature}{mark}"));
    }
    let rest = out.omitted("signatures");
    match rest.is_empty() && lossy == 0 {
        true => out.text,
        false => format!("{}{rest}\nFull definitions: {}", out.text, by_name(group)),
    }
}

/// Definitions as an answer has them.
pub struct RenderedDefinitions<'a> {
    /// The text of the answer.
    pub text: String,
    /// The tools whose definitions did not fit in it.
    pub(crate) unshown: Vec<ToolEntry<'a>>,
}

/// The definitions of named tools that did not fit in an answer.
pub struct UnshownDefinitions {
    /// They, as a result that can be stored.
    pub(crate) result: Raw,
    /// How a text introduces the way to read what is stored.
    pub(crate) introduction: String,
    /// How to ask for them if they are not stored.
    pub(crate) by_name: String,
}

impl RenderedDefinitions<'_> {
    /// Returns the text, which ends with how to ask for the definitions that did not fit.
    pub(crate) fn with_hint(self, group: &GroupName) -> String {
        match self.unshown.is_empty() {
            true => self.text,
            false => format!("{}\nFull definitions: {}", self.text, by_name(group)),
        }
    }

    /// Returns the definitions that did not fit; `None` if all fit.
    pub fn unshown(&self, group: &GroupName) -> Option<UnshownDefinitions> {
        let names = self.unshown.iter().map(|(tool, _)| quoted(&shorten(&tool.name, MAX_NAME)));
        let named = joined_up_to(MAX_NAMED, names);
        let blocks = self.unshown.iter().map(|(_, definition)| text_block(&split_lines(definition)));
        let blocks: Vec<_> = blocks.collect();
        let result = [b"{\"content\":", &raw::array(&blocks)[..], b"}"].concat().into();
        (!blocks.is_empty()).then(|| UnshownDefinitions {
            result,
            introduction: format!("Full definitions of {named}: "),
            by_name: format!("Full definitions: {}", by_name(group)),
        })
    }
}

/// Lists definitions, verbatim, one per line. A definition that is too long for any answer is replaced by its
/// signature. `unshown` has every tool whose definition is not in the text.
pub fn definitions<'a>(head: String, entries: &[ToolEntry<'a>]) -> RenderedDefinitions<'a> {
    let alone = BoundedText::new(head.clone());
    let mut out = BoundedText::new(head);
    let mut unshown = Vec::new();
    for (tool, definition) in entries {
        // A character has at most four bytes.
        let text = (definition.len() <= 4 * MAX_CHARACTERS).then(|| split_lines(definition));
        match text.filter(|text| alone.fits(text)) {
            Some(text) if out.fits(&text) && out.omitted == 0 => out.push(&text),
            Some(_) => {
                out.omitted += 1;
                unshown.push((*tool, *definition));
            }
            None => {
                let (short, length) = (signature(definition), definition.len());
                let name = quoted(&tool.name);
                out.push(&format!(
                    "{short}\n(The definition of {name} is too long to show: {length} bytes.)"
                ));
                unshown.push((*tool, *definition));
            }
        }
    }
    let rest = out.omitted("definitions");
    RenderedDefinitions { text: out.text + &rest, unshown }
}

/// Returns how to ask for full definitions.
fn by_name(group: &GroupName) -> String {
    let arguments = json!({ "group": group.as_str(), "tools": ["NAME"] });
    format!("get_dynamic_tools {}", visible(&arguments.to_string()))
}

/// Inserts line ends between the members of long objects, in one pass at any nesting.
fn split_lines(json: &Raw) -> String {
    let text = String::from_utf8_lossy(json);
    if text.len() <= MAX_LINE {
        return text.into_owned();
    }
    let bytes = text.as_bytes();
    // The objects and arrays around a byte: where each begins, and how many of the commas are not its own.
    let mut open: Vec<(usize, usize)> = Vec::new();
    // The commas of the open objects, and those after which a line ends.
    let (mut commas, mut ends) = (Vec::new(), Vec::new());
    for (at, byte) in Tokens::new(bytes) {
        match byte {
            b'{' | b'[' => open.push((at, commas.len())),
            b',' if open.last().is_some_and(|(start, _)| bytes[*start] == b'{') => commas.push(at),
            b'}' | b']' => {
                let (start, first) = open.pop().unwrap_or_default();
                let own = commas.drain(first.min(commas.len())..);
                if at - start >= MAX_LINE {
                    ends.extend(own);
                }
            }
            _ => {}
        }
    }
    ends.sort_unstable();
    let mut lines = String::with_capacity(text.len() + ends.len());
    let mut start = 0;
    for end in ends {
        lines.push_str(&text[start..=end]);
        lines.push('\n');
        start = end + 1;
    }
    lines.push_str(&text[start..]);
    lines
}

/// Text within the limits of clients. It takes whole entries and counts those that do not fit.
struct BoundedText {
    /// The text so far.
    text: String,
    /// The number of its characters.
    characters: usize,
    /// The number of its lines.
    lines: usize,
    /// The number of entries that did not fit.
    omitted: usize,
}

impl BoundedText {
    fn new(head: String) -> Self {
        Self { characters: head.chars().count(), lines: head.lines().count(), text: head, omitted: 0 }
    }

    fn fits(&self, entry: &str) -> bool {
        self.characters + entry.chars().count() < MAX_CHARACTERS
            && self.lines + entry.lines().count() <= MAX_LINES
    }

    fn push(&mut self, entry: &str) {
        if self.omitted > 0 || !self.fits(entry) {
            self.omitted += 1;
            return;
        }
        self.characters += entry.chars().count() + 1;
        self.lines += entry.lines().count();
        self.text.push('\n');
        self.text.push_str(entry);
    }

    fn omitted(&self, what: &str) -> String {
        match self.omitted {
            0 => String::new(),
            n => format!("\n{n} more {what} did not fit in this answer."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upstream::catalog::list_limits::CatalogList;
    use upstream::catalog::list_reader::read_cached;
    use wire::object::Object;

    fn tool(name: &str, description: &str) -> (Tool, Raw) {
        let definition =
            json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        let page = format!("{{\"tools\":[{definition}]}}");
        read_cached(CatalogList::Tools, &Object::parse(&page.into()).unwrap()).unwrap().remove(0)
    }

    #[test]
    fn a_long_definition_is_split_between_members_and_stays_equal() {
        let long = "x".repeat(3000);
        let schema = json!({ "type": "object", "properties": { "a": { "d": long }, "b": { "d": long } } });
        let definition = json!({ "name": "n", "inputSchema": schema });
        let text = split_lines(&definition.to_string().into());
        assert!(text.lines().count() > 3, "{text}");
        assert!(text.lines().all(|line| line.len() <= MAX_LINE));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), definition);
    }

    #[test]
    fn nesting_of_any_depth_is_split_in_one_pass() {
        let deep = |levels: usize| format!("{}1{}", r#"{"a,\"":0,"b":["#.repeat(levels), "]}".repeat(levels));
        let text = split_lines(&deep(2000).into());
        // A line ends in each object that is long.
        assert!(text.lines().count() > 1700, "{}", text.lines().count());
        assert_eq!(text.replace('\n', ""), deep(2000));
        // At each level, the rest was read again.
        assert_eq!(split_lines(&deep(500_000).into()).replace('\n', ""), deep(500_000));
    }

    #[test]
    fn a_stub_has_about_as_many_tokens_in_any_script() {
        assert_eq!(stub("Short."), "Short.");
        assert_eq!(stub(&"word ".repeat(20)), format!("{}…", "word ".repeat(9).trim_end()));
        assert_eq!(stub(&"搜".repeat(40)), format!("{}…", "搜".repeat(14)));
    }

    #[test]
    fn entries_that_do_not_fit_are_counted() {
        let group = GroupName::new("g");
        let tools: Vec<_> = (0..100).map(|n| tool(&format!("t{n}"), &"d".repeat(1000))).collect();
        let entries: Vec<_> = tools.iter().map(|(tool, definition)| (tool, definition)).collect();
        let instructions = "i\n".repeat(20_000);
        let head = || head(&group, "100 tools", Some(&instructions));
        let full = definitions(head(), &entries).with_hint(&group);
        let short = signatures(head(), &signatures_of(&entries), &group);
        for (text, what, each) in [(full, "definitions", "\"inputSchema\""), (short, "signatures", "()")] {
            assert!(text.chars().count() < 48_000 && text.lines().count() < 1900, "{}", text.len());
            let shown = text.matches(each).count();
            assert!(shown > 10 && text.contains(&format!("\n{} more {what} did not fit", 100 - shown)));
        }
        let many: Vec<_> = tools.iter().map(|(tool, _)| tool).cycle().take(3000).collect();
        let stubs = stubs(head(), &many, &group);
        let shown = stubs.lines().filter(|line| line.starts_with('t')).count();
        assert!(
            shown > 10 && stubs.contains(&format!("\n{} more tools did not fit", 3000 - shown)),
            "{shown}"
        );
    }

    #[test]
    fn a_definition_too_long_for_any_answer_is_replaced_by_its_signature() {
        let group = GroupName::new("g");
        let head = head(&group, "1 of 2 tools", Some(&"i ".repeat(20_000)));
        for description in ["d".repeat(40_000), "d\n".repeat(40_000)] {
            let huge = tool("huge", &description);
            let text = definitions(head.clone(), &[(&huge.0, &huge.1)]).with_hint(&group);
            assert!(text.contains("huge()") && text.contains("too long to show"), "{}", text.len());
            assert!(text.chars().count() < 48_000 && text.lines().count() < 1900, "{}", text.len());
        }
    }
}
