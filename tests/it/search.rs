//! The search against bare BM25F with the same fields, weights, terms and stop words, on queries that were not written
//! here. `cargo bench --bench search` prints the figures; docs/benchmarks.md explains them.

use ::search::SearchIndex;
use sets::{Catalog, Query};

#[path = "../../benches/search/bm25f.rs"]
mod bm25f;
#[allow(dead_code, reason = "the bench prints more of it")]
#[path = "../../benches/search/sets.rs"]
mod sets;

/// The hits that are judged of queries for one tool, and those of queries for several.
const DEPTHS: [usize; 2] = [5, 10];
/// The least share of servers with the first two hits that have a needed tool, in percent. Such a server is started before it
/// is called.
const MIN_LIKELY: f64 = 75.0;
/// The least share of the project's own sealed part (`fresh 2`) that is answered, in percent.
const MIN_SEALED: f64 = 83.0;
/// What the search is ahead of bare BM25F in the mean of all sets, in points: of queries with a tool among the first
/// hits, and of the tools that are found for queries that need several.
const MIN_LEADS: [f64; 2] = [1.0, 1.0];

/// What a ranking finds, in percent: the share of queries with a needed tool among the first hits, and the share of the
/// needed tools that are found, in the mean of the queries that need several. `None`: no query does.
struct Shares {
    hits: f64,
    recall: Option<f64>,
}

/// Returns the tools that a query finds, the best first.
type Ranking<'a> = dyn Fn(&Query) -> Vec<String> + 'a;

/// The shares of the search and of bare BM25F.
fn shares(catalog: &Catalog, queries: &[&Query]) -> [Shares; 2] {
    let (groups, names) = (catalog.groups(), catalog.qualified_names());
    let (index, bare) = (SearchIndex::new(&groups), bm25f::Bm25f::new(&groups));
    let ours = |query: &Query| -> Vec<String> {
        let hits = index.search(&query.query, None, DEPTHS[1]);
        hits.iter().map(|hit| catalog.qualified_name(hit.group, hit.tool)).collect()
    };
    let bare = |query: &Query| -> Vec<String> {
        bare.search(&query.query, DEPTHS[1]).into_iter().map(|position| names[position].clone()).collect()
    };
    [&ours as &Ranking<'_>, &bare].map(|ranking| {
        let hits = queries.iter().filter(|query| sets::is_hit(query, &ranking(query), DEPTHS[0])).count();
        let several: Vec<_> = queries.iter().filter(|query| query.needs.len() > 1).collect();
        let recall: f64 = several.iter().map(|query| sets::recall(query, &ranking(query), DEPTHS[1])).sum();
        Shares {
            hits: 100.0 * hits as f64 / queries.len() as f64,
            recall: (!several.is_empty()).then(|| 100.0 * recall / several.len() as f64),
        }
    })
}

#[test]
fn the_search_is_not_below_bare_bm25f_on_any_set() {
    let mut leads = [Vec::new(), Vec::new()];
    for (name, text) in sets::PUBLIC_SETS {
        let set = sets::public(text);
        let [ours, bare] = shares(&set.catalog, &set.test.iter().collect::<Vec<_>>());
        let (hits, bare_hits) = (ours.hits, bare.hits);
        assert!(hits >= bare_hits, "{name}: {hits:.1} % of the queries, bare BM25F {bare_hits:.1} %");
        leads[0].push(hits - bare_hits);
        leads[1].extend(ours.recall.zip(bare.recall).map(|(ours, bare)| ours - bare));
    }
    for (leads, least) in leads.iter().zip(MIN_LEADS) {
        let mean = leads.iter().sum::<f64>() / leads.len() as f64;
        assert!(mean >= least, "{mean:.1} points in the mean of the public sets: {leads:?}");
    }
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
            let hits = index.search(&query.query, None, DEPTHS[0]);
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
    let [ours, bare] = shares(&catalog, &sealed);
    assert!(ours.hits >= MIN_SEALED, "{:.1} % of the queries", ours.hits);
    assert!(ours.hits >= bare.hits, "{:.1} % of the queries, bare BM25F {:.1} %", ours.hits, bare.hits);
    assert!(ours.recall >= bare.recall, "{:?} %, bare BM25F {:?} %", ours.recall, bare.recall);
}
