//! Variables in the strings of a config: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `{env:VAR}`, `{file:PATH}`,
//! and `$$` for a dollar. One pass: what a variable holds is never looked at again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What the program was started with. Read once, in `main`; everything else gets it from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env {
    variables: Variables,
    cwd: PathBuf,
}

#[derive(Clone, Default, PartialEq, Eq)]
struct Variables(BTreeMap<String, String>);

impl std::fmt::Debug for Variables {
    /// Names only: the values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Env {
    /// `cwd` is what relative paths given to the program are relative to.
    pub fn new<K, V>(variables: impl IntoIterator<Item = (K, V)>, cwd: impl Into<PathBuf>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        let variables = variables.into_iter().map(|(name, value)| (key(name.into()), value.into())).collect();
        Self { variables: Variables(variables), cwd: cwd.into() }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.0.get(&key(name.to_owned())).map(String::as_str)
    }

    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// `HOME`, or `USERPROFILE` where there is none.
    pub fn home(&self) -> Option<&Path> {
        ["HOME", "USERPROFILE"].iter().find_map(|name| self.get_non_empty(name)).map(Path::new)
    }

    /// An empty variable is as good as none where a path is wanted.
    pub(crate) fn get_non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

/// The names of variables are case-insensitive on Windows.
fn key(name: String) -> String {
    if cfg!(windows) { name.to_uppercase() } else { name }
}

/// Where a string stands: its variables, and the directory its relative paths are relative to.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    pub env: &'a Env,
    /// The config file's directory.
    pub dir: &'a Path,
}

impl Scope<'_> {
    /// A path as a config writes it: `~` is the home directory, a relative one starts at the config file's directory.
    pub fn path(&self, written: &str) -> Result<PathBuf, VarError> {
        let below_home = match written.strip_prefix('~') {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix('/').or_else(|| rest.strip_prefix(std::path::MAIN_SEPARATOR)),
            None => None,
        };
        match below_home {
            Some(rest) => self.env.home().map(|home| home.join(rest)).ok_or(VarError::NoHome),
            None => Ok(self.dir.join(written)),
        }
    }
}

/// Why a string cannot be used. The messages name variables, never what they or the string hold.
#[derive(Debug, Error)]
pub enum VarError {
    #[error("the variable `{0}` is not defined")]
    Undefined(String),
    #[error("a `${{` begins no variable")]
    Malformed,
    #[error("the file named by `{{file:…}}` cannot be read: {}", why(.0))]
    File(#[from] std::io::Error),
    #[error("`~` is used, but neither `HOME` nor `USERPROFILE` is set")]
    NoHome,
}

/// Variables that editors set for the servers they start.
const EDITORS: [&str; 4] = ["userHome", "workspaceFolder", "workspaceFolderBasename", "pathSeparator"];

impl VarError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Undefined(name) if name.starts_with("input:") => {
                "only VS Code asks for inputs; write `${VAR}` and set that variable in the environment".to_owned()
            }
            Self::Undefined(name) if EDITORS.contains(&name.as_str()) || name.contains([':', '.']) => {
                "variables of editors do not exist here; write the value, or `${VAR}` for an environment variable".to_owned()
            }
            Self::Undefined(name) => {
                format!("set it in the environment of the MCP client, or give a default: `${{{name}:-…}}`")
            }
            Self::Malformed => "`${VAR}` is a variable; write `$$` for a dollar".to_owned(),
            Self::File(_) => "the path is relative to the config file's directory".to_owned(),
            Self::NoHome => "write the whole path".to_owned(),
        }
    }
}

/// `text` with its variables replaced. A `$` that begins neither `${` nor `$$` stays, for passwords hold them.
pub fn expand(text: &str, scope: Scope<'_>) -> Result<String, VarError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let (body, after) = after.split_once('}').ok_or(VarError::Malformed)?;
            out.push_str(variable(body, scope.env)?);
            rest = after;
        } else if let Some((body, after)) = braced(rest, "{env:") {
            out.push_str(variable(body, scope.env)?);
            rest = after;
        } else if let Some((body, after)) = braced(rest, "{file:") {
            out.push_str(&file(body, scope)?);
            rest = after;
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The text between `opening` and the next `}`, and what follows.
fn braced<'t>(text: &'t str, opening: &str) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(opening)?.split_once('}')
}

