//! The table of files with unsafe code in ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::source_files;

/// Whether a line has unsafe code. The lint `unsafe_code` does not cover every use of the keyword.
fn has_unsafe_code(line: &str) -> bool {
    let code = line.split("//").next().unwrap();
    let uses = ["{", "fn", "impl", "trait", "extern"];
    uses.iter().any(|used| code.contains(&["unsafe", used].join(" ")))
        || code.contains(concat!("unsafe", "("))
}

#[test]
fn architecture_md_lists_every_file_with_unsafe_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = ["src", "crates", "tests", "examples", "benches", "fuzz"];
    let files = dirs.iter().flat_map(|dir| source_files(&root.join(dir)));
    let actual: BTreeSet<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| std::fs::read_to_string(path).unwrap().lines().any(has_unsafe_code))
        .map(|path| path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/"))
        .collect();
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let section = text.split("## Unsafe code\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: BTreeSet<String> = rows
        .map(|row| {
            let (file, reason) = row.split_once("` | ").unwrap();
            assert!(reason.len() > 20, "{file} has no reason");
            file.to_owned()
        })
        .collect();
    assert_eq!(listed, actual, "the table in ARCHITECTURE.md, and the files with unsafe code");
}
