//! Which members a result may have, as far as somebody looks for them, so that nobody has to search a large result for
//! those that it does not have.

/// What members there may be in the objects of a result, at any depth. They are noted for the whole message, and a key with
/// escapes may be any, so there may be fewer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultMembers {
    /// One is called `isError`, and is `true`.
    pub is_error: bool,
    /// One is called `uri`.
    pub uri: bool,
}

impl ResultMembers {
    /// Those of a message of which nothing is known.
    pub const ANY: Self = Self { is_error: true, uri: true };

    /// Notes a member: its key without the quotes, whether that has escapes, and the first byte of the value.
    #[inline(always)]
    pub(super) fn add(&mut self, key: &[u8], escaped: bool, value: u8) {
        match key.len() {
            _ if escaped => *self = Self::ANY,
            3 => self.uri |= key == b"uri",
            7 => self.is_error |= value == b't' && key == b"isError",
            _ => {}
        }
    }
}
