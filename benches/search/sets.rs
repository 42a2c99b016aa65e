//! The evaluation sets: tools, and queries with the tools that they need. README.md beside this file describes them.

use ::search::SearchGroup;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashSet;

/// Sets of public data, by their names. `make_sets.py` makes them.
pub(crate) const PUBLIC_SETS: [(&str, &str); 6] = [
    ("Seal-Tools", include_str!("sets/seal-tools.json")),
    ("MetaTool", include_str!("sets/metatool.json")),
    ("BFCL", include_str!("sets/bfcl.json")),
    ("ToolAlpaca", include_str!("sets/tool-alpaca.json")),
    ("RestBench", include_str!("sets/rest-bench.json")),
    ("LiveMCPBench", include_str!("sets/live-mcp-bench.json")),
];

/// A server with its tools.
#[derive(Deserialize)]
pub(crate) struct Server {
    pub(crate) server: String,
    pub(crate) description: String,
    pub(crate) tools: Vec<Box<RawValue>>,
}

/// A query of the project's own set.
#[derive(Deserialize)]
pub(crate) struct Query {
    pub(crate) kind: String,
    pub(crate) query: String,
    /// For each thing to do, the tools (`server/tool`) of which any one does it.
    pub(crate) needs: Vec<HashSet<String>>,
    pub(crate) held_out: bool,
    pub(crate) late: bool,
    /// The name of a part that was written later and separately.
    #[serde(default)]
    pub(crate) part: Option<String>,
}

/// A set of public data.
#[derive(Deserialize)]
struct PublicSet {
    /// The tools; empty if they are those of the project's own set.
    groups: Vec<Server>,
    tune: Vec<PublicQuery>,
    test: Vec<PublicQuery>,
}

#[derive(Deserialize)]
struct PublicQuery {
    query: String,
    /// The tools that are needed, all of them.
    needs: Vec<String>,
}

/// A set whose queries are in parts.
pub(crate) struct EvaluationSet {
    /// The tools that are searched.
    pub(crate) catalog: Catalog,
    /// The queries that weights and rules may be tuned on.
    pub(crate) tune: Vec<Query>,
    /// The queries that judge the result.
    pub(crate) test: Vec<Query>,
}

/// The tools of some servers.
pub(crate) struct Catalog {
    /// The servers.
    pub(crate) servers: Vec<Server>,
    /// The name of each tool, by server.
    names: Vec<Vec<String>>,
}

impl Catalog {
    pub(crate) fn new(servers: Vec<Server>) -> Self {
        let names_of = |server: &Server| server.tools.iter().map(|tool| name_of(tool)).collect();
        let names = servers.iter().map(names_of).collect();
        Self { servers, names }
    }

    /// The servers as groups.
    pub(crate) fn groups(&self) -> Vec<SearchGroup<'_>> {
        let mut groups = Vec::new();
        for (server, names) in self.servers.iter().zip(&self.names) {
            let tools = names.iter().zip(&server.tools);
            let tools = tools.map(|(name, tool)| (name.as_str(), tool.get().as_bytes())).collect();
            groups.push(SearchGroup { name: &server.server, description: server.description.clone(), tools });
        }
        groups
    }

    /// The tool as `server/tool`.
    pub(crate) fn qualified_name(&self, server: usize, tool: usize) -> String {
        format!("{}/{}", self.servers[server].server, self.names[server][tool])
    }

    /// The tools of all servers as `server/tool`, in order.
    pub(crate) fn qualified_names(&self) -> Vec<String> {
        let tools = |server: usize| (0..self.names[server].len()).map(move |tool| (server, tool));
        let all = (0..self.servers.len()).flat_map(tools);
        all.map(|(server, tool)| self.qualified_name(server, tool)).collect()
    }
}

/// The servers and queries of the project's own set.
pub(crate) fn own() -> (Catalog, Vec<Query>) {
    (Catalog::new(own_servers()), serde_json::from_str(include_str!("queries.json")).unwrap())
}

fn own_servers() -> Vec<Server> {
    serde_json::from_str(include_str!("../data/livemcp-70.json")).unwrap()
}

/// Reads a set of public data.
pub(crate) fn public(text: &str) -> EvaluationSet {
    let PublicSet { groups, tune, test } = serde_json::from_str(text).unwrap();
    let catalog = Catalog::new(if groups.is_empty() { own_servers() } else { groups });
    let names = catalog.qualified_names();
    let judged = |query: PublicQuery| {
        let tools_named = |need: &String| -> HashSet<String> {
            let is_named = |name: &&String| name.split_once('/').unwrap().1 == need;
            names.iter().filter(is_named).cloned().collect()
        };
        let needs: Vec<_> = query.needs.iter().map(tools_named).collect();
        assert!(needs.iter().all(|tools| !tools.is_empty()), "{}", query.query);
        Query { kind: String::new(), query: query.query, needs, held_out: true, late: false, part: None }
    };
    let (tune, test) = (tune.into_iter().map(judged).collect(), test.into_iter().map(judged).collect());
    EvaluationSet { catalog, tune, test }
}

/// Whether one of the first `depth` hits answers a need of the query.
pub(crate) fn is_hit(query: &Query, found: &[String], depth: usize) -> bool {
    found.iter().take(depth).any(|tool| query.needs.iter().any(|need| need.contains(tool)))
}

/// The share of the query's needs that the first `depth` hits answer.
pub(crate) fn recall(query: &Query, found: &[String], depth: usize) -> f64 {
    let found = &found[..depth.min(found.len())];
    let met = query.needs.iter().filter(|need| found.iter().any(|tool| need.contains(tool))).count();
    met as f64 / query.needs.len() as f64
}

fn name_of(definition: &RawValue) -> String {
    let definition: serde_json::Value = serde_json::from_str(definition.get()).unwrap();
    definition["name"].as_str().unwrap().to_owned()
}
