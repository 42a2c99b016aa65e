//! Whose name is this? Which group a name or a URI belongs to, and under which one clients see it.
//!
//! # Theory of operation
//!
//! Tools and prompts have `exposed_names`. What a model writes is found by `lookup`, in any `spelling`; `own_tools` has the
//! names of our own tools. A URI belongs to the group that lists or covers it (`uri_owner`, with the `known_lists` of the
//! groups), else perhaps to one that named it in a result (`origins`). `apps` gives the URIs of user interfaces.

pub mod apps;
pub mod exposed_names;
pub mod known_lists;
pub mod lookup;
pub mod origins;
pub mod own_tools;
pub mod spelling;
pub mod uri_owner;
