//! Finds the tool of a call in the catalog of its group. Most calls are made as soon as the handshake is done, and even if
//! the server's own list cannot be read; some are refused without it.

use crate::errors::{LISTS_TOOK_TOO_LONG, tool_errors};
use crate::names::lookup;
use crate::names::spelling::Match;
use base::blocking;
use config::GroupName;
use schema::validate::{ArgumentValidator, ArgumentVerdict};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use upstream::catalog::CatalogSource;
use upstream::catalog::list_limits::CatalogList;
use upstream::catalog::overrides::{HiddenArg, hidden_args};
use upstream::{Catalog, Lease, Need, Snapshot, Tool, Upstream};
use wire::object::Object;
use wire::{Raw, fold};

/// A tool of a group.
#[derive(Clone)]
pub(crate) struct FoundTool {
    /// The state of the group in which it was found.
    pub snapshot: Arc<Snapshot>,
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// Where it is in the catalog.
    place: ToolPlace,
}

/// Where a tool is in a catalog.
#[derive(Clone)]
enum ToolPlace {
    /// At this place in the list.
    Listed(usize),
    /// Nowhere: the list lacks tools, because it exceeds a limit.
    Unlisted(Box<Tool>),
}

impl FoundTool {
    /// Finds the tool of exactly this name in the list of the group. It may be one that the config does not allow.
    pub(crate) fn find_exact(snapshot: Arc<Snapshot>, name: &str) -> Option<Self> {
        let catalog = snapshot.catalog.clone()?;
        let place = ToolPlace::Listed(catalog.place(name)?);
        Some(Self { snapshot, catalog, place })
    }

    /// Finds a tool that the config allows, by its name in any spelling. `None` if there is none.
    ///
    /// # Errors
    ///
    /// The text for the model: several tools may be meant, or the list lacks the tool and the config has rules that need
    /// its definition.
    fn near(group: &Upstream, name: &str) -> Option<Result<Self, String>> {
        let snapshot = group.snapshot();
        let catalog = snapshot.catalog.clone()?;
        match lookup::tool(&group.name, &catalog, &snapshot.rules, name) {
            Match::None => Self::unlisted(group, snapshot, catalog, name),
            Match::One(place) => Some(Ok(Self { snapshot, catalog, place: ToolPlace::Listed(place) })),
            Match::Several(places) => {
                let names = places.iter().map(|place| catalog.tools[*place].name.as_str());
                Some(Err(lookup::ambiguous_tool(&group.name, name, names)))
            }
        }
    }

    /// Returns a tool that is in no list, if the list lacks tools or could not be read, and the config allows this one. Rules by name apply
    /// to it.
    ///
    /// # Errors
    ///
    /// The text for the model: the config has rules that need the tool's definition.
    fn unlisted(
        group: &Upstream,
        snapshot: Arc<Snapshot>,
        catalog: Arc<Catalog>,
        name: &str,
    ) -> Option<Result<Self, String>> {
        let is_read = matches!(catalog.source, CatalogSource::Live(_)) || catalog.tools_unread;
        let is_possible = is_read
            && catalog.left_off.lacks_named(CatalogList::Tools)
            && catalog.place(name).is_none()
            && snapshot.rules.allows(name);
        let server = snapshot.server.clone().filter(|_| is_possible)?;
        let overrides = &server.tools.overrides;
        let own = overrides.own_name(name);
        if overrides.shown_name(own) != Some(name) {
            // Clients know it by another name.
            return None;
        }
        if server.common.pin_tools {
            return Some(Err(tool_errors::unlisted_pinned(&group.name, name)));
        }
        if overrides.of(own).is_some_and(|of_tool| !of_tool.hidden_args.is_empty()) {
            return Some(Err(tool_errors::unlisted_with_hidden_args(&group.name, name)));
        }
        let place = ToolPlace::Unlisted(Box::new(Tool::unlisted(name)));
        Some(Ok(Self { snapshot, catalog, place }))
    }

    /// Returns the definition; `None` if the list lacks it, or if the cache has lost it.
    pub(crate) fn definition(&self) -> Option<&Raw> {
        match self.place {
            ToolPlace::Listed(place) => self.catalog.definition(place),
            ToolPlace::Unlisted(_) => None,
        }
    }

    /// Checks arguments against the schema, if it is known.
    pub(crate) fn validate(
        &self,
        validator: &ArgumentValidator,
        group: &GroupName,
        args: &Raw,
    ) -> ArgumentVerdict {
        let Some(definition) = self.definition() else { return ArgumentVerdict::Unknown };
        validator.validate(format_args!("{}__{}", group.as_str(), self.name), definition, args)
    }

    /// Returns whether a call may only be made with the list of its connection: the tools are pinned, the config hides
    /// arguments of this one, or the server has to say that it is read-only. `read_only`: whether it has to be.
    pub(super) fn needs_list(&self, read_only: bool) -> bool {
        let Some(server) = &self.snapshot.server else { return true };
        let overrides = &server.tools.overrides;
        let hides_args = || {
            let of_tool = overrides.of(overrides.own_name(&self.name));
            of_tool.is_some_and(|of_tool| !of_tool.hidden_args.is_empty())
        };
        server.common.pin_tools || read_only && !self.snapshot.rules.read_only(&self.name) || hides_args()
    }

