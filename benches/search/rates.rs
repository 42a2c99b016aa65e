//! Prints hit@5 of every set as JSON: of the search, and of bare BM25F. `ablate.py` compiles it with changed copies of the
//! search.
#![allow(dead_code, reason = "the bench prints more of the sets")]

use ::search::SearchIndex;
use sets::{Catalog, PUBLIC_SETS, Query, is_hit};

mod bm25f;
mod sets;

const DEPTH: usize = 5;

fn rates(catalog: &Catalog, queries: &[&Query]) -> [f64; 2] {
    let (groups, names) = (catalog.groups(), catalog.qualified_names());
    let (index, bare) = (SearchIndex::new(&groups), bm25f::Bm25f::new(&groups));
    let mut hits = [0_u32; 2];
    for query in queries {
        let found = index.search(&query.query, None, DEPTH);
        let found: Vec<_> = found.iter().map(|hit| catalog.qualified_name(hit.group, hit.tool)).collect();
        let of_bare = bare.search(&query.query, DEPTH);
        let of_bare: Vec<_> = of_bare.into_iter().map(|at| names[at].clone()).collect();
        hits[0] += u32::from(is_hit(query, &found, DEPTH));
        hits[1] += u32::from(is_hit(query, &of_bare, DEPTH));
    }
    hits.map(|hits| 100.0 * f64::from(hits) / queries.len() as f64)
}

fn main() {
    let mut all = Vec::new();
    let (catalog, queries) = sets::own();
    let part = |part: Option<&str>| -> Vec<&Query> {
        queries.iter().filter(|query| query.part.as_deref() == part).collect()
    };
    for (name, queries) in [("own", part(None)), ("fresh", part(Some("fresh"))), ("fresh 2", part(Some("fresh 2")))] {
        all.push((name.to_owned(), rates(&catalog, &queries)));
    }
    for (name, text) in PUBLIC_SETS {
        let set = sets::public(text);
        for (part, queries) in [("tune", &set.tune), ("test", &set.test)] {
            if !queries.is_empty() {
                all.push((format!("{name}, {part}"), rates(&set.catalog, &queries.iter().collect::<Vec<_>>())));
            }
        }
    }
    let object: serde_json::Map<String, serde_json::Value> =
        all.into_iter().map(|(name, rates)| (name, serde_json::json!(rates))).collect();
    println!("{}", serde_json::Value::Object(object));
}
