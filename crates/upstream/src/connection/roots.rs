//! Delays the first request of a client until the server has the roots that it asked for.
//!
//! # Theory of operation
//!
//! Many servers ask for roots as soon as the handshake is done. Until they have the answer, they refuse requests or
//! carry them out in the wrong directories. So the first request of a client on a connection waits:
//!
//! 1. while a `roots/list` of the server is unanswered;
//! 2. if the server asked at its last start, until it asks now;
//! 3. before the server's lists are read, for `SETTLE_TIME` after the handshake, in which it may ask;
//! 4. after the answer, for `SETTLE_TIME`. The time counts from when the server's lists are read, if that is later: until
//!    then the server may be busy with them, and has not read the answer.
//!
//! The first two take `EXCHANGE_TIMEOUT` at most. A server that asks for nothing has its first request at once.
//! [`Lease`](super::lease::Lease) waits here before each request; `reader` reports what the server asks.
//!
//! Whether the server asks at its start is kept from one connection to the next, and with the catalog. If it asks while
//! a call is open, it may ask because of the call. So it is waited for at its next start, but no more if it does not ask
//! then.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long after the handshake a server is expected to ask, and how long its question may delay a request.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a server may take to apply the answer. It may handle the next request in parallel.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Whether a server asked for roots at its last start, kept from one connection to the next. `None`: no request left it
/// the time for that.
pub(crate) type AsksAtStart = Arc<Mutex<Option<bool>>>;

/// Whether the first request of a client may be sent on one connection.
pub struct RootsExchange {
    /// Whether the server asks at its start.
    asks_at_start: AsksAtStart,
    /// Set when no request has to wait any more.
    is_over: AtomicBool,
    /// What happened so far.
    state: Mutex<ExchangeState>,
    /// Notified when the server asks, gets an answer, or the wait is over.
    changed: Notify,
    /// Notified when the catalog has to be read again, because it is kept with another `asks_at_start`.
    lists_changed: Arc<Notify>,
}

#[derive(Default)]
struct ExchangeState {
    /// When the handshake was done.
    began: Option<Instant>,
    /// How many requests for roots are unanswered.
    open: usize,
    /// When the first of these came, or the last one if none is open.
    asked: Option<Instant>,
    /// When the last answer was sent.
    answered: Option<Instant>,
    /// When the lists were last read.
    listed: Option<Instant>,
    /// The `asks_at_start` that the catalog is kept with, once it was read.
    kept: Option<Option<bool>>,
}

/// A request for roots, from when the server sends it until it is answered or cancelled.
pub(super) struct OpenRootsRequest(Arc<RootsExchange>);

impl Drop for OpenRootsRequest {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.open -= 1;
        state.answered = Some(Instant::now());
        self.0.changed.notify_waiters();
    }
}

impl RootsExchange {
    /// Makes the exchange of a connection that begins. `is_offered`: whether the server is told that it may ask;
    /// otherwise nothing waits.
    pub(crate) fn new(asks_at_start: AsksAtStart, is_offered: bool, lists_changed: Arc<Notify>) -> Arc<Self> {
        let is_over = AtomicBool::new(!is_offered);
        let (state, changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { asks_at_start, is_over, state, changed, lists_changed })
    }

    /// Notes that the handshake is done, so that the server may ask.
    pub(super) fn begin(&self) {
        self.state.lock().began = Some(Instant::now());
    }

    /// Notes that the server asks for roots. `during_call`: it may ask because of a call.
    pub(super) fn asked(self: &Arc<Self>, during_call: bool) -> OpenRootsRequest {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.open == 0 {
            state.asked = Some(now);
        }
        state.open += 1;
        let is_at_start = state.began.is_none_or(|began| now - began <= EXCHANGE_TIMEOUT);
        if is_at_start && (!during_call || self.asks_at_start.lock().is_none()) {
            self.remember(&mut state, true);
        }
        self.changed.notify_waiters();
        OpenRootsRequest(self.clone())
    }

    /// Notes that the lists were read. Returns whether the server asks at its start, to be kept with the catalog. If that
    /// turns out to be different later, the catalog is read again.
    pub(super) fn lists_read(&self) -> Option<bool> {
        let mut state = self.state.lock();
        state.listed = Some(Instant::now());
        self.changed.notify_waiters();
        *state.kept.insert(*self.asks_at_start.lock())
    }

