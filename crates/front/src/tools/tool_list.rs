//! `tools/list` and `instructions`: our own tools, and the upstreams' tools that the config exposes.
//!
//! The list depends on the config and on the surface of each group, never on calls that were made. Its bytes stay equal
//! while nothing changes, because clients' prompt caches depend on them.

use super::definitions::{self, GroupLine};
use crate::errors::{self, RpcError};
use crate::names::apps::AppUris;
use crate::names::exposed_names::exposed_names;
use crate::names::own_tools;
use crate::notify::list_changes::{ListChanges, ListContents, ReadLists};
use crate::session::requester::Requester;
use base::blocking::BlockingError;
use base::tokens;
use config::tool_rules::Rules;
use config::{Config, Mode, SurfaceKind};
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use upstream::catalog::ListHashes;
use upstream::catalog::list_limits::CatalogList;
use upstream::catalog::tool::model_tokens;
use upstream::groups::surface::Note;
use upstream::pins::definition::HINTS;
use upstream::{GroupManager, Tool, Upstream, UpstreamError};
use wire::{Raw, raw};

/// How long a client may cache `tools/list`, in milliseconds. Listeners are notified of changes earlier.
const LIST_TTL_MS: u32 = 300_000;

/// The result of `tools/list` of one instance, built again when a list may have changed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ToolList {
    /// Changes whenever a list may have changed.
    version: watch::Receiver<u64>,
    /// Until when a list waits for start-up discovery.
    wait_until: Instant,
    /// Whether some group had no surface when the list was first built. Then the flat surface has all our tools.
    incomplete: Arc<OnceLock<bool>>,
    /// Who asks, if that decides what the list has for apps. Otherwise it has nothing for them.
    requester: Option<Arc<Requester>>,
    /// The last result.
    last: Arc<Mutex<LastList>>,
}

/// The result of the last `tools/list`.
#[derive(Default)]
struct LastList {
    /// What it is built for.
    built_for: (u64, ShownApps),
    /// The result; empty until it is built.
    result: Arc<OnceLock<Raw>>,
}

/// Which apps a client shows (MCP Apps).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ShownApps {
    /// Our status page.
    status_page: bool,
    /// Those of servers.
    of_servers: bool,
}

impl ShownApps {
    fn of(requester: &Requester) -> Self {
        Self {
            status_page: requester.status_page().is_some(),
            of_servers: requester.client.capabilities.shows_apps(),
        }
    }
}

impl ToolList {
    /// Creates the list as it is now. It is built when it is asked for. `wait`: how long from now on it waits for
    /// start-up discovery.
    pub(crate) fn new(groups: &GroupManager, wait: Duration) -> Self {
        Self {
            version: groups.list_version(),
            wait_until: Instant::now() + wait,
            incomplete: Arc::default(),
            requester: None,
            last: Arc::default(),
        }
    }

    /// Returns the list for a requester.
    pub(crate) fn of_requester(&self, requester: &Arc<Requester>) -> Self {
        Self { requester: Some(requester.clone()), ..self.clone() }
    }

    /// Returns the result of `tools/list`. It is there at once unless the groups list much, or start-up discovery is
    /// waited for.
    ///
    /// # Errors
    ///
    /// Building it took too long.
    pub(crate) async fn result(&self, groups: &Arc<GroupManager>) -> Result<Raw, BlockingError> {
        self.wait_for_discovery(groups).await;
        let apps = self.requester.as_deref().map(ShownApps::of).unwrap_or_default();
        let list = self.built_for((*self.version.borrow(), apps));
        if let Some(list) = list.get() {
            return Ok(list.clone());
        }
        let incomplete = *self.incomplete.get_or_init(|| lacks_surfaces(groups));
        // Whoever asks meanwhile waits for the list instead of building another one, even if this caller waits no more.
        groups.run_on_lists(move |groups| list.get_or_init(|| build(groups, incomplete, apps)).clone()).await
    }

    /// Returns the lists as a client knows them: as they are now if they are known at once, else not at all. Before the groups
    /// are started no list is known.
    pub(crate) fn changes(&self, groups: &Arc<GroupManager>, is_started: bool) -> ListChanges {
        let (list, of) = (self.clone(), groups.clone());
        let read: ReadLists = Box::new(move || list.clone().contents(of.clone()).boxed());
        let known = is_started.then(|| read().now_or_never()).flatten();
        ListChanges::new(groups.list_version(), known.unwrap_or_default(), read)
    }

