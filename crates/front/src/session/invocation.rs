//! One request of the client that involves groups: its context and its params.

use super::context::RequestContext;
use crate::errors::{self, RpcError};
use crate::{lookup, text_limits};
use std::borrow::Cow;
use upstream::{GroupManager, Upstream};
use wire::params::Params;
use wire::{Raw, raw};

/// A request of the client.
#[derive(Clone)]
pub struct Invocation {
    /// The context of the request.
    pub context: RequestContext,
    /// The client's params, a JSON object.
    pub params: Params,
}

impl Invocation {
    /// Returns the groups of this instance.
    pub fn groups(&self) -> &GroupManager {
        self.context.groups()
    }

    /// Returns the group that `params.group` names, in any spelling, if it names one. `null` names none.
    ///
    /// # Errors
    ///
    /// There is no such group, or the member is no string.
    pub fn group(&self) -> Result<Option<Upstream>, RpcError> {
        let name = self.params.get("group").filter(|name| &name[..] != b"null");
        let Some(name) = name else { return Ok(None) };
        let name: String = serde_json::from_slice(&name)
            .map_err(|_| errors::invalid_params("params.group must be a string"))?;
        lookup::group(self.groups(), &name).map(Some).map_err(errors::invalid_params)
    }

    /// Returns the params without `group`, which upstreams do not know.
    pub(crate) fn params_without_group(&self) -> Raw {
        raw::remove(&self.params, "group")
    }

    /// Returns the params without `group`, with a string member replaced.
    pub fn params_with(&self, key: &str, value: &str) -> Raw {
        raw::set_str(&self.params_without_group(), key, value)
    }

    /// Returns a string member of the params, whose length was checked before the request was dispatched.
    ///
    /// # Errors
    ///
    /// The member is missing or not a string.
    pub fn string(&self, key: &str) -> Result<String, RpcError> {
        debug_assert!(text_limits::is_checked(key), "{key} has no limit");
        let text = self.params.get_str(key).map(Cow::into_owned);
        text.ok_or_else(|| errors::invalid_params(format!("params.{key} must be a string")))
    }
}
