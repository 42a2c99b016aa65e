//! Adapts results and errors of upstreams of one era to clients of the other.

use super::client_requests::with_group_name;
use super::input_required::needs_input;
use crate::config::GroupName;
use crate::protocol::methods::Method;
use crate::protocol::{Era, code};
use crate::wire::{Raw, raw};

/// Adapts a result of a stateless server.
///
/// # Errors
///
/// Says why the result cannot be given to a client of this era.
pub fn adapt_result(group: &GroupName, client: Era, result: Raw) -> Result<Raw, &'static str> {
    match (needs_input(&result), client) {
        (true, Era::Stateless) => Ok(name_group_in_inputs(group, &result)),
        // The server was told that this client has no such capability.
        (true, Era::Handshake) => {
            Err("it asks for input in a way that this client does not know (revision 2026-07-28)")
        }
        (false, _) => Ok(result),
    }
}

/// Adapts an error of a stateless server. Clients of the handshake era know a code of its own for a missing resource.
pub fn adapt_error(method: Method, client: Era, error: Raw) -> Raw {
    let code = raw::error_code(&error);
    let is_missing = method == Method::ResourcesRead && code == Some(code::INVALID_PARAMS);
    if is_missing && client == Era::Handshake {
        return raw::set(&error, "code", code::RESOURCE_NOT_FOUND.to_string().as_bytes());
    }
    error
}

/// Puts the group's name in front of the message of every elicitation in an `input_required` result.
pub fn name_group_in_inputs(group: &GroupName, result: &Raw) -> Raw {
    let Some(requests) = raw::get(result, "inputRequests") else { return result.clone() };
    let Some(entries) = raw::entries(&requests) else { return result.clone() };
    let named = entries.iter().filter_map(|(key, request)| {
        let params = raw::get(request, "params")?;
        let is_elicitation = raw::get_str(request, "method")? == Method::ElicitationCreate.name();
        is_elicitation.then(|| (key, raw::set(request, "params", &with_group_name(&params, group.as_str()))))
    });
    let named: Vec<_> = named.collect();
    let named: Vec<_> = named.iter().map(|(key, request)| (key.as_str(), &request[..])).collect();
    raw::set(result, "inputRequests", &raw::set_all(&requests, &named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitations_among_the_inputs_name_their_group() {
        let result = Raw::from_static(
            br#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"who?","x":1e400}},"b":{"method":"roots/list"}},"requestState":"s"}"#,
        );
        let group = GroupName::new("g");
        let named = adapt_result(&group, Era::Stateless, result.clone()).unwrap();
        assert_eq!(named, String::from_utf8_lossy(&result).replace("who?", "[g] who?"));
        assert!(adapt_result(&group, Era::Handshake, result).is_err());
    }
}
