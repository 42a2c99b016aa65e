//! The compatibility matrix: for each revision of a client, each revision of an upstream, and each method, whether the
//! messages pass unchanged, are translated, or are refused.
//!
//! The test observes the outcome of each cell, compares it with `expected`, and compares the table in docs/protocol.md
//! with what it observed (`UPDATE_DOCS=1 cargo test --test it matrix` writes the table). There is one program for each
//! revision of a client, and it has an upstream of each revision.

use std::collections::BTreeMap;

use crate::support::stateless::REVISION as STATELESS;

mod client_requests;
mod docs_table;
mod expected;
mod notifications;
mod server_requests;
mod session;
mod tasks;

use session::{DirectUpstream, Session};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS];

/// Whether a revision has no handshake.
fn is_stateless(revision: &str) -> bool {
    revision == STATELESS
}

/// The outcome of each method, in the order of the table.
pub(crate) type Outcomes = Vec<(&'static str, String)>;

/// The outcomes by the revisions of client and upstream.
pub(crate) type Observations = BTreeMap<(&'static str, &'static str), Outcomes>;

/// `passes` for a message that has the same form at both ends, else `bridged`.
fn passes_or_bridged(is_same_form: bool) -> String {
    if is_same_form { "passes" } else { "bridged" }.to_owned()
}

fn refused(code: impl std::fmt::Display) -> String {
    format!("refused {code}")
}

/// The message did not arrive at the other end.
fn kept_back() -> String {
    "kept back".to_owned()
}

/// The method does not exist between these revisions.
fn not_applicable() -> String {
    "–".to_owned()
}

fn observe(client: &'static str) -> Observations {
    let mut session = Session::start(client);
    let mut observations = Observations::new();
    for upstream in REVISIONS {
        let outcomes = match session.connect(upstream) {
            Ok(()) => {
                let mut direct = DirectUpstream::start(upstream);
                [
                    client_requests::observe(&mut session, &mut direct),
                    server_requests::observe(&mut session, upstream),
                    notifications::observe(&mut session, upstream),
                    tasks::observe(&mut session, upstream),
                ]
                .concat()
            }
            Err(outcome) => expected::methods().map(|method| (method, outcome.clone())).collect(),
        };
        observations.insert((client, upstream), outcomes);
    }
    observations
}

#[test]
fn every_method_has_its_expected_outcome_between_all_revisions() {
    let threads = REVISIONS.map(|client| std::thread::spawn(move || observe(client)));
    let observations = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    expected::assert_matches(&observations);
    docs_table::assert_up_to_date(&observations);
}
