//! An entry of servers.json in the form of a client: the way back of `translate`, for servers that leave with the user.
//!
//! What the client has no field or no notation for is named, one line each.

use serde_json::{Map, Value, json};

use super::apps::ClientApp;
use crate::json::into_members;
use base::text::visible;
use config::fields;
use config::file::ServerEntry;
use config::file::keys::CommonEntry;
use config::glob::Glob;
use config::notation::{StringPart, literal, parts};

/// An entry in a client's form.
#[derive(Debug, Default)]
pub(crate) struct ClientForm {
    /// The entry.
    pub entry: Map<String, Value>,
    /// What it lacks, without values.
    pub notes: Vec<String>,
}

/// Returns whether a field says how dynamic-mcp treats a server. It means nothing without it.
fn is_ours(name: &str) -> bool {
    name == "description" || CommonEntry::FIELDS.iter().any(|field| field.name == name)
}

/// Makes a client's entry of one of ours.
pub(crate) fn client_form(app: ClientApp, entry: &Map<String, Value>) -> ClientForm {
    let mut entry = with_our_names(entry);
    let mut writer = FormWriter { app, form: ClientForm::default() };
    match entry.contains_key("command") {
        true => writer.local(&mut entry),
        false => writer.remote(&mut entry),
    }
    writer.rules(&mut entry);
    if entry.shift_remove("enabled") == Some(json!(false)) {
        match app.known_fields.contains(&"enabled") {
            true => writer.set("enabled", json!(false)),
            false => writer.note("it is disabled in servers.json".to_owned()),
        }
    }
    let rest = entry.keys().filter(|name| !is_ours(name));
    let rest: Vec<_> = rest.map(|name| format!("`{}`", visible(name))).collect();
    if !rest.is_empty() {
        writer.note(format!("without {}", rest.join(", ")));
    }
    writer.form
}

/// Returns the entry with our names for its fields: servers.json may be in the form of any client.
fn with_our_names(entry: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    let mut rules = Map::new();
    for (name, value) in entry {
        let known = fields::find(ServerEntry::FIELDS, name).map_or(name.as_str(), |field| field.name);
        match (known, value) {
            ("command", Value::Array(words)) => {
                let mut words = words.iter().cloned();
                out.extend(words.next().map(|program| ("command".to_owned(), program)));
                out.insert("args".to_owned(), words.collect());
            }
            ("disabled", value) => drop(out.insert("enabled".to_owned(), json!(*value != json!(true)))),
            ("httpUrl", value) => {
                out.insert("url".to_owned(), value.clone());
                out.insert("type".to_owned(), json!("http"));
            }
            ("includeTools", names) => drop(rules.insert("allow".to_owned(), names.clone())),
            ("excludeTools", names) => drop(rules.insert("deny".to_owned(), names.clone())),
            (known, value) => drop(out.insert(known.to_owned(), value.clone())),
        }
    }
    rules.extend(into_members(out.shift_remove("tools")));
    if !rules.is_empty() {
        out.insert("tools".to_owned(), Value::Object(rules));
    }
    out
}

struct FormWriter {
    app: ClientApp,
    form: ClientForm,
}

impl FormWriter {
    fn local(&mut self, entry: &mut Map<String, Value>) {
        let mut take = |name: &str| entry.shift_remove(name);
        let (program, args) = (take("command").unwrap_or_default(), take("args").unwrap_or(json!([])));
        let (env, inherited) = (take("env"), take("inherit_env"));
        take("type");
        let program = self.strings("command", &program);
        let args = self.strings("args", &args);
        self.form.entry = self.app.program_fields(program, args);
        self.env(env, inherited);
        for (ours, theirs) in [("env_file", "envFile"), ("cwd", "cwd")] {
            match entry.shift_remove(ours) {
                Some(value) if self.app.known_fields.contains(&ours) => self.set_strings(theirs, &value),
                Some(_) => self.note(format!("without `{ours}`")),
                None => {}
            }
        }
    }

    /// The variables of a local server, and those that it inherits.
    fn env(&mut self, env: Option<Value>, inherited: Option<Value>) {
        let mut members = into_members(env);
        let mut passed: Vec<Value> = Vec::new();
        match inherited {
            Some(Value::Array(names)) => passed.extend(names),
            Some(Value::Bool(true)) if !self.app.passes_environment => {
                self.note("it gets your whole environment here; name the variables that it needs".to_owned());
            }
            _ => {}
        }
        if self.app == ClientApp::Codex {
            let is_passed = |(name, value): &(&String, &Value)| is_variable(value, name);
            passed.extend(members.iter().filter(is_passed).map(|(name, _)| json!(name)));
            members.retain(|name, value| !is_variable(value, name));
        }
        let is_in_env = self.app != ClientApp::Codex && !self.app.passes_environment;
        for name in passed.iter().filter(|_| is_in_env).filter_map(Value::as_str) {
            match self.app.named_variable(name) {
                Some(_) => drop(members.entry(name).or_insert_with(|| json!(format!("${{{name}}}")))),
                None => {
                    self.note(format!("it needs the variable {}; write its value into `env`", visible(name)));
                }
            }
        }
        if !members.is_empty() {
            let members = self.strings("env", &Value::Object(members));
            self.set(self.app.env, members);
        }
        if self.app == ClientApp::Codex && !passed.is_empty() {
            self.set("env_vars", Value::Array(passed));
        }
    }

