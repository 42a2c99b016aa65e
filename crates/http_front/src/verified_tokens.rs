//! Tokens that were verified: the next request with the same token needs no check of its signature.

use super::tokens::Principal;
use base::digest;
use jsonwebtoken::jwk::Jwk;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// How many tokens are remembered. Beyond that, all are verified again.
const MAX_TOKENS: usize = 1024;
/// The length of a hash, in bytes.
const HASH_BYTES: usize = 32;

/// The tokens of one authorization server. They are forgotten when its keys are fetched again.
#[derive(Default)]
pub(crate) struct VerifiedTokens(Mutex<Verified>);

#[derive(Default)]
struct Verified {
    /// What the tokens were verified with.
    keys: Arc<Vec<Jwk>>,
    /// By their hashes: whose they are, and when they count, in seconds since 1970.
    tokens: HashMap<String, (Principal, RangeInclusive<u64>)>,
}

impl VerifiedTokens {
    /// Returns whose token it is, if it was verified with these keys and counts at this time, in seconds since 1970.
    pub(crate) fn principal(&self, keys: &Arc<Vec<Jwk>>, token: &str, now_s: u64) -> Option<Principal> {
        let verified = self.0.lock();
        let (principal, times) = verified
            .tokens
            .get(&digest::of(token.as_bytes(), HASH_BYTES))
            .filter(|_| Arc::ptr_eq(keys, &verified.keys))?;
        times.contains(&now_s).then(|| principal.clone())
    }

    /// Remembers a token that was verified with these keys.
    pub(crate) fn add(
        &self,
        keys: &Arc<Vec<Jwk>>,
        token: &str,
        principal: Principal,
        times: RangeInclusive<u64>,
    ) {
        let mut verified = self.0.lock();
        if !Arc::ptr_eq(keys, &verified.keys) || verified.tokens.len() == MAX_TOKENS {
            *verified = Verified { keys: keys.clone(), tokens: HashMap::new() };
        }
        verified.tokens.insert(digest::of(token.as_bytes(), HASH_BYTES), (principal, times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_in_its_time_and_as_long_as_the_keys_stay() {
        let (keys, same_again) = (Arc::new(Vec::new()), Arc::new(Vec::new()));
        let ann = Principal { name: "ann".into(), profile: None };
        let verified = VerifiedTokens::default();
        verified.add(&keys, "a", ann.clone(), 10..=20);
        for (keys, token, now_s, counts) in [
            (&keys, "a", 10, true),
            (&keys, "a", 20, true),
            (&keys, "a", 9, false),
            (&keys, "a", 21, false),
            (&keys, "b", 15, false),
            (&same_again, "a", 15, false),
        ] {
            let found = verified.principal(keys, token, now_s);
            assert_eq!(found, counts.then(|| ann.clone()), "{token} at {now_s}");
        }
        verified.add(&same_again, "b", ann.clone(), 10..=20);
        assert_eq!(verified.principal(&keys, "a", 15), None, "the keys were fetched again");
        for n in 0..2 * MAX_TOKENS {
            verified.add(&keys, &n.to_string(), ann.clone(), 10..=20);
            assert!(verified.0.lock().tokens.len() <= MAX_TOKENS);
        }
    }
}
