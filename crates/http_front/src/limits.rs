//! How much one principal may ask for at a time, so that none takes what the others need.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many principals are remembered before those that ask for nothing are forgotten.
const MAX_IDLE_PRINCIPALS: usize = 1024;

/// The limits for each principal.
#[derive(Clone, Copy, Debug)]
pub struct PrincipalLimits {
    /// How many requests may be open.
    pub in_flight: usize,
    /// How many requests may begin in a second. As many may begin at once after a pause.
    pub per_second: u32,
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
    /// How many requests may begin now.
    allowance: f64,
    /// When that was so.
    at: Instant,
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

    /// Counts a request of a principal.
    ///
    /// # Errors
    ///
    /// A limit is reached. Returns how long to wait.
    pub(crate) fn begin(self: &Arc<Self>, principal: &Arc<str>) -> Result<RequestPermit, Duration> {
        let (now, full) = (Instant::now(), f64::from(self.limits.per_second));
        let mut principals = self.principals.lock();
        if principals.len() >= MAX_IDLE_PRINCIPALS && !principals.contains_key(principal) {
            let second = Duration::from_secs(1);
            // After a second, the allowance is full again.
            principals.retain(|_, used| used.in_flight > 0 || now.duration_since(used.at) < second);
        }
        let used = principals.entry(principal.clone()).or_insert(PrincipalCount {
            in_flight: 0,
            allowance: full,
            at: now,
        });
        let earned = now.duration_since(used.at).as_secs_f64() * full;
        (used.allowance, used.at) = ((used.allowance + earned).min(full), now);
        if used.in_flight >= self.limits.in_flight || used.allowance < 1.0 {
            return Err(Duration::from_secs(1));
        }
        used.allowance -= 1.0;
        used.in_flight += 1;
        Ok(RequestPermit { usage: self.clone(), principal: principal.clone() })
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
        let begun = || (0..100).filter(|_| usage.begin(&ann).is_ok()).count();
        assert_eq!(begun(), 10);
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(begun(), 3);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(begun(), 10, "no more than those of a second are saved");
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
