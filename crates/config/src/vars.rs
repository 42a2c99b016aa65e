//! Variables in the strings of a config, whose notation is in `notation`.
//!
//! `{keyring:NAME}` and `{command:…}` are left to [`secrets`](super::secrets).
//!
//! A string is expanded once: variables in the value of a variable are not expanded.

use std::borrow::Cow;
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use memchr::memchr2;
use thiserror::Error;

use super::env::Env;
use super::notation::{self, Malformed, StringPart};
use super::referenced::ReferencedFiles;
use base::files::{self, MAX_NAMED_BYTES};
use base::text;

/// What the variables and paths in a config file refer to.
#[derive(Clone, Copy, Debug)]
pub struct ExpandContext<'a> {
    /// The source of variables and of the home directory.
    pub env: &'a Env,
    /// The config file's directory, where relative paths start.
    pub dir: &'a Path,
    /// Notes the files that are read.
    pub files: &'a ReferencedFiles,
    /// Whether the config belongs to a project: then `{file:…}` reads only files in `dir`.
    pub is_project: bool,
}

impl ExpandContext<'_> {
    /// Resolves a path of the config: `~` is the home directory, and a relative path starts at the config file's
    /// directory.
    ///
    /// # Errors
    ///
    /// [`VarError::NoHome`] if the path starts with `~` and there is no home directory.
    pub(crate) fn resolve_path(&self, path: &str) -> Result<PathBuf, VarError> {
        let below_home = match path.strip_prefix('~') {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('/').or_else(|| rest.strip_prefix(MAIN_SEPARATOR)),
            None => None,
        };
        match below_home {
            Some(rest) => self.env.home().map(|home| home.join(rest)).ok_or(VarError::NoHome),
            None => Ok(self.dir.join(path)),
        }
    }
}

/// Why a string cannot be expanded. The messages name variables but never repeat their values or the string.
#[derive(Debug, Error)]
pub enum VarError {
    /// The environment has no such variable, and the string gives no default.
    #[error("the variable `{0}` is not defined")]
    Undefined(String),
    /// A `${` is not closed, or does not contain a name.
    #[error("`${{` is not followed by a variable name and `}}`")]
    Malformed,
    /// The file of a `{file:…}` cannot be read.
    #[error("the file named by `{{file:…}}` cannot be read: {}", read_error_reason(.error))]
    File {
        /// The directory of the config file.
        dir: PathBuf,
        /// Why it cannot be read.
        error: io::Error,
    },
    /// The file of a `{file:…}` in a project's config is not in the folder of the config.
    #[error(
        "the file named by `{{file:…}}` is not in the folder of this config file, which belongs to a project"
    )]
    OutsideProject,
    /// A path starts with `~`, and there is no home directory.
    #[error("the path starts with `~`, but neither `HOME` nor `USERPROFILE` is set")]
    NoHome,
}

/// Variables that editors define for the servers they start.
const EDITOR_VARIABLES: [&str; 4] =
    ["userHome", "workspaceFolder", "workspaceFolderBasename", "pathSeparator"];

impl VarError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Undefined(name) if name.starts_with("input:") => {
                "`${input:…}` works only in VS Code; write `${NAME}` and set that environment variable".to_owned()
            }
            Self::Undefined(name)
                if EDITOR_VARIABLES.contains(&name.as_str()) || name.contains([':', '.']) =>
            {
                "editor variables are not available here; write the value, or `${NAME}` for an environment variable"
                    .to_owned()
            }
            Self::Undefined(name) => {
                format!("set it in the environment of the MCP client, or give a default: `${{{name}:-…}}`")
            }
            Self::Malformed => {
                "write `${NAME}` for an environment variable, or `$$` for a dollar sign".to_owned()
            }
            Self::File { dir, .. } => {
                format!("create it, or write another path; a relative path starts at {}", text::path(dir))
            }
            Self::OutsideProject => {
                "a project's config reads only files in its own folder; configure this server in your own servers.json"
                    .to_owned()
            }
            Self::NoHome => "write the full path".to_owned(),
        }
    }
}

impl From<Malformed> for VarError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// A part of a string.
#[derive(Debug)]
pub(super) enum ExpandedPart<'t> {
    /// Text whose variables are expanded.
    Text(String),
    /// What stands between the braces of `{keyring:…}` or `{command:…}`.
    Secret(Cow<'t, str>),
}

