//! What one user notices of another one who sends as much as possible, with the limits that dynamic-mcp has by default.

use super::client::BenchClient;
use super::contestants::{self, CALL_OF_OURS};
use super::measure::{Round, median, round};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The SHA-256 of the token `ann`, and that of `bob`.
const HASHES: [&str; 2] = [
    "49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1",
    "81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9",
];
/// The connections of the one who floods.
const FLOOD: usize = 600;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(1);

/// Measures the 99th percentile of the calls of one user, alone and beside a flood.
pub(crate) async fn measure(folder: &Path, upstream: u16) {
    let tokens = folder.join("tokens.json");
    let users = ["ann", "bob"].iter().zip(HASHES);
    let users: Vec<_> =
        users.map(|(name, hash)| format!(r#"{{"name":"{name}","sha256":"{hash}"}}"#)).collect();
    fs::write(&tokens, format!(r#"{{"tokens":[{}]}}"#, users.join(","))).unwrap();
    let (_process, port) = contestants::serve(folder, upstream, &["--tokens", tokens.to_str().unwrap()]);
    let mut ann = client(port, "Authorization: Bearer ann\r\n").await;
    let mut bob = Vec::new();
    for _ in 0..FLOOD {
        bob.push(client(port, "Authorization: Bearer bob\r\n").await);
    }
    paced(&mut ann).await;
    let (mut alone, mut beside, mut flood) = (Vec::new(), Vec::new(), Round::default());
    for _ in 0..ROUNDS {
        alone.push(paced(&mut ann).await.percentile(99));
        let (of_ann, of_bob) = tokio::join!(paced(&mut ann), round(&mut bob, ROUND));
        assert_eq!(of_ann.failed, 0, "calls of a user who does not flood");
        beside.push(of_ann.percentile(99));
        flood.millis.extend(of_bob.millis);
        flood.failed += of_bob.failed;
    }
    let (alone, beside) = (median(&alone), median(&beside));
    println!(
        "\np99 of one user's calls: {alone:.3} ms alone, {beside:.3} ms beside a flood on {FLOOD} connections"
    );
    println!("of the flood's calls, {} were answered and {} refused", flood.millis.len(), flood.failed);
}

/// Calls one after the other with pauses, so that the user stays within the limits.
async fn paced(client: &mut BenchClient) -> Round {
    let end = Instant::now() + ROUND;
    let mut round = Round::default();
    while Instant::now() < end {
        round.call(client).await;
        tokio::time::sleep(PAUSE).await;
    }
    round.millis.sort_by(f64::total_cmp);
    round
}

async fn client(port: u16, headers: &str) -> BenchClient {
    let mut client = BenchClient::connect(port, headers).await;
    client.prepare("tools/call", &format!("{{{CALL_OF_OURS}}}"));
    client
}
