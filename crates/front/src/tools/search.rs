//! `search_dynamic_tools`: ranked search over the tools of every known group, connected or not.
//!
//! It waits for no server, except in the first seconds of an instance for those whose tools are being read for the first time:
//! the tool that fits best may be among them. If the first two results are of one server, that is started beside the answer,
//! because a call of it is likely (`tests/it/search.rs` says how likely).
//!
//! The index is built on the first search, and again when a catalog, a rule, a description or an approval has changed. A
//! group that cannot be used and whose tools are not known is in the index with its name and description, so that a search
//! for what it is meant to do says why it is missing.

use super::group_status::BrokenGroups;
use crate::arguments::SearchQuery;
use crate::errors::{LISTS_TOOK_TOO_LONG, tool_errors};
use crate::names::lookup;
use base::blocking;
use base::text::{name, quoted, shorten, visible};
use config::GroupName;
use config::tool_rules::Rules;
use parking_lot::Mutex;
use schema::signature::signature;
use search::{Hit, SearchGroup, SearchIndex};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use upstream::pins::changes::RefusedTools;
use upstream::{Catalog, GroupManager, Tool};
use wire::{Raw, raw};

/// How long after the start of the instance a search waits for tools that are being read for the first time.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(3);
/// The number of results, if the query names none.
const DEFAULT_LIMIT: usize = 5;
/// The largest number of results.
const MAX_LIMIT: usize = 20;
/// The length of a result's text: enough to choose by.
const MAX_SUMMARY: usize = 100;
/// The length of the best result's signature.
const MAX_SIGNATURE: usize = 900;
/// How much of a server's instructions is indexed as the description of its group.
const MAX_INSTRUCTIONS: usize = 600;

/// The index that the searches of one instance share.
#[derive(Default)]
pub struct ToolSearch {
    /// Locked only to read or replace it.
    index: Arc<Mutex<Option<Arc<GroupIndex>>>>,
    /// Until when searches wait for tools that are being read for the first time; `None`: they do not.
    wait_until: Option<Instant>,
}

/// An index, and the groups that it was built from.
struct GroupIndex {
    /// The groups, in the order of the index.
    groups: Vec<IndexedGroup>,
    /// The places of each group's indexed tools in its catalog.
    places: Vec<Vec<usize>>,
    /// The index of their tools.
    index: SearchIndex,
}

/// A group whose catalog is known, or that cannot be used.
struct IndexedGroup {
    /// The group's name.
    name: GroupName,
    /// The description in the config, the server's title and the beginning of its instructions, one per line.
    description: String,
    /// What is known of the server. `None`: nothing, and the group cannot be used.
    catalog: Option<Arc<Catalog>>,
    /// The config's rules for its tools.
    rules: Arc<Rules>,
    /// The tools that are refused because they changed. They are not found: their new text is not trusted.
    refused: RefusedTools,
}

impl GroupIndex {
    /// Returns the group and the tool of a hit, with the definition. `None` for a group that cannot be used.
    fn tool(&self, hit: &Hit) -> Option<(&IndexedGroup, &Tool, Raw)> {
        let group = self.groups.get(hit.group)?;
        let (tool, definition) = group.tool(*self.places.get(hit.group)?.get(hit.tool)?)?;
        Some((group, tool, definition))
    }

    /// Returns the bytes of the definitions in it.
    fn bytes(&self) -> usize {
        self.groups.iter().filter_map(|group| Some(group.catalog.as_ref()?.work_bytes())).sum()
    }
}

impl Drop for GroupIndex {
    fn drop(&mut self) {
        if self.bytes() > blocking::MAX_INLINE_BYTES {
            let index = std::mem::take(&mut self.index);
            blocking::discard((index, std::mem::take(&mut self.groups), std::mem::take(&mut self.places)));
        }
    }
}