/// Replaces the variables in `text`. `{keyring:…}` and `{command:…}` stay. Blocks if there is a `{file:…}`.
///
/// # Errors
///
/// Fails if a variable is malformed or undefined, or if the file of a `{file:…}` cannot be read, is larger than 1 MiB
/// or not UTF-8, is outside of the folder of a project's config, or needs a home directory that is not known.
pub fn expand(text: &str, context: ExpandContext<'_>) -> Result<String, VarError> {
    if memchr2(b'$', b'{', text.as_bytes()).is_none() {
        return Ok(text.to_owned());
    }
    let pieces = expand_pieces(text, context)?;
    Ok(pieces.iter().fold(String::with_capacity(text.len()), |out, piece| match piece {
        ExpandedPart::Text(text) => out + text,
        ExpandedPart::Secret(body) => out + "{" + body + "}",
    }))
}

/// Expands like [`expand`], and returns the content of the braces of `{keyring:…}` and `{command:…}` as pieces of their
/// own.
///
/// # Errors
///
/// As [`expand`].
pub(super) fn expand_pieces<'t>(
    text: &'t str,
    context: ExpandContext<'_>,
) -> Result<Vec<ExpandedPart<'t>>, VarError> {
    let mut pieces = Vec::new();
    let mut out = String::new();
    for part in notation::parts(text)? {
        match part {
            StringPart::Text(text) => out.push_str(&text),
            StringPart::Env { name, default } => {
                out.push_str(env_value(&name, default.as_deref(), context.env)?);
            }
            StringPart::File(path) => out.push_str(&file_content(&path, context)?),
            StringPart::Secret(body) => {
                pieces.push(ExpandedPart::Text(std::mem::take(&mut out)));
                pieces.push(ExpandedPart::Secret(body));
            }
        }
    }
    pieces.push(ExpandedPart::Text(out));
    Ok(pieces)
}

/// Returns the value of a variable. As in a shell, the default also replaces an empty value. Without `HOME`, that is
/// `USERPROFILE`.
///
/// # Errors
///
/// `Undefined` if there is neither a value nor a default.
fn env_value<'v>(name: &str, default: Option<&'v str>, env: &'v Env) -> Result<&'v str, VarError> {
    // Windows has another name for it, and configs come from elsewhere.
    let home = || env.get("USERPROFILE").filter(|_| name == "HOME");
    match (env.get(name).or_else(home), default) {
        (None | Some(""), Some(default)) => Ok(default),
        (Some(value), _) => Ok(value),
        (None, None) => Err(VarError::Undefined(name.to_owned())),
    }
}

/// Returns the content of a file without the line breaks at its end, and notes the file. Blocks.
///
/// # Errors
///
/// `NoHome` or `OutsideProject` if the path is not allowed, `File` if the file cannot be read, is larger than
/// [`MAX_NAMED_BYTES`], or is not UTF-8.
fn file_content(path: &str, context: ExpandContext<'_>) -> Result<String, VarError> {
    let mut path = context.resolve_path(path)?;
    context.files.add(&path);
    let unreadable = |error: io::Error| VarError::File { dir: context.dir.to_owned(), error };
    if context.is_project {
        // Links are followed first, so that none leads out.
        path = path.canonicalize().map_err(unreadable)?;
        if !context.dir.canonicalize().is_ok_and(|dir| path.starts_with(dir)) {
            return Err(VarError::OutsideProject);
        }
    }
    let content = files::read(&path, MAX_NAMED_BYTES).map_err(unreadable)?;
    let mut text = String::from_utf8(content).map_err(|_| unreadable(io::ErrorKind::InvalidData.into()))?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text)
}

