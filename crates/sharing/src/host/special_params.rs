//! The members of a request's params that the host acts on.

use memchr::memmem;
use wire::{Raw, raw};

/// What the host must know of the params of a request.
#[derive(Default)]
pub(super) struct SpecialParams {
    /// The progress token of the instance.
    pub(super) progress_token: Option<Raw>,
    /// Whether the request asks for a task.
    pub(super) is_task: bool,
}

impl SpecialParams {
    /// Reads the members of the params that the host handles itself.
    pub(super) fn read(params: &Raw) -> Self {
        // Params may be large, and few have either member. A name may be written with escapes.
        let may_have = |name: &[u8]| memmem::find(params, name).is_some();
        if !may_have(b"progressToken") && !may_have(b"\"task\"") && !may_have(b"\\u") {
            return Self::default();
        }
        let members = raw::entries(params).unwrap_or_default();
        let member = |name: &str| members.iter().rfind(|(key, _)| key == name).map(|(_, value)| value);
        Self {
            progress_token: member("_meta").and_then(|given| raw::get(given, "progressToken")),
            is_task: member("task").is_some(),
        }
    }
}
