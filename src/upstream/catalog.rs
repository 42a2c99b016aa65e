//! What is known of an upstream: its server info, its tools and its other lists, as they were last read.
//!
//! Definitions are the server's own bytes. Those of a cached catalog stay in a file until they are needed.

use super::overrides;
pub use super::server_info::ServerInfo;
use crate::config::tool_rules::{ToolOverride, ToolOverrides};
use crate::files::MAX_CACHED_BYTES;
use crate::pins::definition::DefinitionDigest;
use crate::private_files::read_private;
use crate::protocol::meta;
use crate::text::summary;
use crate::wire::{Raw, raw};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// What is known of an upstream.
#[derive(Debug)]
pub struct Catalog {
    /// The answer to `initialize` or `server/discover`.
    pub info: ServerInfo,
    /// Its tools, in its order.
    pub tools: Vec<Tool>,
    /// The server's own bytes, or the file that has them.
    body: CatalogBody,
    /// When and how the catalog was read.
    pub source: CatalogSource,
    /// The capabilities of the clients when the connection was made, if it was read from the server.
    pub offered: Option<Raw>,
    /// How long it took to connect before the catalog was read.
    pub connect_time: Option<Duration>,
    /// Hashes of the other lists.
    pub hashes: ListHashes,
}

/// Where the server's own bytes are.
#[derive(Debug)]
enum CatalogBody {
    /// In memory.
    Loaded(Definitions),
    /// In a file of the cache, which is read on demand.
    Cached { file: PathBuf, loaded: OnceLock<Option<Definitions>> },
    /// In another catalog, whose definitions are altered on demand.
    Overridden {
        /// The catalog as the server has it.
        original: Arc<Catalog>,
        /// The place of each tool in it, and what the config overrides.
        tools: Vec<(usize, ToolOverride)>,
        definitions: OnceLock<Option<Vec<Raw>>>,
    },
}

/// The server's own bytes.
#[derive(Debug, PartialEq, Eq)]
struct Definitions {
    /// The definitions of the tools, in the order of `Catalog::tools`.
    tools: Vec<Raw>,
    lists: OtherLists,
}

/// When and how a catalog was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogSource {
    /// In this process, from the server: a tool that it lacks does not exist.
    Live(Instant),
    /// By an earlier process: it may answer requests but never refuse them.
    Cached(SystemTime),
    /// By an earlier process that offered the server other client capabilities: it answers like a cached one, until the
    /// server's own is read.
    Borrowed(SystemTime),
}

/// What the program itself uses of a tool's definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// The server's own name for it.
    pub name: String,
    /// The first sentence of its description, on one line; empty if it has none.
    pub summary: String,
    /// `annotations.readOnlyHint`.
    pub read_only: bool,
    /// `annotations.idempotentHint`.
    pub idempotent: bool,
    /// Whether `execution.taskSupport` is `required`: the tool runs only as a task.
    #[serde(default, rename = "task")]
    pub requires_task: bool,
    /// Identifies the whole definition.
    pub digest: DefinitionDigest,
    /// Whether the server wants the user to confirm every call: `anthropic/requiresUserInteraction` in `_meta`.
    #[serde(default, rename = "user")]
    pub requires_user: bool,
    /// Whether only the app of the tool may call it, and no model: `_meta.ui.visibility` (MCP Apps).
    #[serde(default, rename = "app_only")]
    pub app_only: bool,
    /// Whether apps may call it: it has `_meta.ui`, which does not say otherwise.
    #[serde(default, rename = "app")]
    pub for_apps: bool,
}

impl Catalog {
    /// A catalog that was just read from the server.
    pub fn new(info: ServerInfo, tools: Vec<(Tool, Raw)>, lists: OtherLists) -> Self {
        let (tools, definitions) = tools.into_iter().unzip();
        let hashes = lists.hashes();
        let body = CatalogBody::Loaded(Definitions { tools: definitions, lists });
        let source = CatalogSource::Live(Instant::now());
        Self { info, tools, body, source, offered: None, connect_time: None, hashes }
    }

