//! Finds the open call of a stateless client whose answer can carry a request of an upstream.
//!
//! A server of the handshake era does not say during which call it asks. A related task tells the call, and so does the
//! stream of a remote server. Otherwise the request belongs to the only call that is open at the group. If several are
//! open, the request is refused, because the question of one call must not appear in another one. Roots are not a
//! question of one call, so any call can carry that request.

use config::GroupName;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::{Notify, mpsc, oneshot};
use wire::protocol::capability;
use wire::{Raw, Reply, raw};

/// An open call of a stateless client through which the client can be asked for input.
#[derive(Clone)]
pub struct InputChannel {
    /// The capabilities that the client declared with this call.
    pub capabilities: Raw,
    /// Takes the requests for input.
    pub requests: mpsc::Sender<PendingInput>,
    /// Whether the call is suspended: the client was asked and has not sent its next request.
    pub suspended: Arc<AtomicBool>,
    /// Notify it to drop the call if it is suspended.
    pub abandoned: Arc<Notify>,
}

/// A request for input that waits until the answer to a call can carry it.
pub struct PendingInput {
    /// The method of the request.
    pub method: String,
    /// The params of the request.
    pub params: Option<Raw>,
    /// Takes the client's answer.
    pub answer: oneshot::Sender<Reply>,
}

/// What a request of an upstream says about the call that it belongs to.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallHint {
    /// The number of the call's channel.
    pub number: Option<u64>,
    /// The task that the request is about, by the upstream's own id.
    pub task: Option<String>,
}

/// Why a request of an upstream reaches no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoInputChannel {
    /// The call has ended, or its client did not declare the capability.
    Unsupported,
    /// Several calls are open, and it is not known which one the request belongs to.
    Ambiguous,
}

/// The input channels of one client.
#[derive(Default)]
pub(crate) struct InputChannels {
    open: Mutex<OpenChannels>,
    /// Notified when a call is registered.
    registered: Notify,
}

#[derive(Default)]
struct OpenChannels {
    /// In the order of their numbers. A channel is open as long as its call has it.
    channels: Vec<Weak<RegisteredChannel>>,
    /// The last number that was given to a channel.
    last_number: u64,
}

/// An input channel, which is registered until it is dropped.
pub(crate) struct RegisteredChannel {
    /// The number of the channel, at least 1.
    pub number: u64,
    /// The group at which the call is open.
    group: GroupName,
    /// The task whose result the call waits for, by the upstream's own id.
    task: Option<String>,
    channel: InputChannel,
}

impl InputChannels {
    /// Registers a call that is open at `group`. `task`: the task whose result it waits for, by the upstream's own id.
    pub(crate) fn register(
        &self,
        group: &GroupName,
        task: Option<String>,
        channel: InputChannel,
    ) -> Arc<RegisteredChannel> {
        let mut open = self.open.lock();
        open.channels.retain(|channel| channel.strong_count() > 0);
        open.last_number += 1;
        let (number, group) = (open.last_number, group.clone());
        let registered = Arc::new(RegisteredChannel { number, group, task, channel });
        open.channels.push(Arc::downgrade(&registered));
        self.registered.notify_waiters();
        registered
    }

    /// Returns the calls that are open at a group.
    fn at(&self, group: &GroupName) -> Vec<Arc<RegisteredChannel>> {
        let open = self.open.lock();
        open.channels.iter().filter_map(Weak::upgrade).filter(|call| call.group == *group).collect()
    }

    /// Returns the suspended calls at a group, but for the call with this number.
    pub(crate) fn suspended(&self, group: &GroupName, but: u64) -> Vec<InputChannel> {
        let is_meant = |call: &Arc<RegisteredChannel>| {
            call.number != but && call.channel.suspended.load(Ordering::Relaxed)
        };
        self.at(group).into_iter().filter(is_meant).map(|call| call.channel.clone()).collect()
    }

    /// Waits until a call is open at `group`. Cancel-safe.
    pub(crate) async fn opened(&self, group: &GroupName) {
        loop {
            let registered = self.registered.notified();
            if !self.at(group).is_empty() {
                return;
            }
            registered.await;
        }
    }

