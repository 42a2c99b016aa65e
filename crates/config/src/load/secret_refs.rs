//! Finds `{keyring:…}` and `{command:…}` in an entry, and decides whether they count there.
//!
//! They count in `env`, `headers` and the credentials in `oauth` of the user's own `servers.json`, if no other user can
//! change that file. Anywhere else the text stays as it is, with a warning: a file that came with a project, or that a
//! client writes, must not run programs or read secrets by a value.

use std::path::{Path, PathBuf};

use super::source_text::SourceText;
use crate::ConfigError;
use crate::dirs::own_config_file;
use crate::env::Env;
use crate::fields;
use crate::file::ServerEntry;
use crate::file::keys::OAuthEntry;
use crate::referenced::FileStamp;
use crate::secrets::{SecretPart, SecretPlace, SecretSource, ServerSecrets, is_secret_name, marker_dir};
use crate::value_reader::{SecretMention, path_text};
use crate::vars::{ExpandContext, ExpandedPart, expand_pieces};
use base::private_files::check_owned;

/// The names of files that clients read from the folder of a project.
const PROJECT_FILES: [&str; 3] = [".mcp.json", "opencode.json", "opencode.jsonc"];
/// The folders in which they keep such files. In the home directory they have the user's own.
const PROJECT_DIRS: [&str; 7] = [".vscode", ".cursor", ".gemini", ".codex", ".roo", ".opencode", ".github"];
/// What the folder of a project has.
const PROJECT_MARKS: [&str; 4] = [".git", ".hg", ".svn", ".jj"];

/// Returns why values of the file at `path` are not fetched. `None` if they are. Blocks.
pub(super) fn refusal(path: &Path, env: &Env) -> Option<String> {
    let Some(own) = own_config_file(env) else {
        return Some("the home directory is not known".to_owned());
    };
    let is_own =
        path == own || path.canonicalize().is_ok_and(|path| own.canonicalize().is_ok_and(|own| path == own));
    match is_own {
        false => Some(format!("it works only in {}", own.display())),
        true => check_owned(&own).err().map(|error| error.to_string()),
    }
}

/// Returns whether a config file belongs to a project rather than to the user: by its name, or because it is in a folder
/// under version control below the home directory or outside of it.
pub(super) fn is_of_project(path: &Path, env: &Env) -> bool {
    let home = env.home();
    if env.config_dir().is_some_and(|dir| path.parent() == Some(&dir)) {
        return false;
    }
    let has_name = |path: &Path, names: &[&str]| {
        names.iter().any(|name| path.file_name().is_some_and(|own| own == *name))
    };
    let dir = path.parent().unwrap_or(path);
    let is_at_home = |dir: Option<&Path>| dir.is_some() && dir == home.as_deref();
    if has_name(path, &PROJECT_FILES) && !is_at_home(Some(dir)) && !dir.ends_with(".config/opencode") {
        return true;
    }
    if has_name(dir, &PROJECT_DIRS) && !is_at_home(dir.parent()) {
        return true;
    }
    let above = dir.ancestors().take_while(|dir| Some(*dir) != home.as_deref());
    above.into_iter().any(|dir| PROJECT_MARKS.iter().any(|mark| dir.join(mark).exists()))
}

/// What was found in an entry.
#[derive(Default)]
pub(super) struct FoundSecrets {
    /// The values to fetch.
    pub(super) secrets: ServerSecrets,
    /// What is wrong with them.
    pub(super) errors: Vec<ConfigError>,
    /// Text that stays as it is although it looks like one.
    pub(super) warnings: Vec<ConfigError>,
}

/// Finds the values that the strings of a server's entry name. `refusal` says why none is fetched for its file: then each
/// is a warning.
pub(super) fn find(
    mentions: &[SecretMention],
    text: &SourceText,
    context: ExpandContext<'_>,
    refusal: Option<&str>,
) -> FoundSecrets {
    let mut finder = Finder { text, context, refusal, found: FoundSecrets::default() };
    for mention in mentions {
        match place(&mention.path).filter(|_| refusal.is_none()) {
            Some(place) => finder.value(place, mention),
            None => finder.warn(mention),
        }
    }
    finder.found
}

/// Returns the field at this path, if values are fetched for it.
fn place(path: &[String]) -> Option<SecretPlace> {
    let [field, name] = path else { return None };
    match fields::find(ServerEntry::FIELDS, field)?.name {
        "env" => Some(SecretPlace::Env(name.clone())),
        "headers" => Some(SecretPlace::Header(name.clone())),
        "oauth" => match fields::find(OAuthEntry::FIELDS, name)?.name {
            "client_secret" => Some(SecretPlace::ClientSecret),
            "private_key" => Some(SecretPlace::PrivateKey),
            _ => None,
        },
        _ => None,
    }
}

