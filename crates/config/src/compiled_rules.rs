//! Which tools of a group may be used, and how: the rules of its config entry, compiled.
//!
//! Each rule is a list of globs over the names that the server gives its tools, so what `tools.override` names a tool
//! changes nothing about it. Callers name a tool as clients see it. A tool must match `tools.allow` (if that is not empty)
//! and must not match `tools.deny`, of the entry and of the profile in use. Every route to a tool asks the same [`Rules`]:
//! the lists, search, descriptions and calls. `tools.ask`, `tools.read_only` and `expose` only change how an allowed tool
//! is used.

use crate::ServerConfig;
use crate::glob::Glob;
use crate::tool_rules::{ToolOverrides, ToolRules};

/// Where a rule for tools stands in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// In the server's entry, or in `settings`.
    Server,
    /// In the profile in use.
    Profile,
}

/// The globs of `tools` and `expose`, compiled. A tool that is not allowed does not exist on any route.
#[derive(Debug, Default)]
pub struct Rules {
    /// The lists `tools.allow`: a tool must match each.
    allow: Vec<Vec<Glob>>,
    /// `tools.deny`, which takes precedence over `allow`.
    deny: Vec<Glob>,
    /// `tools.ask`: the user confirms each call.
    ask: Vec<Glob>,
    /// `ask` of the profile in use.
    profile_ask: Vec<Glob>,
    /// `tools.read_only`: the tools count as read-only.
    read_only: Vec<Glob>,
    /// `expose`: `tools/list` lists the tools directly.
    expose: Vec<Glob>,
    /// `tools.override`, which gives tools other names.
    overrides: ToolOverrides,
    /// Not `trust_annotations`: what the server says about its tools does not count.
    distrusts_annotations: bool,
}

impl Rules {
    /// Compiles the globs. The config loader has checked them; an invalid one is skipped.
    pub fn new(rules: &ToolRules, expose: &[String]) -> Self {
        let compile = |globs: &[String]| globs.iter().filter_map(|glob| Glob::parse(glob).ok()).collect();
        Self {
            allow: rules.allow.iter().map(|list| compile(list)).collect(),
            deny: compile(&rules.deny),
            ask: compile(&rules.ask),
            profile_ask: compile(&rules.profile_ask),
            read_only: compile(&rules.read_only),
            expose: compile(expose),
            overrides: rules.overrides.clone(),
            distrusts_annotations: false,
        }
    }

    /// Returns the server's own name for a tool.
    pub fn own_name<'n>(&'n self, tool: &'n str) -> &'n str {
        self.overrides.own_name(tool)
    }

    /// Returns whether the tool may be used at all.
    pub fn allows(&self, tool: &str) -> bool {
        self.allows_own(self.own_name(tool))
    }

    /// Returns whether the tool that the server calls `tool` may be used at all.
    pub fn allows_own(&self, tool: &str) -> bool {
        self.allow.iter().all(|list| matches(list, tool)) && !matches(&self.deny, tool)
    }

    /// Returns the field of the rule by which the tool that the server calls `tool` may not be used. `None`: it may.
    pub fn hides_own(&self, tool: &str) -> Option<&'static str> {
        match matches(&self.deny, tool) {
            true => Some("tools.deny"),
            false => (!self.allows_own(tool)).then_some("tools.allow"),
        }
    }

    /// Returns where a rule stands by which the user must confirm each call of the tool. `None`: there is no such rule.
    pub fn asks(&self, tool: &str) -> Option<RuleSource> {
        let own = self.own_name(tool);
        let by_profile = || matches(&self.profile_ask, own).then_some(RuleSource::Profile);
        matches(&self.ask, own).then_some(RuleSource::Server).or_else(by_profile)
    }

    /// Returns whether the config says that the tool is read-only.
    pub fn read_only(&self, tool: &str) -> bool {
        matches(&self.read_only, self.own_name(tool))
    }

    /// Returns whether we may rely on the tool being read-only, idempotent or harmless: the server claims it
    /// (`claimed`) and its annotations are trusted, or the config says that the tool is read-only.
    pub fn relies_on(&self, tool: &str, claimed: bool) -> bool {
        self.read_only(tool) || (claimed && !self.distrusts_annotations)
    }

    /// Returns whether the server's annotations count.
    pub fn trusts_annotations(&self) -> bool {
        !self.distrusts_annotations
    }

    /// Returns whether `tools/list` lists the tool directly, beside our own tools.
    pub fn exposes(&self, tool: &str) -> bool {
        self.allows(tool) && matches(&self.expose, self.own_name(tool))
    }
}

