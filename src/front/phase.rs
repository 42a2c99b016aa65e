//! The phases of a client's session, and what is served in each. Pure.
//!
//! ```text
//! Initialization ──initialize──▶ Greeted ──notifications/initialized──▶ Operation
//!        ╰───────────────────────────┴───────────────────────────────────────┴──▶ Shutdown
//! ```
//! A stateless request has no phase but the last.
//!
//! `Greeted` is the end of the initialization phase: the answer to `initialize` is out, the client's notification
//! is not in yet. Clients pipeline, so what they ask meanwhile is held for a moment rather than refused.

use super::errors::{self, Refusal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Initialization,
    Greeted,
    Operation,
    Shutdown,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Serve,
    /// Wait for `notifications/initialized`, in order.
    Hold,
    Refuse(Refusal),
}

/// What a method belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Initialize,
    Ping,
    /// Of a capability that we advertise.
    Offered,
    /// Of a capability that MCP knows and we do not advertise.
    NotOffered(&'static str),
    Unknown,
}

/// The capabilities that a session advertises; the rest are always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    pub resources: bool,
    pub prompts: bool,
    pub tasks: bool,
}

impl Kind {
    /// In the handshake era.
    pub fn of(method: &str, offers: Offers) -> Self {
        let offered =
            |offered, capability| if offered { Self::Offered } else { Self::NotOffered(capability) };
        match method {
            "initialize" => Self::Initialize,
            "ping" => Self::Ping,
            "tools/list" | "tools/call" | "tools/describe" | "tools/describe_batch" => Self::Offered,
            "completion/complete" | "logging/setLevel" => Self::Offered,
            "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe" => offered(offers.resources, "resources"),
            "prompts/list" | "prompts/get" => offered(offers.prompts, "prompts"),
            "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => offered(offers.tasks, "tasks"),
            _ => match method.split_once('/') {
                Some(("tasks", _)) => Self::NotOffered("tasks"),
                _ => Self::Unknown,
            },
        }
    }

    /// In the stateless era, which knows other methods, and no capability that is not offered.
    pub fn of_stateless(method: &str, offers: Offers) -> Self {
        match method {
            "server/discover" | "subscriptions/listen" | "tasks/get" | "tasks/update" | "tasks/cancel" => {
                Self::Offered
            }
            "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "tasks/list"
            | "tasks/result" => Self::Unknown,
            method => match Self::of(method, offers) {
                Self::NotOffered(_) => Self::Unknown,
                kind => kind,
            },
        }
    }
}

impl Phase {
    pub fn judge(self, kind: Kind) -> Verdict {
        match (self, kind) {
            (Self::Shutdown, _) => Verdict::Refuse(errors::shutting_down()),
            (_, Kind::Ping) | (Self::Initialization, Kind::Initialize) => Verdict::Serve,
            (_, Kind::Initialize) => Verdict::Refuse(errors::already_initialized()),
            (Self::Initialization, _) => Verdict::Refuse(errors::not_initialized()),
            (Self::Greeted, _) => Verdict::Hold,
            (Self::Operation, Kind::NotOffered(capability)) => {
                Verdict::Refuse(errors::not_negotiated(capability))
            }
            (Self::Operation, Kind::Unknown) => Verdict::Refuse(errors::unknown_method()),
            (Self::Operation, Kind::Offered) => Verdict::Serve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(verdict: &Verdict) -> i64 {
        match verdict {
            Verdict::Refuse(refusal) => refusal.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_phase_has_a_verdict_on_every_kind() {
        use Phase::*;
        let offers = Offers { resources: true, prompts: false, tasks: false };
        for (phase, method, expected) in [
            (Initialization, "tools/list", Some(-32005)),
            (Initialization, "resources/list", Some(-32005)),
            (Initialization, "no/such", Some(-32005)),
            (Initialization, "initialize", None),
            (Initialization, "ping", None),
            (Greeted, "ping", None),
            (Greeted, "initialize", Some(-32005)),
            (Operation, "tools/call", None),
            (Operation, "ping", None),
            (Operation, "initialize", Some(-32005)),
            (Operation, "prompts/get", Some(-32004)),
            (Operation, "resources/list", None),
            (Operation, "logging/setLevel", None),
            (Operation, "tasks/list", Some(-32004)),
            (Operation, "no/such", Some(-32601)),
            (Shutdown, "ping", Some(-31004)),
            (Shutdown, "initialize", Some(-31004)),
            (Shutdown, "tools/list", Some(-31004)),
        ] {
            let verdict = phase.judge(Kind::of(method, offers));
            match expected {
                None => assert_eq!(verdict, Verdict::Serve, "{phase:?} {method}"),
                Some(code) => assert_eq!(refused(&verdict), code, "{phase:?} {method}"),
            }
        }
        for (method, kind) in [
            ("tools/call", Kind::Offered),
            ("subscriptions/listen", Kind::Offered),
            ("ping", Kind::Unknown),
            ("tasks/get", Kind::Offered),
            ("tasks/list", Kind::Unknown),
            ("initialize", Kind::Unknown),
            ("resources/subscribe", Kind::Unknown),
            ("prompts/get", Kind::Unknown),
        ] {
            assert_eq!(Kind::of_stateless(method, offers), kind, "{method}");
        }
        assert_eq!(Kind::of("subscriptions/listen", offers), Kind::Unknown);
        assert_eq!(Greeted.judge(Kind::of("tools/list", offers)), Verdict::Hold);
        assert_eq!(Greeted.judge(Kind::of("no/such", offers)), Verdict::Hold);
    }
}