struct Finder<'f> {
    text: &'f SourceText,
    context: ExpandContext<'f>,
    refusal: Option<&'f str>,
    found: FoundSecrets,
}

impl Finder<'_> {
    /// Reads a value that may name others.
    fn value(&mut self, place: SecretPlace, mention: &SecretMention) {
        // The error is found when the entry is read.
        let Ok(pieces) = expand_pieces(&mention.text, self.context) else { return };
        if !pieces.iter().any(|piece| matches!(piece, ExpandedPart::Secret(_))) {
            return;
        }
        let mut parts = Vec::new();
        for piece in pieces {
            match piece {
                ExpandedPart::Text(text) => parts.push(SecretPart::Text(text)),
                ExpandedPart::Secret(body) => match source(&body, self.context) {
                    Ok(source) => parts.push(SecretPart::Fetched(source)),
                    Err(message) => {
                        let message = format!("`{}`: {message}", path_text(&mention.path));
                        self.found.errors.push(self.text.error(mention.offset, message, None));
                    }
                },
            }
        }
        self.found.secrets.0.push((place, parts));
    }

    /// Warns of text that looks as if it named a value, and does not.
    fn warn(&mut self, mention: &SecretMention) {
        let pieces = expand_pieces(&mention.text, self.context).unwrap_or_default();
        let secret = pieces.iter().find_map(|piece| match piece {
            ExpandedPart::Secret(body) => body.split_once(':'),
            ExpandedPart::Text(_) => None,
        });
        let Some((kind, _)) = secret else { return };
        let why = self
            .refusal
            .unwrap_or("it works only in `env`, `headers`, `oauth.client_secret` and `oauth.private_key`");
        let message = format!("`{}`: `{{{kind}:…}}` is taken literally", path_text(&mention.path));
        self.found.warnings.push(self.text.error(mention.offset, message, Some(why.to_owned())));
    }
}

/// Reads what stands between the braces.
///
/// # Errors
///
/// A message that repeats nothing of it: the name of the secret or the command is missing or malformed.
fn source(body: &str, context: ExpandContext<'_>) -> Result<SecretSource, &'static str> {
    match body.split_once(':') {
        Some(("keyring", name)) if is_secret_name(name) => {
            let marker: Option<PathBuf> = marker_dir(context.env).map(|dir| dir.join(name));
            if let Some(marker) = &marker {
                context.files.add(marker);
            }
            let stamp = marker.map_or(FileStamp::Missing, |marker| FileStamp::of(&marker));
            Ok(SecretSource::Keyring { name: name.to_owned(), stamp })
        }
        Some(("keyring", _)) => {
            Err("`{keyring:…}` needs the name of a secret: 1 to 64 letters, digits, `_` and `-`")
        }
        Some((_, command)) => match words(command) {
            Some(words) if !words.is_empty() => Ok(SecretSource::Command(words)),
            Some(_) => Err("`{command:…}` needs a program"),
            None => Err("`{command:…}` has a quotation mark that is not closed"),
        },
        None => Err("`{command:…}` needs a program"),
    }
}

/// Splits a command at spaces. Quotation marks of either kind keep spaces. No other character is special: there is no
/// shell. `None` if a quotation mark is not closed.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        inner => word.push(inner),
                    }
                }
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_without_a_shell() {
        for (command, expected) in [
            ("op read op://v/i/f", Some(vec!["op", "read", "op://v/i/f"])),
            ("  op  read 'op://My Vault/i' \"it's\"x", Some(vec!["op", "read", "op://My Vault/i", "it'sx"])),
            (r"C:\bin\op.exe $HOME | rm *", Some(vec![r"C:\bin\op.exe", "$HOME", "|", "rm", "*"])),
            ("op ''", Some(vec!["op", ""])),
            ("", Some(vec![])),
            ("op 'x", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(words(command), expected, "{command}");
        }
    }

    #[test]
    fn a_project_is_known_by_the_names_of_its_files_or_by_version_control() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let env = Env::new([("HOME", home.to_str().unwrap())], "/");
        std::fs::create_dir_all(home.join("repo/.git")).unwrap();
        for (path, expected) in [
            (".config/dynamic-mcp/servers.json", false),
            ("mcp/servers.json", false),
            (".cursor/mcp.json", false),
            (".config/opencode/opencode.json", false),
            ("repo/servers.json", true),
            ("repo/a/b/servers.json", true),
            ("work/.mcp.json", true),
            ("work/.cursor/mcp.json", true),
            ("work/opencode.json", true),
        ] {
            assert_eq!(is_of_project(&home.join(path), &env), expected, "{path}");
        }
    }
}
