//! The tokens that it takes to reach a tool by search.

use crate::client::Client;
use crate::{Bench, GET_TOOLS, median};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;

const QUERIES: &str = include_str!("../search/queries.json");

/// A query of the search's evaluation set (benches/search/README.md).
#[derive(Deserialize)]
struct Query {
    kind: String,
    query: String,
    needs: Vec<HashSet<String>>,
}

/// The tokens of each step's search and, where the tool was not the best hit, of the definition that is asked for then:
/// a search answers with the signature of its best hit only.
#[derive(Default)]
pub(crate) struct SearchCosts {
    /// The searches whose best hit was the tool.
    best_hit: Vec<usize>,
    /// The searches with the tool among the other hits.
    other_hit: Vec<usize>,
    /// The number of searches that did not find the tool.
    missed: usize,
}

impl Bench {
    /// Searches for every step of the evaluation set, as a model would.
    pub(crate) fn search_costs(&self, client: &mut Client) -> SearchCosts {
        let queries: Vec<Query> = serde_json::from_str(QUERIES).unwrap();
        let mut costs = SearchCosts::default();
        for step in queries.iter().filter(|query| query.kind == "step") {
            let (cost, text) = self.exchange(client, "search_dynamic_tools", &json!({ "query": step.query }));
            let hits = text.lines().filter(|line| !line.starts_with(' '));
            let hits = hits.filter_map(|line| line.split(": ").next()?.split_once(" / "));
            // A name of several words is in quotation marks.
            let hits = hits.map(|(group, tool)| (group.trim_matches('"'), tool));
            let answers_need = |(group, tool): &(&str, &str)| {
                step.needs.iter().any(|need| need.contains(&format!("{group}/{tool}")))
            };
            match hits.enumerate().find(|(_, hit)| answers_need(hit)) {
                Some((0, _)) => costs.best_hit.push(cost),
                Some((_, (group, tool))) => {
                    let asked = json!({ "group": group, "tools": [tool] });
                    costs.other_hit.push(cost + self.exchange(client, GET_TOOLS, &asked).0);
                }
                None => costs.missed += 1,
            }
        }
        costs
    }
}

impl SearchCosts {
    pub(crate) fn print(&self, lists: &[(&str, usize)]) {
        println!(
            "\none tool reached by search: the search, its answer, and the definition unless it was the best hit, tokens"
        );
        println!("{:<58} {:>9} {:>9} {:>9} {:>9}", "", "searches", "mean", "median", "most");
        let all = [&self.best_hit[..], &self.other_hit].concat();
        for (what, costs) in [
            ("the best hit is the tool", &self.best_hit),
            ("another hit is", &self.other_hit),
            ("either", &all),
        ] {
            print_row(what, costs, 0);
        }
        for (which, list) in lists {
            print_row(&format!("either, and our list {which}"), &all, *list);
        }
        println!("{:<58} {:>9}", "not found by one search", self.missed);
    }
}

fn print_row(what: &str, costs: &[usize], more: usize) {
    let mean = costs.iter().sum::<usize>() / costs.len() + more;
    let most = costs.iter().max().unwrap() + more;
    println!("{what:<58} {:>9} {mean:>9} {:>9} {most:>9}", costs.len(), median(costs.to_vec()) + more);
}
