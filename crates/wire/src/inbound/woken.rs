//! What the threads that wake requests share with the task that continues them.

use base::atomic::{AtomicBool, Lock, Ordering};
use std::collections::VecDeque;
use std::task::Waker;

/// Whether a request was woken, and has not continued since.
pub(super) struct WokenFlag(AtomicBool);

impl Default for WokenFlag {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl WokenFlag {
    /// Notes that the request was woken. Returns whether the caller has to have it continued: else somebody else has to.
    pub(super) fn set(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Notes that the request continues now. Whoever wakes it from here on has it continued again.
    pub(super) fn clear(&self) {
        // A thread that finds it woken already relies on this continuation, which therefore has to see what that thread
        // did: a swap, not a store. If it is not woken, no thread relies on this.
        if self.0.load(Ordering::Relaxed) {
            self.0.swap(false, Ordering::AcqRel);
        }
    }
}

/// The requests that their owner has to continue.
pub(super) struct WokenList<T> {
    waiting: Lock<Waiting<T>>,
    /// Whether there are any. The owner looks at this whenever its task runs.
    has_any: AtomicBool,
}

struct Waiting<T> {
    requests: VecDeque<T>,
    /// Wakes the owner.
    owner: Option<Waker>,
}

impl<T> Default for WokenList<T> {
    fn default() -> Self {
        let waiting = Waiting { requests: VecDeque::new(), owner: None };
        Self { waiting: Lock::new(waiting), has_any: AtomicBool::new(false) }
    }
}

impl<T> WokenList<T> {
    /// Leaves a request to the owner, and wakes the owner.
    pub(super) fn push(&self, request: T) {
        let owner = {
            let mut waiting = self.waiting.lock();
            waiting.requests.push_back(request);
            self.has_any.store(true, Ordering::Release);
            waiting.owner.clone()
        };
        owner.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the list has any.
    pub(super) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Takes the requests. `owner` is woken when there are others.
    pub(super) fn take(&self, owner: &Waker) -> VecDeque<T> {
        let mut waiting = self.waiting.lock();
        waiting.owner = Some(owner.clone());
        self.has_any.store(false, Ordering::Release);
        std::mem::take(&mut waiting.requests)
    }

    /// Wakes the owner.
    pub(super) fn wake_owner(&self) {
        let owner = self.waiting.lock().owner.clone();
        owner.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
mod models {
    use super::*;
    use base::atomic::model;
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;
    use std::future::poll_fn;
    use std::task::Poll;

    /// A request that waits for the values of several threads, and the list of its owner.
    #[derive(Default)]
    struct Model {
        list: WokenList<()>,
        is_woken: WokenFlag,
    }

    impl Model {
        /// Wakes the request, as a thread does that has something for it.
        fn wake(&self) {
            if self.is_woken.set() {
                self.list.push(());
            }
        }

        /// Continues the request until `is_done`, as its owner does. loom reports an owner that is never woken.
        fn continue_until(&self, is_done: impl Fn() -> bool) {
            block_on(poll_fn(|context| {
                let woken = self.list.take(context.waker());
                let continues = |()| {
                    self.is_woken.clear();
                    is_done()
                };
                match woken.into_iter().any(continues) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            }));
        }
    }

    #[test]
    fn a_request_sees_what_every_thread_did_before_it_woke_the_request() {
        model(|| {
            let model = Arc::new(Model::default());
            let values = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let threads = [0, 1].map(|number| {
                let (model, values) = (model.clone(), values.clone());
                thread::spawn(move || {
                    values[number].store(true, Ordering::Relaxed);
                    model.wake();
                })
            });
            model.continue_until(|| values.iter().all(|value| value.load(Ordering::Relaxed)));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn an_owner_that_looks_without_the_lock_is_woken_for_every_request() {
        model(|| {
            let list = Arc::new(WokenList::default());
            let threads = [1, 2].map(|request| {
                let list = list.clone();
                thread::spawn(move || list.push(request))
            });
            let (mut taken, mut is_registered) = (0, false);
            block_on(poll_fn(|context| {
                if !std::mem::replace(&mut is_registered, true) || list.has_any() {
                    taken += list.take(context.waker()).into_iter().sum::<i32>();
                }
                if taken == 3 { Poll::Ready(()) } else { Poll::Pending }
            }));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
