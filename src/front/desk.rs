//! Gives each request of a client to who does it.

use super::arguments::{self, Call};
use super::caller::Caller;
use super::errors::{self, Refusal};
use super::find::Finder;
use super::parking::{Lot, Parked};
use super::relay::Asked;
use super::stateless::About;
use super::subscriptions::Subscriptions;
use super::tasks::Tasks;
use super::{
    call, describe, exposed, list, listen, login, lookup, meta_tools, programs, prompts, reach, resources,
    rounds, tasks,
};
use crate::groups::GroupManager;
use crate::protocol::Era;
use crate::status;
use crate::upstream::Upstream;
use crate::upstream::audience::client::{Carrier, Client};
use crate::wire::inbound::ResponseFuture;
use crate::wire::peer::{CallOptions, CancelParams};
use crate::wire::{Raw, Reply, Request, raw};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::mpsc;

/// For a group to take note of a log level.
const LEVEL_SET: Duration = Duration::from_secs(2);

/// Questions of one call that wait to be told.
const QUESTIONS: usize = 64;

/// Whose tool is called by a name of its own.
enum Direct {
    /// The group and its tool.
    Of(String, String),
    /// One of these groups, once they are connected.
    OfOneOf(Vec<Upstream>),
    /// Text for the model: several groups have such a tool.
    OfSeveral(String),
}

pub struct Desk {
    groups: Arc<GroupManager>,
    client: Arc<Client>,
    subscriptions: Arc<Subscriptions>,
    tasks: Arc<Tasks>,
    lot: Arc<Lot>,
    finder: Arc<Finder>,
}

impl Desk {
    pub fn new(groups: Arc<GroupManager>, client: Arc<Client>) -> Self {
        let subscriptions = Subscriptions::new(groups.clone(), client.clone());
        let tasks = Arc::<Tasks>::default();
        let told = tasks.clone();
        client.watch_tasks(move |task| told.look(task));
        Self { groups, client, subscriptions, tasks, lot: Arc::default(), finder: Arc::default() }
    }

    /// What answers the request, and what its cancellation is told to.
    pub fn work(&self, request: &Request, era: Era) -> Result<(ResponseFuture, CancelParams), Refusal> {
        let params = request.params.clone().filter(|params| &params[..] != b"null");
        let params = params.unwrap_or(Raw::from_static(b"{}"));
        if raw::entries(&params).is_none() {
            return Err(errors::bad_params("params must be an object"));
        }
        let may_ask = rounds::may_ask(&request.method);
        let carries = may_ask && era == Era::Stateless;
        if carries && let Some(mut waiting) = self.lot.take(&params)? {
            waiting.answered(&params);
            let cancelled = waiting.cancelled();
            return Ok((Box::pin(self.lot.clone().attend(waiting)), cancelled));
        }
        let mut caller = Caller::new(self.client.clone(), self.tasks.clone(), era, &params);
        caller.may_ask = may_ask;
        if !carries {
            return self.begin(request, params, caller);
        }
        let (posed, questions) = mpsc::channel(QUESTIONS);
        let capabilities = About::of(request).unwrap_or_default().capabilities();
        let parked = Arc::<AtomicBool>::default();
        caller.carrier = Some(Carrier { capabilities, posed, parked: parked.clone() });
        let (work, cancelled) = self.begin(request, params, caller.clone())?;
        let call = Parked::new(work, questions, parked, &caller);
        Ok((Box::pin(self.lot.clone().attend(call)), cancelled))
    }

