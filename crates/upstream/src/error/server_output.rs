//! The output of a process that failed before it answered, and what the output says about the failure.

use super::diagnosis;
use base::text::{last_line_with, quoted, quoted_lines, shorten};
use std::fmt;

/// The length of the line that shows an HTTP server.
const MAX_LINE: usize = 200;

/// The output of a process, as an error shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerOutput {
    /// The last lines of its stderr.
    stderr: Box<str>,
    /// The first lines of its stdout that are not MCP.
    stdout: Box<str>,
    /// What follows the error. Boxed, so that the error is small.
    remedy: Option<Box<Remedy>>,
}

/// What is known of the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Remedy {
    /// A cause and the remedy, or when the server last worked.
    text: String,
    /// Whether the cause lasts until somebody changes something.
    is_final: bool,
}

impl Remedy {
    fn of_lasting_cause(text: String) -> Box<Self> {
        Box::new(Self { text, is_final: true })
    }
}

impl ServerOutput {
    /// The last lines of stderr, and the first lines of stdout that are not MCP; both may be empty.
    pub fn new(stderr: String, stdout: String) -> Self {
        let remedy = diagnosis::remedy(&stderr, &[]).map(Remedy::of_lasting_cause);
        Self { stderr: stderr.into(), stdout: stdout.into(), remedy }
    }

    /// The output of a process that ended before it answered. `withheld`: variables that were not passed to the
    /// process; the error has a line of its own about them.
    pub(crate) fn of_ended(stderr: String, withheld: &[String]) -> Self {
        let remedy = diagnosis::remedy(&stderr, withheld).map(Remedy::of_lasting_cause);
        Self { stderr: stderr.into(), remedy, ..Self::default() }
    }

    /// Adds that the program may be no server, because it ended without an error where a server would answer. This
    /// counts as a remedy, so it makes the output final. If there is a remedy already, that stays.
    pub(crate) fn with_clean_exit(mut self) -> Self {
        self.remedy.get_or_insert_with(|| {
            let text = "a server goes on running and answers on stdout, so this program is no MCP server, or it needs an \
                        argument to be one: check \"command\" and \"args\"";
            Remedy::of_lasting_cause(text.to_owned())
        });
        self
    }

    /// Adds what to do about a process that ended with an error and printed nothing about it.
    pub(crate) fn with_silent_exit(mut self) -> Self {
        if self.stderr.trim().is_empty() && self.stdout.trim().is_empty() {
            self.remedy.get_or_insert_with(|| {
                let text =
                    "it printed nothing; run its \"command\" with its \"args\" in a terminal to see why";
                Box::new(Remedy { text: text.to_owned(), is_final: false })
            });
        }
        self
    }

    /// Puts what is known of better times in the place of the remedy: the config was right then.
    pub(crate) fn after_success(self, known: &str) -> Self {
        Self { remedy: Some(Box::new(Remedy { text: known.to_owned(), is_final: false })), ..self }
    }

    /// Returns whether every new attempt fails until somebody changes something.
    pub(crate) fn is_final(&self) -> bool {
        self.remedy.as_ref().is_some_and(|remedy| remedy.is_final)
    }

    /// Sets the lines of stdout that are not MCP.
    pub(crate) fn with_stdout(self, stdout: String) -> Self {
        Self { stdout: stdout.into(), ..self }
    }

    /// The line in which an HTTP server says where it listens, in quotes.
    fn http_server(&self) -> Option<String> {
        let line = self.stdout.lines().chain(self.stderr.lines()).find(|line| is_http_server(line))?;
        Some(quoted(&shorten(line.trim(), MAX_LINE)))
    }

    /// Warns that the process prints what HTTP servers print. `None` if it does not.
    pub(crate) fn http_server_hint(&self) -> Option<String> {
        let line = self.http_server()?;
        Some(format!(
            "it prints {line}, as an HTTP server does; if it is one, start it yourself, and configure its address as \
             \"url\" in place of \"command\""
        ))
    }
}

/// The line of stderr in which a server without tools says that it is not configured, in quotes.
pub(crate) fn not_configured(stderr: &str) -> Option<String> {
    const WORDS: [&str; 9] = [
        "not configured",
        "not set",
        "missing",
        "is required",
        "must be set",
        "not provided",
        "no api key",
        "credentials",
        "disabled",
    ];
    Some(quoted(&shorten(last_line_with(stderr, &WORDS)?.trim(), MAX_LINE)))
}

