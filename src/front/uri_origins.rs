//! Remembers which group's result last named a URI, so that a URI that is in no list can be read from that group.

use crate::config::GroupName;
use crate::wire::Raw;
use memchr::memmem;
use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

/// How many URIs are remembered. The oldest are forgotten.
const MAX_URIS: usize = 1000;
/// How many URIs are taken from one result.
const MAX_PER_RESULT: usize = 100;

/// The group of each remembered URI.
#[derive(Debug, Default)]
pub struct UriOrigins {
    /// The group of each URI.
    groups: HashMap<String, GroupName>,
    /// The URIs, the oldest first.
    order: VecDeque<String>,
}

impl UriOrigins {
    /// Remembers URIs that a result of `group` names.
    pub fn record(&mut self, group: &GroupName, uris: Vec<String>) {
        for uri in uris {
            if self.groups.insert(uri.clone(), group.clone()).is_none() {
                self.order.push_back(uri);
            }
        }
        while self.order.len() > MAX_URIS {
            if let Some(oldest) = self.order.pop_front() {
                self.groups.remove(&oldest);
            }
        }
    }

    /// Returns the group whose result named `uri` last.
    pub fn group(&self, uri: &str) -> Option<&GroupName> {
        self.groups.get(uri)
    }
}

/// The values of all members called `uri`, at any depth.
pub fn uris(result: &Raw) -> Vec<String> {
    static KEY: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\"uri\""));
    let found = KEY.find_iter(result).filter_map(|at| {
        let value = result[at + 5..].trim_ascii_start().strip_prefix(b":")?;
        serde_json::Deserializer::from_slice(value).into_iter::<String>().next()?.ok()
    });
    found.take(MAX_PER_RESULT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_in_results_are_remembered_and_the_oldest_are_forgotten() {
        let mut origins = UriOrigins::default();
        let group = GroupName::new("g");
        let result = r#"{"content":[{"type":"resource_link","uri" : "x://\u00e9","n":1},{"resource":{"uri":"y://2"}}],"uri":3}"#;
        origins.record(&group, uris(&Raw::from(result)));
        assert_eq!(origins.group("x://é"), Some(&group));
        assert_eq!(origins.group("y://2"), Some(&group));
        for n in 0..MAX_URIS {
            origins.record(&group, vec![format!("z://{n}")]);
        }
        assert_eq!((origins.group("x://é"), origins.groups.len()), (None, MAX_URIS));
    }
}
