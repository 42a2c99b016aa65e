//! The MCP headers of a request, which intermediaries may route by: they have to agree with the body (revision 2026-07-28,
//! Streamable HTTP, "Server Validation").

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use front::errors;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::json;
use std::borrow::Cow;
use upstream::transport::remote::param_headers;
use wire::params::Params;
use wire::protocol::methods::Method;
use wire::protocol::{Era, HANDSHAKE_REVISIONS, STATELESS, code, is_stateless, meta};
use wire::{Raw, Request, error_object, raw};

/// The revision of the request.
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of the request.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The name or the URI that it is about.
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What begins and ends a value in base64.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Checks the headers that every request may have. Those of the stateless era have to have them.
///
/// # Errors
///
/// A header is missing, disagrees with the body, or is written wrongly; or the revision is not supported. The JSON-RPC
/// error.
pub(crate) fn check(headers: &HeaderMap, request: &Request, latest: &str) -> Result<(), Raw> {
    let era = request.era();
    check_version(headers, request, era, latest)?;
    check_one(headers, &METHOD, Some(&*request.method), era == Era::Stateless)?;
    let name = name(request);
    check_one(headers, &NAME, name.as_deref(), era == Era::Stateless && is_named(request))
}

/// Checks the headers in which a call repeats arguments. `definition`: that of the tool, as the client knows it.
///
/// # Errors
///
/// As [`check`].
pub(crate) fn check_params(headers: &HeaderMap, definition: &Raw, arguments: &Raw) -> Result<(), Raw> {
    for (name, argument) in param_headers::of_definition(definition, arguments) {
        let given = value(headers, &name)?;
        match (given.as_deref(), argument.as_deref()) {
            (Some(given), Some(argument)) if is_same_argument(given, argument) => {}
            (None, None) => {}
            (given, argument) => return Err(mismatch(&name, given, argument)),
        }
    }
    Ok(())
}

fn check_version(headers: &HeaderMap, request: &Request, era: Era, latest: &str) -> Result<(), Raw> {
    let given = value(headers, &VERSION)?;
    let meta = request.params.as_ref().and_then(Params::meta);
    let in_body = meta.and_then(|meta| meta.get_str(meta::VERSION).map(Cow::into_owned));
    match (era, given.as_deref(), in_body.as_deref()) {
        (Era::Stateless, Some(given), Some(in_body)) if given == in_body => Ok(()),
        // That the body lacks it is an error of its own.
        (Era::Stateless, Some(given), None) if is_stateless(given) => Ok(()),
        (Era::Stateless, given, in_body) => Err(mismatch(&VERSION, given, in_body)),
        (Era::Handshake, Some(given), _) if is_stateless(given) && given <= STATELESS => {
            let missing = format!("params._meta[{:?}] is missing", meta::VERSION);
            Err(error_object(code::INVALID_PARAMS, &missing, None))
        }
        // The body of `initialize` says what the client wants.
        (Era::Handshake, Some(given), _)
            if request.method.known() != Some(Method::Initialize)
                && !HANDSHAKE_REVISIONS.contains(&given) =>
        {
            let given = Raw::from(json!(given).to_string());
            Err(errors::unsupported_revision(&given, latest).into())
        }
        (Era::Handshake, ..) => Ok(()),
    }
}

fn check_one(
    headers: &HeaderMap,
    name: &HeaderName,
    in_body: Option<&str>,
    is_required: bool,
) -> Result<(), Raw> {
    let given = value(headers, name)?;
    match (given.as_deref(), in_body) {
        (None, _) if !is_required => Ok(()),
        (Some(given), Some(in_body)) if given == in_body => Ok(()),
        (given, in_body) => Err(mismatch(name, given, in_body)),
    }
}

/// Returns whether a request has to name what it is about.
fn is_named(request: &Request) -> bool {
    matches!(request.method.known(), Some(Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead))
}

/// Returns what the request is about.
fn name(request: &Request) -> Option<Cow<'_, str>> {
    let key = match request.method.known()? {
        Method::ToolsCall | Method::PromptsGet => "name",
        Method::ResourcesRead => "uri",
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => "taskId",
        _ => return None,
    };
    request.params.as_ref()?.get_str(key)
}

