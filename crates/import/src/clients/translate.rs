//! A server's entry, from a client's form into ours.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use super::client::KnownClient;
use super::entry_order::in_order;
use super::shape;
use super::timeouts;
use super::variables::{EntryContext, UsedVariables};
use crate::json::{into_members, members, strings};
use config::fields;
use config::file::ServerEntry;
use config::file::keys::OAuthEntry;
use config::glob::Glob;
use config::notation::{StringPart, escape, literal, write};
use config::stateful::keeps_state;

/// A server's entry in our form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TranslatedEntry {
    /// The entry for servers.json.
    pub entry: Map<String, Value>,
    /// The variables that are not set here: the server starts, and gets an empty value.
    pub unset: Vec<String>,
    /// The fields of the client's entry that mean nothing here.
    pub ignored: Vec<String>,
    /// The variables in it.
    pub variables: UsedVariables,
}

/// Translates a client's entry.
///
/// # Errors
///
/// Says why the entry cannot be a server of ours.
pub(crate) fn translate(
    entry: &Map<String, Value>,
    context: &EntryContext<'_>,
) -> Result<TranslatedEntry, String> {
    let client: &KnownClient = &context.app;
    // Absent, off and empty are the same.
    let has = |name: &&&str| {
        entry.get(**name).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    };
    if let Some(name) = client.own_meaning.iter().find(has) {
        return Err(format!("dynamic-mcp has nothing like its `{name}`"));
    }
    let mut entry = entry.clone();
    (client.usual_form)(&mut entry)?;
    shape::check(&entry)?;
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
        let client: &KnownClient = &self.context.app;
        let known = fields::find(ServerEntry::FIELDS, client.our_name(name)).map(|field| field.name);
        match known {
            Some("command") => self.command(value),
            Some("args") => {
                let mut args = self.take_list("args");
                args.extend(self.strings("args", value).as_array().cloned().unwrap_or_default());
                self.set("args", Value::Array(args));
            }
            Some("env") => self.env(value)?,
            Some("env_file" | "cwd") => self.path(known.unwrap_or(name), value)?,
            // As some forms of clients write it beside a command.
            Some("url" | "httpUrl") if value == "" => {}
            Some("url") => self.set_strings("url", value),
            Some("httpUrl") => {
                self.set_strings("url", value);
                self.set("type", json!("http"));
            }
            Some("type") => self.transport(value)?,
            Some("oauth") => self.oauth(name, value),
            Some("all_users") => self.ignore(name),
            Some("enabled" | "disabled") => {
                if *value == json!(known == Some("disabled")) {
                    self.set("enabled", json!(false));
                }
            }
            Some("timeout") => self.timeout(value),
            Some("tools") => self.tools(value),
            Some("includeTools") => {
                // A name may have rules for arguments behind it: `run(ls)`.
                let names: Vec<&str> = strings(Some(value)).map(without_arguments).collect();
                if strings(Some(value)).ne(names.iter().copied()) {
                    return Err(format!("`{name}` limits the arguments of tools, which dynamic-mcp cannot"));
                }
                let globs = self.globs("includeTools", &json!(names));
                if globs.is_empty() {
                    self.deny.push(json!("*"));
                }
                self.allow.extend(globs);
            }
            Some("excludeTools") => {
                let globs = self.globs("excludeTools", value);
                self.deny.extend(globs);
            }
            Some(_) if *value == json!([]) || *value == json!({}) => {}
            Some(known) => self.set_strings(known, value),
            None if name == "auth" && value.is_object() => self.oauth(name, value),
            None => self.ignore(name),
        }
        Ok(())
    }

    /// A list is the program and its first arguments.
    fn command(&mut self, value: &Value) {
        let Value::Array(words) = value else {
            let command = self.program(value);
            return self.set("command", command);
        };
        let Some((program, words)) = words.split_first() else { return };
        let program = self.program(program);
        self.set("command", program);
        let mut words: Vec<_> = words.iter().map(|word| self.strings("command", word)).collect();
        words.extend(self.take_list("args"));
        if !words.is_empty() {
            self.set("args", Value::Array(words));
        }
    }

    /// Returns a program. We take a leading `~` for the home directory, and few clients do.
    fn program(&mut self, value: &Value) -> Value {
        match self.strings("command", value) {
            Value::String(program) if Path::new(&program).starts_with("~") => format!("./{program}").into(),
            program => program,
        }
    }

    fn env(&mut self, value: &Value) -> Result<(), String> {
        let mut env = Map::new();
        for (name, value) in members(Some(value)) {
            match value {
                Value::Null => return Err(format!("`env.{name}` is null, which unsets the variable")),
                Value::Number(_) | Value::Bool(_) => drop(env.insert(name.clone(), json!(value.to_string()))),
                other => drop(env.insert(name.clone(), self.strings("env", other))),
            }
        }
        if !env.is_empty() {
            self.set("env", Value::Object(env));
        }
        Ok(())
    }

    /// A relative path starts at our config file's directory, which is not where it starts for the client.
    fn path(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let text = value.as_str().unwrap_or_default();
        let parts = self.context.parts(name, text, &mut self.out.variables);
        let is_fixed = match parts.first() {
            Some(StringPart::Text(start)) => Path::new(&**start).is_absolute(),
            Some(_) | None => true,
        };
        match self.context.project {
            _ if is_fixed => self.set(name, write(&parts).into()),
            Some(project) => {
                let [StringPart::Text(first), rest @ ..] = &parts[..] else { return Ok(()) };
                // Without `.` in it.
                let path: PathBuf = project.join(&**first).components().collect();
                let path = path.to_string_lossy().into_owned();
                // A separator at the end stays, because a variable may follow.
                let end = if first.ends_with('/') && !rest.is_empty() { "/" } else { "" };
                let path = [StringPart::Text(path.into()), StringPart::Text(end.into())];
                self.set(name, write(path.iter().chain(rest)).into());
            }
            // Without it, a server runs where this program runs: where the client runs.
            None if name == "cwd" && Path::new(text).components().all(|part| part == Component::CurDir) => {}
            None => return Err(format!("`{name}` is relative to where {} runs", self.context.app.label)),
        }
        Ok(())
    }

    fn transport(&mut self, value: &Value) -> Result<(), String> {
        let text = value.as_str().unwrap_or_default().to_lowercase();
        match text.as_str() {
            "http" | "streamable-http" | "streamablehttp" | "streamable_http" => {
                self.set("type", json!("http"));
            }
            "sse" => self.set("type", json!("sse")),
            "stdio" | "local" | "remote" => {}
            _ => return Err(format!("its transport {} is not supported", base::text::quoted(&text))),
        }
        Ok(())
    }

    fn oauth(&mut self, field: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.ignore(field);
        };
        let mut oauth = Map::new();
        for (name, value) in members {
            let lower = if field == "auth" { name.to_lowercase() } else { name.clone() };
            match fields::find(OAuthEntry::FIELDS, &lower) {
                Some(known) => drop(oauth.insert(known.name.to_owned(), self.strings("oauth", value))),
                None if name == "enabled" && *value == json!(true) => {}
                None => self.ignore(&format!("{field}.{name}")),
            }
        }
        if !oauth.is_empty() {
            self.set("oauth", Value::Object(oauth));
        }
    }

    fn timeout(&mut self, value: &Value) {
        match timeouts::translate(self.context.app.timeout, value) {
            Some(timeouts) => self.set("timeout", timeouts),
            None => self.ignore("timeout"),
        }
    }

    /// Copilot CLI's list of names, or rules that are ours already.
    fn tools(&mut self, value: &Value) {
        match value {
            Value::Array(names) if names.iter().any(|name| name == "*") => {}
            Value::Array(names) if names.is_empty() => self.deny.push(json!("*")),
            Value::Array(_) => {
                let globs = self.globs("tools", value);
                self.allow.extend(globs);
            }
            other => self.set_strings("tools", other),
        }
    }

    fn finish(mut self) -> Result<TranslatedEntry, String> {
        let has = |name: &str| self.out.entry.contains_key(name);
        match (has("command"), has("url")) {
            (true, true) => return Err("it has both `command` and `url`".to_owned()),
            (false, false) => return Err("it has neither `command` nor `url`".to_owned()),
            _ => {}
        }
        shape::check_destination(&self.out.entry)?;
        let is_local = has("command");
        let mut rules = into_members(self.out.entry.shift_remove("tools"));
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
        if let Some(reason) = self.out.variables.unusable_file {
            return Err(reason.to_owned());
        }
        let optional = self.out.variables.optional.iter();
        self.out.unset = optional.filter(|name| self.context.env.get(name).is_none()).cloned().collect();
        self.out.entry = in_order(self.out.entry);
        Ok(self.out)
    }

    /// What the client does with every local server and we do only where the entry says so.
    fn local_defaults(&mut self) {
        let entry = &self.out.entry;
        let command = entry["command"].as_str();
        let is_stateful = keeps_state(command.into_iter().chain(strings(entry.get("args"))));
        let has_cwd = entry.contains_key("cwd");
        if is_stateful {
            self.set("stateful", json!(true));
        }
        if self.context.app.passes_environment {
            self.set("inherit_env", json!(true));
        }
        if let Some(project) = self.context.project.filter(|_| !has_cwd) {
            self.set("cwd", json!(escape(&project.to_string_lossy())));
        }
    }

    /// Translates every string of a value that stands in this field.
    fn strings(&mut self, field: &str, value: &Value) -> Value {
        self.context.translate_all(field, value, &mut self.out.variables)
    }

    /// Names as globs that match only them.
    fn globs(&mut self, field: &str, names: &Value) -> Vec<Value> {
        let Value::Array(names) = self.strings(field, names) else { return Vec::new() };
        let names = names.iter().filter_map(Value::as_str);
        let glob =
            |name: &str| literal(name).map_or_else(|| name.to_owned(), |name| escape(&Glob::escape(&name)));
        names.map(|name| glob(name).into()).collect()
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

    fn set_strings(&mut self, name: &str, value: &Value) {
        let value = self.strings(name, value);
        self.set(name, value);
    }

    fn ignore(&mut self, field: &str) {
        self.out.ignored.push(field.to_owned());
    }
}

/// Returns the name of a tool without the arguments in parentheses behind it.
fn without_arguments(name: &str) -> &str {
    name.split_once('(').filter(|_| name.ends_with(')')).map_or(name, |(plain, _)| plain)
}
