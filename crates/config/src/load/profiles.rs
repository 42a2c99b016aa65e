//! `profiles`: what is used with `--profile NAME`.
//!
//! # Theory of operation
//!
//! A profile chooses servers by globs, and may have rules for the tools of single servers. [`parse_profiles`] reads the
//! profiles of one file. Those of all files are merged by name, like servers: a later file replaces a profile of an earlier one as a
//! whole. A profile applies to the servers of all files.
//!
//! [`Profiles::apply`] removes the servers that a profile leaves out, and gives the others its rules for their tools.
//! These become a part of the server's own rules (`resolve_tool_rules`), so that they hold wherever those do.
//!
//! A profile hides servers and tools on purpose, so a mistake in it never shows more of them: with a profile that is not
//! known or cannot be read, no server is used.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::entry::NamedEntry;
use super::findings::{unknown_field, value_error};
use super::json_text::expected_an_object;
use super::source_text::SourceText;
use crate::file::profiles::ProfileEntry;
use crate::file::values::ServerPattern;
use crate::nearest::nearest;
use crate::value_reader::{ReadValue, ValueReader};
use crate::vars::ExpandContext;
use crate::{ConfigError, GroupName, ProfileInUse};
use base::text;

#[cfg(test)]
mod tests;

/// A profile of a file.
pub(super) struct NamedProfile {
    /// Its name.
    pub(super) name: String,
    /// What it says. Of a profile that is wrong, nothing: it chooses no server.
    pub(super) content: ProfileEntry,
    /// The file.
    pub(super) text: Arc<SourceText>,
}

/// Reads the value of `profiles`. Returns the profiles, and what is wrong with them. A profile that is wrong, or
/// defined twice, has nothing.
pub(super) fn parse_profiles(
    value: &Value<'_>,
    text: &Arc<SourceText>,
    context: ExpandContext<'_>,
) -> (Vec<NamedProfile>, Vec<ConfigError>) {
    let Value::Object(object) = value else {
        let message = format!("`profiles`: {}", expected_an_object(value));
        return (Vec::new(), vec![text.error(value.start(), message, None)]);
    };
    let (mut profiles, mut errors): (Vec<NamedProfile>, Vec<ConfigError>) = (Vec::new(), Vec::new());
    for member in &object.properties {
        let name = member.name.as_str().to_owned();
        let mut wrong = |error: ConfigError| {
            let message = format!("profile {}: {}", text::name(&name), error.message);
            errors.push(ConfigError { message, ..error });
            ProfileEntry::default()
        };
        let content = read_profile(member, text, context).unwrap_or_else(&mut wrong);
        match profiles.iter_mut().find(|known| known.name == name) {
            Some(first) => {
                first.content = wrong(text.error(member.name.start(), "it is defined twice", None));
            }
            None => profiles.push(NamedProfile { name, content, text: text.clone() }),
        }
    }
    (profiles, errors)
}

/// Reads a profile: a list of globs, or an object.
///
/// # Errors
///
/// Fails at any mistake, also at an unknown field: a field that is misspelled may be what hides servers or tools.
fn read_profile(
    member: &ObjectProp<'_>,
    text: &SourceText,
    context: ExpandContext<'_>,
) -> Result<ProfileEntry, ConfigError> {
    let value = &member.value;
    if member.name.as_str().trim().is_empty() {
        return Err(text.error(member.name.start(), "its name is empty", None));
    }
    let reader = ValueReader::new(context);
    let read = ProfileEntry::read(&reader.at(value));
    if let Some(error) = reader.errors.borrow().first() {
        let is_no_list = error.offset == value.start();
        let hint = is_no_list.then(|| "write a list, such as [\"docs*\"]".to_owned());
        let error = value_error(text, error);
        return Err(ConfigError { hint: error.hint.or(hint), ..error });
    }
    match reader.unknown.borrow().first() {
        Some(field) => Err(unknown_field(text, field)),
        None => Ok(read.unwrap_or_default()),
    }
}

impl NamedProfile {
    /// Returns whether a server is used.
    fn chooses(&self, server: &str) -> bool {
        ServerPattern::choose_server(self.content.servers.iter().map(|pattern| &pattern.value), server)
    }