/// Returns the decoded value of a header.
///
/// # Errors
///
/// It has characters that no header may have, or is encoded wrongly.
fn value(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Raw> {
    let Some(given) = headers.get(name) else { return Ok(None) };
    let decoded = given.to_str().ok().and_then(decode);
    decoded.map(Some).ok_or_else(|| {
        let message = format!("header mismatch: {name} cannot be read: {}", shown(given));
        error_object(code::HEADER_MISMATCH, &message, None)
    })
}

fn decode(text: &str) -> Option<String> {
    let encoded = text.strip_prefix(ENCODED.0).and_then(|text| text.strip_suffix(ENCODED.1));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

/// Compares an argument with its header: numbers by their value, as `42.0` and `42`.
fn is_same_argument(given: &str, argument: &str) -> bool {
    let number = |text: &str| {
        let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        text.parse::<f64>().ok().filter(|_| is_number)
    };
    given == argument
        || number(given).zip(number(argument)).is_some_and(|(given, argument)| given == argument)
}

fn mismatch(name: &HeaderName, given: Option<&str>, in_body: Option<&str>) -> Raw {
    let shown = |text: Option<&str>| text.map_or_else(|| "nothing".to_owned(), base::text::quoted);
    let message =
        format!("header mismatch: {name} has {}, and the body has {}", shown(given), shown(in_body));
    error_object(code::HEADER_MISMATCH, &message, None)
}

fn shown(value: &HeaderValue) -> String {
    base::text::quoted(&String::from_utf8_lossy(value.as_bytes()))
}

/// Returns the arguments of a call, as JSON text.
pub(crate) fn arguments(request: &Request) -> Raw {
    let arguments = request.params.as_ref().and_then(|params| raw::get(params, "arguments"));
    arguments.unwrap_or(Raw::from_static(b"{}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    fn request(method: &str, members: &str) -> Request {
        let params = Raw::from(format!("{{{members}}}"));
        Request { id: Raw::from_static(b"1"), method: method.into(), params: Some(params.into()) }
    }

    fn headers(entries: &[(&'static str, &str)]) -> HeaderMap {
        let entry = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        entries.iter().map(entry).collect()
    }

    fn code_of(result: Result<(), Raw>) -> Option<i64> {
        result.err().and_then(|error| raw::error_code(&error))
    }

    #[test]
    fn what_a_stateless_request_mirrors_has_to_be_there_and_to_agree() {
        let version = ("mcp-protocol-version", "2026-07-28");
        let call = request("tools/call", &format!(r#""name":"t",{META}"#));
        let check = |entries: &[(&'static str, &str)]| code_of(check(&headers(entries), &call, STATELESS));
        let good = [version, ("mcp-method", "tools/call"), ("mcp-name", "t")];
        assert_eq!(check(&good), None);
        assert_eq!(check(&[version, good[1], ("mcp-name", "=?base64?dA==?=")]), None);
        for wrong in [
            &good[1..],
            &good[..2],
            &[version, good[2]][..],
            &[("mcp-protocol-version", "2025-11-25"), good[1], good[2]],
            &[version, ("mcp-method", "tools/list"), good[2]],
            &[version, ("mcp-method", "Tools/call"), good[2]],
            &[version, good[1], ("mcp-name", "u")],
            &[version, good[1], ("mcp-name", "=?base64?dQ==?=")],
            &[version, good[1], ("mcp-name", "=?base64?!?=")],
            &[version, good[1], ("mcp-name", "ü")],
        ] {
            assert_eq!(check(wrong), Some(code::HEADER_MISMATCH), "{wrong:?}");
        }
    }

    #[test]
    fn older_revisions_need_no_headers_and_name_a_known_revision() {
        let call = request("tools/call", r#""name":"t""#);
        let check = |entries: &[(&'static str, &str)]| code_of(check(&headers(entries), &call, STATELESS));
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[("mcp-protocol-version", "2025-06-18")]), None);
        assert_eq!(check(&[("mcp-protocol-version", "1999-01-01")]), Some(code::UNSUPPORTED_REVISION));
        assert_eq!(check(&[("mcp-protocol-version", "2026-07-28")]), Some(code::INVALID_PARAMS));
        assert_eq!(check(&[("mcp-name", "u")]), Some(code::HEADER_MISMATCH), "someone may route by it");
    }

    #[test]
    fn mirrored_arguments_agree_with_the_body() {
        let definition = Raw::from_static(
            br#"{"name":"t","inputSchema":{"type":"object","properties":{
                "region":{"type":"string","x-mcp-header":"Region"},
                "count":{"type":"integer","x-mcp-header":"Count"}}}}"#,
        );
        let check = |entries: &[(&'static str, &str)], arguments: &'static str| {
            code_of(check_params(&headers(entries), &definition, &Raw::from(arguments)))
        };
        let (eu, three) = (("mcp-param-region", "eu"), ("mcp-param-count", "3.0"));
        assert_eq!(check(&[eu, three], r#"{"region":"eu","count":3}"#), None);
        assert_eq!(check(&[], r#"{"region":null}"#), None);
        for (entries, arguments) in [
            (&[eu][..], r#"{"region":"us"}"#),
            (&[], r#"{"region":"eu"}"#),
            (&[eu], "{}"),
            (&[three], r#"{"count":4}"#),
        ] {
            assert_eq!(check(entries, arguments), Some(code::HEADER_MISMATCH), "{arguments}");
        }
    }
}