    /// A catalog from the cache. `file` has the server's own bytes, as `body` wrote them.
    pub fn cached(info: ServerInfo, tools: Vec<Tool>, file: PathBuf, source: CatalogSource) -> Self {
        let body = CatalogBody::Cached { file, loaded: OnceLock::new() };
        let hashes = ListHashes::default();
        Self { info, tools, body, source, offered: None, connect_time: None, hashes }
    }

    /// Returns the catalog as clients see it: with the overrides of the config. A tool whose name is given to another one is
    /// left out.
    pub fn overridden(self: &Arc<Self>, overrides: &ToolOverrides) -> Arc<Self> {
        if overrides.is_empty() {
            return self.clone();
        }
        let (mut tools, mut places) = (Vec::new(), Vec::new());
        for (place, tool) in self.tools.iter().enumerate() {
            let Some(name) = overrides.shown_name(&tool.name) else { continue };
            let of_tool = overrides.of(&tool.name).cloned().unwrap_or_default();
            let description = of_tool.description.as_deref().map(summary);
            let summary = description.unwrap_or_else(|| tool.summary.clone());
            tools.push(Tool { name: name.to_owned(), summary, ..tool.clone() });
            places.push((place, of_tool));
        }
        let body =
            CatalogBody::Overridden { original: self.clone(), tools: places, definitions: OnceLock::new() };
        Arc::new(Self {
            info: self.info.clone(),
            tools,
            body,
            source: self.source,
            offered: self.offered.clone(),
            connect_time: self.connect_time,
            hashes: self.hashes,
        })
    }

    /// Returns the catalog as the server has it.
    pub fn original(self: &Arc<Self>) -> &Arc<Self> {
        match &self.body {
            CatalogBody::Overridden { original, .. } => original,
            CatalogBody::Loaded(_) | CatalogBody::Cached { .. } => self,
        }
    }

    /// Returns the definition of a tool as the server has it, by its place in `tools`; `None` if the cache has lost it.
    pub fn original_definition(&self, index: usize) -> Option<&Raw> {
        match &self.body {
            CatalogBody::Overridden { original, tools, .. } => original.definition(tools.get(index)?.0),
            CatalogBody::Loaded(_) | CatalogBody::Cached { .. } => self.definition(index),
        }
    }

    /// Returns the tool of exactly this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns the tools with their verbatim definitions; `None` if the cache has lost them.
    pub fn definitions(&self) -> Option<impl Iterator<Item = (&Tool, &Raw)>> {
        Some(self.tools.iter().zip(self.loaded_tools()?))
    }

    /// Returns the verbatim definition of a tool, by its place in `tools`; `None` if the cache has lost it.
    pub fn definition(&self, index: usize) -> Option<&Raw> {
        self.loaded_tools()?.get(index)
    }

    /// Returns the resources, templates and prompts; `None` if the cache has lost them.
    pub fn lists(&self) -> Option<&OtherLists> {
        Some(&self.loaded()?.lists)
    }

    /// Returns the server's own bytes as one JSON object, for the cache; `None` if the cache has lost them.
    pub fn body(&self) -> Option<String> {
        let body = self.loaded()?;
        let array = |raws: &mut dyn Iterator<Item = &Raw>| {
            raws.map(|raw| String::from_utf8_lossy(raw)).collect::<Vec<_>>().join(",")
        };
        let listed = |list: &[ListEntry]| array(&mut list.iter().map(|entry| &entry.definition));
        let OtherLists { resources, templates, prompts, skills } = &body.lists;
        Some(format!(
            r#"{{"tools":[{}],"resources":[{}],"resourceTemplates":[{}],"prompts":[{}],"skills":[{}]}}"#,
            array(&mut body.tools.iter()),
            listed(resources),
            listed(templates),
            listed(prompts),
            listed(skills)
        ))
    }

