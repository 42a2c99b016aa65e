//! Variables in the strings of a client, in our notation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{MAIN_SEPARATOR, Path};

use super::apps::VariableSyntax;
use crate::config::vars::Env;

/// The variables that a server uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UsedVariables {
    /// Those of the environment.
    pub(super) env: BTreeSet<String>,
    /// Those that only the client knows: our name for each, and what the client writes.
    pub(super) client: BTreeMap<String, String>,
    /// Whether some text has become a variable by our notation that is none in the client's, and cannot be escaped.
    pub(super) has_accidental: bool,
}

/// Translates the strings of one file.
pub(super) struct VariableTranslator<'a> {
    /// How the client writes variables.
    pub(super) syntax: VariableSyntax,
    /// The environment, which decides whether `$name` is a variable.
    pub(super) env: &'a Env,
    /// The directory of the file, where relative paths of `{file:…}` start.
    pub(super) dir: &'a Path,
}

/// What a variable of the client stands for.
enum Piece {
    /// A variable of the environment, with a default.
    Env(String, Option<String>),
    /// A variable that only the client knows.
    Client(String),
    /// Text that needs no escape.
    Text(String),
}

impl VariableTranslator<'_> {
    /// Returns the string in our notation, and notes the variables in it.
    pub(super) fn translate(&self, text: &str, used: &mut UsedVariables) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['$', '{']) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some((piece, after)) = self.variable(rest) {
                out.push_str(&our_notation(piece, used));
                rest = after;
                continue;
            }
            used.has_accidental |= rest.starts_with("{env:") || rest.starts_with("{file:");
            let (first, after) = rest.split_at(1);
            out.push_str(first);
            if first == "$" && after.starts_with(['$', '{']) {
                out.push('$');
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }

    /// The variable that the text starts with, and the text after it.
    fn variable<'t>(&self, text: &'t str) -> Option<(Piece, &'t str)> {
        match self.syntax {
            VariableSyntax::Literal => None,
            VariableSyntax::Ours => ours(text),
            VariableSyntax::Braces => braces(text),
            VariableSyntax::Dollar => braces(text).or_else(|| self.dollar(text)),
            VariableSyntax::Editor => self.editor(text),
            VariableSyntax::OpenCode => self.opencode(text),
        }
    }

    /// `$NAME`. A lower-case name, as a password may have, is a variable only if it is defined.
    fn dollar<'t>(&self, text: &'t str) -> Option<(Piece, &'t str)> {
        let rest = text.strip_prefix('$')?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_constant = !name.contains(|c: char| c.is_ascii_lowercase());
        let is_variable = is_name(name) && (is_constant || self.env.get(name).is_some());
        is_variable.then(|| (Piece::Env(name.to_owned(), None), after))
    }

    fn editor<'t>(&self, text: &'t str) -> Option<(Piece, &'t str)> {
        let (body, after) = text.strip_prefix("${")?.split_once('}')?;
        let piece = match body {
            "userHome" => {
                let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
                Piece::Env(name.to_owned(), None)
            }
            "pathSeparator" | "/" => Piece::Text(MAIN_SEPARATOR.to_string()),
            "" => return None,
            _ => match body.strip_prefix("env:") {
                Some(name) if is_name(name) => Piece::Env(name.to_owned(), None),
                _ => Piece::Client(format!("${{{body}}}")),
            },
        };
        Some((piece, after))
    }

    fn opencode<'t>(&self, text: &'t str) -> Option<(Piece, &'t str)> {
        if let Some((name, after)) = text.strip_prefix("{env:").and_then(|rest| rest.split_once('}')) {
            return is_name(name).then(|| (Piece::Env(name.to_owned(), None), after));
        }
        let (path, after) = text.strip_prefix("{file:")?.split_once('}')?;
        let path = if path.starts_with('~') { path.into() } else { self.dir.join(path) };
        Some((Piece::Text(format!("{{file:{}}}", path.display())), after))
    }
}

fn our_notation(piece: Piece, used: &mut UsedVariables) -> String {
    match piece {
        Piece::Env(name, default) => {
            let text = match default {
                Some(default) => format!("${{{name}:-{default}}}"),
                None => format!("${{{name}}}"),
            };
            used.env.insert(name);
            text
        }
        Piece::Client(original) => {
            let name = own_name(&original, used);
            let text = format!("${{{name}}}");
            used.client.insert(name, original);
            text
        }
        Piece::Text(text) => text,
    }
}

