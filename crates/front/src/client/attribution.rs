//! Names the group in every question and notification of an upstream, because the client knows only the proxy.
//!
//! A question begins with the name of its group, and a URL in it must lead to a web page. A notification that names
//! another group is marked or dropped. Clients may ignore the case of keys, so a message that has a key twice, or in
//! the wrong case, is refused: the client could read another value than was checked here.

use crate::names::origins::Origins;
use base::text::{visible, visible_lines};
use config::GroupName;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::{Arc, Weak};
use upstream::GroupManager;
use url::Url;
use wire::object::{Object, Value};
use wire::protocol::methods::{Method, notification};
use wire::protocol::{CLIENT_NAME, meta};
use wire::{Raw, fold, raw};

/// Why something that a server sent is kept from the client.
pub(crate) type Refusal = &'static str;

/// A key that clients may read in two ways.
const AMBIGUOUS: Refusal = "a member is given twice, or has a key that some programs read as another one";
/// A URL that no browser should open.
const NO_WEB_PAGE: Refusal = "it asks the user to open a URL that is neither http nor https";
/// A key of `inputRequests` with half of a surrogate pair.
const NOT_TEXT: Refusal = "a key of its requests for input is not Unicode text";
/// A notification about the question of another group.
const OF_ANOTHER_GROUP: Refusal = "it is about a question of another group";

/// Names the groups to one client, and remembers which group has asked what.
pub struct Attribution {
    /// The groups of this instance.
    groups: Weak<GroupManager>,
    /// The ids of the elicitations that each group has sent.
    elicitations: Mutex<Origins>,
}

impl Attribution {
    /// Creates the attribution for a new session, in which no group has asked anything.
    pub fn new(groups: &Arc<GroupManager>) -> Self {
        Self { groups: Arc::downgrade(groups), elicitations: Mutex::default() }
    }

    /// Puts the name of the group into the params of a request to the client: in front of the message of an
    /// elicitation, and into `_meta` of a sampling request. The params of other requests stay as they are.
    ///
    /// # Errors
    ///
    /// The client must not see the request: it could be read in two ways, or asks the user to open what is no web page.
    pub fn request(
        &self,
        group: &GroupName,
        method: &str,
        params: Option<Raw>,
    ) -> Result<Option<Raw>, Refusal> {
        let named = match Method::parse(method) {
            Some(Method::ElicitationCreate) => self.elicitation(group, params.as_ref()),
            Some(Method::SamplingCreateMessage) => sampling(group, params.as_ref()),
            _ => return Ok(params),
        };
        let named = named.inspect_err(|why| tracing::warn!(%group, method, why, "refused a question"));
        named.map(Some)
    }

    /// Puts the name of the group into the requests for input of a result, or of a report about a task. One without
    /// such requests stays as it is.
    ///
    /// # Errors
    ///
    /// The client must not see one of them, or the result could be read in two ways.
    pub fn inputs(&self, group: &GroupName, result: &Raw) -> Result<Raw, Refusal> {
        let Some(object) = Object::parse(result) else { return Ok(result.clone()) };
        if !object.keys().any(|key| fold::is_same(&key, "inputRequests")) {
            return Ok(result.clone());
        }
        check_spelling(&object, &["resultType", "inputRequests"])?;
        let requests = object.value("inputRequests").map(|requests| result.slice_ref(requests.text()));
        let Some(requests) = requests.and_then(|requests| Object::parse(&requests)) else {
            return Ok(result.clone());
        };
        let mut named = Vec::new();
        for (key, request) in requests.entries().ok_or(NOT_TEXT)? {
            let Some(object) = Object::parse(&request) else { continue };
            check_spelling(&object, &["method", "params"])?;
            let Some(method) = object.get_str("method") else { continue };
            let given = object.get("params");
            let params = self.request(group, &method, given.clone())?;
            if let Some(params) = params.filter(|params| given.as_ref() != Some(params)) {
                named.push((key, raw::set(&request, "params", &params)));
            }
        }
        let requests = requests.with(&mut named.iter().map(|(key, request)| (&**key, request.clone())));
        Ok(raw::set(result, "inputRequests", &requests.join()))
    }

    /// Puts the name of the group into the elicitations that an error asks for (code -32042, revision 2025-11-25). An
    /// error without elicitations stays as it is.
    ///
    /// # Errors
    ///
    /// The client must not see one of them.
    pub fn error(&self, group: &GroupName, error: Raw) -> Result<Raw, Refusal> {
        let data = raw::get(&error, "data");
        let elicitations = data.as_ref().and_then(|data| raw::elements(data, "elicitations"));
        let (Some(data), Some(elicitations)) = (data, elicitations) else { return Ok(error) };
        let method = Method::ElicitationCreate.name();
        let named: Result<Vec<_>, _> =
            elicitations.into_iter().map(|params| self.request(group, method, Some(params))).collect();
        let named: Vec<_> = named?.into_iter().flatten().collect();
        Ok(raw::set(&error, "data", &raw::set(&data, "elicitations", &raw::array(&named))))
    }

