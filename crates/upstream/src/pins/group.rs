//! What is remembered of one group, and how the tools of its catalog differ from that.

use super::changes::{PinProblem, RefusedTools, ToolChanges};
use super::definition::{DefinitionDigest, PinnedTool, by_name};
use super::files;
use super::record::{ApprovedTool, NotApproved, PinRecord, PinTarget, SeenTool, ToolChange};
use base::clock::unix_time_s;
use base::digest;
use base::text::quoted;
use config::{GroupName, ServerConfig, ServerOrigin};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;
use wire::Raw;

/// The length of the hashes, in bytes.
const HASH_BYTES: usize = 16;
/// How many lines of the log are remembered.
const MAX_REMEMBERED_LINES: usize = 5000;
/// How many tools that changed at once are named in the log.
const MAX_LOGGED: usize = 50;

/// What is remembered of one group, and how the tools of its catalog differ from that.
pub struct GroupPins {
    /// The group's name.
    pub(crate) name: GroupName,
    /// The entry of the config that this is about.
    origin: ServerOrigin,
    /// The group and server of the record, once they were needed. Most groups have no record.
    target: OnceLock<PinTarget>,
    /// The state that changes. Its lock may be held for as long as work on many tools takes.
    state: Mutex<PinState>,
    /// Whether changed tools are refused, and how tools differ: a copy from when `state` was last unlocked. This lock
    /// is held for a moment only, because calls take it.
    published: Mutex<(bool, Arc<ToolChanges>)>,
    /// Notified when there is something to write or to wait for.
    touched: Arc<Notify>,
}

#[derive(Default)]
struct PinState {
    /// The record as this process knows it; `None` if nothing was ever seen.
    record: Option<PinRecord>,
    /// Why the file cannot be read or written.
    problem: Option<PinProblem>,
    /// Whether changed tools are refused.
    pinned: bool,
    /// The tools of the catalog in use.
    seen: Vec<(String, DefinitionDigest)>,
    /// What was seen and is not merged into the file.
    unsaved: Option<Arc<Vec<SeenTool>>>,
    /// The tools of the last catalog that was merged which the record did not accept.
    differing: Vec<SeenTool>,
    /// How the tools of the catalog in use differ from the record.
    changes: Arc<ToolChanges>,
    /// The changes of which the log has a line, now or since an earlier process.
    logged: HashSet<(String, Vec<String>)>,
}

/// What has to be done with the file of a group.
pub(super) enum PinJob {
    /// Merge what was seen into it.
    Merge {
        /// The tools that were seen.
        seen: Arc<Vec<SeenTool>>,
        /// Whether changed tools are refused.
        pinned: bool,
        /// The record in memory, which counts if there is no file.
        known: Option<Box<PinRecord>>,
    },
    /// Read it, because somebody may have approved what differs.
    Read,
}

/// The outcome of a job.
pub(super) struct JobOutcome {
    /// The record in the file, or why the file cannot be used.
    record: Result<Option<PinRecord>, PinProblem>,
    /// What was to be merged into it.
    merged: Option<Arc<Vec<SeenTool>>>,
}

/// Reads the names of the tools that are remembered of a group's server; none if they cannot be read. Blocks.
pub fn remembered_tools(dir: &Path, group: &GroupName, server: &ServerConfig) -> BTreeSet<String> {
    let record = PinTarget::of(group, &server.origin).record(dir).ok().flatten();
    record.map(|record| record.tool_names()).unwrap_or_default()
}

impl PinTarget {
    /// The group and server of an entry of the config.
    pub(super) fn of(group: &GroupName, origin: &ServerOrigin) -> Self {
        Self {
            config: origin.file.display().to_string(),
            group: group.as_str().to_owned(),
            server: digest::of_parts([origin.program.as_str()], HASH_BYTES),
        }
    }

