//! Which tools of a group may be seen, called, and called without asking.

use crate::config::{ServerConfig, ToolRules};
use globset::{Glob, GlobMatcher};

/// The globs of a config's `tools`, ready to match. A denied tool does not exist on any route.
#[derive(Debug, Default)]
pub struct Rules {
    allow: Vec<GlobMatcher>,
    deny: Vec<GlobMatcher>,
    ask: Vec<GlobMatcher>,
    read_only: Vec<GlobMatcher>,
    expose: Vec<GlobMatcher>,
}

impl Rules {
    /// The globs were checked when the config was read.
    pub fn new(rules: &ToolRules, expose: &[String]) -> Self {
        let globs = |globs: &[String]| {
            globs.iter().filter_map(|g| Some(Glob::new(g).ok()?.compile_matcher())).collect()
        };
        Self {
            allow: globs(&rules.allow),
            deny: globs(&rules.deny),
            ask: globs(&rules.ask),
            read_only: globs(&rules.read_only),
            expose: globs(expose),
        }
    }

    pub fn allows(&self, tool: &str) -> bool {
        (self.allow.is_empty() || matches(&self.allow, tool)) && !matches(&self.deny, tool)
    }

    /// The user is to be asked before each call.
    pub fn asks(&self, tool: &str) -> bool {
        matches(&self.ask, tool)
    }

    /// Read-only whatever the tool says of itself.
    pub fn read_only(&self, tool: &str) -> bool {
        matches(&self.read_only, tool)
    }

    /// Listed itself, beside our own tools.
    pub fn exposes(&self, tool: &str) -> bool {
        self.allows(tool) && matches(&self.expose, tool)
    }
}

impl ServerConfig {
    /// The rules of its entry.
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

    fn rules(allow: &[&str], deny: &[&str]) -> Rules {
        let own = |globs: &[&str]| globs.iter().map(ToString::to_string).collect();
        Rules::new(&ToolRules { allow: own(allow), deny: own(deny), ..ToolRules::default() }, &own(&["*b"]))
    }

    #[test]
    fn deny_beats_allow_and_no_allow_is_all() {
        assert!(rules(&[], &[]).allows("a"));
        assert!(!rules(&[], &["a*"]).allows("ab"));
        assert!(rules(&["a*"], &[]).allows("ab"));
        assert!(!rules(&["a*"], &[]).allows("b"));
        assert!(!rules(&["a*"], &["ab"]).allows("ab"));
    }

    #[test]
    fn what_is_denied_is_not_exposed() {
        assert!(rules(&[], &[]).exposes("ab") && !rules(&[], &[]).exposes("a"));
        assert!(!rules(&[], &["ab"]).exposes("ab") && !rules(&["c"], &[]).exposes("ab"));
    }
}