    /// Returns the arguments that the config hides.
    pub(crate) fn hidden_args(&self) -> Vec<HiddenArg> {
        let ToolPlace::Listed(place) = self.place else { return Vec::new() };
        let overrides = self.snapshot.server.as_ref().map(|server| &server.tools.overrides);
        let Some(of_tool) = overrides.and_then(|overrides| overrides.of(overrides.own_name(&self.name)))
        else {
            return Vec::new();
        };
        let definition = self.catalog.original_definition(place);
        definition.map(|definition| hidden_args(definition, of_tool)).unwrap_or_default()
    }

    /// Returns how a hidden argument is written among `args`, if it is there. Some servers ignore the case of keys, so
    /// another spelling counts unless the tool has an argument of that name.
    pub(crate) fn spelling_of_hidden(&self, hidden: &str, args: &Raw) -> Option<String> {
        let args = Object::parse(args)?;
        let ToolPlace::Listed(place) = self.place else { return None };
        let definition = self.catalog.original_definition(place);
        let has = |name: &str| definition.is_some_and(|definition| schema::has_argument(definition, name));
        let is_hidden = |name: &str| name == hidden || fold::is_same(name, hidden) && !has(name);
        args.keys().find(|name| is_hidden(name)).map(Cow::into_owned)
    }
}

impl Deref for FoundTool {
    type Target = Tool;

    fn deref(&self) -> &Tool {
        match &self.place {
            ToolPlace::Listed(place) => &self.catalog.tools[*place],
            ToolPlace::Unlisted(tool) => tool,
        }
    }
}

/// Which tools the rules hide is for the owner of the config alone.
const RULES_HIDE_SOME: &str =
    "Rules in the config leave some tools of this group off; `dynamic-mcp status` shows the user which.";

/// Finds a tool that the config allows, in any spelling, in the catalog of a connected group, whose state is
/// `snapshot`. The catalog is read again before a name is rejected, unless the config does not allow it.
///
/// # Errors
///
/// There is no such tool; several may be meant; the list lacks the tool, and the config has rules that need its
/// definition; or it took too long. The text for the model.
pub(crate) async fn find_tool(
    group: &Upstream,
    snapshot: Arc<Snapshot>,
    name: &str,
) -> Result<FoundTool, String> {
    if let Some(tool) = FoundTool::find_exact(snapshot, name)
        && tool.snapshot.rules.allows(name)
    {
        return Ok(tool);
    }
    // Boxed, so that the future of a call that names its tool exactly is small.
    Box::pin(find_near(group, name)).await
}

/// Finds a tool whose name may have another spelling, as [`find_tool`] does.
async fn find_near(group: &Upstream, name: &str) -> Result<FoundTool, String> {
    if let Some(found) = on_names(group, name, FoundTool::near).await? {
        return found;
    }
    if group.snapshot().rules.allows(name) {
        group.settled().await;
        group.refresh(Need::Tools).await;
        if let Some(found) = on_names(group, name, FoundTool::near).await? {
            return found;
        }
    }
    let unknown = |group: &Upstream, name: &str| {
        let snapshot = group.snapshot();
        let tools = snapshot.catalog.iter().flat_map(|catalog| &catalog.tools);
        let is_allowed = |tool: &&str| snapshot.rules.allows(tool);
        let names = || tools.clone().map(|tool| tool.name.as_str());
        let unknown = lookup::unknown_tool(&group.name, name, names().filter(is_allowed));
        match names().all(|tool| is_allowed(&tool)) {
            true => unknown,
            false => format!("{unknown} {RULES_HIDE_SOME}"),
        }
    };
    Err(on_names(group, name, unknown).await?)
}

/// Returns whether a name is that of a known tool in some spelling, or may be that of several.
///
/// # Errors
///
/// It took too long. The text for the model.
pub(crate) async fn is_spelling(group: &Upstream, name: &str) -> Result<bool, String> {
    on_names(group, name, |group, name| lookup::known_tool(group, name) != Match::None).await
}

/// Does work that compares a name with those of a group's tools: here if they are few, else on a thread that may block.
///
/// # Errors
///
/// It took too long. The text for the model.
async fn on_names<T: Send + 'static>(
    group: &Upstream,
    name: &str,
    work: impl FnOnce(&Upstream, &str) -> T + Send + 'static,
) -> Result<T, String> {
    let bytes = group.snapshot().catalog.as_ref().map_or(0, |catalog| catalog.bytes);
    let (group, name) = (group.clone(), name.to_owned());
    let done = blocking::run_on(bytes, move || work(&group, &name)).await;
    done.map_err(|_| LISTS_TOOK_TOO_LONG.to_owned())
}

/// Returns the tool as the list has it that was read on the connection of the lease, if the call needs that list; else
/// `tool`, which is of another list. Reads the list again if that has failed.
///
/// # Errors
///
/// The list cannot be read. The text for the model.
pub(super) async fn require_list(
    group: &Upstream,
    lease: &Lease,
    tool: FoundTool,
    read_only: bool,
) -> Result<FoundTool, String> {
    if !tool.needs_list(read_only) {
        return Ok(tool);
    }
    group.refresh(Need::Tools).await;
    let listed = FoundTool::find_exact(group.snapshot(), &tool.name);
    let is_read =
        |listed: &FoundTool| lease.has_read(&listed.catalog) && listed.snapshot.rules.allows(&tool.name);
    listed.filter(is_read).ok_or_else(|| tool_errors::list_not_read(&group.name, &tool.name))
}
