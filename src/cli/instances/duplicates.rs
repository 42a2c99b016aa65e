//! Finds private servers that several instances run alike, and what keeps them apart. Read from /proc, because the
//! instances do not know of each other.

use super::memory::ProcessTree;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The prefix of the variables that dynamic-mcp itself sets. They keep nobody apart.
const OWN_PREFIX: &[u8] = b"DYNAMIC_MCP_";

/// What a process was started with. Not `Debug`: the values of variables may be secrets.
struct StartedWith {
    cwd: PathBuf,
    /// The variables by name.
    env: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl StartedWith {
    fn read(pid: u32) -> Option<Self> {
        let env = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let entries = env.split(|byte| *byte == 0).filter_map(|entry| {
            let equals = entry.iter().position(|byte| *byte == b'=')?;
            Some((entry[..equals].to_vec(), entry[equals + 1..].to_vec()))
        });
        Some(Self {
            cwd: fs::read_link(format!("/proc/{pid}/cwd")).ok()?,
            env: entries.filter(|(name, _)| !name.starts_with(OWN_PREFIX)).collect(),
        })
    }

    /// Adds the names of the variables that differ.
    fn add_differences(&self, other: &Self, names: &mut BTreeSet<String>) {
        let all: BTreeSet<&Vec<u8>> = self.env.keys().chain(other.env.keys()).collect();
        let differ = all.into_iter().filter(|name| self.env.get(*name) != other.env.get(*name));
        names.extend(differ.map(|name| String::from_utf8_lossy(name).into_owned()));
    }
}

/// Returns the private servers that run more than once with the same command line under the same name: how often, their
/// memory, whether their directories differ, and the names of the variables that do.
///
/// `groups` are the groups of all instances, as `get_status` reports them.
pub fn find<'v>(groups: impl Iterator<Item = &'v Value>, tree: &ProcessTree) -> Vec<Value> {
    let mut by_command: BTreeMap<(String, Vec<u8>), Vec<u32>> = BTreeMap::new();
    for group in groups.filter(|group| group["shared"] == false) {
        let Some(pid) = group["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()) else { continue };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !command.is_empty() {
            let name = group["group"].as_str().unwrap_or_default().to_owned();
            by_command.entry((name, command)).or_default().push(pid);
        }
    }
    let duplicates = by_command.into_iter().filter(|(_, pids)| pids.len() > 1);
    duplicates
        .map(|((group, _), pids)| {
            let started: Vec<StartedWith> = pids.iter().filter_map(|pid| StartedWith::read(*pid)).collect();
            let mut variables = BTreeSet::new();
            for pair in started.windows(2) {
                pair[0].add_differences(&pair[1], &mut variables);
            }
            let other_directory = started.windows(2).any(|pair| pair[0].cwd != pair[1].cwd);
            json!({
                "group": group,
                "pids": pids,
                "memoryBytes": pids.iter().filter_map(|pid| tree.memory(*pid)).sum::<u64>(),
                "share": if other_directory { "user" } else { "directory" },
                "differentVariables": variables,
            })
        })
        .collect()
}

/// The line about one of them.
pub fn line(duplicate: &Value) -> String {
    let variables: Vec<&str> =
        duplicate["differentVariables"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let apart = match &variables[..] {
        [] => String::new(),
        names => format!("; these variables differ and would keep them apart: {}", names.join(", ")),
    };
    format!(
        "{} runs {} times ({} MB): if it keeps no state between calls and asks its client nothing, \
         add \"share\": {} to its entry{apart}\n",
        duplicate["group"].as_str().unwrap_or_default(),
        duplicate["pids"].as_array().map_or(0, Vec::len),
        duplicate["memoryBytes"].as_u64().unwrap_or_default() >> 20,
        duplicate["share"],
    )
}
