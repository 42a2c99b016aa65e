//! Fuzz targets: config files and variables.
#![allow(clippy::expect_used, reason = "a panic is what a fuzz target reports")]

use super::env::Env;
use super::load::load;
use super::notation::escape;
use super::referenced::ReferencedFiles;
use super::vars::{ExpandContext, expand};
use super::{Config, Overrides};
use serde::de::IgnoredAny;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The value of the variable `SECRET`.
const SECRET: &str = "c4n4ry-s3cr3t";

fn env(cwd: &Path) -> Env {
    Env::new([("SECRET", SECRET), ("EMPTY", ""), ("A", "one")], cwd)
}

/// Returns whether a text names a file: expanding it may read any file of the machine, or wait for one.
fn names_a_file(text: &str) -> bool {
    ["{file:", "file", "\\u"].iter().any(|part| text.contains(part))
}

/// A config file: it is read in the same way each time, every problem has a position in the file, and no problem
/// repeats the value of a variable. What serde_json accepts is accepted. A profile shows no server and allows no tool
/// that is not there without it.
pub fn config(data: &[u8]) {
    if std::str::from_utf8(data).is_ok_and(names_a_file) {
        return;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(format!("dynamic-mcp-fuzz-{pid}-{count}"));
    // Relative paths lead here, and nothing but the config is in it. Not a directory that exists: the temporary directory
    // belongs to all users.
    std::fs::create_dir(&dir).expect("a new directory");
    let name = PathBuf::from("servers.json");
    std::fs::write(dir.join(&name), data).expect("a file");
    let env = env(&dir);
    let load = |profile: Option<&String>| {
        let overrides = Overrides { profile: profile.cloned(), ..Overrides::default() };
        load(std::slice::from_ref(&name), &env, &overrides)
    };
    let (config, again) = (load(None), load(None));
    config.profiles.iter().take(3).for_each(|profile| check_profile(&config, &load(Some(profile))));
    std::fs::remove_dir_all(&dir).expect("a directory");
    assert_eq!(config, again);
    let text = String::from_utf8_lossy(data);
    let warnings: Vec<_> = config.all_warnings().collect();
    let problems = config.errors.iter().chain(&warnings);
    for problem in problems.chain(config.servers.iter().filter_map(|(_, server)| server.as_ref().err())) {
        assert!(!problem.to_string().contains(SECRET), "{problem}");
        let (line, column) = problem.at.unwrap_or((1, 1));
        let lines = text.split('\n').nth(line - 1).expect("the line of the problem");
        assert!((1..=lines.chars().count() + 1).contains(&column), "{problem}");
    }
    check_agreement(&config, data);
    let mut names: Vec<_> = config.servers.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

/// Whether a config shows less with a profile than without.
fn check_profile(without: &Config, with: &Config) {
    let left_out = with.profile.as_ref().map_or(0, |profile| profile.left_out.len());
    assert_eq!(with.servers.len() + left_out, without.servers.len());
    for (name, server) in &with.servers {
        let all = without.server(name).expect("a server of the config");
        let (Ok(server), Ok(all)) = (server, all) else { continue };
        let (rules, all) = (server.rules(), all.rules());
        for tool in ["", "x", "get_x", "delete_repo", "rm_a"] {
            assert!(all.allows(tool) || !rules.allows(tool), "{name}: {tool}");
            assert!(rules.asks(tool).is_some() || all.asks(tool).is_none(), "{name}: {tool}");
        }
    }
}

/// Whether the file is JSON at all. The parser allows a depth of 512.
fn check_agreement(config: &Config, data: &[u8]) {
    let is_json = serde_json::from_slice::<IgnoredAny>(data).is_ok() && std::str::from_utf8(data).is_ok();
    let depth = data.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    let is_invalid = config.errors.iter().any(|error| error.message.starts_with("not valid JSON"));
    assert!(!(is_json && is_invalid && depth < 500), "serde_json accepts it: {:?}", config.errors);
}

/// A string with variables: it is expanded once, values are inserted unchanged, and errors repeat no value and nothing of
/// the string but a name. Escaped, any text stands for itself.
pub fn variables(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if names_a_file(text) {
        return;
    }
    let env = env(Path::new("/"));
    let files = ReferencedFiles::default();
    let context =
        || ExpandContext { env: &env, dir: Path::new("/nowhere"), files: &files, is_project: false };
    let expand = |text: &str| expand(text, context());
    match expand(text) {
        Ok(expanded) => {
            assert!(expanded.len() <= text.len().max(1) * SECRET.len());
            if !text.contains(['$', '{']) {
                assert_eq!(expanded, text);
            }
            // A text beside it changes nothing, and is not changed.
            let beside = self::expand(&format!("a }} {text}"), context());
            assert_eq!(beside.ok(), Some(format!("a }} {expanded}")));
        }
        Err(error) => {
            assert!(text.contains('$') || text.contains('{'));
            assert!(!format!("{error} {}", error.hint()).contains(SECRET));
        }
    }
    assert_eq!(expand(&escape(text)).ok().as_deref(), Some(text));
}
