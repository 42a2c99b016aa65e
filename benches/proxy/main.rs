//! What it costs to have dynamic-mcp in between: each figure through it beside the same without it.
//!
//!   taskset -c 1 cargo bench --bench proxy
//!
//! `DYNAMIC_MCP_BENCH_PROGRAM` measures another binary. Each figure is a median of rounds, direct and proxied in
//! turns, with the lowest and highest round behind it. docs/benchmarks.md has a run, and says why on one core.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench that panics has said what is wrong")]
#![expect(clippy::disallowed_types, reason = "no clock is paused here")]

#[cfg(target_os = "linux")]
mod peer;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod upstream;

#[cfg(target_os = "linux")]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--upstream") => upstream::serve(false),
        Some("--upstream-that-hangs") => upstream::serve(true),
        _ => measure::all(),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this bench reads /proc");
}

#[cfg(target_os = "linux")]
mod measure {
    use super::peer::Peer;
    use super::process;
    use std::fs;
    use std::time::Instant;
    use tempfile::TempDir;

    const STARTS: usize = 50;
    const ROUNDS: usize = 9;
    const CALLS: usize = 4000;
    const BIG_CALLS: usize = 100;

    pub(super) fn all() {
        println!("{:<46} {:>28} {:>28}", "", "direct", "dynamic-mcp");
        starts();
        round_trips();
        for depth in [16, 32] {
            throughput(depth);
        }
        big_results();
        for upstreams in [1, 15] {
            memory(upstreams);
        }
    }

    /// From the spawn to the answers that a client waits for before it is ready.
    fn starts() {
        let direct = this_program("--upstream");
        for (hanging, away) in [(0, 0), (10, 0), (50, 0), (0, 20)] {
            let config = Config::with_others(1, hanging, away);
            let (mut ours, mut theirs) = (Times::default(), Times::default());
            for _ in 0..STARTS {
                theirs.add(start(&direct));
                ours.add(start(&config.proxy));
            }
            let others = if away > 0 { ", remote and away" } else { "" };
            let entries = format!("{} configured{others}", 1 + hanging + away);
            row(&format!("start to initialize, {entries}, ms"), &theirs.first, &ours.first);
            row(&format!("start to tools/list, {entries}, ms"), &theirs.second, &ours.second);
        }
    }

    #[derive(Default)]
    struct Times {
        first: Vec<f64>,
        second: Vec<f64>,
    }

    impl Times {
        fn add(&mut self, (first, second): (f64, f64)) {
            self.first.push(first);
            self.second.push(second);
        }
    }

    fn start(command: &[String]) -> (f64, f64) {
        let begin = Instant::now();
        let mut peer = Peer::start(command);
        peer.initialize();
        let initialized = millis(begin);
        peer.list_tools();
        (initialized, millis(begin))
    }

    /// One call after the other.
    fn round_trips() {
        let [mut p50, mut p99, mut cpu] = [(); 3].map(|()| [vec![], vec![]]);
        let config = Config::new(1);
        let mut peers = config.both();
        for _ in 0..ROUNDS {
            for (n, (peer, group)) in peers.iter_mut().enumerate() {
                let before = process::cpu(peer.pid());
                let mut micros: Vec<_> = (0..CALLS).map(|_| timed(|| peer.call(*group, "echo"))).collect();
                cpu[n].push((process::cpu(peer.pid()) - before) / CALLS as f64);
                micros.sort_by(f64::total_cmp);
                p50[n].push(micros[CALLS / 2]);
                p99[n].push(micros[CALLS * 99 / 100]);
            }
        }
        row("echo, 100 B, p50, µs", &p50[0], &p50[1]);
        row("echo, 100 B, p99, µs", &p99[0], &p99[1]);
        row("  CPU of that process per call, µs", &cpu[0], &cpu[1]);
    }

    /// Always `depth` calls in flight.
    fn throughput(depth: usize) {
        let [mut rate, mut cpu] = [(); 2].map(|()| [vec![], vec![]]);
        let config = Config::new(1);
        let mut peers = config.both();
        for _ in 0..ROUNDS {
            for (n, (peer, group)) in peers.iter_mut().enumerate() {
                let calls = 5 * CALLS;
                let (before, begin) = (process::cpu(peer.pid()), Instant::now());
                for sent in 0..calls + depth {
                    if sent >= depth {
                        peer.receive();
                    }
                    if sent < calls {
                        peer.send_call(*group, "echo");
                    }
                }
                rate[n].push(calls as f64 / begin.elapsed().as_secs_f64());
                cpu[n].push((process::cpu(peer.pid()) - before) / calls as f64);
            }
        }
        row(&format!("echo, {depth} in flight, calls/s"), &rate[0], &rate[1]);
        row("  CPU of that process per call, µs", &cpu[0], &cpu[1]);
    }

