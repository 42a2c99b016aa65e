//! Parses one config file, in the format of any client, into its entries and settings.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::client_files::{self, GeminiLists};
use super::codex;
use super::entry::{EntrySource, FieldSource, NamedEntry};
use super::findings::{
    CAN_SHARE, doubtful_timeout, is_server, name_error, share_without_effect, unexpanded, unknown_field,
    unknown_fields, unwrapped, value_error,
};
use super::json_text::{expected_an_object, parse_json};
use super::profiles::{NamedProfile, parse_profiles};
use super::secret_refs;
use super::source_text::SourceText;
use crate::dirs::own_config_file;
use crate::env::Env;
use crate::fields::{self, CacheKeyPart, ConfigField};
use crate::file::{ServerEntry, SettingsEntry};
use crate::nearest::nearest;
use crate::referenced::ReferencedFiles;
use crate::secrets::ServerSecrets;
use crate::value_reader::{UnknownField, ValueReader};
use crate::vars::ExpandContext;
use crate::{ConfigError, LaunchText, ServerOrigin};
use base::files::MAX_CONFIG_BYTES;
use base::text;

/// How many errors of one entry are reported.
const MAX_ERRORS: usize = 20;

/// How many files beside one that does not exist are looked at.
const MAX_NEIGHBORS: usize = 1000;

/// The content of one file.
#[derive(Default)]
pub(super) struct ParsedFile {
    /// The servers in the order of the file, one per name.
    pub(super) servers: Vec<NamedEntry>,
    /// The `settings` of the file.
    pub(super) settings: SettingsEntry,
    /// The `profiles` of the file, one per name.
    pub(super) profiles: Vec<NamedProfile>,
    /// The error in the settings that restrict tools, if there is one: then it is unknown which tools may be called.
    pub(super) tools_error: Option<ConfigError>,
    /// Whether its servers or its profiles are not known, because the file cannot be read.
    pub(super) is_unread: bool,
    /// Errors of the whole file and of settings.
    pub(super) errors: Vec<ConfigError>,
    /// Problems that do not keep anything from being used, such as unknown fields.
    pub(super) warnings: Vec<ConfigError>,
}

impl ParsedFile {
    fn unread(error: ConfigError) -> Self {
        Self { is_unread: true, errors: vec![error], ..Self::default() }
    }

    /// Adds the error of a part without which it is not known what the file has.
    fn fail(&mut self, error: ConfigError) {
        self.is_unread = true;
        self.errors.push(error);
    }
}

/// Parses a file. Everything that is wrong with it becomes an error or a warning in the result. Blocks.
pub(super) fn parse_file(path: &Path, env: &Env, files: &ReferencedFiles) -> ParsedFile {
    let absolute = env.cwd().join(path);
    let is_default = env.get_non_empty("DYNAMIC_MCP_CONFIG").is_none()
        && own_config_file(env).is_some_and(|own| own == absolute);
    let word = absolute.to_str().filter(|_| !is_default).and_then(text::shell_word);
    let named = word.map(|word| format!(" --config {word}")).unwrap_or_default();
    let other = nearest_file(&absolute).or_else(|| own_config_file(env));
    let other = other.filter(|other| *other != absolute && other.is_file());
    let other = other.map_or_else(String::new, |other| format!("did you mean {}? ", text::path(&other)));
    let missing = format!(
        "{other}`dynamic-mcp import{named}` makes it from the files of your clients; `--config` names another file"
    );
    let text = match SourceText::read(&absolute, path, MAX_CONFIG_BYTES, &missing) {
        Ok(text) => Arc::new(text),
        Err(error) => return ParsedFile::unread(error),
    };
    let dir = absolute.parent().unwrap_or(&absolute);
    let context = ExpandContext { env, dir, files, is_project: secret_refs::is_of_project(&absolute, env) };
    let refusal = secret_refs::refusal(&absolute, env);
    let canonical = absolute.canonicalize().unwrap_or_else(|_| absolute.clone());
    let is_toml = client_files::is_toml(path);
    let mut parser = FileParser {
        config_option: named.clone().into(),
        text: &text,
        path: canonical.into(),
        dir: dir.into(),
        is_toml,
        context,
        gemini_lists: None,
        secrets_refusal: refusal.as_deref(),
        file: ParsedFile::default(),
    };
    let root = match is_toml {
        true => codex::parse(&text),
        false => parse_json(&text),
    };
    match root {
        Ok(root) => parser.parse_root(&root),
        Err(error) => parser.file = ParsedFile::unread(error),
    }
    parser.file
}

