//! The requests of one side that are not answered yet, and the ids that outlive them. Plain state; `peer` has the lock.

use crate::CallReply;
use crate::peer::call_options::{CallError, CallOptions, Progress};
use crate::peer::own_ids::OwnIdMap;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// The number of tasks whose progress is passed on after the answer to their call. The oldest are dropped.
const MAX_TASKS: usize = 256;
/// How many requests are remembered whose caller left before the answer. The oldest are forgotten.
const MAX_ABANDONED: usize = 256;

/// How a call ended.
pub(crate) type CallOutcome = Result<CallReply, CallError>;

/// The calls that are not answered yet.
#[derive(Default)]
pub(crate) struct OpenCalls {
    /// The id of the last request, which is also its progress token.
    pub(crate) last_id: u64,
    /// The calls by id.
    pub(crate) open: OwnIdMap<OpenCall>,
    /// How calls ended whose callers have not seen it yet.
    outcomes: OwnIdMap<CallOutcome>,
    /// Where the progress of tasks goes whose calls were answered, the latest last.
    task_progress: VecDeque<(u64, Progress)>,
    /// The requests that were cancelled because their caller left, the latest last.
    abandoned: VecDeque<u64>,
    /// Whether the connection ended, so that no answer can come any more.
    pub(crate) ended: bool,
    /// When the deadlines are looked at next; `None` if no call was open when they were looked at last.
    alarm: Option<Instant>,
}

/// A call that is not answered yet.
pub(crate) struct OpenCall {
    /// Wakes the caller, if it waits.
    pub(crate) caller: Option<Waker>,
    /// Whether the caller was told that its time is over. The call stays open until it has left.
    pub(crate) timed_out: bool,
    /// Its options.
    pub(crate) options: CallOptions,
    /// Whether it is a `subscriptions/listen`, which stays open until one side ends it.
    pub(crate) is_subscription: bool,
    /// When the call was made.
    pub(crate) started: Instant,
    /// When the call was made, or progress came last.
    pub(crate) last_progress: Instant,
}

impl OpenCall {
    fn deadline(&self) -> Instant {
        (self.last_progress + self.options.timeout).min(self.started + self.options.max_total)
    }
}

impl OpenCalls {
    /// Adds a call. Returns whether its deadline comes before the deadlines are looked at next.
    pub(crate) fn add(&mut self, id: u64, call: OpenCall) -> bool {
        let deadline = call.deadline();
        self.open.insert(id, call);
        let is_earlier = self.alarm.is_none_or(|alarm| deadline < alarm);
        if is_earlier {
            self.alarm = Some(deadline);
        }
        is_earlier
    }

    /// Gives the calls whose time is over that outcome, and returns when to do so next; `None` if no call is open. They
    /// stay open until their callers have left. Adds to `woken` whom to wake.
    pub(crate) fn expire(&mut self, now: Instant, woken: &mut Vec<Waker>) -> Option<Instant> {
        self.alarm = None;
        for (id, call) in self.open.iter_mut().filter(|(_, call)| !call.timed_out) {
            let deadline = call.deadline();
            if deadline > now {
                self.alarm = Some(self.alarm.map_or(deadline, |alarm| alarm.min(deadline)));
            } else {
                call.timed_out = true;
                self.outcomes.insert(*id, Err(CallError::timed_out(now - call.started)));
                woken.extend(call.caller.take());
            }
        }
        self.alarm
    }

    /// Ends a call, of whose task progress may still come. Returns the waker of its caller, if that waits.
    ///
    /// # Errors
    ///
    /// Returns the outcome if the call is not open.
    pub(crate) fn answered(&mut self, id: u64, outcome: CallOutcome) -> Result<Option<Waker>, CallOutcome> {
        let Some(call) = self.open.remove(&id) else { return Err(outcome) };
        if let Some(progress) = call.options.progress.filter(|_| call.options.may_become_task) {
            push_bounded(&mut self.task_progress, (id, progress), MAX_TASKS);
        }
        if !call.timed_out {
            self.outcomes.insert(id, outcome);
        }
        Ok(call.caller)
    }

    /// Ends all calls, because no answer can come any more. Returns the wakers of their callers.
    pub(crate) fn end_all(&mut self) -> Vec<Waker> {
        self.ended = true;
        let open = std::mem::take(&mut self.open);
        open.into_values().filter_map(|call| call.caller).collect()
    }

    /// Returns how a call ended, if it has, once. Otherwise its caller is woken when it does.
    pub(crate) fn poll_outcome(&mut self, id: u64, context: &Context<'_>) -> Poll<CallOutcome> {
        if let Some(outcome) = self.outcomes.remove(&id) {
            return Poll::Ready(outcome);
        }
        let Some(call) = self.open.get_mut(&id) else {
            return Poll::Ready(Err(CallError::Closed { sent: true, refusal: None }));
        };
        call.caller = Some(context.waker().clone());
        Poll::Pending
    }

    /// Removes a call whose caller left. Returns `None` if it was answered before.
    pub(crate) fn abandon(&mut self, id: u64) -> Option<OpenCall> {
        self.outcomes.remove(&id);
        let call = self.open.remove(&id)?;
        push_bounded(&mut self.abandoned, id, MAX_ABANDONED);
        Some(call)
    }

    /// Returns whether the caller of request `id` left before the answer, and forgets the request.
    pub(crate) fn take_abandoned(&mut self, id: u64) -> bool {
        let at = self.abandoned.iter().position(|abandoned| *abandoned == id);
        at.and_then(|at| self.abandoned.remove(at)).is_some()
    }

    /// Returns where the progress of a call goes that was answered with a task.
    pub(crate) fn progress_of_task(&self, id: u64) -> Option<&Progress> {
        self.task_progress.iter().find(|(task, _)| *task == id).map(|(_, progress)| progress)
    }

    /// Returns how many calls with an origin are open, and when the first of them began. Subscriptions are not among
    /// them.
    pub(crate) fn in_flight(&self) -> (usize, Option<Instant>) {
        let calls = self.open.values().filter(|call| call.options.origin.is_some() && !call.is_subscription);
        calls.fold((0, None), |(count, first), call| {
            (count + 1, Some(first.map_or(call.started, |first: Instant| first.min(call.started))))
        })
    }

    /// Returns the id of the only call with an origin that is open; `None` if there are none or several. Subscriptions
    /// are among them.
    pub(crate) fn only(&self) -> Option<u64> {
        let mut calls = self.open.iter().filter(|(_, call)| call.options.origin.is_some());
        calls.next().map(|(id, _)| *id).filter(|_| calls.next().is_none())
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, limit: usize) {
    queue.push_back(item);
    let excess = queue.len().saturating_sub(limit);
    queue.drain(..excess);
}
