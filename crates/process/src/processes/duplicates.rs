//! Private servers that several instances run alike, and what keeps them apart.

use super::ProcessTree;
use base::procfs;
use base::text::shell_word;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

/// The prefix of the variables that dynamic-mcp itself sets. Servers that differ only in these are equal.
const OWN_PREFIX: &[u8] = b"DYNAMIC_MCP_";

/// A running server of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateServer {
    /// The group.
    pub group: String,
    /// The process.
    pub pid: u32,
    /// Whether the config shares it. It is private all the same.
    pub is_configured: bool,
}

/// A server that runs several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateServer {
    /// The group.
    pub group: String,
    /// Its processes.
    pids: Vec<u32>,
    /// Their memory, in bytes.
    memory: u64,
    /// Whether they run in different directories.
    directories_differ: bool,
    /// The names of the variables that differ.
    variables: BTreeSet<String>,
    /// Whether the config shares it.
    is_configured: bool,
}

/// Returns the servers that several instances run with the same command line under the same name.
pub fn among(servers: impl IntoIterator<Item = PrivateServer>, tree: &ProcessTree) -> Vec<DuplicateServer> {
    let mut by_command: BTreeMap<(String, Vec<OsString>), Vec<PrivateServer>> = BTreeMap::new();
    for server in servers {
        if let Some(command) = command_line(server.pid) {
            by_command.entry((server.group.clone(), command)).or_default().push(server);
        }
    }
    let found = by_command.into_values().filter_map(|servers| {
        let pids = servers.iter().map(|server| server.pid).collect();
        DuplicateServer::of(servers.first()?, pids, tree)
    });
    found.collect()
}

/// Returns one instance's servers whose command line other instances run as well.
pub fn of_instance(servers: &[PrivateServer], tree: &ProcessTree) -> Vec<DuplicateServer> {
    let running: Vec<_> = tree.private_servers().filter_map(|pid| Some((pid, command_line(pid)?))).collect();
    let found = servers.iter().filter_map(|server| {
        let command = command_line(server.pid)?;
        let own = |pid: u32| servers.iter().any(|other| other.pid == pid);
        let others = running.iter().filter(|(pid, other)| *other == command && !own(*pid));
        let pids = std::iter::once(server.pid).chain(others.map(|(pid, _)| *pid)).collect();
        DuplicateServer::of(server, pids, tree)
    });
    found.collect()
}

fn command_line(pid: u32) -> Option<Vec<OsString>> {
    procfs::cmdline(pid).ok().filter(|command| !command.is_empty())
}

impl DuplicateServer {
    /// Compares the processes of a server. `None` if it runs only once.
    fn of(server: &PrivateServer, mut pids: Vec<u32>, tree: &ProcessTree) -> Option<Self> {
        let mut started = Vec::new();
        pids.retain(|pid| StartedWith::read(*pid).map(|with| started.push(with)).is_some());
        if pids.len() < 2 {
            return None;
        }
        let mut variables = BTreeSet::new();
        for pair in started.windows(2) {
            pair[0].add_differences(&pair[1], &mut variables);
        }
        Some(Self {
            group: server.group.clone(),
            memory: pids.iter().filter_map(|pid| tree.memory(*pid)).sum(),
            directories_differ: started.windows(2).any(|pair| pair[0].cwd != pair[1].cwd),
            pids,
            variables,
            is_configured: server.is_configured,
        })
    }

    /// Returns the value of `share` that makes them one, if the variables do not differ. `None`: the config shares it
    /// already.
    fn share(&self) -> Option<&'static str> {
        let share = if self.directories_differ { "user" } else { "directory" };
        (!self.is_configured).then_some(share)
    }

    /// Returns it as JSON.
    pub fn json(&self) -> Value {
        json!({
            "group": self.group,
            "pids": self.pids,
            "memoryBytes": self.memory,
            "share": self.share(),
            "differentVariables": self.variables,
        })
    }

    /// Returns what to tell about it, after the name of the group.
    pub fn text(&self) -> String {
        let start = format!(
            "runs {} times for your instances ({} MB)",
            self.pids.len(),
            self.memory.div_ceil(1_000_000)
        );
        let server = shell_word(&self.group).unwrap_or_default();
        let advice = format!(
            "if it keeps no state between calls and asks its client nothing, which `dynamic-mcp check --share {server}` tries,"
        );
        let names = self.variables.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match (self.share(), names.is_empty()) {
            (Some(share), true) => format!("{start}: {advice} add \"share\": {share:?} to its entry"),
            (Some(share), false) => format!(
                "{start}: {advice} add \"share\": {share:?} to its entry; these variables differ and would keep them \
                 apart: {names}"
            ),
            (None, true) => format!("{start} although its entry shares it; the log at level debug says why"),
            (None, false) => {
                format!(
                    "{start} although its entry shares it; these variables differ and keep them apart: {names}"
                )
            }
        }
    }
}

/// What a process was started with. Not `Debug`: the values of variables may be secrets.
struct StartedWith {
    cwd: PathBuf,
    /// The variables by name.
    env: BTreeMap<OsString, OsString>,
}

impl StartedWith {
    fn read(pid: u32) -> Option<Self> {
        let is_own = |name: &OsString| name.as_encoded_bytes().starts_with(OWN_PREFIX);
        Some(Self {
            cwd: procfs::link(pid, "cwd").ok()?,
            env: procfs::environ(pid).ok()?.vars().filter(|(name, _)| !is_own(name)).collect(),
        })
    }

    /// Adds the names of the variables that differ.
    fn add_differences(&self, other: &Self, names: &mut BTreeSet<String>) {
        let all: BTreeSet<&OsString> = self.env.keys().chain(other.env.keys()).collect();
        let differ = all.into_iter().filter(|name| self.env.get(*name) != other.env.get(*name));
        names.extend(differ.map(|name| name.to_string_lossy().into_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_would_share_it() {
        let duplicate = |is_configured, variables: &[&str]| DuplicateServer {
            group: "docs".to_owned(),
            pids: vec![7, 9],
            memory: 45_000_000,
            directories_differ: true,
            variables: variables.iter().map(|name| (*name).to_owned()).collect(),
            is_configured,
        };
        let text = duplicate(false, &["TERM", "TOKEN"]).text();
        assert_eq!(
            text,
            "runs 2 times for your instances (45 MB): if it keeps no state between calls and asks its client nothing, \
             which `dynamic-mcp check --share docs` tries, add \"share\": \"user\" to its entry; these variables differ and would keep them apart: TERM, TOKEN"
        );
        assert!(duplicate(false, &[]).text().ends_with("add \"share\": \"user\" to its entry"));
        assert!(
            duplicate(true, &["TERM"]).text().ends_with("these variables differ and keep them apart: TERM")
        );
        assert!(duplicate(true, &[]).text().ends_with("the log at level debug says why"));
        assert_eq!(duplicate(true, &[]).json()["share"], Value::Null);
    }
}
