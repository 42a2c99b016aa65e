//! Adapts results and errors of upstreams of one era to clients of the other.

use crate::client::attribution::{Attribution, Refusal};
use crate::session::input_required::needs_input;
use config::GroupName;
use wire::protocol::methods::Method;
use wire::protocol::{Era, code};
use wire::{Raw, Reply, raw};

/// Adapts a reply of a server to the client's era, and names the group in what it asks the user.
///
/// # Errors
///
/// Says why the reply cannot be given to this client.
pub(super) fn adapt(
    attribution: &Attribution,
    group: &GroupName,
    method: Method,
    (server, client): (Era, Era),
    reply: Reply,
) -> Result<Reply, Refusal> {
    Ok(match (server, client, reply) {
        // The server was told that this client has no such capability.
        (Era::Stateless, Era::Handshake, Ok(result)) if needs_input(&result) => {
            return Err("it asks for input in a way that this client does not know (revision 2026-07-28)");
        }
        (_, Era::Handshake, Ok(result)) => Ok(result),
        // Also where the server knows no such results: the client would ask all the same.
        (_, Era::Stateless, Ok(result)) => Ok(attribution.inputs(group, &result)?),
        (Era::Handshake, _, Err(error)) => Err(attribution.error(group, error)?),
        (Era::Stateless, _, Err(error)) => Err(adapt_error(method, client, attribution.error(group, error)?)),
    })
}

/// Adapts an error of a stateless server. Clients of the handshake era know a code of its own for a missing resource.
fn adapt_error(method: Method, client: Era, error: Raw) -> Raw {
    let code = raw::error_code(&error);
    let is_missing = method == Method::ResourcesRead && code == Some(code::INVALID_PARAMS);
    if is_missing && client == Era::Handshake {
        return raw::set(&error, "code", code::RESOURCE_NOT_FOUND.to_string().as_bytes());
    }
    error
}
