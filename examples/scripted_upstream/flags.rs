//! The command line. The table in `main.rs` says what each flag does.

use std::collections::BTreeMap;
use std::process::exit;

/// Flags without a value.
const SWITCHES: &[&str] = &[
    "--asks",
    "--batches",
    "--bom",
    "--chatty",
    "--dual",
    "--earlier",
    "--early",
    "--empty-cursor",
    "--flood",
    "--garbage",
    "--grandchild",
    "--grandchild-escapes",
    "--ignore-eof",
    "--ignore-term",
    "--list-changed-on-call",
    "--logging",
    "--no-capabilities",
    "--no-newline-flush",
    "--no-version",
    "--number-ids",
    "--prompts",
    "--protocol",
    "--skills",
    "--resources",
    "--same-cursor",
    "--same-task-ids",
    "--serial",
    "--setsid",
    "--stateless",
    "--tasks",
    "--tools-in-initialize",
    "--undeclared",
];

/// Flags with a value.
const OPTIONS: &[&str] = &[
    "--asks-roots",
    "--crash-at-start",
    "--definitions",
    "--definitions-file",
    "--exit-after",
    "--hang",
    "--instructions",
    "--late-tool",
    "--live",
    "--lock",
    "--many",
    "--name",
    "--page",
    "--record",
    "--refuses-initialize",
    "--reject-versions-but",
    "--save",
    "--scheme",
    "--server-version",
    "--slow-list",
    "--slow-start",
    "--template",
    "--tools",
    "--version",
];

/// The flags that were given, each with its value. A switch has an empty one.
pub(crate) struct Flags(BTreeMap<String, String>);

impl Flags {
    /// Exits with 2 if a flag is unknown or lacks its value.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Self {
        let mut flags = BTreeMap::new();
        while let Some(flag) = args.next() {
            let value = if SWITCHES.contains(&&*flag) {
                String::new()
            } else if OPTIONS.contains(&&*flag) {
                args.next().unwrap_or_else(|| exit_with_usage_error(&format!("{flag} needs a value")))
            } else {
                exit_with_usage_error(&format!("unknown flag {flag}"))
            };
            flags.insert(flag, value);
        }
        Self(flags)
    }

    /// Whether a switch was given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        assert!(SWITCHES.contains(&flag), "{flag} is not declared");
        self.0.contains_key(flag)
    }

    /// The value of an option.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        assert!(OPTIONS.contains(&flag), "{flag} is not declared");
        self.0.get(flag).map(String::as_str)
    }

    /// The value of an option that is a number.
    pub(crate) fn number(&self, flag: &str) -> Option<u64> {
        let value = self.text(flag)?;
        Some(value.parse().unwrap_or_else(|_| exit_with_usage_error(&format!("{flag} needs a number"))))
    }
}

fn exit_with_usage_error(message: &str) -> ! {
    eprintln!("scripted_upstream: {message}");
    exit(2)
}