/// Returns the JSON file in the same directory whose name is nearest to the name of a missing file. `None` if the file
/// exists, or if no name is similar.
fn nearest_file(missing: &Path) -> Option<PathBuf> {
    let name = missing.file_name()?.to_str().filter(|_| !missing.exists())?;
    let entries = missing.parent()?.read_dir().ok()?.take(MAX_NEIGHBORS).flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<_> = names.filter(|name| name.ends_with(".json")).collect();
    nearest(name, names.iter().map(String::as_str)).map(|name| missing.with_file_name(name))
}

struct FileParser<'f> {
    text: &'f Arc<SourceText>,
    /// The option with which a command reads the file, with a space before it; empty for the default file.
    config_option: Arc<str>,
    /// The absolute path of the file.
    path: Arc<Path>,
    /// The directory of the file.
    dir: Arc<Path>,
    /// Whether the file is Codex's, and not JSON.
    is_toml: bool,
    context: ExpandContext<'f>,
    /// Which servers Gemini CLI starts, in its own file.
    gemini_lists: Option<GeminiLists>,
    /// Why no values are fetched for the servers of this file.
    secrets_refusal: Option<&'f str>,
    /// What was parsed so far.
    file: ParsedFile,
}

impl FileParser<'_> {
    fn parse_root(&mut self, root: &Object<'_>) {
        // The settings of a client are about much more than servers.
        let mcp = root.get("mcp").map(|member| &member.value);
        self.gemini_lists = mcp.and_then(GeminiLists::of);
        let has_other_members = mcp.is_some() || client_files::is_settings_file(&self.path);
        let mut is_config = false;
        let mut unknown = Vec::new();
        for member in &root.properties {
            let name = member.name.as_str();
            match fields::find(fields::FILE, name).map(|field| field.name) {
                Some("mcp") if self.gemini_lists.is_some() => {}
                Some("mcp") => self.parse_opencode(&member.value),
                Some("settings") => self.parse_settings(&member.value),
                // Those of clients are about other things.
                Some("profiles") if !client_files::may_have_profiles(&self.path) => continue,
                Some("profiles") => {
                    let (profiles, errors) = parse_profiles(&member.value, self.text, self.context);
                    self.file.profiles = profiles;
                    self.file.is_unread |= !matches!(member.value, Value::Object(_));
                    self.file.errors.extend(errors);
                }
                Some(_) => self.parse_servers(name, &member.value),
                None => {
                    if !has_other_members && !matches!(name, "$schema" | "inputs") {
                        unknown.push(UnknownField::new(member, fields::FILE));
                    }
                    continue;
                }
            }
            is_config = true;
        }
        if is_config {
            self.file.warnings.extend(unknown.iter().map(|field| unknown_field(self.text, field)));
            return;
        }
        if let Some(error) = unwrapped(root, self.text) {
            self.file.fail(error);
            return;
        }
        let misspelled = unknown.iter().find_map(|field| Some((field, field.nearest?)));
        let (offset, hint) = match misspelled {
            Some((UnknownField { name, offset, .. }, meant)) => {
                (*offset, format!("did you mean `{meant}` instead of `{name}`?"))
            }
            None => (root.start(), r#"write servers as {"mcpServers": {NAME: {…}}}"#.to_owned()),
        };
        self.file.fail(self.text.error(offset, "the file has no `mcpServers`", Some(hint)));
    }

    /// Parses OpenCode's `mcp`, which holds the servers itself or in a member `servers`.
    fn parse_opencode(&mut self, mcp: &Value<'_>) {
        let nested = mcp.as_object().and_then(|mcp| mcp.get("servers")).map(|member| &member.value);
        match nested {
            Some(servers @ Value::Object(object)) if !is_server(object) => {
                self.parse_servers("mcp.servers", servers);
            }
            _ => self.parse_servers("mcp", mcp),
        }
    }

    fn parse_servers(&mut self, key: &str, servers: &Value<'_>) {
        let Value::Object(servers) = servers else {
            let message = format!("`{key}`: {}", expected_an_object(servers));
            let first =
                servers.as_array().and_then(|list| list.elements.first()?.as_object()?.get_string("name"));
            let name = first.map_or("NAME", |name| &name.value);
            let hint = format!("write each server by its name: {key:?}: {{{name:?}: {{…}}}}");
            self.file.fail(self.text.error(servers.start(), message, Some(hint)));
            return;
        };
        let known = self.file.servers.iter().enumerate();
        let mut known: HashMap<Cow<'_, str>, _> =
            known.map(|(n, server)| (server.name.clone().into(), n)).collect();
        known.reserve(servers.properties.len());
        self.file.servers.reserve(servers.properties.len());
        // There the number is valid, and about something else.
        let is_of_client = matches!(key, "mcp" | "mcp.servers") || client_files::is_client_file(&self.path);
        for member in &servers.properties {
            let mut server = self.parse_server(member);
            let warning = doubtful_timeout(&member.value, self.text).filter(|_| !is_of_client);
            server.warnings.extend(warning);
            match known.get(&*server.name).and_then(|n| self.file.servers.get_mut(*n)) {
                Some(first) => {
                    let (line, column) = self.text.position(first.source.offset);
                    let message =
                        format!("the server `{}` is defined twice, first at {line}:{column}", server.name);
                    let hint = Some("rename or remove one of them".to_owned());
                    first.entry = None;
                    first.errors = vec![self.text.error(member.name.start(), message, hint)];
                }
                None => {
                    known.insert(member.name.as_str().into(), self.file.servers.len());
                    self.file.servers.push(server);
                }
            }
        }
    }

    fn parse_server(&mut self, member: &ObjectProp<'_>) -> NamedEntry {
        let translated = client_files::translated(&member.value);
        let translated = translated.map(|value| ObjectProp { value, ..member.clone() });
        let member = translated.as_ref().unwrap_or(member);
        let name = member.name.as_str().to_owned();
        let mut wrong = Vec::new();
        let mut secrets = ServerSecrets::default();
        let mut warnings = Vec::new();
        let (entry, errors) = if let Some((message, hint)) = name_error(&name, is_disabled(&member.value)) {
            (None, vec![self.text.error(member.name.start(), message, hint)])
        } else if is_disabled(&member.value)
            || self.gemini_lists.as_ref().is_some_and(|lists| !lists.allow(&name))
        {
            (None, Vec::new())
        } else {
            let reader = ValueReader::new(self.context);
            let (entry, _) = ServerEntry::read_partly(&reader.at(&member.value));
            warnings.extend(unknown_fields(self.text, &reader));
            warnings.extend(unexpanded(&member.value, self.text, self.context.env));
            warnings.extend(share_without_effect(&member.value, self.text, CAN_SHARE));
            let found_errors = reader.errors.into_inner();
            wrong.extend(found_errors.iter().filter_map(|error| error.member.clone()));
            let reported = found_errors.iter().take(MAX_ERRORS);
            let errors: Vec<_> = reported.map(|error| value_error(self.text, error)).collect();
            let is_read = member.value.as_object().is_some() && errors.len() < MAX_ERRORS;
            let mentions = reader.secrets.into_inner();
            let found = secret_refs::find(&mentions, self.text, self.context, self.secrets_refusal);
            warnings.extend(found.warnings);
            secrets = found.secrets;
            (is_read.then_some(entry), [errors, found.errors].concat())
        };
        let source = EntrySource { secrets, ..self.entry_source(member, &wrong) };
        NamedEntry {
            name,
            entry,
            errors,
            warnings,
            source,
            profile_tools: None,
            config_option: self.config_option.clone(),
        }
    }

    fn entry_source(&self, member: &ObjectProp<'_>, wrong: &[String]) -> EntrySource {
        let members = member.value.as_object().map_or(&[][..], |server| &server.properties);
        let known: Vec<_> = members
            .iter()
            .filter_map(|member| Some((fields::find(ServerEntry::FIELDS, member.name.as_str())?, member)))
            .collect();
        let written = known.iter().filter(|(field, _)| field.cache_key == CacheKeyPart::AsWritten);
        let not_empty = known.iter().filter(|(_, member)| !is_empty(&member.value));
        let program = known.iter().filter(|(field, _)| PROGRAM_FIELDS.contains(&field.name));
        let program = program.map(|(field, member)| (field.name, compact(&member.value)));
        EntrySource {
            wrong: wrong
                .iter()
                .filter_map(|name| Some(fields::find(ServerEntry::FIELDS, name)?.name))
                .collect(),
            dir: self.dir.clone(),
            text: self.text.clone(),
            offset: member.name.start(),
            fields: not_empty
                .map(|(field, member)| FieldSource {
                    field,
                    name: member.name.as_str().to_owned(),
                    offset: member.name.start(),
                })
                .collect(),
            launch_text: self.launch_text(written),
            secrets: ServerSecrets::default(),
            origin: ServerOrigin { file: self.path.clone(), program: LaunchText::new(program) },
        }
    }

    fn launch_text<'v>(
        &self,
        fields: impl Iterator<Item = &'v (&'static ConfigField, &'v ObjectProp<'v>)>,
    ) -> LaunchText {
        if self.is_toml {
            // A table may be written in several places.
            let json = |member: &ObjectProp<'_>| client_files::to_json(&member.value).to_string();
            return LaunchText::new(fields.map(|(field, member)| (field.name, json(member))));
        }
        LaunchText::new(fields.map(|(field, member)| (field.name, member.value.text(self.text.as_str()))))
    }

    /// Reads the settings. A wrong one counts as not given.
    fn parse_settings(&mut self, settings: &Value<'_>) {
        self.file.warnings.extend(share_without_effect(settings, self.text, CAN_SHARE));
        if settings.as_object().is_none() {
            let message = format!("`settings`: {}", expected_an_object(settings));
            self.file.errors.push(self.text.error(settings.start(), message, None));
            return;
        }
        let reader = ValueReader::new(self.context);
        self.file.settings = SettingsEntry::read_partly(&reader.at(settings)).0;
        self.file.warnings.extend(unknown_fields(self.text, &reader));
        for wrong in reader.errors.borrow().iter() {
            let error = value_error(self.text, wrong);
            let error = ConfigError { message: format!("`settings`: {}", error.message), ..error };
            let name = wrong.member.as_deref().unwrap_or_default();
            let field = fields::find(SettingsEntry::FIELDS, name).map(|field| field.name);
            if matches!(field, Some("tools" | "trust_annotations" | "pin_tools")) {
                self.file.tools_error = Some(error.clone());
            }
            self.file.errors.push(error);
        }
    }
}

