//! The requests of the test, and how their answers are compared.

use super::arguments::generate;
use base::text::{shorten, visible};
use regex_lite::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use terminal::outcome::{CommandError, EXIT_USAGE};
use wire::Reply;
use wire::protocol::methods::Method;

/// The most requests that a server is tested with. Each of them is asked after each other one.
pub(super) const MAX_REQUESTS: usize = 60;
/// How many resources are read, and how many prompts are filled in.
const MAX_OTHERS: usize = 10;
/// How many sets of arguments are generated for a tool at most.
const MAX_GENERATED: usize = 3;
/// How many characters of arguments and of answers are shown.
const MAX_SHOWN: usize = 80;
/// How many characters before the first difference of two answers are shown.
const MAX_BEFORE: usize = 30;

/// Calls to make in place of generated ones, by the name of the server.
pub(super) type CallsFile = BTreeMap<String, Vec<GivenCall>>;

/// A call to make.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenCall {
    pub(super) tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Regular expressions of what is the current time in its result.
    #[serde(default)]
    times: Vec<String>,
}

/// Reads a file of calls.
///
/// # Errors
///
/// Fails if it cannot be read, is not of this form, or has an invalid regular expression.
pub(super) fn read_calls(file: &Path) -> Result<CallsFile, CommandError> {
    let wrong = |error: &dyn fmt::Display| {
        CommandError::new(
            EXIT_USAGE,
            format!("the calls in {} cannot be read: {error}", base::text::path(file)),
        )
    };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let calls: CallsFile = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    let mut patterns = calls.values().flatten().flat_map(|call| &call.times);
    patterns.try_for_each(|pattern| Regex::new(pattern).map(drop)).map_err(|error| wrong(&error))?;
    Ok(calls)
}

/// A request of the test.
pub(super) struct TestRequest {
    pub(super) method: Method,
    pub(super) params: Value,
    times: Vec<Regex>,
}

/// The answer to a request.
pub(super) struct TestAnswer {
    /// Its JSON with sorted keys, without the current time.
    pub(super) text: String,
    /// Whether it is a result, and not one that is an error.
    pub(super) is_success: bool,
}

impl TestRequest {
    pub(super) fn new(method: Method, params: Value) -> Self {
        Self { method, params, times: Vec::new() }
    }

    /// Creates a call with generated arguments.
    pub(super) fn call(tool: &str, arguments: &Value) -> Self {
        Self::new(Method::ToolsCall, json!({"name": tool, "arguments": arguments}))
    }

    /// Creates a call of the file.
    pub(super) fn given(call: &GivenCall) -> Self {
        // `read_calls` has checked them.
        let times = call.times.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect();
        Self { times, ..Self::call(&call.tool, &Value::Object(call.arguments.clone())) }
    }

    /// Returns the tool that it calls; `None` if it is no call.
    pub(super) fn tool(&self) -> Option<&str> {
        self.params["name"].as_str().filter(|_| self.method == Method::ToolsCall)
    }

    /// Makes an answer comparable. The order of an object's members does not count.
    pub(super) fn answer(&self, reply: &Reply) -> TestAnswer {
        let (key, body) = match reply {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        // A number that does not fit stays in the text.
        let mut body = serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)));
        body.sort_all_objects();
        let text = format!("{{\"{key}\":{body}}}");
        let text = self.times.iter().fold(text, |text, time| time.replace_all(&text, "TIME").into_owned());
        TestAnswer { text, is_success: reply.is_ok() && body["isError"] != true }
    }
}

impl fmt::Display for TestRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tool() {
            Some(tool) => {
                let arguments = shorten(&visible(&self.params["arguments"].to_string()), MAX_SHOWN);
                write!(f, "{} {arguments}", visible(tool))
            }
            None => {
                let name = self.params.get("uri").or_else(|| self.params.get("name")).and_then(Value::as_str);
                write!(f, "{} {}", self.method.name(), visible(name.unwrap_or_default()))
            }
        }
    }
}

/// Returns the requests for a server with these lists: calls of these tools, its first resources and its first prompts.
/// Calls in `given` take the place of generated ones. They may be more than `MAX_REQUESTS`.
pub(super) fn choose(lists: &Value, tools: &[&Value], given: &[GivenCall]) -> Vec<TestRequest> {
    let mut requests = Vec::new();
    for most in (1..=MAX_GENERATED).rev() {
        requests = others(lists);
        for tool in tools {
            let name = tool["name"].as_str().unwrap_or_default();
            let before = requests.len();
            requests.extend(given.iter().filter(|call| call.tool == name).map(TestRequest::given));
            if requests.len() == before {
                let generated = generate(&tool["inputSchema"]);
                requests.extend(generated.iter().take(most).map(|made| TestRequest::call(name, made)));
            }
        }
        if requests.len() <= MAX_REQUESTS {
            break;
        }
    }
    requests
}

