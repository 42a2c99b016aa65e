//! What the buttons of the status page do. Each runs one command of this program, as the person could at a terminal, but
//! for a new connection, which only this instance makes.
//!
//! The page calls the tool `page_action`, which hosts offer to pages only, with a token that only the page has
//! (`page_tokens`). What changes clients' files is done only after the page has shown the plan of it: `import` and
//! `undo` need the token that came with their plan, and the command compares the plan's id with what it would do now.

use crate::errors;
use crate::session::context::{Invocation, RequestContext};
use crate::session::page_tokens::ShownPlan;
use crate::session::requester::{CommandOutput, OwnCommand, PageServices};
use config::GroupName;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{Raw, Reply};

/// The member of `_meta` with the token for the page's next action.
pub(crate) const TOKEN: &str = "dynamic-mcp/page-token";

/// The arguments of `page_action`.
#[derive(Deserialize)]
struct PageAction {
    /// The token that the page got with its last data.
    token: String,
    /// What to do.
    #[serde(flatten)]
    action: PageCommand,
}

#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum PageCommand {
    /// Shows what an import would do.
    PlanImport,
    /// Does what the plan says.
    Import,
    /// Shows what would be taken back.
    PlanUndo,
    /// Takes it back.
    Undo,
    Enable {
        server: String,
    },
    Disable {
        server: String,
    },
    Reconnect {
        server: String,
    },
    StoreSecret {
        secret: String,
        value: String,
    },
}

/// The commands that show a plan, and then carry it out.
pub(super) const IMPORT: [&str; 2] = ["import", "--write-client"];
const UNDO: [&str; 2] = ["import", "--undo"];

/// Returns the command that shows what another one would do, as JSON with an id.
pub(super) fn plan(command: &[&str]) -> OwnCommand {
    OwnCommand::new(&[command, &["--dry-run", "--json"]].concat())
}

/// Returns the command that does what was shown, if that is still the plan with this id.
pub(super) fn carry_out(command: &[&str], id: &str) -> OwnCommand {
    OwnCommand::new(&[command, &["--yes", "--plan", id]].concat())
}

/// `tools/call` of `page_action`.
///
/// # Errors
///
/// The client has no page, the arguments are not those of an action, or the plan of the action was not shown.
pub(crate) async fn call(Invocation { context, params }: Invocation) -> Reply {
    let requester = &context.requester;
    let (Some(page), Some(session)) = (requester.status_page(), requester.session()) else {
        return Err(errors::unknown_method().into());
    };
    let arguments = params.get("arguments").unwrap_or_default();
    let PageAction { token, action } = serde_json::from_slice(&arguments)
        .map_err(|_| errors::invalid_params("the arguments are not those of an action of the status page"))?;
    let Some(shown) = session.page_tokens.spend(&token) else {
        let text = "This page is older than ten minutes, or dynamic-mcp has not shown it, so nothing was done. Show the \
            status again.";
        return Ok(result(text, false, &Value::Null, json!({})));
    };
    let plans = match action {
        PageCommand::PlanImport => Some("import"),
        PageCommand::PlanUndo => Some("undo"),
        _ => None,
    };
    let done = carry_out_action(&context, page, action, shown).await?;
    let plan: Option<Value> = plans.and_then(|_| serde_json::from_str(&done.stdout).ok());
    let shown = plan
        .as_ref()
        .zip(plans)
        .and_then(|(plan, action)| Some(ShownPlan { action, id: plan["plan"].as_str()?.to_owned() }));
    let printed = if plan.is_some() { "" } else { &*done.stdout };
    let text = format!("{printed}{}", done.stderr);
    let next = session.page_tokens.issue(shown);
    Ok(result(text.trim(), done.is_success, &plan.unwrap_or_default(), json!({ TOKEN: next })))
}

/// Does what was pressed. `shown`: the plan that the page has shown.
///
/// # Errors
///
/// The action carries out a plan, and that was not shown.
async fn carry_out_action(
    context: &RequestContext,
    page: &PageServices,
    action: PageCommand,
    shown: Option<ShownPlan>,
) -> Result<CommandOutput, errors::RpcError> {
    let shown_for = |name: &str| {
        let shown = shown.filter(|shown| shown.action == name);
        shown.ok_or_else(|| errors::invalid_params("the plan of this action was not shown"))
    };
    let command = match action {
        PageCommand::PlanImport => plan(&IMPORT),
        PageCommand::PlanUndo => plan(&UNDO),
        PageCommand::Import => carry_out(&IMPORT, &shown_for("import")?.id),
        PageCommand::Undo => carry_out(&UNDO, &shown_for("undo")?.id),
        PageCommand::Enable { server } => OwnCommand::new(&["enable", "--", &server]),
        PageCommand::Disable { server } => OwnCommand::new(&["disable", "--", &server]),
        PageCommand::StoreSecret { secret, value } => {
            OwnCommand { input: Some(value), ..OwnCommand::new(&["secret", "set", "--", &secret]) }
        }
        PageCommand::Reconnect { server } => return Ok(reconnect(context, &server).await),
    };
    Ok((page.commands)(command).await)
}

/// Connects a server of this instance again.
async fn reconnect(context: &RequestContext, server: &str) -> CommandOutput {
    let group = context.groups().get(&GroupName::new(server));
    if let Some(group) = &group {
        group.reconnect().await;
    }
    let text = if group.is_some() { "It connects again." } else { "There is no such server any more." };
    CommandOutput { stdout: text.to_owned(), is_success: group.is_some(), ..CommandOutput::default() }
}

/// Returns the result for the page. `meta` has the token for its next action.
fn result(text: &str, is_success: bool, plan: &Value, meta: Value) -> Raw {
    let result = json!({
        "content": [{ "type": "text", "text": "This is for the status page alone." }],
        "structuredContent": { "text": text, "isSuccess": is_success, "plan": plan },
        "_meta": meta,
    });
    result.to_string().into()
}
