//! Finds the owner of a tool that a request names directly: by its exposed name, by the prefix of that, or by its own
//! name in any spelling if only one group has it.

use super::definitions;
use crate::front::ask::acquire::{Unavailable, acquire, acquire_for_user};
use crate::front::errors::{self, RpcError};
use crate::front::session::context::RequestContext;
use crate::front::{exposed_names, lookup, tool_errors};
use crate::groups::GroupManager;
use crate::upstream::Upstream;

/// The group of a tool, and its own name for the tool.
pub type DirectTarget = (String, String);

/// Why no tool was found.
pub enum TargetError {
    /// No group can have it.
    Unknown(RpcError),
    /// It cannot be told which tool is meant, or its group is disabled: the text for the model.
    Unclear(String),
    /// The group that may have it could not be connected.
    Unavailable(Box<Unavailable>),
}

impl From<TargetError> for RpcError {
    fn from(error: TargetError) -> Self {
        match error {
            TargetError::Unknown(error) => error,
            TargetError::Unclear(text) => errors::invalid_params(text),
            TargetError::Unavailable(unavailable) => (*unavailable).into(),
        }
    }
}

/// The owner of a tool, as far as it can be told without connecting a group.
enum Owner {
    /// This one.
    Known(DirectTarget),
    /// One of these groups, once it is connected.
    Candidates(Vec<Upstream>),
}

/// Finds the owner of the tool `name`. Groups that may have it are connected; `offers_login`: the user is offered the
/// login that such a group needs.
///
/// # Errors
///
/// Says why there is none.
pub async fn find(
    context: &RequestContext,
    name: &str,
    offers_login: bool,
) -> Result<DirectTarget, TargetError> {
    if let Some(known) = exposed(context, name).await? {
        return Ok(known);
    }
    let sought = name.to_owned();
    let owner = context.run_on_lists(move |session| owner(&session.groups, &sought)).await;
    match owner.map_err(TargetError::Unknown)?? {
        Owner::Known(target) => Ok(target),
        Owner::Candidates(candidates) => {
            Box::pin(find_by_connecting(context, candidates, name, offers_login)).await
        }
    }
}

/// Finds the owner of a tool whose exposed name is known.
async fn exposed(context: &RequestContext, name: &str) -> Result<Option<DirectTarget>, TargetError> {
    let names = context.session.names.get(&context.session.groups).await;
    let names = names.map_err(|_| TargetError::Unknown(errors::lists_took_too_long()))?;
    Ok(names.resolve(name).map(|(group, tool)| (group.as_str().to_owned(), tool)))
}

/// Finds the owner of a tool whose exposed name is not known.
fn owner(groups: &GroupManager, name: &str) -> Result<Owner, TargetError> {
    let all = &groups.all();
    let candidates = lookup::with_prefix(all, name);
    if !candidates.is_empty() {
        return Ok(Owner::Candidates(candidates));
    }
    let known =
        |group: &Upstream, tool: &str| Owner::Known((group.name.as_str().to_owned(), tool.to_owned()));
    if let Some((group, tool)) = lookup::split(all, name) {
        return Ok(known(group, tool));
    }
    match &lookup::owners(all, name)[..] {
        [group] => Ok(known(group, name)),
        [] => match lookup::misspelled(all, name).map_err(TargetError::Unclear)? {
            Some((group, tool)) => Ok(known(&group, &tool)),
            None => {
                let disabled = name.split_once("__").and_then(|(group, _)| lookup::disabled(groups, group));
                let unknown = || TargetError::Unknown(errors::unknown_tool(name, &definitions::NAMES));
                Err(disabled.map_or_else(unknown, TargetError::Unclear))
            }
        },
        several => {
            // An app names the tools of its server without the group.
            let for_apps: Vec<_> = several.iter().filter(|group| lookup::is_for_apps(group, name)).collect();
            if let [group] = for_apps[..] {
                return Ok(known(group, name));
            }
            let names = several.iter().map(|group| &group.name);
            Err(TargetError::Unclear(tool_errors::ambiguous(name, names)))
        }
    }
}

/// Connects the groups that may have a tool exposed as `name`, until one has it. If none has it, the first one counts,
/// which says so.
async fn find_by_connecting(
    context: &RequestContext,
    candidates: Vec<Upstream>,
    name: &str,
    offers_login: bool,
) -> Result<DirectTarget, TargetError> {
    let mut first = None;
    for group in candidates {
        let prefix = exposed_names::plain_name(&group.name, "").len();
        let acquired = match offers_login {
            true => acquire_for_user(context, group.clone()).await,
            false => acquire(context.groups(), &group, context.progress.as_ref()).await,
        };
        let outcome = acquired.map(|_lease| ());
        if let Some(known) = exposed(context, name).await? {
            return Ok(known);
        }
        let tool = name.get(prefix..).unwrap_or_default().to_owned();
        let found = outcome.map(|()| (group.name.as_str().to_owned(), tool));
        first.get_or_insert_with(|| found.map_err(|error| TargetError::Unavailable(Box::new(error))));
    }
    first.unwrap_or_else(|| Err(TargetError::Unknown(errors::unknown_tool(name, &definitions::NAMES))))
}
