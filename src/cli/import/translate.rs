//! A server's entry, from a client's form into ours.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::apps::{ClientApp, TimeoutMeaning, is_windows_path};
use super::variables::{UsedVariables, VariableTranslator};
use crate::config::fields;
use crate::config::glob::Glob;
use crate::config::vars::Env;

/// A server's entry in our form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TranslatedEntry {
    /// The entry for servers.json.
    pub(super) entry: Map<String, Value>,
    /// What the client's entry has beyond that: one line each, without values.
    pub(super) notes: Vec<String>,
    /// The variables in it.
    pub(super) variables: UsedVariables,
}

/// Where a server's entry is from.
pub(super) struct EntryContext<'a> {
    /// The client.
    pub(super) app: ClientApp,
    /// The directory of the client's file.
    pub(super) dir: &'a Path,
    /// The project's directory, if the server belongs to one.
    pub(super) project: Option<&'a Path>,
    /// The environment.
    pub(super) env: &'a Env,
}

/// Packages whose servers keep state between calls: browsers, terminals, debuggers.
const STATEFUL_PACKAGES: &[&str] = &[
    "playwright",
    "puppeteer",
    "chrome-devtools",
    "browser-use",
    "browsermcp",
    "browserbase",
    "selenium",
    "desktop-commander",
    "mcp-ssh",
    "ssh-mcp",
    "tmux",
    "terminal",
    "mcp-gdb",
    "mcp-lldb",
    "mcp-debugger",
];

/// The order of fields in an entry. Others follow.
const ORDER: &[&str] = &[
    "description",
    "enabled",
    "command",
    "args",
    "env",
    "env_file",
    "cwd",
    "inherit_env",
    "url",
    "type",
    "headers",
    "oauth",
    "oauth_scopes",
    "tools",
    "timeout",
    "stateful",
];

/// Translates a client's entry.
///
/// # Errors
///
/// Says why the entry cannot be a server of ours.
pub(super) fn translate(
    entry: &Map<String, Value>,
    context: &EntryContext<'_>,
) -> Result<TranslatedEntry, String> {
    let mut translation =
        Translation { context, out: TranslatedEntry::default(), allow: Vec::new(), deny: Vec::new() };
    for (name, value) in entry.iter().filter(|(_, value)| !value.is_null()) {
        translation.field(name, value)?;
    }
    translation.finish()
}

struct Translation<'a> {
    context: &'a EntryContext<'a>,
    out: TranslatedEntry,
    /// The only tools in use, as globs.
    allow: Vec<Value>,
    /// Tools not in use, as globs.
    deny: Vec<Value>,
}

