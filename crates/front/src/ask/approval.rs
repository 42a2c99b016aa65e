//! Asks the user to approve a call that the config (`tools.ask`) or the tool's server wants confirmed.
//!
//! The user decides by the question alone. So it begins with group and tool in quotation marks and shows all arguments,
//! with every character visible: neither a name nor an argument can look like a part of the question, and nothing is
//! left out. A call whose question would be too long to be read is refused.

use super::approval_token::{Approval, ApprovalDemand, ApprovalState};
use crate::client::question_limit::TooManyQuestions;
use crate::errors::tool_errors;
use crate::session::context::RequestContext;
use crate::session::unspent_nonces::UnspentNonces;
use base::text::{quoted, visible};
use serde_json::{Value, json};
use wire::protocol::Era;
use wire::{Raw, raw};

/// The longest question, in characters.
const MAX_QUESTION_CHARACTERS: usize = 32_000;

/// The outcome of asking.
pub enum ApprovalOutcome {
    /// The user approved the call.
    Approved,
    /// The client has to ask the user and send the request again. This is the result of the request.
    InputRequired(Raw),
}

/// Asks the user to approve a call. A client of the handshake era is asked now, and the user's answer awaited. A
/// stateless client is asked by the result of its request, unless `params` have the answer or an earlier approval. Its
/// approval counts once: it is used up here, even if the call fails later.
///
/// # Errors
///
/// The client has no connection or cannot ask, the question would be too long, too many questions are open, the user did
/// not accept, or the approval was used before. The text is for the model.
pub async fn request(
    context: &RequestContext,
    params: &Raw,
    approval: &Approval<'_>,
) -> Result<ApprovalOutcome, String> {
    match (context.session(), context.era) {
        // The next request may reach another process.
        (None, _) => Err(tool_errors::no_approvals_over_http(approval.group, approval.tool)),
        (Some(_), Era::Handshake) => ask(context, approval).await.map(|()| ApprovalOutcome::Approved),
        (Some(session), Era::Stateless) => {
            ask_through_result(context, &session.approval_nonces, params, approval)
        }
    }
}

/// Sends an elicitation while the call waits.
///
/// # Errors
///
/// The client cannot ask, the question would be too long, too many questions are open, or the user did not accept. The
/// text is for the model.
async fn ask(context: &RequestContext, approval: &Approval<'_>) -> Result<(), String> {
    let elicitation = elicitation(context, approval)?;
    let answer = context.elicit(approval.group, elicitation).await;
    let answer =
        answer.map_err(|TooManyQuestions| tool_errors::too_many_questions(approval.group, approval.tool))?;
    check_action(approval, answer.ok().and_then(|answer| raw::get_str(&answer, "action")).as_deref())
}

/// Asks through the result: a stateless client asks the user itself and sends the request again with the answer.
///
/// # Errors
///
/// See [`request`].
fn ask_through_result(
    context: &RequestContext,
    nonces: &UnspentNonces,
    params: &Raw,
    approval: &Approval<'_>,
) -> Result<ApprovalOutcome, String> {
    let Approval { group, tool, .. } = approval;
    let nonce = match approval.state(params) {
        ApprovalState::Approved(nonce) => Some(nonce),
        ApprovalState::Answered(action, nonce) => {
            check_action(approval, action.as_deref())?;
            Some(nonce)
        }
        ApprovalState::NotAsked => None,
    };
    if let Some(nonce) = nonce {
        // Before anything is sent: the approval is used even if the call fails.
        return match nonces.spend(nonce) {
            true => Ok(ApprovalOutcome::Approved),
            false => Err(tool_errors::approval_used(group, tool)),
        };
    }
    let mut elicitation = elicitation(context, approval)?;
    elicitation["mode"] = json!("form");
    let result = approval.input_required(&elicitation, nonces);
    let result = result.ok_or_else(|| tool_errors::too_many_open_approvals(group, tool))?;
    let attribution = &context.client().attribution;
    Ok(ApprovalOutcome::InputRequired(attribution.inputs(group, &result)?))
}

