//! Calls of every size, one after the other and many at a time, side by side for all contestants.

use super::client::{BenchClient, CallLine};
use super::contestants::Contestant;
use super::process;
use super::upstream::SIZES;
use std::time::Instant;

const ROUNDS: usize = 5;
/// The depths at which calls are in flight.
const DEPTHS: [usize; 2] = [16, 64];
/// Larger calls are made only one after the other: many at a time measure the memory of the client.
const MAX_SIZE_IN_FLIGHT: usize = 146_000;
/// The bytes of one round.
const BYTES_PER_ROUND: usize = 60_000_000;
const MAX_CALLS_PER_ROUND: usize = 3000;

/// What a call carries, in bytes.
struct Shape {
    name: String,
    arguments: usize,
    result: usize,
}

/// A contestant that is running.
struct Running {
    client: BenchClient,
    params: fn(&str, &str) -> String,
}

/// What was measured of one contestant, one figure for each round.
#[derive(Default)]
struct Figures {
    /// The median time of a call, in microseconds, or calls per second.
    main: Vec<f64>,
    /// The CPU time of the process for each call, in microseconds.
    cpu: Vec<f64>,
}

pub(crate) fn measure(contestants: &[Contestant]) {
    let mut running: Vec<_> = contestants.iter().map(Running::start).collect();
    let names: Vec<_> = contestants.iter().map(|contestant| contestant.name).collect();
    print_heading("p50 of a call in µs (CPU of the process per call in µs)", &names);
    for shape in shapes() {
        print_row(&shape.name, &measure_row(&mut running, &shape, one_by_one), 1);
    }
    for depth in DEPTHS {
        print_heading(&format!("calls per second, {depth} in flight (CPU per call in µs)"), &names);
        for shape in
            shapes().into_iter().filter(|shape| shape.arguments.max(shape.result) <= MAX_SIZE_IN_FLIGHT)
        {
            let figures = measure_row(&mut running, &shape, |client, line, calls| {
                let begin = Instant::now();
                client.calls_in_flight(line, calls, depth);
                calls as f64 / begin.elapsed().as_secs_f64()
            });
            print_row(&shape.name, &figures, 0);
        }
    }
}

/// The small side of a call has the smallest size.
fn shapes() -> Vec<Shape> {
    let small = SIZES[0];
    let mut shapes = vec![Shape { name: "100 B".into(), arguments: small, result: small }];
    for (size, text) in SIZES[1..].iter().copied().zip(["10 kB", "146 kB", "1 MB", "10 MB"]) {
        for (side, arguments, result) in
            [("arguments", size, small), ("result", small, size), ("both", size, size)]
        {
            shapes.push(Shape { name: format!("{text}, {side}"), arguments, result });
        }
    }
    shapes
}

/// Measures every contestant in turns.
fn measure_row(
    running: &mut [Running],
    shape: &Shape,
    round: impl Fn(&mut BenchClient, &mut CallLine, usize) -> f64,
) -> Vec<Figures> {
    let calls = (BYTES_PER_ROUND / (shape.arguments + shape.result)).clamp(6, MAX_CALLS_PER_ROUND);
    let mut figures: Vec<_> = running.iter().map(|_| Figures::default()).collect();
    for n in 0..=ROUNDS {
        for (running, figures) in running.iter_mut().zip(&mut figures) {
            let mut line = running.line(shape);
            let before = process::cpu_micros(running.client.pid());
            let main = round(&mut running.client, &mut line, calls);
            let cpu = (process::cpu_micros(running.client.pid()) - before) / calls as f64;
            // The first round only warms up.
            if n > 0 {
                figures.main.push(main);
                figures.cpu.push(cpu);
            }
        }
    }
    figures
}

/// The median time of a call, in microseconds.
fn one_by_one(client: &mut BenchClient, line: &mut CallLine, calls: usize) -> f64 {
    let mut micros: Vec<_> = (0..calls)
        .map(|_| {
            let begin = Instant::now();
            client.call_with(line);
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    median(&mut micros)
}

impl Running {
    fn start(contestant: &Contestant) -> Self {
        let mut client = BenchClient::start(&contestant.command);
        client.initialize();
        let mut running = Self { client, params: contestant.params };
        // Some proxies answer errors until they have connected.
        let small = Shape { name: String::new(), arguments: SIZES[0], result: SIZES[0] };
        let mut line = running.line(&small);
        let begin = Instant::now();
        while !running.client.try_call_with(&mut line) {
            assert!(begin.elapsed().as_secs() < 20, "{} does not answer calls", contestant.name);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        running
    }

    fn line(&self, shape: &Shape) -> CallLine {
        let mut text = "lorem ipsum dolor sit amet ".repeat(shape.arguments / 27 + 1);
        text.truncate(shape.arguments);
        let args = format!(r#"{{"text":"{text}"}}"#);
        CallLine::new(&(self.params)(&format!("r{}", shape.result), &args))
    }
}

fn print_heading(what: &str, names: &[&str]) {
    println!("\n| {what} | {} |", names.join(" | "));
    println!("| --- |{}", " --- |".repeat(names.len()));
}

/// Each cell has the median of the rounds, and behind it, the ratio to direct.
fn print_row(name: &str, figures: &[Figures], digits: usize) {
    let mut direct = None;
    let cells = figures.iter().map(|figures| {
        let (main, cpu) = (median(&mut figures.main.clone()), median(&mut figures.cpu.clone()));
        let ratio = main / *direct.get_or_insert(main);
        let digits = if main < 1000.0 { digits } else { 0 };
        format!("{main:.digits$} = {ratio:.2} × ({cpu:.1})")
    });
    println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
