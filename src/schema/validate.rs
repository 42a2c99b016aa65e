//! Checks a call's arguments against its tool's schema before the server is asked.
//!
//! # Theory of operation
//!
//! `compile` turns a tool's `inputSchema` into a list of nodes (`node`), by the rules of its `draft`. The
//! [`ArgumentValidator`] keeps the nodes under the bytes of the tool's definition. `check` walks the bytes of the
//! arguments along the nodes (with `reader`) in one pass; it builds no values, and allocates nothing while the arguments
//! fit. It compares numbers by their digits (`decimal`), and other values by their bytes or, where the bytes differ, as
//! trees (`tree`). Arguments that do not fit are walked a second time, to collect the violations (`violation`).
//!
//! Arguments are refused only where they certainly break a rule. The server validates them anyway, so everything else
//! passes:
//!
//! - A rule that is not checked (`pattern`, `not`, `if`, a reference to another document, …) makes the fit unknown,
//!   never a misfit. So do numbers that programs round, strings that are not Unicode text, arguments that are not JSON,
//!   and checks that would take too long.
//! - Arguments are not checked against a schema that is invalid in every draft, or too large.
//! - `null` for an optional property passes: many servers treat it as the property's absence.

use super::of_arguments;
use crate::wire::Raw;
use compile::SchemaError;
use node::CompiledSchema;
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::Arc;

pub use check::ArgumentVerdict;
pub use violation::{Keyword, Violation, Violations};

mod check;
mod compile;
mod decimal;
mod draft;
mod node;
mod reader;
mod tree;
mod violation;

/// The number of schemas that are kept compiled.
const MAX_SCHEMAS: usize = 256;
/// Larger schemas are not compiled: that may take longer than the server's own answer.
const MAX_SCHEMA_BYTES: usize = 128 << 10;
/// Larger arguments are not checked.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// Checks arguments against the schemas of tools. It keeps the schemas that were used last in compiled form.
#[derive(Default)]
pub struct ArgumentValidator {
    schemas: Mutex<SchemaCache>,
}

impl ArgumentValidator {
    /// Checks `args` against the schema in a tool's definition.
    ///
    /// A schema that cannot be used is logged once, with the name `tool`.
    pub fn validate(&self, tool: impl Display, definition: &Raw, args: &[u8]) -> ArgumentVerdict {
        if args.len() > MAX_ARGUMENT_BYTES {
            return ArgumentVerdict::Unknown;
        }
        let schema = self.schemas.lock().get(tool, definition);
        schema.map_or(ArgumentVerdict::Unknown, |schema| check::check(&schema, args))
    }
}

/// The schemas that were used last, by the bytes of their tools' definitions.
#[derive(Default)]
struct SchemaCache {
    entries: Vec<CachedSchema>,
    /// The number of look-ups so far.
    uses: u64,
}

struct CachedSchema {
    definition: Raw,
    /// `None` if the definition has no schema, or one that cannot be used.
    schema: Option<Arc<CompiledSchema>>,
    /// The value of `uses` at the last look-up.
    last_use: u64,
}

impl SchemaCache {
    /// Returns the schema of a definition, compiled now if it is not in the cache.
    fn get(&mut self, tool: impl Display, definition: &Raw) -> Option<Arc<CompiledSchema>> {
        self.uses += 1;
        if let Some(entry) = self.entries.iter_mut().find(|entry| is_same(&entry.definition, definition)) {
            entry.last_use = self.uses;
            return entry.schema.clone();
        }
        let schema = of_arguments(definition).and_then(|schema| match compile_bounded(&schema) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => {
                tracing::warn!(%tool, %error, "the arguments of this tool are not checked before calls");
                None
            }
        });
        let entry =
            CachedSchema { definition: definition.clone(), schema: schema.clone(), last_use: self.uses };
        let is_full = self.entries.len() >= MAX_SCHEMAS;
        match self.entries.iter_mut().min_by_key(|entry| entry.last_use).filter(|_| is_full) {
            Some(oldest) => *oldest = entry,
            None => self.entries.push(entry),
        }
        schema
    }
}

/// Whether two definitions have the same bytes. Most are the same slice of memory.
fn is_same(a: &Raw, b: &Raw) -> bool {
    a.len() == b.len() && (a.as_ptr() == b.as_ptr() || a == b)
}

fn compile_bounded(schema: &[u8]) -> Result<CompiledSchema, SchemaError> {
    match schema.len() {
        bytes if bytes > MAX_SCHEMA_BYTES => Err(SchemaError::TooLarge { bytes, limit: MAX_SCHEMA_BYTES }),
        _ => compile::compile(schema),
    }
}

#[cfg(test)]
mod tests;
