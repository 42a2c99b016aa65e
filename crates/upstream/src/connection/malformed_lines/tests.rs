//! Tests with a peer whose other side writes lines at chosen times, under paused time.

use super::*;
use crate::select::until;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::output::Output;
use wire::peer::{CallOptions, Incoming};

const HOUR: Duration = Duration::from_secs(3600);

/// A connection with a server whose lines the test writes.
struct Fixture {
    peer: Arc<Peer>,
    unreadable: Arc<UnreadableMessages>,
    server: DuplexStream,
    sent: tokio::io::Lines<BufReader<DuplexStream>>,
}

impl Fixture {
    fn new() -> Self {
        let (to_server, sent) = tokio::io::duplex(1 << 16);
        let (server, from_server) = tokio::io::duplex(1 << 16);
        let (output, writer) = Output::any(to_server);
        tokio::spawn(writer.run());
        let (peer, _) = Peer::new(output);
        peer.accept_batches();
        let unreadable = Arc::<UnreadableMessages>::default();
        let mut malformed = MalformedLines::new(peer.clone(), unreadable.clone(), Arc::default());
        let receiver = peer.clone();
        // The same loop as that of `Reader`.
        tokio::spawn(async move {
            let mut lines = LineReader::new(Box::new(from_server), 4096);
            loop {
                let deadline = malformed.deadline();
                tokio::select! {
                    biased;
                    incoming = receiver.receive(&mut lines) => match incoming {
                        None => return,
                        Some(Incoming::Malformed(error, line)) => malformed.add(&error, &line, &mut lines),
                        Some(_) => malformed.expire(),
                    },
                    () = until(deadline) => malformed.expire(),
                }
            }
        });
        Self { peer, unreadable, server, sent: BufReader::new(sent).lines() }
    }

    /// Sends a request. Their ids are 1, 2, and so on.
    async fn call(&mut self) -> JoinHandle<Result<wire::Reply, CallError>> {
        let peer = self.peer.clone();
        let call = tokio::spawn(async move { peer.call("x", None::<Raw>, CallOptions::within(HOUR)).await });
        self.sent().await;
        call
    }

    /// The next line that was sent to the server.
    async fn sent(&mut self) -> String {
        timeout(HOUR, self.sent.next_line()).await.unwrap().unwrap().unwrap()
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.server.write_all(bytes).await.unwrap();
    }

