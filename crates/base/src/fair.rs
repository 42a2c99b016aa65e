//! How the users of one process share what it has: amounts ([`Shares`]) and turns ([`Turns`]).
//!
//! A user may take half of what all others leave free. So `n` users who take all they can end with a part of `n + 1` each,
//! and a part is left for the next one. Requests that wait for a turn wait behind those of the same user; the users
//! themselves take turns.
//!
//! A task has a user only within [`on_behalf_of`]. Work of the program itself has none, nor has a client on stdin: both may
//! take everything.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// On whose behalf work is done. `None`: that of nobody in particular.
pub type User = Option<Arc<str>>;

tokio::task_local! {
    static USER: User;
}

/// Does work on behalf of a user, whom [`user`] returns meanwhile. What the work spawns has no user.
pub fn on_behalf_of<F: Future>(user: User, work: F) -> impl Future<Output = F::Output> {
    USER.scope(user, work)
}

/// Returns on whose behalf this task does its work.
pub fn user() -> User {
    USER.try_with(Clone::clone).unwrap_or_default()
}

/// What is taken of an amount.
#[derive(Debug)]
struct Taken {
    /// The amount.
    limit: usize,
    /// What all have taken together.
    all: usize,
    /// What each user has taken who has taken something.
    by_user: HashMap<Arc<str>, usize>,
}

impl Taken {
    fn new(limit: usize) -> Self {
        Self { limit, all: 0, by_user: HashMap::new() }
    }

    /// Returns whether a user who has taken `old` may have `new` instead, which is more.
    fn may_raise(&self, user: &User, old: usize, new: usize) -> bool {
        let Some(name) = user else { return self.all - old + new <= self.limit };
        let own = self.by_user.get(name).copied().unwrap_or_default();
        let left_by_others = self.limit.saturating_sub(self.all - own);
        own - old + new <= left_by_others.div_ceil(2)
    }

    /// Notes that a user who had taken `old` has `new` instead.
    fn replace(&mut self, user: &User, old: usize, new: usize) {
        self.all = self.all - old + new;
        let Some(name) = user else { return };
        let own = self.by_user.entry(name.clone()).or_default();
        *own = *own - old + new;
        if *own == 0 {
            self.by_user.remove(name);
        }
    }

    /// Takes one more for a user, if that is allowed.
    fn take_one(&mut self, user: &User) -> bool {
        let is_allowed = self.may_raise(user, 0, 1);
        if is_allowed {
            self.replace(user, 0, 1);
        }
        is_allowed
    }
}

/// An amount that users share. Clones are the same amount.
#[derive(Clone, Debug)]
pub struct Shares(Arc<Mutex<Taken>>);

impl Shares {
    /// Creates an amount of which nothing is taken.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken::new(limit))))
    }

    /// Returns a share of nothing, for a user.
    pub fn share_of(&self, user: User) -> UserShare {
        UserShare { shares: self.clone(), user, amount: 0 }
    }

    /// Takes so much for a user. `None` if that is more than half of what all others leave free, together with what the
    /// user has taken already.
    pub fn take(&self, user: User, amount: usize) -> Option<UserShare> {
        let mut share = self.share_of(user);
        share.try_set(amount).then_some(share)
    }
}

/// What a user has taken, until this is dropped.
#[derive(Debug)]
pub struct UserShare {
    shares: Shares,
    user: User,
    amount: usize,
}

impl UserShare {
    /// Returns the user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Returns what all shares of the user have together.
    pub fn taken_by_user(&self) -> usize {
        let taken = self.shares.0.lock();
        self.user.as_ref().map_or(taken.all, |user| taken.by_user.get(user).copied().unwrap_or_default())
    }

    /// Makes this share so large, if the user may have that. Returns whether it is.
    pub fn try_set(&mut self, amount: usize) -> bool {
        let is_allowed =
            amount <= self.amount || self.shares.0.lock().may_raise(&self.user, self.amount, amount);
        if is_allowed {
            self.set(amount);
        }
        is_allowed
    }

