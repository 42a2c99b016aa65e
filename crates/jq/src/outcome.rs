//! The outcome of a program: the first byte that the process writes. A text follows it.

/// The outputs of the program.
pub(super) const OUTPUTS: u8 = b'o';
/// What is wrong with the program.
pub(super) const INVALID: u8 = b'p';
/// The error that the program ended with.
pub(super) const FAILED: u8 = b'e';
/// Why the input is no JSON.
pub(super) const NO_JSON: u8 = b'j';
/// The outputs exceed the limit.
pub(super) const TOO_MUCH: u8 = b't';
