//! What a client's file had beside its servers, if the file was removed and made again since.
//!
//! A file that has our entry no more was made again, or somebody removed the entry by hand. In both cases, what is there
//! no more is named and stays in the record. A value that is another one now counts as gone only if nothing of the old
//! content stayed, because clients change values of their own in files that they keep.

use serde_json::{Map, Value};

use crate::clients::apps::is_own_entry;
use crate::files::change_record::{ChangeRecord, OtherContent};
use crate::source::value_at;

/// Returns the content of the old text that is not in the file now, but for the servers of the record.
pub(super) fn other_content(record: &ChangeRecord, root: &Value, old_root: &Value) -> Vec<OtherContent> {
    let mut comparison = Comparison { record, missing: Vec::new(), differing: Vec::new(), has_equal: false };
    if record.is_incomplete() {
        // The old text has only what is not back.
        for content in &record.content {
            let old = value_at(old_root, &content.keys).and_then(Value::as_object);
            let now = value_at(root, &content.keys);
            for (name, old) in old.into_iter().flatten().filter(|(name, _)| content.names.contains(name)) {
                if now.and_then(|now| now.get(name)) != Some(old) {
                    add(&mut comparison.missing, &content.keys, name);
                }
            }
        }
        return comparison.missing;
    }
    let has_own = |keys: &[String]| {
        let servers = value_at(root, keys).and_then(Value::as_object);
        servers.is_some_and(|servers| servers.values().any(is_own_entry))
    };
    if let (Some(old), Some(now)) = (old_root.as_object(), root.as_object())
        && !record.places.iter().any(|place| has_own(&place.keys))
    {
        comparison.compare(&mut Vec::new(), old, now);
    }
    if !comparison.has_equal {
        comparison.missing.append(&mut comparison.differing);
    }
    comparison.missing
}

struct Comparison<'a> {
    record: &'a ChangeRecord,
    missing: Vec<OtherContent>,
    differing: Vec<OtherContent>,
    /// Whether a value is as it was.
    has_equal: bool,
}

impl Comparison<'_> {
    fn compare(&mut self, keys: &mut Vec<String>, old: &Map<String, Value>, now: &Map<String, Value>) {
        for (name, old) in old.iter().filter(|(_, old)| !old.as_object().is_some_and(Map::is_empty)) {
            if self.is_of_record(keys, name, old) {
                continue;
            }
            match (old, now.get(name)) {
                (Value::Object(old), now)
                    if self.leads_to_servers(keys, name) || now.is_some_and(Value::is_object) =>
                {
                    let nothing = Map::new();
                    keys.push(name.clone());
                    self.compare(keys, old, now.and_then(Value::as_object).unwrap_or(&nothing));
                    keys.pop();
                }
                (_, None) => add(&mut self.missing, keys, name),
                (old, Some(now)) if old == now => self.has_equal = true,
                _ => add(&mut self.differing, keys, name),
            }
        }
    }

    /// Returns whether a member is a server that the record has, or our entry.
    fn is_of_record(&self, keys: &[String], name: &String, value: &Value) -> bool {
        let mut places = self.record.places.iter().filter(|place| place.keys == keys);
        places.any(|place| place.removed.contains(name) || is_own_entry(value))
    }

    fn leads_to_servers(&self, keys: &[String], name: &String) -> bool {
        let path: Vec<&String> = keys.iter().chain([name]).collect();
        let mut places = self.record.places.iter().map(|place| place.keys.iter().collect::<Vec<_>>());
        places.any(|place| place.starts_with(&path))
    }
}

fn add(content: &mut Vec<OtherContent>, keys: &[String], name: &str) {
    match content.iter_mut().find(|known| known.keys == keys) {
        Some(known) => known.names.push(name.to_owned()),
        None => content.push(OtherContent { keys: keys.to_vec(), names: vec![name.to_owned()] }),
    }
}
