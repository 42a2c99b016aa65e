//! Fuzz target: which group a name, a URI or a task belongs to.
#![allow(clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use crate::names::exposed_names::ExposedNames;
use crate::names::origins::{self, Origins};
use crate::names::uri_owner;
use config::GroupName;
use std::collections::BTreeMap;
use upstream::catalog::entries::{ListEntries, ListEntry};
use upstream::connection::task_ids;
use wire::{Raw, raw};

/// Lines of `GROUP NAME`: the name is that of a tool, a resource, a template and a task. Checks that every name and URI
/// that a client sees leads back to the group and the name that it was made of.
pub fn routing(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let pairs: Vec<(GroupName, &str)> = text
        .split('\n')
        .take(32)
        .map(|line| line.split_once(' ').unwrap_or((line, line)))
        .map(|(group, name)| (GroupName::new(group), name))
        .collect();
    check_names(&pairs);
    let mut lists: Vec<(GroupName, Vec<ListEntry>)> = Vec::new();
    for (group, name) in &pairs {
        check_task_id(group, name);
        check_origin(group, name);
        let definition = serde_json::json!({ "uri": name, "x": 1.0 }).to_string().into();
        let entry = ListEntry { key: (*name).to_owned(), definition };
        match lists.iter_mut().find(|(known, _)| known == group) {
            Some((_, list)) if list.iter().any(|listed| listed.key == *name) => {}
            Some((_, list)) => list.push(entry),
            None => lists.push((group.clone(), vec![entry])),
        }
    }
    let lists: Vec<_> = lists.into_iter().map(|(group, list)| (group, ListEntries::from(list))).collect();
    check_uris(&lists);
}

/// Names of tools: short, plain, and each with one owner.
fn check_names(pairs: &[(GroupName, &str)]) {
    let groups: Vec<GroupName> = pairs.iter().map(|(group, _)| group.clone()).collect();
    let names = ExposedNames::new(&groups, pairs.iter().map(|(group, name)| (group, *name)));
    let mut owners: BTreeMap<&str, (&GroupName, &str)> = BTreeMap::new();
    for (group, name) in pairs {
        // Another name may have the same hash.
        let Some(exposed) = names.exposed(group, name) else { continue };
        assert!(exposed.len() <= 46, "{exposed} is too long");
        assert!(exposed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
        assert_eq!(names.resolve(exposed), Some((group.clone(), (*name).to_owned())));
        assert_eq!(*owners.entry(exposed).or_insert((group, name)), (group, *name));
    }
}

/// Ids of tasks need no table.
fn check_task_id(group: &GroupName, id: &str) {
    let exposed = task_ids::exposed(group, id);
    assert_eq!(task_ids::parse(&exposed), Some((group.as_str().to_owned(), id)));
    let object: Raw = serde_json::json!({ "taskId": id, "x": 1.0 }).to_string().into();
    assert_eq!(raw::get_str(&task_ids::expose(group, &object), "taskId"), Some(exposed));
}

/// A URI in a result is remembered as it is.
fn check_origin(group: &GroupName, uri: &str) {
    let mut origins = Origins::default();
    let result = serde_json::json!({ "content": [{ "uri": uri }] }).to_string();
    origins.record(group, origins::uris(&result.into()));
    let is_kept = uri.len() <= origins::MAX_LENGTH;
    assert_eq!(origins.groups(uri).collect::<Vec<_>>(), if is_kept { vec![group] } else { vec![] });
}

/// Every listed URI leads to its group: as it is, or rewritten.
fn check_uris(lists: &[(GroupName, ListEntries)]) {
    let merged = uri_owner::merge(lists, &[], "uri");
    let listed = || lists.iter().flat_map(|(group, list)| list.iter().map(move |entry| (group, entry)));
    assert_eq!(merged.len(), listed().count());
    for ((group, entry), definition) in listed().zip(&merged) {
        let uri = raw::get_str(definition, "uri").expect("a URI");
        assert_eq!(uri, uri_owner::client_uri(group, &entry.key, lists));
        assert_eq!(raw::get(definition, "x"), raw::get(&entry.definition, "x"));
        let owner = uri_owner::owner(&entry.key, lists, lists);
        if uri == entry.key {
            assert_eq!(owner, Some(group));
        } else if uri_owner::keeps_scheme(&entry.key) {
            let parsed = uri_owner::parse_kept_scheme(&uri, lists);
            assert_eq!(parsed, Some((group, entry.key.clone())));
        } else {
            let parsed = uri_owner::parse_rewritten(&uri);
            assert_eq!(parsed, Some((group.as_str().to_owned(), entry.key.clone())));
        }
    }
}
