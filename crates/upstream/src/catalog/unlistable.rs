//! Tools with a definition that MCP does not allow. Lists leave them out, because clients would reject the whole list.

use super::tool::Tool;
use base::text::{joined_up_to, quoted, shorten};

/// How many tools the finding names.
const MAX_NAMED: usize = 5;
/// How many characters of a name the finding has.
const MAX_NAME: usize = 64;

/// Returns a finding that names the tools which lists leave out; `None` if there are none.
pub(crate) fn finding<'t>(tools: impl Iterator<Item = &'t Tool>) -> Option<String> {
    let why = |tool: &Tool| {
        let why = tool.unlistable.as_ref()?;
        Some(format!("{} ({why})", quoted(&shorten(&tool.name, MAX_NAME))))
    };
    let mut all = tools.filter_map(why).peekable();
    all.peek()?;
    let named = joined_up_to(MAX_NAMED, all);
    Some(format!(
        "lists of all tools leave out those with a definition that MCP does not allow, because some clients would \
             reject the whole list: {named}; get_dynamic_tools shows them, and call_dynamic_tool calls them"
    ))
}
