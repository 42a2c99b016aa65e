//! Tests two peers with a relay between them, as in the proxy: what must arrive unchanged, and in which order.

use super::*;
use crate::Request;
use crate::inbound::InboundRequests;
use crate::lines::LineReader;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream};

/// The deadline of every wait. It is virtual in tests with paused time, and passes only when nothing else can happen.
const DEADLINE: Duration = Duration::from_secs(30);

async fn within_deadline<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("nothing happened before the deadline")
}

const HOUR: Duration = Duration::from_secs(3600);

/// A scripted side: lines in, lines out.
struct Script {
    lines: tokio::io::Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>,
    out: tokio::io::WriteHalf<DuplexStream>,
}

impl Script {
    fn new(stream: DuplexStream) -> Self {
        let (read, out) = tokio::io::split(stream);
        Self { lines: tokio::io::AsyncBufReadExt::lines(BufReader::new(read)), out }
    }
    /// Fails if nobody reads the line.
    async fn send(&mut self, line: &str) {
        let line = format!("{line}\n");
        within_deadline(self.out.write_all(line.as_bytes())).await.unwrap();
    }
    /// Fails if no line comes.
    async fn recv(&mut self) -> String {
        within_deadline(self.lines.next_line()).await.unwrap().unwrap()
    }
    /// Asserts that nothing comes within a virtual second.
    async fn assert_silent(&mut self) {
        let more = tokio::time::timeout(Duration::from_secs(1), self.lines.next_line()).await;
        assert!(more.is_err(), "{more:?}");
    }
}

/// Forwards everything that arrives on `stream` to the other peer, until the stream ends.
async fn relay(from: Arc<Peer>, stream: tokio::io::ReadHalf<DuplexStream>, to: Arc<Peer>) {
    let mut lines = LineReader::new(Box::new(stream), 1 << 20);
    let mut requests = InboundRequests::new(from.clone(), 10, crate::error_object(-1, "a panic", None));
    loop {
        let incoming = tokio::select! {
            biased;
            () = requests.serve() => continue,
            incoming = from.receive(&mut lines) => incoming,
        };
        let Some(incoming) = incoming else { break };
        match incoming {
            Incoming::Request(Request { id, method, params }) => {
                let token = params.as_ref().and_then(|p| raw::get(&raw::get(p, "_meta")?, "progressToken"));
                let progress = token.map(|token| Progress::new(from.output().clone(), token));
                let options = CallOptions { progress, ..CallOptions::within(HOUR) };
                let to = to.clone();
                let answer = async move {
                    let outcome = to.call(&method, params, options).await;
                    outcome.unwrap_or_else(|e| Err(crate::error_object(-1, &e.to_string(), None)))
                };
                requests.start(id, Box::pin(answer));
            }
            Incoming::Notification { method, params } if method == "notifications/cancelled" => {
                requests.cancel(params.unwrap());
            }
            Incoming::Notification { method, params } => to.notify(&method, params),
            Incoming::Handled | Incoming::Unmatched { .. } | Incoming::Malformed(..) => {}
        }
    }
    from.end();
}

/// Returns a peer that writes to `stream`, and what it has to read.
fn peer_on(stream: DuplexStream) -> (Arc<Peer>, tokio::io::ReadHalf<DuplexStream>) {
    let (read, write) = tokio::io::split(stream);
    let (output, writer) = Output::any(write);
    tokio::spawn(writer.run());
    let (peer, deadlines) = Peer::new(output);
    tokio::spawn(deadlines.run());
    (peer, read)
}

/// Returns a peer that reads lines of at most `limit` bytes, and the other side.
fn reading_peer(limit: usize) -> (Arc<Peer>, Script) {
    let (stream, back) = tokio::io::duplex(1 << 16);
    let (peer, read) = peer_on(back);
    let reader = peer.clone();
    tokio::spawn(async move {
        let mut lines = LineReader::new(Box::new(read), limit);
        while reader.receive(&mut lines).await.is_some() {}
    });
    (peer, Script::new(stream))
}

/// Returns a client and an upstream with a relay between them.
fn relayed_client_and_upstream() -> (Script, Script) {
    let (client, front) = tokio::io::duplex(1 << 16);
    let (upstream, back) = tokio::io::duplex(1 << 16);
    let ((front, front_read), (back, back_read)) = (peer_on(front), peer_on(back));
    tokio::spawn(relay(front.clone(), front_read, back.clone()));
    tokio::spawn(relay(back, back_read, front));
    (Script::new(client), Script::new(upstream))
}

fn id_of(line: &str) -> String {
    String::from_utf8(raw::get(&Raw::copy_from_slice(line.as_bytes()), "id").unwrap().to_vec()).unwrap()
}

