//! The command line.

use std::collections::BTreeMap;
use std::process::exit;

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
    "--resources",
    "--same-cursor",
    "--same-task-ids",
    "--setsid",
    "--stateless",
    "--tasks",
    "--tools-in-initialize",
];

const OPTIONS: &[&str] = &[
    "--crash-at-start",
    "--definitions",
    "--exit-after",
    "--hang",
    "--instructions",
    "--live",
    "--many",
    "--name",
    "--page",
    "--record",
    "--refuses-initialize",
    "--reject-versions-but",
    "--scheme",
    "--slow-list",
    "--slow-start",
    "--tools",
    "--version",
];

pub(crate) struct Flags(BTreeMap<String, String>);

impl Flags {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Self {
        let mut flags = BTreeMap::new();
        while let Some(flag) = args.next() {
            let value = if SWITCHES.contains(&&*flag) {
                String::new()
            } else if OPTIONS.contains(&&*flag) {
                args.next().unwrap_or_else(|| usage(&format!("{flag} needs a value")))
            } else {
                usage(&format!("{flag} is not known"))
            };
            flags.insert(flag, value);
        }
        Self(flags)
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        assert!(SWITCHES.contains(&flag), "{flag} is not in the list");
        self.0.contains_key(flag)
    }

    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        assert!(OPTIONS.contains(&flag), "{flag} is not in the list");
        self.0.get(flag).map(String::as_str)
    }

    pub(crate) fn number(&self, flag: &str) -> Option<u64> {
        let value = self.text(flag)?;
        Some(value.parse().unwrap_or_else(|_| usage(&format!("{flag} needs a number"))))
    }
}

fn usage(problem: &str) -> ! {
    eprintln!("scripted_upstream: {problem}");
    exit(2)
}
