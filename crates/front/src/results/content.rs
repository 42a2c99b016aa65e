//! The parts of a result of `tools/call`: its texts, its JSON, and everything else.

use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use wire::object::{self, Object};
use wire::scan::Scanner;
use wire::{Raw, raw};

/// A result that is no error, with its parts.
pub struct ToolResult {
    /// The result itself.
    object: Object,
    /// The blocks of `content`.
    pub blocks: Vec<Raw>,
    /// `structuredContent`, unless it is null.
    pub structured: Option<Raw>,
}

impl ToolResult {
    /// Finds the parts. `None` if the result is an error, has no content, or is no final result, such as a task.
    pub fn parse(result: &Raw) -> Option<Self> {
        let object = Object::parse(result)?;
        let is_final = object.get_str("resultType").is_none_or(|kind| kind == "complete");
        if !is_final || object.get("isError").is_some_and(|value| &value[..] == b"true") {
            return None;
        }
        let blocks = object.get("content").filter(|content| content.first() == Some(&b'['));
        let structured = object.get("structuredContent").filter(|value| &value[..] != b"null");
        if blocks.is_none() && structured.is_none() {
            return None;
        }
        let blocks = blocks.and_then(|content| raw::elements_of(&content)).unwrap_or_default();
        Some(Self { object, blocks, structured })
    }

    /// Returns the whole result.
    pub fn raw(&self) -> &Raw {
        self.object.text()
    }

    /// Returns how many bytes of the result are text or structured content, which a preview cuts.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts = self.blocks.iter().filter_map(|block| block_text(block).map(|text| text.raw.len()));
        texts.sum::<usize>() + self.structured.as_ref().map_or(0, Raw::len)
    }

    /// Returns the text of the result: that of its text blocks and embedded resources, each on lines of its own.
    /// Structured content follows as a line of JSON if it is longer than that, because then the text does not repeat
    /// it.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| Some(decode(&block_text(block)?.raw)));
        let mut texts: Vec<String> = texts.collect();
        let length: usize = texts.iter().map(String::len).sum();
        let structured = self.structured.as_ref().filter(|structured| structured.len() > length);
        texts.extend(structured.map(|json| String::from_utf8_lossy(json).into_owned()));
        texts.join("\n")
    }

    /// Returns the JSON of the result: its structured content, else its text if that is JSON. Several texts that all
    /// are JSON make an array.
    pub fn json(&self) -> Option<Raw> {
        if let Some(structured) = &self.structured {
            return Some(structured.clone());
        }
        let texts = self.blocks.iter().filter_map(block_text).filter(|text| text.kind == TextKind::Block);
        let values = texts.map(|text| Some(decode(&text.raw)).filter(|text| is_json(text.as_bytes())));
        let values: Vec<String> = values.collect::<Option<_>>()?;
        match &values[..] {
            [] => None,
            [value] => Some(value.clone().into()),
            values => Some(format!("[{}]", values.join(",")).into()),
        }
    }

    /// Returns the result with other blocks and without structured content. Everything else in it stays.
    pub(crate) fn with_blocks(&self, blocks: &[Raw]) -> Raw {
        raw::set(&self.object.without("structuredContent"), "content", &raw::array(blocks))
    }
}

/// What kind of block a text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A block of text.
    Block,
    /// An embedded resource.
    Resource,
}

/// The text of a block.
pub struct BlockText {
    /// Where it is.
    pub kind: TextKind,
    /// The text as a JSON string.
    pub raw: Raw,
}

/// Returns the text of a block. `None` if it has none, as an image.
pub fn block_text(block: &Raw) -> Option<BlockText> {
    let block = Object::parse(block)?;
    let text = |value: Raw| Some(value).filter(|value| value.first() == Some(&b'"'));
    match &*block.get_str("type")? {
        "text" => Some(BlockText { kind: TextKind::Block, raw: text(block.get("text")?)? }),
        "resource" => {
            let raw = text(raw::get(&block.get("resource")?, "text")?)?;
            Some(BlockText { kind: TextKind::Resource, raw })
        }
        _ => None,
    }
}

