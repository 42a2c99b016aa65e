//! Lets rmcp look for metadata in all places: by itself, it ends at the first that fails.
//!
//! Each request of rmcp for metadata is recorded with its answer. After a failure, the answer of the place that failed
//! becomes 404, and rmcp starts again: it gets the recorded answers, and goes on with the next place.

use super::error::AuthError;
use oauth2::HttpResponse;
use reqwest::StatusCode;
use serde_json::Value;

/// More than a server has: 5 places of the resource's metadata, and 4 for each of its authorization servers.
const MAX_PLACES: usize = 32;

/// The requests for metadata and their answers, in the order in which rmcp makes them.
#[derive(Default)]
pub(super) struct MetadataWalk {
    answers: Vec<(String, HttpResponse)>,
    /// The index of the answer to the next request.
    next: usize,
    /// The issuer of the login. If the resource's metadata names it among others, the others are not asked.
    pub(super) issuer: Option<String>,
}

impl MetadataWalk {
    /// Returns the recorded answer to the next request, which is for `url`.
    ///
    /// # Errors
    ///
    /// `Refused` if there are too many places.
    pub(super) fn answer(&mut self, url: &str) -> Result<Option<HttpResponse>, AuthError> {
        if self.answers.get(self.next).is_some_and(|(place, _)| place != url) {
            self.answers.truncate(self.next);
        }
        if self.next == MAX_PLACES {
            return Err(AuthError::Refused(format!("its metadata leads to more than {MAX_PLACES} places")));
        }
        self.next += 1;
        Ok(self.answers.get(self.next - 1).map(|(_, answer)| answer.clone()))
    }

    /// Records the answer to the request for `url`; `None` if it failed.
    pub(super) fn record(&mut self, url: String, answer: Option<&mut HttpResponse>) {
        let answer = answer.map(|answer| {
            self.leave_known_issuer(answer);
            answer.clone()
        });
        self.answers.push((url, answer.unwrap_or_else(missing)));
    }

    /// Takes the last place as one without metadata, and starts again. Returns whether rmcp may go on.
    pub(super) fn skip_last(&mut self) -> bool {
        let may_go_on = self.answers.len() < MAX_PLACES;
        if let Some((_, answer)) = self.answers.last_mut() {
            *answer = missing();
        }
        self.next = 0;
        may_go_on
    }

    /// Removes from the resource's metadata the authorization servers other than that of the login, if it is named.
    fn leave_known_issuer(&self, answer: &mut HttpResponse) {
        let Some(known) = self.issuer.as_deref().map(without_slash) else { return };
        let Ok(Value::Object(mut metadata)) = serde_json::from_slice(answer.body()) else { return };
        let servers = metadata.get("authorization_servers").and_then(Value::as_array);
        let mut servers = servers.into_iter().flatten();
        let is_known = |server: &&Value| server.as_str().map(without_slash) == Some(known);
        if let Some(server) = servers.find(is_known).cloned() {
            metadata.insert("authorization_servers".to_owned(), Value::Array(vec![server]));
            metadata.remove("authorization_server");
            *answer.body_mut() = Value::Object(metadata).to_string().into_bytes();
        }
    }
}

/// Returns the answer of a place that has no metadata.
fn missing() -> HttpResponse {
    let mut answer = HttpResponse::new(Vec::new());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

/// Returns an issuer without the slash at its end, which users leave out.
pub(super) fn without_slash(issuer: &str) -> &str {
    issuer.strip_suffix('/').unwrap_or(issuer)
}
