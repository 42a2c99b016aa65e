//! `search_dynamic_tools`: the tools that do what was described, of every group that is known, connected or not.
//!
//! Nothing is started for it. The index is made when somebody searches, and again when a catalog, a rule or a
//! description is another than it was made of.

use super::arguments::Wish;
use super::{errors, lookup};
use crate::config::GroupName;
use crate::groups::GroupManager;
use crate::rules::Rules;
use crate::schema::signature::signature;
use crate::search::{SearchGroup, SearchIndex};
use crate::upstream::catalog::{Catalog, Tool, shorten};
use crate::wire::{Raw, raw};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;

/// Hits told of, if nobody says how many, and at most.
const LIMIT: usize = 5;
const MOST: usize = 20;
/// A hit's text: enough to choose by.
const LINE: usize = 100;
/// The best hit's signature is told up to this length, so that an answer stays short.
const SIGNATURE: usize = 900;
/// Of a server's instructions, what is taken as what it is about.
const ABOUT: usize = 600;

/// The index that searches share. It belongs to a client's session.
#[derive(Default)]
pub struct Finder {
    /// Held for as long as it takes to read or replace it.
    made: Mutex<Option<Arc<Made>>>,
}

/// An index and what it was made of.
struct Made {
    of: Vec<Known>,
    index: SearchIndex,
}

/// A group whose catalog is known.
struct Known {
    group: GroupName,
    about: String,
    catalog: Arc<Catalog>,
    rules: Arc<Rules>,
}

impl Known {
    fn is(&self, other: &Self) -> bool {
        self.group == other.group
            && self.about == other.about
            && Arc::ptr_eq(&self.catalog, &other.catalog)
            && Arc::ptr_eq(&self.rules, &other.rules)
    }

    /// The tools that may be found, with their definitions; of one whose definition the cache has lost, what is left.
    fn tools(&self) -> Vec<(&Tool, Raw)> {
        let allowed = |tool: &Tool| self.rules.allows(&tool.name);
        match self.catalog.definitions() {
            Some(all) => {
                all.filter(|(tool, _)| allowed(tool)).map(|(tool, raw)| (tool, raw.clone())).collect()
            }
            None => {
                let stub = |tool: &Tool| json!({ "description": tool.summary }).to_string().into();
                let tools = self.catalog.tools.iter().filter(|tool| allowed(tool));
                tools.map(|tool| (tool, stub(tool))).collect()
            }
        }
    }
}

impl Finder {
    /// Answers `search_dynamic_tools`.
    pub async fn search_dynamic_tools(&self, groups: &GroupManager, arguments: Option<&Raw>) -> Raw {
        let told = match Wish::read(arguments) {
            Ok(wish) => self.tell(groups, &wish).await,
            Err(problem) => Err(problem),
        };
        match told {
            Ok(text) => json!({ "content": [{ "type": "text", "text": text }] }).to_string().into(),
            Err(problem) => errors::tool_error(&problem),
        }
    }

    /// `Err` is text for the model.
    async fn tell(&self, groups: &GroupManager, wish: &Wish) -> Result<String, String> {
        let only = wish.group.as_ref().map(|name| lookup::named(groups, name)).transpose()?;
        let only = only.map(|group| group.name);
        let (known, mut unknown) = survey(groups);
        unknown.retain(|name| only.as_ref().is_none_or(|only| only == name));
        let made = self.made(known).await?;
        let limit = wish.limit.unwrap_or(LIMIT).clamp(1, MOST);
        // A group that is not known yet has nothing to be found.
        let place = only.as_ref().map(|only| made.of.iter().position(|known| known.group == *only));
        let hits = match place {
            Some(None) => Vec::new(),
            Some(Some(place)) => made.index.search(&wish.query, Some(place), limit),
            None => made.index.search(&wish.query, None, limit),
        };
        let mut lines = Vec::new();
        for (rank, hit) in hits.iter().enumerate() {
            let known = &made.of[hit.group];
            let tools = known.tools();
            let Some((tool, definition)) = tools.get(hit.tool) else { continue };
            lines.push(line(&known.group, tool));
            if rank == 0 {
                lines.push(callable(&known.group, tool, definition));
            }
        }
        if lines.is_empty() {
            lines.push(format!(
                "Nothing that is known fits {:?}. Try other words, or see what a group has with get_dynamic_tools.",
                shorten(&wish.query, LINE)
            ));
        }
        if !unknown.is_empty() {
            let names = unknown.iter().map(GroupName::as_str).collect::<Vec<_>>().join(", ");
            lines.push(format!("Not yet known: {names}: get_dynamic_tools reads them."));
        }
        Ok(lines.join("\n"))
    }

    /// The index of what is known now.
    async fn made(&self, known: Vec<Known>) -> Result<Arc<Made>, String> {
        let made = self.made.lock().clone();
        if let Some(made) = made
            && made.of.len() == known.len()
            && made.of.iter().zip(&known).all(|(a, b)| a.is(b))
        {
            return Ok(made);
        }
        // It takes some 30 ms for a thousand tools, which no call that is passed on should wait for.
        let made = tokio::task::spawn_blocking(move || Arc::new(make(known)));
        let made = made.await.map_err(|error| {
            tracing::error!(%error, "the tools could not be indexed");
            "The tools could not be indexed; get_dynamic_tools lists those of a group.".to_owned()
        })?;
        *self.made.lock() = Some(made.clone());
        Ok(made)
    }
}

/// The groups in config order: those whose tools are known, and the names of those whose are not.
fn survey(groups: &GroupManager) -> (Vec<Known>, Vec<GroupName>) {
    let config = groups.config();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for group in groups.all() {
        let Some(Ok(server)) = config.server(&group.name) else { continue };
        if !server.features.tools {
            continue;
        }
        let snapshot = group.snapshot();
        let Some(catalog) = snapshot.catalog.clone() else {
            unknown.push(group.name.clone());
            continue;
        };
        let introduction = &catalog.introduction;
        let instructions = introduction.instructions.as_deref().map(|text| shorten(text, ABOUT));
        let about = [server.description.clone(), introduction.title.clone(), instructions];
        let about = about.into_iter().flatten().collect::<Vec<_>>().join("\n");
        known.push(Known { group: group.name.clone(), about, catalog, rules: snapshot.rules.clone() });
    }
    (known, unknown)
}

fn make(of: Vec<Known>) -> Made {
    let tools: Vec<Vec<(&Tool, Raw)>> = of.iter().map(Known::tools).collect();
    let groups = of.iter().zip(&tools).map(|(known, tools)| SearchGroup {
        name: known.group.as_str(),
        description: known.about.clone(),
        tools: tools.iter().map(|(tool, definition)| (tool.name.as_str(), &definition[..])).collect(),
    });
    let index = SearchIndex::new(&groups.collect::<Vec<_>>());
    Made { of, index }
}

fn line(group: &GroupName, tool: &Tool) -> String {
    match tool.summary.is_empty() {
        true => format!("{group} / {}", tool.name),
        false => format!("{group} / {}: {}", tool.name, shorten(&tool.summary, LINE)),
    }
}

/// What it takes to call a tool at once: its signature, or how to get it where the cache has lost the definition.
fn callable(group: &GroupName, tool: &Tool, definition: &Raw) -> String {
    match raw::get(definition, "name") {
        Some(_) => {
            // Named types follow on lines of their own.
            let signature = shorten(&signature(definition).call, SIGNATURE);
            format!("  {}", signature.replace('\n', "\n  "))
        }
        None => format!("  get_dynamic_tools {}", json!({ "group": group.as_str(), "tools": [tool.name] })),
    }
}
