//! `profiles`: named lists of globs. The one that `--profile` names chooses the servers that an instance uses.
//!
//! The profiles of all files are merged by name, like servers: a later file replaces a profile of an earlier one as a
//! whole. A profile chooses among the servers of all files.
//!
//! A profile hides servers on purpose, so what is wrong with it never shows more of them: if it is not known or cannot be
//! read, no server is used.

use std::path::Path;
use std::sync::Arc;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::entry::NamedEntry;
use super::json_text::expected_an_object;
use super::source_text::SourceText;
use crate::config::de::ValueReader;
use crate::config::file::values::GlobPattern;
use crate::config::glob::Glob;
use crate::config::nearest::nearest;
use crate::config::vars::ExpandContext;
use crate::config::{ConfigError, GroupName, ProfileInUse};
use crate::text;

/// A profile of a file.
pub(super) struct NamedProfile {
    /// Its name.
    name: String,
    /// What it chooses; none if the list is wrong.
    globs: Vec<LocatedGlob>,
    /// The file.
    text: Arc<SourceText>,
}

/// A glob and its place in the file.
struct LocatedGlob {
    glob: Glob,
    /// The glob as the file writes it.
    written: String,
    offset: usize,
}

/// Reads the value of `profiles`.
pub(super) fn parse(
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
        let mut wrong = |offset, message: String, hint| {
            errors.push(text.error(offset, format_args!("profile {}: {message}", text::name(&name)), hint));
            Vec::new()
        };
        let globs = match ValueReader::new(context).read::<Vec<GlobPattern>>(&member.value) {
            _ if name.trim().is_empty() => wrong(member.name.start(), "its name is empty".to_owned(), None),
            Ok(globs) => located(globs, &member.value),
            Err(error) => {
                let offset = error.offset.unwrap_or_else(|| member.value.start());
                let is_no_list = offset == member.value.start();
                let hint = is_no_list.then(|| "write a list, such as [\"docs*\"]".to_owned());
                wrong(offset, error.to_string(), error.hint.clone().or(hint))
            }
        };
        match profiles.iter_mut().find(|known| known.name == name) {
            Some(first) => {
                first.globs = wrong(member.name.start(), "it is defined twice".to_owned(), None);
            }
            None => profiles.push(NamedProfile { name, globs, text: text.clone() }),
        }
    }
    (profiles, errors)
}

/// Finds the places of these globs, which were read from `list`.
fn located(globs: Vec<GlobPattern>, list: &Value<'_>) -> Vec<LocatedGlob> {
    let elements = list.as_array().map_or(&[][..], |list| &list.elements);
    let pairs = globs.into_iter().zip(elements);
    pairs
        .filter_map(|(GlobPattern(written), element)| {
            Some(LocatedGlob { glob: Glob::parse(&written).ok()?, written, offset: element.start() })
        })
        .collect()
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

    /// The names, in the order of the files.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|profile| profile.name.clone()).collect()
    }

    /// A warning for each glob that matches no server. Clients see warnings, so with a profile in use only those about it
    /// are made, and they name no server that it may leave out.
    pub(super) fn warnings(&self, servers: &[NamedEntry], in_use: Option<&str>) -> Vec<ConfigError> {
        let names = || servers.iter().map(|server| server.name.as_str());
        let mut warnings = Vec::new();
        for profile in self.0.iter().filter(|profile| in_use.is_none_or(|name| profile.name == name)) {
            for glob in profile.globs.iter().filter(|glob| !names().any(|name| glob.glob.matches(name))) {
                let hint = nearest(&glob.written, names()).filter(|_| in_use.is_none());
                let hint = hint.map(|name| format!("did you mean {}?", text::quoted(name)));
                let message = format!("profile {}: this matches no server", text::name(&profile.name));
                warnings.push(profile.text.error(glob.offset, message, hint));
            }
        }
        warnings
    }

    /// Removes the servers that the profile `wanted` leaves out. Disabled servers are not counted as left out.
    pub(super) fn apply(&self, wanted: &str, servers: &mut Vec<NamedEntry>) -> ProfileInUse {
        let profile = self.0.iter().find(|profile| profile.name == wanted && !wanted.is_empty());
        let globs = profile.map_or(&[][..], |profile| &profile.globs);
        let is_chosen = |server: &NamedEntry| globs.iter().any(|glob| glob.glob.matches(&server.name));
        let left_out: Vec<_> = servers.extract_if(.., |server| !is_chosen(server)).collect();
        let left_out = left_out.iter().filter(|server| !server.is_disabled());
        ProfileInUse {
            name: wanted.to_owned(),
            is_known: profile.is_some(),
            left_out: left_out.map(|server| GroupName::new(&server.name)).collect(),
        }
    }

    /// The error of a profile that no file has.
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
                (missing(wanted), format!("the config has {}", names.join(", ")))
            }
        };
        ConfigError { file: file.to_owned(), at: None, message, hint: Some(hint) }
    }
}

