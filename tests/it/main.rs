//! The tests of the program as a whole, in one crate: they link once, and share what they need.

mod config;
