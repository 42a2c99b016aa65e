//! A whole session against lists of faults: the front, the groups and their sessions over in-memory streams, under paused
//! time. `list` is what can happen, `session` plays it, `server` and `client` are the two ends, and keep account of what
//! must hold.
//!
//! - `cargo test -p dynamic-mcp-front --test fault_lists` plays lists of fixed seeds, and those that failed once.
//! - `FAULT_LISTS_SECONDS=3600 FAULT_LISTS_SEED=7 cargo test …` plays lists of fresh seeds for so long.
//! - `FAULT_LIST_SEED=38654705709 cargo test …` plays the list of one seed again.
//! - `FAULT_LIST=FILE cargo test …` plays one list again.
//!
//! `FAULT_LISTS_LOG` shows each step and the log, `FAULT_LISTS_SHRINK` is how many seconds a list that failed is made
//! smaller, and with `FAULT_LISTS_COLLECT` a list that fails does not end the run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by a panic, and reports to whoever ran it"
)]
#![allow(clippy::too_many_lines, reason = "what each request and each fault does is one table")]

mod client;
mod list;
mod login;
mod server;
mod session;
mod transitions;

use list::FaultList;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use session::{Played, play};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How many lists of fixed seeds are played.
const FIXED: u64 = 300;
/// The lists that failed once.
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fault_lists/regressions");
/// How long a list that failed is made smaller.
const SHRINK_TIME: Duration = Duration::from_secs(60);

#[test]
fn sessions_hold_their_promises_whatever_happens() {
    transitions::watch();
    if let Some(file) = std::env::var_os("FAULT_LIST") {
        return replay(Path::new(&file));
    }
    if let Some(seed) = number("FAULT_LIST_SEED") {
        let mut tree = tree(seed);
        let played = play(&tree.current());
        if !played.violations.is_empty() {
            report(seed, &mut *tree, played.violations);
        }
        return;
    }
    let mut files: Vec<_> =
        std::fs::read_dir(REGRESSIONS).into_iter().flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    let (seconds, seed) = (number("FAULT_LISTS_SECONDS"), number("FAULT_LISTS_SEED").unwrap_or(0));
    if seconds.is_none() {
        files.iter().for_each(|file| replay(file));
    }
    let began = tokio::time::Instant::now();
    let goes_on = |n: u64| match seconds {
        Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
        None => n < FIXED,
    };
    let (mut n, mut lengths, mut statistics) = (0, Vec::new(), BTreeMap::new());
    while goes_on(n) {
        let seed = (seed << 32) + n;
        let mut tree = tree(seed);
        lengths.push(tree.current().steps.len());
        let played = play(&tree.current());
        for (what, count) in played.statistics {
            *statistics.entry(what).or_insert(0) += count;
        }
        if !played.violations.is_empty() {
            report(seed, &mut *tree, played.violations);
        }
        n += 1;
    }
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or_default();
    eprintln!("{n} lists in {:?}, of {median} steps (median): {statistics:?}", began.elapsed());
}

/// Returns the number in a variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether every step is shown.
fn is_verbose() -> bool {
    std::env::var_os("FAULT_LISTS_LOG").is_some()
}

/// Returns the list of a seed, which can be made smaller.
fn tree(seed: u64) -> Box<dyn ValueTree<Value = FaultList>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    Box::new(list::lists().new_tree(&mut runner).unwrap())
}

/// Plays one list of a file.
fn replay(file: &Path) {
    let list: FaultList = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let Played { violations, .. } = play(&list);
    assert!(violations.is_empty(), "{}: {violations:#?}", file.display());
}

/// Makes a list that failed smaller, and fails with it; with `FAULT_LISTS_COLLECT`, only shows it.
fn report(seed: u64, tree: &mut dyn ValueTree<Value = FaultList>, mut violations: Vec<String>) {
    eprintln!("the list of seed {seed} fails: {violations:#?}");
    let (limit, began) =
        (number("FAULT_LISTS_SHRINK").map_or(SHRINK_TIME, Duration::from_secs), tokio::time::Instant::now());
    let mut smallest = tree.current();
    let mut goes_on = tree.simplify();
    while goes_on && began.elapsed() < limit {
        let list = tree.current();
        let played = play(&list);
        goes_on = match played.violations.is_empty() {
            true => tree.complicate(),
            false => {
                (smallest, violations) = (list, played.violations);
                tree.simplify()
            }
        };
    }
    let json = serde_json::to_string(&smallest).unwrap();
    let FaultList { servers, client, steps, ending, .. } = &smallest;
    let text = format!(
        "the list of seed {seed} fails, made smaller: {violations:#?}\n{servers:?}\n{client:?}\n{steps:#?}\n{ending:?}\n{json}"
    );
    match std::env::var_os("FAULT_LISTS_COLLECT") {
        Some(_) => eprintln!("{text}"),
        None => panic!("{text}"),
    }
}
