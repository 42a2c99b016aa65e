//! The memory that messages may take: one budget for all connections of the process.
//!
//! A message that is large counts from its first bytes in a buffer until its last slice is dropped, wherever it is: in
//! the queue to a client that does not read, in an answer that its caller has not taken yet, in a call that waits. For
//! that, the reservation is a part of its bytes ([`Reservation::hold`]), and no holder has to count. Small messages do
//! not count: they are bounded by the number of open requests.
//!
//! A message may take half of the bytes that all others leave free. So the largest messages are refused first and small
//! ones pass until the end, and a message that is alone may take half of the budget. A message that is refused waits a
//! moment for room, because a client that reads makes some.
//!
//! Where there are users (HTTP), the messages that a user sends, listens for and has not read count for this user as well,
//! who has a share of half as many bytes (`base::fair`): an answer is in memory twice while it becomes one for the user.

use base::atomic::{AtomicUsize, Ordering};
use base::fair::{Shares, User, UserShare};
use bytes::Bytes;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The memory for messages, in bytes.
pub const BUDGET_BYTES: usize = 256 << 20;
/// The size up to which a message does not count, in bytes.
pub(crate) const UNCOUNTED_BYTES: usize = 32 << 10;
/// How much is reserved at once, in bytes.
const STEP_BYTES: usize = 64 << 10;
/// How long a message waits for room before it is refused.
const ROOM_TIMEOUT: Duration = Duration::from_secs(2);

/// The budget of the process. Made at its first use, because the atomics of models cannot be made in a constant.
static BUDGET: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new(BUDGET_BYTES));

/// Returns how many bytes are reserved, by all connections of the process.
pub fn reserved_bytes() -> usize {
    BUDGET.used.load(Ordering::Relaxed)
}

/// A number of bytes that several messages share.
struct ByteBudget {
    /// The bytes that are reserved.
    used: AtomicUsize,
    /// The bytes that may be reserved.
    limit: usize,
    /// Wakes the messages that wait for room.
    room: Notify,
    /// The shares of users.
    users: Shares,
}

impl ByteBudget {
    fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit, room: Notify::new(), users: Shares::new(limit / 2) }
    }

    /// Raises a reservation of `old` bytes to `new` bytes, if that is at most half of the bytes that the others leave
    /// free.
    fn try_raise(&self, old: usize, new: usize) -> bool {
        let raise = |used: usize| {
            let free = self.limit.saturating_sub(used - old);
            (new <= free / 2).then_some(used - old + new)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_waiters();
    }
}

/// A part of the budget, which is given back when this is dropped.
pub struct Reservation {
    budget: &'static ByteBudget,
    bytes: usize,
    /// The same number of bytes, if they count for a user.
    share: Option<UserShare>,
    /// Until when a message that was refused waits for room.
    wait_until: Option<Instant>,
}

impl Default for Reservation {
    /// Reserves nothing yet, of the budget of the process.
    fn default() -> Self {
        Self::of(&BUDGET)
    }
}

impl Reservation {
    fn of(budget: &'static ByteBudget) -> Self {
        Self { budget, bytes: 0, share: None, wait_until: None }
    }

    /// Reserves nothing yet, of the budget of the process and of the share of a user, if there is one.
    pub fn of_user(user: User) -> Self {
        let share = user.is_some().then(|| BUDGET.users.share_of(user));
        Self { share, ..Self::default() }
    }

    /// Reserves the memory for a message of at least `bytes` bytes, and a step ahead. Waits for room up to `ROOM_TIMEOUT`,
    /// counted from the first refusal. Returns whether there is room. Cancel-safe.
    pub async fn reserve(&mut self, bytes: usize) -> bool {
        if bytes <= UNCOUNTED_BYTES.max(self.bytes) {
            return true;
        }
        let wanted = bytes + STEP_BYTES;
        if self.try_raise(wanted) {
            self.wait_until = None;
            return true;
        }
        // Boxed, so that the future that reads a line is small.
        Box::pin(self.until_room(bytes, |reservation| reservation.try_raise(wanted))).await
    }

    /// Counts a message that is in memory already, for a user. Waits for room in the user's share as `reserve` does. `None` if
    /// there is none. All slices of the result share the reservation.
    pub async fn hold_for(user: User, message: Bytes) -> Option<Bytes> {
        let bytes = message.len();
        if bytes <= UNCOUNTED_BYTES {
            return Some(message);
        }
        let mut held = Self::of_user(user);
        held.budget.used.fetch_add(bytes, Ordering::Relaxed);
        held.bytes = bytes;
        let take = |held: &mut Self| held.share.as_mut().is_none_or(|share| share.try_set(bytes));
        let has_room = held.until_room(bytes, take).await;
        has_room.then(|| Bytes::from_owner(HeldMessage { message, _reservation: held }))
    }

    /// Makes attempts to take room for a message, at first and whenever some becomes free, up to `ROOM_TIMEOUT` after the
    /// first one. Returns whether one succeeded. Cancel-safe.
    async fn until_room(&mut self, bytes: usize, mut take: impl FnMut(&mut Self) -> bool) -> bool {
        let budget = self.budget;
        loop {
            let room = budget.room.notified();
            if take(self) {
                self.wait_until = None;
                return true;
            }
            let deadline = *self.wait_until.get_or_insert_with(|| Instant::now() + ROOM_TIMEOUT);
            if Instant::now() >= deadline {
                tracing::warn!(bytes, "dropped a message: there is no room in the memory for messages");
                return false;
            }
            // A wake-up or the deadline: there is one more attempt in either case.
            drop(timeout_at(deadline, room).await);
        }
    }