    /// Returns each glob that matches none of these servers, and rules that are for none of them.
    fn unmatched(&self, servers: &[NamedEntry]) -> impl Iterator<Item = Unmatched<'_>> {
        let names = || servers.iter().map(|server| server.name.as_str());
        let patterns = self.content.servers.iter().filter_map(move |pattern| {
            let is_used = names().any(|name| pattern.value.glob.matches(name));
            let exclusion = pattern.value.written.strip_prefix('!').filter(|_| pattern.value.excludes);
            let kind = if exclusion.is_some() { UnmatchedKind::Exclusion } else { UnmatchedKind::Glob };
            let written = exclusion.unwrap_or(&pattern.value.written);
            let server = pattern.value.glob.only_name();
            (!is_used).then_some(Unmatched { profile: self, offset: pattern.offset, kind, written, server })
        });
        let rules = self.content.tools.iter().filter_map(move |rules| {
            let written = &*rules.value.0;
            let (kind, server) = (UnmatchedKind::Rules, Some(written.to_owned()));
            let is_used = names().any(|name| name == written);
            (!is_used).then_some(Unmatched { profile: self, offset: rules.offset, kind, written, server })
        });
        patterns.chain(rules)
    }
}

/// What a profile says of a server that does not exist.
struct Unmatched<'p> {
    profile: &'p NamedProfile,
    offset: usize,
    kind: UnmatchedKind,
    /// The glob or the name, without a `!`.
    written: &'p str,
    /// The only server that it may mean.
    server: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum UnmatchedKind {
    Glob,
    Exclusion,
    Rules,
}

impl Unmatched<'_> {
    /// Returns one warning for all profiles that say this. `meant`: the server that is probably meant.
    fn warning(&self, all: &[Self], meant: Option<&str>) -> ConfigError {
        let mark = if self.kind == UnmatchedKind::Exclusion { "!" } else { "" };
        let written = text::quoted(&format!("{mark}{}", self.written));
        let what = match self.kind {
            UnmatchedKind::Glob | UnmatchedKind::Exclusion => format!("{written} matches no server"),
            UnmatchedKind::Rules => format!("`tools`: no server has exactly the name {written}"),
        };
        let profiles = if all.len() == 1 { "profile" } else { "profiles" };
        let names = text::joined(all.iter().map(|one| text::name(&one.profile.name)));
        let error = self.profile.text.error(self.offset, format_args!("{profiles} {names}: {what}"), None);
        let remove = || {
            let server = text::shell_word(self.server.as_deref()?)?;
            let file = text::shell_word(error.file.to_str()?)?;
            Some(format!("`dynamic-mcp remove {server} --config {file}` takes it out of the profiles"))
        };
        let hint = meant.map(|name| format!("did you mean {}?", text::quoted(&format!("{mark}{name}"))));
        ConfigError { hint: hint.or_else(remove), ..error }
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

    /// Returns a warning for each glob and each rule that is about no server, with the profiles that have it. Clients see
    /// warnings. So with a profile in use only its own warnings are made, and they name no server that it may leave out.
    pub(super) fn warnings(&self, servers: &[NamedEntry], in_use: Option<&str>) -> Vec<ConfigError> {
        let profiles = self.0.iter().filter(|profile| in_use.is_none_or(|name| profile.name == name));
        let (mut all, mut places): (Vec<Vec<Unmatched<'_>>>, _) = (Vec::new(), HashMap::new());
        for one in profiles.flat_map(|profile| profile.unmatched(servers)) {
            let place = *places.entry((one.kind, one.written)).or_insert(all.len());
            if place == all.len() {
                all.push(Vec::new());
            }
            all[place].push(one);
        }
        let names = || servers.iter().map(|server| server.name.as_str());
        let meant = |written: &str| nearest(written, names()).filter(|_| in_use.is_none());
        let warning = |same: &Vec<Unmatched<'_>>| {
            let first = same.first()?;
            Some(first.warning(same, meant(first.written)))
        };
        all.iter().filter_map(warning).collect()
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