    /// Makes this share so large, whether or not the user may have that.
    pub fn set(&mut self, amount: usize) {
        self.shares.0.lock().replace(&self.user, self.amount, amount);
        self.amount = amount;
    }
}

impl Drop for UserShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Turns at something that only a few may do at a time. Clones are the same turns.
#[derive(Clone)]
pub struct Turns(Arc<Mutex<TurnState>>);

struct TurnState {
    taken: Taken,
    /// The users who wait, each with those of their requests that wait, in their order.
    waiting: VecDeque<(User, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn, until this is dropped.
pub struct Turn {
    turns: Turns,
    user: User,
}

impl Turns {
    /// Creates turns for `limit` at a time. A user never has more than half of those that others leave.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(TurnState { taken: Taken::new(limit), waiting: VecDeque::new() })))
    }

    /// Waits for a turn of the user of this task, for `limit` at most. `None` if it did not come. Cancel-safe.
    pub async fn take(&self, limit: Duration) -> Option<Turn> {
        let turn = {
            let (mut state, user) = (self.0.lock(), user());
            if !state.waits(&user) && state.taken.take_one(&user) {
                return Some(Turn { turns: self.clone(), user });
            }
            state.enqueue(user)
        };
        timeout(limit, turn).await.ok()?.ok()
    }

    /// Gives the turns that are free to those who wait.
    fn hand_out(&self) {
        while let Some((request, user)) = self.next() {
            // A request that has gone meanwhile drops the turn, which hands it out again.
            drop(request.send(Turn { turns: self.clone(), user }));
        }
    }

    /// Takes a turn for the request that is next. `None` if no turn is free for any.
    fn next(&self) -> Option<(oneshot::Sender<Turn>, User)> {
        let mut state = self.0.lock();
        let TurnState { taken, waiting } = &mut *state;
        waiting.retain_mut(|(_, requests)| {
            requests.retain(|request| !request.is_closed());
            !requests.is_empty()
        });
        let at = waiting.iter().position(|(user, _)| taken.take_one(user))?;
        let (user, mut requests) = waiting.remove(at)?;
        let request = requests.pop_front()?;
        if !requests.is_empty() {
            waiting.push_back((user.clone(), requests));
        }
        Some((request, user))
    }
}

impl TurnState {
    fn waits(&self, user: &User) -> bool {
        self.waiting.iter().any(|(waiting, _)| waiting == user)
    }

    fn enqueue(&mut self, user: User) -> oneshot::Receiver<Turn> {
        let (sender, turn) = oneshot::channel();
        match self.waiting.iter_mut().find(|(waiting, _)| *waiting == user) {
            Some((_, requests)) => requests.push_back(sender),
            None => self.waiting.push_back((user, VecDeque::from([sender]))),
        }
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.lock().taken.replace(&self.user, 1, 0);
        self.turns.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use tokio::time::Instant;

    const WAIT: Duration = Duration::from_secs(30);

    fn named(name: &str) -> User {
        (name != "-").then(|| name.into())
    }

    #[test]
    fn a_user_takes_half_of_what_others_leave_and_something_is_left_for_the_next() {
        let shares = Shares::new(1024);
        let take_all = |name| (0..).map_while(|_| shares.take(named(name), 1)).collect::<Vec<_>>();
        let mut held: Vec<_> = ["ann", "bob", "carol"].map(take_all).into();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [512, 256, 128]);
        for _ in 0..20 {
            for (n, name) in ["ann", "bob", "carol"].into_iter().enumerate() {
                held[n].clear();
                held[n] = take_all(name);
            }
        }
        assert!(held.iter().all(|held| (255..=257).contains(&held.len())), "all alike, and as much is left");
        assert_eq!(take_all("-").len(), 1024 - held.iter().map(Vec::len).sum::<usize>());
        drop(held);
        assert!(shares.0.lock().by_user.is_empty() && shares.0.lock().all == 0);
    }