    fn remote(&mut self, entry: &mut Map<String, Value>) {
        let url = entry.shift_remove("url").unwrap_or_default();
        let transport = entry.shift_remove("type");
        let transport = transport.as_ref().and_then(Value::as_str).unwrap_or("http").to_owned();
        if let Some(note) = self.app.remote_note {
            self.note(note.to_owned());
        }
        if let Some(name) = (self.app.remote_type)(&transport) {
            self.set("type", json!(name));
        }
        let url = self.strings("url", &url);
        self.set(if transport == "sse" { "url" } else { self.app.http_url }, url);
        if let Some(Value::Object(headers)) = entry.shift_remove("headers") {
            self.headers(headers);
        }
    }

    fn headers(&mut self, mut headers: Map<String, Value>) {
        if self.app != ClientApp::Codex {
            return self.set_strings("headers", &Value::Object(headers));
        }
        let mut from_env = Map::new();
        headers.retain(|name, value| {
            let text = value.as_str().unwrap_or_default();
            let is_bearer = name.eq_ignore_ascii_case("authorization") && text.starts_with("Bearer ");
            let variable = env_name(if is_bearer { text.trim_start_matches("Bearer ") } else { text });
            match variable {
                Some(variable) if is_bearer => self.set("bearer_token_env_var", json!(variable)),
                Some(variable) => drop(from_env.insert(name.clone(), json!(variable))),
                None => return true,
            }
            false
        });
        if !headers.is_empty() {
            let headers = self.strings("headers", &Value::Object(headers));
            self.set("http_headers", headers);
        }
        if !from_env.is_empty() {
            self.set("env_http_headers", Value::Object(from_env));
        }
    }

    /// Which tools may be used. The clients know names, not globs.
    fn rules(&mut self, entry: &mut Map<String, Value>) {
        let rules = into_members(entry.shift_remove("tools"));
        if self.app == ClientApp::Copilot && !rules.contains_key("allow") {
            self.set("tools", json!(["*"]));
        }
        for (name, globs) in &rules {
            let [allow, deny] = self.app.rule_fields;
            let field = match name.as_str() {
                "allow" => allow,
                "deny" => deny,
                _ => "",
            };
            let plain = |glob: &Value| {
                let name = literal(glob.as_str()?)?;
                (Glob::escape(&name) == name).then_some(Value::from(name))
            };
            let names: Option<Vec<_>> = globs.as_array().and_then(|globs| globs.iter().map(plain).collect());
            match names.filter(|_| !field.is_empty()) {
                Some(names) => self.set(field, Value::Array(names)),
                None => self.note(format!("without `tools.{}`", visible(name))),
            }
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        self.form.entry.insert(name.to_owned(), value);
    }

    fn set_strings(&mut self, name: &str, value: &Value) {
        let value = self.strings(name, value);
        self.set(name, value);
    }

    fn note(&mut self, note: String) {
        if !self.form.notes.contains(&note) {
            self.form.notes.push(note);
        }
    }

    /// Returns the value with every string in the notation of the client.
    fn strings(&mut self, place: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => self.string(place, text).into(),
            Value::Array(list) => list.iter().map(|value| self.strings(place, value)).collect(),
            Value::Object(members) => {
                let write = |(name, value): (&String, &Value)| {
                    (name.clone(), self.strings(&format!("{place}.{name}"), value))
                };
                Value::Object(members.iter().map(write).collect())
            }
            other => other.clone(),
        }
    }

    fn string(&mut self, place: &str, text: &str) -> String {
        let Ok(parts) = parts(text) else { return text.to_owned() };
        let mut out = String::new();
        for part in &parts {
            let written = match part {
                StringPart::Text(text) => Some(text.to_string()),
                StringPart::Env { name, default } => (self.app.variable)(name, default.as_deref()),
                StringPart::File(path) if self.app == ClientApp::Opencode => Some(format!("{{file:{path}}}")),
                StringPart::File(_) | StringPart::Secret(_) => None,
            };
            out += &written.unwrap_or_else(|| {
                let ours = config::notation::write([part]);
                self.note(format!(
                    "{} does not know {} in `{}`; write the value in its place",
                    self.app.label,
                    visible(&ours),
                    visible(place)
                ));
                ours
            });
        }
        out
    }
}