    /// Returns the result that is built for this; empty until it is built.
    fn built_for(&self, wanted: (u64, ShownApps)) -> Arc<OnceLock<Raw>> {
        let mut last = self.last.lock();
        if last.built_for != wanted {
            *last = LastList { built_for: wanted, result: Arc::default() };
        }
        last.result.clone()
    }

    /// Waits for the end of start-up discovery while a list may wait. Then the list has what was found so far.
    async fn wait_for_discovery(&self, groups: &GroupManager) {
        if Instant::now() < self.wait_until
            && timeout_at(self.wait_until, groups.discovery_ended()).await.is_err()
        {
            groups.show_discovered();
        }
    }

    /// Returns what the lists contain now. That of the tools is missing if building it took too long.
    pub(crate) async fn contents(self, groups: Arc<GroupManager>) -> ListContents {
        let tools = self.result(&groups).await.ok();
        let all = groups.all();
        ListContents {
            tools,
            resources: Some(hash_lists(&all, |hashes| hashes.resources)),
            prompts: Some(hash_lists(&all, |hashes| hashes.prompts)),
        }
    }
}

/// Builds the list for a client that shows these apps.
fn build(groups: &GroupManager, incomplete: bool, apps: ShownApps) -> Raw {
    let config = groups.config();
    with_group_lines(groups, |lines| {
        let ours = definitions::list(lines, config.settings.names_budget);
        let (ours, upstreams) = match config.settings.surface {
            SurfaceKind::Meta => (ours, surface_definitions(groups, WantedTools::Exposed(apps)).definitions),
            SurfaceKind::Flat => {
                let upstreams = surface_definitions(groups, WantedTools::All);
                let incomplete = incomplete || upstreams.lacks_tools;
                let is_listed = |tool: &Value| {
                    let reads_results =
                        tool["name"] == own_tools::CALL_DYNAMIC_TOOL && stores_results(&config);
                    incomplete || reads_results || tool["name"] == own_tools::GET_STATUS
                };
                (ours.into_iter().filter(is_listed).collect(), upstreams.definitions)
            }
        };
        let of_page = apps.status_page.then(definitions::of_status_page).into_iter().flatten();
        let ours = ours.into_iter().chain(of_page).map(|tool| Raw::from(tool.to_string()));
        let tools: Vec<Raw> = match config.settings.surface {
            SurfaceKind::Meta => ours.chain(upstreams).collect(),
            SurfaceKind::Flat => upstreams.into_iter().chain(ours).collect(),
        };
        result_of(&tools)
    })
}

/// An estimate of the tokens that a model reads at the start.
pub struct ListCost {
    /// The definitions of the servers' tools that are known and that the config allows, as clients of the servers list them.
    pub direct: usize,
    /// What a client reads with dynamic-mcp: its list of tools, and its instructions.
    pub listed: usize,
    /// Those of our tools that are in the list because the servers' tools are not.
    pub replaced: usize,
}

impl ListCost {
    /// Estimates it for a client that shows no apps.
    pub fn of(groups: &GroupManager) -> Self {
        let tools = raw::elements(&build(groups, false, ShownApps::default()), "tools").unwrap_or_default();
        let is_replacement = |tool: &&Raw| {
            let name = raw::get_str(tool, "name");
            name.is_some_and(|name| own_tools::NAMES.contains(&&*name) && name != own_tools::GET_STATUS)
        };
        let of_list: usize = tools.iter().map(model_tokens).sum();
        Self {
            direct: groups.all().iter().map(|group| group.snapshot().tool_tokens()).sum(),
            listed: of_list + tokens::estimate(&instructions(groups)),
            replaced: tools.iter().filter(is_replacement).map(model_tokens).sum(),
        }
    }
}

/// Returns how long a client may cache a list now, in milliseconds: not at all during start-up discovery.
pub(crate) fn ttl_ms(groups: &GroupManager) -> u32 {
    if groups.is_discovering() { 0 } else { LIST_TTL_MS }
}

