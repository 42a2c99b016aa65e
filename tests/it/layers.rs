//! What ARCHITECTURE.md says of the source tree, read from the source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Who may use whom. A module that is not here may not exist.
const LAYERS: [(&str, &[&str]); 17] = [
    ("wire", &["protocol"]),
    ("protocol", &[]),
    ("config", &[]),
    ("dirs", &["config"]),
    ("telemetry", &[]),
    ("rules", &["config"]),
    ("schema", &["wire"]),
    ("search", &[]),
    ("transport", &["config", "protocol", "wire"]),
    ("auth", &["config", "transport"]),
    ("upstream", &["config", "protocol", "rules", "transport", "wire"]),
    ("cache", &["config", "upstream"]),
    ("groups", &["cache", "config", "protocol", "rules", "schema", "transport", "upstream", "wire"]),
    ("status", &["config", "groups", "upstream"]),
    ("front", &["config", "groups", "protocol", "rules", "schema", "search", "status", "upstream", "wire"]),
    (
        "cli",
        &[
            "auth",
            "cache",
            "config",
            "dirs",
            "front",
            "groups",
            "protocol",
            "telemetry",
            "transport",
            "upstream",
            "wire",
        ],
    ),
    ("lib", &[]),
];

fn sources() -> BTreeMap<PathBuf, String> {
    fn walk(dir: &Path, into: &mut BTreeMap<PathBuf, String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    files
}

fn module(path: &Path) -> String {
    let inside = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    inside.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// The code of a file without its inline tests and its comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn dependencies_go_one_way() {
    for (path, text) in sources() {
        let module = module(&path);
        if module == "main" || path.ends_with("tests.rs") {
            continue;
        }
        let (_, allowed) = LAYERS
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("no layer for {module}"));
        for (at, _) in code(&text).match_indices("crate::") {
            let code = code(&text);
            let used =
                code[at + 7..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap().to_owned();
            let fine = used == module || used.is_empty() || allowed.contains(&used.as_str());
            assert!(fine, "{} uses crate::{used}, which its layer may not", path.display());
        }
    }
}

#[test]
fn the_lifecycle_is_pure() {
    let sources = sources();
    let lifecycle = sources.iter().find(|(path, _)| path.ends_with("upstream/lifecycle.rs")).unwrap().1;
    let code = code(lifecycle);
    for forbidden in ["async ", ".await", "Instant::now", "spawn", "sleep", "tracing::", "std::fs", "rand"] {
        assert!(!code.contains(forbidden), "the lifecycle has {forbidden:?}");
    }
}

#[test]
fn rmcp_stays_in_the_front_and_in_the_login() {
    for (path, text) in sources() {
        // As a string it is a name in the log's filter.
        let uses = !path.ends_with("tests.rs") && code(&text).replace("\"rmcp::", "").contains("rmcp::");
        assert!(!uses || ["front", "auth"].contains(&module(&path).as_str()), "{} uses rmcp", path.display());
    }
}

/// Median about 150 lines; what is larger than this is two ideas.
#[test]
fn no_file_is_longer_than_400_lines_without_its_tests() {
    for (path, text) in sources() {
        if !path.ends_with("tests.rs") {
            let lines = text.split("#[cfg(test)]\nmod tests {").next().unwrap().lines().count();
            assert!(lines <= 400, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn architecture_names_every_module() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    for path in sources().keys() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let listed = name == "tests.rs"
            || text.contains(&format!("{} ", name.trim_end_matches(".rs")))
            || text.contains(name);
        assert!(listed, "ARCHITECTURE.md does not name {}", path.display());
    }
}
