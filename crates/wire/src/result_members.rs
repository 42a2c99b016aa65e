//! Notes which members a result may have, so that a large result is not searched for members that it lacks.

/// The members that the objects of a result may have, at any depth. A noted member may be missing: members are noted
/// for the whole message, and a key with escapes counts as every member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultMembers {
    /// One is called `isError`, and is `true`.
    pub is_error: bool,
    /// One is called `uri`.
    pub uri: bool,
}

impl ResultMembers {
    /// The members of a message that was not scanned.
    pub(crate) const ANY: Self = Self { is_error: true, uri: true };

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
