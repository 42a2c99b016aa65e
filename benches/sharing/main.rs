//! What it costs to share a server: each figure with a process of one's own and with a shared one.
//!
//!   taskset -c 1 cargo bench --bench sharing
//!
//! `DYNAMIC_MCP_BENCH_PROGRAM` measures another binary. Private and shared rounds take turns. `run.py` beside this file
//! measures processes and memory. docs/benchmarks.md has the figures of a run.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench may panic")]
#![cfg_attr(target_os = "linux", expect(clippy::disallowed_types, reason = "no clock is paused here"))]

#[cfg(target_os = "linux")]
#[path = "../proxy/process.rs"]
#[allow(dead_code, reason = "the bench `proxy` uses the rest")]
mod process;

#[cfg(target_os = "linux")]
#[path = "../proxy/client.rs"]
#[expect(dead_code, reason = "the bench of the proxy measures more")]
mod client;
#[cfg(target_os = "linux")]
#[path = "../proxy/upstream.rs"]
mod upstream;

#[cfg(target_os = "linux")]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("--upstream") => upstream::serve(false),
        _ => measure::run(),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("servers are shared on Linux only");
}

#[cfg(target_os = "linux")]
mod measure {
    use super::client::BenchClient;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;
    use tempfile::TempDir;

    const ROUNDS: usize = 9;
    const CALLS_PER_ROUND: usize = 2000;
    const BIG_CALLS_PER_ROUND: usize = 100;
    const WARM_UP_CALLS: usize = 500;
    const SECOND_WINDOWS: usize = 30;
    /// The clients beside the one that floods.
    const OTHERS: usize = 19;
    const CALLS_OF_OTHERS: usize = 100;
    const FLOODED_ROUNDS: usize = 3;
    /// How many calls the client that floods has in flight.
    const FLOOD: usize = 500;

    pub(super) fn run() {
        println!("{:<58} {:>24} {:>24} {:>8}", "", "private", "shared", "ratio");
        let dirs = BenchDirs::new();
        latency(&dirs);
        second_window(&dirs);
        hostile(&dirs);
    }

    fn latency(dirs: &BenchDirs) {
        let [mut p50, mut p99, mut big] = [(); 3].map(|()| [vec![], vec![]]);
        let mut clients = ["client", "user"].map(|share| dirs.warm_client(share));
        for _ in 0..ROUNDS {
            for (n, client) in clients.iter_mut().enumerate() {
                let micros = sorted_micros(CALLS_PER_ROUND, || client.call(Some("g"), "r100"));
                p50[n].push(micros[CALLS_PER_ROUND / 2]);
                p99[n].push(micros[CALLS_PER_ROUND * 99 / 100]);
                let micros = sorted_micros(BIG_CALLS_PER_ROUND, || client.call(Some("g"), "r1000000"));
                big[n].push(micros[BIG_CALLS_PER_ROUND / 2]);
            }
        }
        print_row("100 B, p50, µs", &p50);
        print_row("100 B, p99, µs", &p99);
        print_row("a text of 1 MB, p50, µs", &big);
    }

    /// The first call of a window whose server has not been started, or runs for another window already.
    fn second_window(dirs: &BenchDirs) {
        let _first = dirs.warm_client("user");
        let first_call = |share: &str| -> Vec<f64> {
            let timed = |_| {
                let mut client = dirs.client(share);
                sorted_micros(1, || client.call(Some("g"), "r100"))[0]
            };
            (0..SECOND_WINDOWS).map(timed).collect()
        };
        print_row("first call of another window, µs", &[first_call("client"), first_call("user")]);
    }

    /// 19 clients of a shared server make single calls in turn, while another client floods a server of its own, or the
    /// shared one. The former shows what the machine alone makes of the flood.
    fn hostile(dirs: &BenchDirs) {
        let mut others: Vec<BenchClient> = (0..OTHERS).map(|_| dirs.warm_client("user")).collect();
        let mut p99 = |flooded: &str| {
            let stop = Arc::new(AtomicBool::new(false));
            let (mut hostile, stopped) = (dirs.warm_client(flooded), stop.clone());
            let flooding = std::thread::spawn(move || {
                let mut open = 0;
                while !stopped.load(Ordering::Relaxed) || open > 0 {
                    if open < FLOOD && !stopped.load(Ordering::Relaxed) {
                        hostile.send_call(Some("g"), "r100");
                        open += 1;
                    } else {
                        hostile.receive_result();
                        open -= 1;
                    }
                }
            });
            let mut micros = Vec::new();
            for _ in 0..CALLS_OF_OTHERS {
                for other in &mut others {
                    micros.extend(sorted_micros(1, || other.call(Some("g"), "r100")));
                }
            }
            stop.store(true, Ordering::Relaxed);
            flooding.join().unwrap();
            micros.sort_by(f64::total_cmp);
            micros[micros.len() * 99 / 100]
        };
        let [mut own, mut shared] = [vec![], vec![]];
        for _ in 0..FLOODED_ROUNDS {
            own.push(p99("client"));
            shared.push(p99("user"));
        }
        print_row("p99 of 19 clients of a shared server, another floods, µs", &[own, shared]);
    }

    /// Config files and a runtime directory.
    struct BenchDirs(TempDir);

    impl BenchDirs {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
            Self(dir)
        }

        /// A client of dynamic-mcp whose server `g` is shared like this.
        fn client(&self, share: &str) -> BenchClient {
            let path = self.0.path().join(format!("{share}.json"));
            let upstream = std::env::current_exe().unwrap();
            let entry = format!(
                "{{ \"command\": [{upstream:?}, \"--upstream\"], \"lazy_startup\": \"pure\", \"share\": {share:?} }}"
            );
            fs::write(&path, format!("{{ \"mcpServers\": {{ \"g\": {entry} }} }}")).unwrap();
            let program = std::env::var("DYNAMIC_MCP_BENCH_PROGRAM");
            let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_dynamic-mcp").to_owned());
            let runtime_dir = format!("XDG_RUNTIME_DIR={}", self.0.path().display());
            let command =
                ["env", "-u", "CI", &runtime_dir, &program, "--no-cache", "--config", path.to_str().unwrap()];
            let mut client = BenchClient::start(&command.map(str::to_owned));
            client.initialize();
            client
        }

        fn warm_client(&self, share: &str) -> BenchClient {
            let mut client = self.client(share);
            for _ in 0..WARM_UP_CALLS {
                client.call(Some("g"), "r100");
            }
            client
        }
    }

    /// The times that calls took, in microseconds.
    fn sorted_micros(calls: usize, mut call: impl FnMut()) -> Vec<f64> {
        let mut timed = || {
            let begin = Instant::now();
            call();
            begin.elapsed().as_secs_f64() * 1e6
        };
        let mut micros: Vec<f64> = (0..calls).map(|_| timed()).collect();
        micros.sort_by(f64::total_cmp);
        micros
    }

    /// Prints the median of the rounds, with the lowest and the highest round.
    fn print_row(name: &str, figures: &[Vec<f64>; 2]) {
        let [private, shared] = figures.each_ref().map(|rounds| {
            let mut sorted = rounds.clone();
            sorted.sort_by(f64::total_cmp);
            (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1])
        });
        let cell = |(low, median, high): (f64, f64, f64)| format!("{median:.0} ({low:.0} – {high:.0})");
        println!("{name:<58} {:>24} {:>24} {:>8.2}", cell(private), cell(shared), shared.1 / private.1);
    }
}