fn missing(wanted: &str) -> String {
    format!("there is no profile {}, so no server is used", text::quoted(wanted))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::config::load::load;
    use crate::config::vars::Env;
    use crate::config::{Config, GroupName, Overrides};

    const SERVERS: &str = r#""mcpServers": {"github": {"command": "x"}, "docs": {"url": "https://d.example"},
        "docs-old": {"url": "https://o.example"}, "off": {"enabled": false}, "broken": {}}"#;

    fn load_files(files: &[(&str, String)], profile: Option<&str>) -> Config {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| name.into()).collect();
        let overrides = Overrides { profile: profile.map(str::to_owned), ..Overrides::default() };
        load(&paths, &Env::new([("TEAM", "git")], dir.path()), &overrides)
    }

    fn load_profiles(profiles: &str, profile: Option<&str>) -> Config {
        load_files(&[("c.json", format!(r#"{{"profiles": {profiles}, {SERVERS}}}"#))], profile)
    }

    fn names(config: &Config) -> Vec<&str> {
        config.servers.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn messages(config: &Config) -> Vec<String> {
        config.errors.iter().chain(&config.warnings).map(ToString::to_string).collect()
    }

    #[test]
    fn a_profile_chooses_servers_by_globs() {
        for (globs, chosen, summary) in [
            (r#"["docs*"]"#, &["docs", "docs-old"][..], "profile p leaves out 2 of 4 servers"),
            (r#"["{github,docs}"]"#, &["github", "docs"], "profile p leaves out 2 of 4 servers"),
            (r#"["${TEAM}*"]"#, &["github"], "profile p leaves out 3 of 4 servers"),
            (r#"["*"]"#, &["github", "docs", "docs-old", "broken"], "profile p leaves out none of 4 servers"),
            (r#"["off"]"#, &[], "profile p leaves out 4 of 4 servers"),
            ("[]", &[], "profile p leaves out 4 of 4 servers"),
        ] {
            let config = load_profiles(&format!(r#"{{"p": {globs}}}"#), Some("p"));
            assert_eq!(messages(&config), Vec::<String>::new(), "{globs}");
            assert_eq!(names(&config), chosen, "{globs}");
            assert_eq!(config.profile_summary().unwrap(), summary, "{globs}");
            assert_eq!(config.is_left_out(&GroupName::new("broken")), !chosen.contains(&"broken"));
        }
        let config = load_profiles(r#"{"p": ["docs"]}"#, None);
        assert_eq!((names(&config).len(), config.profile_summary()), (4, None));
        assert_eq!(config.profiles, ["p"]);
    }

    #[test]
    fn a_later_file_replaces_profiles_by_name_and_they_choose_among_the_servers_of_all_files() {
        let first = format!(r#"{{"profiles": {{"p": ["github"], "q": ["docs"]}}, {SERVERS}}}"#);
        let second = r#"{"profiles": {"p": ["docs"]}, "mcpServers": {"new": {"command": "y"}}}"#;
        let third = r#"{"profiles": {"r": ["new", "git*"]}}"#;
        let files = [("a.json", first), ("b.json", second.to_owned()), ("c.json", third.to_owned())];
        for (profile, expected) in [("p", &["docs"][..]), ("q", &["docs"]), ("r", &["github", "new"])] {
            let config = load_files(&files, Some(profile));
            assert_eq!((names(&config), messages(&config)), (expected.to_vec(), vec![]), "{profile}");
        }
        assert_eq!(load_files(&files, None).profiles, ["p", "q", "r"]);
    }

    #[test]
    fn with_a_profile_that_is_not_known_or_wrong_no_server_is_used() {
        let unknown = r#"c.json: there is no profile "x", so no server is used"#;
        for (profiles, profile, message) in [
            (r#"{"p": ["docs"], "q 1": []}"#, "x", &*format!("{unknown} (the config has p, \"q 1\")")),
            (
                "{}",
                "x",
                &format!(
                    "{unknown} (the config has no profiles; write \"profiles\": {{\"x\": [\"docs*\"]}} beside the servers)"
                ),
            ),
            (r#"{"": []}"#, "", "c.json:1:15: profile \"\": its name is empty"),
            (
                r#"{"p": "docs"}"#,
                "p",
                "c.json:1:20: profile p: expected a list, found a string (write a list, such as [\"docs*\"])",
            ),
            (
                r#"{"p": ["a["]}"#,
                "p",
                "c.json:1:21: profile p: `[0]`: not a valid glob: unclosed character class; missing ']'",
            ),
            (r#"{"p": ["*"], "p": ["docs"]}"#, "p", "c.json:1:27: profile p: it is defined twice"),
            (r#"["p"]"#, "p", "c.json:1:14: `profiles`: expected an object, found a list"),
        ] {
            let config = load_profiles(profiles, Some(profile));
            assert_eq!(config.errors[0].to_string(), message, "{profiles}");
            assert_eq!(names(&config), Vec::<&str>::new(), "{profiles}");
            assert_eq!(config.profile.as_ref().unwrap().left_out.len(), 4);
        }
        // What is wrong with one that is not in use is an error too.
        let config = load_profiles(r#"{"p": 1, "q": ["docs"]}"#, Some("q"));
        assert_eq!((config.errors.len(), names(&config)), (1, vec!["docs"]));
        // Which profile is meant is known only if the command line is right.
        let config = load_profiles(r#"{"p": ["*"]}"#, Some(""));
        assert!(messages(&config)[0].contains("it is not known which profile to use"), "{config:?}");
        assert_eq!(names(&config), Vec::<&str>::new());
    }

    #[test]
    fn a_glob_that_matches_no_server_is_a_warning() {
        let profiles = r#"{"p": ["githbu", "docs"], "q": ["zzz*"]}"#;
        // The names of servers that are left out are not told to the client that uses the profile.
        let in_use = load_profiles(profiles, Some("p"));
        assert_eq!(messages(&in_use), ["c.json:1:21: profile p: this matches no server"]);
        let config = load_profiles(profiles, None);
        assert_eq!(
            messages(&config),
            [
                "c.json:1:21: profile p: this matches no server (did you mean \"github\"?)",
                "c.json:1:46: profile q: this matches no server"
            ]
        );
        // It may be in the file that cannot be read.
        let files = [("c.json", r#"{"profiles": {"p": ["x"]}}"#.to_owned()), ("d.json", "{".to_owned())];
        let config = load_files(&files, Some("p"));
        assert_eq!((config.errors.len(), config.warnings.len()), (1, 0));
    }

    #[test]
    fn profiles_of_clients_are_about_other_things() {
        let json = format!(r#"{{"profiles": [1], {SERVERS}}}"#);
        let toml = "[profiles.fast]\nmodel = \"m\"\n[mcp_servers.github]\ncommand = \"x\"\n";
        for (file, text) in [("settings.json", json), ("config.toml", toml.to_owned())] {
            let config = load_files(&[(file, text)], None);
            assert_eq!((messages(&config), config.profiles.len()), (vec![], 0), "{file}");
        }
    }
}