/// The value of `NAME`, `env:NAME`, or either with `:-default`, which as in a shell also stands in for an empty one.
fn variable<'t>(body: &'t str, env: &'t Env) -> Result<&'t str, VarError> {
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '(' | ')');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(VarError::Malformed);
    }
    match (env.get(name), default) {
        (None | Some(""), Some(default)) => Ok(default),
        (Some(value), _) => Ok(value),
        (None, None) => Err(VarError::Undefined(name.to_owned())),
    }
}

fn file(path: &str, scope: Scope<'_>) -> Result<String, VarError> {
    let mut text = std::fs::read_to_string(scope.path(path)?)?;
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(text)
}

/// Why a file cannot be read, in words for whoever wrote its name.
pub(crate) fn why(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        kind => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let env = Env::new([("A", "one"), ("EMPTY", ""), ("NESTED", "${A} $$ {env:A}")], "/");
        expand(text, Scope { env: &env, dir: Path::new("/") }).map_err(|error| error.to_string())
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
    fn what_is_no_variable_stays() {
        for text in
            ["$A", "pa$$word".replace("$$", "$").as_str(), "{a,b}", "{environment}", "{env:A", "$", "é{"]
        {
            assert_eq!(expanded(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_value_is_not_expanded_again() {
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
    fn what_is_malformed_is_not_repeated() {
        for text in ["${sec ret}", "${secret", "${}"] {
            assert_eq!(expanded(text), Err("a `${` begins no variable".to_owned()));
        }
    }

    #[test]
    fn a_file_is_relative_to_the_config_and_loses_its_line_end() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "s3cret\r\n").unwrap();
        let env = Env::new([("HOME", dir.path().to_str().unwrap())], "/");
        let scope = Scope { env: &env, dir: dir.path() };
        assert_eq!(expand("Bearer {file:token}", scope).unwrap(), "Bearer s3cret");
        assert_eq!(expand("{file:./token}{file:~/token}", scope).unwrap(), "s3crets3cret");
        let missing = expand("{file:nothing}", scope).unwrap_err();
        assert_eq!(missing.to_string(), "the file named by `{file:…}` cannot be read: no such file");
    }

    #[test]
    fn a_home_is_needed_only_for_a_tilde() {
        let env = Env::default();
        let scope = Scope { env: &env, dir: Path::new("/etc") };
        assert!(matches!(scope.path("~/x"), Err(VarError::NoHome)));
        assert_eq!(scope.path("~x").unwrap(), Path::new("/etc/~x"));
        assert_eq!(scope.path("/x").unwrap(), Path::new("/x"));
    }

    #[test]
    fn debug_shows_no_value() {
        let shown = format!("{:?}", Env::new([("TOKEN", "hunter2")], "/"));
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }

    proptest! {
        #[test]
        fn text_without_dollars_and_braces_is_itself(text in "[^${]*") {
            prop_assert_eq!(expanded(&text), Ok(text));
        }

        #[test]
        fn no_text_panics(text in r"([${}:\-]|env|file|A|é){0,12}") {
            drop(expanded(&text));
        }

        #[test]
        fn doubling_the_dollars_keeps_any_text(text in "[${}:a-zé-]{0,20}") {
            prop_assume!(!text.contains("{env:") && !text.contains("{file:"));
            prop_assert_eq!(expanded(&text.replace('$', "$$")), Ok(text));
        }

        #[test]
        fn a_value_comes_back_as_it_is(value in ".*", before in "[a-z ]*", after in "[a-z ]*") {
            let env = Env::new([("V", value.as_str())], "/");
            let scope = Scope { env: &env, dir: Path::new("/") };
            prop_assert_eq!(
                expand(&format!("{before}${{V}}{after}"), scope).unwrap(),
                format!("{before}{value}{after}")
            );
        }
    }
}
