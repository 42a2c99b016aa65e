//! What dynamic-mcp costs between a client and a server: each figure direct, through a relay that does nothing, and through
//! dynamic-mcp.
//!
//!   DYNAMIC_MCP_BENCH_CORE=1 taskset -c 0 cargo bench --bench proxy
//!
//! The client runs on core 0, the servers and proxies on core 1. `DYNAMIC_MCP_BENCH_PROGRAM` measures another binary,
//! `DYNAMIC_MCP_BENCH_PEERS` also the proxies that `benches/proxy/peers` has installed in that folder. Each figure is the
//! median of rounds, and the contestants take turns. docs/benchmarks.md has the figures of a run.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench may panic")]
#![cfg_attr(target_os = "linux", expect(clippy::disallowed_types, reason = "no clock is paused here"))]

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod contestants;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod upstream;

#[cfg(target_os = "linux")]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--upstream") => upstream::serve(false),
        Some("--hanging-upstream") => upstream::serve(true),
        _ => measure::run(),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this bench reads /proc, which only Linux has");
}

#[cfg(target_os = "linux")]
mod measure {
    use super::client::BenchClient;
    use super::{calls, contestants, process};
    use std::fs;
    use std::time::Instant;
    use tempfile::TempDir;

    const STARTS: usize = 50;
    const CALLS_BEFORE_MEMORY: usize = 20;

    pub(super) fn run() {
        println!("{:<58} {:>28} {:>28}", "", "direct", "dynamic-mcp");
        startup();
        for upstreams in [1, 15] {
            memory(upstreams);
        }
        let config = BenchConfig::new(1);
        let upstream = upstream_command("--upstream");
        calls::measure(&contestants::all(&upstream, &config.proxy, config.dir.path()));
    }

    /// From the spawn to the answers that a client waits for before it is ready.
    fn startup() {
        let upstream = upstream_command("--upstream");
        for (hanging, unreachable) in [(0, 0), (10, 0), (50, 0), (0, 20)] {
            let config = BenchConfig::with_broken(1, hanging, unreachable);
            let (mut direct, mut proxied) = (StartTimes::default(), StartTimes::default());
            for _ in 0..STARTS {
                direct.measure(&upstream);
                proxied.measure(&config.proxy);
            }
            let kind = if unreachable > 0 { ", remote and unreachable" } else { "" };
            let servers = format!("{} configured{kind}", 1 + hanging + unreachable);
            print_row(
                &format!("start to initialize, {servers}, ms"),
                &direct.initialize,
                &proxied.initialize,
            );
            print_row(
                &format!("start to tools/list, {servers}, ms"),
                &direct.list_tools,
                &proxied.list_tools,
            );
        }
    }

    /// Milliseconds from the spawn to the answer, of each start.
    #[derive(Default)]
    struct StartTimes {
        initialize: Vec<f64>,
        list_tools: Vec<f64>,
    }

    impl StartTimes {
        fn measure(&mut self, command: &[String]) {
            let spawned = Instant::now();
            let mut client = BenchClient::start(command);
            client.initialize();
            self.initialize.push(spawned.elapsed().as_secs_f64() * 1e3);
            client.list_tools();
            self.list_tools.push(spawned.elapsed().as_secs_f64() * 1e3);
        }
    }

    /// The memory of the proxy and of its warden after calls to every upstream, and of the proxy after 1 MB from each.
    fn memory(upstreams: usize) {
        let config = BenchConfig::new(upstreams);
        let mut client = BenchClient::start(&config.proxy);
        client.initialize();
        for n in 0..upstreams {
            for _ in 0..CALLS_BEFORE_MEMORY {
                client.call(Some(&group_name(n)), "r100");
            }
        }
        let warden = process::first_child(client.pid()).expect("the warden");
        let print = |name: &str, pid: u32| {
            let text = format!("{:.1}", process::anonymous_megabytes(pid));
            println!("{:<58} {:>28} {text:>28}", format!("{name}, {upstreams} in use, MB"), "");
        };
        print("anonymous", client.pid());
        print("anonymous: warden", warden);
        for n in 0..upstreams {
            client.call(Some(&group_name(n)), "r1000000");
        }
        print("anonymous after 1 MB of each", client.pid());
    }

    /// A config file and the command that starts dynamic-mcp with it.
    struct BenchConfig {
        proxy: Vec<String>,
        /// Holds the file, and removes it.
        dir: TempDir,
    }

    impl BenchConfig {
        fn new(upstreams: usize) -> Self {
            Self::with_broken(upstreams, 0, 0)
        }

        /// Adds servers that are started and answer nothing, and remote ones that refuse connections.
        fn with_broken(upstreams: usize, hanging: usize, unreachable: usize) -> Self {
            let entry = |name: &str, argument: &str, mode: &str| {
                let command = upstream_command(argument);
                format!("{name:?}: {{ \"command\": {command:?}, \"lazy_startup\": {mode:?} }}")
            };
            let working = (0..upstreams).map(|n| entry(&group_name(n), "--upstream", "pure"));
            let hanging_name = |n| format!("hanging-{n}");
            let hanging = (0..hanging).map(|n| entry(&hanging_name(n), "--hanging-upstream", "eager"));
            let unreachable = (1..=unreachable).map(|port| {
                format!("\"unreachable-{port}\": {{ \"url\": \"https://127.0.0.1:{port}/mcp\", \"lazy_startup\": \"eager\" }}")
            });
            let entries: Vec<_> = working.chain(hanging).chain(unreachable).collect();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("servers.json");
            fs::write(&path, format!("{{ \"mcpServers\": {{ {} }} }}", entries.join(",\n"))).unwrap();
            let program = std::env::var("DYNAMIC_MCP_BENCH_PROGRAM");
            let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_dynamic-mcp").to_owned());
            let proxy = vec![program, "--no-cache".into(), "--config".into(), path.to_str().unwrap().into()];
            Self { proxy, dir }
        }
    }

    fn group_name(n: usize) -> String {
        format!("upstream-{n}")
    }

    /// The command that runs this executable as an upstream.
    fn upstream_command(argument: &str) -> Vec<String> {
        vec![std::env::current_exe().unwrap().to_str().unwrap().to_owned(), argument.to_owned()]
    }

    /// The lowest figure, the median and the highest.
    fn summarize(figures: &[f64]) -> (f64, f64, f64) {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
    }

    fn print_row(name: &str, direct: &[f64], proxied: &[f64]) {
        let cell = |figures: &[f64]| {
            let (low, median, high) = summarize(figures);
            let digits = if median < 100.0 { 1 } else { 0 };
            format!("{median:.digits$} ({low:.digits$} – {high:.digits$})")
        };
        println!("{name:<58} {:>28} {:>28}", cell(direct), cell(proxied));
    }
}