/// The fields that say which program a server is, without what it is given to run.
const PROGRAM_FIELDS: &[&str] = &["command", "args", "cwd", "url", "httpUrl"];

/// Writes a string or a list of strings as JSON without the white space and comments of the file. Everything else, which
/// no field of a program can be, is empty.
fn compact(value: &Value<'_>) -> String {
    match value {
        Value::StringLit(text) => serde_json::to_string(&text.value).unwrap_or_default(),
        Value::Array(list) => list.elements.iter().map(compact).collect::<Vec<_>>().join(","),
        _ => String::new(),
    }
}

/// Returns whether a value is as good as none. Some clients write every field for every server.
fn is_empty(value: &Value<'_>) -> bool {
    match value {
        Value::NullKeyword(_) => true,
        Value::Object(object) => object.properties.is_empty(),
        Value::Array(list) => list.elements.is_empty(),
        _ => false,
    }
}

/// Returns whether an entry disables its server. The rest of such an entry is not read.
fn is_disabled(server: &Value<'_>) -> bool {
    let has = |name, wanted| {
        let member = server.as_object().and_then(|server| server.get(name));
        member.and_then(|member| member.value.as_boolean_lit()).is_some_and(|bool| bool.value == wanted)
    };
    has("enabled", false) || has("disabled", true)
}
