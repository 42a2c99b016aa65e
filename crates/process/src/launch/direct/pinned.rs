//! Recognizes the command lines of `npx` and `uvx` that name one package in one exact version. An option or a file that
//! is not understood completely is refused.

use config::StdioConfig;
use std::path::Path;

/// A program that finds or installs a package and then runs a program of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherProgram {
    /// That of npm.
    Npx,
    /// That of uv, also as `uv tool run`.
    Uvx,
}

impl LauncherProgram {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
        }
    }

    fn version_separator(self) -> &'static str {
        match self {
            Self::Npx => "@",
            Self::Uvx => "==",
        }
    }
}

/// A command line that names a package in one exact version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPackage {
    /// The launcher.
    pub launcher: LauncherProgram,
    /// The package's name in its registry.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How many of the arguments are the launcher's own. The server gets the others.
    pub(crate) own_args: usize,
}

/// Why a server cannot be started without its launcher. Completes "because".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPinned {
    /// Its command is another program.
    #[error("its command is neither `npx` nor `uvx`")]
    NoLauncher,
    /// Nothing names the package's version, or not exactly. The launcher, and the package's name.
    #[error("no exact version is named, as in `{1}{separator}1.2.3`", separator = .0.version_separator())]
    NoVersion(LauncherProgram, String),
    /// An argument of the launcher is not understood. It is shown up to a `=`.
    #[error("argument `{1}` of `{launcher}` is not one of those that it is known for", launcher = .0.name())]
    Unclear(LauncherProgram, String),
}

impl NotPinned {
    /// Returns the launcher, if there is one.
    pub fn launcher(&self) -> Option<LauncherProgram> {
        match self {
            Self::NoLauncher => None,
            Self::NoVersion(launcher, _) | Self::Unclear(launcher, _) => Some(*launcher),
        }
    }
}

/// Returns the package that a config entry starts.
///
/// # Errors
///
/// Fails if the entry starts no package by a launcher, names no exact version, or has an argument that may change what is
/// started.
pub fn pinned_package(stdio: &StdioConfig) -> Result<PinnedPackage, NotPinned> {
    let (options, start) = options_of(stdio).ok_or(NotPinned::NoLauncher)?;
    let args: Vec<&str> = stdio.args.iter().map(String::as_str).collect();
    options.package(&args, start)
}

/// Returns the options of the launcher that a config entry starts, and the index of its first argument.
fn options_of(stdio: &StdioConfig) -> Option<(&'static LauncherOptions, usize)> {
    let is_tool_run = || stdio.args.iter().take(2).eq(["tool", "run"]);
    match Path::new(&stdio.command).file_name()?.to_str()? {
        "npx" => Some((&NPX, 0)),
        "uvx" => Some((&UVX, 0)),
        "uv" if is_tool_run() => Some((&UVX, 2)),
        _ => None,
    }
}

/// Returns the arguments of a config entry without the version of its package. `None` if the entry starts no package by a
/// launcher.
pub fn without_version(stdio: &StdioConfig) -> Option<Vec<String>> {
    let (launcher, start) = options_of(stdio)?;
    let args: Vec<&str> = stdio.args.iter().map(String::as_str).collect();
    let own = launcher.read(&args, start).ok()?;
    let at = own.package.map_or(own.count - 1, |(_, at)| at);
    let mut args = stdio.args.clone();
    let argument = args.get_mut(at)?;
    let start = if argument.starts_with('-') { argument.find('=')? + 1 } else { 0 };
    let spec = argument.get(start..)?;
    let end = match launcher.launcher {
        // The `@` of a scope is the first character, that of a version is not.
        LauncherProgram::Npx => spec.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at),
        LauncherProgram::Uvx => spec.find("==").or_else(|| spec.find('@')),
    };
    argument.truncate(start + end.unwrap_or(spec.len()));
    Some(args)
}

/// Options of a launcher.
struct LauncherOptions {
    launcher: LauncherProgram,
    /// Those without a value, which do not change what is started.
    flags: &'static [&'static str],
    /// Those that name the package.
    package_options: &'static [&'static str],
    /// Others with a value. Their values are part of the learned record.
    other: &'static [&'static str],
    /// Those that name further packages of the registry.
    with: &'static [&'static str],
}

const NPX: LauncherOptions = LauncherOptions {
    launcher: LauncherProgram::Npx,
    flags: &["-y", "--yes", "-q", "--quiet"],
    package_options: &["-p", "--package"],
    other: &[],
    with: &[],
};

const UVX: LauncherOptions = LauncherOptions {
    launcher: LauncherProgram::Uvx,
    flags: &["-q", "--quiet"],
    package_options: &["--from"],
    other: &["-p", "--python"],
    with: &["-w", "--with"],
};

