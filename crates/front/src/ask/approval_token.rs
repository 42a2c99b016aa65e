//! The user's approval of a call, as a stateless client carries it from one request to the next.
//!
//! `requestState` is a token that says what was asked or approved, signed with a key of this process, so that it holds
//! only for this tool with these arguments, and for ten minutes. The upstream's own state for later rounds travels
//! inside it. The proxy keeps only the token's nonce (`session::unspent_nonces`), which is spent before the call is sent.
//! So each token lets one request pass, whether that succeeds or not.

use crate::session::input_required::needs_input;
use crate::session::unspent_nonces::{Nonce, UnspentNonces};
use base::digest;
use base::random;
use config::GroupName;
use config::tool_rules::RuleSource;
use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokio::time::Instant;
use wire::{Raw, raw};

/// The key of our question among `inputRequests`.
const QUESTION: &str = "dynamic-mcp/confirm";
/// The member of the params with the client's answers.
const RESPONSES: &str = "inputResponses";
/// The member of params and results with the state.
const STATE: &str = "requestState";
/// What is signed when the user was asked, and when the user approved.
const ASKED: &str = "asked";
const APPROVED: &str = "agreed";

/// How long a question can be answered, and how long an approval holds between two requests, in milliseconds.
const VALIDITY_MS: u64 = 600_000;

/// The origin of the times in tokens. Like the key, they mean something to this process only.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

static KEY: LazyLock<hmac::Key> = LazyLock::new(|| {
    hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
        .unwrap_or_else(|_| hmac::Key::new(hmac::HMAC_SHA256, random::hex_id().as_bytes()))
});

/// Who wants the user to approve a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDemand {
    /// The config (`tools.ask`). The call is not made without approval.
    Config(RuleSource),
    /// The tool's server. A client that cannot ask makes the call, as it would without the proxy.
    Server,
}

/// A call that needs the user's approval.
#[derive(Clone, Copy)]
pub struct Approval<'a> {
    /// The group of the tool.
    pub group: &'a GroupName,
    /// The tool.
    pub tool: &'a str,
    /// The arguments as they are sent to the tool.
    pub args: &'a Raw,
    /// Who wants the approval.
    pub demand: ApprovalDemand,
}

/// How far the approval of a call has come.
pub enum ApprovalState {
    /// The user was not asked.
    NotAsked,
    /// The user answered: the action of the elicitation, if the answer has one, and the nonce of the question.
    Answered(Option<String>, Nonce),
    /// The user approved in an earlier request, whose result has this nonce.
    Approved(Nonce),
}

/// What a token says, once its signature and its time are checked.
struct SignedState<'s> {
    nonce: Nonce,
    /// The upstream's own state, as JSON text; empty if the upstream has none.
    upstream_state: &'s str,
}

