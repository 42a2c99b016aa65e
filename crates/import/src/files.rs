//! Files that belong to others: how `import` reads, edits and writes them, and how it can take that back.
//!
//! # Theory of operation
//!
//! `edit` changes members of its text and leaves
//! everything else as it is; `put_back` inserts entries of an older text, with their `comments`. Both check that the new
//! text has the wanted content. `settings` changes the client's settings beside its servers, and puts them back.
//! `write` replaces the file if it is still as it was read.
//!
//! A config file of ours names the JSON Schema that `config_schema` writes beside it.
//!
//! `records` keeps a `change_record` for each change of a client's file. It is stored before the file is written, so
//! that no change is without one.

pub(crate) mod change_record;
pub(crate) mod comments;
pub mod config_schema;
pub mod edit;
pub(crate) mod put_back;
pub(crate) mod records;
pub(crate) mod settings;
pub mod write;
