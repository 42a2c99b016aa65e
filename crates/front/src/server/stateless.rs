//! Requests of the stateless era (2026-07-28): the members of `_meta` that each one carries, and the members that each
//! answer must have.

use crate::client::notifications::check_log_level;
use crate::errors::{self, RpcError};
use serde_json::json;
use wire::params::Params;
use wire::protocol::methods::Method;
use wire::protocol::{STATELESS, TASKS_EXTENSION, capability, code, meta};
use wire::{Raw, Reply, Request, raw};

/// Checks that a request carries everything that it has to, and that its revision is supported. `latest`: the latest
/// revision that this client is offered. Returns the capabilities of the client.
///
/// # Errors
///
/// The revision or the capabilities are missing; the revision is not supported; the capabilities are no object; the log
/// level is unknown; or the request is about tasks, and the client does not declare the extension.
pub(crate) fn check(request: &Request, latest: &str) -> Result<Raw, RpcError> {
    let members = request.params.as_ref().and_then(Params::meta);
    let member = |key: &str| members.as_ref().and_then(|members| members.get(key));
    let missing = |key| errors::invalid_params(format!("params._meta[{key:?}] is missing"));
    let version = member(meta::VERSION).ok_or_else(|| missing(meta::VERSION))?;
    if latest < STATELESS || version != format!("\"{STATELESS}\"").as_bytes() {
        return Err(errors::unsupported_revision(&version, latest));
    }
    let capabilities = member(meta::CAPABILITIES).ok_or_else(|| missing(meta::CAPABILITIES))?;
    if raw::entries(&capabilities).is_none() {
        let key = meta::CAPABILITIES;
        return Err(errors::invalid_params(format!("params._meta[{key:?}] must be an object")));
    }
    if let Some(level) = member(meta::LOG_LEVEL) {
        let level = serde_json::from_slice::<String>(&level).unwrap_or_default();
        check_log_level(&level).map_err(errors::invalid_params)?;
    }
    let has_tasks = || raw::get(&raw::get(&capabilities, "extensions")?, TASKS_EXTENSION);
    if needs_tasks(request) && has_tasks().is_none() {
        return Err(errors::missing_capability(json!({ "extensions": { TASKS_EXTENSION: {} } })));
    }
    Ok(capabilities)
}

/// Returns whether a request is about tasks, for which the client has to declare the extension.
fn needs_tasks(request: &Request) -> bool {
    match request.method.known() {
        Some(Method::SubscriptionsListen) => {
            let filter = request.params.as_ref().and_then(|params| raw::get(params, "notifications"));
            filter.is_some_and(|filter| raw::get(&filter, "taskIds").is_some())
        }
        Some(method) => method.info().capability == Some(capability::TASKS),
        None => false,
    }
}

/// Adds the members that an answer of the stateless era must have. `ttl_ms`: how long a list may be cached, in
/// milliseconds.
///
/// # Errors
///
/// That of the reply, with a code of this era.
pub fn complete(method: Method, reply: Reply, ttl_ms: u32) -> Reply {
    let result = match reply {
        Ok(result) => result,
        Err(error) => return Err(replace_retired_code(error)),
    };
    let own_info = json!({ "name": "dynamic-mcp", "version": env!("CARGO_PKG_VERSION") }).to_string();
    let result_type = raw::get(&result, "resultType");
    let mut added: Vec<(&str, &[u8])> = Vec::new();
    if result_type.is_none() {
        added.push(("resultType", b"\"complete\""));
    }
    let ttl_ms = ttl_ms.to_string();
    let is_complete = result_type.is_none_or(|result_type| &result_type[..] == b"\"complete\"");
    if method.info().has_cache_hints && is_complete {
        let hints: [(&str, &[u8]); 2] = [("ttlMs", ttl_ms.as_bytes()), ("cacheScope", b"\"private\"")];
        added.extend(hints.into_iter().filter(|(key, _)| raw::get(&result, key).is_none()));
    }
    let result_meta = raw::get(&result, "_meta").filter(|value| value.first() == Some(&b'{'));
    let result_meta = result_meta.unwrap_or(Raw::from_static(b"{}"));
    let with_server = raw::get(&result_meta, meta::SERVER)
        .is_none()
        .then(|| raw::set(&result_meta, meta::SERVER, own_info.as_bytes()));
    if let Some(with_server) = &with_server {
        added.push(("_meta", with_server));
    }
    Ok(raw::set_all(&result, &added))
}