    /// Returns whether a request may be sent at once. A request that may ends the exchange: later ones do not wait.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || {
            let is_due = self.deadline().is_none();
            if is_due {
                self.end();
            }
            is_due
        }
    }

    /// Waits until a request may be sent, for `EXCHANGE_TIMEOUT` and `SETTLE_TIME` at most. Cancel-safe.
    pub(super) async fn over(&self) {
        let settled = async {
            loop {
                let changed = self.changed.notified();
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                let Some(deadline) = self.deadline() else { return };
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(deadline) => {}
                }
            }
        };
        // A server that asks again and again delays the request no longer than that.
        drop(tokio::time::timeout(EXCHANGE_TIMEOUT + SETTLE_TIME, settled).await);
        self.end();
    }

    /// Lets every request go, because the first one goes or the connection has ended.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        let had_time = state.began.is_some_and(|began| began.elapsed() >= EXCHANGE_TIMEOUT);
        if !self.is_over.swap(true, Ordering::AcqRel) && had_time && state.asked.is_none() {
            self.remember(&mut state, false);
        }
        self.changed.notify_waiters();
    }

    /// Returns when the first request may be sent; `None` if it may be sent now.
    fn deadline(&self) -> Option<Instant> {
        let state = self.state.lock();
        let deadline = match (state.open, state.asked, state.answered) {
            (1.., Some(asked), _) => Some(asked + EXCHANGE_TIMEOUT),
            (_, _, Some(answered)) => {
                Some(state.listed.map_or(answered, |at| at.max(answered)) + SETTLE_TIME)
            }
            _ if *self.asks_at_start.lock() == Some(true) => {
                state.began.map(|began| began + EXCHANGE_TIMEOUT)
            }
            // The request does not wait for the lists, so the server has had no time to ask.
            _ if state.listed.is_none() => state.began.map(|began| began + SETTLE_TIME),
            _ => None,
        };
        deadline.filter(|deadline| *deadline > Instant::now())
    }

    fn remember(&self, state: &mut ExchangeState, asks: bool) {
        *self.asks_at_start.lock() = Some(asks);
        let waits = |kept: Option<bool>| kept == Some(true);
        if state.kept.is_some_and(|kept| waits(kept) != asks) {
            state.kept = Some(Some(asks));
            self.lists_changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    struct Start {
        exchange: Arc<RootsExchange>,
        asks_at_start: AsksAtStart,
        lists_changed: Arc<Notify>,
    }

    /// A connection whose handshake is done, and whose catalog was read, to a server that asked at its last start or did
    /// not.
    fn start(asked_before: impl Into<Option<bool>>) -> Start {
        let asked_before = asked_before.into();
        let (asks_at_start, lists_changed) = (Arc::new(Mutex::new(asked_before)), Arc::default());
        let exchange = RootsExchange::new(asks_at_start.clone(), true, Arc::clone(&lists_changed));
        exchange.begin();
        assert_eq!(exchange.lists_read(), asked_before);
        Start { exchange, asks_at_start, lists_changed }
    }

    impl Start {
        fn asks_at_start(&self) -> Option<bool> {
            *self.asks_at_start.lock()
        }

        fn reads_lists_again(&self) -> bool {
            self.lists_changed.notified().now_or_never().is_some()
        }
    }

    /// How long the first request waits, in milliseconds.
    async fn wait_ms(exchange: &RootsExchange) -> u128 {
        let began = Instant::now();
        if !exchange.is_over() {
            exchange.over().await;
        }
        assert!(exchange.is_over(), "the next request does not wait");
        began.elapsed().as_millis()
    }

    fn sleep(ms: u64) -> tokio::time::Sleep {
        tokio::time::sleep(Duration::from_millis(ms))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_ask_waits_for_nothing() {
        let start = start(false);
        assert_eq!(wait_ms(&start.exchange).await, 0);
        let asked_before = Arc::new(Mutex::new(Some(true)));
        let not_offered = RootsExchange::new(asked_before.clone(), false, Arc::default());
        not_offered.begin();
        drop(not_offered.asked(false));
        assert_eq!(wait_ms(&not_offered).await, 0, "it may not ask");
        let stateless = RootsExchange::new(asked_before, true, Arc::default());
        assert_eq!(wait_ms(&stateless).await, 0, "it sends no requests");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_waits_for_the_answer_and_a_little_longer() {
        let start = start(false);
        let open = start.exchange.asked(false);
        let answer = async {
            sleep(300).await;
            drop(open);
        };
        let (first, second, ()) = tokio::join!(wait_ms(&start.exchange), wait_ms(&start.exchange), answer);
        assert_eq!((first, second), (400, 400), "also one that comes at the same time");
        drop(start.exchange.asked(false));
        assert_eq!(wait_ms(&start.exchange).await, 0, "only the first request waits");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_old_delays_nothing() {
        let start = start(false);
        let (first, second) = (start.exchange.asked(false), start.exchange.asked(false));
        drop(first);
        sleep(60).await;
        drop(second);
        sleep(60).await;
        assert_eq!(wait_ms(&start.exchange).await, 40, "the last answer counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_busy_with_its_lists_has_not_read_the_answer() {
        let exchange = RootsExchange::new(Arc::default(), true, Arc::default());
        exchange.begin();
        drop(exchange.asked(false));
        sleep(500).await;
        assert_eq!(exchange.lists_read(), Some(true));
        sleep(30).await;
        assert_eq!(wait_ms(&exchange).await, 70);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_answer_delays_the_request_by_a_second() {
        let slow = start(false);
        let _open = slow.exchange.asked(false);
        sleep(300).await;
        assert_eq!(wait_ms(&slow.exchange).await, 700);
        let busy = start(true);
        let asks_again = async {
            loop {
                drop(busy.exchange.asked(false));
                sleep(90).await;
            }
        };
        tokio::select! {
            waited = wait_ms(&busy.exchange) => assert_eq!(waited, 1100, "however often it asks"),
            () = asks_again => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asked_at_its_last_start_is_waited_for() {
        let start = start(true);
        let exchange = async {
            sleep(400).await;
            let open = start.exchange.asked(false);
            sleep(200).await;
            drop(open);
        };
        let (waited, ()) = tokio::join!(wait_ms(&start.exchange), exchange);
        assert_eq!(waited, 700);
        assert!(start.asks_at_start() == Some(true) && !start.reads_lists_again());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_no_more_is_waited_for_once() {
        let waited_for = start(true);
        sleep(200).await;
        assert_eq!(wait_ms(&waited_for.exchange).await, 800, "a second after the handshake");
        assert!(waited_for.asks_at_start() == Some(false) && waited_for.reads_lists_again());
        let lost = start(true);
        let (waited, ()) = tokio::join!(wait_ms(&lost.exchange), async { lost.exchange.end() });
        assert_eq!(waited, 0, "the connection has ended");
        assert_eq!(lost.asks_at_start(), Some(true), "the server had no time to ask");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_late_is_known_at_the_next_start() {
        let late = start(false);
        assert_eq!(wait_ms(&late.exchange).await, 0);
        sleep(300).await;
        drop(late.exchange.asked(false));
        assert!(late.asks_at_start() == Some(true) && late.reads_lists_again());
        let later = start(None);
        sleep(1001).await;
        drop(later.exchange.asked(false));
        assert!(later.asks_at_start().is_none() && !later.reads_lists_again(), "waiting does not help");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_during_a_call_is_waited_for_at_most_once() {
        let first = start(None);
        drop(first.exchange.asked(true));
        assert!(first.asks_at_start() == Some(true) && first.reads_lists_again(), "it may be its start");
        let second = start(first.asks_at_start());
        assert_eq!(wait_ms(&second.exchange).await, 1000);
        drop(second.exchange.asked(true));
        assert_eq!(second.asks_at_start(), Some(false), "it was because of the call");
        let third = start(second.asks_at_start());
        assert_eq!(wait_ms(&third.exchange).await, 0);
        drop(third.exchange.asked(true));
        assert_eq!(third.asks_at_start(), Some(false));
    }
}
