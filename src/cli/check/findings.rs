//! What to know about a server that works: of its tools, and of how it is started.

use base::text::{joined_up_to, quoted, shorten, visible};
use config::secrets::SecretSource;
use front::errors::changed_tools;
use front::names::exposed_names::MAX_LENGTH;
use serde_json::Value;
use upstream::{Tool, Upstream};
use wire::Raw;

/// How many characters of a tool's name a finding shows.
const MAX_SHOWN: usize = 64;
/// How many tools a finding names.
const MAX_NAMED: usize = 5;

/// Returns what to know about a server with these tools.
pub(super) fn of(group: &Upstream, tools: &[(&Tool, &Raw)]) -> Vec<String> {
    let definitions: Vec<(&str, Value)> = tools
        .iter()
        .filter_map(|(tool, raw)| Some((tool.name.as_str(), serde_json::from_slice(raw).ok()?)))
        .collect();
    let snapshot = group.snapshot();
    let Some(server) = snapshot.server.as_deref() else { return Vec::new() };
    let config = changed_tools::config_option(server);
    let mut findings = of_definitions(group.name.as_str(), &config, &definitions);
    findings.extend(snapshot.catalog.as_ref().and_then(|catalog| catalog.left_off.text()));
    findings.extend(snapshot.findings_for_owner());
    let changes = snapshot.pins.changes();
    let changed = changes.tools.keys().map(String::as_str).filter(|tool| snapshot.rules.allows_own(tool));
    findings.extend(finding_about(changed, |tools| {
        let approve = changed_tools::approve_command(&group.name, server, None);
        format!("changed since first seen: {tools}; review them, then run `{approve}`")
    }));
    let sources = server.secrets.sources();
    let commands = sources.filter(|(_, source)| matches!(source, SecretSource::Command(_)));
    findings
        .extend(commands.map(|(place, source)| format!("runs a command for a secret: {place}: {source}")));
    findings
}

/// Returns what to know about tools with these definitions. `config`: the option that names the config file.
fn of_definitions(group: &str, config: &str, definitions: &[(&str, Value)]) -> Vec<String> {
    let select = |is_meant: fn(&str, &str, &Value) -> bool| {
        let meant = definitions.iter().filter(move |(name, definition)| is_meant(group, name, definition));
        meant.map(|(name, _)| *name)
    };
    let silent = select(|_, _, definition| {
        definition["description"].as_str().is_none_or(|text| text.trim().is_empty())
    });
    let vague = select(|_, _, definition| says_nothing(&definition["inputSchema"]));
    let long = select(|group, name, _| group.len() + "__".len() + name.len() > MAX_LENGTH);
    let hidden = select(|_, _, definition| has_invisible_characters(definition));
    let found = [
        finding_about(silent, |tools| {
            format!("without a description, so models and search hardly find them: {tools}")
        }),
        finding_about(vague, |tools| format!("an input schema that does not say what to pass: {tools}")),
        finding_about(long, |tools| {
            format!(
                "longer than {MAX_LENGTH} characters with the server's name before it, so clients see a shortened name where \
                 they list it: {tools}; give the server a shorter name in the config"
            )
        }),
        finding_about(hidden, |tools| {
            format!(
                "characters in the definition that people do not see and models do: {tools}; read it with `dynamic-mcp \
                 tools {group} TOOL{config}`, and put the tool into `tools.deny` if you do not trust it"
            )
        }),
    ];
    found.into_iter().flatten().collect()
}

/// Returns a finding about these tools, if there are any.
fn finding_about<'t>(
    tools: impl Iterator<Item = &'t str>,
    text: impl FnOnce(&str) -> String,
) -> Option<String> {
    let shown = joined_up_to(MAX_NAMED, tools.map(|tool| quoted(&shorten(tool, MAX_SHOWN))));
    (!shown.is_empty()).then(|| text(&shown))
}

/// Returns whether a schema leaves open what to pass: it lists no parameters and does not say that there are none, or
/// says nothing of one of them.
fn says_nothing(schema: &Value) -> bool {
    let is_composed = ["$ref", "oneOf", "anyOf", "allOf"].iter().any(|key| schema.get(key).is_some());
    match schema["properties"].as_object() {
        Some(properties) => properties.values().any(|one| one.as_object().is_some_and(|one| one.is_empty())),
        None => !is_composed && schema["additionalProperties"] != false,
    }
}

/// Returns whether one of the texts in a definition has characters without a glyph. Line ends and tabs lay texts out.
fn has_invisible_characters(value: &Value) -> bool {
    match value {
        Value::String(text) => text.split(['\n', '\r', '\t']).any(|part| visible(part) != part),
        Value::Array(list) => list.iter().any(has_invisible_characters),
        Value::Object(members) => {
            members.iter().any(|(key, value)| visible(key) != *key || has_invisible_characters(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(definition: &Value) -> String {
        of_definitions("g", "", &[(definition["name"].as_str().unwrap(), definition.clone())]).join("\n")
    }

    #[test]
    fn only_what_is_doubtful_is_found() {
        let good = json!({
            "name": "a", "description": "Reads.\n\n\tAll \u{1f468}\u{200d}\u{1f469} of it.",
            "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
        });
        assert_eq!(found(&good), "");
        let with = |key: &str, value: Value| {
            let mut changed = good.clone();
            changed[key] = value;
            changed
        };
        for (changed, expected) in [
            (with("description", json!(" ")), "without a description"),
            (with("inputSchema", json!({"type": "object"})), "does not say what to pass"),
            (with("inputSchema", json!({"properties": {"x": {}}})), "does not say what to pass"),
            (with("name", json!("n".repeat(62))), "longer than 46 characters"),
            (with("description", json!("Reads.\u{202e}")), "people do not see"),
            (with("annotations", json!({"title": "\u{e0041}"})), "people do not see"),
        ] {
            let found = found(&changed);
            assert!(found.contains(expected) && found.lines().count() == 1, "{changed}: {found}");
        }
        for schema in [
            json!({"type": "object", "properties": {}}),
            json!({"type": "object", "additionalProperties": false}),
            json!({"$ref": "#/$defs/x"}),
        ] {
            assert_eq!(found(&with("inputSchema", schema)), "");
        }
    }

    #[test]
    fn a_finding_names_five_tools_at_most() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let text = finding_about(names.into_iter(), |tools| format!("these: {tools}"));
        assert_eq!(text.unwrap(), r#"these: "a", "b", "c", "d", "e" and 2 more"#);
    }
}
