//! Files that belong to others: how `import` reads, edits and writes them, and how it can take that back.
//!
//! # Theory of operation
//!
//! `edit` changes members of its text and leaves
//! everything else as it is; `put_back` inserts entries of an older text, with their `comments`. Both check that the new
//! text has the wanted content. `rule_lists` renames rules for tools, and `allowed` edits the list of the only servers that a client starts. `write` replaces the file if
//! it is still as it was read.
//!
//! `records` keeps a `change_record` for each change of a client's file. It is stored before the file is written, so
//! that no change is without one.

pub(crate) mod allowed;
pub(crate) mod change_record;
pub(crate) mod comments;
pub mod edit;
pub(crate) mod put_back;
pub(crate) mod records;
pub(crate) mod rule_lists;
pub(crate) mod settings;
pub mod write;
