//! What `--measure` is doing, on stderr: one line that changes on a terminal, else a line for each event.

use base::text::{joined, name};
use terminal::ProgressLine;

/// Shows which servers are started, and what follows.
pub(super) struct MeasureProgress {
    line: ProgressLine,
    /// The servers that are still starting.
    starting: Vec<String>,
    count: usize,
}

impl MeasureProgress {
    /// Shows that these servers are started.
    pub(super) fn new(servers: impl IntoIterator<Item = String>) -> Self {
        let starting: Vec<String> = servers.into_iter().collect();
        let mut progress = Self { line: ProgressLine::on_stderr(), count: starting.len(), starting };
        progress.show_starting();
        progress
    }

    /// Shows that a server has started, or failed to. It may be told again.
    pub(super) fn server_ended(&mut self, server: &str, has_started: bool) {
        let Some(index) = self.starting.iter().position(|starting| starting == server) else { return };
        self.starting.remove(index);
        let verb = if has_started { "has started" } else { "did not start" };
        self.log(&format!("{} {verb} ({} of {})", name(server), self.ended(), self.count));
        self.show_starting();
    }

    /// Shows what comes next.
    pub(super) fn phase(&mut self, phase: &str) {
        self.log(phase);
        self.line.show(phase);
    }

    fn ended(&self) -> usize {
        self.count - self.starting.len()
    }

    fn show_starting(&mut self) {
        let names = joined(self.starting.iter().map(|server| name(server)));
        let next = if names.is_empty() { "measuring them".to_owned() } else { format!("starting {names}") };
        self.line.show(&format!("started {} of {}; {next}", self.ended(), self.count));
    }

    /// A line for a log; a terminal shows the same in its line.
    fn log(&self, event: &str) {
        if !terminal::is_stderr_shown() {
            terminal::message(event);
        }
    }
}
