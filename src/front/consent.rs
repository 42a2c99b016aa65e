//! The user's consent as a stateless client carries it from one round of a call to the next.
//!
//! Nothing is kept here: `requestState` says what was asked and agreed to, sealed with a key of this process, so that it
//! holds for this tool with these arguments alone. What the upstream wants back for later rounds travels inside it.

use crate::config::GroupName;
use crate::wire::{Raw, raw};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Our question among `inputRequests`.
pub const QUESTION: &str = "dynamic-mcp/confirm";

/// What the client answers with.
const RESPONSES: &str = "inputResponses";
const STATE: &str = "requestState";

static KEY: LazyLock<[u64; 4]> = LazyLock::new(|| [0; 4].map(|_: u64| RandomState::new().hash_one(0)));

/// What is to be agreed to.
#[derive(Clone, Copy)]
pub struct Matter<'a> {
    pub group: &'a GroupName,
    pub tool: &'a str,
    pub args: &'a Raw,
}

/// How far a call has come.
pub enum Round {
    First,
    /// The user was asked and answered; the elicitation's action, if there is one.
    Answered(Option<String>),
    /// The user agreed in an earlier round.
    Agreed,
}

impl Matter<'_> {
    pub fn round(&self, params: &Raw) -> Round {
        let state = raw::get_str(params, STATE).unwrap_or_default();
        if state == self.asked() {
            let answer = raw::get(params, RESPONSES).and_then(|given| raw::get(&given, QUESTION));
            return match answer {
                Some(answer) => Round::Answered(raw::get_str(&answer, "action")),
                None => Round::First,
            };
        }
        if self.theirs(&state).is_some() { Round::Agreed } else { Round::First }
    }

    /// The question, as the result of the call.
    pub fn question(&self, elicitation: &Value) -> Raw {
        let question = json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: { "method": "elicitation/create", "params": elicitation } },
            STATE: self.asked(),
        });
        question.to_string().into()
    }

    /// The params of an agreed call as the upstream may see them: with its own state and answers to its own questions.
    pub fn unwrapped(&self, params: &Raw) -> Raw {
        let state = raw::get_str(params, STATE).unwrap_or_default();
        let Some(theirs) = self.theirs(&state) else {
            return raw::remove(&raw::remove(params, STATE), RESPONSES);
        };
        let params = match theirs {
            "" => raw::remove(params, STATE),
            theirs => raw::set(params, STATE, theirs.as_bytes()),
        };
        match raw::get(&params, RESPONSES).filter(|given| raw::get(given, QUESTION).is_some()) {
            Some(given) => raw::set(&params, RESPONSES, &raw::remove(&given, QUESTION)),
            None => params,
        }
    }

    /// The result of an agreed call: an upstream that asks for more gets its answers without the user being asked again.
    pub fn wrapped(&self, result: &Raw) -> Raw {
        if raw::get_str(result, "resultType").as_deref() != Some("input_required") {
            return result.clone();
        }
        let theirs = raw::get(result, STATE).unwrap_or_default();
        let theirs = String::from_utf8_lossy(&theirs);
        let state = format!("{}:{theirs}", self.seal("agreed", &theirs));
        raw::set(result, STATE, Value::from(state).to_string().as_bytes())
    }

    fn asked(&self) -> String {
        self.seal("asked", "")
    }

    /// The upstream's state inside a state that says the call is agreed to, as the JSON it was; empty if it has none.
    fn theirs<'s>(&self, state: &'s str) -> Option<&'s str> {
        let (seal, theirs) = state.split_once(':')?;
        (seal == self.seal("agreed", theirs)).then_some(theirs)
    }

    /// Hashed twice, the key before each, so that nobody who sees one can make another.
    fn seal(&self, said: &str, theirs: &str) -> String {
        let mut inner = keyed();
        for part in [said.as_bytes(), self.group.as_str().as_bytes(), self.tool.as_bytes(), self.args] {
            inner.update(part.len().to_le_bytes());
            inner.update(part);
        }
        inner.update(theirs);
        let outer = keyed().chain_update(inner.finalize()).finalize();
        outer.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn keyed() -> Sha256 {
    KEY.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    /// What a client sends in the round after `result`.
    fn next(result: &Raw, responses: &str) -> Raw {
        let params = raw::set(&raw(r#"{"name":"x"}"#), STATE, &raw::get(result, STATE).unwrap());
        raw::set(&params, RESPONSES, responses.as_bytes())
    }

    #[test]
    fn consent_is_to_one_tool_with_these_arguments() {
        let (group, other) = (GroupName::new("g"), GroupName::new("h"));
        let args = raw(r#"{"n":1}"#);
        let matter = Matter { group: &group, tool: "t", args: &args };
        let question = matter.question(&json!({}));
        let answered = next(&question, &json!({ QUESTION: { "action": "accept" } }).to_string());
        let agreed = next(&matter.wrapped(&raw(r#"{"resultType":"input_required"}"#)), "{}");
        let more = raw(r#"{"n":2}"#);
        assert!(matches!(matter.round(&answered), Round::Answered(Some(action)) if action == "accept"));
        assert!(matches!(matter.round(&agreed), Round::Agreed));
        for stranger in [
            Matter { group: &other, ..matter },
            Matter { tool: "u", ..matter },
            Matter { args: &more, ..matter },
        ] {
            assert!(matches!(stranger.round(&answered), Round::First));
            assert!(matches!(stranger.round(&agreed), Round::First));
        }
        assert!(matches!(matter.round(&next(&question, "{}")), Round::First), "asked is not agreed");
    }

    #[test]
    fn the_upstream_gets_its_own_state_back_and_nothing_of_ours() {
        let group = GroupName::new("g");
        let args = raw("{}");
        let matter = Matter { group: &group, tool: "t", args: &args };
        let accepted = json!({ QUESTION: { "action": "accept" } }).to_string();
        assert_eq!(matter.unwrapped(&next(&matter.question(&json!({})), &accepted)), r#"{"name":"x"}"#);
        for state in [r#""a\u00e9\ud800:/\/""#, "1e400", r#""""#] {
            let asks = raw(&format!(r#"{{"resultType":"input_required","requestState":{state}}}"#));
            let given = matter.unwrapped(&next(&matter.wrapped(&asks), r#"{"theirs":1e400}"#));
            assert_eq!(raw::get(&given, STATE).unwrap(), state);
            assert_eq!(raw::get(&given, RESPONSES).unwrap(), r#"{"theirs":1e400}"#);
        }
        let bare = matter.wrapped(&raw(r#"{"resultType":"input_required"}"#));
        assert_eq!(raw::get(&matter.unwrapped(&next(&bare, "{}")), STATE), None);
        let done = raw(r#"{"resultType":"complete","requestState":"s"}"#);
        assert_eq!(matter.wrapped(&done), done);
    }
}