impl Approval<'_> {
    /// Reads the state from the params of a request. It does not say whether the nonce is spent. A state that is about
    /// another call, is signed with another key or has expired counts as none, and so does a question without an
    /// answer.
    pub fn state(&self, params: &Raw) -> ApprovalState {
        let state = raw::get_str(params, STATE).unwrap_or_default();
        if let Some(nonce) = self.verify(&state, ASKED, "") {
            let answer = raw::get(params, RESPONSES).and_then(|responses| raw::get(&responses, QUESTION));
            return match answer {
                Some(answer) => ApprovalState::Answered(raw::get_str(&answer, "action"), nonce),
                None => ApprovalState::NotAsked,
            };
        }
        match self.approved_state(&state) {
            Some(approved) => ApprovalState::Approved(approved.nonce),
            None => ApprovalState::NotAsked,
        }
    }

    /// Returns the result that asks the user, with a new nonce. The answer counts for ten minutes. `None` if too many
    /// questions are open.
    pub fn input_required(&self, elicitation: &Value, nonces: &UnspentNonces) -> Option<Raw> {
        let result = json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: { "method": "elicitation/create", "params": elicitation } },
            STATE: self.sign(ASKED, "", nonces.issue(now_ms(), VALIDITY_MS)?),
        });
        Some(result.to_string().into())
    }

    /// Returns the params of an approved call for the upstream: with its own state and the answers to its own questions
    /// only. In the request that brings the user's approval, there are neither yet.
    pub(crate) fn unwrap_params(&self, params: &Raw) -> Raw {
        let state = raw::get_str(params, STATE).unwrap_or_default();
        let Some(approved) = self.approved_state(&state) else {
            return raw::remove(&raw::remove(params, STATE), RESPONSES);
        };
        let params = match approved.upstream_state {
            "" => raw::remove(params, STATE),
            state => raw::set(params, STATE, state.as_bytes()),
        };
        match raw::get(&params, RESPONSES).filter(|responses| raw::get(responses, QUESTION).is_some()) {
            Some(responses) => raw::set(&params, RESPONSES, &raw::remove(&responses, QUESTION)),
            None => params,
        }
    }

    /// Returns the result of an approved call for the client. If the upstream asks for input, its state is wrapped, so
    /// that the user is not asked again in the next round. Any other result stays as it is.
    pub(crate) fn wrap_result(&self, result: &Raw, nonces: &UnspentNonces) -> Raw {
        if !needs_input(result) {
            return result.clone();
        }
        let upstream_state = raw::get(result, STATE).unwrap_or_default();
        let upstream_state = String::from_utf8_lossy(&upstream_state);
        let token = self.sign(APPROVED, &upstream_state, nonces.reissue(now_ms(), VALIDITY_MS));
        raw::set_str(result, STATE, &format!("{token}:{upstream_state}"))
    }

    /// Reads a state that says that the call is approved.
    fn approved_state<'s>(&self, state: &'s str) -> Option<SignedState<'s>> {
        let (token, upstream_state) = state.split_once(':')?;
        let nonce = self.verify(token, APPROVED, upstream_state)?;
        Some(SignedState { nonce, upstream_state })
    }

    /// Returns the nonce with its expiry, and the signature of everything.
    fn sign(&self, statement: &str, upstream_state: &str, nonce: Nonce) -> String {
        let tag = hmac::sign(&KEY, &self.message(statement, nonce, upstream_state));
        format!("{:x}-{:x}-{}", nonce.expiry, nonce.number, digest::hex(tag.as_ref()))
    }

    /// Returns the nonce of a token that says this and has not expired.
    fn verify(&self, token: &str, statement: &str, upstream_state: &str) -> Option<Nonce> {
        let (expiry, rest) = token.split_once('-')?;
        let (number, tag) = rest.split_once('-')?;
        let parse = |digits| u64::from_str_radix(digits, 16).ok();
        let nonce = Nonce { expiry: parse(expiry)?, number: parse(number)? };
        let bytes: Option<Vec<u8>> =
            (0..tag.len()).step_by(2).map(|at| u8::from_str_radix(tag.get(at..at + 2)?, 16).ok()).collect();
        let message = self.message(statement, nonce, upstream_state);
        let is_signed = hmac::verify(&KEY, &message, &bytes?).is_ok();
        (is_signed && now_ms() < nonce.expiry).then_some(nonce)
    }

    /// Returns what is signed. The lengths keep the parts apart.
    fn message(&self, statement: &str, nonce: Nonce, upstream_state: &str) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.args.len() + 128);
        message.extend(nonce.expiry.to_le_bytes());
        message.extend(nonce.number.to_le_bytes());
        for part in [statement.as_bytes(), self.group.as_str().as_bytes(), self.tool.as_bytes(), self.args] {
            message.extend((part.len() as u64).to_le_bytes());
            message.extend(part);
        }
        message.extend(upstream_state.as_bytes());
        message
    }
}

