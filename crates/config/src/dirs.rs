//! The directories where dynamic-mcp keeps its own files, one of each kind per user.
//!
//! They follow the XDG Base Directory Specification: a variable such as `XDG_CONFIG_HOME` counts only if it is an
//! absolute path, and without it the directory lies below the home directory. On Windows `%APPDATA%` holds the
//! configuration, and `%LOCALAPPDATA%` everything else, because it concerns this machine alone.
//!
//! [`Env::config_dir`] and [`Env::data_dir`] are beside the variables, because the config needs them.
//!
//! Every function that names a directory or file of ours returns `None` if neither its variable nor the home directory is
//! set.

use std::path::{Path, PathBuf};

use crate::env::Env;

/// Returns the directory of files that can be made again: `$XDG_CACHE_HOME/dynamic-mcp`, else `~/.cache/dynamic-mcp`;
/// on Windows `%LOCALAPPDATA%\dynamic-mcp\cache`.
pub fn cache_dir(env: &Env) -> Option<PathBuf> {
    match cfg!(windows) {
        true => Some(env.data_dir()?.join("cache")),
        false => env.app_dir("XDG_CACHE_HOME", ".cache"),
    }
}

/// Returns the directory of what this machine has seen, such as the definitions of tools:
/// `$XDG_STATE_HOME/dynamic-mcp`, else `~/.local/state/dynamic-mcp`; on Windows `%LOCALAPPDATA%\dynamic-mcp\state`.
pub fn state_dir(env: &Env) -> Option<PathBuf> {
    match cfg!(windows) {
        true => Some(env.data_dir()?.join("state")),
        false => env.app_dir("XDG_STATE_HOME", ".local/state"),
    }
}

/// Returns the directory of the pinned definitions of tools.
pub fn pins_dir(env: &Env) -> Option<PathBuf> {
    Some(state_dir(env)?.join("pins"))
}

/// Returns the config file that is read when the command line names none: `$DYNAMIC_MCP_CONFIG`, else the user's own.
pub fn default_config_file(env: &Env) -> Option<PathBuf> {
    env.get_non_empty("DYNAMIC_MCP_CONFIG").map(PathBuf::from).or_else(|| own_config_file(env))
}

/// Returns the user's own config file, in which alone `{keyring:NAME}` counts: `servers.json` in the directory of config
/// files.
pub fn own_config_file(env: &Env) -> Option<PathBuf> {
    Some(env.config_dir()?.join("servers.json"))
}

/// Replaces a leading `~` by the home directory, because a client that starts us does not. The path stays if it begins
/// with another name, such as `~user`, or if there is no home directory.
pub fn expand_home(path: &Path, env: &Env) -> PathBuf {
    match (path.strip_prefix("~"), env.home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    type Dir = fn(&Env) -> Option<PathBuf>;

    /// Returns the directory under these environment variables.
    fn dir_under(dir: Dir, variables: &[(&str, &str)]) -> Option<PathBuf> {
        dir(&Env::new(variables.iter().copied(), "/"))
    }

    #[cfg(windows)]
    #[test]
    fn each_directory_is_in_the_profile() {
        let variables = [("AppData", r"C:\r"), ("LOCALAPPDATA", r"C:\l"), ("USERPROFILE", r"C:\u")];
        let cases: [(Dir, &str, &str); 4] = [
            (Env::config_dir, r"C:\r\dynamic-mcp", r"C:\u\AppData\Roaming\dynamic-mcp"),
            (cache_dir, r"C:\l\dynamic-mcp\cache", r"C:\u\AppData\Local\dynamic-mcp\cache"),
            (Env::data_dir, r"C:\l\dynamic-mcp", r"C:\u\AppData\Local\dynamic-mcp"),
            (state_dir, r"C:\l\dynamic-mcp\state", r"C:\u\AppData\Local\dynamic-mcp\state"),
        ];
        for (dir, named, in_home) in cases {
            assert_eq!(dir_under(dir, &variables).as_deref(), Some(Path::new(named)));
            assert_eq!(dir_under(dir, &variables[2..]).as_deref(), Some(Path::new(in_home)));
            assert_eq!(dir_under(dir, &[]), None);
        }
    }

    #[cfg(unix)]
    #[test]
    fn without_a_variable_each_directory_is_below_the_home_directory() {
        let cases: [(Dir, &str); 4] = [
            (Env::config_dir, "/h/.config/dynamic-mcp"),
            (cache_dir, "/h/.cache/dynamic-mcp"),
            (Env::data_dir, "/h/.local/share/dynamic-mcp"),
            (state_dir, "/h/.local/state/dynamic-mcp"),
        ];
        for (dir, expected) in cases {
            assert_eq!(dir_under(dir, &[("HOME", "/h")]).as_deref(), Some(Path::new(expected)));
            for nowhere in [&[][..], &[("HOME", "")], &[("HOME", "h")], &[("HOME", ".")]] {
                assert_eq!(dir_under(dir, nowhere), None);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn an_xdg_variable_counts_only_if_it_is_an_absolute_path() {
        let cases: [(Dir, &str); 4] = [
            (Env::config_dir, "XDG_CONFIG_HOME"),
            (cache_dir, "XDG_CACHE_HOME"),
            (Env::data_dir, "XDG_DATA_HOME"),
            (state_dir, "XDG_STATE_HOME"),
        ];
        for (dir, variable) in cases {
            let named = dir_under(dir, &[(variable, "/x"), ("HOME", "/h")]);
            assert_eq!(named.as_deref(), Some(Path::new("/x/dynamic-mcp")));
            for relative in ["x", ""] {
                let ignored = dir_under(dir, &[(variable, relative), ("HOME", "/h")]);
                assert_eq!(ignored, dir_under(dir, &[("HOME", "/h")]), "{variable}={relative}");
            }
        }
    }

    #[test]
    fn the_default_config_file_is_the_one_that_the_environment_names() {
        let file = |variables: &[(&str, &str)]| dir_under(default_config_file, variables);
        assert_eq!(file(&[("DYNAMIC_MCP_CONFIG", "x.json"), ("HOME", "/h")]), Some("x.json".into()));
        let dir = if cfg!(windows) { "/h/AppData/Roaming" } else { "/h/.config" };
        let in_home = Some(Path::new(dir).join("dynamic-mcp").join("servers.json"));
        assert_eq!(file(&[("DYNAMIC_MCP_CONFIG", ""), ("HOME", "/h")]), in_home);
        assert_eq!(file(&[("HOME", "/h")]), in_home);
        assert_eq!(file(&[]), None);
    }
}