    /// Finds the call that a request of `group` belongs to: the one that waits for the hint's task, else the one with
    /// the hint's number. A hint without either means the only call that is open at the group, or any of them if
    /// `capability` is that of roots. Calls that are suspended wait for an answer already, so they count only if no other
    /// is open.
    ///
    /// # Errors
    ///
    /// Says why no call is known.
    pub(crate) fn find(
        &self,
        group: &GroupName,
        hint: &CallHint,
        capability: &str,
    ) -> Result<mpsc::Sender<PendingInput>, NoInputChannel> {
        let at_group = self.at(group);
        let of_task = |task: &String| at_group.iter().find(|call| call.task.as_ref() == Some(task));
        let is_able = |call: &RegisteredChannel| raw::get(&call.channel.capabilities, capability).is_some();
        let found = match (hint.task.as_ref().and_then(of_task), hint.number) {
            (Some(found), _) => Some(found),
            (None, Some(number)) => at_group.iter().find(|call| call.number == number),
            (None, None) => {
                let (suspended, running): (Vec<&_>, Vec<&_>) =
                    at_group.iter().partition(|call| call.channel.suspended.load(Ordering::Relaxed));
                match (&running[..], &suspended[..]) {
                    ([only], _) | ([], [only]) => Some(*only),
                    ([], []) => None,
                    _ if capability == capability::ROOTS => {
                        running.iter().chain(&suspended).find(|call| is_able(call)).copied()
                    }
                    _ => return Err(NoInputChannel::Ambiguous),
                }
            }
        };
        let able = found.filter(|call| is_able(call));
        able.map(|call| call.channel.requests.clone()).ok_or(NoInputChannel::Unsupported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    struct Calls {
        channels: InputChannels,
        guards: Vec<Arc<RegisteredChannel>>,
        open: Vec<(mpsc::Receiver<PendingInput>, Arc<AtomicBool>)>,
    }

    impl Calls {
        /// Opens a call at group `g` for each of these, which are the tasks that they wait for.
        fn open(tasks: &[Option<&str>]) -> Self {
            let channels = InputChannels::default();
            let (mut guards, mut open) = (Vec::new(), Vec::new());
            for task in tasks {
                let (requests, receiver) = mpsc::channel(1);
                let suspended = Arc::<AtomicBool>::default();
                let capabilities = Raw::from_static(br#"{"elicitation":{},"roots":{}}"#);
                let abandoned = Arc::default();
                let channel =
                    InputChannel { capabilities, requests, suspended: suspended.clone(), abandoned };
                guards.push(channels.register(&GroupName::new("g"), task.map(str::to_owned), channel));
                open.push((receiver, suspended));
            }
            Self { channels, guards, open }
        }

        /// The index of the call that is found.
        fn find(&mut self, number: Option<u64>, task: Option<&str>) -> Result<usize, NoInputChannel> {
            let hint = CallHint { number, task: task.map(str::to_owned) };
            self.find_by(&hint, capability::ELICITATION)
        }

        fn find_by(&mut self, hint: &CallHint, capability: &str) -> Result<usize, NoInputChannel> {
            let sender = self.channels.find(&GroupName::new("g"), hint, capability)?;
            let (answer, _answered) = oneshot::channel();
            assert!(sender.try_send(PendingInput { method: String::new(), params: None, answer }).is_ok());
            Ok(self.open.iter_mut().position(|(receiver, _)| receiver.try_recv().is_ok()).unwrap())
        }
    }

    #[test]
    fn a_number_or_a_task_tells_the_call() {
        let mut calls = Calls::open(&[None, Some("t"), None]);
        assert_eq!(calls.find(Some(3), None), Ok(2));
        assert_eq!(
            calls.find(Some(1), Some("t")),
            Ok(1),
            "the task says more than the stream that it came on"
        );
        assert_eq!(calls.find(Some(9), None), Err(NoInputChannel::Unsupported), "that call has ended");
    }

    #[test]
    fn without_a_hint_only_the_single_call_is_asked() {
        let mut calls = Calls::open(&[None, None]);
        assert_eq!(calls.find(None, None), Err(NoInputChannel::Ambiguous));
        calls.open[0].1.store(true, Ordering::Relaxed);
        assert_eq!(calls.find(None, None), Ok(1), "the other one waits for an answer already");
        calls.open[1].1.store(true, Ordering::Relaxed);
        assert_eq!(calls.find(None, None), Err(NoInputChannel::Ambiguous));
        calls.guards.remove(1);
        assert_eq!(calls.find(None, None), Ok(0));
        calls.guards.clear();
        assert_eq!(calls.find(None, None), Err(NoInputChannel::Unsupported));
    }

    #[test]
    fn any_call_carries_a_request_for_roots() {
        let mut calls = Calls::open(&[None, None]);
        let find = |calls: &mut Calls| calls.find_by(&CallHint::default(), capability::ROOTS);
        assert_eq!(find(&mut calls), Ok(0));
        calls.open[0].1.store(true, Ordering::Relaxed);
        assert_eq!(find(&mut calls), Ok(1), "the other one waits for an answer already");
        calls.open[1].1.store(true, Ordering::Relaxed);
        assert_eq!(find(&mut calls), Ok(0));
    }

    #[test]
    fn the_first_call_of_a_group_is_awaited() {
        let (g, h) = (GroupName::new("g"), GroupName::new("h"));
        let (channels, mut guards) = (InputChannels::default(), Vec::new());
        let (requests, _receiver) = mpsc::channel(1);
        let channel = InputChannel {
            capabilities: Raw::default(),
            requests,
            suspended: Arc::default(),
            abandoned: Arc::default(),
        };
        let mut opened = std::pin::pin!(channels.opened(&g));
        guards.push(channels.register(&h, None, channel.clone()));
        assert!(opened.as_mut().now_or_never().is_none());
        guards.push(channels.register(&g, None, channel));
        assert!(opened.now_or_never().is_some() && channels.opened(&g).now_or_never().is_some());
    }
}
