//! What an upstream said of itself: its tools and its introduction, as last read.

use crate::wire::{Raw, raw};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Everything known of an upstream without asking it again.
#[derive(Debug)]
pub struct Catalog {
    pub introduction: Introduction,
    pub tools: Vec<Tool>,
    definitions: Definitions,
    pub read: Read,
}

/// The tools' definitions, the upstream's own bytes, in the order of the tools.
#[derive(Debug)]
enum Definitions {
    Here(Vec<Raw>),
    /// In a file of the cache, which is read when somebody asks for them.
    Cached {
        file: PathBuf,
        loaded: OnceLock<Option<Vec<Raw>>>,
    },
}

/// When and whence a catalog was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// From the upstream, in this process: what it does not have does not exist.
    Here(Instant),
    /// From the upstream, by an earlier process: it may answer, and never refuses.
    Cached(SystemTime),
}

/// The upstream's answer to `initialize`, read leniently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    pub protocol_version: String,
    /// JSON text, as the upstream wrote it.
    pub capabilities: Option<String>,
    /// `serverInfo.title`, else its `name`.
    pub title: Option<String>,
    pub version: Option<String>,
    pub instructions: Option<String>,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    /// The first sentence of its description, on one line; may be empty.
    pub summary: String,
    /// `annotations.readOnlyHint`.
    pub read_only: bool,
    /// `annotations.idempotentHint`.
    pub idempotent: bool,
}

impl Catalog {
    /// As the upstream just told it.
    pub fn new(introduction: Introduction, tools: Vec<(Tool, Raw)>) -> Self {
        let (tools, definitions) = tools.into_iter().unzip();
        Self {
            introduction,
            tools,
            definitions: Definitions::Here(definitions),
            read: Read::Here(Instant::now()),
        }
    }

    /// As an earlier process was told it; the definitions are a JSON array in `file`.
    pub fn cached(introduction: Introduction, tools: Vec<Tool>, file: PathBuf, at: SystemTime) -> Self {
        let definitions = Definitions::Cached { file, loaded: OnceLock::new() };
        Self { introduction, tools, definitions, read: Read::Cached(at) }
    }

    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The tools with their definitions, verbatim; `None` if the cache has lost them.
    pub fn definitions(&self) -> Option<impl Iterator<Item = (&Tool, &Raw)>> {
        let definitions = match &self.definitions {
            Definitions::Here(definitions) => definitions,
            Definitions::Cached { file, loaded } => {
                let loaded = loaded.get_or_init(|| read_definitions(file, self.tools.len()));
                loaded.as_ref()?
            }
        };
        Some(self.tools.iter().zip(definitions))
    }

    /// How long ago it was read.
    pub fn age(&self) -> Duration {
        match self.read {
            Read::Here(at) => at.elapsed(),
            Read::Cached(at) => at.elapsed().unwrap_or_default(),
        }
    }

    /// Whether both say the same, whenever they were read. A cached one is compared by what it knows without its file.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.introduction == other.introduction
            && self.tools == other.tools
            && match (&self.definitions, &other.definitions) {
                (Definitions::Here(a), Definitions::Here(b)) => a == b,
                _ => true,
            }
    }
}

/// The definitions kept in the cache; nothing where the file does not fit its index.
fn read_definitions(file: &Path, tools: usize) -> Option<Vec<Raw>> {
    let definitions: Result<Vec<Box<RawValue>>, _> = std::fs::read(file)
        .map_err(|e| e.to_string())
        .and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()));
    match definitions {
        Ok(all) if all.len() == tools => {
            Some(all.iter().map(|raw| Raw::copy_from_slice(raw.get().as_bytes())).collect())
        }
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(file = %file.display(), error, "cached definitions cannot be used");
            None
        }
    }
}

impl Introduction {
    pub fn read(result: &Raw) -> Self {
        let info = raw::get(result, "serverInfo");
        let text =
            |key| info.as_ref().and_then(|info| raw::get_str(info, key)).filter(|text| !text.is_empty());
        Self {
            protocol_version: raw::get_str(result, "protocolVersion").unwrap_or_default(),
            capabilities: raw::get(result, "capabilities")
                .map(|raw| String::from_utf8_lossy(&raw).into_owned()),
            title: text("title").or_else(|| text("name")),
            version: text("version"),
            instructions: raw::get_str(result, "instructions").filter(|text| !text.trim().is_empty()),
        }
    }

    /// Whether the upstream offers `capability`. One that declares none at all is asked anyway: it may be sloppy,
    /// and a refusal costs one round trip.
    pub fn offers(&self, capability: &str) -> bool {
        let none =
            || self.declared().and_then(|declared| raw::entries(&declared)).is_none_or(|all| all.is_empty());
        self.declares(capability) || none()
    }

