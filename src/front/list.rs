//! The lists as one client knows them, and when it is told that they changed.

use super::exposed::Names;
use super::gather::{self, Kind};
use super::meta_tools::{self, GroupLine};
use super::routing;
use crate::config::{GroupName, Mode, SurfaceKind};
use crate::groups::GroupManager;
use crate::rules::Rules;
use crate::schema::definition;
use crate::upstream::Upstream;
use crate::upstream::catalog::{Marks, Tool};
use crate::wire::{Raw, raw};
use memchr::memmem;
use serde_json::json;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A client is told at most so often: some list again at once, each time.
const GAP: Duration = Duration::from_secs(1);

pub struct Lists {
    listed: watch::Receiver<u64>,
    /// `tools/list` as the client last had it, or was told to get it.
    tools: Raw,
    /// The others, as hashes of what they say.
    resources: u64,
    prompts: u64,
    /// Some group had no surface when this session began: then the flat surface has all our tools.
    incomplete: bool,
    /// `tools/list` as it was rendered last, and at which count of `listed`.
    rendered: (u64, Raw),
    /// Not before this is the client told again.
    next: Option<Instant>,
}

impl Lists {
    pub fn new(groups: &GroupManager) -> Self {
        let shown = groups.shown();
        let incomplete = groups.all().iter().any(|group| !shown.contains_key(&group.name));
        let listed = groups.listed();
        let rendered = (*listed.borrow(), render(groups, incomplete));
        let tools = rendered.1.clone();
        let (resources, prompts) =
            (hash(groups, |marks| marks.resources), hash(groups, |marks| marks.prompts));
        Self { listed, tools, resources, prompts, incomplete, rendered, next: None }
    }

    /// The result of `tools/list` as it is now.
    pub fn render(&mut self, groups: &GroupManager) -> Raw {
        let count = *self.listed.borrow();
        if self.rendered.0 != count {
            self.rendered = (count, render(groups, self.incomplete));
        }
        self.rendered.1.clone()
    }

    /// Resolves when a list may be another and the client may be told. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.listed.changed().await.is_err() {
            return std::future::pending().await;
        }
        // Said again at once, should this be dropped while it waits.
        self.listed.mark_changed();
        if let Some(next) = self.next {
            sleep_until(next).await;
        }
        self.listed.mark_unchanged();
    }

    /// The client has this list of tools now.
    pub fn told(&mut self, tools: &Raw) {
        self.tools = tools.clone();
    }

    /// What to tell the client: the lists that differ from those it knows.
    pub fn tell(&mut self, groups: &GroupManager) -> Vec<&'static str> {
        let tools = self.render(groups);
        let (resources, prompts) =
            (hash(groups, |marks| marks.resources), hash(groups, |marks| marks.prompts));
        let changes = [
            (self.tools != tools, "notifications/tools/list_changed"),
            (self.resources != resources, "notifications/resources/list_changed"),
            (self.prompts != prompts, "notifications/prompts/list_changed"),
        ];
        (self.tools, self.resources, self.prompts) = (tools, resources, prompts);
        let told: Vec<_> =
            changes.into_iter().filter(|(changed, _)| *changed).map(|(_, method)| method).collect();
        if !told.is_empty() {
            self.next = Some(Instant::now() + GAP);
        }
        told
    }
}

fn render(groups: &GroupManager, incomplete: bool) -> Raw {
    let config = groups.config();
    with_lines(groups, |lines| {
        let ours = meta_tools::list(lines, config.settings.names_budget);
        let (ours, theirs) = match config.settings.surface {
            SurfaceKind::Meta => (ours, surface(groups, true)),
            SurfaceKind::Flat => {
                let shown = |tool: &rmcp::model::Tool| incomplete || tool.name == meta_tools::STATUS;
                (ours.into_iter().filter(shown).collect(), surface(groups, false))
            }
        };
        let ours = ours.iter().map(|tool| Raw::from(json!(tool).to_string()));
        let listed: Vec<Raw> = match config.settings.surface {
            SurfaceKind::Meta => ours.chain(theirs).collect(),
            SurfaceKind::Flat => theirs.into_iter().chain(ours).collect(),
        };
        result(&listed)
    })
}

