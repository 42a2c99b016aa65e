//! The names of our own tools.

/// The tool that describes the tools of a group.
pub const GET_DYNAMIC_TOOLS: &str = "get_dynamic_tools";
/// The tool that calls a tool of a group.
pub const CALL_DYNAMIC_TOOL: &str = "call_dynamic_tool";
/// The tool that calls only read-only tools, so that clients can allow it without asking the user.
pub(crate) const CALL_DYNAMIC_TOOL_READONLY: &str = "call_dynamic_tool_readonly";
/// The tool that searches the tools of all groups.
pub(crate) const SEARCH_DYNAMIC_TOOLS: &str = "search_dynamic_tools";
/// The tool that reports the states of the groups.
pub(crate) const GET_STATUS: &str = "get_status";

/// The tool that shows the status as a page. Only clients that show pages have it.
pub(crate) const SHOW_STATUS: &str = "show_status";
/// The tool that gives the page its data. No model sees it.
pub(crate) const STATUS_DATA: &str = "status_data";

/// The tool that the buttons of the page call. No model sees it.
pub(crate) const PAGE_ACTION: &str = "page_action";

/// All that every client has, as `tools/list` has them.
pub const NAMES: [&str; 5] =
    [GET_DYNAMIC_TOOLS, CALL_DYNAMIC_TOOL, CALL_DYNAMIC_TOOL_READONLY, SEARCH_DYNAMIC_TOOLS, GET_STATUS];

/// Returns whether a tool is one of those of the status page.
pub(crate) fn is_of_page(name: &str) -> bool {
    [SHOW_STATUS, STATUS_DATA, PAGE_ACTION].contains(&name)
}
