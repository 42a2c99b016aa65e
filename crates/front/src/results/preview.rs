//! The preview of a stored result: the beginning of its text, everything that is no text, and a note that says how the
//! rest is read.

use super::content::{TextKind, ToolResult, block_text, decode, text_block};
use super::{URI_PREFIX, shape, slices};
use base::text::grouped;
use config::OWN_GROUP;
use serde_json::json;
use wire::{Raw, json_string, raw};

/// The name of the only tool of our own group, which reads stored results.
pub(crate) const RESULT_TOOL: &str = "result";
/// How many bytes of text a preview has.
const MAX_PREVIEW: usize = 2000;

/// Returns the result that takes the place of a stored one. `limit` is the size above which results are stored.
/// `derived`: what to say if the result is not the upstream's own.
pub fn of(result: &ToolResult, id: &str, limit: usize, derived: Option<&str>) -> Raw {
    let room = MAX_PREVIEW.min(limit);
    let text = result.text();
    let (mut blocks, mut shown) = cut_blocks(result, room);
    if shown == 0
        && result.structured.is_some()
        && !result.blocks.iter().any(|block| block_text(block).is_some())
    {
        let beginning = beginning(&text, room);
        shown = beginning.len();
        blocks.push(text_block(beginning));
    }
    blocks.push(text_block(&note(result, &text, id, shown, derived)));
    result.with_blocks(&blocks)
}

/// Returns the blocks with their text cut, and how many bytes of text blocks there are.
fn cut_blocks(result: &ToolResult, room: usize) -> (Vec<Raw>, usize) {
    let (mut blocks, mut shown, mut left) = (Vec::new(), 0, room);
    for block in &result.blocks {
        match block_text(block) {
            None => blocks.push(block.clone()),
            Some(text) if text.kind == TextKind::Resource => {
                // Each keeps its beginning, because it is more than a text.
                let content = decode(&text.raw);
                let beginning = beginning(&content, room);
                blocks.push(if beginning.len() < content.len() {
                    raw::set_in(block, "resource", "text", &json_string(beginning))
                } else {
                    block.clone()
                });
            }
            Some(_) if left == 0 => {}
            Some(text) => {
                let content = decode(&text.raw);
                let beginning = beginning(&content, left);
                left = if beginning.len() < content.len() { 0 } else { left - beginning.len() };
                shown += beginning.len();
                blocks.push(raw::set_str(block, "text", beginning));
            }
        }
    }
    (blocks, shown)
}

/// Describes the JSON of a result, else its text.
pub(crate) fn shape_of(result: &ToolResult) -> String {
    match result.json() {
        Some(json) => shape::of_json(&json),
        None => shape::describe(&result.text()),
    }
}

/// The parts of a stored result, with an example of each.
const PARTS: [(&str, &str); 4] =
    [("lines", "1-100"), ("bytes", "0-5000"), ("search", "WORDS"), ("select", "JQ PROGRAM")];

/// Returns how a stored result is read in parts, this kind of part first.
pub(crate) fn how_to_read(id: &str, first: &str) -> String {
    let (chosen, others): (Vec<_>, Vec<_>) = PARTS.iter().partition(|(part, _)| *part == first);
    let mut args = json!({ "id": id });
    chosen.iter().for_each(|(part, example)| args[part] = json!(example));
    let call = json!({ "group": OWN_GROUP, "name": RESULT_TOOL, "args": args });
    let others: Vec<_> =
        others.iter().map(|(part, example)| format!("{}:{}", json!(part), json!(example))).collect();
    format!("call_dynamic_tool {call}, or in place of {first}: {}", others.join(", "))
}

fn note(result: &ToolResult, text: &str, id: &str, shown: usize, derived: Option<&str>) -> String {
    let derived = derived.map(|derived| format!(", {derived}")).unwrap_or_default();
    let (size, length) = (grouped(result.raw().len()), grouped(text.len()));
    let lines = slices::lines_in_words(text);
    format!(
        "[dynamic-mcp keeps this result of {size} bytes{derived}. Above are the first {} of its {length} bytes of text ({lines}). \
         Read more with {}. The whole is the resource {URI_PREFIX}{id}.\nShape: {}]",
        grouped(shown),
        how_to_read(id, "lines"),
        shape_of(result)
    )
}

/// Returns the beginning of a text, cut after a line if that loses little, and never within a character.
fn beginning(text: &str, room: usize) -> &str {
    if text.len() <= room {
        return text;
    }
    let cut = &text[..slices::floor(text, room)];
    match cut.rfind('\n') {
        Some(line_end) if line_end >= room / 2 => &cut[..line_end],
        _ => cut,
    }
}

