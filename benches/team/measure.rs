//! Times of calls, calls a second, and memory, side by side for all contestants.

use super::client::BenchClient;
use super::contestants::{self, Contestant};
use super::flood;
use super::process;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(300);
/// How many calls are in flight, each on a connection of its own.
const DEPTHS: [usize; 3] = [1, 64, 512];
/// The idle connections of the figures of memory.
const IDLE: usize = 1000;

/// Measures everything, or `only` a part.
pub(crate) fn run(only: Option<&str>) {
    let is_wanted = |part: &str| only.is_none_or(|only| only == part);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let contestants = contestants::start_all(folder.path());
        if is_wanted("memory") {
            idle_memory(&contestants).await;
        }
        if is_wanted("calls") {
            let names: Vec<_> = contestants.iter().map(|contestant| contestant.name).collect();
            println!("\n| in flight | | {} |", names.join(" | "));
            println!("| --- | --- |{}", " --- |".repeat(names.len()));
            for depth in DEPTHS {
                calls(&contestants, depth).await;
            }
        }
        if is_wanted("flood") {
            flood::measure(folder.path(), contestants[0].port).await;
        }
    });
}

/// What was measured of one contestant, one figure for each round.
#[derive(Default)]
struct Figures {
    /// In milliseconds.
    p50: Vec<f64>,
    p99: Vec<f64>,
    /// Calls a second.
    rate: Vec<f64>,
    failed: usize,
}

async fn calls(contestants: &[Contestant], depth: usize) {
    let mut figures: Vec<_> = contestants.iter().map(|_| Figures::default()).collect();
    for _ in 0..ROUNDS {
        for (contestant, figures) in contestants.iter().zip(&mut figures) {
            // Some close a connection that is idle while others have their turn.
            let mut clients = connect(contestant, depth).await;
            round(&mut clients, WARM_UP).await;
            let begin = Instant::now();
            let round = round(&mut clients, ROUND).await;
            // The last calls may end long after the round.
            let seconds = begin.elapsed().as_secs_f64();
            figures.p50.push(round.percentile(50));
            figures.p99.push(round.percentile(99));
            figures.rate.push(round.millis.len() as f64 / seconds);
            figures.failed += round.failed;
        }
    }
    let row = |what: &str, digits: usize, of: fn(&Figures) -> &Vec<f64>| {
        let cells = figures.iter().map(|figures| format!("{:.digits$}", median(of(figures))));
        println!("| {depth} | {what} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    row("p50, ms", 3, |figures| &figures.p50);
    row("p99, ms", 3, |figures| &figures.p99);
    row("calls a second", 0, |figures| &figures.rate);
    for (contestant, figures) in contestants.iter().zip(&figures) {
        if figures.failed > 0 {
            println!("{}: {} calls failed", contestant.name, figures.failed);
        }
    }
}

/// Makes so many connections that are ready to call. One of them performs the handshake for all.
async fn connect(contestant: &Contestant, count: usize) -> Vec<BenchClient> {
    let mut first = BenchClient::connect(contestant.port, contestant.headers).await;
    if contestant.has_handshake {
        first.initialize().await;
    }
    let headers = first.headers().to_owned();
    let mut clients = vec![first];
    for _ in 1..count {
        clients.push(BenchClient::connect(contestant.port, &headers).await);
    }
    for client in &mut clients {
        client.prepare("tools/call", &contestant.call);
    }
    let begin = Instant::now();
    while let Some(client) = clients.first_mut()
        && client.call().await != 200
    {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}: {}", contestant.name, client.response());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    clients
}

/// The calls of a while.
#[derive(Default)]
pub(crate) struct Round {
    /// How long each took, sorted.
    pub(crate) millis: Vec<f64>,
    pub(crate) failed: usize,
}

impl Round {
    /// Makes a call and adds it.
    pub(crate) async fn call(&mut self, client: &mut BenchClient) {
        let begin = Instant::now();
        match client.call().await {
            200 => self.millis.push(begin.elapsed().as_secs_f64() * 1e3),
            _ => self.failed += 1,
        }
    }

    /// Returns how long a call took that only so many percent of all exceed.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.millis.get(self.millis.len() * percent / 100).copied().unwrap_or(f64::NAN)
    }
}

/// Each client calls for this long, one call after the other.
pub(crate) async fn round(clients: &mut Vec<BenchClient>, length: Duration) -> Round {
    let end = Instant::now() + length;
    let mut running = JoinSet::new();
    for mut client in clients.drain(..) {
        running.spawn(async move {
            let mut round = Round::default();
            while Instant::now() < end {
                round.call(&mut client).await;
            }
            (client, round)
        });
    }
    let mut all = Round::default();
    while let Some(ended) = running.join_next().await {
        let (client, round) = ended.unwrap();
        clients.push(client);
        all.millis.extend(round.millis);
        all.failed += round.failed;
    }
    all.millis.sort_by(f64::total_cmp);
    all
}

/// The memory of each proxy before and with idle connections, each of which has listed the tools.
async fn idle_memory(contestants: &[Contestant]) {
    println!("\n| anonymous memory, MB | no further connections | {IDLE} idle ones |\n| --- | --- | --- |");
    for contestant in contestants {
        let before = process::anonymous_megabytes(contestant.process.pid());
        let mut clients = connect(contestant, IDLE).await;
        for client in &mut clients {
            client.prepare("tools/list", &contestant.list);
            client.call().await;
        }
        let with = process::anonymous_megabytes(contestant.process.pid());
        println!("| {} | {before:.1} | {with:.1} |", contestant.name);
    }
}

pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