/// Writes what follows an error about the process.
impl fmt::Display for ServerOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.http_server() {
            write!(
                f,
                "; it prints {line}, so it is an HTTP server: start it yourself, and configure its address as \"url\" \
                 in place of \"command\" (the path is often /mcp)"
            )?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "; {}", remedy.text)?;
        }
        for (text, what) in
            [(&self.stdout, "its stdout has text that is not MCP"), (&self.stderr, "the end of its stderr")]
        {
            if !text.trim().is_empty() {
                write!(f, "; {what}:\n{}", quoted_lines(text.trim()))?;
            }
        }
        Ok(())
    }
}

/// Returns whether a line says that an HTTP server of this machine is ready.
pub(crate) fn is_http_server(line: &str) -> bool {
    const WORDS: [&str; 7] =
        ["running", "listening", "listen on", "serving", "started", "available at", "server at"];
    const HOSTS: [&str; 5] = ["127.0.0.1", "localhost", "0.0.0.0", "[::", "*:"];
    let line = line.to_lowercase();
    let url = line.split_once("http://").or_else(|| line.split_once("https://")).map(|(_, rest)| rest);
    url.is_some_and(|url| HOSTS.iter().any(|host| url.starts_with(host)))
        && WORDS.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_server_is_recognized_by_what_it_prints() {
        for (line, expected) in [
            ("INFO:     Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)", true),
            ("Server listening at http://localhost:3000/mcp", true),
            ("[server] started on http://0.0.0.0:8080", true),
            ("MCP server available at http://[::1]:9000", true),
            ("Fetching https://registry.npmjs.org/started", false),
            ("See http://localhost:3000 for the manual", false),
            ("server running on stdio", false),
        ] {
            assert_eq!(is_http_server(line), expected, "{line}");
        }
        let output =
            ServerOutput::new("Uvicorn running on http://127.0.0.1:8000".to_owned(), "hello".to_owned());
        assert_eq!(
            output.to_string(),
            "; it prints \"Uvicorn running on http://127.0.0.1:8000\", so it is an HTTP server: start it yourself, and \
             configure its address as \"url\" in place of \"command\" (the path is often /mcp); its stdout has text \
             that is not MCP:\n> hello; the end of its stderr:\n> Uvicorn running on http://127.0.0.1:8000"
        );
    }
    #[test]
    fn a_server_for_another_version_of_the_python_package_is_recognized() {
        let traceback = "Traceback (most recent call last):\n  File \"/x/server.py\", line 2, in <module>\n    from mcp.server.fastmcp \
                         import FastMCP\n";
        for (error, expected) in [
            (
                "ImportError: cannot import name 'FastMCP' from 'mcp.server' (/x/site-packages/mcp/server/__init__.py)",
                true,
            ),
            ("ModuleNotFoundError: No module named 'mcp.server.fastmcp'", true),
            ("AttributeError: 'Server' object has no attribute 'list_tools'", true),
            ("ModuleNotFoundError: No module named 'mcp'", false),
            ("KeyError: 'API_KEY'", false),
        ] {
            let output = ServerOutput::new(format!("{traceback}{error}"), String::new()).to_string();
            assert_eq!(output.contains("\"--with\", \"mcp<2\""), expected, "{error}: {output}");
        }
        // Some programs show nothing of the package.
        let sqlite = "  File \"/c/mcp_server_sqlite/server.py\", line 90, in main\n    @server.list_resources()\n     \
                      ^^^^^^^^^^^^^^^^^^^^^\nAttributeError: 'Server' object has no attribute 'list_resources'";
        assert!(ServerOutput::new(sqlite.to_owned(), String::new()).to_string().contains("mcp<2"));
        let own = "AttributeError: 'Server' object has no attribute 'sessions'";
        assert!(!ServerOutput::new(own.to_owned(), String::new()).to_string().contains("mcp<2"));
        let output =
            ServerOutput::new("ImportError: cannot import name 'x' from 'y'".to_owned(), String::new());
        assert!(!output.to_string().contains("mcp<2"), "{output}");
    }

    #[test]
    fn a_server_that_is_not_configured_is_recognized() {
        let stderr = "starting\nWarning: GITHUB_TOKEN not set, no tools are available\nready";
        let expected = "\"Warning: GITHUB_TOKEN not set, no tools are available\"";
        assert_eq!(not_configured(stderr).as_deref(), Some(expected));
        assert_eq!(not_configured("starting\nready"), None);
    }
}
