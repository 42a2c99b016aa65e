//! The tool `result` of our own group: reads stored results in parts.

use super::large_results;
use crate::arguments::CallArguments;
use crate::arguments::text_limits::LimitedText;
use crate::errors::tool_errors;
use crate::results::URI_PREFIX;
use crate::results::content::{ToolResult, text_block};
use crate::results::preview::{self, RESULT_TOOL};
use crate::results::slices::{self, TextPart};
use crate::results::store::{MAX_RESULTS, StoredResult};
use crate::session::context::RequestContext;
use base::blocking;
use base::text::grouped;
use config::OWN_GROUP;
use serde_json::json;
use std::cell::LazyCell;
use std::num::NonZeroUsize;
use std::time::Duration;
use wire::object::{self, Object};
use wire::{Raw, raw};

/// What `get_dynamic_tools` says about the group.
pub(crate) const DESCRIPTION: &str = "Group dynamic-mcp: 1 tool, which reads results that were too large or whose select failed.
result(args: { id: string, lines?: \"FIRST-LAST\", bytes?: \"FROM-TO\", search?: string, select?: string }): one part; lines count \
from 1, bytes from 0; search ignores case; select is a jq program. Without a part: the preview.";

/// How long it may take to find a part.
const WORK_TIMEOUT: Duration = Duration::from_secs(20);

/// What is wanted of a stored result.
#[derive(Debug, PartialEq, Eq)]
enum ResultPart {
    /// What the call that stored it returned.
    Preview,
    /// Lines, counted from 1.
    Lines(usize, Option<usize>),
    /// Bytes, counted from 0. The second offset is not included.
    Bytes(usize, Option<usize>),
    /// The places of these words.
    Search(String),
    /// The outputs of a jq program.
    Select(String),
}

/// Answers a call of our own group. The result of a call that fails has a text for the model.
pub async fn read(context: &RequestContext, arguments: &CallArguments<'_>) -> Raw {
    match answer(context, arguments).await {
        Ok(result) => result,
        Err(text) => tool_errors::result(&text),
    }
}

/// Reads the part of a stored result that the arguments name.
///
/// # Errors
///
/// The tool or an argument is wrong; the result is not there, or has no such part; its program fails; or it took too
/// long. The text for the model.
async fn answer(context: &RequestContext, arguments: &CallArguments<'_>) -> Result<Raw, String> {
    if arguments.tool != RESULT_TOOL {
        return Err(format!("Group {OWN_GROUP} has only the tool {RESULT_TOOL}.\n{DESCRIPTION}"));
    }
    let (id, part) = parse(arguments)?;
    let unknown = || tool_errors::unknown_result(&id, MAX_RESULTS);
    let session = context.session().ok_or_else(unknown)?;
    let stored = session.results.get(&id).await.ok_or_else(unknown)?;
    let limit = NonZeroUsize::new(stored.part_bytes);
    match part {
        ResultPart::Select(program) => {
            match large_results::derive(&context.requester.instance.jq, &stored.result, &program).await {
                Ok(Some(derived)) => Ok(large_results::deliver(context, derived, limit).await),
                Ok(None) => Err(unknown()),
                Err(error) => {
                    let (bytes, kept) =
                        (grouped(stored.result.len()), preview::how_to_read(&id, error.best_part()));
                    Err(tool_errors::select_failed(None, &error.why, &bytes, Some(&kept), &error.shape))
                }
            }
        }
        part => {
            let found = blocking::run(WORK_TIMEOUT, move || find(&stored, &id, &part)).await;
            found.map_err(|error| format!("Reading the stored result {error}; call again."))?
        }
    }
}

/// Finds a part of the text, or makes the preview.
///
/// # Errors
///
/// The text has fewer lines or bytes, or the result has no content that can be read. The text for the model.
fn find(stored: &StoredResult, id: &str, part: &ResultPart) -> Result<Raw, String> {
    let parsed =
        ToolResult::parse(&stored.result).ok_or_else(|| tool_errors::unknown_result(id, MAX_RESULTS))?;
    let limit = stored.part_bytes;
    let text = LazyCell::new(|| parsed.text());
    let (found, unit) = match part {
        ResultPart::Preview | ResultPart::Select(_) => return Ok(preview::of(&parsed, id, limit, None)),
        ResultPart::Search(words) => return Ok(texts(&[&slices::search(&text, words, limit)])),
        ResultPart::Lines(first, last) => {
            let lines = slices::count_lines(&text);
            let found = slices::lines(&text, *first, *last, limit);
            (found.ok_or_else(|| format!("The stored result has only {lines} lines of text."))?, "lines")
        }
        ResultPart::Bytes(from, _) if *from >= text.len() && *from > 0 => {
            return Err(format!("The stored result has only {} bytes of text.", text.len()));
        }
        ResultPart::Bytes(from, to) => (slices::bytes(&text, *from, *to, limit), "bytes"),
    };
    let note = place(&text, &found, unit, limit);
    Ok(texts(&[&text[found.bytes], &note]))
}

/// Says where a part is in its text, and how to go on if it was cut.
fn place(text: &str, part: &TextPart, unit: &str, limit: usize) -> String {
    let TextPart { bytes, cut_from } = part;
    let lines = format!(
        "lines {}-{} of {}",
        grouped(slices::line_of(text, bytes.start)),
        grouped(slices::line_of(text, bytes.end)),
        grouped(slices::count_lines(text))
    );
    let place = format!("[{lines}; bytes {}-{} of {}", bytes.start, bytes.end, text.len());
    match cut_from {
        None => format!("{place}]"),
        Some(wanted) => {
            // From the middle of a line, only a range of bytes can go on.
            let next = match text[bytes.end..].starts_with('\n') && unit == "lines" {
                true => format!(
                    "\"lines\":\"{}-{}\"",
                    slices::line_of(text, bytes.end) + 1,
                    slices::line_of(text, *wanted)
                ),
                false => format!("\"bytes\":\"{}-{wanted}\"", bytes.end),
            };
            format!("{place}; cut at {} bytes, go on with {next}]", grouped(limit))
        }
    }
}

fn texts(texts: &[&str]) -> Raw {
    let blocks: Vec<Raw> = texts.iter().map(|text| text_block(text)).collect();
    [b"{\"content\":", &raw::array(&blocks)[..], b"}"].concat().into()
}

/// Parses the id and the part. The id may be the URI of the result. Without a part, it is the preview.
///
/// # Errors
///
/// The id is missing; the part has the wrong form; or several parts are named. The text for the model.
fn parse(arguments: &CallArguments<'_>) -> Result<(String, ResultPart), String> {
    let members = Object::parse(&arguments.args).ok_or("The arguments must be a JSON object.")?;
    let id = members.get_str("id").ok_or("Argument \"id\" is missing: the id of the stored result.")?;
    LimitedText::Name.check_argument("id", &id)?;
    let id = id.strip_prefix(URI_PREFIX).unwrap_or(&id).to_owned();
    let given = |key: &str| members.get(key).filter(|value| !matches!(&value[..], b"null" | b"\"\""));
    let text = |key: &str, value: Raw| {
        object::string(&value).ok_or_else(|| format!("Argument {} must be a string.", json!(key)))
    };
    let range = |key: &str, value: Raw, end_of: fn(usize) -> usize| {
        parse_range(&value, end_of)
            .ok_or_else(|| format!("Argument {} must be a range, such as {}.", json!(key), json!("100-200")))
    };
    let mut parts = Vec::new();
    if let Some(value) = given("lines") {
        let (first, last) = range("lines", value, |only| only)?;
        parts.push(ResultPart::Lines(first, last));
    }
    if let Some(value) = given("bytes") {
        let (from, to) = range("bytes", value, |only| only.saturating_add(1))?;
        parts.push(ResultPart::Bytes(from, to));
    }
    if let Some(value) = given("search") {
        let words = text("search", value)?;
        LimitedText::Query.check_argument("search", &words)?;
        parts.push(ResultPart::Search(words));
    }
    // It may also stand beside the arguments, as for any call.
    match (given("select"), &arguments.select) {
        (Some(value), _) => parts.push(ResultPart::Select(text("select", value)?)),
        (None, Some(select)) => parts.push(ResultPart::Select(select.program.clone())),
        (None, None) => {}
    }
    match parts.len() {
        0 | 1 => Ok((id, parts.pop().unwrap_or(ResultPart::Preview))),
        _ => Err("Give one of \"lines\", \"bytes\", \"search\" and \"select\".".to_owned()),
    }
}

/// Parses a range in the forms that models write: `"100-200"`, `"100:200"`, `"100-"`, `"100"`, `100` and `[100, 200]`.
/// `None` for anything else. Returns no end if the range has none, and `end_of` its only number if it has one.
fn parse_range(value: &[u8], end_of: fn(usize) -> usize) -> Option<(usize, Option<usize>)> {
    let text = object::string(value).unwrap_or_else(|| String::from_utf8_lossy(value).into_owned());
    let is_list = text.starts_with('[');
    let text = text.trim_start_matches('[').trim_end_matches(']').replace("..", "-");
    let mut numbers = text.splitn(2, |c| matches!(c, '-' | ':') || (is_list && c == ',')).map(str::trim);
    let start = numbers.next()?.parse().ok()?;
    let end = match numbers.next() {
        None => Some(end_of(start)),
        Some("") => None,
        Some(end) => Some(end.parse().ok()?),
    };
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_args(args: &str) -> Result<(String, ResultPart), String> {
        parse(&CallArguments {
            group: None,
            tool: "result".into(),
            tool_as_json: None,
            args: Raw::copy_from_slice(args.as_bytes()),
            select: None,
        })
    }

    #[test]
    fn a_part_is_understood_in_every_form() {
        for (args, expected) in [
            (r#""lines":"3-7""#, ResultPart::Lines(3, Some(7))),
            (r#""lines":[3,7]"#, ResultPart::Lines(3, Some(7))),
            (r#""lines":"3:7""#, ResultPart::Lines(3, Some(7))),
            (r#""lines":"3..7""#, ResultPart::Lines(3, Some(7))),
            (r#""lines":"3 - ""#, ResultPart::Lines(3, None)),
            (r#""lines":3"#, ResultPart::Lines(3, Some(3))),
            (r#""bytes":"10-20""#, ResultPart::Bytes(10, Some(20))),
            (r#""bytes":"10""#, ResultPart::Bytes(10, Some(11))),
            (r#""search":"x","lines":null,"select":"""#, ResultPart::Search("x".into())),
            (r#""select":".a""#, ResultPart::Select(".a".into())),
            (r#""x":1"#, ResultPart::Preview),
        ] {
            let args = format!(r#"{{"id":"dynamic-mcp://result/i",{args}}}"#);
            assert_eq!(parse_args(&args), Ok(("i".to_owned(), expected)), "{args}");
        }
        for (args, error) in [
            (r#"{"lines":"1-2"}"#, "\"id\" is missing"),
            (r#"{"id":"i","lines":"a-b"}"#, "\"lines\" must be a range"),
            (r#"{"id":"i","lines":-1}"#, "must be a range"),
            (r#"{"id":"i","search":3}"#, "must be a string"),
            (r#"{"id":"i","lines":"1","bytes":"2"}"#, "Give one of"),
        ] {
            assert!(parse_args(args).unwrap_err().contains(error), "{args}");
        }
    }

    #[test]
    fn a_part_says_where_it_is_and_how_to_go_on() {
        let result = json!({"content": [{"type": "text", "text": "0123456789\n".repeat(1000)}]}).to_string();
        let stored = StoredResult { result: result.into(), part_bytes: 30 };
        let read = |part| {
            let found: serde_json::Value =
                serde_json::from_slice(&find(&stored, "i", &part).unwrap()).unwrap();
            [0, 1].map(|n| found["content"][n]["text"].as_str().unwrap().to_owned())
        };
        let [text, note] = read(ResultPart::Lines(10, Some(11)));
        assert_eq!(text, "0123456789\n0123456789");
        assert_eq!(note, "[lines 10-11 of 1,000; bytes 99-120 of 11000]");
        let [text, note] = read(ResultPart::Lines(10, Some(20)));
        assert_eq!(text, "0123456789\n0123456789");
        assert!(note.ends_with("; cut at 30 bytes, go on with \"lines\":\"12-20\"]"), "{note}");
        let [text, note] = read(ResultPart::Bytes(5, Some(500)));
        assert_eq!(text.len(), 30);
        assert!(note.ends_with("go on with \"bytes\":\"35-500\"]"), "{note}");
        for part in [ResultPart::Lines(1001, None), ResultPart::Bytes(11_000, None)] {
            assert!(find(&stored, "i", &part).unwrap_err().contains("has only"));
        }
    }
}