/// The launcher's part of a command line.
struct OwnArguments<'a> {
    /// The package that an option names, and the index of the argument with its name.
    package: Option<(&'a str, usize)>,
    /// The first argument that is not an option: the package, or its program if an option names the package.
    first: &'a str,
    /// The number of arguments up to this one.
    count: usize,
}

impl LauncherOptions {
    /// Returns the package that the arguments from `start` name.
    ///
    /// # Errors
    ///
    /// `NoVersion` if the package has no exact version, `Unclear` if an argument is not understood.
    fn package(&self, args: &[&str], start: usize) -> Result<PinnedPackage, NotPinned> {
        let own = self.read(args, start)?;
        let spec = own.package.map_or(own.first, |(spec, _)| spec);
        let launcher = self.launcher;
        let parts = match launcher {
            LauncherProgram::Npx => npm_package(spec),
            LauncherProgram::Uvx => python_package(spec),
        };
        let (name, version) = parts.map_err(|unclear| NotPinned::Unclear(launcher, unclear.to_owned()))?;
        let version = version.ok_or_else(|| NotPinned::NoVersion(launcher, name.to_owned()))?;
        Ok(PinnedPackage {
            launcher,
            name: name.to_owned(),
            version: version.to_owned(),
            own_args: own.count,
        })
    }

    /// Reads the arguments from `start` up to the first that is not an option.
    ///
    /// # Errors
    ///
    /// `Unclear` if an option is not understood or lacks its value, or if there is no other argument.
    fn read<'a>(&self, args: &[&'a str], start: usize) -> Result<OwnArguments<'a>, NotPinned> {
        let unclear = |arg: &str| {
            let shown = arg.split('=').next().unwrap_or(arg);
            Err(NotPinned::Unclear(self.launcher, shown.to_owned()))
        };
        let (mut package, mut at) = (None, start);
        while let Some(&arg) = args.get(at) {
            at += 1;
            if !arg.starts_with('-') {
                return Ok(OwnArguments { package, first: arg, count: at });
            }
            if self.flags.contains(&arg) {
                continue;
            }
            let (option, mut value) = match arg.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (arg, None),
            };
            let names_package = self.package_options.contains(&option);
            let names_more = self.with.contains(&option);
            if !names_package && !names_more && !self.other.contains(&option) {
                return unclear(arg);
            }
            if value.is_none() {
                value = args.get(at).copied();
                at += 1;
            }
            let is_second = package.is_some();
            match value {
                Some(value) if names_package && !is_second => package = Some((value, at - 1)),
                Some(value) if names_more && is_requirement(value) => {}
                Some(_) if !names_package && !names_more => {}
                _ => return unclear(arg),
            }
        }
        unclear("")
    }
}

/// Splits what names a package of npm into its name and its version; `None` if the version is not exact.
///
/// # Errors
///
/// The part that is not understood.
fn npm_package(spec: &str) -> Result<(&str, Option<&str>), &str> {
    // The `@` of a scope is the first character, that of a version is not.
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
    let (name, version) = spec.split_at(at.unwrap_or(spec.len()));
    let version = version.strip_prefix('@').unwrap_or_default();
    if is_npm_name(name) { Ok((name, is_npm_version(version).then_some(version))) } else { Err(name) }
}

/// Splits what names a package of Python into its name and its version; `None` if the version is not exact.
///
/// # Errors
///
/// The part that is not understood.
fn python_package(spec: &str) -> Result<(&str, Option<&str>), &str> {
    let (name, version) = spec.split_once("==").or_else(|| spec.split_once('@')).unwrap_or((spec, ""));
    // Extras, as in `name[cli]==1.2.3`.
    let name =
        name.split_once('[').filter(|(_, extras)| extras.ends_with(']')).map_or(name, |(name, _)| name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(name.split(|c: char| !is_name(c)).next().unwrap_or_default());
    }
    let is_version = |c: char| c.is_ascii_alphanumeric() || ".+!".contains(c);
    let is_exact = version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_version);
    Ok((name, is_exact.then_some(version)))
}

/// Returns whether this names packages of the registry, with or without versions, not a path or an address.
fn is_requirement(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.[],<>=!~*+ ".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// Returns whether this is the name of a package in a registry, not a path, an address or an alias.
fn is_npm_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '_'])
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    }
}

