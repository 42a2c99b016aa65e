//! A tool's definition as a signature in the manner of TypeScript, its descriptions as comments: a third
//! fewer tokens than the JSON Schema, and all that is needed to call the tool.

use super::notes::comment;
use super::of_arguments;
use super::types::{Type, Types};
use crate::wire::{Raw, raw};
use serde_json::Value;
use std::fmt;

/// The description ends here, and so do the parameters, whatever there is still to say.
const LONGEST: usize = 15_000;
const LINES: usize = 200;
/// What a tool gives back is written out up to this length: it explains itself when it comes.
const RESULT: usize = 200;

/// A tool, the short way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The tool's description.
    pub about: String,
    /// `name(parameters): result`, and on lines of their own the types it names.
    pub call: String,
    /// It says all that the definition says of the arguments. Where it does not, only the definition will do.
    pub lossless: bool,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.about.is_empty() {
            true => f.write_str(&self.call),
            false => write!(f, "/* {} */\n{}", self.about, self.call),
        }
    }
}

/// The signature of the tool that `definition` describes.
pub fn signature(definition: &Raw) -> Signature {
    let text = |key| raw::get_str(definition, key).unwrap_or_default();
    let (parameters, named, lossless) = match of_arguments(definition) {
        None => (String::new(), String::new(), true),
        // Numbers that no program here can hold: the definition itself has them.
        Some(schema) => match serde_json::from_slice(&schema) {
            Ok(schema) => written(&schema),
            Err(_) => ("args?: object".to_owned(), String::new(), false),
        },
    };
    let call = format!("{}({parameters}){}{named}", text("name"), result(definition));
    let description = text("description");
    let mut lines = description.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let about = lines.by_ref().take(LINES).collect::<Vec<_>>().join("\n");
    let (about, all_of_it) = cut(comment(about.trim()));
    let all_of_it = all_of_it && lines.next().is_none();
    let (call, all) = cut(call);
    Signature { about, call, lossless: lossless && all_of_it && all }
}

/// No longer than it may be, and whether it was not.
fn cut(mut text: String) -> (String, bool) {
    let Some((end, _)) = text.char_indices().nth(LONGEST) else { return (text, true) };
    text.truncate(end);
    text.push('…');
    (text, false)
}

/// The parameters, the types they name, and whether that is all.
fn written(schema: &Value) -> (String, String, bool) {
    let mut types = Types::new(schema);
    let parameters = match types.members(schema) {
        Some((members, notes)) if notes.is_empty() => members.join(", "),
        Some((members, notes)) => format!("/* {} */ {}", comment(&notes.join("; ")), members.join(", ")),
        None => match types.of(schema) {
            Type { text, .. } if text == "object" => "args?: object".to_owned(),
            whole => format!("args: {}", whole.commented()),
        },
    };
    let named = types.named();
    (parameters, named, types.lossless)
}

/// `: T`, where the tool says what it gives back.
fn result(definition: &Raw) -> String {
    let schema = raw::get(definition, "outputSchema").filter(|schema| &schema[..] != b"null");
    let Some(schema) = schema else { return String::new() };
    let Ok(schema) = serde_json::from_slice::<Value>(&schema) else { return ": {…}".to_owned() };
    let mut types = Types::new(&schema);
    let text = types.of(&schema).text;
    let whole = text.chars().count() <= RESULT && types.named().is_empty();
    format!(": {}", if whole { &text } else { "{…}" })
}

#[cfg(test)]
mod tests;
