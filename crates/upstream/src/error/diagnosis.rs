//! Finds the cause of a failed start in the stderr of a process, and the remedy.
//!
//! It knows only causes that last until somebody changes something: the messages of launchers and interpreters, and the
//! usual messages of servers that are not configured.

use base::text::{last_line_with, quoted, shorten};

/// The longest line that a remedy repeats, in characters.
const MAX_LINE: usize = 200;

/// Returns a cause that the output names, with the remedy; of several, the one that is looked for first. `None` if it
/// names no known cause. `passed_over`: variables that were not passed to the process; the error has a line of its own
/// about them.
pub(super) fn remedy(stderr: &str, passed_over: &[String]) -> Option<String> {
    needs_older_mcp(stderr)
        .or_else(|| missing_package(stderr))
        .or_else(|| missing_module(stderr))
        .or_else(|| docker(stderr))
        .or_else(|| missing_argument(stderr))
        .or_else(|| missing_variable(stderr, passed_over))
        .or_else(|| missing_file(stderr))
}

/// The text between `before` and `after` in the first line that has both.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.lines().find_map(|line| Some(line.split_once(before)?.1.split_once(after)?.0))
}

/// A name or path of the server's output, in quotation marks.
fn shown(text: &str) -> String {
    quoted(&shorten(text.trim(), MAX_LINE))
}

/// A package that the registry of npm or PyPI does not have, or requirements that exclude each other.
fn missing_package(stderr: &str) -> Option<String> {
    if stderr.contains("code E404") {
        let package = between(stderr, "404  '", "'").or_else(|| between(stderr, "resource '", "'"))?;
        let at = package.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(package.len(), |(at, _)| at);
        let package = shown(&package[..at]);
        return Some(format!("npm has no package {package}, or it is private: correct its name in \"args\""));
    }
    if let Some(package) = between(stderr, "Because ", " was not found in the package registry") {
        return Some(format!("PyPI has no package {}: correct its name in \"args\"", shown(package)));
    }
    stderr.contains("requirements are unsatisfiable").then(|| {
        "the versions that \"args\" require exclude each other, as the lines below say: change one of them".to_owned()
    })
}

/// A module of Python or of Node.js.
fn missing_module(stderr: &str) -> Option<String> {
    if let Some(line) = stderr.lines().rfind(|line| line.contains("No module named ")) {
        let (program, module) = line.split_once("No module named ")?;
        let python = program.trim().strip_suffix(':').filter(|program| program.contains("python"));
        let module = shown(module.trim_matches(['\'', '"', ' ']));
        return Some(format!(
            "its Python has no module {module}: correct the name in \"args\", or run `{} -m pip install PACKAGE`",
            python.unwrap_or("python3")
        ));
    }
    let module = between(stderr, "Cannot find module '", "'")
        .or_else(|| between(stderr, "Cannot find package '", "'"))?;
    Some(match module.starts_with(['/', '.']) || module.contains(":\\") {
        true => no_such_path(module),
        false => format!(
            "its Node.js has no package {}: run `npm install` in the server's directory",
            shown(module)
        ),
    })
}

/// The daemon or an image of Docker.
fn docker(stderr: &str) -> Option<String> {
    let says = |words: &str| stderr.contains(words);
    if says("Cannot connect to the Docker daemon") || says("failed to connect to the docker API") {
        return Some(
            "Docker does not run: start Docker Desktop, or run `sudo systemctl start docker`".to_owned(),
        );
    }
    let image = between(stderr, "pull access denied for ", ",")?;
    Some(format!("Docker has no image {}: correct its name in \"args\", or run `docker login`", shown(image)))
}

/// An argument that the program requires.
fn missing_argument(stderr: &str) -> Option<String> {
    const WORDS: [&str; 6] = [
        "arguments are required",
        "missing required argument",
        "missing required option",
        "required option",
        "required arguments were not provided",
        "missing argument",
    ];
    let line = last_line_with(stderr, &WORDS)?;
    Some(format!("put into \"args\" what it requires: {}", shown(line)))
}

/// A variable that is not set.
fn missing_variable(stderr: &str, passed_over: &[String]) -> Option<String> {
    const WORDS: [&str; 8] = [
        "not set",
        "is required",
        "must be set",
        "missing",
        "not provided",
        "undefined",
        "please set",
        "environment variable",
    ];
    let names_variable = |line: &str| {
        let lower = line.to_lowercase();
        let says_so = WORDS.iter().any(|word| lower.contains(word)) || line.starts_with("KeyError: ");
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_variable = |word: &&str| {
            let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            word.contains('_')
                && word.starts_with(|c: char| c.is_ascii_uppercase())
                && word.chars().all(is_upper)
        };
        words.find(is_variable).filter(|_| says_so).map(str::to_owned)
    };
    let name = stderr.lines().rev().find_map(names_variable).filter(|name| !passed_over.contains(name))?;
    // A code of the system's errors, such as ERR_MODULE_NOT_FOUND, is no variable.
    (!name.starts_with("ERR_")).then(|| {
        format!("it needs the variable {name}: write \"env\": {{\"{name}\": \"…\"}} into its config entry")
    })
}