/// Milliseconds since [`START`].
fn now_ms() -> u64 {
    u64::try_from(Instant::now().saturating_duration_since(*START).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DEMAND: ApprovalDemand = ApprovalDemand::Config(RuleSource::Server);

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    /// The params that a client sends after `result`.
    fn next_params(result: &Raw, responses: &str) -> Raw {
        let params = raw::set(&raw(r#"{"name":"x"}"#), STATE, &raw::get(result, STATE).unwrap());
        raw::set(&params, RESPONSES, responses.as_bytes())
    }

    #[test]
    fn an_approval_holds_for_one_tool_with_the_same_arguments() {
        let (group, other) = (GroupName::new("g"), GroupName::new("h"));
        let args = raw(r#"{"n":1}"#);
        let approval = Approval { group: &group, tool: "t", args: &args, demand: DEMAND };
        let nonces = UnspentNonces::default();
        let question = approval.input_required(&json!({}), &nonces).unwrap();
        let answered = next_params(&question, &json!({ QUESTION: { "action": "accept" } }).to_string());
        let asks = raw(r#"{"resultType":"input_required"}"#);
        let approved = next_params(&approval.wrap_result(&asks, &nonces), "{}");
        let changed = raw(r#"{"n":2}"#);
        assert!(
            matches!(approval.state(&answered), ApprovalState::Answered(Some(action), _) if action == "accept")
        );
        assert!(matches!(approval.state(&approved), ApprovalState::Approved(_)));
        for other in [
            Approval { group: &other, ..approval },
            Approval { tool: "u", ..approval },
            Approval { args: &changed, ..approval },
        ] {
            assert!(matches!(other.state(&answered), ApprovalState::NotAsked));
            assert!(matches!(other.state(&approved), ApprovalState::NotAsked));
        }
        let unanswered = next_params(&question, "{}");
        assert!(matches!(approval.state(&unanswered), ApprovalState::NotAsked), "asked is not approved");
        let forged = raw(r#"{"requestState":"00ff:\"x\""}"#);
        assert!(matches!(approval.state(&forged), ApprovalState::NotAsked));
    }

    #[tokio::test(start_paused = true)]
    async fn questions_and_approvals_expire() {
        let (group, args) = (GroupName::new("g"), raw("{}"));
        let approval = Approval { group: &group, tool: "t", args: &args, demand: DEMAND };
        let asks = raw(r#"{"resultType":"input_required","requestState":"s"}"#);
        let accepted = json!({ QUESTION: { "action": "accept" } }).to_string();
        let nonces = UnspentNonces::default();
        let answered = next_params(&approval.input_required(&json!({}), &nonces).unwrap(), &accepted);
        let approved = next_params(&approval.wrap_result(&asks, &nonces), "{}");
        tokio::time::advance(Duration::from_millis(VALIDITY_MS - 1000)).await;
        assert!(matches!(approval.state(&answered), ApprovalState::Answered(Some(_), _)));
        assert!(matches!(approval.state(&approved), ApprovalState::Approved(_)));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(matches!(approval.state(&answered), ApprovalState::NotAsked));
        assert!(matches!(approval.state(&approved), ApprovalState::NotAsked));
    }

    #[test]
    fn neither_the_time_nor_the_nonce_of_a_token_can_be_changed() {
        let (group, args) = (GroupName::new("g"), raw("{}"));
        let approval = Approval { group: &group, tool: "t", args: &args, demand: DEMAND };
        let nonces = UnspentNonces::default();
        let accepted = json!({ QUESTION: { "action": "accept" } }).to_string();
        let answered = next_params(&approval.input_required(&json!({}), &nonces).unwrap(), &accepted);
        let ApprovalState::Answered(_, nonce) = approval.state(&answered) else { panic!("not answered") };
        let state = raw::get_str(&answered, STATE).unwrap();
        let tag = state.rsplit_once('-').unwrap().1;
        let Nonce { number, expiry } = nonce;
        assert_eq!(state, format!("{expiry:x}-{number:x}-{tag}"));
        for (expiry, number) in [(expiry + 600_000, number), (expiry, number + 1), (number, expiry)] {
            let changed = json!(format!("{expiry:x}-{number:x}-{tag}")).to_string();
            let changed = raw::set(&answered, STATE, changed.as_bytes());
            assert!(matches!(approval.state(&changed), ApprovalState::NotAsked));
        }
        // Another spelling of the same token has the same nonce.
        let respelled = json!(format!("+{expiry:X}-0{number:X}-{}", tag.to_uppercase())).to_string();
        let respelled = raw::set(&answered, STATE, respelled.as_bytes());
        assert!(matches!(approval.state(&respelled), ApprovalState::Answered(_, same) if same == nonce));
    }

    #[test]
    fn the_upstream_gets_only_its_own_state_back() {
        let group = GroupName::new("g");
        let args = raw("{}");
        let approval = Approval { group: &group, tool: "t", args: &args, demand: DEMAND };
        let accepted = json!({ QUESTION: { "action": "accept" } }).to_string();
        let nonces = UnspentNonces::default();
        let params = next_params(&approval.input_required(&json!({}), &nonces).unwrap(), &accepted);
        assert_eq!(approval.unwrap_params(&params), r#"{"name":"x"}"#);
        for state in [r#""a\u00e9\ud800:/\/""#, "1e400", r#""""#] {
            let asks = raw(&format!(r#"{{"resultType":"input_required","requestState":{state}}}"#));
            let params = next_params(&approval.wrap_result(&asks, &nonces), r#"{"theirs":1e400}"#);
            let unwrapped = approval.unwrap_params(&params);
            assert_eq!(raw::get(&unwrapped, STATE).unwrap(), state);
            assert_eq!(raw::get(&unwrapped, RESPONSES).unwrap(), r#"{"theirs":1e400}"#);
        }
        let bare = approval.wrap_result(&raw(r#"{"resultType":"input_required"}"#), &nonces);
        assert_eq!(raw::get(&approval.unwrap_params(&next_params(&bare, "{}")), STATE), None);
        let done = raw(r#"{"resultType":"complete","requestState":"s"}"#);
        assert_eq!(approval.wrap_result(&done, &nonces), done);
    }
}
