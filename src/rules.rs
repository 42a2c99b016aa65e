//! Which tools of a group may be used, and how: the rules of its config entry, compiled.
//!
//! Each rule is a list of globs over the names that the server gives its tools. A tool must match `tools.allow` (if
//! that is not empty) and must not match `tools.deny`. Every route to a tool asks the same [`Rules`]: the lists,
//! search, descriptions and calls. `tools.ask`, `tools.read_only` and `expose` only change how an allowed tool is used.

use crate::config::{ServerConfig, ToolRules};
use globset::{Glob, GlobMatcher};

/// The globs of `tools` and `expose`, compiled. A tool that is not allowed does not exist on any route.
#[derive(Debug, Default)]
pub struct Rules {
    /// `tools.allow`; empty: all tools are allowed.
    allow: Vec<GlobMatcher>,
    /// `tools.deny`, which takes precedence over `allow`.
    deny: Vec<GlobMatcher>,
    /// `tools.ask`: the user confirms each call.
    ask: Vec<GlobMatcher>,
    /// `tools.read_only`: the tools count as read-only.
    read_only: Vec<GlobMatcher>,
    /// `expose`: `tools/list` lists the tools directly.
    expose: Vec<GlobMatcher>,
}

impl Rules {
    /// Compiles the globs. The config loader has checked them; an invalid one is skipped.
    pub fn new(rules: &ToolRules, expose: &[String]) -> Self {
        let compile = |globs: &[String]| {
            globs.iter().filter_map(|glob| Some(Glob::new(glob).ok()?.compile_matcher())).collect()
        };
        Self {
            allow: compile(&rules.allow),
            deny: compile(&rules.deny),
            ask: compile(&rules.ask),
            read_only: compile(&rules.read_only),
            expose: compile(expose),
        }
    }

    /// Returns whether the tool may be used at all.
    pub fn allows(&self, tool: &str) -> bool {
        (self.allow.is_empty() || matches(&self.allow, tool)) && !matches(&self.deny, tool)
    }

    /// Returns whether the user must confirm each call of the tool.
    pub fn asks(&self, tool: &str) -> bool {
        matches(&self.ask, tool)
    }

    /// Returns whether the tool counts as read-only, regardless of its annotations.
    pub fn read_only(&self, tool: &str) -> bool {
        matches(&self.read_only, tool)
    }

    /// Returns whether `tools/list` lists the tool directly, beside our own tools.
    pub fn exposes(&self, tool: &str) -> bool {
        self.allows(tool) && matches(&self.expose, tool)
    }
}

impl ServerConfig {
    /// Compiles the rules of the server's entry.
    pub fn rules(&self) -> Rules {
        Rules::new(&self.tools, &self.expose)
    }
}

fn matches(globs: &[GlobMatcher], tool: &str) -> bool {
    globs.iter().any(|glob| glob.is_match(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rules with these globs that expose the tools whose name ends in `b`.
    fn rules(allow: &[&str], deny: &[&str]) -> Rules {
        let owned = |globs: &[&str]| globs.iter().map(ToString::to_string).collect();
        Rules::new(
            &ToolRules { allow: owned(allow), deny: owned(deny), ..ToolRules::default() },
            &owned(&["*b"]),
        )
    }

    #[test]
    fn deny_takes_precedence_and_an_empty_allow_list_allows_all() {
        assert!(rules(&[], &[]).allows("a"));
        assert!(!rules(&[], &["a*"]).allows("ab"));
        assert!(rules(&["a*"], &[]).allows("ab"));
        assert!(!rules(&["a*"], &[]).allows("b"));
        assert!(!rules(&["a*"], &["ab"]).allows("ab"));
    }

    #[test]
    fn a_tool_that_is_not_allowed_is_not_exposed() {
        assert!(rules(&[], &[]).exposes("ab") && !rules(&[], &[]).exposes("a"));
        assert!(!rules(&[], &["ab"]).exposes("ab") && !rules(&["c"], &[]).exposes("ab"));
    }
}