    /// Whether the upstream says that it has `capability`.
    pub fn declares(&self, capability: &str) -> bool {
        self.declared().is_some_and(|declared| raw::get(&declared, capability).is_some())
    }

    fn declared(&self) -> Option<Raw> {
        Some(Raw::copy_from_slice(self.capabilities.as_ref()?.as_bytes()))
    }
}

/// One page of `tools/list`.
pub struct Page {
    /// The tools with their definitions. Those without a name are left out.
    pub tools: Vec<(Tool, Raw)>,
    /// The cursor of the next page.
    pub next: Option<Raw>,
}

/// Reads the result of a `tools/list`.
pub fn read_page(result: &Raw) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct Listed<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
    }
    let page: Listed<'_> = serde_json::from_slice(result).map_err(|e| format!("`tools` is no list: {e}"))?;
    let tools = page.tools.iter().filter_map(|definition| {
        let tool = read_tool(definition.get().as_bytes());
        if tool.is_none() {
            tracing::warn!("left out a tool without a name");
        }
        tool
    });
    let next = raw::get(result, "nextCursor").filter(|cursor| &cursor[..] != b"null");
    Ok(Page { tools: tools.collect(), next })
}

/// A definition, copied so that the page it stands in need not be kept.
fn read_tool(definition: &[u8]) -> Option<(Tool, Raw)> {
    let definition = Raw::copy_from_slice(definition);
    let name = raw::get_str(&definition, "name")?;
    let summary = raw::get_str(&definition, "description").map(|d| summary(&d)).unwrap_or_default();
    let annotations = raw::get(&definition, "annotations");
    let hint =
        |key| annotations.as_ref().and_then(|a| raw::get(a, key)).is_some_and(|hint| &hint[..] == b"true");
    let tool = Tool { name, summary, read_only: hint("readOnlyHint"), idempotent: hint("idempotentHint") };
    Some((tool, definition))
}

/// The first sentence of a text, white space folded.
pub fn summary(text: &str) -> String {
    let first = text.trim().split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line,
    }
}

/// `text` in at most `max` characters, cut at a word.
pub fn shorten(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let cut: String = text.chars().take(max.saturating_sub(1)).collect();
    let whole_words = cut.rfind(' ').filter(|&end| end > max / 2).map_or(&cut[..], |end| &cut[..end]);
    format!("{}…", whole_words.trim_end_matches([' ', ',', ';', ':', '-', '(']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn definitions_are_kept_verbatim_and_nameless_ones_left_out() {
        let definition = r#"{"name":"a","inputSchema":{"$defs":{"x":1.0}},"zz":1e400,"annotations":{"readOnlyHint":true}}"#;
        let page = read_page(&raw(&format!(r#"{{"tools":[{definition},{{}},3],"nextCursor":""}}"#))).unwrap();
        let (tools, cursor) = (page.tools, page.next);
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0].1, definition);
        assert!(tools[0].0.read_only);
        assert_eq!(cursor, Some(raw("\"\"")), "an empty cursor is a cursor");
    }

    #[test]
    fn an_end_is_no_cursor_or_null() {
        assert_eq!(read_page(&raw(r#"{"tools":[],"nextCursor":null}"#)).unwrap().next, None);
        assert_eq!(read_page(&raw(r#"{"tools":[]}"#)).unwrap().next, None);
        assert!(read_page(&raw("{}")).is_err());
    }

    #[test]
    fn a_summary_is_the_first_sentence_on_one_line() {
        assert_eq!(summary("Reads a file.\n\nMore about it."), "Reads a file.");
        assert_eq!(summary("  Reads v1.5\n  files. Then stops."), "Reads v1.5 files.");
        assert_eq!(summary(""), "");
    }

    #[test]
    fn shortens_at_a_word() {
        assert_eq!(shorten("read a file from disk", 14), "read a file…");
        assert_eq!(shorten("éééé", 4), "éééé");
        assert_eq!(shorten("éééééééé", 4), "ééé…");
    }

    #[test]
    fn who_declares_nothing_is_asked_all_the_same() {
        let offers = |capabilities: Option<&str>| {
            Introduction { capabilities: capabilities.map(str::to_owned), ..Introduction::default() }
                .offers("tools")
        };
        assert!(offers(None) && offers(Some("{}")) && offers(Some(r#"{"tools":{}}"#)));
        assert!(!offers(Some(r#"{"prompts":{}}"#)));
    }
}
