//! `get_dynamic_tools`: a group's tools as stubs or as full definitions, in a form that clients show whole.

use super::arguments::Listing;
use super::{errors, lookup, reach};
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, Read, Tool, shorten};
use crate::wire::peer::Progress;
use crate::wire::{Raw, raw};
use serde_json::json;

/// A stub's text: enough to tell tools apart, about ten tokens.
const STUB: usize = 60;
/// A definition longer than this is broken at its members, because some clients show nothing of one long line.
const LINE: usize = 4000;
/// OpenCode cuts a result at 50 kB and 2,000 lines, Claude Code at 50,000 characters.
const CHARACTERS: usize = 48_000;
const LINES: usize = 1900;
/// English text and JSON have about four characters a token.
const CHARACTERS_PER_TOKEN: usize = 4;

/// Answers `get_dynamic_tools`.
pub async fn get_dynamic_tools(
    groups: &GroupManager,
    arguments: Option<&Raw>,
    progress: Option<&Progress>,
) -> Raw {
    let listing = match Listing::read(arguments) {
        Ok(listing) => listing,
        Err(problem) => return errors::tool_error(&problem),
    };
    match tell(groups, &listing, progress).await {
        Ok(text) => json!({ "content": [{ "type": "text", "text": text }] }).to_string().into(),
        Err(problem) => errors::tool_error(&problem),
    }
}

/// `Err` is text for the model.
async fn tell(
    groups: &GroupManager,
    listing: &Listing,
    progress: Option<&Progress>,
) -> Result<String, String> {
    let group = &lookup::named(groups, &listing.group)?;
    group.touch();
    let budget = groups.config().settings.tools_budget * CHARACTERS_PER_TOKEN;
    if let Some(catalog) = group.snapshot().catalog.clone() {
        // What an earlier process read may answer, and never refuses.
        let final_word = matches!(catalog.read, Read::Here(_));
        match answer(group, &catalog, listing, budget) {
            Answer::Whole(text) => return Ok(text),
            Answer::Partly(outcome) if final_word => return outcome,
            Answer::Partly(_) | Answer::DefinitionsLost => {}
        }
    }
    let (group, _held_while_reading) = reach::lease(groups, group, progress).await?;
    let catalog =
        group.snapshot().catalog.clone().ok_or("The group's tools are not known yet; call again.")?;
    match answer(&group, &catalog, listing, budget) {
        Answer::Whole(text) => Ok(text),
        Answer::Partly(outcome) => outcome,
        Answer::DefinitionsLost => Err("The definitions are not known yet; call again.".to_owned()),
    }
}

/// A tool and its definition.
type Entry<'a> = (&'a Tool, &'a Raw);

enum Answer {
    Whole(String),
    /// Some of the tools that were named are not in this catalog.
    Partly(Result<String, String>),
    /// The cache has the names and no longer the definitions.
    DefinitionsLost,
}

fn answer(group: &Upstream, catalog: &Catalog, listing: &Listing, budget: usize) -> Answer {
    let rules = group.snapshot().rules.clone();
    let tools: Vec<_> = catalog.tools.iter().filter(|tool| rules.allows(&tool.name)).collect();
    let all = format!("{} tools", tools.len());
    let short = || Answer::Whole(format!("{}{}", head(group, catalog, &all), stubs(&tools, group)));
    if listing.tools.is_none() && listing.lazy == Some(true) {
        return short();
    }
    let Some(entries) = catalog.definitions() else { return Answer::DefinitionsLost };
    let entries: Vec<Entry<'_>> = entries.filter(|(tool, _)| rules.allows(&tool.name)).collect();
    let Some(names) = &listing.tools else {
        let size: usize = entries.iter().map(|(_, definition)| definition.len()).sum();
        if listing.lazy.is_none() && size > budget {
            return short();
        }
        return Answer::Whole(format!(
            "{}{}",
            head(group, catalog, &all),
            definitions(&entries, &group.name)
        ));
    };
    let found = |name: &String| {
        let tool = lookup::tool(catalog, name)?;
        entries.iter().find(|(entry, _)| entry.name == tool.name).copied()
    };
    let (chosen, missing): (Vec<_>, Vec<_>) =
        names.iter().map(|name| found(name).ok_or(name)).partition(Result::is_ok);
    let chosen: Vec<_> = chosen.into_iter().flatten().collect();
    let text = format!(
        "{}{}",
        head(group, catalog, &format!("{} of {all}", chosen.len())),
        definitions(&chosen, &group.name)
    );
    if missing.is_empty() {
        return Answer::Whole(text);
    }
    let known = || tools.iter().map(|tool| tool.name.as_str());
    let missing = missing.into_iter().filter_map(Result::err);
    let missing: Vec<_> =
        missing.map(|name| lookup::unknown_tool(group.name.as_str(), name, known())).collect();
    let missing = missing.join("\n");
    Answer::Partly(match chosen.is_empty() {
        true => Err(missing),
        false => Ok(format!("{text}\n{missing}")),
    })
}

/// The group's name, how many tools follow, and the upstream's own instructions.
fn head(group: &Upstream, catalog: &Catalog, tools: &str) -> String {
    let mut head = format!("Group {}: {tools}", group.name);
    if let Some(instructions) = &catalog.introduction.instructions {
        head.push_str(&format!("\nInstructions of this server:\n{}\n", instructions.trim()));
    }
    head
}

/// Names, each with the first sentence of its description.
fn stubs(tools: &[&Tool], group: &Upstream) -> String {
    let mut out = Bounded::default();
    for tool in tools {
        let line = match tool.summary.is_empty() {
            true => tool.name.clone(),
            false => format!("{}: {}", tool.name, shorten(&tool.summary, STUB)),
        };
        out.push(&line);
    }
    let rest = out.left_out("tools");
    format!("{}{rest}\nFull definitions: {}", out.text, by_name(&group.name))
}

/// The definitions, verbatim, one a line.
fn definitions(entries: &[Entry<'_>], group: &GroupName) -> String {
    let mut out = Bounded::default();
    for (_, definition) in entries {
        out.push(&broken(definition));
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
#[derive(Default)]
struct Bounded {
    text: String,
    characters: usize,
    lines: usize,
    left_out: usize,
}

impl Bounded {
    fn push(&mut self, entry: &str) {
        let (characters, lines) = (entry.chars().count() + 1, entry.lines().count());
        let first = self.text.is_empty();
        let fits = self.characters + characters <= CHARACTERS && self.lines + lines <= LINES;
        if self.left_out > 0 || !(fits || first) {
            self.left_out += 1;
            return;
        }
        self.characters += characters;
        self.lines += lines;
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
    fn what_does_not_fit_is_counted_and_named() {
        let tools: Vec<_> = (0..100).map(|n| tool(&format!("t{n}"), &"d".repeat(1000))).collect();
        let entries: Vec<_> = tools.iter().map(|(tool, definition)| (tool, definition)).collect();
        let text = definitions(&entries, &GroupName::new("g"));
        assert!(text.chars().count() < CHARACTERS + 500);
        assert!(text.contains("more definitions did not fit"), "{}", &text[text.len() - 200..]);
        let shown = text.matches("\"inputSchema\"").count();
        assert!(text.contains(&format!("\n{} more", 100 - shown)));
    }

    #[test]
    fn the_first_definition_is_shown_whatever_its_size() {
        let huge = tool("huge", &"d".repeat(CHARACTERS * 2));
        let text = definitions(&[(&huge.0, &huge.1)], &GroupName::new("g"));
        assert!(text.contains("huge"));
    }
}