/// Returns the params of the question.
///
/// # Errors
///
/// The client cannot ask it, or it is too long. The text is for the model.
fn elicitation(context: &RequestContext, approval: &Approval<'_>) -> Result<Value, String> {
    match context.can_elicit_forms() {
        true => question(approval),
        false => Err(not_asked(approval)),
    }
}

/// Returns the question.
///
/// # Errors
///
/// It is too long. The text is for the model.
fn question(approval: &Approval<'_>) -> Result<Value, String> {
    let Approval { group, tool, args, .. } = approval;
    let (shown_group, shown_tool) = (quoted(group.as_str()), quoted(tool));
    let shown_args = visible(&String::from_utf8_lossy(args));
    let message =
        format!("Group {shown_group}, tool {shown_tool}: allow this call?\nIts arguments: {shown_args}");
    let characters = message.chars().count();
    if characters > MAX_QUESTION_CHARACTERS {
        return Err(tool_errors::too_long_to_approve(group, tool, characters, MAX_QUESTION_CHARACTERS));
    }
    Ok(json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } }))
}

/// Checks that the user accepted. `action`: that of the elicitation; `None` if the client gave no answer.
///
/// # Errors
///
/// The user did not. The text is for the model.
fn check_action(approval: &Approval<'_>, action: Option<&str>) -> Result<(), String> {
    match action {
        Some("accept") => Ok(()),
        Some(action @ ("decline" | "cancel")) => {
            Err(tool_errors::not_approved(approval.group, approval.tool, action))
        }
        _ => Err(not_asked(approval)),
    }
}

/// Returns the text for the model if the client did not ask the user.
fn not_asked(approval: &Approval<'_>) -> String {
    let Approval { group, tool, demand, .. } = approval;
    match demand {
        ApprovalDemand::Config(source) => tool_errors::cannot_ask_for_approval(group, tool, *source),
        ApprovalDemand::Server => tool_errors::not_asked_for_approval(group, tool),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::GroupName;
    use config::tool_rules::RuleSource;

    /// Works with the approval of a call with these arguments.
    fn with_approval<T>(args: &str, demand: ApprovalDemand, work: impl FnOnce(&Approval<'_>) -> T) -> T {
        let (group, args) = (GroupName::new("g"), Raw::copy_from_slice(args.as_bytes()));
        work(&Approval { group: &group, tool: "t", args: &args, demand })
    }

    #[test]
    fn the_question_shows_everything_or_is_not_asked() {
        let ask = |args: &str| with_approval(args, ApprovalDemand::Server, question);
        let start = "Group \"g\", tool \"t\": allow this call?\nIts arguments: ";
        assert_eq!(ask("{}").unwrap()["message"], format!("{start}{{}}"));
        let longest = "ä".repeat(MAX_QUESTION_CHARACTERS - start.len());
        assert_eq!(ask(&longest).unwrap()["message"], format!("{start}{longest}"));
        let refused = ask(&format!("{longest}ä")).unwrap_err();
        assert!(refused.contains("32001 characters"), "{refused}");
    }

    #[test]
    fn only_accept_allows_the_call() {
        let check =
            |action| with_approval("{}", ApprovalDemand::Server, |approval| check_action(approval, action));
        assert_eq!(check(Some("accept")), Ok(()));
        for (action, text) in [
            (Some("decline"), "The user declined this call"),
            (Some("cancel"), "The user dismissed this call"),
            (Some("Accept"), "gave no answer"),
            (Some(""), "gave no answer"),
            (None, "gave no answer"),
        ] {
            let refused = check(action).unwrap_err();
            assert!(refused.contains(text), "{action:?}: {refused}");
        }
    }

    #[test]
    fn a_call_that_was_not_asked_names_who_wants_the_question() {
        for (demand, text) in [
            (ApprovalDemand::Server, "The server of group g wants"),
            (ApprovalDemand::Config(RuleSource::Server), "(tools.ask in the config)"),
            (ApprovalDemand::Config(RuleSource::Profile), "(tools.ask of the profile in use)"),
        ] {
            let refused = with_approval("{}", demand, not_asked);
            assert!(refused.contains(text), "{refused}");
        }
    }
}
