//! The tokens of the status page. Each lets the page do one thing, once, within ten minutes.
//!
//! A token stands only in `_meta` of results that the host passes to the page: no model reads it. docs/security.md says who
//! could learn it otherwise.

use base::random::hex_id;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// How long a token is good.
const VALIDITY: Duration = Duration::from_secs(10 * 60);
/// How many tokens are kept; then the oldest goes. A page needs one, and a client may show several pages.
const MAX_TOKENS: usize = 32;

/// A plan of changes that a page has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPlan {
    /// The action that carries it out.
    pub action: &'static str,
    /// Its id, as `dynamic-mcp import --json` gives it.
    pub id: String,
}

/// The tokens of one session that are not used yet.
#[derive(Default)]
pub struct PageTokens(Mutex<VecDeque<IssuedToken>>);

struct IssuedToken {
    token: String,
    issued: Instant,
    plan: Option<ShownPlan>,
}

impl PageTokens {
    /// Returns a new token. `plan`: the plan that goes to the page with it.
    pub(crate) fn issue(&self, plan: Option<ShownPlan>) -> String {
        let issued = IssuedToken { token: hex_id(), issued: Instant::now(), plan };
        let token = issued.token.clone();
        let mut tokens = self.0.lock();
        tokens.truncate(MAX_TOKENS - 1);
        tokens.push_front(issued);
        token
    }

    /// Uses a token up. Returns the plan that went to the page with it; `None` if the token is not good.
    pub(crate) fn spend(&self, token: &str) -> Option<Option<ShownPlan>> {
        let mut tokens = self.0.lock();
        tokens.retain(|known| known.issued.elapsed() < VALIDITY);
        let at = tokens.iter().position(|known| known.token == token)?;
        tokens.remove(at).map(|known| known.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_good_once_and_for_ten_minutes() {
        let tokens = PageTokens::default();
        let plan = ShownPlan { action: "import", id: "1".to_owned() };
        let (first, second) = (tokens.issue(None), tokens.issue(Some(plan.clone())));
        assert_ne!(first, second);
        assert_eq!(tokens.spend("x"), None);
        assert_eq!(tokens.spend(&second), Some(Some(plan)));
        assert_eq!(tokens.spend(&second), None);
        tokio::time::advance(VALIDITY - Duration::from_millis(1)).await;
        assert_eq!(tokens.spend(&first), Some(None));
        let late = tokens.issue(None);
        tokio::time::advance(VALIDITY).await;
        assert_eq!(tokens.spend(&late), None);
    }

    #[tokio::test]
    async fn the_oldest_token_goes_when_there_are_too_many() {
        let tokens = PageTokens::default();
        let first = tokens.issue(None);
        let others: Vec<_> = (0..MAX_TOKENS).map(|_| tokens.issue(None)).collect();
        assert_eq!(tokens.spend(&first), None);
        assert!(others.iter().all(|token| tokens.spend(token).is_some()));
    }
}
