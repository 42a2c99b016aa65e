//! Measures the quality of `search_dynamic_tools` against plain BM25, and its time.
//!
//!   cargo bench --bench search                    # tables
//!   cargo bench --bench search -- --failures      # and the failed queries, with what they found
//!
//! benches/search/README.md describes the queries, docs/benchmarks.md has the results of a run.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench that panics has said what is wrong")]
#![expect(clippy::disallowed_types, reason = "no clock is paused here")]

use ::search::{SearchGroup, SearchIndex};
use sets::{Catalog, PUBLIC_SETS, Query, is_hit, recall};
use std::hint::black_box;
use std::time::{Duration, Instant};

mod bm25;
mod bm25f;
mod sets;

const KINDS: [&str; 3] = ["step", "task", "vague"];
/// The number of hits that are judged.
const LIMIT: usize = 10;
/// The repetitions of each timing.
const ROUNDS: usize = 21;
/// The number of tools in the larger timing.
const MANY_TOOLS: usize = 1000;

/// A part of the queries: its name, and which queries it has.
type Part = (&'static str, fn(&Query) -> bool);

fn main() {
    let (catalog, queries) = sets::own();
    let names = catalog.qualified_names();
    for name in queries.iter().flat_map(|query| query.needs.iter().flatten()) {
        assert!(names.contains(name), "no such tool: {name}");
    }
    let groups = catalog.groups();
    let (index, bm25f) = (SearchIndex::new(&groups), bm25f::Bm25f::new(&groups));
    let definitions = catalog.servers.iter().flat_map(|server| &server.tools);
    let bm25 = bm25::Bm25::new(definitions.map(|definition| &**definition));
    let named = |positions: Vec<usize>| -> Vec<String> {
        positions.into_iter().map(|position| names[position].clone()).collect()
    };
    let search = |query: &str| qualified(&catalog, &index, query);
    let bm25 = |query: &str| named(bm25.search(query, LIMIT));
    let bm25f = |query: &str| named(bm25f.search(query, LIMIT));

    println!("{} tools of {} servers, {} queries\n", names.len(), groups.len(), queries.len());
    println!(
        "| kind | queries | ranking | hit@1, % | hit@5, % | recall@10, % |\n| --- | --- | --- | --- | --- | --- |"
    );
    let parts: [Part; 5] = [
        ("tuned", |query| query.part.is_none() && !query.held_out),
        ("held out", |query| query.part.is_none() && query.held_out),
        ("held out, late", |query| query.part.is_none() && query.held_out && query.late),
        ("fresh", |query| query.part.as_deref() == Some("fresh")),
        ("fresh 2", |query| query.part.as_deref() == Some("fresh 2")),
    ];
    for (part, is_of) in parts {
        for kind in KINDS {
            let chosen: Vec<&Query> =
                queries.iter().filter(|query| query.kind == kind && is_of(query)).collect();
            if chosen.is_empty() {
                continue;
            }
            println!("{}", row(kind, part, "plain BM25", &chosen, &bm25));
            println!("{}", row(kind, part, "bare BM25F", &chosen, &bm25f));
            println!("{}", row(kind, part, "dynamic-mcp", &chosen, &search));
        }
    }
    for (name, text) in PUBLIC_SETS {
        print_public_set(name, text);
    }
    print_times(&groups, &queries);
    if std::env::args().any(|argument| argument == "--failures") {
        print_failures(&queries, &search);
    }
}

/// Prints the rows of a set of public data.
fn print_public_set(name: &str, text: &str) {
    let set = sets::public(text);
    let (groups, names) = (set.catalog.groups(), set.catalog.qualified_names());
    let (index, bm25f) = (SearchIndex::new(&groups), bm25f::Bm25f::new(&groups));
    let search = |query: &str| qualified(&set.catalog, &index, query);
    let bm25f = |query: &str| -> Vec<String> {
        bm25f.search(query, LIMIT).into_iter().map(|position| names[position].clone()).collect()
    };
    for (part, queries) in [("tune", &set.tune), ("test", &set.test)] {
        let queries: Vec<&Query> = queries.iter().collect();
        if !queries.is_empty() {
            println!("{}", row(name, part, "bare BM25F", &queries, &bm25f));
            println!("{}", row(name, part, "dynamic-mcp", &queries, &search));
        }
    }
}

/// What `search` finds, as `server/tool`.
fn qualified(catalog: &Catalog, index: &SearchIndex, query: &str) -> Vec<String> {
    let hits = index.search(query, None, LIMIT);
    hits.iter().map(|hit| catalog.qualified_name(hit.group, hit.tool)).collect()
}

fn row(
    kind: &str,
    part: &str,
    name: &str,
    queries: &[&Query],
    search: &dyn Fn(&str) -> Vec<String>,
) -> String {
    let mut sums = [0.0; 3];
    for query in queries {
        let found = search(&query.query);
        sums[0] += f64::from(is_hit(query, &found, 1));
        sums[1] += f64::from(is_hit(query, &found, 5));
        sums[2] += recall(query, &found, LIMIT);
    }
    let [first, five, recall] = sums.map(|sum| 100.0 * sum / queries.len() as f64);
    format!("| {kind}, {part} | {} | {name} | {first:.1} | {five:.1} | {recall:.1} |", queries.len())
}

fn print_times(groups: &[SearchGroup<'_>], queries: &[Query]) {
    // The first search reads the table of synonyms.
    black_box(SearchIndex::new(groups).search("warm up", None, LIMIT));
    let known: usize = groups.iter().map(|group| group.tools.len()).sum();
    // The groups are repeated under other names, until there are enough tools.
    let names: Vec<String> = (0..MANY_TOOLS.div_ceil(known)).map(|round| format!("copy-{round}")).collect();
    let many = names.iter().flat_map(|name| groups.iter().map(move |group| (name, group)));
    let mut left = MANY_TOOLS;
    let many: Vec<SearchGroup<'_>> = many
        .map(|(name, group)| {
            let tools: Vec<_> = group.tools.iter().take(left).copied().collect();
            left -= tools.len();
            SearchGroup { name, description: group.description.clone(), tools }
        })
        .collect();
    println!("\n| tools | index built, ms | a query, p50, µs | p99, µs |\n| --- | --- | --- | --- |");
    for (count, groups) in [(known, groups), (MANY_TOOLS, &many[..])] {
        let mut builds: Vec<Duration> =
            (0..ROUNDS).map(|_| timed(|| drop(black_box(SearchIndex::new(groups))))).collect();
        let index = SearchIndex::new(groups);
        let answer = |query: &Query| timed(|| drop(black_box(index.search(&query.query, None, LIMIT))));
        let mut answers: Vec<Duration> = (0..ROUNDS).flat_map(|_| queries.iter().map(answer)).collect();
        builds.sort_unstable();
        answers.sort_unstable();
        println!(
            "| {count} | {:.1} | {:.0} | {:.0} |",
            builds[builds.len() / 2].as_secs_f64() * 1e3,
            answers[answers.len() / 2].as_secs_f64() * 1e6,
            answers[answers.len() * 99 / 100].as_secs_f64() * 1e6,
        );
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// Prints the queries that failed: steps without an answer among the first five hits, and tasks with an unanswered
/// need.
fn print_failures(queries: &[Query], search: &dyn Fn(&str) -> Vec<String>) {
    for query in queries {
        let found = search(&query.query);
        let fine =
            if query.kind == "task" { recall(query, &found, LIMIT) >= 1.0 } else { is_hit(query, &found, 5) };
        if fine {
            continue;
        }
        let part = if query.held_out { "held out" } else { "tuned" };
        let part = query.part.as_deref().unwrap_or(part);
        println!("\n{} ({part}): {}", query.kind, query.query);
        for need in query.needs.iter().filter(|need| !found.iter().any(|tool| need.contains(tool))) {
            let mut need: Vec<_> = need.iter().map(String::as_str).collect();
            need.sort_unstable();
            println!("  missing: {}", need.join(" or "));
        }
        println!("  found: {}", found.join(", "));
    }
}
