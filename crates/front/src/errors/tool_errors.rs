//! The texts that tell a model why a call was not made and what to do next. `request_error` has those for groups that are
//! not available or do not answer.

use crate::errors::shown;
use base::text::{quoted, quoted_list, shorten};
use config::GroupName;
use config::tool_rules::RuleSource;
use serde_json::json;
use std::time::Duration;
use upstream::Upstream;
use upstream::login::LoginPurpose;
use wire::Raw;

/// A longer name of a tool is cut where the name is what is too long.
const MAX_NAME: usize = 200;

/// Returns a result of `tools/call` with this text and `isError: true`.
pub fn result(text: &str) -> Raw {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true }).to_string().into()
}

/// Returns the text for a login that the user declined.
pub(crate) fn login_declined(purpose: LoginPurpose) -> &'static str {
    match purpose {
        LoginPurpose::Connect => {
            "The user declined the login that this group needs. Do not use the group unless the user asks for it."
        }
        LoginPurpose::MoreScopes => {
            "The user declined to log in with more permissions. Tools that need no more permissions still work."
        }
    }
}

/// The user closed the question about a login.
pub(crate) const LOGIN_DISMISSED: &str =
    "The user dismissed the login. Call again only if the user wants to log in.";

/// Returns the text about a login that the client cannot show to its user. It stays open for `remaining`.
pub(crate) fn login_url(url: &str, remaining: Duration) -> String {
    let time = match remaining.as_secs() / 60 {
        0 => "now".to_owned(),
        1 => "within a minute".to_owned(),
        minutes => format!("within {minutes} minutes"),
    };
    format!(
        "Ask the user to log in: open this address {time} in a browser on the machine that runs dynamic-mcp, then \
         call again.\n{url}"
    )
}

/// Returns the text about a login that the user agreed to and has not finished.
pub(crate) fn login_in_progress(url: &str) -> String {
    format!("The user agreed to log in but has not finished. Call again after the login. The address:\n{url}")
}

/// Returns the text about a login that was not finished in time.
pub(crate) fn login_expired(group: &GroupName) -> String {
    format!("The login to group {group} was not finished in time. Call again to start a new one.")
}

/// Returns the text about a login that failed.
pub fn login_failed(why: &str) -> String {
    // Some errors begin with these words themselves.
    let why = why.strip_prefix("the login failed: ").unwrap_or(why);
    format!("The login failed: {why}\nTell the user.")
}

/// Returns the text about a stateful server that was restarted: the call would run without the state that it relies on.
pub fn lost_state(group: &GroupName) -> String {
    format!(
        "Group {group} was restarted since the last call, so the state of its session is gone (open pages, \
         connections, shells). This call was not run. Restore the state, then call again."
    )
}

/// Returns the text about arguments that no server with the tool's schema can take. `signature`: what would fit.
pub(crate) fn invalid_arguments(group: &GroupName, tool: &str, mismatch: &str, signature: &str) -> String {
    let tool = quoted(tool);
    format!(
        "The arguments do not fit tool {tool} of group {group}, so it was not called:\n{mismatch}\n\
         Its signature: {signature}"
    )
}

/// Returns the text about an error of a call whose arguments do not fit the tool's schema. `signature`: what would fit.
pub(crate) fn failed_with_misfit(group: &GroupName, tool: &str, mismatch: &str, signature: &str) -> String {
    let tool = quoted(tool);
    format!(
        "The arguments do not fit the schema of tool {tool} of group {group}, which may be the cause:\n{mismatch}\n\
         Its signature: {signature}"
    )
}

/// Returns the text about a tool's bare name that several groups have.
pub fn ambiguous<'a>(tool: &str, groups: impl Iterator<Item = &'a GroupName>) -> String {
    let (tool, names) = (quoted(tool), quoted_list(groups.map(GroupName::as_str)));
    format!("Several groups have a tool {tool}: {names}. Use call_dynamic_tool and name the group.")
}

/// Returns the text about a call without a group whose tool several groups have.
pub(crate) fn group_ambiguous<'a>(tool: &str, groups: impl Iterator<Item = &'a GroupName>) -> String {
    let (tool, names) = (quoted(tool), quoted_list(groups.map(GroupName::as_str)));
    format!("Argument \"group\" is missing, and several groups have a tool {tool}: {names}.")
}