const IDS: [&str; 8] =
    ["1", "\"s-1\"", "12345678901234567890", "1.5", "\"1\"", "-3", "1e2", r#""init \u00e9""#];

#[tokio::test(start_paused = true)]
async fn answers_repeat_client_ids_byte_for_byte() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    for id in IDS {
        client.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
        let ours = id_of(&upstream.recv().await);
        assert!(ours.bytes().all(|b| b.is_ascii_digit()), "our own ids are plain numbers: {ours}");
        upstream.send(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{}}}}"#)).await;
        assert_eq!(client.recv().await, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn params_are_forwarded_unchanged_except_for_the_progress_token() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    let params = |token: &str| {
        format!(
            r#"{{"name":"echo","arguments":{{"big":123456789012345678901234567890,"f":1.0,"g":1E5}},"_meta":{{"progressToken":{token},"x":1.0}},"future":null}}"#
        )
    };
    for id in IDS {
        client
            .send(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{}}}"#,
                params("\"tok\"")
            ))
            .await;
        let got = upstream.recv().await;
        let ours = id_of(&got);
        assert!(got.ends_with(&format!(r#""params":{}}}"#, params(&ours))), "{got}");
        upstream.send(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{}}}}"#)).await;
        client.recv().await;
    }
}

#[tokio::test(start_paused = true)]
async fn results_and_errors_are_returned_unchanged() {
    let bodies = [
        r#""result":{"messages":[],"tools":[1],"content":[{"type":"new","zz":null}],"a":1.0,"b":123456789012345678901234567890,"c":1e400,"d":1.10,"e":-0.0,"u":"\ud83d\ude00\u0000 \" }"}"#,
        r#""result":null"#,
        r#""error":{"code":99999999999,"data":{"k":1.0},"extra":[1e2]}"#,
    ];
    let (mut client, mut upstream) = relayed_client_and_upstream();
    for body in bodies {
        client.send(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"x"}}"#).await;
        let ours = id_of(&upstream.recv().await);
        upstream.send(&format!(r#"{{{body},"jsonrpc":"2.0","id":{ours},"x":1}}"#)).await;
        assert_eq!(client.recv().await, format!(r#"{{"jsonrpc":"2.0","id":4,{body}}}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_upstream_reach_the_client_and_are_answered() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    for (id, answer) in [
        ("\"e-1\"", r#""result":{"action":"accept","content":{"v":1.0},"zzz":1e400}"#),
        ("7.5", r#""error":{"code":-1,"message":"no","q":1.0}"#),
    ] {
        let params = r#"{"message":"?","requestedSchema":{"type":"object","n":1.0},"future":1e3}"#;
        upstream
            .send(&format!(
                r#"{{"jsonrpc":"2.0","method":"elicitation/create","id":{id},"params":{params}}}"#
            ))
            .await;
        let asked = client.recv().await;
        assert!(asked.contains(params), "{asked}");
        client.send(&format!(r#"{{"jsonrpc":"2.0","id":{},{answer}}}"#, id_of(&asked))).await;
        assert_eq!(upstream.recv().await, format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_names_the_id_that_the_request_has_upstream() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    client.send(r#"{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"slow"}}"#).await;
    let ours = id_of(&upstream.recv().await);
    let cancel = |id: &str| format!(r#""params":{{"requestId":{id},"reason":"r","x":{{"f":1.0}}}}}}"#);
    client
        .send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled",{}"#, cancel("\"c1\"")))
        .await;
    let got = upstream.recv().await;
    assert!(got.ends_with(&cancel(&ours)), "{got}");
    // The late answer is dropped, and not taken for the answer to the next request.
    upstream.send(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{"late":true}}}}"#)).await;
    client.send(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#).await;
    let next = id_of(&upstream.recv().await);
    upstream.send(&format!(r#"{{"jsonrpc":"2.0","id":{next},"result":{{}}}}"#)).await;
    assert_eq!(client.recv().await, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_in_the_same_write_is_forwarded_and_gets_no_answer() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    client
        .send(concat!(
            r#"{"jsonrpc":"2.0","id":"c2","method":"tools/call","params":{"name":"slow"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c2"}}"#,
        ))
        .await;
    let ours = id_of(&upstream.recv().await);
    let got = upstream.recv().await;
    assert!(got.contains(&format!(r#""requestId":{ours}"#)), "{got}");
    upstream.send(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{}}}}"#)).await;
    client.assert_silent().await;
}

#[tokio::test(start_paused = true)]
async fn cancelling_an_unknown_request_is_ignored() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#).await;
    upstream.assert_silent().await;
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_its_order_and_fields_and_precedes_the_result() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    for round in 0..200 {
        let params = format!(r#"{{"name":"p","_meta":{{"progressToken":"t{round}"}}}}"#);
        client
            .send(&format!(r#"{{"jsonrpc":"2.0","id":{round},"method":"tools/call","params":{params}}}"#))
            .await;
        let ours = id_of(&upstream.recv().await);
        let progress = |token: &str, n: u32| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}.0,"total":1.0e1}}}}"#
            )
        };
        let updates: Vec<_> = (0..5).map(|n| progress(&ours, n)).collect();
        upstream
            .send(&format!("{}\n{{\"jsonrpc\":\"2.0\",\"id\":{ours},\"result\":{{}}}}", updates.join("\n")))
            .await;
        for n in 0..5 {
            assert_eq!(client.recv().await, progress(&format!("\"t{round}\""), n));
        }
        assert!(client.recv().await.contains("result"));
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_may_have_the_same_progress_token() {
    let (mut client, mut upstream) = relayed_client_and_upstream();
    let mut ours = Vec::new();
    for id in 0..50 {
        client
            .send(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"_meta":{{"progressToken":1}}}}}}"#
            ))
            .await;
        ours.push(id_of(&upstream.recv().await));
    }
    for (id, ours) in ours.iter().enumerate().rev() {
        upstream.send(&format!(r#"{{"jsonrpc":"2.0","id":{ours},"result":{{"of":{id}}}}}"#)).await;
        assert_eq!(client.recv().await, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_times_out_at_its_limit_and_is_cancelled_upstream() {
    let (stream, back) = tokio::io::duplex(4096);
    let (peer, _read) = peer_on(back);
    let started = Instant::now();
    let outcome = peer.call("m", None::<Raw>, CallOptions::within(Duration::from_secs(7))).await;
    assert_eq!(outcome, Err(CallError::TimedOut(Duration::from_secs(7))));
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    let mut upstream = Script::new(stream);
    upstream.recv().await;
    assert!(upstream.recv().await.contains(r#"{"reason":"timed out","requestId":1}"#));
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_call_up_to_its_total_limit() {
    let (peer, mut upstream) = reading_peer(4096);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(4)).await;
            upstream
                .send(r#"{"method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#)
                .await;
        }
    });
    let options =
        CallOptions { timeout: Duration::from_secs(5), ..CallOptions::within(Duration::from_secs(60)) };
    let started = Instant::now();
    let outcome = peer.call("m", None::<Raw>, options).await;
    assert!(matches!(outcome, Err(CallError::TimedOut(_))));
    assert_eq!(started.elapsed(), Duration::from_secs(60));
}

#[tokio::test]
async fn only_a_subscription_ends_when_the_other_side_cancels_it() {
    let (output, _writer) = Output::any(tokio::io::sink());
    let (peer, deadlines) = Peer::new(output);
    tokio::spawn(deadlines.run());
    let ask = async |method| peer.call(method, None::<Raw>, CallOptions::within(HOUR)).await;
    let (mut call, mut subscription) = (Box::pin(ask("tools/call")), Box::pin(ask("subscriptions/listen")));
    assert!(
        futures_util::poll!(&mut call).is_pending() && futures_util::poll!(&mut subscription).is_pending()
    );
    assert!(!peer.end_subscription(&Raw::from_static(b"1")));
    assert!(peer.end_subscription(&Raw::from_static(b"2")));
    assert!(!peer.end_subscription(&Raw::from_static(b"2")), "once");
    assert_eq!(within_deadline(subscription).await, Ok(Ok(Raw::from_static(b"{}"))));
    assert!(futures_util::poll!(&mut call).is_pending());
}

#[tokio::test]
async fn the_end_of_a_connection_fails_open_calls_and_marks_later_ones_unsent() {
    let (output, _writer) = Output::any(tokio::io::sink());
    let (peer, deadlines) = Peer::new(output);
    tokio::spawn(deadlines.run());
    let caller = peer.clone();
    let open = tokio::spawn(async move { caller.call("m", None::<Raw>, CallOptions::within(HOUR)).await });
    tokio::task::yield_now().await;
    peer.end();
    assert_eq!(within_deadline(open).await.unwrap(), Err(CallError::Closed { sent: true, refusal: None }));
    let later = within_deadline(peer.call("m", None::<Raw>, CallOptions::within(HOUR))).await;
    assert_eq!(later, Err(CallError::Closed { sent: false, refusal: None }));
}

#[tokio::test(start_paused = true)]
async fn an_oversized_answer_fails_only_its_own_call() {
    let (peer, mut upstream) = reading_peer(1000);
    tokio::spawn(async move {
        upstream.recv().await;
        upstream.send(&format!(r#"{{"result":"{}","id":1}}"#, "x".repeat(5000))).await;
        upstream.recv().await;
        upstream.send(r#"{"result":"ok","id":"2"}"#).await;
    });
    let long = within_deadline(peer.call("m", None::<Raw>, CallOptions::within(HOUR))).await;
    assert_eq!(long, Err(CallError::TooLong { bytes: 5020, limit: 1000 }));
    let next = within_deadline(peer.call("m", None::<Raw>, CallOptions::within(HOUR))).await;
    assert_eq!(next, Ok(Ok("\"ok\"".into())), "one of our ids may be returned as a string");
}

#[tokio::test]
async fn params_are_freed_once_they_are_written() {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (output, writer) = Output::any(near);
    tokio::spawn(writer.run());
    let (peer, _deadlines) = Peer::new(output);
    let params = Raw::from(vec![b'1'; 100_000]);
    let kept = params.clone();
    let calling = tokio::spawn(async move { peer.call("m", Some(params), CallOptions::within(HOUR)).await });
    let mut written = vec![0; kept.len()];
    within_deadline(tokio::io::AsyncReadExt::read_exact(&mut far, &mut written)).await.unwrap();
    let freed = async {
        while !kept.is_unique() {
            tokio::task::yield_now().await;
        }
    };
    within_deadline(freed).await;
    assert!(!calling.is_finished());
}