    /// Reserves this many bytes, which are more than before. Returns whether there is room.
    pub fn try_raise(&mut self, bytes: usize) -> bool {
        if !self.share.as_mut().is_none_or(|share| share.try_set(bytes)) {
            return false;
        }
        let is_raised = self.budget.try_raise(self.bytes, bytes);
        if is_raised {
            self.bytes = bytes;
        } else if let Some(share) = &mut self.share {
            share.set(self.bytes);
        }
        is_raised
    }

    /// Gives everything back.
    pub fn clear(&mut self) {
        if let Some(share) = &mut self.share {
            share.set(0);
        }
        if self.bytes > 0 {
            self.budget.release(std::mem::take(&mut self.bytes));
        }
    }

    /// Makes the reservation a part of the bytes of the message. All slices of the result share it.
    pub fn hold(mut self, message: Bytes) -> Bytes {
        if message.len() <= UNCOUNTED_BYTES {
            return message;
        }
        // The bytes of the last read were not reserved.
        self.budget.used.fetch_add(message.len(), Ordering::Relaxed);
        self.budget.release(self.bytes);
        self.bytes = message.len();
        if let Some(share) = &mut self.share {
            share.set(self.bytes);
        }
        Bytes::from_owner(HeldMessage { message, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.clear();
        }
    }
}

/// The bytes of a message and their part of the budget.
struct HeldMessage {
    message: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for HeldMessage {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
mod models {
    use super::*;
    use base::atomic::model;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn messages_of_several_threads_never_take_more_than_the_budget_and_leave_nothing() {
        model(|| {
            let budget = Arc::new(ByteBudget::new(100));
            let threads = [30, 40].map(|bytes| {
                let budget = budget.clone();
                thread::spawn(move || {
                    let is_raised = budget.try_raise(0, bytes);
                    if is_raised {
                        assert!(budget.used.load(Ordering::Relaxed) <= budget.limit);
                        budget.release(bytes);
                    }
                    is_raised
                })
            });
            let raised = budget.try_raise(0, 20) && budget.try_raise(20, 25);
            if raised {
                budget.release(25);
            }
            threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
            assert!(budget.used.load(Ordering::Relaxed) <= 20, "what was reserved is given back");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn budget(limit: usize) -> &'static ByteBudget {
        Box::leak(Box::new(ByteBudget::new(limit)))
    }

    fn used(budget: &ByteBudget) -> usize {
        budget.used.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_are_refused_first_and_small_ones_pass() {
        let budget = budget(64 * MB);
        let mut held = Vec::new();
        let sizes = [40, 30, 16, 7, 4, 4, 1, 1].map(|size| size * MB);
        let mut outcomes = Vec::new();
        for size in sizes {
            let mut reservation = Reservation::of(budget);
            outcomes.push(reservation.reserve(size).await);
            held.push(reservation);
        }
        assert_eq!(outcomes, [false, true, true, true, true, false, true, true]);
        assert!(used(budget) <= budget.limit);
        assert!(Reservation::of(budget).reserve(UNCOUNTED_BYTES).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_user_holds_leaves_room_for_another() {
        let budget = budget(64 * MB);
        let of = |name: &str| {
            let share = Some(budget.users.share_of(Some(name.into())));
            Reservation { share, ..Reservation::of(budget) }
        };
        let (mut held, mut count) = (Vec::new(), 0);
        for size in [5 * MB; 10] {
            let mut reservation = of("ann");
            if reservation.reserve(size).await {
                held.push(reservation.hold(Bytes::from(vec![b'x'; size])));
                count += 1;
            }
        }
        assert_eq!((count, used(budget)), (3, 15 * MB), "half of what users have");
        let mut bob = of("bob");
        assert!(bob.reserve(7 * MB).await);
        let mut other = of("bob");
        assert!(!other.reserve(4 * MB).await && Reservation::of(budget).reserve(4 * MB).await);
        bob.clear();
        assert!(other.reserve(4 * MB).await);
        drop((held, bob, other));
        assert_eq!(used(budget), 0);
        assert!(of("ann").reserve(15 * MB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_room_in_its_users_share() {
        let answer = || Reservation::hold_for(Some("slow".into()), Bytes::from(vec![b'x'; 40 * MB]));
        let (first, begin) = (answer().await.unwrap(), Instant::now());
        assert!(answer().await.is_none() && begin.elapsed() == ROOM_TIMEOUT);
        let (second, ()) = tokio::join!(answer(), async { drop(first) });
        assert!(second.is_some());
        assert!(Reservation::hold_for(None, second.unwrap()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_counts_until_its_last_slice_is_dropped() {
        let budget = budget(64 * MB);
        let mut reservation = Reservation::of(budget);
        assert!(reservation.reserve(20 * MB).await);
        let message = reservation.hold(Bytes::from(vec![b'x'; 20 * MB]));
        assert_eq!(used(budget), 20 * MB);
        let slice = message.slice(5..6);
        drop(message);
        assert_eq!((used(budget), &slice[..]), (20 * MB, &b"x"[..]));
        drop(slice);
        assert_eq!(used(budget), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_message_waits_for_room_once_and_not_longer() {
        let budget = budget(64 * MB);
        let mut first = Reservation::of(budget);
        assert!(first.reserve(30 * MB).await);
        let mut second = Reservation::of(budget);
        let start = Instant::now();
        // The wait does not begin again after a cancellation.
        assert!(timeout_at(start + ROOM_TIMEOUT / 2, second.reserve(30 * MB)).await.is_err());
        assert!(!second.reserve(30 * MB).await);
        assert_eq!(start.elapsed().as_secs(), ROOM_TIMEOUT.as_secs());

        let mut third = Reservation::of(budget);
        let (served, ()) = tokio::join!(third.reserve(30 * MB), async { drop(first) });
        assert!(served);
    }
}
