//! Asks the user before a call that the config wants confirmed (`tools.ask`).

use super::errors;
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::upstream::audience::questions::Question;
use crate::wire::peer::Cancelled;
use crate::wire::{Raw, raw};
use serde_json::json;

/// Characters of the arguments that are shown. More would hide the question.
const SHOWN: usize = 4000;

/// `Err` is text for the model: the call was not confirmed.
pub async fn confirm(groups: &GroupManager, group: &GroupName, tool: &str, args: &Raw) -> Result<(), String> {
    if !elicits(&groups.audience.offer()) {
        return Err(errors::cannot_confirm(group, tool));
    }
    let params = json!({
        "message": format!("Call tool {tool} of group {group} with these arguments?\n{}", shown(args)),
        "requestedSchema": { "type": "object", "properties": {} },
    });
    let question = Question {
        group: group.clone(),
        method: "elicitation/create".to_owned(),
        params: Some(params.to_string().into()),
        progress: None,
        cancelled: Cancelled::default(),
    };
    let answer = groups.audience.ask(question).await;
    match answer.ok().and_then(|answer| raw::get_str(&answer, "action")).as_deref() {
        Some("accept") => Ok(()),
        Some(action @ ("decline" | "cancel")) => Err(errors::not_confirmed(group, tool, action)),
        _ => Err(errors::cannot_confirm(group, tool)),
    }
}

/// Whether the client shows forms: it says so, or says nothing of the modes that later revisions have.
fn elicits(capabilities: &Raw) -> bool {
    let elicitation = raw::get(capabilities, "elicitation");
    elicitation.is_some_and(|modes| raw::get(&modes, "form").is_some() || raw::get(&modes, "url").is_none())
}

fn shown(args: &Raw) -> String {
    let text = String::from_utf8_lossy(args);
    match text.char_indices().nth(SHOWN) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}… ({} more bytes)", &text[..end], text.len() - end),
    }
}