/// Returns the content of a JSON string. Halves of surrogate pairs are replaced by U+FFFD. Any other text gives an
/// empty one.
pub fn decode(text: &[u8]) -> String {
    struct Lossy;
    impl Visitor<'_> for Lossy {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    let lossy = || serde_json::Deserializer::from_slice(text).deserialize_bytes(Lossy).unwrap_or_default();
    object::string(text).unwrap_or_else(lossy)
}

/// Returns whether the text is one JSON value.
pub fn is_json(text: &[u8]) -> bool {
    let mut scanner = Scanner::new(text);
    scanner.value().is_some() && scanner.end().is_some()
}

/// Returns a block of text.
pub(crate) fn text_block(text: &str) -> Raw {
    serde_json::json!({ "type": "text", "text": text }).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<ToolResult> {
        ToolResult::parse(&Raw::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn only_final_results_that_are_no_errors_have_parts() {
        for text in [
            r#"{"content":[],"isError":true}"#,
            r#"{"task":{"taskId":"1"}}"#,
            r#"{"resultType":"input_required","inputRequests":{},"content":[]}"#,
            r#"{"resultType":"task","content":[]}"#,
            "{}",
            "[1]",
        ] {
            assert!(parse(text).is_none(), "{text}");
        }
        assert!(parse(r#"{"content":[],"isError":false,"resultType":"complete"}"#).is_some());
    }

    #[test]
    fn structured_content_is_the_json_else_text_that_is_json() {
        for (text, json) in [
            (
                r#"{"content":[{"type":"text","text":"{}"}],"structuredContent":{"a":1.10}}"#,
                Some(r#"{"a":1.10}"#),
            ),
            (r#"{"content":[{"type":"text","text":" {\"a\":[1e400]} "}]}"#, Some(r#" {"a":[1e400]} "#)),
            (
                r#"{"content":[{"type":"text","text":"1"},{"type":"image"},{"type":"text","text":"{}"}]}"#,
                Some("[1,{}]"),
            ),
            (r#"{"content":[{"type":"text","text":"1"},{"type":"text","text":"and words"}]}"#, None),
            (r#"{"content":[{"type":"text","text":"{"}]}"#, None),
            (r#"{"content":[{"type":"image","data":"AA=="}]}"#, None),
            (r#"{"content":[],"structuredContent":null}"#, None),
        ] {
            let found = parse(text).unwrap().json();
            assert_eq!(found.as_deref(), json.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn the_text_is_that_of_all_blocks_and_of_embedded_resources() {
        let result = parse(r#"{"content":[{"type":"text","text":"a\n\ud800b"},{"type":"image","text":"no"},{"type":"resource","resource":{"uri":"x:","text":"é"}},{"type":"text","text":7}],"structuredContent":{}}"#).unwrap();
        assert_eq!(result.text(), "a\n\u{fffd}\u{fffd}\u{fffd}b\né");
        assert_eq!(parse(r#"{"structuredContent":{"a":1}}"#).unwrap().text(), r#"{"a":1}"#);
        let summary = r#"{"content":[{"type":"text","text":"rows"}],"structuredContent":{"rows":[1,2]}}"#;
        assert_eq!(parse(summary).unwrap().text(), "rows\n{\"rows\":[1,2]}");
    }

    #[test]
    fn other_members_stay_when_the_blocks_are_replaced() {
        let result =
            parse(r#"{"_meta":{"x":1.0},"content":[1],"structuredContent":{},"x-more":[1e400]}"#).unwrap();
        assert_eq!(
            result.with_blocks(&["2".into(), "3".into()]),
            r#"{"_meta":{"x":1.0},"content":[2,3],"x-more":[1e400]}"#
        );
        assert_eq!(parse(r#"{"structuredContent":{}}"#).unwrap().with_blocks(&[]), r#"{"content":[]}"#);
    }
}
