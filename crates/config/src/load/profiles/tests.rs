use std::path::PathBuf;

use crate::env::Env;
use crate::load::load;
use crate::tool_rules::RuleSource;
use crate::{Config, GroupName, Overrides};

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
        (r#"["*", "!docs*"]"#, &["github", "broken"], "profile p leaves out 2 of 4 servers"),
        // An exclusion counts wherever it stands, and whatever else matches.
        (
            r#"["!docs", "*", "docs"]"#,
            &["github", "docs-old", "broken"],
            "profile p leaves out 1 of 4 servers",
        ),
        (
            r#"["*", "!${TEAM}*", "!off"]"#,
            &["docs", "docs-old", "broken"],
            "profile p leaves out 1 of 4 servers",
        ),
        (r#"{}"#, &["github", "docs", "docs-old", "broken"], "profile p leaves out none of 4 servers"),
        (r#"{"servers": ["docs*", "!*old"]}"#, &["docs"], "profile p leaves out 3 of 4 servers"),
        (r#"{"servers": []}"#, &[], "profile p leaves out 4 of 4 servers"),
        (
            r#"{"servers": ["docs*"], "tools": {"docs": {}, "off": {}, "github": {"deny": ["*"]}}}"#,
            &["docs", "docs-old"],
            "profile p leaves out 2 of 4 servers and restricts the tools of 1",
        ),
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

/// Asserts that no server is used with a profile, because of this error.
fn assert_uses_no_server(profiles: &str, profile: &str, error: &str) {
    let config = load_profiles(profiles, Some(profile));
    assert_eq!(config.errors[0].to_string(), error, "{profiles}");
    assert_eq!(names(&config), Vec::<&str>::new(), "{profiles}");
    assert_eq!(config.profile.as_ref().unwrap().left_out.len(), 4);
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
        assert_uses_no_server(profiles, profile, message);
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
fn whatever_is_wrong_in_a_profile_exposes_nothing() {
    for (profiles, message) in [
        (
            r#"{"p": ["!docs"]}"#,
            "c.json:1:20: profile p: it excludes servers and chooses none \
             (write [\"*\", \"!NAME\"] to use all servers but NAME)",
        ),
        (
            r#"{"p": ["*", "!a["]}"#,
            "c.json:1:26: profile p: `[1]`: not a valid glob: unclosed character class; missing ']'",
        ),
        (
            r#"{"p": {"servers": ["!docs"]}}"#,
            "c.json:1:32: profile p: it excludes servers and chooses none \
             (write [\"*\", \"!NAME\"] to use all servers but NAME)",
        ),
        (r#"{"p": {"servers": null}}"#, "c.json:1:32: profile p: `servers`: expected a list, found null"),
        (
            r#"{"p": {"server": ["docs"]}}"#,
            "c.json:1:21: profile p: unknown field `server` (did you mean `servers`?)",
        ),
        (
            r#"{"p": {"servers": ["*"], "servers": ["docs"]}}"#,
            "c.json:1:20: profile p: `servers` is given twice (other spellings of a name count as the same field)",
        ),
        (
            r#"{"p": {"tools": {"docs": {"denny": ["*"]}}}}"#,
            "c.json:1:40: profile p: unknown field `denny` (did you mean `deny`?)",
        ),
        (
            r#"{"p": {"tools": {"docs": {"read_only": ["*"]}}}}"#,
            "c.json:1:40: profile p: unknown field `read_only`",
        ),
        (
            r#"{"p": {"tools": {"docs": {"deny": null}}}}"#,
            "c.json:1:48: profile p: `tools.docs.deny`: expected a list, found null",
        ),
        (
            r#"{"p": {"tools": {"docs": {"deny": ["a["]}}}}"#,
            "c.json:1:49: profile p: `tools.docs.deny[0]`: not a valid glob: unclosed character class; missing ']'",
        ),
        (
            r#"{"p": {"tools": {"docs": ["a"]}}}"#,
            "c.json:1:39: profile p: `tools.docs`: expected an object, found a list",
        ),
        (
            r#"{"p": {"tools": {"docs": {"deny": ["*"]}, "docs": {}}}}"#,
            "c.json:1:56: profile p: `tools`: the rules for this server are given twice",
        ),
    ] {
        assert_uses_no_server(profiles, "p", message);
    }
}

#[test]
fn a_glob_that_matches_no_server_is_a_warning() {
    let profiles = r#"{"p": ["githbu", "docs"], "q": ["zzz*"]}"#;
    // The names of servers that are left out are not told to the client that uses the profile.
    let in_use = load_profiles(profiles, Some("p"));
    assert_eq!(
        messages(&in_use),
        [
            "c.json:1:21: profile p: \"githbu\" matches no server (`dynamic-mcp remove githbu --config c.json` takes it out of the profiles)"
        ]
    );
    let config = load_profiles(profiles, None);
    assert_eq!(
        messages(&config),
        [
            "c.json:1:21: profile p: \"githbu\" matches no server (did you mean \"github\"?)",
            "c.json:1:46: profile q: \"zzz*\" matches no server"
        ]
    );
    // It may be in the file that cannot be read.
    let files = [("c.json", r#"{"profiles": {"p": ["x"]}}"#.to_owned()), ("d.json", "{".to_owned())];
    for profile in ["p", "in the other file"] {
        let config = load_files(&files, Some(profile));
        assert_eq!((config.errors.len(), config.warnings.len()), (1, 0));
        assert!(config.servers.is_empty() && config.wrong_profile().is_none());
    }
}

#[test]
fn an_exclusion_and_rules_for_no_server_are_warnings() {
    let profiles =
        r#"{"p": {"servers": ["*", "!githbu"], "tools": {"Docs": {"deny": ["x"]}, "docs*": {}, "off": {}}}}"#;
    let found = [
        ("c.json:1:38: profile p: \"!githbu\" matches no server", "githbu", "!github"),
        ("c.json:1:60: profile p: `tools`: no server has exactly the name \"Docs\"", "Docs", "docs"),
        ("c.json:1:85: profile p: `tools`: no server has exactly the name \"docs*\"", "'docs*'", "docs"),
    ];
    let in_use = load_profiles(profiles, Some("p"));
    let with_command = found.map(|(found, server, _)| {
        format!("{found} (`dynamic-mcp remove {server} --config c.json` takes it out of the profiles)")
    });
    assert_eq!((messages(&in_use), names(&in_use).len()), (with_command.to_vec(), 4));
    let suggested = found.map(|(found, _, meant)| format!("{found} (did you mean \"{meant}\"?)"));
    assert_eq!(messages(&load_profiles(profiles, None)), suggested);
}

#[test]
fn what_several_profiles_say_of_a_missing_server_is_one_warning() {
    let profiles =
        r#"{"p": ["*", "!gone"], "q": {"servers": ["!gone", "docs"], "tools": {"gone": {}}}, "r": ["gone"]}"#;
    let remove = "(`dynamic-mcp remove gone --config c.json` takes it out of the profiles)";
    let expected = [
        format!("c.json:1:26: profiles p, q: \"!gone\" matches no server {remove}"),
        format!("c.json:1:82: profile q: `tools`: no server has exactly the name \"gone\" {remove}"),
        format!("c.json:1:102: profile r: \"gone\" matches no server {remove}"),
    ];
    assert_eq!(messages(&load_profiles(profiles, None)), expected);
}

/// How the tool of a server may be used: whether it is allowed, and where it says that the user is asked.
fn use_of(config: &Config, server: &str, tool: &str) -> (bool, Option<RuleSource>) {
    let rules = config.server(&GroupName::new(server)).unwrap().as_ref().unwrap().rules();
    (rules.allows(tool), rules.asks(tool))
}

#[test]
fn the_rules_of_a_profile_add_to_those_of_the_server() {
    let servers = r#""settings": {"tools": {"deny": ["secret"]}}, "mcpServers": {
        "plain": {"command": "x"},
        "ruled": {"command": "x", "tools": {"allow": ["get_*", "put_*"], "ask": ["put_*"]}, "excludeTools": ["get_x"]},
        "renamed": {"command": "x", "tools": {"override": {"get_a": {"name": "a"}}}}
    }"#;
    let rules =
        r#"{"allow": ["get_*", "set_*"], "deny": ["get_b", "get_${TEAM}"], "ask": ["get_c", "put_*"]}"#;
    let profile =
        format!(r#"{{"tools": {{"plain": {rules}, "ruled": {rules}, "renamed": {{"deny": ["get_a"]}}}}}}"#);
    let load = |profile| {
        let text = format!(r#"{{"profiles": {{"p": {profile}}}, {servers}}}"#);
        load_files(&[("c.json", text)], Some("p"))
    };
    let (with, without) = (load(&*profile), load(r#"["*"]"#));
    assert_eq!(messages(&with), Vec::<String>::new());
    assert_eq!(
        with.profile_summary().unwrap(),
        "profile p leaves out none of 3 servers and restricts the tools of 3"
    );
    let asked = |source| (true, Some(source));
    let (denied, free) = ((false, None), (true, None));
    for (server, tool, own, in_profile) in [
        ("plain", "get_a", free, free),
        ("plain", "get_b", free, denied),
        ("plain", "get_git", free, denied),
        ("plain", "get_c", free, asked(RuleSource::Profile)),
        ("plain", "put_a", free, (false, Some(RuleSource::Profile))),
        ("plain", "other", free, denied),
        // The profile allows neither what the settings deny nor what the server does not allow.
        ("plain", "secret", denied, denied),
        ("ruled", "secret", denied, denied),
        ("ruled", "set_a", denied, denied),
        ("ruled", "get_x", denied, denied),
        ("ruled", "get_a", free, free),
        ("ruled", "get_b", free, denied),
        ("ruled", "put_a", asked(RuleSource::Server), (false, Some(RuleSource::Server))),
        // Rules go by the server's own names.
        ("renamed", "a", free, denied),
        ("renamed", "other", free, free),
    ] {
        assert_eq!(use_of(&without, server, tool), own, "{server} {tool}");
        assert_eq!(use_of(&with, server, tool), in_profile, "{server} {tool} in the profile");
    }
    let none = load(r#"{"tools": {"plain": {"allow": []}}}"#);
    assert_eq!(use_of(&none, "plain", "get_a"), denied, "an empty list allows none");
}

#[test]
fn the_rules_of_a_profile_are_for_the_servers_of_all_files() {
    let rules = r#"{"deny": ["x"]}"#;
    let first = format!(
        r#"{{"profiles": {{"p": {{"tools": {{"a": {rules}}}}}, "q": {{"tools": {{"a": {rules}}}}}}}}}"#
    );
    let second = format!(r#"{{"profiles": {{"p": {{"tools": {{"b": {rules}, "c": {rules}}}}}}}}}"#);
    let files = [
        ("one.json", first),
        ("two.json", second),
        ("servers.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#.to_owned()),
        ("settings.json", r#"{"mcpServers": {"b": {"command": "x"}}}"#.to_owned()),
        ("config.toml", "[mcp_servers.c]\ncommand = \"x\"\nenabled_tools = [\"x\", \"y\"]\n".to_owned()),
    ];
    for (profile, denied) in [("p", &["b", "c"][..]), ("q", &["a"])] {
        let config = load_files(&files, Some(profile));
        assert_eq!(messages(&config), Vec::<String>::new());
        for server in ["a", "b", "c"] {
            assert_eq!(use_of(&config, server, "x").0, !denied.contains(&server), "{profile} {server}");
            assert!(use_of(&config, server, "y").0, "{profile} {server}");
        }
    }
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
