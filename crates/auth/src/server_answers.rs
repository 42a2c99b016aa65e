//! Makes answers of authorization servers readable for rmcp, which is stricter than the SDKs that servers are tried
//! with.

use oauth2::HttpResponse;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Mends a token response (RFC 6749 section 5.1) or the answer to a registration (RFC 7591 section 3.2.1): the form of
/// its members and its media type. An OAuth error with the status of a success gets status 400.
pub(super) fn readable(mut response: HttpResponse) -> HttpResponse {
    if !response.status().is_success() {
        return response;
    }
    let Ok(mut answer) = serde_json::from_slice::<Map<String, Value>>(response.body()) else {
        return response;
    };
    if answer.contains_key("access_token") {
        mend_tokens(&mut answer);
    } else if answer.contains_key("client_id") {
        answer.entry("redirect_uris").or_insert_with(|| json!([]));
    } else if answer.get("error").is_some_and(Value::is_string) {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = Value::Object(answer).to_string().into_bytes();
    response
}

fn mend_tokens(answer: &mut Map<String, Value>) {
    // Entra and SAP send a text. A negative time is no time.
    let seconds = answer.remove("expires_in").and_then(|lifetime| match lifetime {
        Value::String(text) => text.trim().parse().ok(),
        lifetime => lifetime.as_f64(),
    });
    if let Some(lifetime) = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        answer.insert("expires_in".to_owned(), json!(lifetime.as_secs()));
    }
    let token_type = answer.entry("token_type").or_insert(Value::Null);
    if token_type.is_null() {
        *token_type = json!("Bearer");
    }
    if let Some(Value::Array(scopes)) = answer.get("scope") {
        let scopes: Vec<_> = scopes.iter().filter_map(Value::as_str).collect();
        answer.insert("scope".to_owned(), json!(scopes.join(" ")));
    }
}
