//! `get_dynamic_tools`: a group's tools as stubs or as full definitions, in a form that clients show whole.

use super::arguments::Listing;
use super::{errors, lookup};
use crate::config::ToolRules;
use crate::groups::GroupManager;
use crate::rules::Rules;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Catalog, Tool, shorten};
use crate::wire::{Raw, raw};
use serde_json::json;
use std::sync::Arc;

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
pub async fn get_dynamic_tools(groups: &GroupManager, arguments: Option<&Raw>) -> Raw {
    let listing = match Listing::read(arguments) {
        Ok(listing) => listing,
        Err(problem) => return errors::tool_error(&problem),
    };
    match tell(groups, &listing).await {
        Ok(text) => json!({ "content": [{ "type": "text", "text": text }] }).to_string().into(),
        Err(problem) => errors::tool_error(&problem),
    }
}

async fn tell(groups: &GroupManager, listing: &Listing) -> Result<String, String> {
    let all = groups.all();
    let group = lookup::group(&all, &listing.group)?;
    let (catalog, rules) = known_catalog(group).await?;
    let tools: Vec<_> = catalog.tools.iter().filter(|tool| rules.allows(&tool.name)).collect();
    let budget = groups.config().settings.tools_budget;
    let mut text = head(group, &catalog, tools.len());
    match (&listing.tools, listing.lazy) {
        (Some(names), _) => {
            let mut missing = Vec::new();
            let mut chosen = Vec::new();
            for name in names {
                match lookup::tool(&catalog, name).filter(|tool| rules.allows(&tool.name)) {
                    Some(tool) => chosen.push(tool),
                    None => missing.push(lookup::unknown_tool(
                        group.name.as_str(),
                        name,
                        tools.iter().map(|tool| tool.name.as_str()),
                    )),
                }
            }
            if chosen.is_empty() {
                return Err(missing.join("\n"));
            }
            text.push_str(&definitions(&chosen, &group.name.to_string()));
            missing.iter().for_each(|line| text.push_str(&format!("\n{line}")));
        }
        (None, Some(true)) => text.push_str(&stubs(&tools, group)),
        (None, Some(false)) => text.push_str(&definitions(&tools, &group.name.to_string())),
        (None, None) => {
            let size: usize = tools.iter().map(|tool| tool.definition.len()).sum();
            if size <= budget * CHARACTERS_PER_TOKEN {
                text.push_str(&definitions(&tools, &group.name.to_string()));
            } else {
                text.push_str(&stubs(&tools, group));
            }
        }
    }
    Ok(text)
}

/// What is known of the group; it is connected only if nothing is.
pub async fn known_catalog(group: &Upstream) -> Result<(Arc<Catalog>, Rules), String> {
    let mut snapshot = group.snapshot();
    if snapshot.catalog.is_none() {
        let wait = snapshot.wait();
        drop(group.acquire(wait).await.map_err(|why| errors::unavailable(&group.name, &why))?);
        snapshot = group.snapshot();
    }
    let none = ToolRules::default();
    let rules = Rules::new(snapshot.server.as_ref().map_or(&none, |server| &server.tools));
    let catalog = snapshot.catalog.clone().ok_or("The group's tools are not known yet; call again.")?;
    Ok((catalog, rules))
}

/// The group's name, how many tools it has, and the upstream's own instructions.
fn head(group: &Upstream, catalog: &Catalog, tools: usize) -> String {
    let mut head = format!("Group {}: {tools} tools", group.name);
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
    let how = json!({ "group": group.name.as_str(), "tools": ["NAME"] });
    format!("{}{rest}\nFull definitions: get_dynamic_tools {how}", out.text)
}

/// The definitions, verbatim, one a line.
fn definitions(tools: &[&Tool], group: &str) -> String {
    let mut out = Bounded::default();
    for tool in tools {
        out.push(&broken(&tool.definition));
    }
    let rest = out.left_out("definitions");
    let more = match rest.is_empty() {
        true => String::new(),
        false => format!(
            "{rest} Ask for them by name: get_dynamic_tools {}",
            json!({ "group": group, "tools": ["NAME"] })
        ),
    };
    format!("{}{more}", out.text)
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

    fn tool(name: &str, description: &str) -> Tool {
        let definition =
            json!({ "name": name, "description": description, "inputSchema": { "type": "object" } });
        let page = format!("{{\"tools\":[{definition}]}}");
        crate::upstream::catalog::read_page(&page.into()).unwrap().0.remove(0)
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
        let text = definitions(&tools.iter().collect::<Vec<_>>(), "g");
        assert!(text.chars().count() < CHARACTERS + 500);
        assert!(text.contains("more definitions did not fit"), "{}", &text[text.len() - 200..]);
        let shown = text.matches("\"inputSchema\"").count();
        assert!(text.contains(&format!("\n{} more", 100 - shown)));
    }

    #[test]
    fn the_first_definition_is_shown_whatever_its_size() {
        let huge = tool("huge", &"d".repeat(CHARACTERS * 2));
        let text = definitions(&[&huge], "g");
        assert!(text.contains("huge"));
    }
}
