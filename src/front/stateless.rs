//! Requests of the stateless era (2026-07-28): each says which revision it is of and what its client can do, and each
//! answer says what it is and how long it holds. What of that an upstream of the other era lacks is added here.

use super::errors::{self, Refusal};
use crate::config::GroupName;
use crate::protocol::{Era, STATELESS, TASKS_EXTENSION, code, meta};
use crate::upstream::audience::client::check_level;
use crate::upstream::audience::questions::named;
use crate::wire::{Raw, Reply, Request, raw};
use serde_json::json;

/// What a request says of itself.
#[derive(Default)]
pub struct About {
    version: Option<Raw>,
    capabilities: Option<Raw>,
    level: Option<Raw>,
}

impl About {
    /// `None`: the request is not of that era.
    pub fn of(request: &Request) -> Option<Self> {
        let given = request.params.as_ref().and_then(|params| raw::get(params, "_meta"));
        let mut about = Self::default();
        for (key, value) in given.and_then(|given| raw::entries(&given)).unwrap_or_default() {
            match key.as_str() {
                meta::VERSION => about.version = Some(value),
                meta::CAPABILITIES => about.capabilities = Some(value),
                meta::LOG_LEVEL => about.level = Some(value),
                _ => {}
            }
        }
        (about.version.is_some() || request.method == "server/discover").then_some(about)
    }

    /// Whether that is all that it must say.
    pub fn check(&self, request: &Request) -> Result<(), Refusal> {
        let missing = |key| errors::bad_params(format!("params._meta[{key:?}] is missing"));
        let version = self.version.as_ref().ok_or_else(|| missing(meta::VERSION))?;
        if *version != format!("\"{STATELESS}\"").as_bytes() {
            return Err(errors::unsupported_revision(version));
        }
        let capabilities = self.capabilities.as_ref().ok_or_else(|| missing(meta::CAPABILITIES))?;
        if raw::entries(capabilities).is_none() {
            return Err(errors::bad_params(format!(
                "params._meta[{:?}] must be an object",
                meta::CAPABILITIES
            )));
        }
        if let Some(level) = &self.level {
            let level = serde_json::from_slice::<String>(level).unwrap_or_default();
            check_level(&level).map_err(errors::bad_params)?;
        }
        let of_tasks = matches!(request.method.as_str(), "tasks/get" | "tasks/update" | "tasks/cancel");
        let of_tasks = of_tasks || request.method == "subscriptions/listen" && listens_to_tasks(request);
        let tasks = || raw::get(&raw::get(capabilities, "extensions")?, TASKS_EXTENSION);
        if of_tasks && tasks().is_none() {
            return Err(errors::missing_capability(json!({ "extensions": { TASKS_EXTENSION: {} } })));
        }
        Ok(())
    }

    /// What the client of the request can do.
    pub fn capabilities(&self) -> Raw {
        self.capabilities.clone().unwrap_or(Raw::from_static(b"{}"))
    }
}

fn listens_to_tasks(request: &Request) -> bool {
    let wanted = request.params.as_ref().and_then(|params| raw::get(params, "notifications"));
    wanted.is_some_and(|wanted| raw::get(&wanted, "taskIds").is_some())
}

/// An answer as a stateless client has to get it. `fresh_for`: how long a list holds, in milliseconds.
pub fn finished(method: &str, reply: Reply, fresh_for: u32) -> Reply {
    let result = match reply {
        Ok(result) => result,
        Err(error) => return Err(translated(error)),
    };
    let own = json!({ "name": "dynamic-mcp", "version": env!("CARGO_PKG_VERSION") }).to_string();
    let kind = raw::get(&result, "resultType");
    let mut added: Vec<(&str, &[u8])> = Vec::new();
    if kind.is_none() {
        added.push(("resultType", b"\"complete\""));
    }
    let is_cached = matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    );
    let fresh_for = fresh_for.to_string();
    if is_cached && kind.is_none_or(|kind| &kind[..] == b"\"complete\"") {
        let hints: [(&str, &[u8]); 2] = [("ttlMs", fresh_for.as_bytes()), ("cacheScope", b"\"private\"")];
        added.extend(hints.into_iter().filter(|(key, _)| raw::get(&result, key).is_none()));
    }
    let given = raw::get(&result, "_meta").filter(|given| given.first() == Some(&b'{'));
    let given = given.unwrap_or(Raw::from_static(b"{}"));
    let who =
        raw::get(&given, meta::SERVER).is_none().then(|| raw::set(&given, meta::SERVER, own.as_bytes()));
    if let Some(who) = &who {
        added.push(("_meta", who));
    }
    Ok(raw::set_all(&result, &added))
}

/// Codes that this era has given up, in its own.
fn translated(error: Raw) -> Raw {
    let code = raw::get(&error, "code").and_then(|code| serde_json::from_slice::<i64>(&code).ok());
    let code = match code {
        Some(code::RESOURCE_NOT_FOUND) => code::INVALID_PARAMS,
        Some(code::URL_ELICITATION_REQUIRED) => code::INTERNAL_ERROR,
        _ => return error,
    };
    raw::set(&error, "code", code.to_string().as_bytes())
}

