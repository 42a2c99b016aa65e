//! Checks of the source tree: what ARCHITECTURE.md says about it, read from the source.

use imports::{Imports, file_cycles};
use source::{SourceTree, crates};
use std::collections::BTreeMap;
use std::path::Path;

mod imports;
mod source;

/// The folders of the crate `front`: each may import those after it, and every file of the crate's root.
const FRONT: [&str; 8] = ["server", "tools", "passthrough", "call", "notify", "ask", "session", "client"];

/// The folders of the crate `import`: each may import those after it.
const IMPORT: [&str; 7] = ["undo", "plan", "measure", "profiles", "merge", "files", "clients"];

/// The modules of the crate `upstream`: each may import those after it.
const UPSTREAM: [&str; 17] = [
    "groups",
    "task",
    "handle",
    "login",
    "snapshot",
    "stats",
    "start_progress",
    "connection",
    "cache",
    "catalog",
    "pins",
    "lifecycle",
    "backoff",
    "transport",
    "error",
    "clients",
    "select",
];

#[test]
fn the_modules_of_the_front_import_only_lower_modules() {
    let rank = |file: &str| {
        let module = file.strip_prefix("front/")?.split('/').next()?;
        FRONT.iter().position(|name| *name == module)
    };
    let tree = SourceTree::read();
    for (file, imports) in Imports::of(&tree).by_file() {
        for imported in imports {
            match (rank(file), rank(imported)) {
                (Some(from), Some(to)) => assert!(from <= to, "{file} imports {imported}"),
                (None, Some(_)) if file.starts_with("front") => panic!("{file} imports {imported}"),
                _ => {}
            }
        }
    }
}

#[test]
fn the_folders_of_the_import_import_only_lower_folders() {
    assert_imports_only_lower("import", &IMPORT);
}

#[test]
fn the_modules_of_upstream_import_only_lower_modules() {
    assert_imports_only_lower("upstream", &UPSTREAM);
}

/// Checks that each of these modules of a crate imports, within the crate, only itself and those after it.
fn assert_imports_only_lower(crate_name: &str, order: &[&str]) {
    let rank = |file: &str| {
        let module = file.strip_prefix(crate_name)?.strip_prefix('/')?.split('/').next()?;
        order.iter().position(|name| *name == module)
    };
    let tree = SourceTree::read();
    for (file, imports) in Imports::of(&tree).by_file() {
        for imported in imports {
            let is_lower = rank(file).zip(rank(imported)).is_none_or(|(from, to)| from <= to);
            assert!(is_lower, "{file} imports {imported}");
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let cycles = file_cycles(&Imports::of(&SourceTree::read()));
    assert!(cycles.is_empty(), "files that import each other: {cycles:#?}");
}

/// A reader who meets a type's name finds one type.
#[test]
fn no_two_types_share_a_name() {
    let tree = SourceTree::read();
    let mut files_by_type: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (file, code) in tree.code() {
        for line in code.lines() {
            let words = line.strip_prefix("pub(super) ").or_else(|| line.strip_prefix("pub(crate) "));
            let words = words.or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
            let mut words = words.split(|c: char| !c.is_alphanumeric() && c != '_');
            if matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union")) {
                let files = files_by_type.entry(words.next().unwrap().to_owned()).or_default();
                // The same type for another platform is in the same file.
                if files.last() != Some(&file) {
                    files.push(file);
                }
            }
        }
    }
    files_by_type.retain(|_, files| files.len() > 1);
    assert!(files_by_type.is_empty(), "types with the same name: {files_by_type:#?}");
}

#[test]
fn the_lifecycle_is_pure() {
    let tree = SourceTree::read();
    let code = tree.code_of("upstream/lifecycle");
    for forbidden in ["async ", ".await", "Instant::now", "spawn", "sleep", "tracing::", "std::fs", "rand"] {
        assert!(!code.contains(forbidden), "the lifecycle has {forbidden:?}");
    }
}

#[test]
fn rmcp_is_used_only_for_our_own_messages_and_for_logins() {
    let tree = SourceTree::read();
    for (file, code) in tree.code() {
        // As a string it is the name of a module in the log's filter.
        let uses_rmcp = code.replace("\"rmcp::", "").contains("rmcp::");
        assert!(!uses_rmcp || file.starts_with("front/") || file.starts_with("auth/"), "{file} uses rmcp");
    }
}

/// A larger file has more than one idea.
#[test]
fn no_file_has_more_than_600_lines_without_its_tests() {
    for (file, lines) in SourceTree::read().line_counts() {
        assert!(lines <= 600, "{file} has {lines} lines");
    }
}

/// The map stays on one screen, so it has the crates, and each crate's root file has the folders.
#[test]
fn architecture_md_names_every_crate_and_no_file_that_is_not_there() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md");
    let (text, tree) = (std::fs::read_to_string(path).unwrap(), SourceTree::read());
    for name in crates() {
        assert!(text.contains(&format!("\n| `{name}` |")), "the table of crates lacks {name}");
    }
    let code = text.split('`').skip(1).step_by(2);
    let is_of_crate = |file: &str| crates().any(|name| file.split('/').next() == Some(name));
    for file in code.filter_map(|code| code.strip_suffix(".rs")).filter(|file| is_of_crate(file)) {
        let is_test =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(file_below_crates(file)).exists();
        assert!(tree.contains(file) || is_test, "ARCHITECTURE.md names {file}.rs, which is not there");
    }
}

/// `wire/peer` is `wire/src/peer.rs` below `crates`.
fn file_below_crates(file: &str) -> String {
    let (name, rest) = file.split_once('/').unwrap();
    format!("{name}/src/{rest}.rs")
}

#[test]
fn the_root_file_of_every_folder_begins_with_its_theory_of_operation() {
    let tree = SourceTree::read();
    for folder in tree.folders() {
        let doc_lines = tree.text_of(&folder).lines().take_while(|line| line.starts_with("//!")).count();
        assert!(doc_lines >= 4, "{folder}.rs has {doc_lines} lines of documentation");
    }
}
