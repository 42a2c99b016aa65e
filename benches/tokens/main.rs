//! What the model's context holds of 70 real servers (527 tools): all at once, and through dynamic-mcp.
//!
//!   cargo bench --bench tokens
//!
//! The program is asked as a client asks it; its servers answer `initialize` and `tools/list` with the catalogs in
//! `benches/data`. Tokens are those of o200k_base. docs/benchmarks.md has a run.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::unwrap_used, reason = "a bench that panics has said what is wrong")]

mod client;
mod search;
mod upstream;

use client::Client;
use dynamic_mcp::schema::signature::signature;
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

const GET: &str = "get_dynamic_tools";
const CATALOGS: &str = include_str!("../data/livemcp-70.json");

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--upstream") => upstream::serve(&std::env::args().nth(2).unwrap()),
        _ => Bench::new().all(),
    }
}

struct Bench {
    catalogs: Vec<Value>,
    tokenizer: CoreBPE,
}

/// Tokens of the answers about one group, and how many tools it has.
struct Group {
    tools: usize,
    stubs: usize,
    signatures: usize,
    full: usize,
    by_itself: usize,
    form: &'static str,
    /// Of each tool asked for by name.
    described: Vec<usize>,
}

impl Bench {
    fn new() -> Self {
        let catalogs = serde_json::from_str(CATALOGS).unwrap();
        Self { catalogs, tokenizer: tiktoken_rs::o200k_base().unwrap() }
    }

    fn all(&self) {
        let direct = self.direct();
        self.lists();
        let mut client = Client::start(&self.servers(70), json!({}));
        let list = self.listed(&mut client);
        let groups: Vec<Group> =
            self.catalogs.iter().map(|catalog| self.group(&mut client, catalog)).collect();
        let searched = self.searched(&mut client);
        drop(client);
        self.to_one_tool(direct, list, &groups);
        let of_ten = self.listed(&mut Client::start(&self.servers(10), json!({ "names_budget": 0 })));
        searched.print(&[("of 10 groups", of_ten), ("of 70 groups", list)]);
        self.forms(&groups);
        self.samples();
    }

    fn tokens(&self, text: &str) -> usize {
        self.tokenizer.encode_ordinary(text).len()
    }

    /// The first `n` servers.
    fn servers(&self, n: usize) -> Vec<(String, Value)> {
        let server = |catalog: &Value| {
            let name = catalog["server"].as_str().unwrap();
            (name.to_owned(), json!({ "description": catalog["description"] }))
        };
        self.catalogs.iter().take(n).map(server).collect()
    }

    /// What a model is given of a tool.
    fn tool(&self, tool: &Value) -> usize {
        let given = json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
        self.tokens(&given.to_string())
    }

    fn listed(&self, client: &mut Client) -> usize {
        client.list().iter().map(|tool| self.tool(tool)).sum()
    }