impl IndexedGroup {
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.catalog.as_ref().map(Arc::as_ptr) == other.catalog.as_ref().map(Arc::as_ptr)
            && Arc::ptr_eq(&self.rules, &other.rules)
            && self.refused.is_same(&other.refused)
    }

    /// Returns the places in the catalog of the tools that may be called.
    fn places(&self) -> Vec<usize> {
        let is_allowed = |tool: &Tool| {
            self.rules.allows(&tool.name) && !tool.app_only && !self.refused.contains(&tool.name)
        };
        let tools = self.catalog.iter().flat_map(|catalog| catalog.tools.iter().enumerate());
        tools.filter(|(_, tool)| is_allowed(tool)).map(|(place, _)| place).collect()
    }

    /// Returns a tool with its definition. If the cache has lost the definition, the summary replaces it.
    fn tool(&self, place: usize) -> Option<(&Tool, Raw)> {
        let catalog = self.catalog.as_ref()?;
        let tool = catalog.tools.get(place)?;
        let stub = || json!({ "description": tool.summary }).to_string().into();
        Some((tool, catalog.definition(place).cloned().unwrap_or_else(stub)))
    }
}

/// What a search found.
pub struct FoundTools {
    /// The words that were searched.
    query: String,
    /// Why the best result would be in a group that cannot be used.
    warning: Option<String>,
    /// The tools that match, the best first.
    tools: Vec<MatchingTool>,
    /// How to call the first of them, as lines.
    how_to_call: Option<String>,
    /// The groups whose tools are not known: why the group cannot be used if that is so, and its name.
    not_searched: Vec<(Option<String>, GroupName)>,
}

/// A tool that matches a search.
struct MatchingTool {
    group: GroupName,
    name: String,
    /// The beginning of its description.
    summary: String,
    /// Whether `call_dynamic_tool_readonly` calls it.
    read_only: bool,
    /// Why its group cannot be used, if that is so.
    unavailable: Option<String>,
    /// Its definition, or its summary alone if the cache has lost it.
    definition: Raw,
}

impl FoundTools {
    /// Returns the group that a call is likely to name: that of the first two tools.
    fn likely_group(&self) -> Option<&GroupName> {
        let [first, second, ..] = &self.tools[..] else { return None };
        (first.group == second.group).then_some(&first.group)
    }

    /// For a model: a line for each tool, and what to know about them.
    pub fn text(self) -> String {
        let mut lines = Vec::from_iter(self.warning);
        let mut how_to_call = self.how_to_call;
        for tool in &self.tools {
            lines.push(tool.line());
            lines.extend(how_to_call.take());
        }
        if lines.is_empty() {
            lines.push(format!(
                "No known tool matches {}. Use other words, or list a group's tools with get_dynamic_tools.",
                quoted(&shorten(&self.query, MAX_SUMMARY))
            ));
        }
        let (unusable, unread): (Vec<_>, Vec<_>) =
            self.not_searched.iter().partition(|(why, _)| why.is_some());
        if !unread.is_empty() {
            let names = unread.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
            lines.push(format!(
                "Not searched, because their tools are not known yet: {names} (get_dynamic_tools reads them)."
            ));
        }
        if !unusable.is_empty() {
            let noted =
                unusable.iter().map(|(why, name)| format!("{name} ({})", why.as_deref().unwrap_or_default()));
            let noted = noted.collect::<Vec<_>>().join(", ");
            lines.push(format!("Not searched, because they are not available: {noted}."));
        }
        lines.join("\n")
    }

    /// Leaves out the groups that are not available, for who names them otherwise.
    pub fn without_unavailable(mut self) -> Self {
        self.not_searched.retain(|(why, _)| why.is_none());
        self
    }

    /// For a program: the tools with their definitions, and the groups that were not searched.
    pub fn json(&self) -> Raw {
        let tools: Vec<Raw> = self.tools.iter().map(MatchingTool::json).collect();
        let not_searched = self.not_searched.iter().map(|(why, name)| {
            json!({ "group": name.as_str(), "reason": why.as_deref().unwrap_or("its tools are not known yet") })
        });
        let rest = json!({ "query": self.query, "notSearched": not_searched.collect::<Vec<_>>() });
        raw::set(&rest.to_string().into(), "tools", &raw::array(&tools))
    }
}