/// Returns the text about a call without a group whose tool no known group has.
pub(crate) fn group_missing(tool: &str, all: &[Upstream]) -> String {
    let names =
        |groups: &mut dyn Iterator<Item = &Upstream>| quoted_list(groups.map(|group| group.name.as_str()));
    let unread = names(&mut all.iter().filter(|group| group.snapshot().catalog.is_none()));
    let unread = match unread.is_empty() {
        true => String::new(),
        false => format!(" The tools of {unread} are not known yet: name the group, which starts it."),
    };
    format!(
        "Argument \"group\" is missing, and no known group has a tool {}. The groups: {}.{unread}",
        quoted(tool),
        names(&mut all.iter())
    )
}

/// Returns the text about a tool that the read-only variant does not call. `claimed`: whether the server says that it
/// is read-only.
pub(crate) fn not_read_only(group: &GroupName, tool: &str, claimed: bool) -> String {
    let tool = quoted(tool);
    if claimed {
        return format!(
            "Tool {tool} of group {group} says that it is read-only, which does not count (trust_annotations is false in \
             the config), so it was not called. Use call_dynamic_tool."
        );
    }
    format!(
        "Tool {tool} of group {group} is not marked as read-only, so it was not called. Use call_dynamic_tool."
    )
}

/// Returns the text about a tool that a model calls although only its app may.
pub(crate) fn only_for_its_app(group: &GroupName, tool: &str) -> String {
    format!(
        "Tool {} of group {group} is only for the user interface of the server (its `_meta.ui.visibility`), so it was not \
         called.",
        quoted(tool)
    )
}

/// Returns the text about an argument that the config hides, in a call that has it in the spelling `written`.
pub(crate) fn hidden_argument(group: &GroupName, tool: &str, argument: &str, written: &str) -> String {
    let as_written = match written == argument {
        true => String::new(),
        false => format!(", as which some servers read {}", quoted(written)),
    };
    format!(
        "Tool {} of group {group} was not called: the config hides its argument {}{as_written} (tools.override). Call \
         it again without this argument.",
        quoted(tool),
        quoted(argument)
    )
}

/// Returns the text about a tool that is left off the list of a group whose tools are pinned.
pub(crate) fn unlisted_pinned(group: &GroupName, tool: &str) -> String {
    format!(
        "Tool {} of group {group} {LEFT_OFF}. The config pins the tools of this group (pin_tools).",
        shown(tool)
    )
}

/// Returns the text about a tool that is left off the list, and whose arguments the config hides.
pub(crate) fn unlisted_with_hidden_args(group: &GroupName, tool: &str) -> String {
    format!(
        "Tool {} of group {group} {LEFT_OFF}. The config hides arguments of this tool (tools.override.hidden_args).",
        shown(tool)
    )
}

/// Returns the text about a tool of a server whose list could not be read.
pub(crate) fn list_not_read(group: &GroupName, tool: &str) -> String {
    format!(
        "Tool {} of group {group} was not called: the server did not give its list of tools (get_status says why), and a \
         pin, a hidden argument or the read-only call needs it. Call again later.",
        shown(tool)
    )
}

/// Returns why such a tool is not called.
const LEFT_OFF: &str = "was not called: its definition is not known, because the list of tools \
    exceeds a limit or could not be read (get_status says why), and a rule of the config needs the definition";

/// Returns the text about a tool that needs the user's approval, and a client that cannot ask for it.
pub(crate) fn cannot_ask_for_approval(group: &GroupName, tool: &str, source: RuleSource) -> String {
    let tool = quoted(tool);
    let place = match source {
        RuleSource::Server => "in the config",
        RuleSource::Profile => "of the profile in use",
    };
    format!(
        "The user has to confirm each call of tool {tool} of group {group} (tools.ask {place}), but this client \
         cannot ask the user (it has no form elicitation), so the tool was not called. The user can remove the tool \
         from tools.ask."
    )
}

/// Returns the text about a tool that needs an approval, which cannot be given over HTTP.
pub(crate) fn no_approvals_over_http(group: &GroupName, tool: &str) -> String {
    let tool = quoted(tool);
    format!(
        "Each call of tool {tool} of group {group} has to be confirmed (tools.ask), which is not possible over HTTP: the \
         next request may reach another process. The tool was not called. Whoever runs this server can remove the tool \
         from tools.ask, or offer it on stdio."
    )
}

