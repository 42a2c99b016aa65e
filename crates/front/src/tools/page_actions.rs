//! What the buttons of the status page do. Each runs one command of this program, as the person could at a terminal.
//!
//! The page calls the tool `page_action`, which hosts offer to pages only, with a token that only the page has
//! (`page_tokens`). What changes clients' files is done only after the page has shown the plan of it: `import` and
//! `undo` need the token that came with their plan, and the command compares the plan's id with what it would do now.

use crate::errors;
use crate::session::context::Invocation;
use crate::session::page_tokens::ShownPlan;
use crate::session::requester::OwnCommand;
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
    if let PageCommand::Reconnect { server } = &action {
        let group = context.groups().get(&GroupName::new(server));
        let text = if group.is_some() { "It connects again." } else { "There is no such server any more." };
        if let Some(group) = &group {
            group.reconnect().await;
        }
        let next = session.page_tokens.issue(None);
        return Ok(result(text, group.is_some(), &Value::Null, json!({ TOKEN: next })));
    }
    let plans = match action {
        PageCommand::PlanImport => Some("import"),
        PageCommand::PlanUndo => Some("undo"),
        _ => None,
    };
    let done = (page.commands)(command(action, shown)?).await;
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

/// Returns the command of an action. `shown`: the plan that the page has shown.
///
/// # Errors
///
/// The action carries out a plan, and that was not shown.
fn command(action: PageCommand, shown: Option<ShownPlan>) -> Result<OwnCommand, errors::RpcError> {
    let carry_out = |name: &str, args: &[&str]| {
        let shown = shown.filter(|shown| shown.action == name);
        let shown = shown.ok_or_else(|| errors::invalid_params("the plan of this action was not shown"))?;
        Ok(OwnCommand::new(&[args, &["--yes", "--plan", &shown.id]].concat()))
    };
    Ok(match action {
        PageCommand::PlanImport => OwnCommand::new(&["import", "--write-client", "--dry-run", "--json"]),
        PageCommand::PlanUndo => OwnCommand::new(&["import", "--undo", "--dry-run", "--json"]),
        PageCommand::Import => return carry_out("import", &["import", "--write-client"]),
        PageCommand::Undo => return carry_out("undo", &["import", "--undo"]),
        PageCommand::Enable { server } => OwnCommand::new(&["enable", "--", &server]),
        PageCommand::Disable { server } => OwnCommand::new(&["disable", "--", &server]),
        PageCommand::Reconnect { server } => OwnCommand::new(&["reconnect", "--", &server]),
        PageCommand::StoreSecret { secret, value } => {
            OwnCommand { input: Some(value), ..OwnCommand::new(&["secret", "set", "--", &secret]) }
        }
    })
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