impl Translation<'_> {
    fn field(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let known = fields::find(fields::SERVER, name).map(|field| field.name);
        match known {
            Some("command") => self.command(value),
            Some("args") => {
                let mut args = self.take_list("args");
                args.extend(self.strings(value).as_array().cloned().unwrap_or_default());
                self.set("args", Value::Array(args));
            }
            Some("env") => self.env(value),
            Some("env_file" | "cwd") => self.path(known.unwrap_or(name), value),
            Some("url") => {
                let url = self.strings(value);
                self.set("url", url);
            }
            Some("httpUrl") => {
                let url = self.strings(value);
                self.set("url", url);
                self.set("type", json!("http"));
            }
            Some("type") => self.transport(value)?,
            Some("oauth") => self.oauth(name, value),
            Some("enabled" | "disabled") => {
                if *value == json!(known == Some("disabled")) {
                    self.set("enabled", json!(false));
                }
            }
            Some("timeout") => self.timeout(value),
            Some("tools") => self.tools(value),
            Some("includeTools") => self.allow.extend(globs(value)),
            Some("excludeTools") => self.deny.extend(globs(value)),
            Some(known) => {
                if !is_empty(value) {
                    let value = self.strings(value);
                    self.set(known, value);
                }
            }
            None if name == "auth" && value.is_object() => self.oauth(name, value),
            None => self.note(format!("`{name}` has no counterpart here")),
        }
        Ok(())
    }

    /// A list is the program and its first arguments.
    fn command(&mut self, value: &Value) {
        let value = self.strings(value);
        let Value::Array(mut words) = value else { return self.set("command", value) };
        if words.is_empty() {
            return;
        }
        self.set("command", words.remove(0));
        words.extend(self.take_list("args"));
        if !words.is_empty() {
            self.set("args", Value::Array(words));
        }
    }

    fn env(&mut self, value: &Value) {
        let Value::Object(members) = value else { return self.set("env", value.clone()) };
        let mut env = Map::new();
        for (name, value) in members {
            match value {
                Value::Null => self.note(format!("`env.{name}` is null, which unsets the variable")),
                Value::Number(_) | Value::Bool(_) => drop(env.insert(name.clone(), json!(value.to_string()))),
                other => drop(env.insert(name.clone(), self.strings(other))),
            }
        }
        if !env.is_empty() {
            self.set("env", Value::Object(env));
        }
    }

    /// A relative path starts at our config file's directory, which is not where it starts for the client.
    fn path(&mut self, name: &str, value: &Value) {
        let value = self.strings(value);
        let path = value.as_str().unwrap_or_default();
        let is_fixed = path.starts_with(['~', '$', '{']) || Path::new(path).is_absolute() || path.is_empty();
        match self.context.project {
            _ if is_fixed => self.set(name, value),
            Some(project) => {
                let path = normal_path(&project.join(path));
                self.set(name, json!(literal(&path)));
            }
            None => self.note(format!(
                "`{name}` is relative to where {} runs; write it as an absolute path",
                self.context.app.label()
            )),
        }
    }

    fn transport(&mut self, value: &Value) -> Result<(), String> {
        let text = value.as_str().unwrap_or_default().to_lowercase();
        match text.as_str() {
            "http" | "streamable-http" | "streamablehttp" | "streamable_http" => {
                self.set("type", json!("http"));
            }
            "sse" => self.set("type", json!("sse")),
            "stdio" | "local" | "remote" => {}
            _ => return Err(format!("its transport {} is not supported", crate::text::quoted(&text))),
        }
        Ok(())
    }

    fn oauth(&mut self, field: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.note(format!("`{field}` has no counterpart here"));
        };
        let mut oauth = Map::new();
        for (name, value) in members {
            let lower = if field == "auth" { name.to_lowercase() } else { name.clone() };
            match fields::find(fields::of_type("OAuthEntry"), &lower) {
                Some(known) => drop(oauth.insert(known.name.to_owned(), self.strings(value))),
                None if name == "enabled" && *value == json!(true) => {}
                None => self.note(format!("`{field}.{name}` has no counterpart here")),
            }
        }
        if !oauth.is_empty() {
            self.set("oauth", Value::Object(oauth));
        }
    }

    fn timeout(&mut self, value: &Value) {
        let mut timeouts = Map::new();
        match (self.context.app.timeout(), value) {
            (TimeoutMeaning::Ours, value) => return self.set("timeout", value.clone()),
            (TimeoutMeaning::Calls, Value::Number(_)) => self.limits(&["tools"], value, &mut timeouts),
            (TimeoutMeaning::Everything, Value::Number(_)) => {
                self.limits(&["initialize", "list", "tools"], value, &mut timeouts);
            }
            (TimeoutMeaning::Everything, Value::Object(members)) => {
                for (name, value) in members {
                    match name.as_str() {
                        "startup" => self.limits(&["initialize"], value, &mut timeouts),
                        "catalog" => self.limits(&["list"], value, &mut timeouts),
                        "request" | "execution" => self.limits(&["tools"], value, &mut timeouts),
                        _ => self.note(format!("`timeout.{name}` has no counterpart here")),
                    }
                }
            }
            _ => self.note("`timeout` has no meaning to this client".to_owned()),
        }
        if !timeouts.is_empty() {
            self.set("timeout", Value::Object(timeouts));
        }
    }

    /// Sets timeouts to a number of milliseconds.
    fn limits(&mut self, names: &[&str], milliseconds: &Value, timeouts: &mut Map<String, Value>) {
        let limit = milliseconds.as_f64().filter(|limit| (1.0..3.0e10).contains(limit));
        let is_ignored =
            self.context.app == ClientApp::ClaudeCode && limit.is_some_and(|limit| limit < 1000.0);
        let Some(limit) = limit.filter(|_| !is_ignored) else {
            return self.note("`timeout` has a value that the client ignores".to_owned());
        };
        let seconds =
            if limit % 1000.0 == 0.0 { json!((limit / 1000.0) as u64) } else { json!(limit / 1000.0) };
        for name in names {
            timeouts.insert((*name).to_owned(), seconds.clone());
        }
    }

    /// Copilot CLI's list of names, or rules that are ours already.
    fn tools(&mut self, value: &Value) {
        match value {
            Value::Array(names) if names.iter().any(|name| name == "*") => {}
            Value::Array(names) if names.is_empty() => self.deny.push(json!("*")),
            Value::Array(_) => self.allow.extend(globs(value)),
            other => self.set("tools", other.clone()),
        }
    }

    fn finish(mut self) -> Result<TranslatedEntry, String> {
        let has = |name: &str| self.out.entry.contains_key(name);
        match (has("command"), has("url")) {
            (true, true) => return Err("it has both `command` and `url`".to_owned()),
            (false, false) => return Err("it has neither `command` nor `url`".to_owned()),
            _ => {}
        }
        let is_local = has("command");
        let mut rules = match self.out.entry.shift_remove("tools") {
            Some(Value::Object(rules)) => rules,
            _ => Map::new(),
        };
        for (name, globs) in [("allow", &self.allow), ("deny", &self.deny)] {
            if !globs.is_empty() {
                rules.insert(name.to_owned(), json!(globs));
            }
        }
        if !rules.is_empty() {
            self.set("tools", Value::Object(rules));
        }
        if is_local {
            // Its transport is clear.
            self.out.entry.shift_remove("type");
            self.local_defaults();
        }
        if self.out.variables.has_accidental {
            self.note("a text `{env:…}` or `{file:…}` in it is a variable here".to_owned());
        }
        let mut ordered = Map::new();
        for name in ORDER {
            if let Some(value) = self.out.entry.shift_remove(*name) {
                ordered.insert((*name).to_owned(), value);
            }
        }
        ordered.append(&mut self.out.entry);
        self.out.entry = ordered;
        Ok(self.out)
    }

    /// What the client does with every local server and we do only where the entry says so.
    fn local_defaults(&mut self) {
        let entry = &self.out.entry;
        let words = [&entry["command"]]
            .into_iter()
            .chain(entry.get("args").and_then(Value::as_array).into_iter().flatten());
        let is_stateful = words.filter_map(Value::as_str).any(|word| {
            // A path may have any name in it, a package says what it is.
            !word.starts_with(['/', '~', '.'])
                && !is_windows_path(word)
                && STATEFUL_PACKAGES.iter().any(|package| word.contains(package))
        });
        let has_cwd = entry.contains_key("cwd");
        if is_stateful {
            self.set("stateful", json!(true));
        }
        if self.context.app.passes_environment() {
            self.set("inherit_env", json!(true));
        }
        if let Some(project) = self.context.project.filter(|_| !has_cwd) {
            self.set("cwd", json!(literal(project)));
        }
    }

    /// Translates the variables in every string of a value.
    fn strings(&mut self, value: &Value) -> Value {
        let EntryContext { app, dir, env, .. } = self.context;
        let translator = VariableTranslator { syntax: app.variables(), env, dir };
        translate_strings(value, &translator, &mut self.out.variables)
    }

    fn take_list(&mut self, name: &str) -> Vec<Value> {
        match self.out.entry.shift_remove(name) {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        self.out.entry.insert(name.to_owned(), value);
    }

    fn note(&mut self, note: String) {
        if !self.out.notes.contains(&note) {
            self.out.notes.push(note);
        }
    }
}

fn translate_strings(value: &Value, translator: &VariableTranslator<'_>, used: &mut UsedVariables) -> Value {
    match value {
        Value::String(text) => translator.translate(text, used).into(),
        Value::Array(list) => list.iter().map(|value| translate_strings(value, translator, used)).collect(),
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| (name.clone(), translate_strings(value, translator, used));
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// Names as globs that match only them.
fn globs(names: &Value) -> Vec<Value> {
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| Glob::escape(name).into()).collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// A path as a string of a config, where a dollar sign may begin a variable.
fn literal(path: &Path) -> String {
    path.to_string_lossy().replace('$', "$$")
}

/// The path without `.` in it.
fn normal_path(path: &Path) -> std::path::PathBuf {
    path.components().filter(|part| *part != std::path::Component::CurDir).collect()
}