    fn big_results() {
        let mut p50 = [vec![], vec![]];
        let config = Config::new(1);
        let mut peers = config.both();
        for _ in 0..ROUNDS {
            for (n, (peer, group)) in peers.iter_mut().enumerate() {
                let micros: Vec<_> = (0..BIG_CALLS).map(|_| timed(|| peer.call(*group, "big"))).collect();
                p50[n].push(median(&micros).1);
            }
        }
        row("a text of 1 MB, p50, µs", &p50[0], &p50[1]);
    }

    /// Of the proxy and of its warden, once every upstream was used, and once one gave 1 MB.
    fn memory(upstreams: usize) {
        let config = Config::new(upstreams);
        let mut peer = Peer::start(&config.proxy);
        peer.initialize();
        for n in 0..upstreams {
            for _ in 0..20 {
                peer.call(Some(&group(n)), "echo");
            }
        }
        let warden = process::child(peer.pid()).expect("the warden");
        let print = |name: &str, pid: u32| {
            let (resident, private) = process::memory(pid);
            let text = format!("{resident:.1} (private {private:.1})");
            println!("{:<46} {:>28} {text:>28}", format!("{name}, {upstreams} in use, MB"), "");
        };
        print("resident", peer.pid());
        print("resident: warden", warden);
        for n in 0..upstreams {
            peer.call(Some(&group(n)), "big");
        }
        print("resident after 1 MB of each", peer.pid());
    }

    /// A config file of upstreams, and the command of the proxy with it.
    struct Config {
        proxy: Vec<String>,
        /// Gone with this.
        _dir: TempDir,
    }

    impl Config {
        fn new(upstreams: usize) -> Self {
            Self::with_others(upstreams, 0, 0)
        }

        /// With some that are started and say nothing, and remote ones that refuse connections.
        fn with_others(upstreams: usize, hanging: usize, away: usize) -> Self {
            let entry = |name: &str, argument: &str, mode: &str| {
                format!(
                    "{name:?}: {{ \"command\": {:?}, \"lazy_startup\": {mode:?} }}",
                    this_program(argument)
                )
            };
            let working = (0..upstreams).map(|n| entry(&group(n), "--upstream", "pure"));
            let name = |n| format!("hanging-{n}");
            let hanging = (0..hanging).map(|n| entry(&name(n), "--upstream-that-hangs", "eager"));
            let away = (1..=away).map(|port| {
                format!("\"away-{port}\": {{ \"url\": \"https://127.0.0.1:{port}/mcp\", \"lazy_startup\": \"eager\" }}")
            });
            let entries: Vec<_> = working.chain(hanging).chain(away).collect();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("servers.json");
            fs::write(&path, format!("{{ \"mcpServers\": {{ {} }} }}", entries.join(",\n"))).unwrap();
            let program = std::env::var("DYNAMIC_MCP_BENCH_PROGRAM");
            let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_dynamic-mcp").to_owned());
            let proxy = vec![program, "--no-cache".into(), "--config".into(), path.to_str().unwrap().into()];
            Self { proxy, _dir: dir }
        }

        /// The upstream itself and the proxy before it, both warm.
        fn both(&self) -> [(Peer, Option<&'static str>); 2] {
            let commands = [(this_program("--upstream"), None), (self.proxy.clone(), Some("upstream-0"))];
            commands.map(|(command, group)| {
                let mut peer = Peer::start(&command);
                peer.initialize();
                for _ in 0..500 {
                    peer.call(group, "echo");
                }
                (peer, group)
            })
        }
    }

    fn group(n: usize) -> String {
        format!("upstream-{n}")
    }

    fn this_program(argument: &str) -> Vec<String> {
        vec![std::env::current_exe().unwrap().to_str().unwrap().to_owned(), argument.to_owned()]
    }

    fn timed<T>(work: impl FnOnce() -> T) -> f64 {
        let begin = Instant::now();
        work();
        begin.elapsed().as_secs_f64() * 1e6
    }

    fn millis(begin: Instant) -> f64 {
        begin.elapsed().as_secs_f64() * 1e3
    }

    /// The lowest, the median, the highest.
    fn median(figures: &[f64]) -> (f64, f64, f64) {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
    }

    fn row(name: &str, direct: &[f64], proxied: &[f64]) {
        let cell = |figures: &[f64]| {
            let (low, median, high) = median(figures);
            let digits = if median < 100.0 { 1 } else { 0 };
            format!("{median:.digits$} ({low:.digits$} – {high:.digits$})")
        };
        println!("{name:<46} {:>28} {:>28}", cell(direct), cell(proxied));
    }
}
