//! The files of `src` and `crates/core/src`, by their path below that and without `.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::SOURCES;

/// The text of every file except the test files.
pub(super) struct SourceTree(BTreeMap<String, String>);

impl SourceTree {
    pub(super) fn read() -> Self {
        fn walk(root: &Path, dir: &Path, files: &mut BTreeMap<String, String>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                let is_test = name.split('/').any(|part| part == "tests" || part == "tests.rs");
                if path.is_dir() && !is_test {
                    walk(root, &path, files);
                } else if let Some(name) = name.strip_suffix(".rs").filter(|_| !is_test) {
                    files.insert(name.to_owned(), std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut files = BTreeMap::new();
        for root in SOURCES.map(|dir| Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)) {
            walk(&root, &root, &mut files);
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

fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap()
}

fn code(text: &str) -> String {
    let lines = without_tests(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}
