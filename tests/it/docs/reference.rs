//! The lists of fields in docs/configuration.md.
//!
//! A list has each field with its default and the first sentence of its description. It stands between `<!-- reference: TYPE FIELDS -->`, with a type of the schema and names of its fields, and
//! `<!-- end of the reference -->`. `*` are the fields of the type that no other list of the page has.

use std::collections::BTreeSet;
use std::path::Path;

use config::file::SCHEMA;
use config::load::load;

use config::env::Env;
use config::{Config, LaunchText, Overrides};
use serde_json::{Map, Value, json};

const BEGIN: &str = "<!-- reference: ";
const END: &str = "<!-- end of the reference -->";

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// The fields of a type of the schema.
fn fields<'s>(schema: &'s Value, type_name: &str) -> &'s Map<String, Value> {
    schema["$defs"][type_name]["properties"].as_object().unwrap_or_else(|| panic!("no type {type_name}"))
}

#[test]
fn the_lists_of_the_configuration_page_are_made_from_the_schema() {
    let path = super::root().join("docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let schema = schema();
    let markers: Vec<(&str, Vec<&str>)> = page
        .split(BEGIN)
        .skip(1)
        .map(|rest| rest.split(" -->").next().unwrap())
        .map(|marker| marker.split_once(' ').unwrap())
        .map(|(type_name, names)| (type_name, names.split(' ').collect()))
        .collect();
    let mut rendered = String::new();
    let mut rest = &*page;
    for (type_name, names) in &markers {
        let elsewhere: BTreeSet<&str> = markers
            .iter()
            .filter(|(other, _)| other == type_name)
            .flat_map(|(_, names)| names.clone())
            .collect();
        let all = fields(&schema, type_name);
        let unnamed = all.keys().map(String::as_str).filter(|name| !elsewhere.contains(name));
        let names: Vec<&str> = if names[..] == ["*"] { unnamed.collect() } else { names.clone() };
        let (before, after) = rest.split_once(BEGIN).unwrap();
        let (marker, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once(END).unwrap();
        let rows = rows(&schema, type_name, &names, all);
        rendered += &format!("{before}{BEGIN}{marker} -->\n{rows}{END}");
        rest = after;
    }
    rendered += rest;
    for type_name in [
        "ServerEntry",
        "SettingsEntry",
        "OAuthEntry",
        "TimeoutEntry",
        "FeaturesEntry",
        "ToolsEntry",
        "ToolOverrideEntry",
        "ProfileEntry",
        "ProfileToolsEntry",
    ] {
        let of_type = || markers.iter().filter(|(other, _)| *other == type_name).flat_map(|(_, names)| names);
        let is_complete = of_type().any(|name| *name == "*")
            || fields(&schema, type_name).keys().all(|name| of_type().any(|named| named == name));
        assert!(is_complete, "docs/configuration.md has no list with some fields of {type_name}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, rendered).unwrap();
    } else {
        assert!(
            page == rendered,
            "the lists of docs/configuration.md are out of date: UPDATE_DOCS=1 cargo test --test it docs::reference"
        );
    }
}

/// The lines of a list. The settings that are defaults of a server's fields share the last one.
fn rows(schema: &Value, type_name: &str, names: &[&str], all: &Map<String, Value>) -> String {
    let is_default = |name: &&str| {
        type_name == "SettingsEntry" && fields(schema, "ServerEntry").get(*name) == all.get(*name)
    };
    let (defaults, own): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(is_default);
    let mut rows: String = own.iter().map(|name| row(name, &all[*name])).collect();
    if !defaults.is_empty() {
        let defaults: Vec<_> = defaults.iter().map(|name| format!("`{name}`")).collect();
        rows +=
            &format!("- {}: as in [a server's entry](#all-servers), for all servers.\n", defaults.join(", "));
    }
    rows
}

/// A line of a list.
fn row(name: &str, field: &Value) -> String {
    let default = field.get("default").map(|value| format!(" (`{value}`)")).unwrap_or_default();
    let text = field["description"].as_str().unwrap().replace('\n', " ");
    let sentence = text.split_once(". ").map_or_else(|| text.trim_end_matches('.'), |(first, _)| first);
    format!("- `{name}`{default}: {sentence}.\n")
}

/// Loads a config from a directory that has the files that the examples name.
fn load_in(dir: &Path, config: &Value) -> Config {
    let path = dir.join("servers.json");
    std::fs::write(&path, config.to_string()).unwrap();
    let variables =
        [("HOME", "/home/user"), ("GITHUB_TOKEN", "t"), ("WIKI_TOKEN", "t"), ("CLIENT_SECRET", "s")];
    let mut config = load(&[path], &Env::new(variables, dir), &Overrides::default());
    config.referenced.clear();
    // The entry's text, which differs from that of an equal entry that is written otherwise.
    for server in config.servers.iter_mut().filter_map(|(_, server)| server.as_mut().ok()) {
        std::sync::Arc::make_mut(server).launch_text = LaunchText::default();
    }
    config
}

/// Everything that is wrong with a config.
pub(super) fn messages(config: &Config) -> Vec<String> {
    let servers = config.servers.iter().filter_map(|(_, server)| server.as_ref().err());
    config
        .errors
        .iter()
        .chain(servers)
        .cloned()
        .chain(config.all_warnings())
        .map(|error| error.to_string())
        .collect()
}

/// The defaults of a type, and of the types of its fields.
fn defaults(schema: &Value, type_name: &str) -> Value {
    let of_field = |(name, field): (&String, &Value)| {
        let inner =
            field["anyOf"][0]["$ref"].as_str().map(|reference| reference.trim_start_matches("#/$defs/"));
        let inner = inner.filter(|inner| schema["$defs"][inner]["properties"].is_object());
        let value = field.get("default").cloned().or_else(|| inner.map(|inner| defaults(schema, inner)));
        Some((name.clone(), value?))
    };
    Value::Object(fields(schema, type_name).iter().filter_map(of_field).collect())
}

#[test]
fn the_defaults_of_the_schema_are_those_of_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let schema = schema();
    let mut settings = defaults(&schema, "SettingsEntry");
    let server = defaults(&schema, "ServerEntry");
    assert!(
        settings["timeout"]["tools"] == 300 && server["oauth"]["require_pkce"] == true,
        "{settings} {server}"
    );
    let config = |local: &Value, remote: &Value, settings: &Value| {
        let mut servers =
            json!({"local": {"command": "true"}, "remote": {"url": "https://example.com", "oauth": {}}});
        servers["local"].as_object_mut().unwrap().extend(local.as_object().unwrap().clone());
        servers["remote"].as_object_mut().unwrap().extend(remote.as_object().unwrap().clone());
        load_in(dir.path(), &json!({"mcpServers": servers, "settings": settings}))
    };
    let none = json!({});
    let unset = config(&none, &none, &none);
    assert_eq!(messages(&unset), Vec::<String>::new());
    assert!(config(&none, &none, &settings) == unset, "{settings}");
    for (name, value) in server.as_object().unwrap() {
        let field = json!({name: value});
        let (local, remote) = match name.as_str() {
            "oauth" => (&none, &field),
            "inherit_env" => (&field, &none),
            _ => (&field, &field),
        };
        assert!(config(local, remote, &none) == unset, "{field}");
    }
    // Each default is one that the comparison sees.
    settings["timeout"]["list"] = json!(6);
    assert!(config(&none, &none, &settings) != unset);
}

#[test]
fn the_examples_of_the_schema_load_and_satisfy_it() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["github.env", "key.pem", "company-ca.pem"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let base = [json!({"command": "true"}), json!({"url": "https://example.com"}), json!({})];
    let with = |base: &Value, name: &str, value: &Value| {
        let mut entry = base.clone();
        entry[name] = value.clone();
        entry
    };
    let profiled =
        |profile: Value| json!({"mcpServers": {"github": {"command": "true"}}, "profiles": {"p": profile}});
    let mut examples = 0;
    for (type_name, inside) in [
        ("ServerEntry", None),
        ("SettingsEntry", None),
        ("OAuthEntry", Some("oauth")),
        ("TimeoutEntry", Some("timeout")),
        ("FeaturesEntry", Some("features")),
        ("ToolsEntry", Some("tools")),
        ("ProfileEntry", None),
        ("ProfileToolsEntry", None),
    ] {
        for (name, field) in fields(&schema, type_name) {
            for example in field["examples"].as_array().into_iter().flatten() {
                examples += 1;
                let object = inside.map_or_else(
                    || (name.as_str(), example.clone()),
                    |outer| (outer, json!({name: example})),
                );
                let problems = |base: &Value| {
                    let entry = with(base, object.0, &object.1);
                    let config = match type_name {
                        "SettingsEntry" => json!({"settings": entry}),
                        "ProfileEntry" => profiled(entry),
                        "ProfileToolsEntry" => profiled(json!({"tools": {"github": entry}})),
                        _ => json!({"mcpServers": {"s": entry}}),
                    };
                    let mut problems = messages(&load_in(dir.path(), &config));
                    problems.extend(validator.iter_errors(&config).map(|error| error.to_string()));
                    problems
                };
                let tried: Vec<_> = base.iter().map(problems).collect();
                assert!(tried.iter().any(Vec::is_empty), "{type_name}.{name}: {example}: {tried:#?}");
            }
        }
    }
    assert!(examples > 30, "{examples}");
}
