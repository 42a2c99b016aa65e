//! Questions of servers, and of us about calls that need approval, to the person at the terminal.
//!
//! A question is asked on stderr, so that stdout has the result alone. What a server wrote is shown with every hidden
//! character visible. Each field of a form is a line; an answer that does not fit is asked for again.

use base::blocking;
use base::text::{one_line, visible};
use instance::client::QuestionHandler;
use serde_json::{Map, Number, Value, json};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use wire::protocol::code;
use wire::protocol::methods::Method;
use wire::{Reply, Request, error_object};

/// How long a person may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns what answers the requests of a session to its client: the person at the terminal of this process, if it has
/// one. One question is asked at a time.
pub(in crate::cli) fn handler() -> QuestionHandler {
    let has_terminal = io::stdin().is_terminal() && terminal::is_stderr_shown();
    let turn = Arc::new(Semaphore::new(1));
    Arc::new(move |request| {
        let turn = Some(turn.clone()).filter(|_| has_terminal);
        Box::pin(async move { answer(&request, turn.as_deref()).await })
    })
}

async fn answer(request: &Request, turn: Option<&Semaphore>) -> Option<Reply> {
    let params: Option<Value> =
        request.params.as_ref().and_then(|params| serde_json::from_slice(params).ok());
    let params = params.filter(|_| request.method.known() == Some(Method::ElicitationCreate))?;
    Some(match ask(&params, turn).await {
        Some(answer) => Ok(answer.to_string().into()),
        None => {
            terminal::message("there is a question, and nobody to answer it; run it at a terminal");
            Err(error_object(code::INTERNAL_ERROR, "there is no terminal to ask", None))
        }
    })
}

/// Asks what an elicitation wants to know, when earlier questions are answered. Returns its result: `cancel` if the
/// terminal is closed or nobody answers within `ANSWER_TIMEOUT`. `None` if there is no terminal to ask at, which has no
/// `turn`, or if it is not a form.
async fn ask(params: &Value, turn: Option<&Semaphore>) -> Option<Value> {
    let is_form = params["mode"].as_str().is_none_or(|mode| mode == "form");
    let _turn = turn.filter(|_| is_form)?.acquire().await.ok()?;
    let (message, schema) = (question(params), params["requestedSchema"].clone());
    let asked = blocking::run(ANSWER_TIMEOUT, move || ask_form(&message, &schema, &mut ask_line)).await;
    match asked {
        Ok(Ok(Some(content))) => Some(json!({ "action": "accept", "content": content })),
        Ok(Ok(None)) => Some(json!({ "action": "decline" })),
        // The terminal was closed.
        Ok(Err(_)) | Err(_) => Some(json!({ "action": "cancel" })),
    }
}

/// Returns the message of an elicitation, with its line ends and everything else visible.
fn question(params: &Value) -> String {
    let message = params["message"].as_str().unwrap_or_default();
    message.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// Asks on stderr, and reads a line from stdin, without the space around it. Blocks.
///
/// # Errors
///
/// Fails if stdin cannot be read or is closed.
fn ask_line(prompt: &str) -> io::Result<String> {
    terminal::to_stderr(prompt);
    let mut answer = String::new();
    match io::stdin().read_line(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(answer.trim().to_owned()),
    }
}

/// Asks for the fields of a form, or for agreement if it has none. Asks again for an answer that does not fit. Returns
/// what was entered, or `None` for a no.
///
/// # Errors
///
/// That of `ask`.
fn ask_form(
    message: &str,
    schema: &Value,
    ask: &mut dyn FnMut(&str) -> io::Result<String>,
) -> io::Result<Option<Map<String, Value>>> {
    let is_yes = |answer: &str| matches!(answer.to_lowercase().as_str(), "y" | "yes");
    let empty = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&empty);
    if !is_yes(&ask(&format!("{message}\n{}[y/N] ", if fields.is_empty() { "" } else { "Answer it? " }))?) {
        return Ok(None);
    }
    let mut content = Map::new();
    for (name, field) in fields {
        let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|r| r == name));
        let prompt = prompt(name, field, required);
        loop {
            let answer = ask(&prompt)?;
            if answer.is_empty() {
                match (field.get("default"), required) {
                    (Some(default), _) => drop(content.insert(name.clone(), default.clone())),
                    (None, true) => continue,
                    (None, false) => {}
                }
                break;
            }
            if let Some(value) = parse(field, &answer) {
                content.insert(name.clone(), value);
                break;
            }
        }
    }
    Ok(Some(content))
}

