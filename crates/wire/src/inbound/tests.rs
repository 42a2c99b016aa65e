//! Tests which task continues a request, and what its end does.

use super::*;
use crate::Frame;
use crate::output::{Output, Writer};
use futures_util::FutureExt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::task::Waker;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::oneshot;

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Requests of a client, and what the client reads.
struct Served {
    requests: InboundRequests,
    peer: Arc<Peer>,
    writer: Writer,
    client: DuplexStream,
    /// Wakes the owner.
    wakes: Arc<Wakes>,
}

impl Served {
    fn new() -> Self {
        let (client, stream) = tokio::io::duplex(1 << 16);
        let (output, writer) = Output::any(stream);
        let (peer, _deadlines) = Peer::new(output);
        let requests = InboundRequests::new(peer.clone(), 10, "{\"code\":-1}".to_owned().into());
        Self { requests, peer, writer, client, wakes: Arc::default() }
    }

    /// Starts a request whose answer is what is sent to the returned sender.
    fn start(&mut self, id: &str) -> oneshot::Sender<Reply> {
        let (answer, answered) = oneshot::channel();
        let answer_of = async move { answered.await.unwrap_or_else(|_| panic!("nobody answered")) };
        self.requests.start(id.to_owned().into(), Box::pin(answer_of));
        answer
    }

    /// Polls the owner as its task does before it waits. Returns whether it would go on.
    fn poll_owner(&mut self) -> bool {
        let waker = Waker::from(self.wakes.clone());
        pin!(self.requests.serve()).poll(&mut Context::from_waker(&waker)).is_ready()
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// What the client reads until the end.
    async fn read(self) -> String {
        let Self { requests, peer, writer, mut client, .. } = self;
        drop(requests);
        peer.output().close();
        drop(writer.run().await);
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    }
}

fn result(text: &str) -> Reply {
    Ok(text.to_owned().into())
}

#[tokio::test]
async fn who_reads_the_answer_answers_the_request_before_what_follows() {
    let mut served = Served::new();
    let answer = served.start("7");
    assert!(!served.poll_owner());
    in_turn(|| {
        answer.send(result("{}")).unwrap();
        run_woken();
        served.peer.output().send(Frame::notification("after", None));
    });
    assert_eq!((served.wakes(), served.requests.len()), (0, 0), "the owner is not needed");
    let text = served.read().await;
    let (first, second) = text.split_once('\n').unwrap();
    assert!(first.contains("\"id\":7") && second.contains("after"), "{text}");
}

#[tokio::test]
async fn the_owner_continues_what_anything_else_wakes() {
    let mut served = Served::new();
    let answer = served.start("1");
    assert!(!served.poll_owner());
    answer.send(result("{}")).unwrap();
    assert_eq!((served.wakes(), served.requests.len()), (1, 1));
    assert!(!served.poll_owner());
    assert!(served.requests.is_empty());
    assert!(served.read().await.contains("\"result\":{}"));
}

#[tokio::test]
async fn whoever_waits_for_the_end_of_a_request_is_woken_by_it() {
    let mut served = Served::new();
    let answer = served.start("1");
    let wakes = served.wakes.clone();
    let waker = Waker::from(wakes.clone());
    let mut ended = Box::pin(served.requests.ended());
    assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    in_turn(|| drop(answer.send(result("{}"))));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    drop(ended);
    assert!(served.requests.ended().now_or_never().is_none(), "it is told once");
}

#[tokio::test]
async fn a_request_that_wakes_itself_lets_others_run() {
    let mut served = Served::new();
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let restless = poll_fn(move |context| {
        counted.fetch_add(1, Ordering::SeqCst);
        context.waker().wake_by_ref();
        Poll::Pending
    });
    in_turn(|| served.requests.start("1".to_owned().into(), Box::pin(restless)));
    assert_eq!(polls.load(Ordering::SeqCst), 2, "at the start, and once at the end of the work");
    assert!(!served.poll_owner());
    assert_eq!((polls.load(Ordering::SeqCst), served.wakes()), (4, 1), "the same whenever the owner runs");
}

#[tokio::test]
async fn a_panic_is_answered() {
    let mut served = Served::new();
    drop(served.start("1"));
    assert!(!served.poll_owner());
    assert!(served.requests.is_empty());
    assert!(served.read().await.contains("\"error\":{\"code\":-1}"));
}

#[tokio::test]
async fn a_cancelled_request_is_dropped_and_not_answered() {
    let mut served = Served::new();
    let (answer, other) = (served.start("1"), served.start("2"));
    served.requests.cancel("{\"requestId\":1}".to_owned().into());
    assert!(answer.is_closed(), "its future is gone");
    assert_eq!(served.requests.len(), 1);
    in_turn(|| drop(answer.send(result("{}"))));
    drop(other.send(result("[]")));
    assert!(!served.poll_owner());
    let text = served.read().await;
    assert!(text.contains("\"id\":2") && !text.contains("\"id\":1"), "{text}");
}

#[tokio::test]
async fn the_end_of_the_connection_drops_the_requests() {
    let mut served = Served::new();
    let (first, second) = (served.start("1"), served.start("2"));
    served.requests.abandon(&"{\"code\":-2}".to_owned().into());
    assert!(first.is_closed() && second.is_closed());
    let third = served.start("3");
    let text = served.read().await;
    assert!(third.is_closed(), "nothing keeps the future of a request");
    let ids: Vec<_> = text.lines().filter(|line| line.contains("-2")).collect();
    assert!(ids.len() == 2 && ids[0].contains("\"id\":1"), "in the order in which they came: {text}");
}