    fn loaded_tools(&self) -> Option<&[Raw]> {
        let CatalogBody::Overridden { original, tools, definitions } = &self.body else {
            return Some(&self.loaded()?.tools);
        };
        let alter = || {
            let altered = tools.iter().map(|(place, tool)| {
                let definition = original.definition(*place)?;
                Some(overrides::apply(definition, tool))
            });
            altered.collect()
        };
        definitions.get_or_init(alter).as_deref()
    }

    fn loaded(&self) -> Option<&Definitions> {
        match &self.body {
            CatalogBody::Overridden { original, .. } => original.loaded(),
            CatalogBody::Loaded(body) => Some(body),
            CatalogBody::Cached { file, loaded } => {
                loaded.get_or_init(|| read_body(file, self.tools.len())).as_ref()
            }
        }
    }

    /// Returns how long ago the catalog was read.
    pub fn age(&self) -> Duration {
        match self.source {
            CatalogSource::Live(at) => at.elapsed(),
            CatalogSource::Cached(at) | CatalogSource::Borrowed(at) => at.elapsed().unwrap_or_default(),
        }
    }

    /// Returns whether both have the same content, whenever they were read. A cached catalog is compared by what is
    /// known without its file.
    pub fn is_same(&self, other: &Self) -> bool {
        self.info == other.info
            && self.tools == other.tools
            && match (&self.body, &other.body) {
                (CatalogBody::Loaded(a), CatalogBody::Loaded(b)) => a == b,
                _ => true,
            }
    }
}

/// Reads a file of the cache; `None` if it cannot be read or does not have this number of tools.
fn read_body(file: &Path, tools: usize) -> Option<Definitions> {
    let text = read_private(file, MAX_CACHED_BYTES);
    let text = text.inspect_err(|error| tracing::debug!(%error, "failed to read a cached catalog"));
    let text = Raw::from(text.ok()?);
    let own = |list: Vec<Raw>| list.iter().map(|raw| Raw::copy_from_slice(raw)).collect();
    let body = Definitions {
        tools: own(raw::elements(&text, "tools")?),
        lists: OtherLists {
            resources: read_entries(&text, "resources", "uri"),
            templates: read_entries(&text, "resourceTemplates", "uriTemplate"),
            prompts: read_entries(&text, "prompts", "name"),
            skills: read_entries(&text, "skills", "uri"),
        },
    };
    (body.tools.len() == tools).then_some(body)
}

/// The lists of an upstream beside its tools, as they were last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherLists {
    /// `resources/list`.
    pub resources: Vec<ListEntry>,
    /// `resources/templates/list`.
    pub templates: Vec<ListEntry>,
    /// `prompts/list`.
    pub prompts: Vec<ListEntry>,
    /// `skills/list`.
    pub skills: Vec<ListEntry>,
}

/// Hashes of the other lists, to notice changes without reading a cached file. 0 stands for an empty list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListHashes {
    /// Of the resources and the templates.
    pub resources: u64,
    /// Of the prompts.
    pub prompts: u64,
}