/// A variable in our own notation. A doubled dollar sign stays as it is.
fn ours(text: &str) -> Option<(Piece, &str)> {
    if let Some(after) = text.strip_prefix("$$") {
        return Some((Piece::Text("$$".to_owned()), after));
    }
    braces(text)
}

/// `${NAME}` or `${NAME:-default}`.
fn braces(text: &str) -> Option<(Piece, &str)> {
    let (body, after) = text.strip_prefix("${")?.split_once('}')?;
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (body, None),
    };
    is_name(name).then(|| (Piece::Env(name.to_owned(), default), after))
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_word)
}

/// Our name for what only the client knows: `DYN_GITHUB_TOKEN` for `${input:github-token}`.
fn own_name(original: &str, used: &UsedVariables) -> String {
    let body = original.trim_start_matches("${").trim_end_matches('}');
    let body = body.strip_prefix("input:").unwrap_or(body);
    let mut name = "DYN".to_owned();
    let (mut begins_word, mut before_is_lower) = (true, false);
    for c in body.chars() {
        if !c.is_ascii_alphanumeric() {
            begins_word = true;
            continue;
        }
        // `workspaceFolder` is two words, and `API_KEY` too.
        if begins_word || (c.is_ascii_uppercase() && before_is_lower) {
            name.push('_');
        }
        before_is_lower = c.is_ascii_lowercase();
        begins_word = false;
        name.push(c.to_ascii_uppercase());
    }
    let is_free = |name: &str| used.client.get(name).is_none_or(|known| known == original);
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| is_free(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(syntax: VariableSyntax, text: &str) -> (String, UsedVariables) {
        let env = Env::new([("word", "x")], "/");
        let mut used = UsedVariables::default();
        let text = VariableTranslator { syntax, env: &env, dir: Path::new("/c") }.translate(text, &mut used);
        (text, used)
    }

    #[test]
    fn every_notation_becomes_ours_and_all_else_stands_for_itself() {
        use VariableSyntax::{Braces, Dollar, Editor, Literal, OpenCode, Ours};
        for (syntax, text, wanted) in [
            (Literal, "${A} $A $$ $", "$${A} $A $$$ $"),
            (Braces, "x${A}y${B:-c d}", "x${A}y${B:-c d}"),
            (Braces, "$A ${a b} ${env:A} $${A}", "$A $${a b} $${env:A} $$${A}"),
            (Dollar, "Bearer $TOKEN, ${A}", "Bearer ${TOKEN}, ${A}"),
            (Dollar, "pa$sword$word$$5", "pa$sword${word}$$$5"),
            (
                Editor,
                "${env:A}:${userHome}${/}x",
                if cfg!(windows) { r"${A}:${USERPROFILE}\x" } else { "${A}:${HOME}/x" },
            ),
            (Editor, "${input:api-key} ${workspaceFolder}", "${DYN_API_KEY} ${DYN_WORKSPACE_FOLDER}"),
            (
                OpenCode,
                "{env:A} {file:./t} {file:~/t} ${A} {a}",
                if cfg!(windows) {
                    r"${A} {file:/c\./t} {file:~/t} $${A} {a}"
                } else {
                    "${A} {file:/c/./t} {file:~/t} $${A} {a}"
                },
            ),
            (Ours, "$$ ${A}", "$$ ${A}"),
        ] {
            assert_eq!(translated(syntax, text).0, wanted, "{syntax:?} {text}");
        }
    }

    /// What a client takes literally has to be the same text for us.
    #[test]
    fn literal_text_expands_to_itself() {
        use crate::config::referenced::ReferencedFiles;
        use crate::config::vars::{ExpandContext, expand};
        let (env, files) = (Env::default(), ReferencedFiles::default());
        let context = ExpandContext { env: &env, dir: Path::new("/"), files: &files, is_project: false };
        for text in ["$", "$$", "$$$", "${A}", "$${A}", "$$${A}$", "a${b}{c}$d$", "{$}${"] {
            let (ours, _) = translated(VariableSyntax::Literal, text);
            assert_eq!(expand(&ours, context).unwrap(), text, "{ours}");
        }
    }

    #[test]
    fn the_variables_in_use_are_known() {
        let (_, used) = translated(VariableSyntax::Editor, "${env:A}${input:a-b}${input:a_b}${input:a-b}");
        assert_eq!(used.env, BTreeSet::from(["A".to_owned()]));
        let client = [("DYN_A_B", "${input:a-b}"), ("DYN_A_B_2", "${input:a_b}")];
        assert_eq!(used.client, client.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        assert!(translated(VariableSyntax::Literal, "{env:A}").1.has_accidental);
    }
}