    /// The path of the record's file.
    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.json", digest::of_parts([&self.config, &self.group], HASH_BYTES)))
    }

    /// Reads the record in the file; `None` if there is none of this server. Blocks.
    ///
    /// # Errors
    ///
    /// The file cannot be read. The text names it.
    pub(super) fn record(&self, dir: &Path) -> Result<Option<PinRecord>, String> {
        Ok(files::read(&self.path(dir))?.filter(|record| record.is_about(self)))
    }
}

impl GroupPins {
    /// Remembers nothing yet.
    pub(super) fn new(name: &GroupName, server: &ServerConfig, touched: Arc<Notify>) -> Arc<Self> {
        let state = Mutex::new(PinState { pinned: server.common.pin_tools, ..PinState::default() });
        let published = Mutex::new((server.common.pin_tools, Arc::default()));
        let (origin, target) = (server.origin.clone(), OnceLock::new());
        Arc::new(Self { name: name.clone(), origin, target, state, published, touched })
    }

    /// Returns whether this is about the group's entry, by a comparison instead of the hashes of the target.
    pub(crate) fn is_about(&self, server: &ServerConfig) -> bool {
        self.origin == server.origin
    }

    /// For a group that is never connected, because its entry in the config is invalid.
    pub fn none(name: &GroupName) -> Arc<Self> {
        let (origin, target) = (ServerOrigin::default(), OnceLock::new());
        let (state, published, touched) = (Mutex::default(), Mutex::default(), Arc::default());
        Arc::new(Self { name: name.clone(), origin, target, state, published, touched })
    }

