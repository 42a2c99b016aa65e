//! Which file imports which, read from `use` declarations and from paths that begin with `crate::` or `super::`.

use super::source::{SourceTree, crates};
use std::collections::{BTreeMap, BTreeSet};

/// The files that each file imports. A parent file and the files of its folder count as different files.
pub(super) struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    pub(super) fn of(tree: &SourceTree) -> Self {
        let imports = tree.code().map(|(file, code)| {
            let paths = paths(&code);
            let files = paths.iter().filter_map(|path| resolve(tree, file, path));
            (file.to_owned(), files.filter(|imported| imported != file).collect())
        });
        Self(imports.collect())
    }

    pub(super) fn by_file(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(file, imports)| (file.as_str(), imports))
    }
}

/// Groups of files that import each other in a cycle.
pub(super) fn file_cycles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reachable = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for imported in imports.0.get(file).into_iter().flatten() {
                if seen.insert(imported.as_str()) {
                    open.push(imported);
                }
            }
        }
        seen
    };
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        imports.0.keys().map(|file| (file.as_str(), reachable(file))).collect();
    let mut cycles: Vec<BTreeSet<String>> = Vec::new();
    for (file, reached) in reachable.iter().filter(|(file, reached)| reached.contains(*file)) {
        if !cycles.iter().any(|cycle| cycle.contains(*file)) {
            let members = reached.iter().filter(|other| reachable[*other].contains(file));
            cycles.push(members.map(|&member| member.to_owned()).collect());
        }
    }
    cycles
}

/// All paths in a file's code: those of `use` declarations, and those in expressions and types.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some(declaration) = use_declaration(line) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = declaration.to_owned();
        while !tree.ends_with(';') {
            tree.push_str(lines.next().unwrap().trim());
        }
        expand(tree.trim_end_matches(';'), &mut found);
    }
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in rest.match_indices(root) {
            let is_whole = rest[..at].chars().next_back().is_none_or(|c| !is_word(c) && c != ':');
            let end = rest[at..].find(|c: char| !is_word(c) && c != ':').unwrap_or(rest.len() - at);
            if is_whole {
                found.push(rest[at..at + end].to_owned());
            }
        }
    }
    found
}

/// What follows `use` in a line that begins a declaration.
fn use_declaration(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
    line.strip_prefix("pub(super) ").unwrap_or(line).strip_prefix("use ")
}

/// Expands `a::{b, c::{d, e}}` to single paths.
fn expand(tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((prefix, inner)) = tree.split_once('{') else {
        found.push(tree.split(" as ").next().unwrap().to_owned());
        return;
    };
    let inner = &inner[..inner.rfind('}').unwrap()];
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = inner[begin..at].trim();
                if !item.is_empty() {
                    expand(&format!("{prefix}{item}"), found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// The file that a path leads to: the longest prefix of it that is a module.
fn resolve(tree: &SourceTree, file: &str, path: &str) -> Option<String> {
    let mut segments = path.split("::").filter(|segment| !segment.is_empty()).peekable();
    let mut base: Vec<&str> = file.split('/').collect();
    match segments.peek() {
        Some(&"crate") => {
            segments.next();
            base.truncate(usize::from(crates().any(|name| name == base[0])));
        }
        Some(name) if crates().any(|known| known == *name) => base.clear(),
        Some(&"self") => drop(segments.next()),
        Some(&"super") => {
            while segments.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
        // A path that begins with a module of this file, else one of another crate.
        Some(child) if tree.contains(&format!("{file}/{child}")) => {}
        _ => return None,
    }
    for segment in segments {
        let child = base.iter().chain([&segment]).copied().collect::<Vec<_>>().join("/");
        if !tree.contains(&child) {
            break;
        }
        base.push(segment);
    }
    let module = base.join("/");
    tree.contains(&module).then_some(module)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