/// Returns the contents of a stored result for `resources/read`: its blocks in order, then its structured content.
pub fn contents(result: &ToolResult, uri: &str) -> Raw {
    let with_uri = |kind: &str, key: &str, value: &Raw| -> Raw {
        raw::set(&json!({ "uri": uri, "mimeType": kind }).to_string().into(), key, value)
    };
    let of_block = |block: &Raw| -> Raw {
        let member = |key| raw::get(block, key);
        let kind = raw::get_str(block, "type").unwrap_or_default();
        match (&*kind, member("text"), member("data"), member("resource")) {
            ("text", Some(text), ..) => with_uri("text/plain", "text", &text),
            ("image" | "audio", _, Some(data), _) => {
                with_uri(&raw::get_str(block, "mimeType").unwrap_or_default(), "blob", &data)
            }
            ("resource", _, _, Some(resource)) => resource,
            _ => with_uri("application/json", "text", &json_text(block)),
        }
    };
    let mut contents: Vec<Raw> = result.blocks.iter().map(of_block).collect();
    contents
        .extend(result.structured.iter().map(|json| with_uri("application/json", "text", &json_text(json))));
    [b"{\"contents\":", &raw::array(&contents)[..], b"}"].concat().into()
}

/// JSON as a JSON string.
fn json_text(json: &Raw) -> Raw {
    json_string(&String::from_utf8_lossy(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn preview(result: &Value, limit: usize) -> Value {
        let raw = Raw::from(result.to_string());
        serde_json::from_slice(&of(&ToolResult::parse(&raw).unwrap(), "ID", limit, None)).unwrap()
    }

    #[test]
    fn text_is_cut_after_a_line_and_everything_else_stays() {
        let image = json!({"type": "image", "data": "A".repeat(9000), "mimeType": "image/png"});
        let link = json!({"type": "resource_link", "uri": "x:1", "name": "n"});
        let small = json!({"type": "resource", "resource": {"uri": "x:2", "text": "small", "x-more": 1}});
        let large = json!({"type": "resource", "resource": {"uri": "x:3", "mimeType": "text/css", "text": "é".repeat(9000)}});
        let lines = "0123456789\n".repeat(9000);
        let text = json!({"type": "text", "text": lines, "annotations": {"priority": 1}});
        let more = json!({"type": "text", "text": "left out"});
        let content = json!([image, text, link, small, large, more]);
        let got =
            preview(&json!({"content": content, "_meta": {"a": 1}, "structuredContent": {"n": 1}}), 50_000);
        assert_eq!((&got["_meta"]["a"], got.get("structuredContent")), (&json!(1), None));
        let blocks = got["content"].as_array().unwrap();
        assert_eq!(blocks.len(), 6);
        assert_eq!((&blocks[0], &blocks[2], &blocks[3]), (&image, &link, &small));
        assert_eq!(blocks[1]["annotations"], json!({"priority": 1}));
        let shown = blocks[1]["text"].as_str().unwrap();
        assert!(lines.starts_with(shown) && shown.ends_with("9") && (1980..=2000).contains(&shown.len()));
        assert_eq!(
            (&blocks[4]["resource"]["uri"], &blocks[4]["resource"]["mimeType"]),
            (&json!("x:3"), &json!("text/css"))
        );
        assert_eq!(blocks[4]["resource"]["text"], "é".repeat(1000));
        let note = blocks[5]["text"].as_str().unwrap();
        assert!(
            note.starts_with("[dynamic-mcp keeps this result of ")
                && note.contains("dynamic-mcp://result/ID"),
            "{note}"
        );
        assert!(note.ends_with("Shape: {n: number 1}]"), "{note}");
    }

    #[test]
    fn structured_content_alone_is_shown_as_text() {
        let got = preview(&json!({"structuredContent": {"rows": vec![1; 5000]}}), 1000);
        let blocks = got["content"].as_array().unwrap();
        assert_eq!((blocks.len(), blocks[0]["text"].as_str().unwrap().len()), (2, 1000));
        assert!(
            blocks[1]["text"]
                .as_str()
                .unwrap()
                .contains("Above are the first 1,000 of its 10,010 bytes of text (1 line)")
        );
    }

    #[test]
    fn a_resource_read_has_every_block_with_its_type() {
        let raw = Raw::from(
            r#"{"content":[{"type":"text","text":"a\ud800"},{"type":"image","data":"QQ==","mimeType":"image/png"},{"type":"resource","resource":{"uri":"x:1","text":"b"}},{"type":"x-new","n":1e400}],"structuredContent":{"n":1.10}}"#,
        );
        let got = contents(&ToolResult::parse(&raw).unwrap(), "u:");
        assert_eq!(
            got,
            r#"{"contents":[{"uri":"u:","mimeType":"text/plain","text":"a\ud800"},{"uri":"u:","mimeType":"image/png","blob":"QQ=="},{"uri":"x:1","text":"b"},{"uri":"u:","mimeType":"application/json","text":"{\"type\":\"x-new\",\"n\":1e400}"},{"uri":"u:","mimeType":"application/json","text":"{\"n\":1.10}"}]}"#
        );
    }

    proptest! {
        #[test]
        fn a_beginning_is_a_prefix_within_the_room(text in "(é|😀|a|\n){0,40}", room in 0usize..50) {
            let beginning = beginning(&text, room);
            prop_assert!(text.starts_with(beginning) && beginning.len() <= room.max(text.len().min(room)));
        }
    }
}