impl MatchingTool {
    fn line(&self) -> String {
        let (group, tool) = (&self.group, name(&self.name));
        // The description of `call_dynamic_tool_readonly` refers to this mark.
        let mark = if self.read_only { " (read-only)" } else { "" };
        let note = self.unavailable.as_ref();
        let note = note.map(|brief| format!(" (not available: {brief})")).unwrap_or_default();
        match self.summary.is_empty() {
            true => format!("{group} / {tool}{mark}{note}"),
            false => format!("{group} / {tool}{mark}{note}: {}", shorten(&self.summary, MAX_SUMMARY)),
        }
    }

    fn json(&self) -> Raw {
        let tool =
            json!({ "group": self.group.as_str(), "name": self.name, "unavailable": self.unavailable });
        raw::set(&tool.to_string().into(), "definition", &self.definition)
    }
}

impl ToolSearch {
    /// Creates the search of an instance that starts now.
    pub(crate) fn at_start() -> Arc<Self> {
        Arc::new(Self { wait_until: Some(Instant::now() + DISCOVERY_TIMEOUT), ..Self::default() })
    }

    /// Answers `search_dynamic_tools`.
    pub async fn search_dynamic_tools(&self, groups: &GroupManager, arguments: Option<&Raw>) -> Raw {
        let found = match SearchQuery::parse(arguments) {
            Ok(query) => self.search(groups, &query).await,
            Err(text) => Err(text),
        };
        match found {
            Ok(found) => {
                if let Some(group) = found.likely_group().and_then(|group| groups.get(group)) {
                    group.expect_call();
                }
                json!({ "content": [{ "type": "text", "text": found.text() }] }).to_string().into()
            }
            Err(text) => tool_errors::result(&text),
        }
    }

    /// Searches the tools of all known groups. Connects none.
    ///
    /// # Errors
    ///
    /// The text says which group does not exist, or why the tools cannot be searched.
    pub async fn search(&self, groups: &GroupManager, query: &SearchQuery) -> Result<FoundTools, String> {
        let only = query.group.as_ref().map(|name| lookup::group(groups, name)).transpose()?;
        let only = only.map(|group| group.name.clone());
        if let Some(until) = self.wait_until {
            // What is not known by then is named in the result.
            drop(timeout_at(until, groups.first_catalogs_read()).await);
        }
        let broken = BrokenGroups::of(groups);
        let (known, mut unknown) = known_and_unknown(groups, &broken);
        unknown.retain(|name| only.as_ref().is_none_or(|only| only == name));
        let index = self.index(known).await?;
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let broken_hits = index.groups.iter().filter(|group| group.catalog.is_none()).count();
        let only = only.as_ref().map(|only| index.groups.iter().position(|group| group.name == *only));
        let (searched, text) = (index.clone(), query.query.clone());
        let search = move || {
            let hits = match only {
                // The group is not known yet.
                Some(None) => Vec::new(),
                Some(Some(only)) => searched.index.search(&text, Some(only), limit),
                None => searched.index.search(&text, None, limit + broken_hits),
            };
            let best = hits.iter().find_map(|hit| searched.tool(hit));
            let how = best.map(|(group, tool, definition)| how_to_call(&group.name, tool, &definition));
            (hits, how)
        };
        let found = blocking::run_on(index.bytes(), search).await;
        let (hits, how_to_call) = found.map_err(|_| LISTS_TOOK_TOO_LONG.to_owned())?;
        let best = hits.first().map(|hit| &index.groups[hit.group].name);
        let tools = hits.iter().filter_map(|hit| index.tool(hit)).take(limit);
        let brief = |group: &GroupName| broken.brief(group).map(str::to_owned);
        Ok(FoundTools {
            query: query.query.clone(),
            warning: best.and_then(|best| broken.sentence(groups, best)),
            tools: tools
                .map(|(group, tool, definition)| MatchingTool {
                    group: group.name.clone(),
                    name: tool.name.clone(),
                    summary: tool.summary.clone(),
                    read_only: group.rules.relies_on(&tool.name, tool.read_only),
                    unavailable: brief(&group.name),
                    definition,
                })
                .collect(),
            how_to_call,
            not_searched: unknown.into_iter().map(|name| (brief(&name), name)).collect(),
        })
    }

