//! Each module of `tests/it` that does not run everywhere has a comment that says why; docs/platforms.md refers to it.

use std::fs;

use crate::support::source_files;

#[test]
fn each_module_that_does_not_run_everywhere_says_why() {
    let dir = super::root().join("tests/it");
    let (mut count, mut missing) = (0, Vec::new());
    for file in source_files(&dir) {
        let name = file.strip_prefix(&dir).unwrap().display().to_string();
        if !name.ends_with(".rs") || name.starts_with("support") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for window in lines.windows(3) {
            let &[before, condition, declared] = window else { unreachable!() };
            let module = declared.trim_start_matches("pub(crate) ").strip_prefix("mod ");
            if module.is_some_and(|module| module.ends_with(';')) && condition.starts_with("#[cfg(") {
                count += 1;
                missing.extend((!before.starts_with("// ")).then(|| format!("{name}: {declared}")));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "no comment says why");
    assert!(count > 20, "{count}");
}