    async fn unreadable(&self) -> LastUnreadable {
        let wait = async {
            loop {
                if let Some(last) = self.unreadable.last() {
                    return last;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(HOUR, wait).await.unwrap()
    }
}

/// Waits for the failure of a call, and returns its text and how long it took.
async fn failure(call: JoinHandle<Result<wire::Reply, CallError>>) -> (String, Duration) {
    let start = Instant::now();
    let error = call.await.unwrap().unwrap_err();
    (error.to_string(), start.elapsed())
}

/// Odd forms of an answer that the client of the official TypeScript SDK takes.
#[tokio::test(start_paused = true)]
async fn what_the_typescript_sdk_takes_answers_its_call() {
    for (line, text) in [
        (
            &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"caf\xe9 \xff\xfe\"}}"[..],
            "caf\u{fffd} \u{fffd}\u{fffd}",
        ),
        // A character that is cut in two, and half of a surrogate pair.
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"\xe2\x82\"}}", "\u{fffd}"),
        (br#"{"jsonrpc":"2.0","id":1.0,"result":{"t":"x"}}"#, "x"),
        (br#"{"jsonrpc":"2.0","id":"1","result":{"t":"x"}}"#, "x"),
        (br#"{"jsonrpc":"2.0","id":1e0,"result":{"t":"x"}}"#, "x"),
        (br#"  { "result" : {"t":"x"} , "id" : 1 , "jsonrpc" : "2.0" }  "#, "x"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"x\"}}\r", "x"),
        (br#"{"jsonrpc":"2.0","\u0069d":1,"re\u0073ult":{"t":"\u0078"}}"#, "x"),
        (br#"{"jsonrpc":"2.0","id":1,"result":{"t":"a","t":"x","_meta":null,"n":1e400}}"#, "x"),
        (b"\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"x\"}}", "x"),
    ] {
        let mut connection = Fixture::new();
        let call = connection.call().await;
        connection.write(&[line, b"\n"].concat()).await;
        let shown = String::from_utf8_lossy(line);
        let result = call.await.unwrap().unwrap_or_else(|error| panic!("{shown}: {error}")).unwrap();
        assert_eq!(wire::raw::get_str(&result, "t").as_deref(), Some(text), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_answer_cannot_be_read_fails_at_once() {
    for (line, what) in [
        (&br#"{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#[..], "not JSON: NaN at byte 39"),
        (br#"{"jsonrpc":"2.0","id":1,"result":{"x":-Infinity}}"#, "not JSON: -Infinity at byte 39"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\t\"}",
            "not JSON: an unescaped control character (0x09) in a string at byte 35",
        ),
        (br#"{"jsonrpc":"2.0","id":1,"result":{}} done"#, "not JSON: text after the message at byte 38"),
        (br#"{"jsonrpc":"2.0","id":1,"result":{"text":"cut"#, "not JSON: it is cut off after byte 45"),
        (br#"{"jsonrpc":"2.0","id":1}"#, "not a JSON-RPC message"),
        (br#"[{"jsonrpc":"2.0","id":1,"result":NaN}]"#, "not JSON: NaN at byte 35"),
    ] {
        let mut fixture = Fixture::new();
        let call = fixture.call().await;
        fixture.write(line).await;
        fixture.write(b"\n").await;
        let (text, took) = failure(call).await;
        assert!(text.starts_with(&format!("the server's answer is {what}")), "{text}");
        assert!(took < Duration::from_millis(1), "{took:?}: {text}");
        assert_eq!(fixture.unreadable.last(), None, "it belongs to a call");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_over_several_lines_is_read() {
    let mut fixture = Fixture::new();
    let call = fixture.call().await;
    for line in [
        "{\n",
        "  \"jsonrpc\": \"2.0\",\n",
        "  \"id\": 1,\n  \"result\": {\n",
        "\n    \"x\": 1e400\n  }\n}\n",
    ] {
        fixture.write(line.as_bytes()).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    let result = call.await.unwrap().unwrap().unwrap();
    assert_eq!(result, r#"{     "x": 1e400   }"#, "on one line, because that is how it is passed on");
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_message_waits_200_ms_for_its_next_line() {
    let mut fixture = Fixture::new();
    let call = fixture.call().await;
    fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\n\"result\":{\n").await;
    let (text, took) = failure(call).await;
    assert!(text.ends_with("not JSON: it is cut off after byte 35"), "{text}");
    assert_eq!(took.as_millis(), 200);
}

#[tokio::test(start_paused = true)]
async fn another_message_ends_an_incomplete_one() {
    for other in
        [&br#"{"jsonrpc":"2.0","id":2,"result":{}}"#[..], b"{\"jsonrpc\":\"2.0\",\n\"id\":2,\"result\":{}}"]
    {
        let mut fixture = Fixture::new();
        let (cut_off, whole) = (fixture.call().await, fixture.call().await);
        fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\n").await;
        fixture.write(other).await;
        fixture.write(b"\n").await;
        let (text, took) = failure(cut_off).await;
        assert!(text.contains("cut off after byte 34"), "{text}");
        assert!(took < Duration::from_millis(1), "{took:?}");
        assert_eq!(whole.await.unwrap().unwrap().unwrap(), "{}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_log_ends_an_incomplete_message_and_is_skipped() {
    let mut fixture = Fixture::new();
    let call = fixture.call().await;
    fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\nINFO listening\n").await;
    assert!(failure(call).await.0.contains("cut off after byte 24"));
    assert_eq!(fixture.unreadable.last(), None);
}

#[tokio::test(start_paused = true)]
async fn lines_above_the_limit_are_not_joined() {
    let mut fixture = Fixture::new();
    let call = fixture.call().await;
    fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\n").await;
    for _ in 0..50 {
        fixture.write(format!("\"{}\",\n", "x".repeat(100)).as_bytes()).await;
    }
    let (text, took) = failure(call).await;
    assert!(text.contains("cut off after byte 4"), "{text}");
    assert!(took < Duration::from_millis(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_of_no_known_call_is_reported_and_fails_no_other() {
    let mut fixture = Fixture::new();
    let call = fixture.call().await;
    for line in [
        r#"{"jsonrpc":"2.0","result":{"id":1,"x":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":NaN}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":NaN}"#,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\"\u{1b}[2J\"}",
    ] {
        fixture.write(format!("{line}\n").as_bytes()).await;
    }
    fixture.write(b"INFO listening\n{\"level\":\"info\",\"id\":1}\n{not json\n\xff\n42\n[]\n").await;
    fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").await;
    assert_eq!(call.await.unwrap().unwrap().unwrap(), "{}");
    let last = fixture.unreadable().await;
    assert_eq!(last.count, 4, "the lines of a log do not count");
    assert!(last.what.starts_with("not JSON: an unescaped control character (0x1B)"), "{last:?}");
    assert!(last.what.len() < 600 && !last.what.contains(char::is_control), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_is_answered_with_an_error() {
    let mut fixture = Fixture::new();
    fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\",\"params\":{\"x\":NaN}}\n").await;
    let answer = fixture.sent().await;
    assert!(answer.contains(r#""id":"q","error":{"code":-32700"#), "{answer}");
    assert_eq!(fixture.unreadable.last(), None);
}

#[tokio::test(start_paused = true)]
async fn a_line_that_the_end_of_the_stream_cuts_off_is_not_reported() {
    let mut fixture = Fixture::new();
    let call = fixture.call().await;
    fixture.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"cut of").await;
    let Fixture { peer, unreadable, server, .. } = fixture;
    drop(server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!call.is_finished(), "the end of the connection says more");
    peer.end();
    assert_eq!(call.await.unwrap(), Err(CallError::Closed { sent: true, refusal: None }));
    assert_eq!(unreadable.last(), None);
}
