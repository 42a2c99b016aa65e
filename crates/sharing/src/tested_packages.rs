//! The packages that are shared without being asked, and how to recognize one in a config entry.
//!
//! `tested_packages.json` is written by `tests/real/shareable.py`, which runs each package and lists it only if it asked
//! its client nothing, kept no state between calls, and gave the same answers to concurrent calls.

use config::StdioConfig;
use serde::Deserialize;
use std::path::Path;
use std::sync::OnceLock;

/// The list, with the evidence for each package.
const LIST: &str = include_str!("tested_packages.json");

/// A package that passed the test.
#[derive(Deserialize, PartialEq, Eq, Hash)]
pub(super) struct TestedPackage {
    /// The launcher of its registry: `npx` or `uvx`.
    launcher: String,
    /// The name in the registry.
    name: String,
    /// What the test saw.
    evidence: Evidence,
}

/// What the test of a package saw.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Evidence {
    /// The version that its server named in the handshake. Often it is not that of the package.
    server_version: String,
}

impl TestedPackage {
    /// Returns whether a server that names this version in the handshake is the one that was tested: the first numbers of
    /// the two versions must be equal.
    pub(super) fn is_version(&self, version: &str) -> bool {
        major(version) == major(&self.evidence.server_version)
    }
}

/// Returns the first number of a version.
fn major(version: &str) -> Option<&str> {
    version.split(['.', '-', '+']).next()
}

/// Returns the tested package that a config entry starts. A command line that is not understood completely starts none,
/// and neither does one with arguments or variables of the server's own: it was tested without.
pub(super) fn find(stdio: &StdioConfig) -> Option<&'static TestedPackage> {
    static PACKAGES: OnceLock<Vec<TestedPackage>> = OnceLock::new();
    let packages = PACKAGES.get_or_init(|| serde_json::from_str(LIST).unwrap_or_default());
    let (launcher, package) = package_of(stdio).filter(|_| stdio.env.is_empty())?;
    packages.iter().find(|tested| tested.launcher == launcher && tested.name == package)
}

/// Returns the launcher and the package of a command line such as `npx -y NAME@VERSION` or `uvx NAME`.
fn package_of(stdio: &StdioConfig) -> Option<(&'static str, &str)> {
    let command = Path::new(&stdio.command).file_name()?.to_str()?;
    let (launcher, flags): (_, &[&str]) = match command {
        "npx" => ("npx", &["-y", "--yes", "-q", "--quiet"]),
        "uvx" => ("uvx", &["-q", "--quiet"]),
        _ => return None,
    };
    let mut args = stdio.args.iter().filter(|arg| !flags.contains(&arg.as_str()));
    let (package, None) = (args.next()?, args.next()) else { return None };
    // The `@` of a scope is the first character, that of a version is not.
    let name = match package.get(1..)?.find('@') {
        Some(version) => package.get(..=version)?,
        None => package,
    };
    (!name.starts_with('-')).then_some((launcher, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::InheritEnv;

    fn entry(command: &str, args: &[&str]) -> StdioConfig {
        StdioConfig {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: [].into(),
            cwd: None,
            inherit_env: InheritEnv::Safe,
        }
    }

    #[test]
    fn a_package_is_recognized_in_the_command_lines_that_people_write() {
        let package = |command, args: &[&str]| {
            package_of(&entry(command, args)).map(|(launcher, name)| format!("{launcher} {name}"))
        };
        assert_eq!(package("npx", &["-y", "@a/b@1.2.3"]).as_deref(), Some("npx @a/b"));
        assert_eq!(package("/usr/bin/npx", &["@a/b"]).as_deref(), Some("npx @a/b"));
        assert_eq!(package("npx", &["--yes", "c@latest"]).as_deref(), Some("npx c"));
        assert_eq!(package("uvx", &["mcp-server-time"]).as_deref(), Some("uvx mcp-server-time"));
        for (command, args) in [
            ("npx", &["-p", "c", "d"][..]),
            ("uvx", &["mcp-server-time", "--local-timezone", "UTC"]),
            ("npx", &[]),
            ("uvx", &["--from", "c", "d"]),
            ("node", &["c"]),
            ("npx", &["é"]),
        ] {
            let found = package(command, args);
            assert!(found.is_none() || command == "npx" && args == ["é"], "{found:?}");
        }
    }

    #[test]
    fn the_list_is_read_and_a_package_that_is_not_on_it_is_private() {
        let packages: Vec<TestedPackage> = serde_json::from_str(LIST).unwrap();
        assert!(!packages.is_empty());
        let docs =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sharing.md")).unwrap();
        for package in packages {
            let TestedPackage { launcher, name, evidence: Evidence { server_version } } = &package;
            assert!(docs.contains(&format!("| `{launcher}` | `{name}` |")), "docs/sharing.md lacks {name}");
            assert!(find(&entry(launcher, &[name])).is_some(), "{name}");
            assert!(package.is_version(server_version) && !package.is_version("x"), "{name}");
            let other =
                StdioConfig { env: [("A".to_owned(), "b".to_owned())].into(), ..entry(launcher, &[name]) };
            assert!(find(&other).is_none(), "{name} with a variable");
        }
        assert!(find(&entry("npx", &["-y", "@modelcontextprotocol/server-everything"])).is_none());
        assert!(find(&entry("npx", &["-y", "@modelcontextprotocol/server-memory"])).is_none());
    }
}