/// Returns the name of the variable that a string consists of. `None` if the string has anything else, or the variable
/// a default.
pub(crate) fn env_name(text: &str) -> Option<String> {
    match &parts(text).ok()?[..] {
        [StringPart::Env { name, default: None }] => Some(name.to_string()),
        _ => None,
    }
}

/// Returns whether a value is the variable of this name.
fn is_variable(value: &Value, name: &str) -> bool {
    value.as_str().and_then(env_name).is_some_and(|variable| variable == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(app: ClientApp, entry: &Value) -> (Value, Vec<String>) {
        let form = client_form(app, entry.as_object().unwrap());
        (Value::Object(form.entry), form.notes)
    }

    #[test]
    fn each_client_gets_the_fields_and_the_variables_that_it_knows() {
        let local = json!({"command": "x", "args": ["${HOME}/a"], "env": {"TOKEN": "${TOKEN}", "LEVEL": "$${x"}, "stateful": true});
        let env = |token: &str| json!({"TOKEN": token, "LEVEL": "${x"});
        let plain = |home: &str, token: &str| json!({"command": "x", "args": [home], "env": env(token)});
        let with = |mut entry: Value, more: Value| {
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        for (app, expected) in [
            (ClientApp::Cursor, plain("${env:HOME}/a", "${env:TOKEN}")),
            (ClientApp::Gemini, plain("${HOME}/a", "${TOKEN}")),
            (ClientApp::ClaudeCode, with(plain("${HOME}/a", "${TOKEN}"), json!({"type": "stdio"}))),
            (ClientApp::Vscode, with(plain("${env:HOME}/a", "${env:TOKEN}"), json!({"type": "stdio"}))),
            (
                ClientApp::Copilot,
                with(plain("${HOME}/a", "${TOKEN}"), json!({"type": "local", "tools": ["*"]})),
            ),
            (
                ClientApp::Opencode,
                json!({"type": "local", "command": ["x", "{env:HOME}/a"], "environment": env("{env:TOKEN}")}),
            ),
        ] {
            assert_eq!(form(app, &local), (expected, vec![]), "{}", app.label);
        }
        let (codex, notes) = form(ClientApp::Codex, &local);
        assert_eq!(
            codex,
            json!({"command": "x", "args": ["${HOME}/a"], "env": {"LEVEL": "${x"}, "env_vars": ["TOKEN"]})
        );
        assert_eq!(notes, ["Codex does not know ${HOME} in `args`; write the value in its place"]);
        let (_, notes) = form(ClientApp::ClaudeDesktop, &local);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn a_remote_server_has_the_form_of_the_client() {
        let remote = json!({"url": "https://x/mcp", "headers": {"Authorization": "Bearer ${T}", "X-Key": "${K}", "X": "{keyring:k}"}, "timeout": {"tools": 1}});
        let (codex, notes) = form(ClientApp::Codex, &remote);
        assert_eq!(
            codex,
            json!({"url": "https://x/mcp", "bearer_token_env_var": "T", "http_headers": {"X": "{keyring:k}"}, "env_http_headers": {"X-Key": "K"}})
        );
        let unknown = "Codex does not know {keyring:k} in `headers.X`; write the value in its place";
        assert_eq!(notes, [unknown, "without `timeout`"]);
        let url = |app: ClientApp, entry: Value| form(app, &entry).0;
        assert_eq!(url(ClientApp::Gemini, json!({"url": "u"})), json!({"httpUrl": "u"}));
        assert_eq!(url(ClientApp::Gemini, json!({"url": "u", "type": "sse"})), json!({"url": "u"}));
        assert_eq!(url(ClientApp::Opencode, json!({"url": "u"})), json!({"type": "remote", "url": "u"}));
        assert_eq!(url(ClientApp::Vscode, json!({"httpUrl": "u"})), json!({"type": "http", "url": "u"}));
    }

    #[test]
    fn what_a_client_does_not_know_is_named() {
        let entry = json!({"command": ["a", "b"], "disabled": true, "cwd": "/x", "inherit_env": true, "tools": {"allow": ["get_*"], "deny": ["rm"], "ask": ["x"]}});
        let (gemini, notes) = form(ClientApp::Gemini, &entry);
        assert_eq!(gemini, json!({"command": "a", "args": ["b"], "cwd": "/x", "excludeTools": ["rm"]}));
        let expected = [
            "it gets your whole environment here; name the variables that it needs",
            "without `tools.allow`",
            "without `tools.ask`",
            "it is disabled in servers.json",
        ];
        assert_eq!(notes, expected);
        let (codex, _) =
            form(ClientApp::Codex, &json!({"command": "a", "includeTools": ["x"], "enabled": false}));
        assert_eq!(codex, json!({"command": "a", "args": [], "enabled_tools": ["x"], "enabled": false}));
    }
}