/// What a stateless server answered, for a client of either era. `Err`: it cannot be given to this one.
pub fn from_stateless(group: &GroupName, client: Era, result: Raw) -> Result<Raw, &'static str> {
    let kind = raw::get_str(&result, "resultType");
    match (kind.as_deref(), client) {
        (Some("input_required"), Era::Stateless) => Ok(with_names(group, &result)),
        // It was told that this client can do nothing of the kind.
        (Some("input_required"), Era::Handshake) => {
            Err("it asks for input in a way that this client does not know (revision 2026-07-28)")
        }
        _ => Ok(result),
    }
}

/// What a stateless server refused, for a client of either era: those with a handshake know a code of its own for a
/// resource that is not there.
pub fn refused_by_stateless(method: &str, client: Era, error: Raw) -> Raw {
    let code = raw::get(&error, "code").and_then(|code| serde_json::from_slice::<i64>(&code).ok());
    if method == "resources/read" && client == Era::Handshake && code == Some(code::INVALID_PARAMS) {
        return raw::set(&error, "code", code::RESOURCE_NOT_FOUND.to_string().as_bytes());
    }
    error
}

/// Elicitations say which group asks.
pub fn with_names(group: &GroupName, result: &Raw) -> Raw {
    let Some(requests) = raw::get(result, "inputRequests") else { return result.clone() };
    let Some(entries) = raw::entries(&requests) else { return result.clone() };
    let named = entries.iter().filter_map(|(key, request)| {
        let params = raw::get(request, "params")?;
        let asks = raw::get_str(request, "method")? == "elicitation/create";
        asks.then(|| (key, raw::set(request, "params", &named(&params, group.as_str()))))
    });
    let named: Vec<_> = named.collect();
    let named: Vec<_> = named.iter().map(|(key, request)| (key.as_str(), &request[..])).collect();
    raw::set(result, "inputRequests", &raw::set_all(&requests, &named))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    fn request(method: &str, params: &str) -> Request {
        Request { id: raw("1"), method: method.to_owned(), params: Some(raw(params)) }
    }

    fn refused(method: &str, params: &str) -> Option<i64> {
        let request = request(method, params);
        About::of(&request).unwrap().check(&request).err().map(|refusal| refusal.code)
    }

    #[test]
    fn a_request_has_to_say_what_it_is() {
        let about = |rest: &str| {
            format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"{rest}}}}}"#)
        };
        let is = |method, params: &str| About::of(&request(method, params)).is_some();
        assert!(!is("tools/list", r#"{"_meta":{"progressToken":1}}"#));
        assert!(is("tools/list", &about("")) && is("server/discover", "{}"));
        assert_eq!(refused("server/discover", "{}"), Some(-32602));
        assert_eq!(refused("tools/list", &about("")), Some(-32602));
        let able = |given: &str| about(&format!(r#","io.modelcontextprotocol/clientCapabilities":{given}"#));
        assert_eq!(refused("tools/list", &able("{}")), None);
        assert_eq!(refused("tools/list", &able("3")), Some(-32602));
        assert_eq!(refused("tasks/get", &able("{}")), Some(-32021));
        let tasks = able(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
        assert_eq!(refused("tasks/get", &tasks), None);
        let old = tasks.replace("2026-07-28", "1900-01-01");
        assert_eq!(refused("tools/list", &old), Some(-32022));
        let level = able(r#"{},"io.modelcontextprotocol/logLevel":"loud""#);
        assert_eq!(refused("tools/call", &level), Some(-32602));
    }

    #[test]
    fn an_answer_gets_what_it_lacks_and_keeps_what_it_has() {
        let done = |method, text| finished(method, Ok(raw(text)), 7).unwrap();
        assert_eq!(
            done("tools/call", r#"{"content":[1e400]}"#),
            format!(
                r#"{{"content":[1e400],"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"dynamic-mcp","version":"{}"}}}}}}"#,
                env!("CARGO_PKG_VERSION")
            )
        );
        let whole = r#"{"resultType":"complete","ttlMs":1,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}},"contents":[]}"#;
        assert_eq!(done("resources/read", whole), whole);
        let list = done("tools/list", r#"{"tools":[]}"#);
        assert_eq!(raw::get(&list, "ttlMs").unwrap(), "7");
        let asks = done("resources/read", r#"{"resultType":"input_required"}"#);
        assert_eq!(raw::get(&asks, "ttlMs"), None);
    }

    #[test]
    fn retired_codes_are_not_used() {
        let error = |code: i64| {
            let error =
                finished("x", Err(raw(&format!(r#"{{"code":{code},"message":"m","data":1e400}}"#))), 0);
            raw::get(&error.unwrap_err(), "code").unwrap()
        };
        assert_eq!(error(-32002), "-32602");
        assert_eq!(error(-32042), "-32603");
        assert_eq!(error(123), "123");
    }

    #[test]
    fn elicitations_among_the_inputs_name_their_group() {
        let result = raw(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"who?","x":1e400}},"b":{"method":"roots/list"}},"requestState":"s"}"#,
        );
        let group = GroupName::new("g");
        let named = from_stateless(&group, Era::Stateless, result.clone()).unwrap();
        assert_eq!(named, String::from_utf8_lossy(&result).replace("who?", "[g] who?"));
        assert!(from_stateless(&group, Era::Handshake, result).is_err());
    }
}
