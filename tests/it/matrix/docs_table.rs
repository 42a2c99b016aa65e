//! The table in docs/protocol.md.

use super::{Observations, REVISIONS, expected, is_stateless};

const BEGIN: &str = "<!-- matrix: written by tests/it/matrix.rs -->\n";
const END: &str = "<!-- end of the matrix -->\n";

/// Compares the table with the observations, or writes it if `UPDATE_DOCS` is set.
pub(super) fn assert_up_to_date(observations: &Observations) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let rendered = render(observations);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{rendered}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, rendered, "UPDATE_DOCS=1 cargo test --test it matrix");
    }
}

fn render(observations: &Observations) -> String {
    let eras = [false, true];
    let pairs = eras.into_iter().flat_map(|client| eras.map(|upstream| (client, upstream)));
    let name = |is_stateless: bool| if is_stateless { "2026-07-28" } else { "handshake" };
    let columns: String =
        pairs.clone().map(|(client, upstream)| format!(" {} → {} |", name(client), name(upstream))).collect();
    let mut table = format!("| client → upstream |{columns}\n|{}\n", " --- |".repeat(5));
    for method in expected::methods() {
        let cells: String = pairs
            .clone()
            .map(|(client, upstream)| format!(" {} |", cell(observations, method, client, upstream)))
            .collect();
        table.push_str(&format!("| {method} |{cells}\n"));
    }
    table
}

/// The most frequent outcome of a method between two eras, then each other outcome with its pairs of revisions. The
/// flags say whether client and upstream are stateless.
fn cell(observations: &Observations, method: &str, client: bool, upstream: bool) -> String {
    let mut outcomes: Vec<(&str, Vec<String>)> = Vec::new();
    for c in REVISIONS.into_iter().filter(|revision| is_stateless(revision) == client) {
        for u in REVISIONS.into_iter().filter(|revision| is_stateless(revision) == upstream) {
            let observation = observations[&(c, u)].iter().find(|(name, _)| *name == method);
            let outcome = &*observation.unwrap().1;
            let pair = format!("{c} → {u}");
            match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, pairs)) => pairs.push(pair),
                None => outcomes.push((outcome, vec![pair])),
            }
        }
    }
    // Revisions without the method are left out if others have it.
    if outcomes.len() > 1 {
        outcomes.retain(|(outcome, _)| *outcome != "–");
    }
    outcomes.sort_by_key(|(_, pairs)| usize::MAX - pairs.len());
    let (first, others) = outcomes.split_first().unwrap();
    let others = others.iter().map(|(outcome, pairs)| format!("; {outcome}: {}", pairs.join(", ")));
    format!("{}{}", first.0, others.collect::<String>())
}
