//! Our own prompts, which many clients offer as slash commands: `status`, and `setup` for clients that started us.
//!
//! `setup` takes over the servers that other clients on this machine have, as `dynamic-mcp import --write-client` does. The
//! person decides: on the status page, in a form that shows the plan, or by running the command. The model only learns what
//! became of it.

use super::page_actions::{self, IMPORT};
use super::status;
use crate::passthrough::prompts;
use crate::session::context::{Invocation, RequestContext};
use crate::session::requester::PageServices;
use config::GroupName;
use serde_json::{Value, json};
use wire::{Raw, Reply, raw};

/// One of our prompts. Prompts of upstreams have names with `__`.
struct OwnPrompt {
    name: &'static str,
    title: &'static str,
    description: &'static str,
}

const STATUS: OwnPrompt = OwnPrompt {
    name: "status",
    title: "Status of the MCP servers",
    description: "Shows which MCP servers work, what failed, and what to do about it",
};
const SETUP: OwnPrompt = OwnPrompt {
    name: "setup",
    title: "Set up dynamic-mcp",
    description: "Moves the MCP servers of the clients on this machine to dynamic-mcp, after showing what would change",
};

/// Returns whether a prompt of this name is one of ours.
pub fn is_ours(name: &Value) -> bool {
    [STATUS.name, SETUP.name].iter().any(|own| name == own)
}

/// What the model is asked to do with the status.
const STATUS_INSTRUCTION: &str = "This is the status of the MCP servers behind dynamic-mcp. Tell me in a few sentences which \
    servers do not work, why, and what I have to do, with the commands and paths as they stand here. If all work, say so.";
/// What the model is asked to do if the client shows pages.
const SHOW_PAGE: &str = "Call the tool show_status of dynamic-mcp: it shows me a page on which I set dynamic-mcp up myself. Do \
    nothing else.";
/// What the model is asked to do with what the command has printed.
const SETUP_INSTRUCTION: &str = "This is what dynamic-mcp says about taking over the MCP servers of the clients on this machine. \
    Tell me in a few sentences what was done, what stays where it is and why, and what I have to do now, with the commands \
    and paths as they stand here.";
/// The question of the form.
const QUESTION: &str = "Write this? `dynamic-mcp import --undo` takes it back.";

/// What to do if the client cannot ask the person.
const NOT_ASKED: &str =
    "Nothing was written. `dynamic-mcp import --write-client` at a terminal does it, after a question.";

/// `prompts/list`: ours and those of all groups.
///
/// # Errors
///
/// See [`prompts::list`].
pub(crate) async fn list(invocation: Invocation) -> Reply {
    let has_setup = invocation.context.requester.page_services().is_some();
    let ours = [Some(STATUS), has_setup.then_some(SETUP)].into_iter().flatten().map(|prompt| {
        let OwnPrompt { name, title, description } = prompt;
        json!({ "name": name, "title": title, "description": description }).to_string().into()
    });
    let ours = ours.collect();
    prompts::list(invocation, ours).await
}

/// `prompts/get`: ours, or that of a group.
///
/// # Errors
///
/// See [`prompts::get`]. Ours has none.
pub(crate) async fn get(invocation: Invocation) -> Reply {
    let Some(prompt) = ours(&invocation, raw::get_str(&invocation.params, "name")) else {
        return prompts::get(invocation).await;
    };
    let context = &invocation.context;
    let text = match context.requester.page_services().filter(|_| prompt.name == SETUP.name) {
        Some(page) => set_up(context, page).await,
        None => {
            let groups = invocation.groups();
            groups.check_approvals().await;
            format!("{STATUS_INSTRUCTION}\n\n{}", status::for_reader(context, &groups.all()).text)
        }
    };
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    Ok(Raw::from(json!({ "description": prompt.description, "messages": [message] }).to_string()))
}

/// `completion/complete`: ours, which have no arguments, or that of a group.
///
/// # Errors
///
/// See [`prompts::complete`]. Ours has none.
pub(crate) async fn complete(invocation: Invocation) -> Reply {
    let reference = raw::get(&invocation.params, "ref");
    let name = reference.filter(|reference| raw::get_str(reference, "type").as_deref() == Some("ref/prompt"));
    let name = name.and_then(|reference| raw::get_str(&reference, "name"));
    if ours(&invocation, name).is_some() {
        return Ok(Raw::from_static(br#"{"completion":{"values":[]}}"#));
    }
    prompts::complete(invocation).await
}

/// Returns our prompt that a request means by this name.
fn ours(invocation: &Invocation, name: Option<String>) -> Option<OwnPrompt> {
    let is_of_group = raw::get(&invocation.params, "group").is_some();
    let has_setup = invocation.context.requester.page_services().is_some();
    match name.as_deref().filter(|_| !is_of_group)? {
        name if name == STATUS.name => Some(STATUS),
        name if name == SETUP.name && has_setup => Some(SETUP),
        _ => None,
    }
}

/// Sets up by the way that the client has. Returns the text for the model.
async fn set_up(context: &RequestContext, page: &PageServices) -> String {
    if context.requester.status_page().is_some() {
        return SHOW_PAGE.to_owned();
    }
    let planned = (page.commands)(page_actions::plan(&IMPORT)).await;
    let Ok(plan) = serde_json::from_str::<Value>(&planned.stdout) else {
        return format!("{SETUP_INSTRUCTION}\n\n{}{}", planned.stdout, planned.stderr);
    };
    let summary = format!("{}{}", plan["summary"].as_str().unwrap_or_default(), planned.stderr);
    let id = plan["plan"].as_str().filter(|_| plan["changes"] == true);
    let outcome = match id {
        None => "There is nothing to take over, so nothing was written.".to_owned(),
        Some(id) if context.can_elicit_forms() => {
            let message = format!("{summary}\n{QUESTION}");
            let form = json!({
                "mode": "form",
                "message": message,
                "requestedSchema": { "type": "object", "properties": {} },
            });
            // As the name of the group that asks: the question is ours.
            let answer = context.elicit(&GroupName::new("dynamic-mcp"), form).await;
            let action = answer.ok().and_then(Result::ok).and_then(|answer| raw::get_str(&answer, "action"));
            match action.as_deref() {
                Some("accept") => {
                    let done = (page.commands)(page_actions::carry_out(&IMPORT, id)).await;
                    return format!("{SETUP_INSTRUCTION}\n\n{}{}", done.stdout, done.stderr);
                }
                Some("decline" | "cancel") => "I did not agree, so nothing was written.".to_owned(),
                _ => NOT_ASKED.to_owned(),
            }
        }
        Some(_) => NOT_ASKED.to_owned(),
    };
    format!("{SETUP_INSTRUCTION}\n\n{summary}\n{outcome}")
}
