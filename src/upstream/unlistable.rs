//! Tools whose definitions no list can have, because clients would reject the whole list.

use super::tool::Tool;
use base::text::{quoted, shorten};

/// How many of them the finding names.
const MAX_NAMED: usize = 5;
/// How many characters of a name it has.
const MAX_NAME: usize = 64;

/// What to know of a server that has such tools.
pub(super) fn finding<'t>(tools: impl Iterator<Item = &'t Tool>) -> Option<String> {
    let why = |tool: &Tool| {
        let why = tool.unlistable.as_ref()?;
        Some(format!("{} ({why})", quoted(&shorten(&tool.name, MAX_NAME))))
    };
    let all: Vec<String> = tools.filter_map(why).collect();
    let more =
        if all.len() > MAX_NAMED { format!(" and {} more", all.len() - MAX_NAMED) } else { String::new() };
    let named = all.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    (!all.is_empty()).then(|| {
        format!(
            "lists of all tools leave out those with a definition that MCP does not allow, because some clients would \
             reject the whole list: {named}{more}; get_dynamic_tools shows them, and call_dynamic_tool calls them"
        )
    })
}
