//! The fields in which the entries of one server differ, although they are of one account: how it runs, and how its
//! clients treat it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::accounts::{passes_all, shown_value};
use super::limits::is_stricter;
use super::{Origin, PlannedServer, is_equal};
use crate::clients::apps::ClientApp;
use crate::json::members;
use crate::source::value_at;
use base::text::{joined, visible};

/// Fields whose values are put together, or that say nothing about how the server runs.
const NOT_COMPARED: &[&str] = &["command", "args", "url", "enabled", "tools", "inherit_env", "stateful"];
/// Fields whose members count one by one.
const WITH_MEMBERS: &[&str] = &["env", "headers", "oauth", "timeout"];

/// A field of a server in which an entry differs from the one that counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldDifference {
    /// The field, and within `env` and `headers` the member.
    path: Vec<String>,
    /// The values that clients have, each with the clients.
    values: Vec<(Option<Value>, Vec<String>)>,
    /// The value that counts.
    counts: Option<Value>,
}

impl FieldDifference {
    /// Returns the fields in which the clients' entries of a server differ from the value that counts.
    pub(crate) fn all(server: &PlannedServer) -> Vec<Self> {
        let mut paths = paths(server.origins.iter().map(|origin| &origin.entry));
        // The whole environment, which a server in servers.json does not get.
        let is_withheld = server.is_known && !passes_all(&server.entry);
        if is_withheld && server.origins.iter().any(|origin| passes_all(&origin.entry)) {
            paths.push(vec!["inherit_env".to_owned()]);
        }
        // The version of a package: otherwise the programs are the same.
        let words = server.entry.get("args").and_then(Value::as_array).map_or(0, Vec::len);
        paths.extend((0..words).map(|at| vec!["args".to_owned(), at.to_string()]));
        for (name, _) in members(server.entry.get("timeout")).filter(|_| server.is_known) {
            let cuts_calls = |origin: &Origin| is_stricter(&server.entry, &origin.entry, name);
            let path = vec!["timeout".to_owned(), name.clone()];
            if server.origins.iter().any(cuts_calls) && !paths.contains(&path) {
                paths.push(path);
            }
        }
        let difference = |path: Vec<String>| {
            let is_equal = |one: Option<&Value>, other: Option<&Value>| {
                // Without a type, Streamable HTTP is tried first.
                let set = |value: Option<&Value>| {
                    value.filter(|value| path != ["type"] || **value != "http").cloned()
                };
                is_equal(set(one).as_ref(), set(other).as_ref())
            };
            let counts = field_at(&server.entry, &path).cloned();
            let mut values: Vec<(Option<Value>, Vec<String>)> = Vec::new();
            for origin in &server.origins {
                let value = field_at(&origin.entry, &path).cloned();
                // What only servers.json has was added there, or comes from another client.
                if server.is_known && value.is_none() && !is_timeout(&path) {
                    continue;
                }
                if path == ["inherit_env"] && value != Some(Value::Bool(true)) {
                    continue;
                }
                let label = origin.place();
                match values.iter_mut().find(|(known, _)| is_equal(known.as_ref(), value.as_ref())) {
                    Some((_, clients)) if clients.contains(&label) => {}
                    Some((_, clients)) => clients.push(label),
                    None => values.push((value, vec![label])),
                }
            }
            let differs = values.iter().any(|(value, _)| !is_equal(value.as_ref(), counts.as_ref()));
            differs.then_some(Self { path, values, counts })
        };
        paths.into_iter().filter_map(difference).collect()
    }

    /// Returns the field with the value that each client has.
    fn describe(&self) -> String {
        let value = |(value, clients): &(Option<Value>, Vec<String>)| {
            format!("{} in {}", shown_value(&self.path, value.as_ref()), clients.join(" and "))
        };
        format!("{} is {}", visible(&self.path.join(".")), joined(self.values.iter().map(value)))
    }

    /// Describes the difference, and which value is used. `file`: the name of servers.json, if it has the server
    /// already.
    pub(crate) fn describe_outcome(&self, file: Option<&str>) -> String {
        let (described, counts) = (self.describe(), self.counts.as_ref());
        if let Some(file) = file {
            let counts = shown_value(&self.path, counts);
            return format!("{described}; it is {counts} in {file}, which counts");
        }
        let of = self.values.iter().find(|(value, _)| is_equal(value.as_ref(), counts));
        let of = of.map_or_else(String::new, |(_, clients)| clients.join(" and "));
        format!("{described}; that of {of} counts")
    }

    /// Returns the field with the value that each client has, and the one of this file.
    pub(crate) fn describe_beside(&self, file: &str) -> String {
        format!("{}, {} in {file}", self.describe(), shown_value(&self.path, self.counts.as_ref()))
    }

    /// Those fields of a server in servers.json that are as in none of these clients that has it.
    pub(crate) fn since_import(server: &PlannedServer, apps: &BTreeSet<ClientApp>) -> Vec<Self> {
        let origins = || server.origins.iter().filter(|origin| apps.contains(&origin.app));
        if origins().next().is_none() {
            return Vec::new();
        }
        let has = |path: &[String], value: Option<&Value>| {
            origins().any(|origin| is_equal(field_at(&origin.entry, path), value))
        };
        let is_in_keyring = |value: Option<&Value>| {
            value.and_then(Value::as_str).is_some_and(|text| text.contains("{keyring:"))
        };
        let entries = std::iter::once(&server.entry).chain(origins().map(|origin| &origin.entry));
        let paths = paths(entries);
        let difference = |path: Vec<String>| {
            let counts = field_at(&server.entry, &path).cloned();
            // What a locked keyring has is not known.
            if has(&path, counts.as_ref()) || is_in_keyring(counts.as_ref()) {
                return None;
            }
            let value = |origin: &Origin| (field_at(&origin.entry, &path).cloned(), vec![origin.place()]);
            let values = origins().map(value);
            Some(Self { values: values.collect(), counts, path })
        };
        paths.into_iter().filter_map(difference).collect()
    }
}

/// Returns the fields of entries that are compared. A field that is an object is compared member by member.
fn paths<'e>(entries: impl Iterator<Item = &'e Map<String, Value>>) -> Vec<Vec<String>> {
    let compared = entries.flatten().filter(|(field, _)| !NOT_COMPARED.contains(&field.as_str()));
    let all = compared.flat_map(|(field, value)| match value {
        Value::Object(members) if WITH_MEMBERS.contains(&field.as_str()) => {
            members.keys().map(|member| vec![field.clone(), member.clone()]).collect()
        }
        _ => vec![vec![field.clone()]],
    });
    let mut paths = Vec::new();
    for path in all {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

fn field_at<'e>(entry: &'e Map<String, Value>, path: &[String]) -> Option<&'e Value> {
    let (field, members) = path.split_first()?;
    value_at(entry.get(field)?, members)
}

fn is_timeout(path: &[String]) -> bool {
    path.first().is_some_and(|field| field == "timeout")
}
