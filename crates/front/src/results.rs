//! Results of tools that are too large for a client: kept by the session, described, and read in parts.
//!
//! # Theory of operation
//!
//! Clients cut large results, and what they cut is lost. So a result above the limit of its server (`store_above`) stays
//! in the [`ResultStore`] of the session, and the client gets a preview: the beginning of its text, its [`shape`], and
//! the id by which it is read, whole or in parts. A result whose `select` failed is kept as well, so that a corrected
//! program needs no second call of the tool.
//!
//! [`content`] finds the parts of a result: its texts, its JSON, and the images, audio and resources, which stay as they
//! are in a preview. [`preview`] writes the preview. [`slices`] cuts a text by lines, by bytes or by a search. [`store`]
//! keeps results in memory and in files without a name, so that nothing is left of them however the process ends.
//!
//! Everything but the store is pure. `call::large_results` and `call::stored_result` use it.

pub mod content;
pub mod preview;
pub mod shape;
pub mod slices;
pub mod store;

pub use store::ResultStore;

/// The scheme and authority of the URIs of stored results.
pub(crate) const URI_PREFIX: &str = "dynamic-mcp://result/";
