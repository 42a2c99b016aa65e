//! Tools' definitions: their signatures, their validity, and the validity of arguments for them.
//!
//! # Theory of operation
//!
//! A tool's definition is JSON in the form of MCP's `Tool`, and its parameters are a JSON Schema. This crate reads
//! definitions and does no I/O:
//!
//! - `signature` writes a definition in the manner of TypeScript, which takes a model fewer tokens. `types` writes a
//!   schema as a type, and names the types that are declared; `comments` writes the rest as
//!   comments, and `reference` follows references. `exact_numbers` keeps the digits of large numbers.
//! - `validate` checks a call's arguments before the server is asked.
//! - `definition` mends what clients reject in a definition.
//!
//! # Invariants
//!
//! - Definitions come from servers and may be invalid or hostile: every recursion has a limit.
//! - A schema that cannot be read makes a signature incomplete (`Signature::lossless`) or a check undecided, never an
//!   error.
//! - A check refuses arguments only if they certainly break a rule.
//!
//! ```no_run
//! let definition = wire::Raw::from_static(br#"{"inputSchema": {"properties": {"id": {"type": "integer"}}}}"#);
//! println!("{}", schema::signature::signature(&definition));
//! let validator = schema::validate::ArgumentValidator::default();
//! let verdict = validator.validate("get_item", &definition, br#"{"id": "x"}"#);
//! assert!(matches!(verdict, schema::validate::ArgumentVerdict::Misfit(_)));
//! ```

use wire::{Raw, raw};

pub mod comments;
pub mod definition;
mod exact_numbers;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../fuzz/glue/schema.rs"]
pub mod fuzz;
pub mod reference;
pub mod signature;
pub mod types;
pub mod validate;

/// Returns the schema of a tool's arguments: `inputSchema`, or `parameters`, as some servers call it. `null` counts as
/// absent.
pub(crate) fn of_arguments(definition: &Raw) -> Option<Raw> {
    let schema = |key| raw::get(definition, key).filter(|schema| &schema[..] != b"null");
    schema("inputSchema").or_else(|| schema("parameters"))
}

/// Returns whether the schema of a tool's arguments has a property of this name.
pub fn has_argument(definition: &Raw, name: &str) -> bool {
    let properties = of_arguments(definition).and_then(|schema| raw::get(&schema, "properties"));
    properties.is_some_and(|properties| raw::get(&properties, name).is_some())
}

#[cfg(test)]
mod tests;
