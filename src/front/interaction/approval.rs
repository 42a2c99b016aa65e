//! Asks the user to approve a call that the config wants confirmed (`tools.ask`).

use super::approval_token::{Approval, ApprovalState};
use super::context::RequestContext;
use super::era_bridge::name_group_in_inputs;
use crate::front::tool_errors;
use crate::protocol::Era;
use crate::wire::{Raw, raw};
use serde_json::{Value, json};

/// How many characters of the arguments a question shows.
const MAX_SHOWN_CHARACTERS: usize = 4000;

/// The outcome of asking.
pub enum ApprovalOutcome {
    /// The user approved the call.
    Approved,
    /// The client has to ask the user and send the request again. This is the result of the request.
    InputRequired(Raw),
}

/// Asks the user to approve a call.
///
/// # Errors
///
/// The call is not approved. The text is for the model.
pub async fn request(
    context: &RequestContext,
    params: &Raw,
    approval: &Approval<'_>,
) -> Result<ApprovalOutcome, String> {
    match context.era {
        Era::Handshake => ask(context, approval).await.map(|()| ApprovalOutcome::Approved),
        Era::Stateless => ask_through_result(context, params, approval),
    }
}

/// Sends an elicitation while the call waits.
async fn ask(context: &RequestContext, approval: &Approval<'_>) -> Result<(), String> {
    if !context.can_elicit_forms() {
        return Err(tool_errors::cannot_ask_for_approval(approval.group, approval.tool));
    }
    let answer = context.elicit(approval.group, elicitation(approval)).await;
    check_action(approval, answer.ok().and_then(|answer| raw::get_str(&answer, "action")).as_deref())
}

/// Asks through the result: a stateless client asks the user itself and sends the request again with the answer.
fn ask_through_result(
    context: &RequestContext,
    params: &Raw,
    approval: &Approval<'_>,
) -> Result<ApprovalOutcome, String> {
    match approval.state(params) {
        ApprovalState::Approved => return Ok(ApprovalOutcome::Approved),
        ApprovalState::Answered(action) => {
            return check_action(approval, action.as_deref()).map(|()| ApprovalOutcome::Approved);
        }
        ApprovalState::NotAsked => {}
    }
    if !context.can_elicit_forms() {
        return Err(tool_errors::cannot_ask_for_approval(approval.group, approval.tool));
    }
    let mut elicitation = elicitation(approval);
    elicitation["mode"] = json!("form");
    let result = approval.input_required(&elicitation);
    Ok(ApprovalOutcome::InputRequired(name_group_in_inputs(approval.group, &result)))
}

fn elicitation(approval: &Approval<'_>) -> Value {
    let Approval { group, tool, args } = approval;
    json!({
        "message": format!("Call tool {tool} of group {group} with these arguments?\n{}", shortened(args)),
        "requestedSchema": { "type": "object", "properties": {} },
    })
}

/// Returns an error, with the text for the model, unless the user accepted.
fn check_action(approval: &Approval<'_>, action: Option<&str>) -> Result<(), String> {
    match action {
        Some("accept") => Ok(()),
        Some(action @ ("decline" | "cancel")) => {
            Err(tool_errors::not_approved(approval.group, approval.tool, action))
        }
        _ => Err(tool_errors::cannot_ask_for_approval(approval.group, approval.tool)),
    }
}

fn shortened(args: &Raw) -> String {
    let text = String::from_utf8_lossy(args);
    match text.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}… ({} more bytes)", &text[..end], text.len() - end),
    }
}