/// Of what the groups' lists say, to see whether they say something else. No cached file is read for it.
fn hash(groups: &GroupManager, mark: fn(Marks) -> u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    for group in groups.all() {
        let mark = group.snapshot().catalog.as_ref().map_or(0, |catalog| mark(catalog.marks));
        if mark != 0 {
            (group.name.as_str(), mark).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The tools of upstreams that stand in `tools/list`, verbatim under their exposed names: those that the config
/// exposes, or all.
fn surface(groups: &GroupManager, exposed_only: bool) -> Vec<Raw> {
    let shown = groups.shown();
    let listed = |group: &Upstream, tool: &Tool, rules: &Rules| {
        shown.get(&group.name).is_some_and(|surface| surface.tools.contains(&tool.name))
            && (!exposed_only || rules.exposes(&tool.name))
    };
    let definitions = known(groups, listed);
    if !exposed_only {
        return definitions;
    }
    let always = |definition: &Raw| raw::set_in(definition, "_meta", "anthropic/alwaysLoad", b"true");
    definitions.iter().map(always).collect()
}

/// The definitions of known tools that `wanted` is true of, under their exposed names. One that is not by MCP's schema
/// is left out: some clients drop the whole list for it.
pub fn known(groups: &GroupManager, wanted: impl Fn(&Upstream, &Tool, &Rules) -> bool) -> Vec<Raw> {
    let names = tools(groups);
    let mut listed = Vec::new();
    for group in groups.all() {
        let snapshot = group.snapshot();
        let rules = &snapshot.rules;
        let wanted = |tool: &Tool| rules.allows(&tool.name) && wanted(&group, tool, rules);
        let Some(catalog) = snapshot.catalog.as_ref().filter(|catalog| catalog.tools.iter().any(wanted))
        else {
            continue;
        };
        let definitions = catalog.definitions().into_iter().flatten();
        for (tool, definition) in definitions.filter(|(tool, _)| wanted(tool)) {
            let Some(name) = names.of(&group.name, &tool.name) else { continue };
            match definition::validate(definition) {
                Ok(()) => listed.push(renamed(&with_app(groups, &group.name, definition), name)),
                Err(why) => tracing::debug!(group = %group.name, tool = tool.name, why, "not listed"),
            }
        }
    }
    listed
}

/// The definition with its app under the URI by which the client can read it.
fn with_app(groups: &GroupManager, group: &GroupName, definition: &Raw) -> Raw {
    if memmem::find(definition, routing::APPS.as_bytes()).is_none() {
        return definition.clone();
    }
    let given = raw::get(definition, "_meta").and_then(|given| raw::get(&given, "ui"));
    let uri = given.as_ref().and_then(|ui| raw::get_str(ui, "resourceUri"));
    let (Some(ui), Some(uri)) = (given, uri) else { return definition.clone() };
    let known_as = routing::known_as(group, &uri, &gather::known(groups, &Kind::RESOURCES));
    let ui = raw::set(&ui, "resourceUri", json!(known_as).to_string().as_bytes());
    raw::set_in(definition, "_meta", "ui", &ui)
}

/// The definition under another name.
pub fn renamed(definition: &Raw, name: &str) -> Raw {
    raw::set(definition, "name", serde_json::Value::from(name).to_string().as_bytes())
}

/// A result with these tools.
pub fn result(tools: &[Raw]) -> Raw {
    [b"{\"tools\":[", &tools.join(&b","[..])[..], b"]}"].concat().into()
}

/// Every known tool under the name by which it can be called from outside.
pub fn tools(groups: &GroupManager) -> Names {
    let known: Vec<(GroupName, Vec<String>)> = groups
        .all()
        .iter()
        .filter_map(|group| {
            let snapshot = group.snapshot();
            let rules = &snapshot.rules;
            let tools = snapshot.catalog.as_ref()?.tools.iter().map(|tool| tool.name.clone());
            Some((group.name.clone(), tools.filter(|tool| rules.allows(tool)).collect()))
        })
        .collect();
    Names::new(known.iter().flat_map(|(group, tools)| tools.iter().map(move |tool| (group, tool.as_str()))))
}

/// `instructions` of `initialize`.
pub fn instructions(groups: &GroupManager) -> String {
    with_lines(groups, meta_tools::instructions)
}

/// The groups as the config and their surfaces have them; those that cannot work are named by `get_status`.
fn with_lines<T>(groups: &GroupManager, use_them: impl FnOnce(&[GroupLine<'_>]) -> T) -> T {
    let (config, shown) = (groups.config(), groups.shown());
    let lines = config.servers.iter().filter_map(|(name, server)| {
        let server = server.as_ref().ok()?;
        let surface = shown.get(name);
        let about = surface.and_then(|surface| surface.about.as_deref());
        let tools = surface.filter(|_| server.mode != Mode::Pure).map_or(&[][..], |surface| &surface.tools);
        Some(GroupLine { name: name.as_str(), about: server.description.as_deref().or(about), tools })
    });
    use_them(&lines.collect::<Vec<_>>())
}
