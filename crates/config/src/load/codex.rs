//! Codex's `config.toml`, as the syntax tree that JSON has.
//!
//! [`parse`] keeps the position of every value, so that the errors in a TOML file point into it. A server's table is
//! translated: what Codex writes under names of its own gets ours (`env_http_headers` becomes variables in `headers`).
//! Codex expands no variables in strings, so these are escaped. Fields without a counterpart stay, and
//! `fields` has them as ignored.

use std::borrow::Cow;
use std::ops::Range as Span;

use jsonc_parser::ast::{Array, BooleanLit, NumberLit, Object, ObjectProp, ObjectPropName, StringLit, Value};
use jsonc_parser::common::{Range, Ranged};
use toml_edit::{Document, Item, TableLike};

use super::source_text::SourceText;
use crate::ConfigError;
use crate::glob::Glob;
use crate::notation::{StringPart, escape, is_env_name, literal, write};

/// The key of the servers.
const SERVERS: &str = "mcp_servers";

/// Parses a `config.toml`. The servers in it are translated.
///
/// # Errors
///
/// Fails if the text is not TOML.
pub(super) fn parse(text: &SourceText) -> Result<Object<'_>, ConfigError> {
    let document = Document::parse(text.as_str()).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        text.error(offset, format_args!("not valid TOML: {message}"), None)
    })?;
    let converter = Converter { text: text.as_str() };
    let mut root = converter.table(document.as_table(), 0..text.as_str().len());
    for member in root.properties.iter_mut().filter(|member| member.name.as_str() == SERVERS) {
        if let Value::Object(servers) = &mut member.value {
            for server in &mut servers.properties {
                if let Value::Object(entry) = &mut server.value {
                    translate(entry);
                }
            }
        }
    }
    Ok(root)
}

struct Converter<'t> {
    text: &'t str,
}

impl<'t> Converter<'t> {
    /// Converts a table. `around` is the position of the table or array that contains it: a table that is written in
    /// parts has none.
    fn table(&self, table: &dyn TableLike, around: Span<usize>) -> Object<'t> {
        let member = |(name, item): (&str, &Item)| {
            let key =
                table.get_key_value(name).and_then(|(key, _)| key.span()).unwrap_or_else(|| around.clone());
            let value = self.value(item, item.span().unwrap_or_else(|| key.clone()))?;
            Some(property(range(key), name.to_owned(), value))
        };
        Object { range: range(around.clone()), properties: table.iter().filter_map(member).collect() }
    }

    /// `None` for an item that is no value.
    fn value(&self, item: &Item, span: Span<usize>) -> Option<Value<'t>> {
        if let Some(table) = item.as_table_like() {
            return Some(Value::Object(self.table(table, span)));
        }
        if let Some(tables) = item.as_array_of_tables() {
            let tables = tables
                .iter()
                .map(|table| Value::Object(self.table(table, table.span().unwrap_or_else(|| span.clone()))));
            return Some(Value::Array(Array { range: range(span.clone()), elements: tables.collect() }));
        }
        let value = item.as_value()?;
        let range = range(span.clone());
        Some(match value {
            toml_edit::Value::String(text) => string(range, escape(text.value())),
            toml_edit::Value::Boolean(bool) => Value::BooleanLit(BooleanLit { range, value: *bool.value() }),
            toml_edit::Value::Integer(_) | toml_edit::Value::Float(_) => {
                Value::NumberLit(NumberLit { range, value: self.text.get(span).unwrap_or_default() })
            }
            toml_edit::Value::Array(list) => {
                let elements = list.iter().filter_map(|value| {
                    let span = value.span().unwrap_or_else(|| span.clone());
                    self.value(&Item::Value(value.clone()), span)
                });
                Value::Array(Array { range, elements: elements.collect() })
            }
            toml_edit::Value::Datetime(_) => string(range, self.text.get(span).unwrap_or_default()),
            toml_edit::Value::InlineTable(table) => Value::Object(self.table(table, span)),
        })
    }
}

/// Gives the fields of a server our names and forms.
fn translate(server: &mut Object<'_>) {
    translate_headers(server);
    translate_timeouts(server);
    translate_approvals(server);
    for member in &mut server.properties {
        let name = match member.name.as_str() {
            "env_vars" => "inherit_env",
            "scopes" => "oauth_scopes",
            _ => continue,
        };
        if let Value::Array(names) = &mut member.value {
            names.elements = names.elements.drain(..).map(variable_name).collect();
        }
        member.name = property_name(member.name.range(), name);
    }
}