/// Returns the requests for resources and prompts.
fn others(lists: &Value) -> Vec<TestRequest> {
    let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let first = |key: &str| entries(&lists[key]).into_iter().take(MAX_OTHERS);
    let read = |it: Value| TestRequest::new(Method::ResourcesRead, json!({"uri": it["uri"]}));
    let fill = |it: Value| {
        let arguments = entries(&it["arguments"]).into_iter();
        let arguments =
            arguments.filter_map(|argument| Some((argument["name"].as_str()?.to_owned(), json!("one"))));
        let arguments: Map<_, _> = arguments.collect();
        TestRequest::new(Method::PromptsGet, json!({"name": it["name"], "arguments": arguments}))
    };
    first("resources").map(read).chain(first("prompts").map(fill)).collect()
}

/// Shows the first place where two answers differ, as "this instead of that".
pub(super) fn difference(one: &str, other: &str) -> String {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let part = |text: &str| {
        let part: String = text.chars().skip(same.saturating_sub(MAX_BEFORE)).take(MAX_SHOWN).collect();
        visible(&part)
    };
    format!("`{}` instead of `{}`", part(one), part(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(request: &TestRequest, result: &str) -> TestAnswer {
        request.answer(&Ok(result.to_owned().into()))
    }

    #[test]
    fn answers_are_equal_but_for_the_order_of_members_and_the_time() {
        let call: GivenCall =
            serde_json::from_value(json!({"tool": "t", "times": ["\\d\\d:\\d\\d"]})).unwrap();
        let timed = TestRequest::given(&call);
        let plain = TestRequest::call("t", &json!({}));
        let (a, b) = (r#"{"x":1,"y":{"b":"12:30","a":2}}"#, r#"{"y":{"a":2,"b":"12:31"},"x":1}"#);
        assert_eq!(answer(&timed, a).text, answer(&timed, b).text);
        assert_ne!(answer(&plain, a).text, answer(&plain, b).text);
        assert_eq!(answer(&plain, a).text, answer(&plain, r#"{"y":{"a":2,"b":"12:30"},"x":1}"#).text);
        assert_ne!(answer(&plain, r#"[1,2]"#).text, answer(&plain, r#"[2,1]"#).text);
        assert_ne!(answer(&plain, "{}").text, plain.answer(&Err("{}".into())).text);
        assert_ne!(answer(&plain, r#"{"n":1e400}"#).text, answer(&plain, r#"{"n":2e400}"#).text);
    }

    #[test]
    fn requests_are_chosen_for_each_tool_and_are_not_more_than_allowed() {
        let tool = |name: String| json!({"name": name, "inputSchema": {"properties": {"x": {"type": "string"}, "y": {}}, "required": ["x"]}});
        let tools: Vec<Value> = (0..20).map(|n| tool(format!("t{n}"))).collect();
        let lists = json!({
            "resources": [{"uri": "a:b"}],
            "prompts": [{"name": "p", "arguments": [{"name": "q", "required": false}]}],
        });
        let chosen = |count: usize, given: &[GivenCall]| {
            let requests = choose(&lists, &tools.iter().take(count).collect::<Vec<_>>(), given);
            requests.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            chosen(1, &[]),
            [
                "resources/read a:b",
                "prompts/get p",
                r#"t0 {"x":"one"}"#,
                r#"t0 {"x":"two"}"#,
                r#"t0 {"x":"two","y":"two"}"#
            ]
        );
        assert_eq!(chosen(20, &[]).len(), 42, "two for each tool");
        let given: Vec<GivenCall> =
            serde_json::from_value(json!([{"tool": "t0", "arguments": {"x": 7}}])).unwrap();
        assert_eq!(chosen(2, &given)[2], r#"t0 {"x":7}"#);
        assert_eq!(chosen(2, &given).len(), 6);
    }

    #[test]
    fn an_error_is_no_success() {
        let call = TestRequest::call("t", &json!({}));
        assert!(answer(&call, r#"{"content":[]}"#).is_success);
        assert!(!answer(&call, r#"{"content":[],"isError":true}"#).is_success);
        assert!(!call.answer(&Err("{}".into())).is_success);
    }

    #[test]
    fn a_request_and_a_difference_are_short_and_visible() {
        assert_eq!(TestRequest::call("a\nb", &json!({"x": 1})).to_string(), r#"a\nb {"x":1}"#);
        let read = TestRequest::new(Method::ResourcesRead, json!({"uri": "file:///a"}));
        assert_eq!(read.to_string(), "resources/read file:///a");
        let long = TestRequest::call("t", &json!({"x": "é".repeat(500)})).to_string();
        assert!(long.chars().count() <= MAX_SHOWN + 2, "{long}");
        let before = "y".repeat(100);
        let shown = difference(&format!("{before}é\u{1b}"), &before);
        assert_eq!(shown, format!("`{0}é\\u{{1b}}` instead of `{0}`", "y".repeat(30)));
    }
}
