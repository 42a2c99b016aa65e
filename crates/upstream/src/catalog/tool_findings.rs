//! Findings about the tools of a server: rules of its config entry that match none, tools that the rules hide, and
//! tools that lists leave out.

use super::{Catalog, Tool};
use base::text::{joined_up_to, quoted, shorten};
use config::glob::Glob;
use config::nearest::nearest;
use config::tool_rules::{OwnGlob, Rules};

/// How many tools a finding names.
const MAX_NAMED: usize = 5;
/// How many characters of a name a finding has.
const MAX_NAME: usize = 64;

/// Returns a finding for each glob of the entry that matches no tool. Findings name only tools of which `may_name` is
/// true. There are no findings if the list of tools is empty or incomplete.
pub(crate) fn unused(
    globs: &[OwnGlob],
    catalog: &Catalog,
    rules: &Rules,
    may_name: impl Fn(&str) -> bool,
) -> Vec<String> {
    // If the list is empty or incomplete, a glob without a match is no mistake.
    if catalog.tools.is_empty() || catalog.left_off.text().is_some() {
        return Vec::new();
    }
    let names = || catalog.tools.iter().map(|tool| rules.own_name(&tool.name));
    let is_unused =
        |written: &str| Glob::parse(written).is_ok_and(|glob| !names().any(|name| glob.matches(name)));
    let unused = globs.iter().filter(|glob| is_unused(&glob.written));
    let finding = |glob: &OwnGlob| {
        let shown = || names().filter(|name| may_name(name));
        let instead = match nearest(&glob.written, shown()) {
            Some(meant) => format!("; did you mean {}?", quoted(meant)),
            None if shown().next().is_none() => String::new(),
            None => format!("; the server has {}", named(shown().map(quoted_name))),
        };
        format!("`{}`: {} matches no tool{instead}", glob.field, quoted_name(&glob.written))
    };
    unused.map(finding).collect()
}

/// Names the first `MAX_NAMED` tools that the rules hide, each with its rule, and how many more there are. `None` if
/// there are none. Only the owner of the config may see this.
pub(crate) fn hidden(catalog: &Catalog, rules: &Rules) -> Option<String> {
    let names = catalog.tools.iter().map(|tool| rules.own_name(&tool.name));
    let hidden = names.filter_map(|name| Some(format!("{} ({})", quoted_name(name), rules.hides_own(name)?)));
    Some(format!("not used, by the rules in the config: {}", named_if_any(hidden)?))
}

/// Names the first `MAX_NAMED` tools that lists leave out, because clients would reject a list with a definition that
/// MCP does not allow, and says how many more there are. `None` if there are none.
pub(crate) fn unlistable<'t>(tools: impl Iterator<Item = &'t Tool>) -> Option<String> {
    let why = |tool: &Tool| Some(format!("{} ({})", quoted_name(&tool.name), tool.unlistable()?));
    let named = named_if_any(tools.filter_map(why))?;
    Some(format!(
        "lists of all tools leave out those with a definition that MCP does not allow, because some clients would \
             reject the whole list: {named}; get_dynamic_tools shows them, and call_dynamic_tool calls them"
    ))
}

fn named_if_any(names: impl Iterator<Item = String>) -> Option<String> {
    let mut names = names.peekable();
    names.peek()?;
    Some(named(names))
}

fn named(names: impl Iterator<Item = String>) -> String {
    joined_up_to(MAX_NAMED, names)
}

fn quoted_name(name: &str) -> String {
    quoted(&shorten(name, MAX_NAME))
}
