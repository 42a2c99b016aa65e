//! Asks the user before a call that the config wants confirmed (`tools.ask`).

use super::call::Request;
use super::caller::Caller;
use super::consent::{Matter, Round};
use super::{errors, stateless};
use crate::protocol::Era;
use crate::wire::{Raw, raw};
use serde_json::{Value, json};

/// Characters of the arguments that are shown. More would hide the question.
const SHOWN: usize = 4000;

/// What comes of asking.
pub enum Outcome {
    Agreed,
    /// The client is to ask the user and call again: the result of this call.
    Asks(Raw),
}

/// `Err` is text for the model: the call was not confirmed.
pub async fn confirm(request: &Request, matter: &Matter<'_>) -> Result<Outcome, String> {
    match request.caller.era {
        Era::Handshake => ask(&request.caller, matter).await.map(|()| Outcome::Agreed),
        Era::Stateless => have_asked(request, matter),
    }
}

/// By a request of our own, while the call waits.
async fn ask(caller: &Caller, matter: &Matter<'_>) -> Result<(), String> {
    if !caller.shows_forms() {
        return Err(errors::cannot_confirm(matter.group, matter.tool));
    }
    let answer = caller.elicit(matter.group, elicitation(matter)).await;
    judged(matter, answer.ok().and_then(|answer| raw::get_str(&answer, "action")).as_deref())
}

/// By the result: a stateless client asks the user itself and calls again with the answer.
fn have_asked(request: &Request, matter: &Matter<'_>) -> Result<Outcome, String> {
    match matter.round(&request.params) {
        Round::Agreed => return Ok(Outcome::Agreed),
        Round::Answered(action) => return judged(matter, action.as_deref()).map(|()| Outcome::Agreed),
        Round::First => {}
    }
    if !request.caller.shows_forms() {
        return Err(errors::cannot_confirm(matter.group, matter.tool));
    }
    let mut elicitation = elicitation(matter);
    elicitation["mode"] = json!("form");
    Ok(Outcome::Asks(stateless::with_names(matter.group, &matter.question(&elicitation))))
}

fn elicitation(matter: &Matter<'_>) -> Value {
    let Matter { group, tool, args } = matter;
    json!({
        "message": format!("Call tool {tool} of group {group} with these arguments?\n{}", shown(args)),
        "requestedSchema": { "type": "object", "properties": {} },
    })
}

fn judged(matter: &Matter<'_>, action: Option<&str>) -> Result<(), String> {
    match action {
        Some("accept") => Ok(()),
        Some(action @ ("decline" | "cancel")) => {
            Err(errors::not_confirmed(matter.group, matter.tool, action))
        }
        _ => Err(errors::cannot_confirm(matter.group, matter.tool)),
    }
}

fn shown(args: &Raw) -> String {
    let text = String::from_utf8_lossy(args);
    match text.char_indices().nth(SHOWN) {
        None => text.into_owned(),
        Some((end, _)) => format!("{}… ({} more bytes)", &text[..end], text.len() - end),
    }
}
