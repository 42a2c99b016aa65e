//! Tool definitions read as what they are: JSON Schema, and the MCP schema of a tool. Pure.
//!
//! `signature` writes a definition the short way, `arguments` tells whether arguments fit one, `definition` whether
//! clients will take it.

use crate::wire::{Raw, raw};

pub mod definition;
pub mod notes;
pub mod reference;
pub mod signature;
pub mod types;
pub mod validate;

/// The schema of a tool's arguments: `inputSchema`, or `parameters` as some servers write it.
pub fn of_arguments(definition: &Raw) -> Option<Raw> {
    let schema = |key| raw::get(definition, key).filter(|schema| &schema[..] != b"null");
    schema("inputSchema").or_else(|| schema("parameters"))
}

#[cfg(test)]
mod tests;