    /// Returns the index of these groups. Builds it in the user's turn, if they have changed and it was not built
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Building it took or waited too long, or was aborted. The text is for the model.
    async fn index(&self, groups: Vec<IndexedGroup>) -> Result<Arc<GroupIndex>, String> {
        if let Some(index) = current(&self.index, &groups) {
            return Ok(index);
        }
        let slot = self.index.clone();
        let get = move || {
            current(&slot, &groups).unwrap_or_else(|| {
                let index = Arc::new(build(groups));
                *slot.lock() = Some(index.clone());
                index
            })
        };
        // It takes some 30 ms for a thousand tools, which no forwarded call should wait for.
        blocking::run_in_turn(get).await.map_err(|error| {
            tracing::error!(%error, "failed to index the tools");
            "The search is not available; get_dynamic_tools lists the tools of a group.".to_owned()
        })
    }
}

/// Returns the index in the slot if it is one of these groups.
fn current(slot: &Mutex<Option<Arc<GroupIndex>>>, groups: &[IndexedGroup]) -> Option<Arc<GroupIndex>> {
    let index = slot.lock().clone()?;
    let is_current = index.groups.len() == groups.len()
        && index.groups.iter().zip(groups).all(|(indexed, group)| indexed.is_same(group));
    is_current.then_some(index)
}

/// Returns the groups whose tools are known or that cannot be used, and the names of those whose tools are not known,
/// both in config order.
fn known_and_unknown(groups: &GroupManager, broken: &BrokenGroups) -> (Vec<IndexedGroup>, Vec<GroupName>) {
    let config = groups.config();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for group in groups.all() {
        let Some(server) = config.server(&group.name) else { continue };
        // Without a valid entry the group is known by its name alone.
        let server = server.as_ref().ok();
        if server.is_some_and(|server| !server.common.features.tools) {
            continue;
        }
        let snapshot = group.snapshot();
        let catalog = snapshot.catalog.clone();
        if catalog.is_none() {
            unknown.push(group.name.clone());
            if broken.brief(&group.name).is_none() {
                continue;
            }
        }
        let info = catalog.as_ref().map(|catalog| &catalog.info);
        let instructions = info.and_then(|info| info.instructions.as_deref());
        let instructions = instructions.map(|text| shorten(text, MAX_INSTRUCTIONS));
        let title = info.and_then(|info| info.title.clone());
        let description = [server.and_then(|server| server.description.clone()), title, instructions];
        let description = description.into_iter().flatten().collect::<Vec<_>>().join("\n");
        let (rules, refused) = (snapshot.rules.clone(), snapshot.refused());
        known.push(IndexedGroup { name: group.name.clone(), description, catalog, rules, refused });
    }
    (known, unknown)
}

fn build(groups: Vec<IndexedGroup>) -> GroupIndex {
    let places: Vec<Vec<usize>> = groups.iter().map(IndexedGroup::places).collect();
    let tools_of = |(group, places): (&IndexedGroup, &Vec<usize>)| -> Vec<(String, Raw)> {
        let tools = places.iter().filter_map(|place| group.tool(*place));
        tools.map(|(tool, definition)| (tool.name.clone(), definition)).collect()
    };
    let tools: Vec<_> = groups.iter().zip(&places).map(tools_of).collect();
    let documents = groups.iter().zip(&tools).map(|(group, tools)| SearchGroup {
        name: group.name.as_str(),
        description: group.description.clone(),
        tools: match group.catalog {
            Some(_) => tools.iter().map(|(name, definition)| (name.as_str(), &definition[..])).collect(),
            // Without a tool, nothing would be found.
            None => vec![(group.name.as_str(), b"{}")],
        },
    });
    let index = SearchIndex::new(&documents.collect::<Vec<_>>());
    GroupIndex { groups, places, index }
}

/// Returns what a model needs to call the tool: its signature, or how to get it if the cache has lost the definition.
fn how_to_call(group: &GroupName, tool: &Tool, definition: &Raw) -> String {
    match raw::get(definition, "name") {
        Some(_) => {
            // Named types follow on lines of their own.
            let signature = shorten(&signature(definition).call, MAX_SIGNATURE);
            format!("  {}", signature.replace('\n', "\n  "))
        }
        None => {
            let arguments = json!({ "group": group.as_str(), "tools": [tool.name] });
            format!("  get_dynamic_tools {}", visible(&arguments.to_string()))
        }
    }
}