    #[test]
    fn a_share_grows_only_as_far_as_its_user_may_take() {
        let shares = Shares::new(100);
        let mut ann = shares.take(named("ann"), 30).unwrap();
        assert!(!ann.try_set(51) && ann.try_set(50) && shares.take(named("ann"), 1).is_none());
        let bob = shares.take(named("bob"), 25).unwrap();
        assert!(shares.take(named("bob"), 1).is_none() && !ann.try_set(51));
        assert_eq!((ann.taken_by_user(), bob.taken_by_user()), (50, 25));
        ann.set(70);
        assert_eq!(ann.taken_by_user(), 70);
        drop(ann);
        assert!(shares.take(named("bob"), 24).is_some());
    }

    type Waiting = Pin<Box<dyn Future<Output = Option<Turn>>>>;

    fn take(turns: &Turns, name: &str) -> Waiting {
        let turns = turns.clone();
        Box::pin(on_behalf_of(named(name), async move { turns.take(WAIT).await }))
    }

    /// Polls the futures once each, and returns the turns of those that have one.
    async fn polled(waiting: &mut [Option<Waiting>]) -> Vec<(usize, Turn)> {
        let mut turns = Vec::new();
        for (n, slot) in waiting.iter_mut().enumerate() {
            let Some(future) = slot else { continue };
            let polled =
                std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context)));
            if let std::task::Poll::Ready(turn) = polled.await {
                *slot = None;
                turns.push((n, turn.unwrap()));
            }
        }
        turns
    }

    /// Lets these users ask in this order for one turn at a time, and returns the order in which they have it.
    async fn order(limit: usize, names: &[&str]) -> String {
        let turns = Turns::new(limit);
        let mut waiting: Vec<_> = names.iter().map(|name| Some(take(&turns, name))).collect();
        let mut held = VecDeque::from(polled(&mut waiting).await);
        let mut order: Vec<_> = held.iter().map(|(n, _)| names[*n]).collect();
        while held.pop_front().is_some() {
            let next = polled(&mut waiting).await;
            order.extend(next.iter().map(|(n, _)| names[*n]));
            held.extend(next);
        }
        order.concat()
    }

    #[tokio::test(start_paused = true)]
    async fn turns_go_round_among_users_and_in_order_for_each() {
        assert_eq!(
            order(1, &["a", "a", "a", "a", "b", "b", "c"]).await,
            "aabcaba",
            "a new user comes last, once"
        );
        assert_eq!(order(2, &["a", "a", "a", "a", "b"]).await, "abaaa", "a user alone never has all turns");
        assert_eq!(order(1, &["-", "-", "-", "a"]).await, "--a-", "nobody's requests wait like a user's");
        assert_eq!(order(4, &["a", "a", "a", "a", "b", "c"]).await, "aabcaa");
    }

    #[tokio::test(start_paused = true)]
    async fn an_only_client_has_every_turn() {
        let turns = Turns::new(2);
        let (first, second) = (turns.take(WAIT).await.unwrap(), turns.take(WAIT).await.unwrap());
        let begin = Instant::now();
        assert!(turns.take(WAIT).await.is_none());
        assert_eq!(begin.elapsed(), WAIT);
        drop(first);
        assert!(turns.take(WAIT).await.is_some(), "a request that went away holds nothing");
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_nobody_takes_goes_to_the_next() {
        let turns = Turns::new(1);
        let held = turns.take(WAIT).await.unwrap();
        let mut waiting = [Some(take(&turns, "a")), Some(take(&turns, "b"))];
        assert!(polled(&mut waiting).await.is_empty());
        drop(held);
        // It has the turn already, but does not look.
        waiting[0] = None;
        assert_eq!(polled(&mut waiting).await.len(), 1);
    }
}