/// Returns the definition of our own tool `name`, if there is one. `with_page`: whether the tools of the status page are
/// among them.
pub(crate) fn our_definition(groups: &GroupManager, name: &str, with_page: bool) -> Option<Raw> {
    let budget = groups.config().settings.names_budget;
    let ours = with_group_lines(groups, |lines| definitions::list(lines, budget));
    let of_page = with_page.then(definitions::of_status_page).into_iter().flatten();
    ours.into_iter().chain(of_page).find(|tool| tool["name"] == name).map(|tool| tool.to_string().into())
}

/// Returns whether results may be stored, which one of our tools and `resources/read` then read.
pub(crate) fn stores_results(config: &Config) -> bool {
    config
        .servers
        .iter()
        .any(|(_, server)| server.as_ref().is_ok_and(|server| server.common.store_above.is_some()))
}

/// Hashes one kind of list of all groups. No cached file is read for it.
fn hash_lists(groups: &[Upstream], hash_of: fn(ListHashes) -> u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    for group in groups {
        let hash = group.snapshot().catalog.as_ref().map_or(0, |catalog| hash_of(catalog.hashes));
        if hash != 0 {
            (group.name.as_str(), hash).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Which of the upstreams' tools `tools/list` has.
#[derive(Clone, Copy)]
enum WantedTools {
    All,
    /// Those that the config exposes, and those with an app of which the host has to know.
    Exposed(ShownApps),
}

/// Returns the definitions of the upstreams' tools that `tools/list` has, under their exposed names.
fn surface_definitions(groups: &GroupManager, wanted: WantedTools) -> ListedTools {
    let surfaces = groups.surfaces();
    let is_listed = |group: &Upstream| {
        let surface = surfaces.get(&group.name);
        let names =
            LazyCell::new(move || surface.iter().flat_map(|surface| &surface.tools).collect::<HashSet<_>>());
        move |tool: &Tool, rules: &Rules| {
            let is_wanted = match wanted {
                WantedTools::All => true,
                WantedTools::Exposed(apps) => {
                    rules.exposes(&tool.name) || apps.of_servers && (tool.has_app || tool.app_only)
                }
            };
            is_wanted && surface.is_some() && (tool.app_only || names.contains(&tool.name))
        }
    };
    let mut listed = listed_tools(groups, is_listed);
    if matches!(wanted, WantedTools::Exposed(_)) {
        let always_load =
            |definition: &Raw| raw::set_in(definition, "_meta", "anthropic/alwaysLoad", b"true");
        listed.definitions = listed.definitions.iter().map(always_load).collect();
    }
    listed
}

/// Tools of upstreams, as a list has them.
#[derive(Default)]
pub(crate) struct ListedTools {
    /// Their definitions, under their exposed names.
    pub definitions: Vec<Raw>,
    /// Whether a tool is missing, because it exceeds a limit, or because some clients would drop the whole list for its
    /// definition.
    lacks_tools: bool,
}

/// Returns the known tools that `wanted` selects for their group. A tool that is refused because it changed is left
/// out.
pub(crate) fn listed_tools<W: Fn(&Tool, &Rules) -> bool>(
    groups: &GroupManager,
    wanted: impl Fn(&Upstream) -> W,
) -> ListedTools {
    // Often no tool is listed, and there may be many groups.
    let names = LazyCell::new(|| exposed_names(groups));
    let apps = AppUris::new(groups);
    let mut listed = ListedTools::default();
    for group in groups.all() {
        let snapshot = group.snapshot();
        let rules = &snapshot.rules;
        let refused = snapshot.refused();
        let wanted = wanted(&group);
        let is_wanted =
            |tool: &Tool| rules.allows(&tool.name) && !refused.contains(&tool.name) && wanted(tool, rules);
        let catalog = snapshot.catalog.as_ref().map(|catalog| catalog.as_listed());
        let Some(catalog) = catalog.filter(|catalog| catalog.tools.iter().any(is_wanted)) else {
            continue;
        };
        listed.lacks_tools |= catalog.left_off.lacks_named(CatalogList::Tools);
        // A preview does not conform to the schema, and some clients check that.
        let stores = snapshot.server.as_ref().is_some_and(|server| server.common.store_above.is_some());
        let known = catalog.definitions().into_iter().flatten();
        // An old file of the cache may have two tools of one name.
        let is_first = |tool: &Tool| catalog.tool(&tool.name).is_some_and(|first| std::ptr::eq(first, tool));
        for (tool, definition) in known.filter(|(tool, _)| is_wanted(tool) && is_first(tool)) {
            let Some(name) = names.exposed(&group.name, &tool.name) else { continue };
            // The catalog has a finding about a definition that cannot be listed.
            let Some(definition) = tool.listed(definition) else {
                listed.lacks_tools = true;
                continue;
            };
            let definition = with_trusted_hints(&definition, &tool.name, rules);
            let definition = if stores { raw::remove(&definition, "outputSchema") } else { definition };
            listed.definitions.push(with_name(&apps.set_in(&group.name, &definition), name));
        }
    }
    listed
}

/// Removes the hints of a server whose annotations do not count from a definition, because clients act on them. What the
/// config says about the tool takes their place.
pub(crate) fn with_trusted_hints(definition: &Raw, tool: &str, rules: &Rules) -> Raw {
    if rules.trusts_annotations() {
        return definition.clone();
    }
    let annotations = raw::get(definition, "annotations").filter(|annotations| annotations.starts_with(b"{"));
    let mut annotations = match annotations {
        None if !rules.read_only(tool) => return definition.clone(),
        annotations => annotations.unwrap_or(Raw::from_static(b"{}")),
    };
    for hint in HINTS {
        annotations = raw::remove(&annotations, hint);
    }
    if rules.read_only(tool) {
        annotations = raw::set(&annotations, "readOnlyHint", b"true");
    }
    raw::set(definition, "annotations", &annotations)
}

/// Replaces the name of a definition.
pub(crate) fn with_name(definition: &Raw, name: &str) -> Raw {
    raw::set_str(definition, "name", name)
}

/// Returns a result of `tools/list` with these tools.
pub(crate) fn result_of(tools: &[Raw]) -> Raw {
    [b"{\"tools\":", &raw::array(tools)[..], b"}"].concat().into()
}

/// Returns the `instructions` of `initialize` and `server/discover`.
pub(crate) fn instructions(groups: &GroupManager) -> String {
    let config = groups.config();
    let has_problems = !config.errors.is_empty() || !groups.usage_errors().is_empty();
    with_group_lines(groups, |lines| match config.settings.surface {
        SurfaceKind::Meta => definitions::instructions(lines, has_problems),
        SurfaceKind::Flat => definitions::flat_instructions(lines, lacks_surfaces(groups), has_problems),
    })
}

/// Returns whether the tools of some group are not known.
fn lacks_surfaces(groups: &GroupManager) -> bool {
    let (config, surfaces) = (groups.config(), groups.surfaces());
    config.servers.iter().any(|(name, _)| !surfaces.contains_key(name))
}

/// Calls `use_lines` with a line for each group: its description in the config, its surface, and a note if it cannot be
/// used.
fn with_group_lines<T>(groups: &GroupManager, use_lines: impl FnOnce(&[GroupLine<'_>]) -> T) -> T {
    let (config, surfaces, notes) = (groups.config(), groups.surfaces(), groups.notes());
    let lines = config.servers.iter().map(|(name, server)| {
        let Ok(server) = server else {
            let note = Note::new(UpstreamError::BRIEF_CONFIG.into()).to_string();
            return GroupLine { name: name.as_str(), note: Some(note), ..GroupLine::default() };
        };
        let surface = surfaces.get(name);
        let about = surface.and_then(|surface| surface.about.as_deref());
        let tools =
            surface.filter(|_| server.common.mode != Mode::Pure).map_or(&[][..], |surface| &surface.tools);
        let description = server.description.as_deref().or(about);
        let instructions = surface.and_then(|surface| surface.instructions.as_deref());
        let note = notes.get(name).map(Note::to_string);
        GroupLine { name: name.as_str(), description, instructions, tools, note }
    });
    use_lines(&lines.collect::<Vec<_>>())
}

/// Checks the params of `tools/list`. The list has one page, so every cursor is unknown.
///
/// # Errors
///
/// The params are not an object, or have a cursor.
pub fn check_params(params: Option<&Raw>) -> Result<(), RpcError> {
    let Some(params) = params.filter(|params| &params[..] != b"null") else { return Ok(()) };
    if raw::entries(params).is_none() {
        return Err(errors::invalid_params("params must be an object"));
    }
    match raw::get(params, "cursor") {
        Some(cursor) if !matches!(&cursor[..], b"null" | b"\"\"") => {
            Err(errors::invalid_params("unknown cursor"))
        }
        _ => Ok(()),
    }
}
