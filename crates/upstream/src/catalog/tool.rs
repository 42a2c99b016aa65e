//! What the program itself uses of the definition of a tool.

use crate::pins::definition::DefinitionDigest;
use base::text::{shorten, summary};
use base::tokens;
use schema::definition;
use serde::{Deserialize, Serialize};
use wire::object::Object;
use wire::protocol::meta;
use wire::{Raw, raw};

/// The key of `_meta` by which older servers name the app of a tool.
pub const OLD_APP_KEY: &str = "ui/resourceUri";
/// How many characters of a description's first sentence are kept.
const MAX_SUMMARY: usize = 1000;

/// What the program itself uses of a tool's definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// An estimate of the tokens that a model reads of it. 0: a version that did not note it cached the tool.
    #[serde(default)]
    pub tokens: u32,
    /// Whether the server wants the user to confirm every call: `anthropic/requiresUserInteraction` in `_meta`.
    #[serde(default, rename = "user")]
    pub requires_user: bool,
    /// Whether only the app of the tool may call it, and no model: `_meta.ui.visibility` (MCP Apps).
    #[serde(default, rename = "app_only")]
    pub app_only: bool,
    /// Whether apps may call the tool: `_meta.ui` exists and does not forbid it.
    #[serde(default, rename = "app")]
    pub for_apps: bool,
    /// Whether its definition names an app (MCP Apps), so that hosts have to find it in `tools/list`.
    #[serde(default, rename = "ui")]
    pub has_app: bool,
    /// What lists have in place of its definition.
    #[serde(default, skip_serializing_if = "Listing::is_unchanged")]
    pub(crate) listing: Listing,
}

/// What lists of all tools have in place of a definition, because clients drop a whole list for an invalid one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listing {
    /// The definition itself.
    #[default]
    Unchanged,
    /// What [`definition::listable`] makes of it.
    Changed,
    /// Nothing, because this member is invalid.
    LeftOut(Box<str>),
}

impl Listing {
    fn of(definition: &Raw) -> Self {
        match definition::listable(definition) {
            Ok(listed) if listed == definition => Self::Unchanged,
            Ok(_) => Self::Changed,
            Err(why) => Self::LeftOut(why.into()),
        }
    }

    fn is_unchanged(&self) -> bool {
        *self == Self::Unchanged
    }
}

impl Tool {
    /// Makes a tool without a definition, because the server does not list it or the definition is left off.
    pub fn unlisted(name: &str) -> Self {
        Self { name: name.to_owned(), digest: DefinitionDigest::of(b""), ..Self::default() }
    }

    /// Returns the tool's `definition` as lists have it; `None` if they leave it out.
    pub fn listed(&self, definition: &Raw) -> Option<Raw> {
        match self.listing {
            Listing::Unchanged => Some(definition.clone()),
            // An override of the config may have replaced the invalid member.
            Listing::Changed | Listing::LeftOut(_) => definition::listable(definition).ok(),
        }
    }

    /// The invalid member of its definition, because of which lists leave the tool out.
    pub(crate) fn unlistable(&self) -> Option<&str> {
        match &self.listing {
            Listing::LeftOut(why) => Some(why),
            Listing::Unchanged | Listing::Changed => None,
        }
    }
}

/// Estimates the tokens that a model reads of a definition: clients give it the name, the description and the input schema.
pub fn model_tokens(definition: &Raw) -> usize {
    let members = ["name", "description", "inputSchema"].into_iter();
    let members = members.filter_map(|name| Some((name, raw::get(definition, name)?)));
    let text = members.map(|(name, value)| format!("\"{name}\":{}", String::from_utf8_lossy(&value)));
    tokens::estimate(&format!("{{{}}}", text.collect::<Vec<_>>().join(",")))
}

/// The URI of the app that a definition names.
pub fn app_of(definition: &Raw) -> Option<String> {
    app_in(&raw::get(definition, "_meta")?)
}

fn app_in(meta: &Raw) -> Option<String> {
    let nested = raw::get(meta, "ui").and_then(|ui| raw::get_str(&ui, "resourceUri"));
    nested.or_else(|| raw::get_str(meta, OLD_APP_KEY))
}

/// Reads a definition. `None` if it has no name.
pub(super) fn read_tool(definition: &Raw) -> Option<Tool> {
    let members = Object::parse(definition)?;
    let name = members.get_str("name")?.into_owned();
    let summary = members.get_str("description").map(|text| shorten(&summary(&text), MAX_SUMMARY));
    let annotations = members.get("annotations");
    let hint =
        |key| annotations.as_ref().and_then(|a| raw::get(a, key)).is_some_and(|hint| &hint[..] == b"true");
    let meta = members.get("_meta");
    let ui = meta.as_ref().and_then(|meta| raw::get(meta, "ui"));
    let requires_user = meta.as_ref().and_then(|meta| raw::get(meta, meta::REQUIRES_USER_INTERACTION));
    let visibility = ui.as_ref().and_then(|ui| raw::get(ui, "visibility"));
    let visibility: Option<Vec<String>> = visibility.and_then(|list| serde_json::from_slice(&list).ok());
    let is_visible_to = |whom: &str| {
        visibility.as_ref().is_none_or(|visibility| visibility.iter().any(|known| known == whom))
    };
    let support = members.get("execution").and_then(|how| raw::get_str(&how, "taskSupport"));
    Some(Tool {
        name,
        summary: summary.unwrap_or_default(),
        read_only: hint("readOnlyHint"),
        idempotent: hint("idempotentHint"),
        requires_task: support.as_deref() == Some("required"),
        digest: DefinitionDigest::of(definition),
        tokens: u32::try_from(model_tokens(definition)).unwrap_or(u32::MAX),
        requires_user: requires_user.is_some_and(|value| &value[..] == b"true"),
        app_only: !is_visible_to("model"),
        for_apps: ui.is_some() && is_visible_to("app"),
        has_app: meta.as_ref().and_then(app_in).is_some(),
        listing: Listing::of(definition),
    })
}
