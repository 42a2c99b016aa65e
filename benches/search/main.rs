//! How well `search_dynamic_tools` finds what is asked for, beside plain BM25, and what it costs.
//!
//!   cargo bench --bench search                    # tables
//!   cargo bench --bench search -- --failures      # and the queries that are not answered, with what was found
//!
//! The queries and what their marks mean: benches/search/README.md. docs/benchmarks.md has a run.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench that panics has said what is wrong")]
#![expect(clippy::disallowed_types, reason = "no clock is paused here")]

use dynamic_mcp::search::{Group, Index};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

mod plain;

const KINDS: [&str; 3] = ["step", "task", "vague"];
/// How many tools are looked at.
const DEPTH: usize = 10;
const ROUNDS: usize = 21;
const TOOLS: usize = 1000;

#[derive(Deserialize)]
struct Server {
    server: String,
    description: String,
    tools: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Query {
    kind: String,
    query: String,
    needs: Vec<HashSet<String>>,
    held_out: bool,
    late: bool,
    /// Of a part that was written later and on its own.
    #[serde(default)]
    part: Option<String>,
}

/// Some of the queries, and which.
type Part = (&'static str, fn(&Query) -> bool);

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// A tool as `server/tool`.
struct Tool<'a> {
    full: String,
    name: String,
    definition: &'a RawValue,
}

fn main() {
    let servers: Vec<Server> = serde_json::from_str(include_str!("../data/livemcp-70.json")).unwrap();
    let queries: Vec<Query> = serde_json::from_str(include_str!("queries.json")).unwrap();
    let tools: Vec<Vec<Tool<'_>>> = servers.iter().map(tools_of).collect();
    let all: HashSet<&str> = tools.iter().flatten().map(|tool| tool.full.as_str()).collect();
    for name in queries.iter().flat_map(|query| query.needs.iter().flatten()) {
        assert!(all.contains(name.as_str()), "no such tool: {name}");
    }

    let groups: Vec<Group<'_>> =
        servers.iter().zip(&tools).map(|(server, tools)| group(server, tools)).collect();
    let index = Index::new(&groups);
    let ours = |query: &str| -> Vec<String> {
        let hits = index.search(query, None, DEPTH);
        hits.iter().map(|hit| tools[hit.group][hit.tool].full.clone()).collect()
    };
    let flat: Vec<&Tool<'_>> = tools.iter().flatten().collect();
    let plain = plain::Plain::new(flat.iter().map(|tool| tool.definition));
    let plain = |query: &str| -> Vec<String> {
        plain.search(query, DEPTH).into_iter().map(|at| flat[at].full.clone()).collect()
    };

    println!("{} tools of {} servers, {} queries\n", flat.len(), servers.len(), queries.len());
    println!(
        "| kind | queries | ranking | hit@1 | hit@5 | recall@10 |\n| --- | --- | --- | --- | --- | --- |"
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
            println!("{}", row(kind, part, "plain BM25", &chosen, &plain));
            println!("{}", row(kind, part, "dynamic-mcp", &chosen, &ours));
        }
    }
    times(&groups, &queries);
    if std::env::args().any(|argument| argument == "--failures") {
        failures(&queries, &ours);
    }
}

fn tools_of(server: &Server) -> Vec<Tool<'_>> {
    let tools = server.tools.iter().map(|definition| {
        let Named { name } = serde_json::from_str(definition.get()).unwrap();
        Tool { full: format!("{}/{name}", server.server), name, definition }
    });
    tools.collect()
}

fn group<'a>(server: &'a Server, tools: &'a [Tool<'_>]) -> Group<'a> {
    let tools = tools.iter().map(|tool| (tool.name.as_str(), tool.definition.get().as_bytes()));
    Group { name: &server.server, about: server.description.clone(), tools: tools.collect() }
}

/// Whether any of the first `depth` does something that is needed.
fn is_hit(query: &Query, found: &[String], depth: usize) -> bool {
    found.iter().take(depth).any(|tool| query.needs.iter().any(|need| need.contains(tool)))
}

/// How much of what is needed is among what was found.
fn recall(query: &Query, found: &[String]) -> f64 {
    let met = query.needs.iter().filter(|need| found.iter().any(|tool| need.contains(tool))).count();
    met as f64 / query.needs.len() as f64
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
        sums[2] += recall(query, &found);
    }
    let [first, five, recall] = sums.map(|sum| 100.0 * sum / queries.len() as f64);
    format!("| {kind}, {part} | {} | {name} | {first:.0} % | {five:.0} % | {recall:.0} % |", queries.len())
}

fn times(groups: &[Group<'_>], queries: &[Query]) {
    // The table of concepts is read once in a process.
    black_box(Index::new(groups).search("warm up", None, DEPTH));
    let known: usize = groups.iter().map(|group| group.tools.len()).sum();
    // Every tool again under another group's name, until there are enough.
    let names: Vec<String> = (0..TOOLS.div_ceil(known)).map(|round| format!("copy-{round}")).collect();
    let many = names.iter().flat_map(|name| groups.iter().map(move |group| (name, group)));
    let mut left = TOOLS;
    let many: Vec<Group<'_>> = many
        .map(|(name, group)| {
            let tools: Vec<_> = group.tools.iter().take(left).copied().collect();
            left -= tools.len();
            Group { name, about: group.about.clone(), tools }
        })
        .collect();
    println!("\n| tools | index built, ms | a query, p50, µs | p99, µs |\n| --- | --- | --- | --- |");
    for (count, groups) in [(known, groups), (TOOLS, &many[..])] {
        let mut builds: Vec<Duration> =
            (0..ROUNDS).map(|_| timed(|| drop(black_box(Index::new(groups))))).collect();
        let index = Index::new(groups);
        let answer = |query: &Query| timed(|| drop(black_box(index.search(&query.query, None, DEPTH))));
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

/// Single steps that nothing among the first five does, tasks of which something is missing.
fn failures(queries: &[Query], search: &dyn Fn(&str) -> Vec<String>) {
    for query in queries {
        let found = search(&query.query);
        let fine = if query.kind == "task" { recall(query, &found) >= 1.0 } else { is_hit(query, &found, 5) };
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
