//! The files of all crates, without `.rs`: those of `src` by their path below that, and `crates/wire/src/peer.rs` as
//! `wire/peer`. `wire` is the root of that crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::SOURCES;

/// The text of every file except the test files.
pub(super) struct SourceTree(BTreeMap<String, String>);

impl SourceTree {
    pub(super) fn read() -> Self {
        fn walk(root: &Path, dir: &Path, crate_name: &str, files: &mut BTreeMap<String, String>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                let is_test = name.split('/').any(|part| part == "tests" || part == "tests.rs");
                if path.is_dir() && !is_test {
                    walk(root, &path, crate_name, files);
                } else if let Some(name) = name.strip_suffix(".rs").filter(|_| !is_test) {
                    let file = match (crate_name, name) {
                        ("", name) => name.to_owned(),
                        (crate_name, "lib") => crate_name.to_owned(),
                        (crate_name, name) => format!("{crate_name}/{name}"),
                    };
                    files.insert(file, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut files = BTreeMap::new();
        for dir in SOURCES {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
            walk(&root, &root, crate_of(dir).unwrap_or_default(), &mut files);
        }
        Self(files)
    }

    /// Returns whether there is such a file.
    pub(super) fn contains(&self, file: &str) -> bool {
        self.0.contains_key(file)
    }

    /// The whole text of a file.
    pub(super) fn text_of(&self, file: &str) -> &str {
        &self.0[file]
    }

    /// Each file's code, without inline tests and comments.
    pub(super) fn code(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(file, text)| (file.as_str(), code(text)))
    }

    pub(super) fn code_of(&self, file: &str) -> String {
        code(&self.0[file])
    }

    /// Each file's number of lines, without inline tests.
    pub(super) fn line_counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(file, text)| (file.as_str(), without_tests(text).lines().count()))
    }

    /// The folders.
    pub(super) fn folders(&self) -> BTreeSet<String> {
        self.0.keys().filter_map(|file| Some(file.rsplit_once('/')?.0.to_owned())).collect()
    }
}

/// The crate whose source is in this folder. `None` for the program itself.
fn crate_of(dir: &str) -> Option<&str> {
    dir.strip_prefix("crates/")?.strip_suffix("/src")
}

/// The crates below `crates/`.
pub(super) fn crates() -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().filter_map(crate_of)
}

fn without_tests(text: &str) -> &str {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.split("#[cfg(test)]\n#[cfg(feature = \"loom\")]\n").next().unwrap()
}

fn code(text: &str) -> String {
    let lines = without_tests(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}
