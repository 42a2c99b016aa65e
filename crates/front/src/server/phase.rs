//! The phases of a session, and which methods are served in each. Pure.
//!
//! ```text
//! Initialization ──initialize──▶ Initialized ──notifications/initialized──▶ Operation
//!        ╰────────────────────────────┴─────────────────────────────────────────┴──▶ Shutdown
//! ```
//!
//! In `Initialized` the answer to `initialize` is sent, and the client's notification has not come. Clients pipeline,
//! so requests are held for a moment rather than rejected. Requests of the stateless era have no phase except
//! `Shutdown`.

use crate::errors::{self, RpcError};
use wire::MethodName;
use wire::protocol::methods::Method;
use wire::protocol::{Era, capability};

/// The phase of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionPhase {
    /// `initialize` has not come.
    Initialization,
    /// `initialize` is answered.
    Initialized,
    /// The handshake is done.
    Operation,
    /// The session ends.
    Shutdown,
}

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PhaseDecision {
    /// Serve it now.
    Serve(Method),
    /// Hold it, in order, until `notifications/initialized` comes.
    Hold,
    /// Take `notifications/initialized` for received, and decide again.
    EndHandshake,
    /// Reject it with this error.
    Reject(RpcError),
}

/// Whether a method can be used in this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodAvailability {
    /// Its capability is advertised, or it needs none.
    Available(Method),
    /// Its capability exists in MCP but is not advertised.
    NotNegotiated(&'static str),
    /// It does not exist in this era.
    Unknown,
}

/// The capabilities that depend on the config or the revision. All others are always advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvertisedCapabilities {
    /// Whether resources are advertised.
    pub resources: bool,
    /// Whether prompts are advertised.
    pub prompts: bool,
    /// Whether tasks of the handshake era are advertised.
    pub tasks: bool,
    /// Whether clients have a connection, so that what needs one is advertised: log messages and, in the handshake era,
    /// subscriptions and changes of lists.
    pub connected: bool,
}

impl AdvertisedCapabilities {
    fn has(self, capability: &str) -> bool {
        match capability {
            capability::RESOURCES => self.resources,
            capability::PROMPTS => self.prompts,
            capability::TASKS => self.tasks,
            capability::LOGGING => self.connected,
            _ => true,
        }
    }
}

impl MethodAvailability {
    /// Looks up a method for a request of the handshake era.
    pub(crate) fn in_handshake_era(method: &MethodName, advertised: AdvertisedCapabilities) -> Self {
        match method.known().filter(|method| method.is_of(Era::Handshake)) {
            Some(method) => match method.info().capability.filter(|capability| !advertised.has(capability)) {
                None => Self::Available(method),
                Some(capability) => Self::NotNegotiated(capability),
            },
            None if method.starts_with("tasks/") => Self::NotNegotiated(capability::TASKS),
            None => Self::Unknown,
        }
    }

    /// Looks up a method for a request of the stateless era. There, a method whose capability is not advertised does
    /// not exist; tasks are an extension that is always advertised.
    pub(crate) fn in_stateless_era(method: &MethodName, advertised: AdvertisedCapabilities) -> Self {
        let advertised = AdvertisedCapabilities { tasks: true, ..advertised };
        let method = method.known().filter(|method| method.is_of(Era::Stateless));
        let method = method.filter(|method| method.info().capability.is_none_or(|name| advertised.has(name)));
        method.map_or(Self::Unknown, Self::Available)
    }
}

