//! Measures the tokens that 70 real servers (527 tools) take in a model's context, directly and through dynamic-mcp.
//!
//!   cargo bench --bench tokens
//!
//! The bench is a client of the program. The servers answer `initialize` and `tools/list` with the catalogs in
//! `benches/data`. Tokens are those of o200k_base. docs/benchmarks.md has the results of a run.
#![allow(clippy::print_stdout, reason = "a bench prints its tables")]
#![allow(clippy::unwrap_used, reason = "a bench that panics has said what is wrong")]

mod client;
mod search;
mod upstream;

use ::schema::signature::signature;
use client::Client;
use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;

/// The tool that lists the tools of a group.
const GET_TOOLS: &str = "get_dynamic_tools";
const CATALOGS: &str = include_str!("../data/livemcp-70.json");

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--upstream") => upstream::serve(&std::env::args().nth(2).unwrap()),
        _ => Bench::new().run(),
    }
}

struct Bench {
    catalogs: Vec<Value>,
    tokenizer: CoreBPE,
}

/// The tokens of the answers about one group.
struct GroupCosts {
    /// The number of tools.
    tools: usize,
    stubs: usize,
    signatures: usize,
    full: usize,
    /// The answer in the form that the program chooses.
    by_default: usize,
    default_form: &'static str,
    /// The answer about each tool that is asked for by name.
    by_name: Vec<usize>,
}

impl Bench {
    fn new() -> Self {
        let catalogs = serde_json::from_str(CATALOGS).unwrap();
        Self { catalogs, tokenizer: tiktoken_rs::o200k_base().unwrap() }
    }

    fn run(&self) {
        let direct = self.direct_tokens();
        self.print_lists();
        let mut client = Client::start(&self.servers(70), json!({}));
        let list = self.list_tokens(&mut client);
        let groups: Vec<GroupCosts> =
            self.catalogs.iter().map(|catalog| self.group_costs(&mut client, catalog)).collect();
        let search_costs = self.search_costs(&mut client);
        drop(client);
        self.print_costs_of_one_tool(direct, list, &groups);
        let of_ten = self.list_tokens(&mut Client::start(&self.servers(10), json!({ "names_budget": 0 })));
        search_costs.print(&[("of 10 groups", of_ten), ("of 70 groups", list)]);
        self.print_forms(&groups);
        self.print_samples();
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

    /// The tokens of what a model is given of a tool.
    fn tool_tokens(&self, tool: &Value) -> usize {
        let given = json!({ "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"] });
        self.tokens(&given.to_string())
    }

    /// The tokens of the program's `tools/list`.
    fn list_tokens(&self, client: &mut Client) -> usize {
        client.list_tools().iter().map(|tool| self.tool_tokens(tool)).sum()
    }