/// Replaces error codes that this era no longer has.
fn replace_retired_code(error: Raw) -> Raw {
    let code = raw::error_code(&error);
    let code = match code {
        Some(code::RESOURCE_NOT_FOUND) => code::INVALID_PARAMS,
        Some(code::URL_ELICITATION_REQUIRED) => code::INTERNAL_ERROR,
        _ => return error,
    };
    raw::set(&error, "code", code.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::protocol::Era;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    fn request(method: &str, params: &str) -> Request {
        Request { id: raw("1"), method: method.into(), params: Some(raw(params).into()) }
    }

    fn error_code(method: &str, params: &str) -> Option<i64> {
        let request = request(method, params);
        check(&request, STATELESS).err().map(|error| error.code)
    }

    #[test]
    fn a_request_must_carry_its_revision_and_capabilities() {
        let with_version = |rest: &str| {
            format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"{rest}}}}}"#)
        };
        let is_stateless = |method, params: &str| request(method, params).era() == Era::Stateless;
        assert!(!is_stateless("tools/list", r#"{"_meta":{"progressToken":1}}"#));
        assert!(is_stateless("tools/list", &with_version("")) && is_stateless("server/discover", "{}"));
        assert_eq!(error_code("server/discover", "{}"), Some(-32602));
        assert_eq!(error_code("tools/list", &with_version("")), Some(-32602));
        let with_capabilities = |capabilities: &str| {
            with_version(&format!(r#","io.modelcontextprotocol/clientCapabilities":{capabilities}"#))
        };
        assert_eq!(error_code("tools/list", &with_capabilities("{}")), None);
        assert_eq!(error_code("tools/list", &with_capabilities("3")), Some(-32602));
        assert_eq!(error_code("tasks/get", &with_capabilities("{}")), Some(-32021));
        let tasks = with_capabilities(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
        assert_eq!(error_code("tasks/get", &tasks), None);
        let old = tasks.replace("2026-07-28", "1900-01-01");
        assert_eq!(error_code("tools/list", &old), Some(-32022));
        let level = with_capabilities(r#"{},"io.modelcontextprotocol/logLevel":"loud""#);
        assert_eq!(error_code("tools/call", &level), Some(-32602));
    }

    #[test]
    fn an_answer_gets_missing_members_and_keeps_its_own() {
        let complete = |method, text| complete(method, Ok(raw(text)), 7).unwrap();
        assert_eq!(
            complete(Method::ToolsCall, r#"{"content":[1e400]}"#),
            format!(
                r#"{{"content":[1e400],"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"dynamic-mcp","version":"{}"}}}}}}"#,
                env!("CARGO_PKG_VERSION")
            )
        );
        let whole = r#"{"resultType":"complete","ttlMs":1,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}},"contents":[]}"#;
        assert_eq!(complete(Method::ResourcesRead, whole), whole);
        let list = complete(Method::ToolsList, r#"{"tools":[]}"#);
        assert_eq!(raw::get(&list, "ttlMs").unwrap(), "7");
        let asks = complete(Method::ResourcesRead, r#"{"resultType":"input_required"}"#);
        assert_eq!(raw::get(&asks, "ttlMs"), None);
    }

    #[test]
    fn retired_codes_are_replaced() {
        let code = |code: i64| {
            let error = raw(&format!(r#"{{"code":{code},"message":"m","data":1e400}}"#));
            raw::get(&complete(Method::ToolsCall, Err(error), 0).unwrap_err(), "code").unwrap()
        };
        assert_eq!(code(-32002), "-32602");
        assert_eq!(code(-32042), "-32603");
        assert_eq!(code(123), "123");
    }
}
