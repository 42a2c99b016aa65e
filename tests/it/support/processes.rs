//! Who descends from the program, read from /proc. Linux only.

use std::fs;

/// Processes by pid and start time, so that a pid used again is not taken for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Processes(pub(crate) Vec<(u32, String)>);

impl Processes {
    /// All that descend from `pid`, without itself.
    pub(crate) fn below(pid: u32) -> Self {
        let mut all: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let stat = stat(pid)?;
                Some((pid, stat[1].parse::<u32>().unwrap(), stat[19].clone()))
            })
            .collect();
        let (mut parents, mut found) = (vec![pid], Vec::new());
        while let Some(parent) = parents.pop() {
            for (pid, _, start) in all.extract_if(.., |(_, of, _)| *of == parent) {
                parents.push(pid);
                found.push((pid, start));
            }
        }
        Self(found)
    }

    /// Those that still run. Zombies do not.
    pub(crate) fn running(&self) -> Vec<u32> {
        let runs = |pid: u32, start: &str| stat(pid).is_some_and(|stat| stat[19] == start && stat[0] != "Z");
        self.0.iter().filter(|(pid, start)| runs(*pid, start)).map(|(pid, _)| *pid).collect()
    }

    /// The one that supervises the others.
    pub(crate) fn warden(&self) -> u32 {
        let is_warden = |pid: u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "dmcp-warden\n")
        };
        self.0.iter().map(|(pid, _)| *pid).find(|pid| is_warden(*pid)).unwrap()
    }
}

/// The fields of /proc/PID/stat from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

pub(crate) fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat[0] != "Z")
}