    fn begin(
        &self,
        request: &Request,
        params: Raw,
        caller: Caller,
    ) -> Result<(ResponseFuture, CancelParams), Refusal> {
        let cancelled = caller.cancelled.clone();
        let asked = Asked { groups: self.groups.clone(), params, caller };
        let work: ResponseFuture = match request.method.as_str() {
            "resources/list" => Box::pin(resources::list(asked)),
            "resources/templates/list" => Box::pin(resources::templates(asked)),
            "resources/read" => Box::pin(resources::read(asked)),
            "resources/subscribe" => Box::pin(self.subscriptions.clone().subscribe(asked)),
            "resources/unsubscribe" => Box::pin(self.subscriptions.clone().unsubscribe(asked)),
            "subscriptions/listen" => {
                let id = request.id.clone();
                Box::pin(listen::listen(self.subscriptions.clone(), asked, id))
            }
            "prompts/list" => Box::pin(prompts::list(asked)),
            "prompts/get" => Box::pin(prompts::get(asked)),
            "completion/complete" => Box::pin(prompts::complete(asked)),
            "tools/describe" => Box::pin(programs::describe(asked)),
            "tools/describe_batch" => Box::pin(programs::describe_batch(asked)),
            "tasks/list" => Box::pin(tasks::list(asked)),
            "tasks/get" => Box::pin(tasks::about_one(asked, "tasks/get")),
            "tasks/result" => Box::pin(tasks::about_one(asked, "tasks/result")),
            "tasks/update" => Box::pin(tasks::about_one(asked, "tasks/update")),
            "tasks/cancel" => Box::pin(tasks::about_one(asked, "tasks/cancel")),
            "logging/setLevel" => self.set_level(asked)?,
            _ => self.tool(asked)?,
        };
        Ok((work, cancelled))
    }

    /// No subscription is served any more: those that are open end as they should.
    pub fn close(&self) {
        self.subscriptions.close();
    }

    /// What a `tools/call` asks us to do.
    fn tool(&self, asked: Asked) -> Result<ResponseFuture, Refusal> {
        let name = asked.text("name")?;
        let Asked { groups, params, caller } = asked;
        Ok(match name.as_str() {
            meta_tools::GET => Box::pin(async move {
                let arguments = raw::get(&params, "arguments");
                Ok(describe::get_dynamic_tools(&groups, arguments.as_ref(), &caller).await)
            }),
            meta_tools::CALL | meta_tools::CALL_READONLY => {
                let read_only = name == meta_tools::CALL_READONLY;
                let request = call::Request { params, caller, read_only };
                Box::pin(async move { call::call_dynamic_tool(&groups, request).await })
            }
            meta_tools::SEARCH => {
                let finder = self.finder.clone();
                Box::pin(async move {
                    let arguments = raw::get(&params, "arguments");
                    Ok(finder.search_dynamic_tools(&groups, arguments.as_ref()).await)
                })
            }
            meta_tools::STATUS => Box::pin(async move { Ok(status(&groups, &params).await) }),
            name => {
                let name = name.to_owned();
                let direct = self.direct(&name)?;
                Box::pin(async move {
                    let found = match direct {
                        Direct::Of(group, tool) => Ok((group, tool)),
                        Direct::OfSeveral(candidates) => Err(candidates),
                        Direct::OfOneOf(may_be) => connected(&groups, may_be, &name, &caller).await,
                    };
                    let (group, tool) = match found {
                        Ok(found) => found,
                        Err(problem) => return Ok(errors::tool_error(&problem)),
                    };
                    let args = raw::get(&params, "arguments").filter(|args| &args[..] != b"null");
                    let args = args.unwrap_or(Raw::from_static(b"{}"));
                    let call = Call { group: Some(group), tool, args };
                    let request = call::Request { params, caller, read_only: false };
                    call::call_tool(&groups, request, call).await
                })
            }
        })
    }

    /// A tool of an upstream, called by its exposed name, or by its own where only one group has it.
    fn direct(&self, name: &str) -> Result<Direct, Refusal> {
        let all = self.groups.all();
        if let Some((group, tool)) = list::tools(&self.groups).resolve(name) {
            return Ok(Direct::Of(group.to_string(), tool));
        }
        let may_be = lookup::beginning(&all, name);
        if !may_be.is_empty() {
            return Ok(Direct::OfOneOf(may_be));
        }
        let known = lookup::split(&all, name).map(|(group, tool)| (group, tool.to_owned()));
        match (known, &lookup::owners(&all, name)[..]) {
            (Some((group, tool)), _) => Ok(Direct::Of(group.name.to_string(), tool)),
            (None, [group]) => Ok(Direct::Of(group.name.to_string(), name.to_owned())),
            (None, []) => Err(errors::unknown_tool(name)),
            (None, several) => {
                Ok(Direct::OfSeveral(errors::several_have(name, several.iter().map(|group| &group.name))))
            }
        }
    }