/// Why a file cannot be read, in words for the user who named it.
pub(crate) fn read_error_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        // A text of `files`.
        _ if error.get_ref().is_some() => error.to_string(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let env = Env::new([("A", "one"), ("EMPTY", ""), ("NESTED", "${A} $$ {env:A}")], "/");
        let files = ReferencedFiles::default();
        expand(text, ExpandContext { env: &env, dir: Path::new("/"), files: &files, is_project: false })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_home_directory_of_windows_is_a_home() {
        let files = ReferencedFiles::default();
        let expanded = |variables: &[(&str, &str)], text| {
            let env = Env::new(variables.iter().copied(), "/");
            let context = ExpandContext { env: &env, dir: Path::new("/"), files: &files, is_project: false };
            expand(text, context).map_err(|error| error.to_string())
        };
        let windows = ("USERPROFILE", r"C:\Users\me");
        assert_eq!(expanded(&[windows], "${HOME}/x").unwrap(), r"C:\Users\me/x");
        assert_eq!(expanded(&[windows, ("HOME", "/h")], "{env:HOME}/x").unwrap(), "/h/x");
        assert!(expanded(&[windows], "${OTHER}").is_err() && expanded(&[], "${HOME}").is_err());
    }

    #[test]
    fn every_notation_is_replaced() {
        for (text, expected) in [
            ("${A}", "one"),
            ("${env:A}", "one"),
            ("{env:A}", "one"),
            ("x${A}y{env:A}z", "xoneyonez"),
            ("${B:-two}", "two"),
            ("${env:B:-two}", "two"),
            ("${EMPTY:-two}", "two"),
            ("${EMPTY}", ""),
            ("${B:-}", ""),
            ("$$", "$"),
            ("$${A}", "${A}"),
            ("$$$$A", "$$A"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_variable_stays() {
        for text in
            ["$A", "pa$$word".replace("$$", "$").as_str(), "{a,b}", "{environment}", "{env:A", "$", "é{"]
        {
            assert_eq!(expanded(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn the_value_of_a_variable_is_not_expanded() {
        assert_eq!(expanded("${NESTED}").as_deref(), Ok("${A} $$ {env:A}"));
    }

    #[test]
    fn an_undefined_variable_is_named() {
        assert_eq!(expanded("${B}"), Err("the variable `B` is not defined".to_owned()));
        assert_eq!(expanded("{env:B}"), Err("the variable `B` is not defined".to_owned()));
        assert_eq!(expanded("${input:key}"), Err("the variable `input:key` is not defined".to_owned()));
        assert!(VarError::Undefined("input:key".to_owned()).hint().contains("VS Code"));
    }

    #[test]
    fn a_malformed_variable_is_not_repeated() {
        for text in ["${sec ret}", "${secret", "${}"] {
            assert_eq!(expanded(text), Err("`${` is not followed by a variable name and `}`".to_owned()));
        }
    }

    #[test]
    fn a_file_path_starts_at_the_config_and_its_last_line_break_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "s3cret\r\n").unwrap();
        let env = Env::new([("HOME", dir.path().to_str().unwrap())], "/");
        let files = ReferencedFiles::default();
        let context = ExpandContext { env: &env, dir: dir.path(), files: &files, is_project: false };
        assert_eq!(expand("Bearer {file:token}", context).unwrap(), "Bearer s3cret");
        assert_eq!(expand("{file:./token}{file:~/token}", context).unwrap(), "s3crets3cret");
        let missing = expand("{file:nothing}", context).unwrap_err();
        assert_eq!(missing.to_string(), "the file named by `{file:…}` cannot be read: no such file");
        assert!(
            missing.hint().ends_with(&format!("starts at {}", dir.path().display())),
            "{}",
            missing.hint()
        );
    }

    #[test]
    fn only_a_tilde_needs_a_home_directory() {
        let env = Env::default();
        let files = ReferencedFiles::default();
        let context = ExpandContext { env: &env, dir: Path::new("/etc"), files: &files, is_project: false };
        assert!(matches!(context.resolve_path("~/x"), Err(VarError::NoHome)));
        assert_eq!(context.resolve_path("~x").unwrap(), Path::new("/etc/~x"));
        assert_eq!(context.resolve_path("/x").unwrap(), Path::new("/x"));
    }

    proptest! {
        #[test]
        fn text_without_dollars_and_braces_stays(text in "[^${]*") {
            prop_assert_eq!(expanded(&text), Ok(text));
        }

        #[test]
        fn no_text_causes_a_panic(text in r"([${}:\-]|env|file|A|é){0,12}") {
            drop(expanded(&text));
        }

        #[test]
        fn escaped_text_keeps(text in r"([${}]|:-|env:|file:|keyring:|command:|[a-zé~/-]){0,20}") {
            prop_assert_eq!(expanded(&notation::escape(&text)), Ok(text));
        }

        #[test]
        fn any_value_is_inserted_unchanged(value in ".*", before in "[a-z ]*", after in "[a-z ]*") {
            let env = Env::new([("V", value.as_str())], "/");
            let files = ReferencedFiles::default();
            let context = ExpandContext { env: &env, dir: Path::new("/"), files: &files, is_project: false };
            prop_assert_eq!(
                expand(&format!("{before}${{V}}{after}"), context).unwrap(),
                format!("{before}{value}{after}")
            );
        }
    }
}