    /// Returns the params of a notification of `group` as the client may see them.
    ///
    /// # Errors
    ///
    /// The client must not see the notification: it could be read in two ways, is about a question of another group, or
    /// has a request for input that the client must not see.
    pub fn notification(&self, group: &GroupName, method: &str, params: &Raw) -> Result<Raw, Refusal> {
        let key = match method {
            notification::MESSAGE => "logger",
            notification::ELICITATION_COMPLETE => "elicitationId",
            notification::TASKS | notification::TASKS_STATUS => "taskId",
            notification::RESOURCES_UPDATED => "uri",
            _ => return Ok(params.clone()),
        };
        let Some(object) = Object::parse(params) else { return Ok(params.clone()) };
        check_spelling(&object, &[key])?;
        match (method, object.value(key).filter(|value| value.text() != b"null")) {
            (notification::MESSAGE, Some(logger)) => Ok(match self.marked_logger(group, logger) {
                Some(logger) => raw::set_str(params, key, &logger),
                None => params.clone(),
            }),
            (notification::ELICITATION_COMPLETE, Some(id)) => {
                let id = text_of(id);
                let is_foreign = self.elicitations.lock().groups(&id).any(|of| of != group);
                if is_foreign { Err(OF_ANOTHER_GROUP) } else { Ok(params.clone()) }
            }
            (notification::TASKS | notification::TASKS_STATUS, _) => self.inputs(group, params),
            _ => Ok(params.clone()),
        }
    }

    fn elicitation(&self, group: &GroupName, params: Option<&Raw>) -> Result<Raw, Refusal> {
        let object = object(params);
        check_spelling(&object, &["message", "mode", "url", "elicitationId", "requestedSchema"])?;
        let url = object.value("url").filter(|url| url.text() != b"null");
        if object.get_str("mode").is_some_and(|mode| mode == "url") || url.is_some() {
            let url = url.and_then(Value::as_str);
            url.filter(|url| is_web_page(url)).ok_or(NO_WEB_PAGE)?;
        }
        if let Some(id) = object.get_str("elicitationId") {
            self.elicitations.lock().record(group, vec![id.into_owned()]);
        }
        let message = match object.value("message").filter(|message| message.text() != b"null") {
            Some(message) => Cow::Owned(visible_lines(&text_of(message))),
            None => Cow::Borrowed("asks for input"),
        };
        let message = format!("[{}] {message}", visible(group.as_str()));
        Ok(raw::set_str(object.text(), "message", &message))
    }

    /// Returns the logger with the name of the group before it, if it is or looks like the name of another group.
    fn marked_logger(&self, group: &GroupName, logger: Value<'_>) -> Option<String> {
        let is_text = logger.as_str().is_some();
        let logger = text_of(logger);
        let shown = visible(&logger);
        let is_plain = is_text && shown == logger && !self.names_another(group, &logger);
        (!is_plain).then(|| format!("[{}] {shown}", visible(group.as_str())))
    }

    /// Returns whether a text has the name of another group, or ours, as a word.
    fn names_another(&self, group: &GroupName, text: &str) -> bool {
        let (text, own) = (fold::folded(text), fold::folded(group.as_str()));
        let groups = self.groups.upgrade().map(|groups| groups.all()).unwrap_or_default();
        let names = groups.iter().map(|group| fold::folded(group.name.as_str()));
        let mut others = names.chain([CLIENT_NAME.to_owned()]).filter(|name| *name != own);
        text != own && others.any(|name| has_word(&text, &name))
    }
}

/// Adds the name of the group to `_meta` of a sampling request. Its prompt stays as it is.
///
/// # Errors
///
/// The params have `_meta` twice or in the wrong case.
fn sampling(group: &GroupName, params: Option<&Raw>) -> Result<Raw, Refusal> {
    let object = object(params);
    check_spelling(&object, &["_meta"])?;
    let name = serde_json::Value::from(visible(group.as_str())).to_string();
    Ok(raw::set_in(object.text(), "_meta", meta::GROUP, name.as_bytes()))
}

/// Returns the params as an object, or an empty object for other params: a client can show nothing of those.
fn object(params: Option<&Raw>) -> Object {
    params.and_then(Object::parse).unwrap_or_default()
}

