//! Arguments with which a launcher starts no package, which it notices late or not at all: `npx` alone reads commands from
//! its stdin.

use super::LaunchError;
use base::redact;
use std::path::Path;

/// Launchers, the first arguments that each needs, and the options of each that have no value.
const LAUNCHERS: [(&str, &[&str], &str, &[&str]); 7] = [
    ("npx", &[], r#""-y", "PACKAGE""#, &["-y", "--yes", "-q", "--quiet"]),
    ("pnpx", &[], r#""PACKAGE""#, &[]),
    ("bunx", &[], r#""PACKAGE""#, &["-y", "--bun"]),
    ("uvx", &[], r#""PACKAGE""#, &["-q", "--quiet"]),
    ("uv", &["tool", "run"], r#""tool", "run", "PACKAGE""#, &["-q", "--quiet"]),
    ("docker", &["run"], RUN_EXAMPLE, RUN_FLAGS),
    ("podman", &["run"], RUN_EXAMPLE, RUN_FLAGS),
];

const RUN_EXAMPLE: &str = r#""run", "-i", "--rm", "IMAGE""#;
const RUN_FLAGS: &[&str] = &["-i", "--interactive", "--rm", "-t", "-it", "--init"];

/// Programs that take a string with spaces for one name.
const INTERPRETERS: [&str; 5] = ["node", "python", "python3", "deno", "bun"];

/// Refuses arguments that name nothing to start, and a first argument that is several. Those of a program that is not
/// known pass.
///
/// # Errors
///
/// `JoinedArguments` if the first argument is several, else `NoPackage` if none names a package.
pub(super) fn check(command: &str, args: &[String]) -> Result<(), LaunchError> {
    let program = Path::new(command).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let launcher = LAUNCHERS.iter().find(|(name, ..)| *name == program);
    let first = args.first().map_or("", String::as_str);
    let is_several = first.contains(' ') && (first.starts_with('-') || first.starts_with("run "));
    if is_several && (launcher.is_some() || INTERPRETERS.contains(&program)) {
        return Err(LaunchError::JoinedArguments { words: first_words(first) });
    }
    let Some((_, subcommand, example, flags)) = launcher else { return Ok(()) };
    let own = match subcommand.len() {
        0 => Some(args),
        length => args.split_at_checked(length).filter(|(first, _)| first == subcommand).map(|(_, own)| own),
    };
    match own.is_some_and(|own| own.iter().all(|arg| flags.contains(&arg.as_str()))) {
        true => Err(LaunchError::NoPackage { launcher: program.to_owned(), example }),
        false => Ok(()),
    }
}

/// Returns the first words of an argument, as strings of JSON and without the secrets in them. What follows is not shown,
/// unless it is the package after `-y`.
fn first_words(argument: &str) -> String {
    let words = redact::args(argument.split(' ').filter(|word| !word.is_empty()));
    let is_shown = |at: usize| match at {
        0 => true,
        1 => matches!(words[0].as_str(), "-y" | "-m" | "run"),
        _ => false,
    };
    let shown =
        words.iter().enumerate().take_while(|(at, _)| is_shown(*at)).map(|(_, word)| format!("{word:?}"));
    let mut shown: Vec<_> = shown.collect();
    if shown.len() < words.len() {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_needs_a_package_and_each_argument_for_itself() {
        let checked = |command: &str, args: &[&str]| {
            let args: Vec<_> = args.iter().map(ToString::to_string).collect();
            check(command, &args).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for (command, args, expected) in [
            ("npx", &["-y"][..], r#"npx gets no package to start: write "args": ["-y", "PACKAGE"]"#),
            ("/usr/bin/npx", &[], "npx gets no package"),
            ("uvx", &[], r#"write "args": ["PACKAGE"]"#),
            ("docker", &["run", "-i", "--rm"], r#"write "args": ["run", "-i", "--rm", "IMAGE"]"#),
            ("npx", &["-y @a/b /tmp --key s3cret"], r#"write "args": ["-y", "@a/b", …]"#),
            ("python3", &["-m server"], r#"write "args": ["-m", "server"]"#),
            ("node", &["--key=s3cret-1 x"], r#""--key=•••", …"#),
            ("npx", &["-y git+https://u:s3cret@h/x.git"], r#""git+https://u:•••@h/x.git"]"#),
        ] {
            let error = checked(command, args);
            assert!(error.contains(expected), "{command} {args:?}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        for (command, args) in [
            ("npx", &["-y", "x"][..]),
            ("npx", &["-p", "x"]),
            ("npx", &["-c", "x y"]),
            ("docker", &["compose", "run"]),
            ("docker", &["run", "-e", "A"]),
            ("uv", &["run", "server.py"]),
            ("python3", &["my server.py"]),
            ("cat", &["-a b"]),
        ] {
            assert_eq!(checked(command, args), "", "{command} {args:?}");
        }
    }
}
