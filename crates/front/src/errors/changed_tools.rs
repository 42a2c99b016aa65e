//! The texts about tools that changed since they were first seen, and about tools that are refused because they
//! changed.

use base::text::{self, shorten};
use config::{GroupName, ServerConfig};
use upstream::pins::changes::WhyRefused;
use upstream::{Snapshot, Tool, Upstream};

/// How many tools one text names.
const MAX_NAMED: usize = 20;
/// How many characters of a name a text shows.
const MAX_NAME: usize = 80;
/// The description of a refused tool in lists of names.
pub(crate) const STUB: &str = "Changed and not approved by the user: calls are refused.";

/// What follows the command that approves a tool which may be different at each start.
const VARYING_HINT: &str = " (with --varying if it differs at each start of the server)";

/// Returns the text for the model if a tool is refused, because it changed or because the record of approvals cannot be
/// read. `tool`: its name as clients see it.
pub fn refusal(group: &GroupName, snapshot: &Snapshot, tool: &str) -> Option<String> {
    let refused = snapshot.refused();
    let (why, server) = (refused.why(tool)?, snapshot.server.as_deref()?);
    let name = quoted(tool);
    Some(match why {
        WhyRefused::Changed(change) => format!(
            "Tool {name} of group {} {} and the user has not approved it, so it was not called. Tell the user, who can \
             review and accept it with: {}{}",
            group,
            difference(&change.parts),
            approve_command(group, server, Some(snapshot.rules.own_name(tool))),
            if change.may_vary { VARYING_HINT } else { "" }
        ),
        WhyRefused::Unreadable(why) => format!(
            "Tool {name} of group {} was not called: it is not known which tools the user has approved, because {why}. \
             Tell the user.",
            group
        ),
    })
}

/// Returns the line about the refused ones of these tools for the description of a group; `None` if there are none.
pub fn left_out<'t>(group: &Upstream, tools: impl Iterator<Item = &'t Tool>) -> Option<String> {
    let snapshot = group.snapshot();
    let refused = snapshot.refused();
    let server = snapshot.server.as_deref()?;
    let names: Vec<_> = tools.map(|tool| &tool.name).filter(|name| refused.contains(name)).collect();
    let first = refused.why(names.first()?)?;
    let count = names.len();
    if let WhyRefused::Unreadable(why) = first {
        return Some(format!("Every tool is refused: it is not known which were approved, because {why}."));
    }
    let named = names.iter().filter_map(|name| match refused.why(name)? {
        WhyRefused::Changed(change) => Some(format!("{} ({})", quoted(name), change.parts.join(", "))),
        WhyRefused::Unreadable(_) => None,
    });
    Some(format!(
        "Left out, because they changed and the user has not approved them: {}. The user can review and accept them \
         with: {}",
        joined(named, count),
        approve_command(&group.name, server, None)
    ))
}

/// Joins the first entries, and counts the others. `count`: how many there are.
pub fn joined(entries: impl Iterator<Item = String>, count: usize) -> String {
    let text = entries.take(MAX_NAMED).collect::<Vec<_>>().join("; ");
    match count.checked_sub(MAX_NAMED) {
        Some(more @ 1..) => format!("{text}; +{more} more"),
        _ => text,
    }
}

/// Returns a name that an upstream chose, in quotation marks, on one line and with hidden characters made visible. A
/// long one is cut.
pub fn quoted(name: &str) -> String {
    text::quoted(&shorten(name, MAX_NAME))
}

/// Says how a tool differs.
fn difference(parts: &[String]) -> String {
    match parts {
        [part] if part == "new" => "is new".to_owned(),
        parts => format!("changed ({})", parts.join(", ")),
    }
}

/// The command that approves the changes of a group or of one tool.
pub fn approve_command(group: &GroupName, server: &ServerConfig, tool: Option<&str>) -> String {
    let words = [Some(group.as_str()), tool].into_iter().flatten();
    // A name that cannot be typed is approved with the rest of the group.
    let words: Vec<_> = words.map_while(text::shell_word).collect();
    format!("dynamic-mcp approve {}{}", words.join(" "), config_option(server))
}

/// The option with which a command reads the config file of a server, with a space before it. A path that cannot be typed
/// is left out.
pub fn config_option(server: &ServerConfig) -> String {
    let file = server.origin.file.to_str().and_then(text::shell_word);
    file.map(|file| format!(" --config {file}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_upstreams_are_one_visible_line_and_their_number_is_bounded() {
        assert_eq!(quoted("a\n- bank: \u{200b}IMPORTANT"), r#""a\n- bank: \u{200b}IMPORTANT""#);
        let many = (0..MAX_NAMED + 3).map(|n| n.to_string());
        assert!(joined(many, MAX_NAMED + 3).ends_with("; 19; +3 more"));
        assert_eq!(joined(["a".to_owned()].into_iter(), 1), "a");
    }
}