fn check_spelling(object: &Object, keys: &[&'static str]) -> Result<(), Refusal> {
    object.check_spelling(keys).map_err(|_| AMBIGUOUS)
}

/// Returns a string, or the JSON text of any other value.
fn text_of(value: Value<'_>) -> Cow<'_, str> {
    value.as_str().unwrap_or_else(|| String::from_utf8_lossy(value.text()))
}

/// Returns whether a browser opens a web page for this URL, and the user can see which one.
fn is_web_page(url: &str) -> bool {
    let is_web = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    is_web && visible(url) == url
}

/// Returns whether `word` is in the text and ends there at both sides.
fn has_word(text: &str, word: &str) -> bool {
    !word.is_empty()
        && text.match_indices(word).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + word.len()..]);
            !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribution() -> Attribution {
        Attribution { groups: Weak::new(), elicitations: Mutex::default() }
    }

    fn ask(method: &str, params: Option<&str>) -> Result<String, Refusal> {
        let params = params.map(|params| Raw::copy_from_slice(params.as_bytes()));
        let named = attribution().request(&GroupName::new("g\u{202e}"), method, params)?;
        Ok(String::from_utf8(named.unwrap().to_vec()).unwrap())
    }

    #[test]
    fn every_elicitation_begins_with_the_name_of_its_group() {
        let name = r"[g\\u{202e}]";
        for (params, message) in [
            (Some(r#"{"message":"a\n\tb\r\nc"}"#), r"a\n\tb\nc"),
            (
                Some(r#"{"message":"\u001b[2K\r[bank] \u202epin\u200b"}"#),
                r"\\u{1b}[2K\\r[bank] \\u{202e}pin\\u{200b}",
            ),
            (Some(r#"{"message":5}"#), "5"),
            (Some(r#"{"message":"\ud800"}"#), r#"\"\\ud800\""#),
            (Some(r#"{"message":null}"#), "asks for input"),
            (Some("{}"), "asks for input"),
            (Some("[1]"), "asks for input"),
            (None, "asks for input"),
        ] {
            let named = ask("elicitation/create", params).unwrap();
            assert_eq!(named, format!(r#"{{"message":"{name} {message}"}}"#), "{params:?}");
        }
        let spellings = [
            r#"{"message":"a","Message":"b"}"#,
            r#"{"me\u017fsage":"b"}"#,
            r#"{"url":"https://e","URL":"x:"}"#,
        ];
        for params in spellings.into_iter().chain([r#"{"message":"a","message":"b"}"#]) {
            assert_eq!(ask("elicitation/create", Some(params)), Err(AMBIGUOUS), "{params}");
        }
    }

    #[test]
    fn the_user_is_led_to_web_pages_only() {
        for url in [r#""https://e/x?y""#, r#""http://127.0.0.1:1/""#, r#""HTTPS://e""#] {
            assert!(
                ask("elicitation/create", Some(&format!(r#"{{"mode":"url","url":{url}}}"#))).is_ok(),
                "{url}"
            );
        }
        assert!(ask("elicitation/create", Some(r#"{"mode":"form","url":null}"#)).is_ok());
        for url in [
            "\"file:///etc/passwd\"",
            "\"javascript:alert(1)\"",
            "\"java\\nscript:alert(1)\"",
            "\"x\"",
            "1",
            "null",
            "\"vscode://x\"",
            "\"https://e/\\u202ex\"",
            "\"\\ud800\"",
        ] {
            let params = format!(r#"{{"mode":"url","url":{url}}}"#);
            assert_eq!(ask("elicitation/create", Some(&params)), Err(NO_WEB_PAGE), "{url}");
        }
        assert_eq!(ask("elicitation/create", Some(r#"{"mode":"form","url":"file:///x"}"#)), Err(NO_WEB_PAGE));
    }

    #[test]
    fn a_sampling_request_names_its_group_beside_the_prompt() {
        let name = r#""dynamic-mcp/group":"g\\u{202e}""#;
        for (params, named) in [
            (Some(r#"{"x":1e400}"#), format!(r#"{{"x":1e400,"_meta":{{{name}}}}}"#)),
            (Some(r#"{"_meta":{"a":1.0}}"#), format!(r#"{{"_meta":{{"a":1.0,{name}}}}}"#)),
            (Some(r#"{"_meta":{"dynamic-mcp/group":"bank"}}"#), format!(r#"{{"_meta":{{{name}}}}}"#)),
            (Some(r#"{"_meta":[]}"#), format!(r#"{{"_meta":{{{name}}}}}"#)),
            (None, format!(r#"{{"_meta":{{{name}}}}}"#)),
        ] {
            assert_eq!(ask("sampling/createMessage", params), Ok(named), "{params:?}");
        }
        assert_eq!(ask("sampling/createMessage", Some(r#"{"_Meta":{}}"#)), Err(AMBIGUOUS));
        assert_eq!(ask("roots/list", Some(r#"{"x":1e400}"#)).unwrap(), r#"{"x":1e400}"#);
    }

    #[test]
    fn questions_in_results_and_errors_name_their_group() {
        let (attribution, group) = (attribution(), GroupName::new("g"));
        let inputs = |text: &str| attribution.inputs(&group, &Raw::copy_from_slice(text.as_bytes()));
        let named = inputs(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"who?","x":1e400}},"b":{"method":"roots/list"},"c":{"method":"elicitation/create"},"d":{"method":"sampling\/createMessage","params":{}}},"requestState":"s"}"#,
        );
        assert_eq!(
            named.unwrap(),
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"[g] who?","x":1e400}},"b":{"method":"roots/list"},"c":{"method":"elicitation/create","params":{"message":"[g] asks for input"}},"d":{"method":"sampling\/createMessage","params":{"_meta":{"dynamic-mcp/group":"g"}}}},"requestState":"s"}"#
        );
        for unchanged in [r#"{"inputRequests":[1e400]}"#, r#"{"InputRequired":1e400}"#, "[1]"] {
            assert_eq!(inputs(unchanged).unwrap(), unchanged);
        }
        for (refused, why) in [
            (r#"{"InputRequests":{}}"#, AMBIGUOUS),
            (r#"{"inputRequests":{"a":{"method":"roots/list","Method":"elicitation/create"}}}"#, AMBIGUOUS),
            (r#"{"inputRequests":{"\ud800":{"method":"elicitation/create"}}}"#, NOT_TEXT),
            (
                r#"{"inputRequests":{"a":{"method":"elicitation/create","params":{"url":"x:y"}}}}"#,
                NO_WEB_PAGE,
            ),
        ] {
            assert_eq!(inputs(refused), Err(why), "{refused}");
        }
        let error = |url: &str| {
            let text = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"URL","message":"m"}],"x":1e400}}"#;
            attribution.error(&group, text.replace("URL", url).into())
        };
        let named = error("https://e").unwrap();
        assert!(named.ends_with(br#""url":"https://e","message":"[g] m"}],"x":1e400}}"#), "{named:?}");
        assert_eq!(error("file:///x"), Err(NO_WEB_PAGE));
    }

    #[test]
    fn a_notification_about_another_group_is_marked_or_dropped() {
        let (attribution, bank, evil) = (attribution(), GroupName::new("bank"), GroupName::new("evil"));
        let question = Raw::from_static(br#"{"mode":"url","url":"https://bank","elicitationId":"1"}"#);
        attribution.request(&bank, "elicitation/create", Some(question)).unwrap();
        let tell = |group: &GroupName, method: &str, params: &str| {
            let params = attribution.notification(group, method, &Raw::copy_from_slice(params.as_bytes()))?;
            Ok(String::from_utf8(params.to_vec()).unwrap())
        };
        let done = r#"{"elicitationId":"1","x":1e400}"#;
        assert_eq!(tell(&bank, notification::ELICITATION_COMPLETE, done).unwrap(), done);
        assert_eq!(tell(&evil, notification::ELICITATION_COMPLETE, done), Err(OF_ANOTHER_GROUP));
        for (method, params) in [
            (notification::ELICITATION_COMPLETE, r#"{"elicitationId":"2","ElicitationId":"1"}"#),
            (notification::TASKS_STATUS, r#"{"taskId":"evil:1","taskID":"bank:1"}"#),
            (notification::RESOURCES_UPDATED, r#"{"uri":"x:","URI":"bank:"}"#),
            (notification::MESSAGE, r#"{"Logger":"bank","data":1}"#),
        ] {
            assert_eq!(tell(&evil, method, params), Err(AMBIGUOUS), "{params}");
        }
        for (logger, marked) in [
            (r#""dynamic-mcp""#, r#""[evil] dynamic-mcp""#),
            (r#""the Dynamic-MCP.""#, r#""[evil] the Dynamic-MCP.""#),
            (r#""bank\u200b""#, r#""[evil] bank\\u{200b}""#),
            ("5", r#""[evil] 5""#),
            (r#""evil""#, r#""evil""#),
            (r#""dynamic-mcps \u00e9""#, r#""dynamic-mcps \u00e9""#),
            ("null", "null"),
        ] {
            let message = |logger| format!(r#"{{"logger":{logger},"data":1e400}}"#);
            assert_eq!(tell(&evil, notification::MESSAGE, &message(logger)), Ok(message(marked)), "{logger}");
        }
    }

    #[test]
    fn a_name_is_found_as_a_word_only() {
        for (text, found) in
            [("bank", true), ("[bank] x", true), ("a.bank/b", true), ("banks", false), ("a bank2 bank", true)]
        {
            assert_eq!(has_word(text, "bank"), found, "{text}");
        }
    }
}
