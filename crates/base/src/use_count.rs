//! Counts the users of something that is closed when nobody uses it.

use crate::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bit of the count that is set once there may be no more users.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The number of users, and whether there may be more.
#[derive(Debug)]
pub struct UseCount {
    /// The number of users, and the bit `CLOSED`.
    users: AtomicUsize,
    /// Whether somebody waits for the last user to leave.
    awaited: AtomicBool,
}

impl Default for UseCount {
    /// Counts nobody yet.
    fn default() -> Self {
        Self { users: AtomicUsize::new(0), awaited: AtomicBool::new(false) }
    }
}

impl UseCount {
    /// Adds a user. Returns false if there may be no more.
    #[must_use]
    pub fn add(&self) -> bool {
        let one_more = |users: usize| (users & CLOSED == 0).then_some(users + 1);
        self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// Removes a user. Returns whether it was the last one and somebody waits for that, who has to be told.
    #[must_use]
    pub fn remove(&self) -> bool {
        let is_last = self.users.fetch_sub(1, Ordering::AcqRel) & !CLOSED == 1;
        // The load alone costs less, and nobody waits for most users.
        is_last && self.awaited.load(Ordering::Relaxed) && self.awaited.swap(false, Ordering::Relaxed)
    }

    /// The number of users.
    pub fn users(&self) -> usize {
        self.users.load(Ordering::Acquire) & !CLOSED
    }

    /// Returns the number of users. If there are any, `remove` reports when the last of them leaves.
    pub fn watch(&self) -> usize {
        // Before the number is read, so that no user leaves unnoticed in between. The number is read by an operation that
        // writes, too: it is either after the last `remove`, or that `remove` is after it and sees `awaited`.
        self.awaited.store(true, Ordering::Relaxed);
        let users = self.users.fetch_or(0, Ordering::AcqRel) & !CLOSED;
        if users == 0 {
            self.awaited.store(false, Ordering::Relaxed);
        }
        users
    }

    /// Lets nobody in any more, unless there is a user. Returns whether it did.
    #[must_use]
    pub fn close_if_unused(&self) -> bool {
        self.users.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Lets nobody in any more. Those who are in may stay.
    pub fn close(&self) {
        self.users.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Returns whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.users.load(Ordering::Acquire) & CLOSED != 0
    }
}

#[cfg(test)]
#[cfg(not(feature = "loom"))]
mod tests {
    use super::*;

    #[test]
    fn the_last_user_is_reported_once_and_only_to_who_watches() {
        let count = UseCount::default();
        assert!(count.add() && !count.remove(), "nobody watches");
        assert_eq!(count.watch(), 0);
        assert!(count.add() && !count.remove(), "who watched has seen that there is no user");
        assert!(count.add() && count.add());
        assert_eq!((count.users(), count.watch()), (2, 2));
        assert!(!count.remove(), "one is left");
        assert_eq!(count.users(), 1);
        assert!(count.remove());
        assert!(count.add() && !count.remove(), "it was reported");
        assert_eq!(count.users(), 0);
    }

    #[test]
    fn only_what_nobody_uses_is_closed_for_being_unused() {
        let count = UseCount::default();
        assert!(count.add() && !count.close_if_unused() && !count.is_closed());
        assert!(!count.remove() && count.close_if_unused() && count.is_closed());
        assert!(!count.add());
        assert_eq!((count.users(), count.watch()), (0, 0));
    }

    #[test]
    fn those_who_are_in_may_stay_after_the_close_and_the_last_of_them_is_reported() {
        let count = UseCount::default();
        assert!(count.add() && count.add());
        count.close();
        count.close();
        assert!(count.is_closed() && !count.add());
        assert_eq!((count.users(), count.watch()), (2, 2));
        assert!(!count.remove() && count.remove());
        assert_eq!(count.users(), 0);
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
#[expect(unsafe_code, reason = "loom checks each access")]
mod models {
    use super::*;
    use crate::atomic::model;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    /// Something that must not be closed while it is used: loom reports an access of two threads at once.
    struct Model {
        count: UseCount,
        resource: UnsafeCell<bool>,
        unused: Notify,
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                count: UseCount::default(),
                resource: UnsafeCell::new(true),
                unused: Notify::new(),
            })
        }

        /// Uses the resource if that is allowed, as a call uses a connection.
        fn use_once(&self) {
            if self.count.add() {
                self.resource.with(|is_open| assert!(unsafe { *is_open }, "it is closed while it is used"));
                if self.count.remove() {
                    self.unused.notify();
                }
            }
        }

        /// Two threads that use the resource.
        fn users(model: &Arc<Self>) -> [thread::JoinHandle<()>; 2] {
            [(); 2].map(|()| {
                let model = model.clone();
                thread::spawn(move || model.use_once())
            })
        }

        fn end(&self) {
            self.resource.with_mut(|is_open| unsafe { *is_open = false });
        }
    }

    #[test]
    fn what_is_closed_because_nobody_uses_it_is_not_used() {
        model(|| {
            let model = Model::new();
            let users = Model::users(&model);
            if model.count.close_if_unused() {
                model.end();
            }
            users.into_iter().for_each(|user| user.join().unwrap());
        });
    }

    #[test]
    fn whoever_closes_it_for_new_users_hears_of_the_last_one() {
        model(|| {
            let model = Model::new();
            let users = Model::users(&model);
            model.count.close();
            // loom reports a wait that never ends.
            while model.count.watch() > 0 {
                model.unused.wait();
            }
            model.end();
            users.into_iter().for_each(|user| user.join().unwrap());
        });
    }
}
