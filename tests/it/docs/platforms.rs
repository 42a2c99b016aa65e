//! The table of docs/platforms.md that has the modules of `tests/it` that do not run everywhere, made from their `cfg`s and
//! from the comments before them.

use std::path::Path;

use crate::support::source_files;

const BEGIN: &str = "<!-- modules: made from tests/it -->\n";
const END: &str = "<!-- end of the modules -->\n";
const SYSTEMS: [&str; 3] = ["linux", "macos", "windows"];

#[test]
fn the_table_of_the_platforms_page_has_each_module_that_does_not_run_everywhere() {
    let path = super::root().join("docs/platforms.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let rendered =
        format!("| module | Linux | macOS | Windows | |\n| --- | --- | --- | --- | --- |\n{}", rows());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{rendered}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, rendered, "UPDATE_DOCS=1 cargo test --test it docs::platforms");
    }
}

/// A line for each module that some system does not have. A module within one of those has a line if it has fewer.
fn rows() -> String {
    let dir = super::root().join("tests/it");
    let mut files = source_files(&dir);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    let mut modules: Vec<_> = files.iter().flat_map(|file| modules_of(&dir, file)).collect();
    modules.retain(|module| !module.name.starts_with("support"));
    modules.sort_by(|a, b| a.name.cmp(&b.name));
    let mark = |runs| if runs { "yes" } else { "–" };
    let row = |module: &Module| {
        let parent = modules.iter().find(|parent| module.name.starts_with(&format!("{}::", parent.name)));
        let runs = SYSTEMS.map(|system| {
            holds(&module.cfg, system) && parent.is_none_or(|parent| holds(&parent.cfg, system))
        });
        assert!(!module.reason.is_empty(), "{} has no comment that says why", module.name);
        let [linux, macos, windows] = runs.map(mark);
        format!("| `{}` | {linux} | {macos} | {windows} | {} |\n", module.name, module.reason)
    };
    modules.iter().map(row).collect()
}

/// A declaration of a module with a condition.
struct Module {
    /// Such as `oauth::keyring`.
    name: String,
    /// What is in `#[cfg(…)]`.
    cfg: String,
    /// The comment before it.
    reason: String,
}

fn modules_of(dir: &Path, file: &Path) -> Vec<Module> {
    let relative = file.strip_prefix(dir).unwrap().with_extension("");
    let parents: Vec<&str> =
        relative.iter().map(|part| part.to_str().unwrap()).filter(|part| *part != "main").collect();
    let text = std::fs::read_to_string(file).unwrap();
    let (mut found, mut comment, mut cfg) = (Vec::new(), Vec::new(), None);
    for line in text.lines() {
        if let Some(text) = line.strip_prefix("// ") {
            comment.push(text);
            continue;
        }
        if let Some(condition) = line.strip_prefix("#[cfg(") {
            cfg = condition.strip_suffix(")]");
            continue;
        }
        let declared = line.strip_prefix("pub(crate) ").unwrap_or(line).strip_prefix("mod ");
        if let (Some(name), Some(cfg)) = (declared.and_then(|rest| rest.strip_suffix(';')), cfg) {
            let name = parents.iter().copied().chain([name]).collect::<Vec<_>>().join("::");
            found.push(Module { name, cfg: cfg.to_owned(), reason: comment.join(" ") });
        }
        (comment, cfg) = (Vec::new(), None);
    }
    found
}

/// Whether a condition holds on a system.
fn holds(condition: &str, system: &str) -> bool {
    let list = |name: &str| condition.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    if let Some(inner) = list("not") {
        return !holds(inner, system);
    }
    if let Some(inner) = list("all") {
        return parts(inner).iter().all(|part| holds(part, system));
    }
    if let Some(inner) = list("any") {
        return parts(inner).iter().any(|part| holds(part, system));
    }
    match condition {
        "unix" => system != "windows",
        "windows" => system == "windows",
        _ => condition == format!("target_os = \"{system}\""),
    }
}

/// The conditions of a list, which are separated by commas outside of parentheses.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(list[begin..].trim());
    found
}
