//! Pins: what is remembered of each tool's definition, to notice when a server changes a tool that the user trusts.
//!
//! # Theory of operation
//!
//! For each group of a config there is a record (`record`), a file in the state directory (`files`) that all processes
//! of the user share. It has a digest of each tool's definition (`definition`) as it was first seen, and the changed
//! definitions that were seen later. The first catalog of a server is trusted. `dynamic-mcp approve` accepts changed
//! definitions exactly as they were seen. A limited number of earlier definitions stay approved, because a server may
//! list its tools differently for two clients; only a definition that was never approved is refused. For a pinned group
//! the record has a hash of each member of a definition (`members`, in the form of `canonical`), and members that are
//! different at each start of the server can be approved as `varying`.
//!
//! Records are read before their groups are created. A group's task compares each catalog that it reads with the record
//! in memory (`group`) before it publishes the catalog, so that no call reaches a changed tool in between.
//! [`PinStore::synchronize`] writes what was seen and reads what was approved, on a thread that may block. The rest of
//! the program sees the differences as `changes`.
//!
//! # Invariants
//!
//! - The record in a file wins over the one in memory: new definitions are merged into the file, under a lock.
//! - A record that cannot be read refuses every tool of a pinned group. It is never overwritten.
//! - A record belongs to a group of a config file, so groups of the same name in two configs have two records. A record
//!   names the program or address of its server. If the config names another one, its tools are trusted anew, and
//!   `get_status` says so.
//! - What a server makes us keep is bounded, in number and in size.

use base::blocking;
use config::{GroupName, ServerConfig};
use group::{GroupPins, PinJob};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub mod canonical;
pub mod changes;
pub mod definition;
pub(crate) mod exported;
mod files;
pub mod group;
pub(crate) mod members;
pub mod record;
pub mod varying;

/// How long reading the records may take, before every tool of the pinned groups is refused.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long writing the records may take.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where it is stored what is remembered of the groups of this instance.
pub struct PinStore {
    /// The directory of the files; `None` if there is none, so that nothing outlives the process.
    dir: Option<PathBuf>,
    /// Notified when a group has something to write or to wait for.
    touched: Arc<Notify>,
}

impl PinStore {
    /// Makes a store with its files in `dir`, which is created when it is needed.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, touched: Arc::default() }
    }

    /// Makes what is remembered of a group, which is nothing until its record is read.
    pub(crate) fn group(&self, name: &GroupName, server: &ServerConfig) -> Arc<GroupPins> {
        GroupPins::new(name, server, self.touched.clone())
    }

    /// Reads the records of these groups, on a thread that may block. To be called before the groups are created. After
    /// `LOAD_TIMEOUT`, the records count as unreadable.
    pub(crate) async fn load(&self, groups: &[Arc<GroupPins>]) {
        let Some(dir) = self.dir.clone().filter(|_| !groups.is_empty()) else { return };
        let new = groups.to_vec();
        let read = blocking::run(LOAD_TIMEOUT, move || {
            // Most groups of a large config have no record, and an attempt to open each file takes longer.
            let names = files::list(&dir);
            let read = |group: &Arc<GroupPins>| match &names {
                Some(names) if names.is_empty() || !names.contains(group.path(&dir).as_os_str()) => Ok(None),
                _ => files::read(&group.path(&dir)),
            };
            new.iter().map(read).collect::<Vec<_>>()
        });
        let mut records = read.await.unwrap_or_default().into_iter();
        for group in groups {
            let late = || Err(format!("its file could not be read within {} s", LOAD_TIMEOUT.as_secs()));
            group.set_record(records.next().unwrap_or_else(late));
        }
    }

    /// Waits until a group has something to write or to wait for. Cancel-safe.
    pub async fn touched(&self) {
        self.touched.notified().await;
    }

    /// Writes what was seen of these groups since the last time, and reads what other processes approved, on a thread that
    /// may block. Returns the groups whose differences changed; none if that takes longer than `FILE_TIMEOUT`, although the work
    /// continues.
    pub(crate) async fn synchronize(&self, groups: Vec<Arc<GroupPins>>) -> Vec<GroupName> {
        let Some(dir) = self.dir.clone() else { return Vec::new() };
        let work = move || {
            // The jobs are made under the lock: what another one merged meanwhile is not merged again over it.
            let lock = groups.iter().any(|group| group.has_unsaved()).then(|| files::lock(&dir)).transpose();
            // Without the lock, what came since waits for the next time.
            let is_unlocked = lock.as_ref().is_ok_and(Option::is_none);
            let may_run = |job: &PinJob| !is_unlocked || matches!(job, PinJob::Read);
            let jobs =
                groups.into_iter().filter_map(|group| Some((group.next_job().filter(may_run)?, group)));
            let locked = || lock.as_ref().map(|_| ());
            let jobs: Vec<(PinJob, Arc<GroupPins>)> = jobs.collect();
            let done: Vec<_> =
                jobs.into_iter().map(|(job, group)| (group.run_job(&dir, job, locked()), group)).collect();
            let finish =
                |(outcome, group): (_, Arc<GroupPins>)| group.finish_job(outcome).then(|| group.name.clone());
            done.into_iter().filter_map(finish).collect()
        };
        blocking::run(FILE_TIMEOUT, work).await.unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "pins/tests.rs"]
mod tests;
