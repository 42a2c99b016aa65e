//! The search against bare BM25F with the same fields, weights and terms, on queries that were not written here.
//! `cargo bench --bench search` prints the figures; docs/benchmarks.md explains them.

use ::search::SearchIndex;
use sets::{Catalog, Query};

#[path = "../../benches/search/bm25f.rs"]
mod bm25f;
#[allow(dead_code, reason = "the bench prints more of it")]
#[path = "../../benches/search/sets.rs"]
mod sets;

/// The hits that are judged.
const DEPTH: usize = 5;
/// The least share of servers with the first two hits that have a needed tool, in percent. Such a server is started before it
/// is called.
const MIN_LIKELY: f64 = 75.0;
/// The least share of the project's own sealed part (`fresh 2`) that is answered, in percent.
const MIN_SEALED: f64 = 85.0;
/// What the search is ahead of bare BM25F in the mean of all sets, in points.
const MIN_LEAD: f64 = 2.0;

/// The shares of queries, in percent, that the search and bare BM25F answer.
fn shares(catalog: &Catalog, queries: &[&Query]) -> (f64, f64) {
    let (groups, names) = (catalog.groups(), catalog.qualified_names());
    let (index, bare) = (SearchIndex::new(&groups), bm25f::Bm25f::new(&groups));
    let (mut ours, mut bares) = (0_u32, 0_u32);
    for query in queries {
        let hits = index.search(&query.query, None, DEPTH);
        let found: Vec<String> = hits.iter().map(|hit| catalog.qualified_name(hit.group, hit.tool)).collect();
        ours += u32::from(sets::is_hit(query, &found, DEPTH));
        let found: Vec<String> =
            bare.search(&query.query, DEPTH).into_iter().map(|position| names[position].clone()).collect();
        bares += u32::from(sets::is_hit(query, &found, DEPTH));
    }
    let percent = |hits: u32| 100.0 * f64::from(hits) / queries.len() as f64;
    (percent(ours), percent(bares))
}

#[test]
fn the_search_is_not_below_bare_bm25f_on_any_set() {
    let mut lead = 0.0;
    for (name, text) in sets::PUBLIC_SETS {
        let set = sets::public(text);
        let (ours, bare) = shares(&set.catalog, &set.test.iter().collect::<Vec<_>>());
        assert!(ours >= bare, "{name}: {ours:.1} % of the queries, bare BM25F {bare:.1} %");
        lead += ours - bare;
    }
    let lead = lead / sets::PUBLIC_SETS.len() as f64;
    assert!(lead >= MIN_LEAD, "{lead:.1} points in the mean of the public sets");
}

#[test]
fn a_server_with_the_first_two_hits_is_likely_to_be_called() {
    let (own, queries) = sets::own();
    let public = sets::PUBLIC_SETS.map(|(name, text)| (name, sets::public(text)));
    let public = public.into_iter().map(|(name, set)| (name, set.catalog, set.test));
    // In the other sets all tools are of one server.
    let several = public.filter(|(_, catalog, _)| catalog.servers.len() > 1);
    for (name, catalog, queries) in several.chain([("own", own, queries)]) {
        let index = SearchIndex::new(&catalog.groups());
        let (mut started, mut right) = (0_u32, 0_u32);
        for query in &queries {
            let hits = index.search(&query.query, None, DEPTH);
            let [first, second, ..] = hits[..] else { continue };
            if first.group == second.group {
                let server = format!("{}/", catalog.servers[first.group].server);
                started += 1;
                right += u32::from(query.needs.iter().flatten().any(|tool| tool.starts_with(&server)));
            }
        }
        let percent = 100.0 * f64::from(right) / f64::from(started);
        assert!(percent >= MIN_LIKELY, "{name}: {percent:.1} % of {started} for {} queries", queries.len());
    }
}

#[test]
fn the_search_answers_the_projects_own_sealed_queries() {
    let (catalog, queries) = sets::own();
    let sealed: Vec<&Query> =
        queries.iter().filter(|query| query.part.as_deref() == Some("fresh 2")).collect();
    let (ours, bare) = shares(&catalog, &sealed);
    assert!(ours >= MIN_SEALED, "{ours:.1} % of the queries");
    assert!(ours >= bare, "{ours:.1} % of the queries, bare BM25F {bare:.1} %");
}