    /// Remembered for groups that connect later, and told to those that are connected.
    fn set_level(&self, asked: Asked) -> Result<ResponseFuture, Refusal> {
        self.client.set_level(asked.text("level")?).map_err(errors::bad_params)?;
        let told = self.groups.all().into_iter().filter_map(|group| {
            let logs = group.snapshot().catalog.as_ref().is_some_and(|c| c.introduction.declares("logging"));
            let lease = group.try_lease().filter(|lease| logs && lease.era() == Era::Handshake)?;
            let params = asked.params.clone();
            Some(async move {
                let options = CallOptions::within(LEVEL_SET);
                // A group that does not follow is heard less or more than wanted; nothing else depends on it.
                drop(lease.peer().call("logging/setLevel", Some(params), options).await);
            })
        });
        let told: Vec<_> = told.collect();
        Ok(Box::pin(async move {
            join_all(told).await;
            Reply::Ok(Raw::from_static(b"{}"))
        }))
    }

    /// Passes news of a task of the client's own on to the group for which it was made.
    pub fn tell_of_task(&self, method: &str, params: Option<&Raw>) {
        let id = params.and_then(|params| raw::get_str(params, "taskId"));
        let group = id.and_then(|id| self.client.task_of(&id)).and_then(|group| self.groups.get(&group));
        if let Some(lease) = group.and_then(|group| group.try_lease()) {
            lease.peer().notify(method, params.cloned());
        }
    }

    /// Passes a notification on to every group that is connected and knows notifications of clients.
    pub fn tell_all(&self, method: &str, params: Option<&Raw>) {
        for group in self.groups.all() {
            if let Some(lease) = group.try_lease().filter(|lease| lease.era() == Era::Handshake) {
                lease.peer().notify(method, params.cloned());
            }
        }
    }
}

/// Answers `get_status`. Whoever asks for a single group is shown where to log in to it.
async fn status(groups: &GroupManager, params: &Raw) -> Raw {
    let all = groups.all();
    let chosen = arguments::status_group(raw::get(params, "arguments").as_ref());
    let chosen = chosen.and_then(|name| name.map(|name| lookup::group(&all, &name).cloned()).transpose());
    let chosen = match chosen {
        Ok(Some(group)) => {
            login::begin(groups, &group).await;
            vec![group]
        }
        Ok(None) => all,
        Err(problem) => return errors::tool_error(&problem),
    };
    let status = status::of(&chosen, groups);
    json!({ "content": [{ "type": "text", "text": status.text }], "structuredContent": status.json })
        .to_string()
        .into()
}

/// Connects the groups that may have a tool exposed as `name` until one has it. If none does, the first is the one to
/// say so.
async fn connected(
    groups: &GroupManager,
    may_be: Vec<Upstream>,
    name: &str,
    caller: &Caller,
) -> Result<(String, String), String> {
    let mut first = None;
    for group in may_be {
        let begins = exposed::plain(&group.name, "").len();
        let outcome = reach::lease_for(caller, groups, &group).await.map(|_held| ());
        if let Some((group, tool)) = list::tools(groups).resolve(name) {
            return Ok((group.to_string(), tool));
        }
        let tool = name.get(begins..).unwrap_or_default().to_owned();
        let found = outcome.map(|()| (group.name.to_string(), tool)).map_err(String::from);
        first.get_or_insert(found);
    }
    first.unwrap_or_else(|| Err(format!("There is no tool {name:?}.")))
}
