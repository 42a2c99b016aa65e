//! The tests that docs/security.md names exist.

use std::fs;
use std::path::Path;

use crate::support::{SOURCES, source_files};

#[test]
fn the_tests_that_the_threat_model_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources: Vec<String> = SOURCES
        .iter()
        .chain(&["tests/it"])
        .flat_map(|dir| source_files(&root.join(dir)))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let doc = fs::read_to_string(root.join("docs/security.md")).unwrap();
    // The text between backticks.
    let named: Vec<&str> =
        doc.split('`').skip(1).step_by(2).filter(|text| text.contains("::") && !text.contains(' ')).collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        let last = name.rsplit("::").next().unwrap();
        let is_declared = |source: &String| {
            [format!("fn {last}("), format!("mod {last};"), format!("mod {last} {{")]
                .iter()
                .any(|declaration| source.contains(declaration))
        };
        assert!(sources.iter().any(is_declared), "there is no test {name}");
    }
}
