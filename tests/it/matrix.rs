//! Every revision of a client with every revision of an upstream, method by method: what passes, what is bridged, what is
//! refused.
//!
//! The outcome of each cell is observed, compared with `expected.rs`, and rendered into docs/protocol.md
//! (`UPDATE_DOCS=1 cargo test --test it matrix` writes it there). There is one program for each revision of a client,
//! with an upstream of every revision.

use std::collections::BTreeMap;

use crate::support::stateless::REVISION as STATELESS;

mod asked;
mod expected;
mod page;
mod plain;
mod session;
mod tasks;
mod told;

use session::{Direct, Session};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS];

/// The form in which a method exists: of a server with a handshake, or of one without.
fn is_stateless(revision: &str) -> bool {
    revision == STATELESS
}

/// What became of each method, in the order in which the page has them.
pub(crate) type Outcomes = Vec<(&'static str, String)>;

/// By the revisions of client and upstream.
pub(crate) type Observed = BTreeMap<(&'static str, &'static str), Outcomes>;

/// `passes` or `bridged`, for what was said in the same form at both ends, or not.
fn by_form(is_same: bool) -> String {
    if is_same { "passes" } else { "bridged" }.to_owned()
}

fn refused(code: impl std::fmt::Display) -> String {
    format!("refused {code}")
}

fn observe(client: &'static str) -> Observed {
    let mut session = Session::start(client);
    let mut observed = Observed::new();
    for upstream in REVISIONS {
        let outcomes = match session.connected(upstream) {
            Ok(()) => {
                let mut direct = Direct::start(upstream);
                [plain::probe(&mut session, &mut direct), asked::probe(&mut session, upstream)]
                    .into_iter()
                    .chain([told::probe(&mut session, upstream), tasks::probe(&mut session, upstream)])
                    .flatten()
                    .collect()
            }
            Err(outcome) => expected::methods().map(|method| (method, outcome.clone())).collect(),
        };
        observed.insert((client, upstream), outcomes);
    }
    observed
}

#[test]
fn every_revision_with_every_other() {
    let observing = REVISIONS.map(|client| std::thread::spawn(move || observe(client)));
    let observed: Observed = observing.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    expected::compare(&observed);
    page::compare(&observed);
}
