//! Models of the threads that wake requests and the owner that continues them.

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
