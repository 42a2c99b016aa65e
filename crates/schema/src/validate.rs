//! Checks a call's arguments against its tool's schema before the server is asked.
//!
//! # Theory of operation
//!
//! `compile` turns a tool's `inputSchema` into nodes, one for each schema in it. The [`ArgumentValidator`] keeps them with
//! the tool's definition. `check` walks the bytes of the arguments along the nodes in one pass, with the scanner of messages.
//! It builds no values, and allocates nothing while the arguments fit. Arguments that do not fit are walked a second time,
//! to collect the violations (`violation`).
//!
//! The server decides about arguments: it may take what its schema does not allow. Only what no server can take is refused
//! before it is asked ([`Violations::are_fatal`]). The other violations are told if the server answers with an error.
//! A violation is one only where the arguments certainly break a rule:
//!
//! - The keywords that models get wrong are checked. Any other rule (`pattern`, `not`, `if`, `uniqueItems`, a reference
//!   to another document, …) makes the fit of the values that it concerns unknown, unless another rule is broken. So does
//!   a keyword that drafts of JSON Schema read differently.
//! - Numbers that programs round, objects with a repeated key, arguments that are not JSON, schemas and arguments that
//!   are too large, and checks that would take too long make the fit unknown too.
//! - `null` for an optional property passes: many servers treat it as the property's absence.
//!
//! Arguments that break a rule are repaired (`repair`), each for which there is exactly one way to do so.

use super::of_arguments;
use compile::SchemaNode;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;
use wire::Raw;

pub use check::ArgumentVerdict;
pub use violation::{Violation, Violations};

mod check;
mod compile;
mod json;
mod repair;
mod violation;

/// The number of schemas that are kept compiled.
const MAX_SCHEMAS: usize = 256;
/// Larger schemas are not compiled: that may take longer than the server's own answer.
const MAX_SCHEMA_BYTES: usize = 128 << 10;
/// Larger arguments are not checked.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// The nodes of a schema.
type CompiledSchema = Arc<[SchemaNode]>;

/// Checks arguments against the schemas of tools. It keeps the schemas that were used last in compiled form.
#[derive(Default)]
pub struct ArgumentValidator {
    /// Tools' definitions and their schemas, that which was used last first. `None` for a definition that has no schema,
    /// or one that cannot be used.
    schemas: Mutex<VecDeque<(Raw, Option<CompiledSchema>)>>,
}

impl ArgumentValidator {
    /// Checks `args` against the schema in a tool's definition. Without a schema that can be used, and for arguments of
    /// more than 1 MiB, the verdict is `Unknown`.
    ///
    /// A schema that cannot be used is logged with the name `tool` when it enters the cache.
    pub fn validate(&self, tool: impl Display, definition: &Raw, args: &[u8]) -> ArgumentVerdict {
        match self.schema(tool, definition) {
            Some(nodes) if args.len() <= MAX_ARGUMENT_BYTES => check::check(&nodes, args),
            _ => ArgumentVerdict::Unknown,
        }
    }

    /// Returns the arguments with each value repaired that certainly does not fit the schema in a tool's definition and
    /// has exactly one repair. `None` if no value is repaired, and where [`validate`](Self::validate) does not decide.
    ///
    /// `drops_nulls`: `null` for an optional property is removed, even if nothing else is wrong. Otherwise it stays.
    pub fn repair(
        &self,
        tool: impl Display,
        definition: &Raw,
        args: &[u8],
        drops_nulls: bool,
    ) -> Option<Raw> {
        let nodes = self.schema(tool, definition).filter(|_| args.len() <= MAX_ARGUMENT_BYTES)?;
        repair::repair(&nodes, args, drops_nulls).map(Raw::from)
    }

    /// Returns the schema of a definition, compiled now if it is not in the cache. `None` if there is none, or if it
    /// cannot be used.
    fn schema(&self, tool: impl Display, definition: &Raw) -> Option<CompiledSchema> {
        let mut schemas = self.schemas.lock();
        // Most definitions are the same slice of memory.
        let is_same = |known: &Raw| {
            known.len() == definition.len() && (known.as_ptr() == definition.as_ptr() || known == definition)
        };
        let index = schemas.iter().position(|(known, _)| is_same(known));
        if index == Some(0) {
            return schemas.front().and_then(|(_, nodes)| nodes.clone());
        }
        let entry = index.and_then(|index| schemas.remove(index)).unwrap_or_else(|| {
            let nodes = compile(definition).unwrap_or_else(|error| {
                tracing::warn!(%tool, %error, "the arguments of this tool are not checked before calls");
                None
            });
            (definition.clone(), nodes.map(Arc::from))
        });
        let nodes = entry.1.clone();
        schemas.truncate(MAX_SCHEMAS - 1);
        schemas.push_front(entry);
        nodes
    }
}

/// Compiles the schema of a definition. `None` if it has none.
///
/// # Errors
///
/// The schema is not JSON, or too large. The text says which.
fn compile(definition: &Raw) -> Result<Option<Vec<SchemaNode>>, String> {
    let Some(schema) = of_arguments(definition) else { return Ok(None) };
    match schema.len() {
        0..=MAX_SCHEMA_BYTES => compile::compile(&schema).map(Some).map_err(|error| error.to_string()),
        bytes => Err(format!("its schema has {bytes} bytes, and at most {MAX_SCHEMA_BYTES} are read")),
    }
}

#[cfg(test)]
mod tests;
