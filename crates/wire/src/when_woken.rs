//! Lets the task of a connection await what seldom happens, without looking at it for each message.

use futures_util::task::{ArcWake, waker};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// Awaits a future that seldom completes. It is polled when it was woken, and not each time that its task runs for
/// another reason.
pub async fn when_woken<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // The first poll counts as woken.
    let flag = Arc::new(WokenFlag { is_woken: AtomicBool::new(true), task: Mutex::default() });
    let waker = waker(flag.clone());
    let mut task: Option<Waker> = None;
    poll_fn(|context| {
        if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            task = Some(context.waker().clone());
            // Before the flag is read: who sets it later wakes this task.
            flag.task.lock().clone_from(&task);
        }
        if !flag.is_woken.load(Ordering::Acquire) || !flag.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Notes that the future was woken.
struct WokenFlag {
    is_woken: AtomicBool,
    /// The task that awaits the future.
    task: Mutex<Option<Waker>>,
}

impl ArcWake for WokenFlag {
    fn wake_by_ref(this: &Arc<Self>) {
        this.is_woken.store(true, Ordering::Release);
        let task = this.task.lock().clone();
        task.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_future_is_polled_only_when_it_was_woken() {
        let (seldom, often, polls) = (Notify::new(), Notify::new(), AtomicUsize::new(0));
        let future = async {
            for _ in 0..3 {
                let mut notified = pin!(seldom.notified());
                poll_fn(|context| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    notified.as_mut().poll(context)
                })
                .await;
            }
        };
        let mut future = pin!(when_woken(future));
        for round in 0..3 {
            for _ in 0..5 {
                often.notify_one();
                tokio::select! {
                    biased;
                    () = &mut future => panic!("it was not woken"),
                    () = often.notified() => {}
                }
            }
            assert_eq!(polls.load(Ordering::Relaxed), 2 * round + 1);
            seldom.notify_one();
            if round < 2 {
                often.notify_one();
                tokio::select! {
                    biased;
                    () = &mut future => panic!("it was woken too seldom"),
                    () = often.notified() => {}
                }
            }
        }
        future.await;
    }

    #[tokio::test]
    async fn it_may_be_awaited_by_one_task_after_another() {
        let notify = Arc::new(Notify::new());
        let mut future = Box::pin(when_woken({
            let notify = notify.clone();
            async move { notify.notified().await }
        }));
        assert!(futures_util::poll!(&mut future).is_pending());
        let task = tokio::spawn(future);
        tokio::task::yield_now().await;
        notify.notify_one();
        tokio::time::timeout(std::time::Duration::from_secs(5), task).await.unwrap().unwrap();
    }
}
