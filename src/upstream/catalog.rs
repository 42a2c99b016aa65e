//! What an upstream said of itself: its tools and its introduction, as last read.

use crate::protocol::Era;
use crate::wire::{Raw, raw};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Everything known of an upstream without asking it again.
#[derive(Debug)]
pub struct Catalog {
    pub introduction: Introduction,
    pub tools: Vec<Tool>,
    bodies: Bodies,
    pub read: Read,
    /// How long it took to connect, when that was done for it.
    pub took: Option<Duration>,
    pub marks: Marks,
}

/// The upstream's own bytes.
#[derive(Debug)]
enum Bodies {
    Here(Body),
    /// In a file of the cache, which is read when somebody asks for them.
    Cached {
        file: PathBuf,
        loaded: OnceLock<Option<Body>>,
    },
}

#[derive(Debug, PartialEq, Eq)]
struct Body {
    /// The tools' definitions, in the order of the tools.
    definitions: Vec<Raw>,
    lists: Lists,
}

/// When and whence a catalog was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// From the upstream, in this process: what it does not have does not exist.
    Here(Instant),
    /// From the upstream, by an earlier process: it may answer, and never refuses.
    Cached(SystemTime),
}

/// The upstream's answer to `initialize` or `server/discover`, read leniently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// How the upstream was spoken to, whichever revision it names.
    #[serde(default)]
    pub era: Era,
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
    /// `execution.taskSupport` is `required`: it runs as a task or not at all.
    #[serde(default)]
    pub task: bool,
}

impl Catalog {
    /// As the upstream just told it.
    pub fn new(introduction: Introduction, tools: Vec<(Tool, Raw)>, lists: Lists) -> Self {
        let (tools, definitions) = tools.into_iter().unzip();
        let marks = lists.marks();
        let bodies = Bodies::Here(Body { definitions, lists });
        Self { introduction, tools, bodies, read: Read::Here(Instant::now()), took: None, marks }
    }

    /// As an earlier process was told it; the rest is in `file`, as `body` wrote it.
    pub fn cached(introduction: Introduction, tools: Vec<Tool>, file: PathBuf, at: SystemTime) -> Self {
        let bodies = Bodies::Cached { file, loaded: OnceLock::new() };
        Self { introduction, tools, bodies, read: Read::Cached(at), took: None, marks: Marks::default() }
    }

    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The tools with their definitions, verbatim; `None` if the cache has lost them.
    pub fn definitions(&self) -> Option<impl Iterator<Item = (&Tool, &Raw)>> {
        Some(self.tools.iter().zip(&self.loaded()?.definitions))
    }

    /// Resources, templates and prompts; `None` if the cache has lost them.
    pub fn lists(&self) -> Option<&Lists> {
        Some(&self.loaded()?.lists)
    }

    /// All of the upstream's own bytes as one JSON object, for the cache.
    pub fn body(&self) -> Option<String> {
        let body = self.loaded()?;
        let array = |raws: &mut dyn Iterator<Item = &Raw>| {
            raws.map(|raw| String::from_utf8_lossy(raw)).collect::<Vec<_>>().join(",")
        };
        let listed = |list: &[Listed]| array(&mut list.iter().map(|listed| &listed.entry));
        let Lists { resources, templates, prompts } = &body.lists;
        Some(format!(
            r#"{{"tools":[{}],"resources":[{}],"resourceTemplates":[{}],"prompts":[{}]}}"#,
            array(&mut body.definitions.iter()),
            listed(resources),
            listed(templates),
            listed(prompts)
        ))
    }

    fn loaded(&self) -> Option<&Body> {
        match &self.bodies {
            Bodies::Here(body) => Some(body),
            Bodies::Cached { file, loaded } => {
                loaded.get_or_init(|| read_body(file, self.tools.len())).as_ref()
            }
        }
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
            && match (&self.bodies, &other.bodies) {
                (Bodies::Here(a), Bodies::Here(b)) => a == b,
                _ => true,
            }
    }
}

/// What the cache keeps beside its index; nothing where the file does not fit it.
fn read_body(file: &Path, tools: usize) -> Option<Body> {
    let text = std::fs::read(file).inspect_err(|error| {
        tracing::debug!(file = %file.display(), %error, "a cached catalog cannot be read");
    });
    let text = Raw::from(text.ok()?);
    let own = |list: Vec<Raw>| list.iter().map(|raw| Raw::copy_from_slice(raw)).collect();
    let body = Body {
        definitions: own(raw::elements(&text, "tools")?),
        lists: Lists {
            resources: read_listed(&text, "resources", "uri"),
            templates: read_listed(&text, "resourceTemplates", "uriTemplate"),
            prompts: read_listed(&text, "prompts", "name"),
        },
    };
    (body.definitions.len() == tools).then_some(body)
}

