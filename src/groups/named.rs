//! Which group last named a URI in a result: a URI that stands in no list can still be read where it came from.

use crate::config::GroupName;
use crate::wire::Raw;
use memchr::memmem;
use std::collections::{HashMap, VecDeque};

/// URIs remembered.
const REMEMBERED: usize = 1000;
/// URIs taken from one result.
const FROM_ONE_RESULT: usize = 100;

#[derive(Debug, Default)]
pub struct Named {
    groups: HashMap<String, GroupName>,
    order: VecDeque<String>,
}

impl Named {
    pub fn note(&mut self, group: &GroupName, result: &Raw) {
        for uri in uris(result) {
            if self.groups.insert(uri.clone(), group.clone()).is_none() {
                self.order.push_back(uri);
            }
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.groups.remove(&oldest);
            }
        }
    }

    pub fn group(&self, uri: &str) -> Option<&GroupName> {
        self.groups.get(uri)
    }
}

/// The values of members called `uri`, wherever they stand.
fn uris(result: &Raw) -> Vec<String> {
    let found = memmem::find_iter(result, b"\"uri\"").filter_map(|at| {
        let value = result[at + 5..].trim_ascii_start().strip_prefix(b":")?;
        serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()
    });
    found.take(FROM_ONE_RESULT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_in_results_are_remembered_and_the_oldest_forgotten() {
        let mut named = Named::default();
        let group = GroupName::new("g");
        let result = r#"{"content":[{"type":"resource_link","uri" : "x://\u00e9","n":1},{"resource":{"uri":"y://2"}}],"uri":3}"#;
        named.note(&group, &Raw::from(result));
        assert_eq!(named.group("x://é"), Some(&group));
        assert_eq!(named.group("y://2"), Some(&group));
        for n in 0..REMEMBERED {
            named.note(&group, &Raw::from(format!(r#"{{"uri":"z://{n}"}}"#)));
        }
        assert_eq!((named.group("x://é"), named.groups.len()), (None, REMEMBERED));
    }
}
