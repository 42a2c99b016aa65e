//! What the soak test counted and measured.

use std::fmt::Write;

use super::session::{Counts, Session};
use crate::support::Processes;

/// A part of the samples at the start is left out: caches and buffers fill.
const WARM_UP: f64 = 0.2;
/// The growth of memory that counts as flat, in KiB, beside a tenth of it.
const TOLERANCE_KIB: u64 = 2048;

/// One measurement, in KiB.
struct Sample {
    program: u64,
    warden: u64,
}

#[derive(Default)]
pub(super) struct Report {
    counts: Counts,
    pub(super) reloads: u64,
    samples: Vec<Sample>,
}

impl Report {
    /// Adds the counts of a session that has ended.
    pub(super) fn add(&mut self, counts: &Counts) {
        counts.calls.iter().for_each(|(name, n)| *self.counts.calls.entry(name).or_default() += n);
        counts.faults.iter().for_each(|(name, n)| *self.counts.faults.entry(name).or_default() += n);
        self.counts.excused += counts.excused;
        self.counts.notifications += counts.notifications;
        self.counts.slowest = self.counts.slowest.max(counts.slowest);
    }

    /// Measures the program of a session.
    pub(super) fn sample(&mut self, session: &Session) {
        let pid = session.proxy.pid();
        let warden = Processes::descendants_of(pid).find_warden_pid();
        let sample = Sample { program: resident_kib(pid), warden: warden.map_or(0, resident_kib) };
        self.samples.push(sample);
    }

    /// A line while the test runs.
    pub(super) fn progress(&self, session: &Session) -> String {
        let calls: u64 = session.counts.calls.values().sum();
        let memory = self.samples.last().map_or(0, |sample| sample.program);
        format!("{calls} calls of the session that stays, {} reloads, {memory} KiB", self.reloads)
    }

    /// The medians of the first and the last third after the warm-up, and the peak.
    fn memory(&self, of: impl Fn(&Sample) -> u64) -> [u64; 3] {
        let start = (self.samples.len() as f64 * WARM_UP) as usize;
        let values: Vec<u64> = self.samples[start..].iter().map(of).filter(|kib| *kib > 0).collect();
        let third = values.len() / 3;
        let median = |values: &[u64]| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        [
            median(&values[..third]),
            median(&values[values.len() - third..]),
            values.iter().copied().max().unwrap_or(0),
        ]
    }

    pub(super) fn assert_memory_is_flat(&self) {
        let [first, last, _] = self.memory(|sample| sample.program);
        assert!(last <= first + first / 10 + TOLERANCE_KIB, "memory grew from {first} to {last} KiB");
        let [first, last, _] = self.memory(|sample| sample.warden);
        assert!(
            last <= first + first / 10 + TOLERANCE_KIB,
            "the warden's memory grew from {first} to {last} KiB"
        );
    }

    /// The figures as a table in Markdown.
    pub(super) fn table(&self, minutes: u64, seed: u64, upstreams: usize, guests: u64) -> String {
        let mut table = String::from("\n| what | figure |\n| --- | ---: |\n");
        let mut row = |what: &str, figure: String| writeln!(table, "| {what} | {figure} |").unwrap();
        row("duration, seed", format!("{minutes} min, {seed}"));
        row("upstreams, sessions at a time", format!("{upstreams}, {}", guests + 1));
        row("calls", self.counts.calls.values().sum::<u64>().to_string());
        for (name, count) in &self.counts.calls {
            row(&format!("— {name}"), count.to_string());
        }
        row("faults", self.counts.faults.values().sum::<u64>().to_string());
        for (name, count) in &self.counts.faults {
            row(&format!("— {name}"), count.to_string());
        }
        row("reloads", self.reloads.to_string());
        row("notifications to clients", self.counts.notifications.to_string());
        row("wrong answers", "0".to_owned());
        row("lost calls, except those of a killed upstream", "0".to_owned());
        row("calls that failed with their killed upstream", self.counts.excused.to_string());
        row("slowest answer", format!("{:.1} s", self.counts.slowest.as_secs_f64()));
        for (name, of) in [("program", (|s| s.program) as fn(&Sample) -> u64), ("warden", |s| s.warden)] {
            let [first, last, peak] = self.memory(of).map(|kib| kib as f64 / 1024.0);
            row(
                &format!("resident memory of the {name}: first third, last third, peak"),
                format!("{first:.1}, {last:.1}, {peak:.1} MB"),
            );
        }
        row("processes left at the end", "0".to_owned());
        table
    }
}

/// The resident memory of a process.
pub(super) fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
}