/// Returns the name in an element of `env_vars`, which may be a table with a `name`.
fn variable_name(element: Value<'_>) -> Value<'_> {
    match element {
        Value::Object(mut table) => match table.take("name") {
            Some(name) => name.value,
            None => Value::Object(table),
        },
        other => other,
    }
}

/// Puts `http_headers`, `env_http_headers` and `bearer_token_env_var` into `headers`.
fn translate_headers(server: &mut Object<'_>) {
    let mut headers = Vec::new();
    let mut at = None;
    if let Some(member) = server.take("http_headers") {
        at = at.or(Some(member.range));
        match member.value {
            Value::Object(object) => headers.extend(object.properties),
            // The error says that it is no object.
            value => return server.properties.push(property(member.range, "headers", value)),
        }
    }
    if let Some(member) = server.take("env_http_headers") {
        at = at.or(Some(member.range));
        if let Value::Object(object) = member.value {
            headers.extend(object.properties.into_iter().map(|mut header| {
                if let Value::StringLit(name) = &header.value {
                    header.value = string(name.range, variable("", &name.value));
                }
                header
            }));
        }
    }
    if let Some(member) = server.take("bearer_token_env_var") {
        at = at.or(Some(member.range));
        if let Value::StringLit(name) = &member.value {
            let value = string(name.range, variable("Bearer ", &name.value));
            headers.push(property(member.range, "Authorization", value));
        }
    }
    if let Some(range) = at {
        let headers = Value::Object(Object { range, properties: headers });
        server.properties.push(property(range, "headers", headers));
    }
}

/// Returns the text, and the value of the variable whose name is in `escaped`. What can be no name is an error of the
/// server.
fn variable(text: &str, escaped: &str) -> String {
    match literal(escaped).filter(|name| is_env_name(name)) {
        Some(name) => {
            write(&[StringPart::Text(text.into()), StringPart::Env { name: name.into(), default: None }])
        }
        None => "${}".to_owned(),
    }
}

/// Puts the timeouts of the start and of calls into `timeout`.
fn translate_timeouts(server: &mut Object<'_>) {
    let mut timeouts = Vec::new();
    let in_seconds = server.take("startup_timeout_sec");
    let in_milliseconds = server.take("startup_timeout_ms");
    match (in_seconds, in_milliseconds) {
        (Some(seconds), _) => timeouts.push(property(seconds.range, "initialize", seconds.value)),
        (None, Some(member)) => {
            let value = match member.value {
                Value::NumberLit(number) => {
                    string(number.range, format!("{}ms", number.value.replace('_', "")))
                }
                other => other,
            };
            timeouts.push(property(member.range, "initialize", value));
        }
        (None, None) => {}
    }
    if let Some(seconds) = server.take("tool_timeout_sec") {
        timeouts.push(property(seconds.range, "tools", seconds.value));
    }
    if let Some(range) = timeouts.first().map(|member| member.range) {
        let timeouts = Value::Object(Object { range, properties: timeouts });
        server.properties.push(property(range, "timeout", timeouts));
    }
}

/// Makes `tools.ask` of the approval modes that ask. A list has no exceptions: a tool that the server's mode asks for and
/// its own does not is left out only if the tools in use are named.
fn translate_approvals(server: &mut Object<'_>) {
    let default = server.take("default_tools_approval_mode");
    let tools = server.take("tools");
    let asks = |value: &Value<'_>| value.as_string_lit().is_some_and(|mode| mode.value == "prompt");
    let range = default.as_ref().or(tools.as_ref()).map(|member| member.range);
    let modes = match tools.map(|member| member.value) {
        Some(Value::Object(modes)) => modes.properties,
        _ => Vec::new(),
    };
    let mode = |tool: &ObjectProp<'_>| Some(asks(&tool.value.as_object()?.get("approval_mode")?.value));
    let glob = |name: &str| escape(&Glob::escape(name));
    let mut asked = Vec::new();
    if let Some(member) = default.filter(|member| asks(&member.value)) {
        let is_excepted =
            |name: &str| modes.iter().any(|tool| tool.name.as_str() == name && mode(tool) == Some(false));
        let enabled = server.get("enabled_tools").and_then(|member| member.value.as_array());
        let enabled = enabled.map(|names| names.elements.iter().filter_map(Value::as_string_lit));
        match enabled.filter(|_| modes.iter().any(|tool| mode(tool) == Some(false))) {
            Some(enabled) => {
                let names = enabled.filter_map(|name| Some((name.range, literal(&name.value)?)));
                let names = names.filter(|(_, name)| !is_excepted(name));
                asked.extend(names.map(|(range, name)| string(range, glob(&name))));
            }
            None => asked.push(string(member.range, "*")),
        }
    }
    let asking = modes.iter().filter(|tool| mode(tool) == Some(true));
    asked.extend(asking.map(|tool| string(tool.range, glob(tool.name.as_str()))));
    if let Some(range) = range.filter(|_| !asked.is_empty()) {
        let asked = Value::Array(Array { range, elements: asked });
        let rules = Object { range, properties: vec![property(range, "ask", asked)] };
        server.properties.push(property(range, "tools", Value::Object(rules)));
    }
}

/// Makes a member of an object.
pub(super) fn property<'t>(range: Range, name: impl Into<Cow<'t, str>>, value: Value<'t>) -> ObjectProp<'t> {
    ObjectProp { range, name: property_name(range, name), value }
}

/// Makes the name of a member.
pub(super) fn property_name<'t>(range: Range, name: impl Into<Cow<'t, str>>) -> ObjectPropName<'t> {
    ObjectPropName::String(StringLit { range, value: name.into() })
}