impl Introduction {
    pub fn read(result: &Raw, era: Era) -> Self {
        let info = raw::get(result, "serverInfo");
        let text =
            |key| info.as_ref().and_then(|info| raw::get_str(info, key)).filter(|text| !text.is_empty());
        Self {
            era,
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

    /// `capabilities`, as far as the upstream has any.
    pub fn declared(&self) -> Option<Raw> {
        Some(Raw::copy_from_slice(self.capabilities.as_ref()?.as_bytes()))
    }
}

/// What an upstream lists beside its tools, as of its last connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    pub resources: Vec<Listed>,
    pub templates: Vec<Listed>,
    pub prompts: Vec<Listed>,
}

/// What lists say, in numbers: enough to see whether they say something else, without reading them. 0 is an empty list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// With the templates.
    pub resources: u64,
    pub prompts: u64,
}

impl Lists {
    fn marks(&self) -> Marks {
        let mark = |lists: &[&Vec<Listed>]| {
            if lists.iter().all(|list| list.is_empty()) {
                return 0;
            }
            let mut hasher = DefaultHasher::new();
            for list in lists {
                list.iter().map(|listed| &listed.entry[..]).collect::<Vec<_>>().hash(&mut hasher);
            }
            hasher.finish()
        };
        Marks { resources: mark(&[&self.resources, &self.templates]), prompts: mark(&[&self.prompts]) }
    }
}

/// One entry of a list: what it is called by (`uri`, `uriTemplate`, `name`), and itself, verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub key: String,
    pub entry: Raw,
}

/// Whether a result is a page of the list that `method` names.
pub fn check_page(result: &Raw, method: &str) -> Result<(), String> {
    let member = match method {
        "resources/templates/list" => "resourceTemplates",
        method => method.split('/').next().unwrap_or_default(),
    };
    match raw::elements(result, member) {
        Some(_) => Ok(()),
        None => Err(format!("`{member}` is no list")),
    }
}

/// The tools of one page of `tools/list`, with their definitions. Those without a name are left out.
pub fn read_tools(page: &Raw) -> Vec<(Tool, Raw)> {
    named(page, "tools", read_tool)
}

/// The entries of one page of another list; those without `key` are left out.
pub fn read_listed(page: &Raw, member: &str, key: &str) -> Vec<Listed> {
    named(page, member, |entry| {
        let entry = Raw::copy_from_slice(entry);
        Some(Listed { key: raw::get_str(&entry, key)?, entry })
    })
}

fn named<T>(page: &Raw, member: &str, read: impl Fn(&[u8]) -> Option<T>) -> Vec<T> {
    let elements = raw::elements(page, member).unwrap_or_default();
    let all = elements.len();
    let read: Vec<_> = elements.iter().filter_map(|element| read(element)).collect();
    if read.len() < all {
        tracing::warn!("left out {} of the server's {member} that have no name", all - read.len());
    }
    read
}

/// A definition, copied so that the page it stands in need not be kept.
fn read_tool(definition: &[u8]) -> Option<(Tool, Raw)> {
    let definition = Raw::copy_from_slice(definition);
    let name = raw::get_str(&definition, "name")?;
    let summary = raw::get_str(&definition, "description").map(|d| summary(&d)).unwrap_or_default();
    let annotations = raw::get(&definition, "annotations");
    let hint =
        |key| annotations.as_ref().and_then(|a| raw::get(a, key)).is_some_and(|hint| &hint[..] == b"true");
    let support = raw::get(&definition, "execution").and_then(|how| raw::get_str(&how, "taskSupport"));
    let tool = Tool {
        name,
        summary,
        read_only: hint("readOnlyHint"),
        idempotent: hint("idempotentHint"),
        task: support.as_deref() == Some("required"),
    };
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
        let tools = read_tools(&raw(&format!(r#"{{"tools":[{definition},{{}},3]}}"#)));
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0].1, definition);
        assert!(tools[0].0.read_only);
    }

    #[test]
    fn a_page_is_told_by_its_list() {
        assert!(check_page(&raw(r#"{"tools":[]}"#), "tools/list").is_ok());
        assert!(check_page(&raw(r#"{"resourceTemplates":[]}"#), "resources/templates/list").is_ok());
        assert!(check_page(&raw("{}"), "tools/list").is_err());
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
