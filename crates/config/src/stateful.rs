//! Servers that keep state between calls, as far as their packages are known.

/// Parts of the names of packages: browsers, terminals, language servers, and servers that go on thinking or building.
const PACKAGES: &[&str] = &[
    "playwright",
    "puppeteer",
    "chrome-devtools",
    "firefox-devtools",
    "browser-use",
    "browsermcp",
    "browserbase",
    "selenium",
    "desktop-commander",
    "terminal",
    "tmux",
    "sequential-thinking",
    "serena",
    "xcodebuildmcp",
    "cclsp",
    "language-server",
];

/// What a package is about, if `mcp` is in its name as well. Scheduled work is state: it ends with the process.
const TOPICS: &[&str] = &["bash", "ssh", "zen", "gdb", "lldb", "debugger", "lsp", "cron", "scheduler"];

/// Returns whether one of the words of a command names a package whose server keeps state between calls.
pub fn keeps_state<'w>(mut words: impl Iterator<Item = &'w str>) -> bool {
    // A path may have any name in it, a package says what it is.
    let is_path = |word: &str| word.starts_with(['/', '~', '.']) || word.contains('\\');
    words.any(|word| !is_path(word) && is_stateful(&word.to_lowercase()))
}

fn is_stateful(word: &str) -> bool {
    let mut parts = word.split(|c: char| !c.is_ascii_alphanumeric());
    PACKAGES.iter().any(|package| word.contains(package))
        || word.contains("mcp") && parts.any(|part| TOPICS.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_recognized_in_commands_and_paths_are_not() {
        for (command, expected) in [
            ("npx -y @playwright/mcp@latest", true),
            ("npx -y @modelcontextprotocol/server-sequential-thinking", true),
            ("uvx --from git+https://github.com/oraios/serena serena start-mcp-server", true),
            ("uvx zen-mcp-server", true),
            ("npx -y mcp-server-bash", true),
            ("uvx mcp-cron", true),
            ("npx xcodebuildmcp@2.0.1", true),
            ("bash -c node", false),
            ("npx -y citizen-mcp", false),
            ("docker run -i --rm mcp/fetch bash", false),
            ("node /home/me/playwright/server.js", false),
            (r"node C:\selenium\server.js", false),
            ("uvx mcp-server-time", false),
        ] {
            assert_eq!(keeps_state(command.split(' ')), expected, "{command}");
        }
    }
}
