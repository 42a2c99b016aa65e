//! Which launches start the same server.

use super::launch::{Launch, OWN_VAR_PREFIX};
use base::digest;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;

/// Tells whether two launches start the same server, in any process of the user. Not negative. Holds no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerId(pub(crate) i64);

impl Launch {
    /// Returns the id of the server: equal for the same program, arguments, working directory and environment. Our own
    /// variables do not count, because they differ between instances.
    pub fn server_id(&self) -> ServerId {
        let digits = self.digest(|name| name.as_encoded_bytes().starts_with(OWN_VAR_PREFIX.as_bytes()), 8);
        // 60 bits.
        ServerId(i64::from_str_radix(&digits[1..], 16).unwrap_or_default())
    }

    /// Returns a hash of what is executed, without the variables that are `left_out`, as `2 * length` hex digits.
    pub(crate) fn digest(&self, left_out: impl Fn(&OsStr) -> bool, length: usize) -> String {
        let mut env: Vec<_> = self.env.iter().filter(|(name, _)| !left_out(name)).collect();
        env.sort();
        let count = self.args.len().to_string();
        let fixed = [self.program.as_os_str(), self.cwd.as_os_str(), OsStr::new(&count)];
        let variables = env.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]);
        let parts = fixed.into_iter().chain(self.args.iter().map(AsRef::as_ref)).chain(variables);
        digest::of_parts(parts.map(OsStr::as_encoded_bytes), length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_depends_on_everything_but_our_own_variables() {
        let launch = |program: &str, args: &[&str], env: &[(&str, &str)], cwd: &str| {
            let launch = Launch {
                program: program.into(),
                args: args.iter().map(Into::into).collect(),
                env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                cwd: cwd.into(),
            };
            launch.server_id()
        };
        let vars = [("A", "1"), ("B", "2")];
        let server = launch("/s", &["a"], &vars, "/");
        assert_eq!(server, launch("/s", &["a"], &[vars[1], ("DYNAMIC_MCP_OWNER", "x"), vars[0]], "/"));
        for other in [
            launch("/t", &["a"], &vars, "/"),
            launch("/s", &["a", "A"], &vars, "/"),
            launch("/s", &["a", "A", "1"], &vars[1..], "/"),
            launch("/s", &["a"], &vars[1..], "/"),
            launch("/s", &["a"], &vars, "/tmp"),
        ] {
            assert_ne!(server, other);
        }
    }
}