impl ServerConfig {
    /// Compiles the rules of the server's entry.
    pub fn rules(&self) -> Rules {
        let distrusts_annotations = !self.common.trust_annotations;
        Rules { distrusts_annotations, ..Rules::new(&self.tools, &self.common.expose) }
    }
}

fn matches(globs: &[Glob], tool: &str) -> bool {
    globs.iter().any(|glob| glob.matches(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rules with these globs that expose the tools whose name ends in `b`.
    fn rules(allow: &[&[&str]], deny: &[&str]) -> Rules {
        let owned = |globs: &[&str]| globs.iter().map(ToString::to_string).collect::<Vec<_>>();
        let lists = |lists: &[&[&str]]| lists.iter().map(|list| owned(list)).collect();
        Rules::new(
            &ToolRules { allow: lists(allow), deny: owned(deny), ..ToolRules::default() },
            &owned(&["*b"]),
        )
    }

    #[test]
    fn deny_takes_precedence_and_every_allow_list_must_allow_the_tool() {
        assert!(rules(&[], &[]).allows("a"));
        assert!(!rules(&[], &["a*"]).allows("ab"));
        assert!(rules(&[&["a*"]], &[]).allows("ab"));
        assert!(!rules(&[&["a*"]], &[]).allows("b"));
        assert!(!rules(&[&["a*"]], &["ab"]).allows("ab"));
        assert!(rules(&[&["a*"], &["x", "*b"]], &[]).allows("ab"));
        assert!(!rules(&[&["a*"], &["x", "*b"]], &[]).allows("ac"));
        assert!(!rules(&[&["a*"], &[]], &[]).allows("a"));
    }

    #[test]
    fn the_user_is_asked_by_the_rules_of_the_server_and_of_the_profile() {
        let globs = |globs: &str| vec![globs.to_owned()];
        let tools = ToolRules { ask: globs("a*"), profile_ask: globs("*b"), ..ToolRules::default() };
        let rules = Rules::new(&tools, &[]);
        assert_eq!(rules.asks("a"), Some(RuleSource::Server));
        assert_eq!(rules.asks("ab"), Some(RuleSource::Server));
        assert_eq!(rules.asks("b"), Some(RuleSource::Profile));
        assert_eq!(rules.asks("c"), None);
    }

    #[test]
    fn a_claim_counts_only_if_annotations_are_trusted_or_the_config_says_so() {
        let tools = ToolRules { read_only: vec!["get_*".to_owned()], ..ToolRules::default() };
        let trusting = Rules::new(&tools, &[]);
        let distrusting = Rules { distrusts_annotations: true, ..Rules::new(&tools, &[]) };
        assert!(trusting.relies_on("x", true) && !trusting.relies_on("x", false));
        assert!(!distrusting.relies_on("x", true));
        assert!(distrusting.relies_on("get_x", false), "the config's own word");
    }

    #[test]
    fn a_tool_that_is_not_allowed_is_not_exposed() {
        assert!(rules(&[], &[]).exposes("ab") && !rules(&[], &[]).exposes("a"));
        assert!(!rules(&[], &["ab"]).exposes("ab") && !rules(&[&["c"]], &[]).exposes("ab"));
    }
}