    /// The path of the record's file.
    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        self.target().path(dir)
    }

    pub(super) fn target(&self) -> &PinTarget {
        self.target.get_or_init(|| PinTarget::of(&self.name, &self.origin))
    }

    /// How the tools of the catalog in use differ from what was first seen or approved.
    pub fn changes(&self) -> Arc<ToolChanges> {
        self.published.lock().1.clone()
    }

    /// The tools that are refused now because they changed: none, unless `server` pins them.
    pub fn refused(&self, server: &ServerConfig) -> RefusedTools {
        match server.common.pin_tools {
            true => RefusedTools::new(self.changes(), &server.tools.overrides),
            false => RefusedTools::default(),
        }
    }

    /// Compares a catalog from the cache, and remembers nothing of it.
    pub(crate) fn observe_cached<'t>(&self, tools: impl Iterator<Item = (&'t str, &'t DefinitionDigest)>) {
        let mut state = self.state.lock();
        state.seen = by_name(tools.map(|(name, digest)| (name.to_owned(), digest.clone())), |digest| digest);
        self.update(&mut state);
    }

    /// Compares a catalog that was read from the server, and remembers what is new in it. `version`: that of the
    /// server.
    pub fn observe<'t>(
        &self,
        tools: impl Iterator<Item = (&'t str, &'t DefinitionDigest, &'t Raw)> + Clone,
        version: Option<&str>,
    ) {
        let digests =
            by_name(tools.clone().map(|(name, digest, _)| (name.to_owned(), digest.clone())), |digest| {
                digest
            });
        let pinned = {
            let mut state = self.state.lock();
            let is_known =
                state.record.as_ref().is_some_and(|record| record.has_all(self.target(), &digests));
            if is_known && state.changes.unreadable().is_none() {
                state.seen = digests;
                state.differing.clear();
                self.update(&mut state);
                return;
            }
            state.pinned
        };
        // Without the lock, because it takes long for many tools.
        let read = |(name, digest, raw): (&str, &DefinitionDigest, &Raw)| {
            let tool = PinnedTool::new(digest.clone(), raw);
            (name.to_owned(), if pinned { tool.with_details(raw, version) } else { tool })
        };
        let seen = by_name(tools.map(read), |tool| &mut tool.digest);
        let mut state = self.state.lock();
        state.seen = digests;
        if state.changes.unreadable().is_none() {
            let record = state.record.take();
            if record.as_ref().is_some_and(|record| !record.is_about(self.target())) {
                tracing::warn!(
                    "the command or address of group {} is another one than before; \
                     its tools are trusted as they are now",
                    self.name
                );
            }
            state.record = PinRecord::observe(record, self.target(), &seen, state.pinned, unix_time_s());
        }
        // Another process may have seen or approved other definitions, so the file is needed even if the record in
        // memory is unchanged.
        state.unsaved = Some(Arc::new(seen));
        self.touched.notify_one();
        self.update(&mut state);
    }

    /// Sets whether changed tools are refused.
    pub(crate) fn set_pinned(&self, pinned: bool) {
        let mut state = self.state.lock();
        if state.pinned != pinned {
            state.pinned = pinned;
            self.update(&mut state);
            self.touched.notify_one();
        }
    }

    /// Returns whether a tool is refused until somebody approves it.
    pub(crate) fn is_refusing(&self) -> bool {
        let (pinned, changes) = self.published.lock().clone();
        pinned && changes.refuse()
    }

    /// Returns whether something has to be merged into the file.
    pub(super) fn has_unsaved(&self) -> bool {
        self.state.lock().unsaved.is_some()
    }

    /// What has to be done with the file, if anything.
    pub(super) fn next_job(&self) -> Option<PinJob> {
        let state = self.state.lock();
        match state.unsaved.clone() {
            Some(seen) => {
                Some(PinJob::Merge { seen, pinned: state.pinned, known: state.record.clone().map(Box::new) })
            }
            None => state.changes.await_approval().then_some(PinJob::Read),
        }
    }

    /// Does a job. Blocks. `lock`: why the lock, which merging needs, could not be taken.
    pub(super) fn run_job(&self, dir: &Path, job: PinJob, lock: Result<(), &String>) -> JobOutcome {
        let path = self.path(dir);
        let PinJob::Merge { seen, pinned, known } = job else {
            let record = files::read(&path).map_err(PinProblem::Unreadable);
            return JobOutcome { record, merged: None };
        };
        let merge = || {
            lock.map_err(|why| PinProblem::Unwritable(why.clone()))?;
            let stored = files::read(&path).map_err(PinProblem::Unreadable)?;
            let base = stored.clone().or_else(|| known.map(|known| *known));
            let merged = PinRecord::observe(base, self.target(), &seen, pinned, unix_time_s());
            if merged != stored
                && let Some(record) = &merged
            {
                files::write(dir, &path, record).map_err(PinProblem::Unwritable)?;
            }
            Ok(merged)
        };
        JobOutcome { record: merge(), merged: Some(seen) }
    }

    /// Applies the outcome of a job. Returns whether the differences changed.
    pub(super) fn finish_job(&self, outcome: JobOutcome) -> bool {
        let mut state = self.state.lock();
        match outcome.record {
            Ok(record) => {
                state.problem = None;
                // A later catalog may have replaced it, or another look may have merged it.
                let is_last =
                    state.unsaved.as_ref().map(Arc::as_ptr) == outcome.merged.as_ref().map(Arc::as_ptr);
                let merged = state.unsaved.take_if(|_| is_last);
                // If the file is gone or is about another program, what this process has seen still counts.
                if let Some(record) = record.filter(|record| record.is_about(self.target())) {
                    self.apply_record(&mut state, record, merged.as_deref());
                }
            }
            Err(problem) => self.set_problem(&mut state, problem),
        }
        self.update(&mut state)
    }

    /// Applies the record in the file, into which the tools of `merged` were merged.
    fn apply_record(&self, state: &mut PinState, record: PinRecord, merged: Option<&Vec<SeenTool>>) {
        let pinned = state.pinned;
        if let Some(merged) = merged {
            let differing = merged.iter().filter(|(name, tool)| !record.accepts(name, &tool.digest, pinned));
            state.differing = differing.cloned().collect();
        }
        state.record = match &state.unsaved {
            None => Some(record),
            Some(seen) => PinRecord::observe(Some(record), self.target(), seen, pinned, unix_time_s()),
        };
        let lacks_one = |record: &PinRecord| record.lacks_one_of(&state.differing, pinned);
        if state.unsaved.is_none() && state.record.as_ref().is_some_and(lacks_one) {
            // Somebody approved a definition that the server lists to another client. The one in our catalog is still
            // refused.
            state.unsaved = Some(Arc::new(state.differing.clone()));
            self.touched.notify_one();
        }
    }

    /// Sets the record that was read.
    pub(super) fn set_record(&self, record: Result<Option<PinRecord>, String>) {
        let mut state = self.state.lock();
        match record {
            Ok(record) => {
                state.logged = record.as_ref().map(PinRecord::changed_tools).unwrap_or_default();
                state.record = record;
            }
            Err(why) => self.set_problem(&mut state, PinProblem::Unreadable(why)),
        }
        self.update(&mut state);
    }

    fn set_problem(&self, state: &mut PinState, problem: PinProblem) {
        if state.problem.as_ref() != Some(&problem) {
            tracing::warn!("what is remembered of the tools of group {}: {}", self.name, problem.text());
        }
        state.problem = Some(problem);
    }

    /// Computes the differences again, and logs those that are new. Returns whether they changed.
    fn update(&self, state: &mut PinState) -> bool {
        let record = state.record.as_ref().filter(|record| record.is_about(self.target()));
        let seen = state.seen.iter().map(|(name, digest)| (name.as_str(), digest));
        let changes = ToolChanges {
            tools: record.map(|record| record.changes(seen, state.pinned)).unwrap_or_default(),
            problem: state.problem.clone(),
            replaced_s: record.and_then(|record| record.replaced_s),
        };
        if changes == *state.changes {
            self.published.lock().0 = state.pinned;
            return false;
        }
        // A tool that is different at each start is worth a line each time only if it is refused.
        let is_new = |(tool, change): &(&String, &ToolChange)| {
            let is_logged = state.logged.contains(&((*tool).clone(), change.parts.clone()));
            state.changes.tools.get(*tool) != Some(*change) && (state.pinned || !is_logged)
        };
        let mut new = changes.tools.iter().filter(is_new);
        for (tool, change) in new.by_ref().take(MAX_LOGGED) {
            let parts = change.parts.join(", ");
            let effect = if state.pinned { "; it is refused until it is approved" } else { "" };
            let tool = quoted(tool);
            tracing::warn!("tool {tool} of group {} changed: {parts}{effect}", self.name);
        }
        match new.count() {
            0 => {}
            more => tracing::warn!("{more} more tools of group {} changed", self.name),
        }
        let parts = |(tool, change): (&String, &ToolChange)| (tool.clone(), change.parts.clone());
        let room = MAX_REMEMBERED_LINES.saturating_sub(state.logged.len());
        state.logged.extend(changes.tools.iter().map(parts).take(room));
        state.changes = Arc::new(changes);
        *self.published.lock() = (state.pinned, state.changes.clone());
        self.touched.notify_one();
        true
    }
}

/// Why `approve` approved nothing.
#[derive(Debug, PartialEq, Eq)]
pub enum ApproveError {
    /// Nothing of the group has ever been seen, or only tools of another program.
    NothingKnown,
    /// There is nothing to approve.
    NotApproved(NotApproved),
    /// The file cannot be used: what and why.
    File(String),
}

/// Approves the changed tools of a group as they were seen last, or the one called `tool`. `varying`: the members that
/// differ may differ again. Blocks.
///
/// # Errors
///
/// See [`ApproveError`]. Nothing is approved then.
pub fn approve(
    dir: &Path,
    group: &GroupName,
    server: &ServerConfig,
    tool: Option<&str>,
    varying: bool,
) -> Result<Vec<ApprovedTool>, ApproveError> {
    let target = PinTarget::of(group, &server.origin);
    let _lock = files::lock(dir).map_err(ApproveError::File)?;
    let mut record = target.record(dir).map_err(ApproveError::File)?.ok_or(ApproveError::NothingKnown)?;
    let approved = record.approve(tool, varying).map_err(ApproveError::NotApproved)?;
    files::write(dir, &target.path(dir), &record).map_err(ApproveError::File)?;
    Ok(approved)
}
