//! A tool's definition as a signature in the manner of TypeScript.
//!
//! A signature takes a third fewer tokens than the definition's JSON Schema, and a model can call the tool by it.

use super::comments::{cut, escape_comment};
use super::exact_numbers;
use super::of_arguments;
use super::types::{TypeExpression, TypeWriter};
use base::text::{name, one_line, visible};
use serde_json::Value;
use std::fmt;
use wire::{Raw, raw};

/// A longer description or call signature is cut.
const MAX_CHARACTERS: usize = 15_000;
/// A longer result type is left out: results explain themselves.
const MAX_RESULT_CHARACTERS: usize = 200;

/// A tool's definition in the manner of TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The tool's description, on one line.
    pub description: String,
    /// `name(parameters): result`, with the declarations of the types that it names on lines of their own.
    pub call: String,
    /// Whether the signature has everything that the definition says of the arguments.
    pub lossless: bool,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.description.is_empty() {
            true => f.write_str(&self.call),
            false => write!(f, "/* {} */\n{}", self.description, self.call),
        }
    }
}

/// Writes the signature of the tool that `definition` describes.
pub fn signature(definition: &Raw) -> Signature {
    let text = |key| raw::get_str(definition, key).unwrap_or_default();
    let (parameters, declarations, lossless) = match of_arguments(definition) {
        None => (String::new(), String::new(), true),
        Some(schema) => match exact_numbers::parse(&schema) {
            Some(schema) => parameters(&schema),
            None => ("args?: object".to_owned(), String::new(), false),
        },
    };
    // A model cannot call a tool or name a parameter by an escape.
    let shown = visible(&parameters);
    let lossless = lossless && shown == parameters;
    let call = format!("{}({shown}){}{declarations}", name(&text("name")), visible(&result_type(definition)));
    let (description, is_complete) = cut(escape_comment(&one_line(&text("description"))), MAX_CHARACTERS);
    let (call, is_call_complete) = cut(call, MAX_CHARACTERS);
    Signature { description, call, lossless: lossless && is_complete && is_call_complete }
}

/// Returns the parameters, the declarations of the types that they name, and whether that is all of the schema.
fn parameters(schema: &Value) -> (String, String, bool) {
    let mut types = TypeWriter::new(schema);
    let parameters = match types.members(schema) {
        Some((members, comments)) if comments.is_empty() => members.join(", "),
        Some((members, comments)) => {
            format!("/* {} */ {}", escape_comment(&comments.join("; ")), members.join(", "))
        }
        None => match types.write(schema) {
            TypeExpression { text, .. } if text == "object" => "args?: object".to_owned(),
            arguments => format!("args: {}", arguments.with_comments()),
        },
    };
    let declarations = types.declarations();
    (parameters, declarations, types.lossless)
}

/// `: T`, if the definition has an output schema.
fn result_type(definition: &Raw) -> String {
    let schema = raw::get(definition, "outputSchema").filter(|schema| &schema[..] != b"null");
    let Some(schema) = schema else { return String::new() };
    let Some(schema) = exact_numbers::parse(&schema) else { return ": {…}".to_owned() };
    let mut types = TypeWriter::new(&schema);
    let text = types.write(&schema).text;
    let is_short = text.chars().count() <= MAX_RESULT_CHARACTERS && types.declarations().is_empty();
    format!(": {}", if is_short { &text } else { "{…}" })
}

#[cfg(test)]
mod tests;