/// Makes a string.
pub(super) fn string<'t>(range: Range, value: impl Into<Cow<'t, str>>) -> Value<'t> {
    Value::StringLit(StringLit { range, value: value.into() })
}

fn range(span: Span<usize>) -> Range {
    Range::new(span.start, span.end)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use crate::env::Env;
    use crate::glob::Glob;
    use crate::{Config, Endpoint, InheritEnv, Overrides, load::load};

    /// The config of a `config.toml` with this text.
    fn load_toml(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), text).unwrap();
        let env = Env::new([("TOKEN", "t0k3n"), ("ORG", "acme")], dir.path());
        load(&[PathBuf::from("config.toml")], &env, &Overrides::default())
    }

    #[test]
    fn every_field_of_codex_is_translated_and_nothing_is_warned_of() {
        let config = load_toml(
            r#"
model = "gpt-5"
[tui]
notifications = true

[mcp_servers.files]
command = "npx"
args = ["-y", "files", "pa$$word ${NO}", "{env:TOKEN} {file:/etc/passwd} {command:id}"]
env_vars = ["TOKEN", { name = "ORG", source = "local" }]
startup_timeout_sec = 20.5
tool_timeout_sec = 1_000
enabled_tools = ["read", "write[1]"]
required = true
supports_parallel_tool_calls = true
default_tools_approval_mode = "auto"
[mcp_servers.files.env]
A = "b"
[mcp_servers.files.tools.write]
approval_mode = "prompt"

[mcp_servers.wiki]
url = "https://example.com/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { "X-Region" = "eu$" }
env_http_headers = { "X-Org" = "ORG" }
scopes = ["read"]
oauth_resource = "https://example.com"
startup_timeout_ms = 1_500

[mcp_servers.off]
command = "nothing"
enabled = false
"#,
        );
        assert_eq!((&config.errors, &config.warnings), (&vec![], &vec![]));
        let servers: Vec<_> = config.servers.iter().map(|(_, server)| server.as_ref().unwrap()).collect();
        let [files, wiki] = servers.as_slice() else { panic!("{} servers", servers.len()) };
        let Endpoint::Stdio(stdio) = &files.endpoint else { panic!("files is remote") };
        let literal = "{env:TOKEN} {file:/etc/passwd} {command:id}";
        assert_eq!(stdio.args, ["-y", "files", "pa$$word ${NO}", literal], "Codex expands nothing");
        assert_eq!(stdio.env["A"], "b");
        assert_eq!(stdio.inherit_env, InheritEnv::Named(vec!["TOKEN".to_owned(), "ORG".to_owned()]));
        assert_eq!(files.timeout.initialize, Some(Duration::from_millis(20_500)));
        assert_eq!(files.timeout.tools, Duration::from_secs(1000));
        let globs = |names: &[&str]| names.iter().map(|name| Glob::literal(name)).collect::<Vec<_>>();
        assert_eq!(files.tools.ask, globs(&["write"]));
        assert_eq!(files.tools.allow, [globs(&["read", "write[1]"])]);
        let Endpoint::Http(http) = &wiki.endpoint else { panic!("wiki is local") };
        let header = |name: &str| http.headers.iter().find(|(known, _)| known == name).unwrap().1.as_str();
        assert_eq!(["X-Region", "X-Org", "Authorization"].map(header), ["eu$", "acme", "Bearer t0k3n"]);
        assert_eq!(http.oauth.as_ref().unwrap().scopes, ["read"]);
        assert_eq!(wiki.timeout.initialize, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn the_name_of_a_variable_is_only_a_name() {
        for field in ["bearer_token_env_var = 'NAME'", "env_http_headers = { X = 'NAME' }"] {
            for name in ["TOKEN}{file:secret", "A:-x", "", "{env:ORG", "$"] {
                let text = field.replace("NAME", name);
                let config = load_toml(&format!("[mcp_servers.a]\nurl = 'https://example.com'\n{text}\n"));
                let error = config.servers[0].1.as_ref().unwrap_err();
                assert!(error.message.contains("is not followed by a variable name"), "{text}: {error}");
            }
        }
    }

    #[test]
    fn errors_point_into_the_toml() {
        let config = load_toml("[mcp_servers.a]\ncommand = \"x\"\nargs = 5\n");
        let error = config.servers[0].1.as_ref().unwrap_err();
        assert_eq!(
            (error.at, error.message.as_str()),
            (Some((3, 8)), "`args`: expected a list, found a number")
        );
        let config = load_toml("[mcp_servers.a]\ncommand = x\n");
        assert_eq!(config.errors[0].at, Some((2, 11)), "{}", config.errors[0]);
        assert!(config.errors[0].message.starts_with("not valid TOML: "), "{}", config.errors[0]);
    }

    #[test]
    fn a_change_in_a_table_of_its_own_is_a_change_of_what_is_launched() {
        let text = |value: &str| {
            let config =
                load_toml(&format!("[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a.env]\nA = '{value}'\n"));
            config.servers[0].1.as_ref().unwrap().launch_text.clone()
        };
        assert_ne!(text("1"), text("2"));
        assert_eq!(text("1"), text("1"));
    }
}
