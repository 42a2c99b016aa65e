//! What `dynamic-mcp serve --http` costs between many clients and a server: beside the server itself, a bare HTTP proxy that
//! parses nothing, and other MCP proxies that are installed.
//!
//!   DYNAMIC_MCP_BENCH_CORE=1 taskset -c 0 cargo bench --bench team
//!
//! The clients run on core 0, the servers and proxies on core 1. `DYNAMIC_MCP_BENCH_PROGRAM` measures another binary,
//! `DYNAMIC_MCP_BENCH_PEERS` also the proxies that `benches/team/peers` has installed in that folder. Each figure is the
//! median of rounds, and the contestants take turns. `-- calls`, `-- memory` and `-- flood` measure only that.
//! docs/benchmarks.md has the figures of a run.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench may panic")]
#![cfg_attr(target_os = "linux", expect(clippy::disallowed_types, reason = "no clock is paused here"))]

#[cfg(target_os = "linux")]
mod bare_proxy;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod contestants;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(target_os = "linux")]
mod http_server;
#[cfg(target_os = "linux")]
mod measure;
#[cfg(target_os = "linux")]
#[path = "../proxy/process.rs"]
#[allow(dead_code, reason = "the bench `proxy` uses the rest")]
mod process;
#[cfg(target_os = "linux")]
#[path = "../proxy/upstream.rs"]
mod stdio_upstream;
#[cfg(target_os = "linux")]
mod upstream;

#[cfg(target_os = "linux")]
fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let port = |at: usize| args[at].parse().unwrap();
    match args.first().map(String::as_str) {
        Some("--upstream") => upstream::serve(port(1)),
        Some("--bare-proxy") => bare_proxy::serve(port(1), port(2)),
        Some("--stdio-upstream") => stdio_upstream::serve(false),
        only => measure::run(only.filter(|only| !only.starts_with('-'))),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("this bench reads /proc, which only Linux has");
}