impl SessionPhase {
    /// Decides what to do with a request of the handshake era. `is_lenient`: whether the handshake may be repeated, and need
    /// not be completed.
    pub(crate) fn decide(self, availability: MethodAvailability, is_lenient: bool) -> PhaseDecision {
        use MethodAvailability::{Available, NotNegotiated, Unknown};
        match (self, availability) {
            (Self::Shutdown, _) => PhaseDecision::Reject(errors::shutting_down()),
            (_, Available(Method::Ping)) => PhaseDecision::Serve(Method::Ping),
            (Self::Initialization, Available(Method::Initialize)) => PhaseDecision::Serve(Method::Initialize),
            (Self::Initialized | Self::Operation, Available(Method::Initialize)) if is_lenient => {
                PhaseDecision::Serve(Method::Initialize)
            }
            (_, Available(Method::Initialize)) => PhaseDecision::Reject(errors::already_initialized()),
            (Self::Initialization, _) => PhaseDecision::Reject(errors::not_initialized()),
            (Self::Initialized, _) if is_lenient => PhaseDecision::EndHandshake,
            (Self::Initialized, _) => PhaseDecision::Hold,
            (Self::Operation, NotNegotiated(capability)) => {
                PhaseDecision::Reject(errors::not_negotiated(capability))
            }
            (Self::Operation, Unknown) => PhaseDecision::Reject(errors::unknown_method()),
            (Self::Operation, Available(method)) => PhaseDecision::Serve(method),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVERTISED: AdvertisedCapabilities =
        AdvertisedCapabilities { resources: true, prompts: false, tasks: false, connected: true };

    #[test]
    fn every_phase_decides_about_every_kind_of_method() {
        use SessionPhase::*;
        for (phase, method, expected) in [
            (Initialization, "tools/list", Some(-32005)),
            (Initialization, "resources/list", Some(-32005)),
            (Initialization, "no/such", Some(-32005)),
            (Initialization, "initialize", None),
            (Initialization, "ping", None),
            (Initialized, "ping", None),
            (Initialized, "initialize", Some(-32005)),
            (Operation, "tools/call", None),
            (Operation, "ping", None),
            (Operation, "initialize", Some(-32005)),
            (Operation, "prompts/get", Some(-32004)),
            (Operation, "resources/list", None),
            (Operation, "logging/setLevel", None),
            (Operation, "tasks/list", Some(-32004)),
            (Operation, "tasks/update", Some(-32004)),
            (Operation, "no/such", Some(-32601)),
            (Operation, "subscriptions/listen", Some(-32601)),
            (Operation, "server/discover", Some(-32601)),
            (Operation, "roots/list", Some(-32601)),
            (Shutdown, "ping", Some(-31004)),
            (Shutdown, "initialize", Some(-31004)),
            (Shutdown, "tools/list", Some(-31004)),
        ] {
            let availability = MethodAvailability::in_handshake_era(&method.into(), ADVERTISED);
            let decision = phase.decide(availability, false);
            match (decision, expected) {
                (PhaseDecision::Serve(served), None) => assert_eq!(served.name(), method, "{phase:?}"),
                (PhaseDecision::Reject(error), Some(code)) => {
                    assert_eq!(error.code, code, "{phase:?} {method}");
                }
                (decision, _) => panic!("{phase:?} {method}: {decision:?}"),
            }
        }
        for method in ["tools/list", "no/such"] {
            let availability = MethodAvailability::in_handshake_era(&method.into(), ADVERTISED);
            assert_eq!(Initialized.decide(availability, false), PhaseDecision::Hold);
            assert_eq!(Initialized.decide(availability, true), PhaseDecision::EndHandshake);
        }
        for (phase, is_served) in
            [(Initialization, true), (Initialized, true), (Operation, true), (Shutdown, false)]
        {
            let initialize = MethodAvailability::Available(Method::Initialize);
            let decision = phase.decide(initialize, true);
            assert_eq!(decision == PhaseDecision::Serve(Method::Initialize), is_served, "{phase:?}");
        }
    }

    #[test]
    fn the_stateless_era_serves_its_own_methods_without_negotiation() {
        for (method, is_available) in [
            ("tools/call", true),
            ("server/discover", true),
            ("subscriptions/listen", true),
            ("tasks/get", true),
            ("tasks/update", true),
            ("ping", false),
            ("tasks/list", false),
            ("initialize", false),
            ("resources/subscribe", false),
            ("logging/setLevel", false),
            ("prompts/get", false),
        ] {
            let availability = MethodAvailability::in_stateless_era(&method.into(), ADVERTISED);
            assert_eq!(availability != MethodAvailability::Unknown, is_available, "{method}");
        }
    }
}
