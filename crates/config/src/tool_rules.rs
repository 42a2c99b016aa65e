//! Which tools of a server may be used and how, and what clients see of them.
//!
//! Each rule is a list of globs over the names that the server gives its tools, so what `tools.override` names a tool changes nothing about it. Callers
//! name a tool as clients see it. A tool must match `tools.allow` (if that is not empty) and must not match `tools.deny`,
//! of the entry and of the profile in use. Every route to a tool asks the same [`Rules`]: the lists, search, descriptions
//! and calls. `tools.ask`, `tools.read_only` and `expose` only change how an allowed tool is used.

pub use crate::file::tools::ToolOverride;
use crate::glob::Glob;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A glob for tools in the entry of a server, as opposed to globs in `settings` and in the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnGlob {
    /// Its field, such as `tools.deny`.
    pub field: &'static str,
    /// The glob as it is written.
    pub written: String,
}

/// What clients see of single tools, by the server's own names. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOverrides(Arc<BTreeMap<String, ToolOverride>>);

impl ToolOverrides {
    /// Creates the overrides, by the server's own names. The names that clients see are different from each other.
    pub fn new(overrides: BTreeMap<String, ToolOverride>) -> Self {
        Self(Arc::new(overrides))
    }

    /// Returns whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the overrides with the server's own names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ToolOverride)> {
        self.0.iter().map(|(own, tool)| (own.as_str(), tool))
    }

    /// Returns the override of the tool that the server calls `own`.
    pub fn of(&self, own: &str) -> Option<&ToolOverride> {
        self.0.get(own)
    }

    /// Returns the name that the server gives the tool which clients see as `shown`. A name that an override assigns
    /// belongs to the overridden tool alone, even if the server has another tool of that name.
    #[inline(always)]
    pub fn own_name<'n>(&'n self, shown: &'n str) -> &'n str {
        // Usually there are none, and each call asks several times.
        if self.0.is_empty() { shown } else { self.find_own_name(shown) }
    }

    fn find_own_name<'n>(&'n self, shown: &'n str) -> &'n str {
        let given = self.0.iter().find(|(_, tool)| tool.name.as_deref() == Some(shown));
        given.map_or(shown, |(own, _)| own)
    }

    /// Returns the name under which clients see the tool that the server calls `own`; `None` if its name is given to
    /// another one.
    pub fn shown_name<'n>(&'n self, own: &'n str) -> Option<&'n str> {
        let shown = self.0.get(own).and_then(|tool| tool.name.as_deref()).unwrap_or(own);
        (self.own_name(shown) == own).then_some(shown)
    }
}

/// Where a rule for tools stands in the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSource {
    /// In the server's entry, or in `settings`.
    Server,
    /// In the profile in use.
    Profile,
}

/// The globs of `tools` and `expose` of a server. A tool that is not allowed does not exist on any route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The lists `tools.allow`: a tool must match one glob of each.
    pub(crate) allow: Vec<Vec<Glob>>,
    /// `tools.deny`, which takes precedence over `allow`.
    pub(crate) deny: Vec<Glob>,
    /// `tools.ask`: the user confirms each call.
    pub(crate) ask: Vec<Glob>,
    /// `ask` of the profile in use.
    pub(crate) profile_ask: Vec<Glob>,
    /// `tools.read_only`: the tools count as read-only even if their annotations say otherwise.
    pub(crate) read_only: Vec<Glob>,
    /// `expose`: `tools/list` lists the tools directly.
    pub(crate) expose: Vec<Glob>,
    /// `tools.override`, which gives tools other names.
    pub overrides: ToolOverrides,
    /// Not `trust_annotations`: what the server says about its tools does not count.
    pub(crate) distrusts_annotations: bool,
}

impl Rules {
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

    /// Returns whether the user must confirm calls of some tools.
    pub(crate) fn has_ask(&self) -> bool {
        !self.ask.is_empty() || !self.profile_ask.is_empty()
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

fn matches(globs: &[Glob], tool: &str) -> bool {
    globs.iter().any(|glob| glob.matches(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(globs: &[&str]) -> Vec<Glob> {
        globs.iter().map(|glob| Glob::parse(glob).unwrap()).collect()
    }

    /// Returns rules with these globs that expose the tools whose name ends in `b`.
    fn rules(allow: &[&[&str]], deny: &[&str]) -> Rules {
        let allow = allow.iter().map(|list| globs(list)).collect();
        Rules { allow, deny: globs(deny), expose: globs(&["*b"]), ..Rules::default() }
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
    fn the_field_that_hides_a_tool_is_named() {
        assert_eq!(rules(&[&["a*"]], &["ab"]).hides_own("ab"), Some("tools.deny"));
        assert_eq!(rules(&[&["a*"]], &["ab"]).hides_own("c"), Some("tools.allow"));
        assert_eq!(rules(&[&["a*"]], &["ab"]).hides_own("ac"), None);
    }

    #[test]
    fn a_name_that_an_override_assigns_belongs_to_the_overridden_tool_alone() {
        let tool = ToolOverride { name: Some("b".to_owned()), ..ToolOverride::default() };
        let overrides = ToolOverrides::new([("a".to_owned(), tool.clone())].into());
        assert!(!overrides.is_empty() && ToolOverrides::default().is_empty());
        assert_eq!(overrides.iter().collect::<Vec<_>>(), [("a", &tool)]);
        assert_eq!((overrides.of("a"), overrides.of("b")), (Some(&tool), None));
        for (shown, own) in [("b", "a"), ("a", "a"), ("c", "c")] {
            assert_eq!(overrides.own_name(shown), own, "{shown}");
        }
        for (own, shown) in [("a", Some("b")), ("b", None), ("c", Some("c"))] {
            assert_eq!(overrides.shown_name(own), shown, "{own}");
        }
    }

    #[test]
    fn the_user_is_asked_by_the_rules_of_the_server_and_of_the_profile() {
        let rules = Rules { ask: globs(&["a*"]), profile_ask: globs(&["*b"]), ..Rules::default() };
        assert_eq!(rules.asks("a"), Some(RuleSource::Server));
        assert_eq!(rules.asks("ab"), Some(RuleSource::Server));
        assert_eq!(rules.asks("b"), Some(RuleSource::Profile));
        assert_eq!(rules.asks("c"), None);
    }

    #[test]
    fn a_claim_counts_only_if_annotations_are_trusted_or_the_config_says_so() {
        let trusting = Rules { read_only: globs(&["get_*"]), ..Rules::default() };
        let distrusting = Rules { distrusts_annotations: true, ..trusting.clone() };
        assert!(trusting.relies_on("x", true) && !trusting.relies_on("x", false));
        assert!(!distrusting.relies_on("x", true));
        assert!(distrusting.relies_on("get_x", false), "the config's own word");
        assert!(trusting.trusts_annotations() && !distrusting.trusts_annotations());
    }

    #[test]
    fn a_tool_that_is_not_allowed_is_not_exposed() {
        assert!(rules(&[], &[]).exposes("ab") && !rules(&[], &[]).exposes("a"));
        assert!(!rules(&[], &["ab"]).exposes("ab") && !rules(&[&["c"]], &[]).exposes("ab"));
    }
}