/// Returns the line that asks for a field.
fn prompt(name: &str, field: &Value, required: bool) -> String {
    let title = field["title"].as_str().unwrap_or(name);
    let about =
        field["description"].as_str().map(|text| format!(" ({})", one_line(text))).unwrap_or_default();
    let kind = match (choices(field), field["type"].as_str()) {
        (Some(choices), _) => choices.iter().map(|choice| one_line(choice)).collect::<Vec<_>>().join(", "),
        (None, Some("boolean")) => "yes or no".to_owned(),
        (None, Some("integer")) => "a whole number".to_owned(),
        (None, Some("number")) => "a number".to_owned(),
        _ => "text".to_owned(),
    };
    let empty = match (field.get("default"), required) {
        (Some(default), _) => format!("; empty: {}", one_line(&default.to_string())),
        (None, true) => String::new(),
        (None, false) => "; may be empty".to_owned(),
    };
    format!("{}{about} [{kind}{empty}]: ", one_line(title))
}

/// Returns the values that a field may have, if they are listed.
fn choices(field: &Value) -> Option<Vec<String>> {
    let listed = field["enum"].as_array().map(|values| values.iter().collect::<Vec<_>>());
    let titled = || field["oneOf"].as_array().map(|all| all.iter().map(|one| &one["const"]).collect());
    let values = listed.or_else(titled)?;
    Some(values.into_iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Returns the value that an answer means. `None` if it does not fit the field.
fn parse(field: &Value, answer: &str) -> Option<Value> {
    if let Some(choices) = choices(field) {
        return choices.into_iter().find(|choice| choice == answer).map(Value::String);
    }
    match field["type"].as_str() {
        Some("boolean") => match answer.to_lowercase().as_str() {
            "y" | "yes" | "true" => Some(true.into()),
            "n" | "no" | "false" => Some(false.into()),
            _ => None,
        },
        Some("integer") => answer.parse::<i64>().ok().map(Value::from),
        Some("number") => answer.parse::<Number>().ok().map(Value::Number),
        // Several of a list.
        Some("array") => Some(answer.split(',').map(str::trim).collect()),
        _ => Some(answer.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(schema: &Value, answers: &[&str]) -> (Option<Value>, Vec<String>) {
        let (mut prompts, mut answers) = (Vec::new(), answers.iter());
        let mut ask = |prompt: &str| {
            prompts.push(prompt.to_owned());
            answers.next().map(ToString::to_string).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        };
        let content = ask_form("Allow?", schema, &mut ask).unwrap();
        (content.map(Value::Object), prompts)
    }

    #[test]
    fn a_form_without_fields_is_a_yes_or_no_that_is_no_by_default() {
        let schema = json!({"type": "object", "properties": {}});
        for (answer, expected) in
            [("y", Some(json!({}))), ("YES", Some(json!({}))), ("", None), ("n", None), ("yo", None)]
        {
            assert_eq!(asked(&schema, &[answer]), (expected, vec!["Allow?\n[y/N] ".to_owned()]), "{answer}");
        }
    }

    #[test]
    fn each_field_is_asked_for_until_its_answer_fits() {
        let schema = json!({
            "type": "object",
            "properties": {
                "age": {"type": "integer", "description": "In\nyears"},
                "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                "note": {"type": "string", "title": "A\u{202e}note"},
                "sure": {"type": "boolean"},
            },
            "required": ["age", "sure"],
        });
        let (content, prompts) = asked(&schema, &["y", "", "old", "41", "", "", "maybe", "no"]);
        assert_eq!(content, Some(json!({"age": 41, "color": "red", "sure": false})));
        assert_eq!(prompts[1], "age (In years) [a whole number]: ");
        assert_eq!(prompts[4], "color [red, green; empty: \"red\"]: ");
        assert_eq!(prompts[5], "A\\u{202e}note [text; may be empty]: ");
        assert_eq!(prompts[6], "sure [yes or no]: ");
        assert_eq!(prompts.len(), 8, "{prompts:?}");
    }
}