    fn direct(&self) -> usize {
        let tools = self.catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap());
        tools.map(|tool| self.tool(tool)).sum()
    }

    fn lists(&self) {
        println!("tools/list: name, description and inputSchema of our tools, tokens");
        println!(
            "{:<10} {:>14} {:>14} {:>28}",
            "groups", "without names", "with names", "longest description, chars"
        );
        for n in [1, 10, 50, 70] {
            let mut row = Vec::new();
            let mut longest = 0;
            for budget in [0, 600] {
                let mut client = Client::start(&self.servers(n), json!({ "names_budget": budget }));
                row.push(self.listed(&mut client));
                let lengths = client.list();
                let lengths =
                    lengths.iter().map(|tool| tool["description"].as_str().unwrap().chars().count());
                longest = lengths.max().unwrap().max(longest);
            }
            println!("{n:<10} {:>14} {:>14} {longest:>28}", row[0], row[1]);
        }
    }

    /// An exchange as it stands in the context: what the model wrote, and what it got.
    fn exchange(&self, client: &mut Client, tool: &str, arguments: &Value) -> (usize, String) {
        let text = client.text(tool, arguments);
        (self.tokens(&arguments.to_string()) + self.tokens(&text), text)
    }

    fn group(&self, client: &mut Client, catalog: &Value) -> Group {
        let name = &catalog["server"];
        let tools = catalog["tools"].as_array().unwrap();
        let mut of = |more: Value| {
            let mut arguments = json!({ "group": name });
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            self.exchange(client, GET, &arguments)
        };
        let (by_itself, text) = of(json!({}));
        let described = tools.iter().map(|tool| of(json!({ "tools": [tool["name"]] })).0).collect();
        let (stubs, stub_text) = of(json!({ "lazy": true }));
        let form = match (text == stub_text, text.contains("\"inputSchema\":")) {
            (true, _) => "stubs",
            (false, true) => "full",
            (false, false) => "signatures",
        };
        let (signatures, full) = (of(json!({ "detail": "signature" })).0, of(json!({ "lazy": false })).0);
        Group { tools: tools.len(), stubs, signatures, full, by_itself, form, described }
    }

    fn to_one_tool(&self, direct: usize, list: usize, groups: &[Group]) {
        println!("\nall tools of 70 servers, and what it takes to know one of them, tokens");
        println!("{:<58} {:>9} {:>9} {:>9}", "", "mean", "median", "of direct");
        println!("{:<58} {direct:>9}", "all 527 tools listed directly");
        println!("{:<58} {list:>9} {:>9} {:>9}", "our list", "", percent(list, direct));
        let each = |of: &dyn Fn(&Group, usize) -> usize| -> Vec<usize> {
            let tools = groups.iter().flat_map(|group| group.described.iter().map(move |one| (group, *one)));
            tools.map(|(group, one)| list + of(group, one)).collect()
        };
        for (what, costs) in [
            ("our list, a group's stubs, one definition", each(&|group, one| group.stubs + one)),
            ("our list, a group's signatures", each(&|group, _| group.signatures)),
            ("our list, a group's definitions", each(&|group, _| group.full)),
            (
                "our list, a group in the form that fits, one if need be",
                each(&|group, one| group.by_itself + if group.form == "stubs" { one } else { 0 }),
            ),
        ] {
            let mean = costs.iter().sum::<usize>() / costs.len();
            println!("{what:<58} {mean:>9} {:>9} {:>9}", median(costs), percent(mean, direct));
        }
    }

    fn forms(&self, groups: &[Group]) {
        println!("\nthe groups in each form, tokens");
        println!("{:<58} {:>9} {:>9}", "", "all 70", "median");
        let of = |tokens: fn(&Group) -> usize| groups.iter().map(tokens).collect::<Vec<_>>();
        let (signatures, full) = (of(|group| group.signatures), of(|group| group.full));
        let saved = 100 - 100 * signatures.iter().sum::<usize>() / full.iter().sum::<usize>();
        for (what, all) in [
            ("stubs", of(|group| group.stubs)),
            ("signatures", signatures),
            ("full definitions", full),
            ("the form that fits", of(|group| group.by_itself)),
        ] {
            println!("{what:<58} {:>9} {:>9}", all.iter().sum::<usize>(), median(all));
        }
        let tools = self.catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap());
        let lossless = tools.filter(|tool| signature(&tool.to_string().into()).lossless).count();
        println!(
            "signatures save {saved} % of the full definitions; {lossless} of them say all that those do"
        );
        for form in ["full", "signatures", "stubs"] {
            let chosen: Vec<_> = groups.iter().filter(|group| group.form == form).collect();
            let tools: usize = chosen.iter().map(|group| group.tools).sum();
            println!("{form} by itself: {} groups, {tools} tools", chosen.len());
        }
        let described: Vec<usize> = groups.iter().flat_map(|group| group.described.clone()).collect();
        let mean = described.iter().sum::<usize>() / described.len();
        println!("one definition asked for by name: mean {mean}, median {}", median(described));
    }

    /// Groups of tools from everywhere.
    fn samples(&self) {
        println!("\nstubs of one group, tokens");
        for n in [20, 30] {
            let servers = [(upstream::sample(n), json!({}))];
            let mut client = Client::start(&servers, json!({}));
            let (tokens, text) =
                self.exchange(&mut client, GET, &json!({ "group": servers[0].0, "lazy": true }));
            println!("{n} stubs: {} ({tokens} with the request)", self.tokens(&text));
        }
    }
}

fn median(mut all: Vec<usize>) -> usize {
    all.sort_unstable();
    all[all.len() / 2]
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}
