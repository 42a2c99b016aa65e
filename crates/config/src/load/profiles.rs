//! `profiles`: what is used with `--profile NAME`.
//!
//! # Theory of operation
//!
//! A profile chooses servers by globs, and may have rules for the tools of single servers. `parse_profiles` reads the
//! profiles of one file. Those of all files are merged by name, like servers: a later file replaces a profile of an earlier one as a
//! whole. A profile applies to the servers of all files.
//!
//! [`Profiles::apply`] removes the servers that a profile leaves out, and gives the others its rules for their tools.
//! These become a part of the server's own rules (`resolve_tool_rules`), so that they hold wherever those do.
//!
//! A profile hides servers and tools on purpose, so a mistake in it never shows more of them: with a profile that is not
//! known or cannot be read, no server is used.

use std::path::Path;

use super::entry::NamedEntry;
use super::parse_profiles::NamedProfile;
use crate::file::values::ServerPattern;
use crate::nearest::nearest;
use crate::{ConfigError, GroupName, ProfileInUse};
use base::text;

#[cfg(test)]
mod tests;

impl NamedProfile {
    /// Returns whether a server is used.
    fn chooses(&self, server: &str) -> bool {
        ServerPattern::choose_server(self.content.servers.iter().map(|pattern| &pattern.value), server)
    }

    /// Returns a warning for each glob that matches none of these servers, and for rules that are for none of them.
    /// `may_suggest`: whether a warning may name a server.
    fn warnings(&self, servers: &[NamedEntry], may_suggest: bool) -> Vec<ConfigError> {
        let names = || servers.iter().map(|server| server.name.as_str());
        let warning = |offset, message: &str, prefix: &str, written: &str| {
            let meant = nearest(written, names()).filter(|_| may_suggest);
            let hint =
                meant.map(|name| format!("did you mean {}?", text::quoted(&format!("{prefix}{name}"))));
            self.text.error(offset, format_args!("profile {}: {message}", text::name(&self.name)), hint)
        };
        let patterns = self.content.servers.iter().filter_map(|pattern| {
            let prefix = if pattern.value.excludes { "!" } else { "" };
            let written = pattern.value.written.trim_start_matches(prefix);
            let is_used = names().any(|name| pattern.value.glob.matches(name));
            (!is_used).then(|| warning(pattern.offset, "this matches no server", prefix, written))
        });
        let rules = self.content.tools.iter().filter_map(|rules| {
            let server = &*rules.value.0;
            let is_used = names().any(|name| name == server);
            (!is_used).then(|| warning(rules.offset, "`tools`: no server has exactly this name", "", server))
        });
        patterns.chain(rules).collect()
    }
}

/// The profiles of all files.
#[derive(Default)]
pub(super) struct Profiles(Vec<NamedProfile>);

impl Profiles {
    /// Adds the profiles of a later file.
    pub(super) fn add(&mut self, later: Vec<NamedProfile>) {
        for profile in later {
            match self.0.iter_mut().find(|known| known.name == profile.name) {
                Some(earlier) => *earlier = profile,
                None => self.0.push(profile),
            }
        }
    }

    /// Returns the names, in the order of the files.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|profile| profile.name.clone()).collect()
    }

    /// Returns a warning for each glob and each rule of a profile that is about no server. Clients see warnings. So
    /// with a profile in use only its own warnings are made, and they name no server that it may leave out.
    pub(super) fn warnings(&self, servers: &[NamedEntry], in_use: Option<&str>) -> Vec<ConfigError> {
        let profiles = self.0.iter().filter(|profile| in_use.is_none_or(|name| profile.name == name));
        profiles.flat_map(|profile| profile.warnings(servers, in_use.is_none())).collect()
    }

    /// Removes the servers that the profile `wanted` leaves out, and gives the others its rules for their tools.
    /// Removes all if no file has the profile. Disabled servers are not counted.
    pub(super) fn apply(&self, wanted: &str, servers: &mut Vec<NamedEntry>) -> ProfileInUse {
        let profile = self.0.iter().find(|profile| profile.name == wanted && !wanted.is_empty());
        let is_chosen = |server: &NamedEntry| profile.is_some_and(|profile| profile.chooses(&server.name));
        let left_out: Vec<_> = servers.extract_if(.., |server| !is_chosen(server)).collect();
        let left_out = left_out.iter().filter(|server| !server.is_disabled());
        let rules = profile.map_or(&[][..], |profile| &profile.content.tools);
        for server in &mut *servers {
            let own = rules.iter().find(|rules| rules.value.0 == server.name);
            server.profile_tools = own.map(|rules| rules.value.1.clone());
        }
        let is_restricted = |server: &&NamedEntry| server.profile_tools.is_some() && !server.is_disabled();
        ProfileInUse {
            name: wanted.to_owned(),
            is_known: profile.is_some(),
            left_out: left_out.map(|server| GroupName::new(&server.name)).collect(),
            restricted: servers.iter().filter(is_restricted).count(),
        }
    }

    /// Returns the error of a profile that no file has. It names `file` as its place.
    pub(super) fn unknown(&self, wanted: &str, file: &Path) -> ConfigError {
        let (message, hint) = match (wanted, self.0.is_empty()) {
            ("", _) => (
                "it is not known which profile to use, so no server is used".to_owned(),
                "write --profile NAME; other errors of the command line say what is wrong".to_owned(),
            ),
            (_, true) => {
                let list = format!("\"profiles\": {{{wanted:?}: [\"docs*\"]}}");
                (missing(wanted), format!("the config has no profiles; write {list} beside the servers"))
            }
            (_, false) => {
                let names: Vec<_> = self.0.iter().map(|profile| text::name(&profile.name)).collect();
                let meant = nearest(wanted, self.0.iter().map(|profile| profile.name.as_str()));
                let meant = meant.map(|name| format!("did you mean --profile {}? ", text::name(name)));
                let hint = format!("{}the config has {}", meant.unwrap_or_default(), names.join(", "));
                (missing(wanted), hint)
            }
        };
        ConfigError { file: file.to_owned(), at: None, message, hint: Some(hint) }
    }
}

fn missing(wanted: &str) -> String {
    format!("there is no profile {}, so no server is used", text::quoted(wanted))
}