impl OtherLists {
    fn hashes(&self) -> ListHashes {
        let hash = |lists: &[&Vec<ListEntry>]| {
            if lists.iter().all(|list| list.is_empty()) {
                return 0;
            }
            let mut hasher = DefaultHasher::new();
            for list in lists {
                list.iter().map(|entry| &entry.definition[..]).collect::<Vec<_>>().hash(&mut hasher);
            }
            hasher.finish()
        };
        ListHashes { resources: hash(&[&self.resources, &self.templates]), prompts: hash(&[&self.prompts]) }
    }
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry {
    /// Its `uri`, `uriTemplate` or `name`.
    pub key: String,
    /// The entry itself, verbatim.
    pub definition: Raw,
}

/// Checks that a result is a page of the list that `method` reads.
///
/// # Errors
///
/// Returns which member is missing.
pub fn check_page(result: &Raw, method: &str) -> Result<(), String> {
    let member = match method {
        "resources/templates/list" => "resourceTemplates",
        method => method.split('/').next().unwrap_or_default(),
    };
    match raw::elements(result, member) {
        Some(_) => Ok(()),
        None => Err(format!("`{member}` is not a list")),
    }
}

/// Reads the tools of one page of `tools/list`, with their definitions. Tools without a name are left out.
pub fn read_tools(page: &Raw) -> Vec<(Tool, Raw)> {
    read_elements(page, "tools", read_tool)
}

/// Reads the entries of one page of another list. Entries without `key` are left out.
pub fn read_entries(page: &Raw, member: &str, key: &str) -> Vec<ListEntry> {
    read_elements(page, member, |entry| {
        let definition = Raw::copy_from_slice(entry);
        Some(ListEntry { key: raw::get_str(&definition, key)?, definition })
    })
}

fn read_elements<T>(page: &Raw, member: &str, read: impl Fn(&[u8]) -> Option<T>) -> Vec<T> {
    let elements = raw::elements(page, member).unwrap_or_default();
    let all = elements.len();
    let read: Vec<_> = elements.iter().filter_map(|element| read(element)).collect();
    if read.len() < all {
        tracing::warn!("ignored {} of the server's {member}, which have no name", all - read.len());
    }
    read
}

/// Reads a definition. It is copied, so that the page need not be kept.
fn read_tool(definition: &[u8]) -> Option<(Tool, Raw)> {
    let definition = Raw::copy_from_slice(definition);
    let name = raw::get_str(&definition, "name")?;
    let summary = raw::get_str(&definition, "description").map(|d| summary(&d)).unwrap_or_default();
    let annotations = raw::get(&definition, "annotations");
    let hint =
        |key| annotations.as_ref().and_then(|a| raw::get(a, key)).is_some_and(|hint| &hint[..] == b"true");
    let meta = raw::get(&definition, "_meta");
    let ui = meta.as_ref().and_then(|meta| raw::get(meta, "ui"));
    let requires_user = meta.and_then(|meta| raw::get(&meta, meta::REQUIRES_USER_INTERACTION));
    let visibility = ui.as_ref().and_then(|ui| raw::get(ui, "visibility"));
    let visibility: Option<Vec<String>> = visibility.and_then(|list| serde_json::from_slice(&list).ok());
    let is_visible_to = |whom: &str| {
        visibility.as_ref().is_none_or(|visibility| visibility.iter().any(|known| known == whom))
    };
    let support = raw::get(&definition, "execution").and_then(|how| raw::get_str(&how, "taskSupport"));
    let tool = Tool {
        name,
        summary,
        read_only: hint("readOnlyHint"),
        idempotent: hint("idempotentHint"),
        requires_task: support.as_deref() == Some("required"),
        digest: DefinitionDigest::of(&definition),
        requires_user: requires_user.is_some_and(|value| &value[..] == b"true"),
        app_only: !is_visible_to("model"),
        for_apps: ui.is_some() && is_visible_to("app"),
    };
    Some((tool, definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn definitions_are_kept_verbatim_and_nameless_tools_are_left_out() {
        let definition = r#"{"name":"a","inputSchema":{"$defs":{"x":1.0}},"zz":1e400,"annotations":{"readOnlyHint":true}}"#;
        let tools = read_tools(&raw(&format!(r#"{{"tools":[{definition},{{}},3]}}"#)));
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0].1, definition);
        assert!(tools[0].0.read_only);
    }

    #[test]
    fn a_page_without_its_list_is_invalid() {
        assert!(check_page(&raw(r#"{"tools":[]}"#), "tools/list").is_ok());
        assert!(check_page(&raw(r#"{"resourceTemplates":[]}"#), "resources/templates/list").is_ok());
        assert!(check_page(&raw("{}"), "tools/list").is_err());
    }

    #[test]
    fn a_server_that_declares_nothing_may_have_anything() {
        let may_have = |capabilities: Option<&str>| {
            ServerInfo { capabilities: capabilities.map(str::to_owned), ..ServerInfo::default() }
                .may_have("tools")
        };
        assert!(may_have(None) && may_have(Some("{}")) && may_have(Some(r#"{"tools":{}}"#)));
        assert!(!may_have(Some(r#"{"prompts":{}}"#)));
    }
}