/// Returns the text about a tool whose server wants the user's approval, and a client that did not ask for it.
pub(crate) fn not_asked_for_approval(group: &GroupName, tool: &str) -> String {
    let tool = quoted(tool);
    format!(
        "The server of group {group} wants the user to confirm each call of tool {tool}, but the client gave no \
         answer to the question, so the tool was not called. Ask the user."
    )
}

/// Returns the text about a call that needs the user's approval while too many questions wait for the user.
pub(crate) fn too_many_questions(group: &GroupName, tool: &str) -> String {
    let tool = quoted(tool);
    format!(
        "The user has to confirm this call of tool {tool} of group {group}, but too many questions about the group \
         wait for the user, so the tool was not called. Call again when some are answered."
    )
}

/// Returns the text about a stateless client's call that needs the user's approval, while as many approvals as are kept
/// are unused.
pub(crate) fn too_many_open_approvals(group: &GroupName, tool: &str) -> String {
    let tool = quoted(tool);
    format!(
        "The user has to confirm this call of tool {tool} of group {group}, but too many questions of this kind wait \
         for an answer, so the tool was not called. Call again when the user has answered some of them, or when the \
         oldest have expired: they do after ten minutes."
    )
}

/// Returns the text about a stateless client's call with an approval that another call has used.
pub(crate) fn approval_used(group: &GroupName, tool: &str) -> String {
    let tool = quoted(tool);
    format!(
        "The user's approval of this call of tool {tool} of group {group} was already used, and an approval counts \
         once, so the tool was not called. To call it once more, make the request without requestState; the user is \
         asked again."
    )
}

/// Returns the text about a call that needs the user's approval, with arguments that are too long to be shown.
pub(crate) fn too_long_to_approve(group: &GroupName, tool: &str, characters: usize, limit: usize) -> String {
    let tool = quoted(&shorten(tool, MAX_NAME));
    format!(
        "The user has to confirm this call of tool {tool} of group {group}, and the question has to show all of its \
         arguments. It would have {characters} characters, more than the limit of {limit}, so the tool was not \
         called. Pass less at once."
    )
}

/// Returns the text about a call that the user did not approve. `action`: the action of the elicitation.
pub(crate) fn not_approved(group: &GroupName, tool: &str, action: &str) -> String {
    let tool = quoted(tool);
    let did = if action == "decline" { "declined" } else { "dismissed" };
    format!(
        "The user {did} this call of tool {tool} of group {group}, so it was not called. \
         Do not call it again unless the user agrees."
    )
}

/// A `select` of a call whose result comes later, as that of a task.
pub(crate) const SELECT_OF_TASK: &str = "Argument \"select\" does not apply to a call that runs as a task, so the tool was not called. Leave it out.";

/// Returns the text about a program of `select` without outputs. `tool`: the call that was made, unless a stored result
/// was read. `kept`: how the result is read.
pub(crate) fn select_failed(
    tool: Option<(&GroupName, &str)>,
    why: &str,
    bytes: &str,
    kept: Option<&str>,
    shape: &str,
) -> String {
    let called = tool.map(|(group, tool)| {
        let again = if kept.is_some() { ", so do not call it again for this" } else { "" };
        format!("Tool {} of group {group} was called{again}. ", quoted(tool))
    });
    let kept = match kept {
        Some(call) => format!("The result ({bytes} bytes) is kept: {call}."),
        None => format!("The result ({bytes} bytes) is not kept."),
    };
    format!("select failed: {why}.\n{}{kept}\nIts shape: {shape}", called.unwrap_or_default())
}

/// A `select` of a result without JSON.
pub(crate) const SELECT_WITHOUT_JSON: &str = "it needs JSON, and the result has none";

/// Returns the text about a stored result that is not there. At most `max_results` are kept.
pub(crate) fn unknown_result(id: &str, max_results: usize) -> String {
    let id = quoted(&shorten(id, MAX_NAME));
    format!(
        "There is no stored result {id}. Results are kept until the session ends or newer ones need the place \
         ({max_results} at most). Call the tool that gave it again."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_login_is_called_so_once() {
        let expected = "The login failed: no client\nTell the user.";
        assert_eq!(login_failed("the login failed: no client"), expected);
        assert_eq!(login_failed("no client"), expected);
    }
}
