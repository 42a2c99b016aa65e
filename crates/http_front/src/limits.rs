//! How much one principal may ask for at a time, so that none takes what the others need.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many principals are remembered before those that ask for nothing are forgotten.
const MAX_IDLE_PRINCIPALS: usize = 1024;
/// How many requests may begin at once if the rate is low, but no more than those of a second.
const MIN_BURST: u32 = 16;
/// How long a request may wait for its turn.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// How long a request that is refused has to wait, at least.
const REFUSED_WAIT: Duration = Duration::from_secs(1);
/// How many waits there are, each 1 ms longer than the one before. Requests that were refused at once do not come back at
/// once.
const REFUSED_WAITS: u32 = 1000;

/// The limits for each principal.
#[derive(Clone, Copy, Debug)]
pub struct PrincipalLimits {
    /// How many requests may be open.
    pub in_flight: usize,
    /// How many requests may begin in a second.
    pub per_second: u32,
}

impl PrincipalLimits {
    /// The limits for each address, of requests without a token that counts. A proxy in front is one address.
    pub(crate) const STRANGERS: Self = Self { in_flight: 64, per_second: 50 };

    /// Returns how many requests may begin at once after a pause: those of 50 ms, but at least 16. Further ones wait.
    fn burst(&self) -> f64 {
        f64::from(self.per_second.min(MIN_BURST.max(self.per_second / 20)))
    }
}

impl Default for PrincipalLimits {
    fn default() -> Self {
        Self { in_flight: 512, per_second: 2000 }
    }
}

/// What each principal uses.
pub(crate) struct RequestCounter {
    limits: PrincipalLimits,
    principals: Mutex<HashMap<Arc<str>, PrincipalCount>>,
}

struct PrincipalCount {
    in_flight: usize,
    /// How many requests may begin now; below 0, how many wait for their turn.
    allowance: f64,
    /// When that was so.
    at: Instant,
    /// How many requests were refused.
    refused: u32,
}

/// A request that counts until it is dropped.
pub(crate) struct RequestPermit {
    usage: Arc<RequestCounter>,
    principal: Arc<str>,
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if let Some(used) = self.usage.principals.lock().get_mut(&self.principal) {
            used.in_flight -= 1;
        }
    }
}

impl RequestCounter {
    pub(crate) fn new(limits: PrincipalLimits) -> Arc<Self> {
        Arc::new(Self { limits, principals: Mutex::default() })
    }

    /// Counts a request of a principal. Returns also how long it has to wait for its turn, at most 1 s: requests begin at
    /// the principal's rate, so that a burst delays nobody else.
    ///
    /// # Errors
    ///
    /// A limit is reached. Returns how long to wait before the answer that says so: 1 to 2 s.
    pub(crate) fn begin(
        self: &Arc<Self>,
        principal: &Arc<str>,
    ) -> Result<(RequestPermit, Duration), Duration> {
        let (now, full, rate) = (Instant::now(), self.limits.burst(), f64::from(self.limits.per_second));
        let mut principals = self.principals.lock();
        if principals.len() >= MAX_IDLE_PRINCIPALS && !principals.contains_key(principal) {
            // After that, no request waits for its turn.
            principals.retain(|_, used| used.in_flight > 0 || now.duration_since(used.at) < MAX_WAIT);
        }
        let used = principals.entry(principal.clone()).or_insert(PrincipalCount {
            in_flight: 0,
            allowance: full,
            at: now,
            refused: 0,
        });
        let earned = now.duration_since(used.at).as_secs_f64() * rate;
        (used.allowance, used.at) = ((used.allowance + earned).min(full), now);
        let wait = Duration::from_secs_f64((1.0 - used.allowance).max(0.0) / rate);
        if used.in_flight >= self.limits.in_flight || wait > MAX_WAIT {
            used.refused = (used.refused + 1) % REFUSED_WAITS;
            return Err(REFUSED_WAIT + Duration::from_millis(used.refused.into()));
        }
        used.allowance -= 1.0;
        used.in_flight += 1;
        Ok((RequestPermit { usage: self.clone(), principal: principal.clone() }, wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_principal_does_not_use_up_what_another_has() {
        let usage = RequestCounter::new(PrincipalLimits { in_flight: 2, per_second: 100 });
        let (ann, bob) = ("ann".into(), "bob".into());
        let open: Vec<_> = (0..2).map(|_| usage.begin(&ann).unwrap()).collect();
        assert!(usage.begin(&ann).is_err() && usage.begin(&bob).is_ok());
        drop(open);
        assert!(usage.begin(&ann).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_begin_at_a_rate() {
        let usage = RequestCounter::new(PrincipalLimits { in_flight: 1000, per_second: 10 });
        let ann = "ann".into();
        let waits = || (0..100).map_while(|_| usage.begin(&ann).ok()).map(|(_, wait)| wait.as_millis());
        let at_once = [0; 10];
        let later = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000];
        assert_eq!(waits().collect::<Vec<_>>(), [at_once, later].concat());
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(waits().collect::<Vec<_>>(), [800, 900, 1000]);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(waits().count(), 20, "no more than a burst is saved");
    }

    #[test]
    fn a_burst_is_small_beside_a_high_rate() {
        let bursts =
            [1, 10, 100, 2000].map(|per_second| PrincipalLimits { in_flight: 1, per_second }.burst());
        assert_eq!(bursts, [1.0, 10.0, 16.0, 100.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn refused_requests_do_not_come_back_together() {
        let usage = RequestCounter::new(PrincipalLimits { in_flight: 1, per_second: 1000 });
        let (_open, _) = usage.begin(&"ann".into()).unwrap();
        let waits: Vec<_> = (0..REFUSED_WAITS).map(|_| usage.begin(&"ann".into()).err().unwrap()).collect();
        let distinct: std::collections::BTreeSet<_> = waits.iter().collect();
        assert_eq!(distinct.len(), waits.len());
        assert!(waits.iter().all(|wait| (1..2).contains(&wait.as_secs())), "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn principals_that_ask_for_nothing_are_forgotten() {
        let usage = RequestCounter::new(PrincipalLimits::default());
        let open = usage.begin(&"open".into()).unwrap();
        for n in 0..MAX_IDLE_PRINCIPALS {
            drop(usage.begin(&format!("{n}").into()).unwrap());
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        drop(usage.begin(&"last".into()).unwrap());
        assert_eq!(usage.principals.lock().len(), 2);
        drop(open);
    }
}
