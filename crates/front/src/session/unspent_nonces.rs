//! The nonces of the approval tokens that were issued and not used yet.
//!
//! A token is a signed text that a client sends back. Its nonce is kept here until it is spent or expires. So a token with
//! a valid signature whose nonce is missing here was used before, and spent nonces need not be remembered.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How many nonces may be unspent. Nobody answers so many questions before they expire.
const MAX_UNSPENT: usize = 1024;

/// A number that only one token of this process contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce {
    /// The number.
    pub number: u64,
    /// When it expires, in milliseconds on the clock of the issuer.
    pub(crate) expiry: u64,
}

/// The unspent nonces of one session. Times are milliseconds on one clock.
#[derive(Default)]
pub struct UnspentNonces(Mutex<NoncesByNumber>);

#[derive(Default)]
struct NoncesByNumber {
    /// The last number that was issued.
    last: u64,
    /// The expiry of each nonce. Of all nonces, the ones with the lowest numbers expire first.
    unspent: BTreeMap<u64, u64>,
}

impl NoncesByNumber {
    fn remove_expired(&mut self, now: u64) {
        while self.unspent.first_entry().is_some_and(|first| *first.get() <= now) {
            self.unspent.pop_first();
        }
    }

    fn issue(&mut self, expiry: u64) -> Nonce {
        self.last += 1;
        self.unspent.insert(self.last, expiry);
        Nonce { number: self.last, expiry }
    }
}

impl UnspentNonces {
    /// Issues a nonce for a new token, valid for `validity` ms. `None` if too many are unspent.
    pub fn issue(&self, now: u64, validity: u64) -> Option<Nonce> {
        let mut nonces = self.0.lock();
        nonces.remove_expired(now);
        (nonces.unspent.len() < MAX_UNSPENT).then(|| nonces.issue(now + validity))
    }

    /// Issues a nonce for the token that follows a spent one. There is always room: the spent one has left its place, and
    /// the calls in progress are bounded.
    pub(crate) fn reissue(&self, now: u64, validity: u64) -> Nonce {
        let mut nonces = self.0.lock();
        nonces.remove_expired(now);
        nonces.issue(now + validity)
    }

    /// Spends the nonce of a token that is valid. Returns false if it was spent before. Of several callers at the same
    /// time, one succeeds.
    pub(crate) fn spend(&self, nonce: Nonce) -> bool {
        self.0.lock().unspent.remove(&nonce.number).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_spent_once_however_many_try_at_the_same_time() {
        let nonces = UnspentNonces::default();
        let (first, second) = (nonces.issue(0, 10).unwrap(), nonces.issue(0, 10).unwrap());
        assert_ne!(first.number, second.number);
        let spent = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| nonces.spend(first))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|spent| *spent).count()
        });
        assert_eq!(spent, 1);
        assert!(nonces.spend(second) && !nonces.spend(second));
        let next = nonces.reissue(0, 10);
        assert!(next.number > second.number && nonces.spend(next));
    }

    #[test]
    fn no_more_are_issued_until_some_are_spent_or_expire() {
        let nonces = UnspentNonces::default();
        let issued: Vec<_> = (0..MAX_UNSPENT).map(|_| nonces.issue(5, 10).unwrap()).collect();
        assert_eq!(nonces.issue(14, 10), None);
        assert!(nonces.spend(issued[7]));
        assert!(nonces.issue(14, 10).is_some(), "a spent one leaves its place");
        assert_eq!(nonces.issue(14, 10), None);
        let next = nonces.reissue(14, 10);
        assert!(nonces.spend(issued[8]) && nonces.issue(14, 10).is_none(), "what follows counts");
        assert!(nonces.issue(15, 10).is_some(), "expired ones leave theirs");
        assert!(!nonces.spend(issued[9]) && nonces.spend(next));
    }
}
