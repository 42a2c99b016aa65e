//! What it takes to know one tool by search.

use crate::client::Client;
use crate::{Bench, GET, median};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;

const QUERIES: &str = include_str!("../search/queries.json");

/// Of the search's evaluation set: benches/search/README.md.
#[derive(Deserialize)]
struct Query {
    kind: String,
    query: String,
    needs: Vec<HashSet<String>>,
}

/// Tokens of each step's search, and of the definition asked for afterwards where the tool was not the best hit, whose
/// signature is told.
#[derive(Default)]
pub(crate) struct Searched {
    first: Vec<usize>,
    later: Vec<usize>,
    /// Searches that did not find the tool.
    missed: usize,
}

impl Bench {
    /// Every single step of the evaluation set, searched as a model would.
    pub(crate) fn searched(&self, client: &mut Client) -> Searched {
        let queries: Vec<Query> = serde_json::from_str(QUERIES).unwrap();
        let mut searched = Searched::default();
        for step in queries.iter().filter(|query| query.kind == "step") {
            let (cost, text) = self.exchange(client, "search_dynamic_tools", &json!({ "query": step.query }));
            let hits = text.lines().filter(|line| !line.starts_with(' '));
            let hits = hits.filter_map(|line| line.split(": ").next()?.split_once(" / "));
            let fits = |(group, tool): &(&str, &str)| {
                step.needs.iter().any(|need| need.contains(&format!("{group}/{tool}")))
            };
            match hits.enumerate().find(|(_, hit)| fits(hit)) {
                Some((0, _)) => searched.first.push(cost),
                Some((_, (group, tool))) => {
                    let asked = json!({ "group": group, "tools": [tool] });
                    searched.later.push(cost + self.exchange(client, GET, &asked).0);
                }
                None => searched.missed += 1,
            }
        }
        searched
    }
}

impl Searched {
    pub(crate) fn print(&self, lists: &[(&str, usize)]) {
        println!(
            "\none tool reached by search, all told: the search, its answer, and one definition if need be, tokens"
        );
        println!("{:<58} {:>9} {:>9} {:>9} {:>9}", "", "searches", "mean", "median", "most");
        let all = [&self.first[..], &self.later].concat();
        for (what, costs) in
            [("the best hit is the tool", &self.first), ("another hit is", &self.later), ("either", &all)]
        {
            row(what, costs, 0);
        }
        for (which, list) in lists {
            row(&format!("either, and our list {which}"), &all, *list);
        }
        println!("{:<58} {:>9}", "not found by one search", self.missed);
    }
}

fn row(what: &str, costs: &[usize], more: usize) {
    let mean = costs.iter().sum::<usize>() / costs.len() + more;
    let most = costs.iter().max().unwrap() + more;
    println!("{what:<58} {:>9} {mean:>9} {:>9} {most:>9}", costs.len(), median(costs.to_vec()) + more);
}
