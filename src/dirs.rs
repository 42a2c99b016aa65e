//! The directories where dynamic-mcp keeps its own files, one of each kind per user.
//!
//! They follow the XDG Base Directory Specification: a variable such as `XDG_CONFIG_HOME` counts only if it is an
//! absolute path, and without it the directory lies below the home directory. On Windows `%APPDATA%` holds the
//! configuration and the state, and `%LOCALAPPDATA%` everything else.
//!
//! [`Env::config_dir`] and [`Env::data_dir`] are beside the variables, because the config needs them.
//!
//! Every function returns `None` if neither its variable nor the home directory is set.

use std::path::PathBuf;

use crate::config::vars::Env;

/// The directory of files that can be made again: `$XDG_CACHE_HOME/dynamic-mcp`, else `~/.cache/dynamic-mcp`.
pub fn cache_dir(env: &Env) -> Option<PathBuf> {
    env.app_dir(if cfg!(windows) { "LOCALAPPDATA" } else { "XDG_CACHE_HOME" }, ".cache")
}

/// The directory of what this machine has seen, such as the definitions of tools: `$XDG_STATE_HOME/dynamic-mcp`, else
/// `~/.local/state/dynamic-mcp`.
pub fn state_dir(env: &Env) -> Option<PathBuf> {
    // On Windows the cache has the other directory, and clearing it would remove these files.
    env.app_dir(if cfg!(windows) { "APPDATA" } else { "XDG_STATE_HOME" }, ".local/state")
}

/// The config file that is read when the command line names none: `$DYNAMIC_MCP_CONFIG`, else `servers.json` in
/// the directory of config files.
pub fn default_config_file(env: &Env) -> Option<PathBuf> {
    let named = env.get_non_empty("DYNAMIC_MCP_CONFIG").map(PathBuf::from);
    named.or_else(|| Some(env.config_dir()?.join("servers.json")))
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
            assert_eq!(dir_under(dir, &[]), None);
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
        let in_home = Some("/h/.config/dynamic-mcp/servers.json".into());
        assert_eq!(file(&[("DYNAMIC_MCP_CONFIG", ""), ("HOME", "/h")]), in_home);
        assert_eq!(file(&[("HOME", "/h")]), in_home);
        assert_eq!(file(&[]), None);
    }
}
