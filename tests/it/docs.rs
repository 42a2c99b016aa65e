//! What the documentation says: its tables, links, configs and commands.
//!
//! - `reference`: the lists of docs/configuration.md are made from the schema, whose defaults and examples are true;
//! - `pages`: links lead somewhere, and configs load;
//! - `commands`: the commands run;
//! - `man`: the man page is made from the command line;
//! - `messages`: the program has every text that docs/errors.md quotes;
//! - `platforms`: modules of `tests/it` that do not run everywhere say why;
//! - `pictures`: the plot in README.md shows today's figures.

use std::fs;
use std::path::{Path, PathBuf};

mod commands;
mod man;
mod messages;
mod pages;
mod pictures;
mod platforms;
mod reference;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages for users: README.md, CONTRIBUTING.md and docs/*.md.
fn page_files() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    pages.sort();
    pages
}

/// A fenced block of a page.
struct Fence {
    /// The page and the line of its beginning, for messages.
    place: String,
    /// The word that names the language.
    language: String,
    /// What follows that word.
    note: String,
    text: String,
}

/// All fenced blocks of the pages.
fn fences() -> Vec<Fence> {
    let mut fences = Vec::new();
    for page in page_files() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        let mut open: Option<Fence> = None;
        for (index, line) in text.lines().enumerate() {
            let info = line.trim_start().strip_prefix("```").filter(|info| !info.contains('`'));
            match (info, &mut open) {
                (Some(_), Some(_)) => fences.extend(open.take()),
                (Some(info), None) => {
                    let (language, note) = info.split_once(' ').unwrap_or((info, ""));
                    let place = format!("{name}:{}", index + 1);
                    let (language, note) = (language.to_owned(), note.to_owned());
                    open = Some(Fence { place, language, note, text: String::new() });
                }
                (None, Some(fence)) => fence.text.push_str(&format!("{}\n", line.trim_start())),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{name}: a fence is not closed");
    }
    assert!(fences.len() > 30);
    fences
}