    /// The tokens of all tools, listed without the program.
    fn direct_tokens(&self) -> usize {
        let tools = self.catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap());
        tools.map(|tool| self.tool_tokens(tool)).sum()
    }

    fn print_lists(&self) {
        println!("tools/list: name, description and inputSchema of our tools; instructions; tokens");
        println!(
            "{:<10} {:>14} {:>14} {:>14} {:>28}",
            "groups", "without names", "with names", "instructions", "longest description, chars"
        );
        for n in [1, 10, 50, 70] {
            let mut row = Vec::new();
            let (mut longest, mut instructions) = (0, 0);
            for budget in [0, 600] {
                let mut client = Client::start(&self.servers(n), json!({ "names_budget": budget }));
                row.push(self.list_tokens(&mut client));
                instructions = self.tokens(&client.instructions);
                let lengths = client.list_tools();
                let lengths =
                    lengths.iter().map(|tool| tool["description"].as_str().unwrap().chars().count());
                longest = lengths.max().unwrap().max(longest);
            }
            println!("{n:<10} {:>14} {:>14} {instructions:>14} {longest:>28}", row[0], row[1]);
        }
    }

    /// Calls a tool. Returns the tokens of the arguments and the answer, which are in the model's context, and the answer.
    fn exchange(&self, client: &mut Client, tool: &str, arguments: &Value) -> (usize, String) {
        let text = client.call_for_text(tool, arguments);
        (self.tokens(&arguments.to_string()) + self.tokens(&text), text)
    }

    /// Asks for the tools of a catalog's group in every form.
    fn group_costs(&self, client: &mut Client, catalog: &Value) -> GroupCosts {
        let name = &catalog["server"];
        let tools = catalog["tools"].as_array().unwrap();
        let mut exchange = |more: Value| {
            let mut arguments = json!({ "group": name });
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            self.exchange(client, GET_TOOLS, &arguments)
        };
        let (by_default, text) = exchange(json!({}));
        let by_name = tools.iter().map(|tool| exchange(json!({ "tools": [tool["name"]] })).0).collect();
        let (stubs, stub_text) = exchange(json!({ "lazy": true }));
        let default_form = match (text == stub_text, text.contains("\"inputSchema\":")) {
            (true, _) => "stubs",
            (false, true) => "full",
            (false, false) => "signatures",
        };
        let (signatures, full) =
            (exchange(json!({ "detail": "signature" })).0, exchange(json!({ "lazy": false })).0);
        GroupCosts { tools: tools.len(), stubs, signatures, full, by_default, default_form, by_name }
    }

    fn print_costs_of_one_tool(&self, direct: usize, list: usize, groups: &[GroupCosts]) {
        println!("\nall tools of 70 servers, and what it takes to know one of them, tokens");
        println!("{:<58} {:>9} {:>9} {:>9}", "", "mean", "median", "of direct");
        println!("{:<58} {direct:>9}", "all 527 tools listed directly");
        println!("{:<58} {list:>9} {:>9} {:>9}", "our list", "", percent(list, direct));
        let each = |of: &dyn Fn(&GroupCosts, usize) -> usize| -> Vec<usize> {
            let tools = groups.iter().flat_map(|group| group.by_name.iter().map(move |one| (group, *one)));
            tools.map(|(group, one)| list + of(group, one)).collect()
        };
        for (what, costs) in [
            ("our list, a group's stubs, one definition", each(&|group, one| group.stubs + one)),
            ("our list, a group's signatures", each(&|group, _| group.signatures)),
            ("our list, a group's definitions", each(&|group, _| group.full)),
            (
                "our list, a group in the form that fits, one if need be",
                each(&|group, one| group.by_default + if group.default_form == "stubs" { one } else { 0 }),
            ),
        ] {
            let mean = costs.iter().sum::<usize>() / costs.len();
            println!("{what:<58} {mean:>9} {:>9} {:>9}", median(costs), percent(mean, direct));
        }
    }

    fn print_forms(&self, groups: &[GroupCosts]) {
        println!("\nthe groups in each form, tokens");
        println!("{:<58} {:>9} {:>9}", "", "all 70", "median");
        let column = |tokens: fn(&GroupCosts) -> usize| groups.iter().map(tokens).collect::<Vec<_>>();
        let (signatures, full) = (column(|group| group.signatures), column(|group| group.full));
        let saved = 100 - 100 * signatures.iter().sum::<usize>() / full.iter().sum::<usize>();
        for (what, all) in [
            ("stubs", column(|group| group.stubs)),
            ("signatures", signatures),
            ("full definitions", full),
            ("the form that fits", column(|group| group.by_default)),
        ] {
            println!("{what:<58} {:>9} {:>9}", all.iter().sum::<usize>(), median(all));
        }
        let tools = self.catalogs.iter().flat_map(|catalog| catalog["tools"].as_array().unwrap());
        let lossless = tools.filter(|tool| signature(&tool.to_string().into()).lossless).count();
        println!(
            "signatures save {saved} % of the full definitions; {lossless} of them say all that those do"
        );
        for form in ["full", "signatures", "stubs"] {
            let chosen: Vec<_> = groups.iter().filter(|group| group.default_form == form).collect();
            let tools: usize = chosen.iter().map(|group| group.tools).sum();
            println!("{form} by itself: {} groups, {tools} tools", chosen.len());
        }
        let described: Vec<usize> = groups.iter().flat_map(|group| group.by_name.clone()).collect();
        let mean = described.iter().sum::<usize>() / described.len();
        println!("one definition asked for by name: mean {mean}, median {}", median(described));
    }

    /// Prints the costs of groups whose tools are from all catalogs.
    fn print_samples(&self) {
        println!("\nstubs of one group, tokens");
        for n in [20, 30] {
            let servers = [(upstream::sample_name(n), json!({}))];
            let mut client = Client::start(&servers, json!({}));
            let (tokens, text) =
                self.exchange(&mut client, GET_TOOLS, &json!({ "group": servers[0].0, "lazy": true }));
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