/// Returns whether this is one version, not a range and not a tag (<https://semver.org>).
fn is_npm_version(version: &str) -> bool {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let (core, rest) = version.split_at(end);
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || "-.+".contains(c))
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

    fn package(command: &str, args: &[&str]) -> Result<String, String> {
        pinned_package(&entry(command, args))
            .map(|found| {
                let launcher = found.launcher.name();
                format!("{launcher} {} {} {}", found.name, found.version, found.own_args)
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_exact_version_is_recognized() {
        for (command, args, expected) in [
            ("npx", &["-y", "@a/b@1.2.3", "--flag"][..], "npx @a/b 1.2.3 2"),
            ("/usr/bin/npx", &["c@1.0.0-rc.1"], "npx c 1.0.0-rc.1 1"),
            ("npx", &["-y", "-p", "c@1.2.3", "run", "c@2"], "npx c 1.2.3 4"),
            ("npx", &["--package=@a/b@1.2.3", "--yes", "run"], "npx @a/b 1.2.3 3"),
            ("uvx", &["d==1.2", "x"], "uvx d 1.2 1"),
            ("uvx", &["--quiet", "d@2026.1.2rc1"], "uvx d 2026.1.2rc1 2"),
            ("uvx", &["--from", "d[x,y]==1.2.3", "run", "-v"], "uvx d 1.2.3 3"),
            ("uvx", &["--python", "3.12", "--from=d==1", "run"], "uvx d 1 4"),
            ("uv", &["tool", "run", "d==1.2.3"], "uvx d 1.2.3 3"),
            ("uvx", &["--with", "mcp<2", "--with=e[x]~=1.0,f", "d==1"], "uvx d 1 4"),
        ] {
            assert_eq!(package(command, args).as_deref(), Ok(expected), "{command} {args:?}");
        }
    }

    #[test]
    fn the_version_of_a_package_is_left_out_and_nothing_else() {
        let without =
            |command: &str, args: &[&str]| without_version(&entry(command, args)).map(|args| args.join(" "));
        for (command, args, expected) in [
            ("npx", &["-y", "@a/b", "--x"][..], "-y @a/b --x"),
            ("npx", &["c@latest", "c"], "c c"),
            ("npx", &["-p", "c@1.2.3", "run", "c@1"], "-p c run c@1"),
            ("npx", &["--package=@a/b@1.0.0", "run"], "--package=@a/b run"),
            ("uvx", &["--with", "d", "d==1.0"], "--with d d"),
            ("uvx", &["--from=d[x]==1.2", "run"], "--from=d[x] run"),
            ("uv", &["tool", "run", "--python", "3.12", "d@latest"], "tool run --python 3.12 d"),
        ] {
            assert_eq!(without(command, args).as_deref(), Some(expected), "{args:?}");
        }
        assert_eq!((without("node", &["c"]), without("npx", &["-c", "c"])), (None, None));
    }

    #[test]
    fn whatever_may_mean_another_package_is_refused() {
        for (command, args, expected) in [
            ("node", &["c@1.2.3"][..], "neither"),
            ("uv", &["run", "d==1.2.3"], "neither"),
            ("npx", &["-y", "c"], "`c@1.2.3`"),
            ("npx", &["c@latest"], "`c@1.2.3`"),
            ("npx", &["c@^1.2.3"], "`c@1.2.3`"),
            ("npx", &["c@@1.2.3"], "`c@1.2.3`"),
            ("npx", &["c@1.2"], "`c@1.2.3`"),
            ("npx", &["c@1.2.x"], "`c@1.2.3`"),
            ("npx", &["c@npm:e@1.2.3"], "`c@1.2.3`"),
            ("npx", &["./c@1.2.3"], "`./c`"),
            ("npx", &["github:a/c@1.2.3"], "`github:a/c`"),
            ("npx", &["-c", "c@1.2.3"], "`-c`"),
            ("npx", &["--registry=https://u:secret@h/", "c@1.2.3"], "`--registry`"),
            ("npx", &["-p", "c@1.2.3", "-p", "e@1.2.3", "run"], "`-p`"),
            ("npx", &["--", "c@1.2.3"], "`--`"),
            ("npx", &["-y"], "``"),
            ("npx", &[], "``"),
            ("uvx", &["d"], "`d==1.2.3`"),
            ("uvx", &["d>=1.2.3"], "`d`"),
            ("uvx", &["d==1.*"], "`d==1.2.3`"),
            ("uvx", &["d@latest"], "`d==1.2.3`"),
            ("uvx", &["d==1.2,<2"], "`d==1.2.3`"),
            ("uvx", &["--with", "./e", "d==1"], "`--with`"),
            ("uvx", &["--with", "e @ https://u:secret@h/e.whl", "d==1"], "`--with`"),
            ("uvx", &["--with-editable", "e", "d==1"], "`--with-editable`"),
            ("uvx", &["--from", "git+https://h/d", "d"], "`git`"),
        ] {
            let found = package(command, args);
            let error = found.as_ref().err().map(String::as_str).unwrap_or_default();
            assert!(error.contains(expected) && !error.contains("secret"), "{command} {args:?}: {found:?}");
        }
    }
}