/// A file or directory that does not exist.
fn missing_file(stderr: &str) -> Option<String> {
    let named = between(stderr, "can't open file '", "'")
        .or_else(|| between(stderr, "Cannot access directory ", ",").filter(|path| !path.is_empty()))
        .or_else(|| between(stderr, "ENOENT: no such file or directory, stat '", "'"))
        .or_else(|| between(stderr, "No such file or directory: '", "'"));
    named.map(no_such_path)
}

fn no_such_path(path: &str) -> String {
    format!(
        "there is no {}: create it, or write the absolute path of the right one into \"args\" (a relative path starts at \
         the server's \"cwd\")",
        shown(path)
    )
}

/// What a server of the Python package `mcp` has in version 1 only: the decorators and properties of its `Server`.
const ONLY_IN_V1: [&str; 14] = [
    "call_tool",
    "completion",
    "get_prompt",
    "list_prompts",
    "list_resource_templates",
    "list_resources",
    "list_tools",
    "progress_notification",
    "read_resource",
    "request_context",
    "set_logging_level",
    "subscribe_resource",
    "unsubscribe_resource",
    "_mcp_server",
];

/// A Python program that was written for another major version of the package `mcp`.
fn needs_older_mcp(stderr: &str) -> Option<String> {
    const ERRORS: [&str; 3] = ["ImportError:", "ModuleNotFoundError:", "AttributeError:"];
    // Without the package itself, its version is not the reason.
    let is_missing = stderr.contains("No module named 'mcp'");
    let names_package =
        |line: &str| ["'mcp.", "'mcp'", "FastMCP", "mcp/"].iter().any(|part| line.contains(part));
    let is_used = stderr.lines().any(|line| {
        let line = line.trim();
        line.starts_with("from mcp") || line.starts_with("import mcp") || line.contains("site-packages/mcp/")
    });
    let last = stderr.lines().rfind(|line| ERRORS.iter().any(|error| line.starts_with(error)));
    let lacks_v1 = |line: &str| {
        let missing = between(line, "' object has no attribute '", "'");
        ["'Server'", "'FastMCP'"].iter().any(|object| line.contains(object))
            && missing.is_some_and(|name| ONLY_IN_V1.contains(&name))
    };
    let is_meant = !is_missing && last.is_some_and(|line| names_package(line) || is_used || lacks_v1(line));
    is_meant.then(|| {
        "it does not work with the installed version of the Python package mcp: pin an older one (for uvx, begin \"args\" with \
         \"--with\", \"mcp<2\", or correct the version there)"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_that_a_process_names_comes_with_what_to_write() {
        for (stderr, expected) in [
            (
                "npm error code E404\nnpm error 404  The requested resource '@a/b@*' could not be found",
                "npm has no package \"@a/b\"",
            ),
            (
                "npm ERR! code E404\nnpm ERR! 404  'b@1.0.0' is not in this registry.",
                "npm has no package \"b\"",
            ),
            (
                "  cause: Because mcp-x was not found in the package registry and you",
                "PyPI has no package \"mcp-x\"",
            ),
            ("you can conclude that your requirements are unsatisfiable.", "exclude each other"),
            (
                "/v/bin/python3: No module named m_x",
                "no module \"m_x\": correct the name in \"args\", or run `/v/bin/python3 -m pip",
            ),
            ("ModuleNotFoundError: No module named 'requests'", "no module \"requests\""),
            (
                "python: can't open file '/h/s.py': [Errno 2] No such file or directory",
                "there is no \"/h/s.py\": create it",
            ),
            (
                "Error: Cannot find module '/w/dist/index.js'\n  code: 'MODULE_NOT_FOUND',",
                "there is no \"/w/dist/index.js\"",
            ),
            ("Error: Cannot find package 'zod' imported from /w/a.js", "run `npm install`"),
            (
                "m.py: error: the following arguments are required: --dsn",
                "put into \"args\" what it requires: \"m.py",
            ),
            (
                "Error: GITHUB_TOKEN environment variable is not set",
                "write \"env\": {\"GITHUB_TOKEN\": \"…\"}",
            ),
            ("KeyError: 'API_KEY'", "it needs the variable API_KEY"),
            ("Warning: Cannot access directory /no/such, skipping", "there is no \"/no/such\""),
            ("docker: Cannot connect to the Docker daemon at unix:///x", "Docker does not run"),
            ("pull access denied for mcp/x, repository does not exist", "no image \"mcp/x\""),
        ] {
            let found = remedy(stderr, &[]).unwrap_or_default();
            assert!(found.contains(expected), "{stderr}: {found}");
        }
        for stderr in [
            "",
            "sqlite3.OperationalError: unable to open database file",
            "listening",
            "code: 'ERR_X_Y' missing",
        ] {
            assert_eq!(remedy(stderr, &[]), None, "{stderr}");
        }
        assert_eq!(remedy("API_KEY is not set", &["API_KEY".to_owned()]), None);
    }
}
