//! What the commands print: the answer on stdout, and what went wrong on stderr.

use base::text::{counted, joined, name, one_line, shell_word, shorten};
use config::GroupName;
use front::errors::changed_tools;
use front::names::exposed_names::ExposedNames;
use front::names::own_tools::{self, GET_DYNAMIC_TOOLS};
use serde_json::Value;
use std::io;
use terminal::VisibleText;
use terminal::outcome::EXIT_FAILURE;
use upstream::{State, Upstream};
use wire::Raw;

/// The length of a line about a tool, a resource or a prompt.
const MAX_LINE: usize = 120;

/// What a command prints.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Printout {
    /// The answer.
    stdout: Vec<u8>,
    /// What a tool says about its error, or what an answer to a wrong question says.
    stderr: String,
    /// What else went wrong.
    messages: Vec<String>,
    /// The exit code.
    exit_code: u8,
}

impl Printout {
    /// Creates an answer.
    pub(super) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self { stdout: text.into(), ..Self::default() }
    }

    /// Creates an answer, with a line end.
    pub(super) fn lines(mut text: String) -> Self {
        if !text.is_empty() {
            text.push('\n');
        }
        Self::text(text)
    }

    /// Nothing but what went wrong.
    pub(super) fn failure(message: String) -> Self {
        Self { messages: vec![message], exit_code: EXIT_FAILURE, ..Self::default() }
    }

    /// Creates the result of a tool: its text, or with `is_raw` its bytes. `error_code` is the exit code if it is an
    /// error.
    pub(super) fn result(result: &Raw, is_raw: bool, error_code: u8) -> Self {
        let parsed: Value = serde_json::from_slice(result).unwrap_or_default();
        let is_error = parsed["isError"] == true;
        let exit_code = if is_error { error_code } else { 0 };
        if is_raw {
            return Self { stdout: [result, &b"\n"[..]].concat(), exit_code, ..Self::default() };
        }
        let text = result_text(&parsed);
        match is_error {
            true => Self { stderr: text, exit_code, ..Self::default() },
            false => Self { stdout: text.into_bytes(), ..Self::default() },
        }
    }

    /// Speaks to the person in place of the model: names the commands that people type in place of the tools that models
    /// call, and leaves out what the model has to tell. `options`: those that the commands need to read the same config.
    pub(super) fn for_people(self, options: &str) -> Self {
        let said = |text: &str| commands_for_tools(&without_model(text), options);
        let stdout = said(&String::from_utf8_lossy(&self.stdout)).into_bytes();
        let messages = self.messages.iter().map(|text| said(text)).collect();
        Self { stdout, stderr: said(&self.stderr), messages, ..self }
    }

    /// Adds why servers could not be asked, which is a failure.
    pub(super) fn with_failures(mut self, groups: &[Upstream]) -> Self {
        for (group, error) in failures(groups) {
            self.messages.push(format!("{group}: {error}"));
            self.exit_code = self.exit_code.max(EXIT_FAILURE);
        }
        self
    }

    /// Adds a line for each server that could not be asked. The answer counts without them. `options`: those that `check`
    /// needs to read the same config.
    pub(super) fn without_failed(mut self, groups: &[Upstream], options: &str) -> Self {
        for (group, error) in failures(groups) {
            let why = shorten(&one_line(&error), MAX_LINE);
            let server = shell_word(group.as_str()).map(|name| format!(" {name}")).unwrap_or_default();
            self.messages.push(format!(
                "{group} was not asked: {why}; `dynamic-mcp check{server}{options}` says more"
            ));
        }
        self
    }

    /// Prints it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// Fails if stdout cannot be written.
    pub(super) fn print(self) -> io::Result<u8> {
        terminal::payload(&self.stdout)?;
        terminal::to_stderr(&self.stderr);
        self.messages.iter().for_each(terminal::message);
        Ok(self.exit_code)
    }
}

/// Returns the groups that failed, each with the reason.
fn failures(groups: &[Upstream]) -> impl Iterator<Item = (&GroupName, String)> {
    groups.iter().filter_map(|group| {
        let snapshot = group.snapshot();
        let has_failed = matches!(snapshot.state, State::Failed(_));
        Some((&group.name, snapshot.last_failure().filter(|_| has_failed)?.to_string()))
    })
}

/// Returns the text of a result of a tool, with a line end.
fn result_text(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines: Vec<String> = blocks.iter().map(block_text).collect();
    if lines.is_empty() && !result["structuredContent"].is_null() {
        lines.push(format!("{:#}", result["structuredContent"]));
    }
    let mut text = lines.join("\n");
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Returns a block of content: its text, or what it is.
fn block_text(block: &Value) -> String {
    let word = |value: &Value| one_line(value.as_str().unwrap_or_default());
    match block["type"].as_str().unwrap_or_default() {
        "text" => block["text"].as_str().unwrap_or_default().to_owned(),
        kind @ ("image" | "audio") => {
            let bytes = block["data"].as_str().map_or(0, str::len) / 4 * 3;
            format!("[{kind} {}, {bytes} bytes; --json prints it]", word(&block["mimeType"]))
        }
        "resource" => match block["resource"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[resource {}; --json prints it]", word(&block["resource"]["uri"])),
        },
        "resource_link" => word(&block["uri"]),
        kind => format!("[{}; --json prints it]", one_line(kind)),
    }
}

/// Returns a text without what it asks the model to tell its user.
fn without_model(text: &str) -> String {
    let told = [
        ("\nTell the user; get_status has all of it.", ""),
        ("Tell the user, who can ", "You can "),
        ("Tell the user; a repeated call helps", "A repeated call helps"),
        ("; if that fails, too, tell the user.", "."),
        ("; tell the user.", "."),
        ("\nTell the user.", ""),
        (" Tell the user.", ""),
        ("the user has not approved", "you have not approved"),
        ("The user can ", "You can "),
    ];
    told.iter().fold(text.to_owned(), |text, (told, said)| text.replace(told, said))
}

/// Replaces `get_dynamic_tools` and its arguments by the command that prints the same.
fn commands_for_tools(text: &str, options: &str) -> String {
    let mut parts = text.split(GET_DYNAMIC_TOOLS);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let arguments = values.next().and_then(Result::ok).filter(Value::is_object);
        let end = if arguments.is_some() { values.byte_offset() } else { 0 };
        let arguments = arguments.unwrap_or_default();
        let words = [&arguments["group"], &arguments["tools"][0]];
        // A name that cannot be typed is left out, with what follows it.
        let words = words.iter().map_while(|word| Some(format!(" {}", shell_word(word.as_str()?)?)));
        let command = format!("dynamic-mcp tools{}{options}", words.collect::<String>());
        out.push_str(&format!("`{command}`{}", &rest[end..]));
    }
    out
}

/// Lists the tools of all groups, each with the beginning of its description.
pub(super) fn overview(groups: &[Upstream]) -> VisibleText {
    let mut text = VisibleText::default();
    for group in groups {
        let snapshot = group.snapshot();
        let Some(catalog) = &snapshot.catalog else { continue };
        let refused = snapshot.refused();
        let is_usable = |tool: &str| snapshot.rules.allows(tool) && !refused.contains(tool);
        let tools: Vec<_> = catalog.tools.iter().filter(|tool| is_usable(&tool.name)).collect();
        text.line(format_args!("{} ({})", group.name, counted(tools.len(), "tool")));
        for tool in tools {
            let asks = snapshot.rules.asks(&tool.name).map_or("", |_| " (asks)");
            text.line(format_args!("  {}", entry(&format!("{}{asks}", name(&tool.name)), &tool.summary)));
        }
        let changed = catalog.tools.iter().filter(|tool| refused.contains(&tool.name)).count();
        if let Some(server) = snapshot.server.as_deref().filter(|_| changed > 0) {
            let approve = changed_tools::approve_command(&group.name, server, None);
            text.line(format_args!("  {changed} more changed and are refused until you run `{approve}`"));
        }
    }
    text
}

/// Lists resources, their templates or prompts.
pub(super) fn entries(lists: &Value) -> VisibleText {
    let mut text = VisibleText::default();
    for list in lists.as_object().into_iter().flat_map(|lists| lists.values()) {
        for item in list.as_array().into_iter().flatten() {
            let key = ["uri", "uriTemplate", "name"].iter().find_map(|key| item[key].as_str());
            let arguments = joined(item["arguments"].as_array().into_iter().flatten().map(argument));
            let arguments = if arguments.is_empty() { arguments } else { format!(" ({arguments})") };
            let about = [&item["description"], &item["title"], &item["name"]];
            let about = about.iter().find_map(|about| about.as_str()).unwrap_or_default();
            let key = key.unwrap_or_default();
            let about = if about == key { "" } else { about };
            text.line(entry(&format!("{}{arguments}", one_line(key)), about));
        }
    }
    text
}

/// Returns an argument of a prompt. A question mark follows one that may be absent.
fn argument(argument: &Value) -> String {
    let mark = if argument["required"] == true { "" } else { "?" };
    format!("{}{mark}", one_line(argument["name"].as_str().unwrap_or_default()))
}

fn entry(key: &str, about: &str) -> String {
    match about.is_empty() {
        true => key.to_owned(),
        false => format!("{key}: {}", shorten(&one_line(about), MAX_LINE)),
    }
}

/// Returns the result of `tools/list` without our own tools. `tool`: only those of this name.
pub(super) fn without_own_tools(list: &Raw, tool: Option<&str>, names: &ExposedNames) -> String {
    let mut list: Value = serde_json::from_slice(list).unwrap_or_default();
    if let Some(tools) = list["tools"].as_array_mut() {
        tools.retain(|entry| {
            let name = entry["name"].as_str().unwrap_or_default();
            let own_name = names.resolve(name).map(|(_, own)| own);
            let is_meant = tool.is_none_or(|tool| own_name.as_deref() == Some(tool));
            is_meant && !own_tools::NAMES.contains(&name)
        });
    }
    format!("{list}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(result: &Value) -> Printout {
        Printout::result(&result.to_string().into(), false, 5)
    }

    #[test]
    fn text_goes_to_stdout_and_an_error_to_stderr() {
        let content = json!([
            {"type": "text", "text": "one"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "two"}}, {"type": "resource_link", "uri": "c:d"},
        ]);
        let text = "one\n[image image/png, 3 bytes; --json prints it]\ntwo\nc:d\n";
        assert_eq!(printed(&json!({"content": content})), Printout::text(text));
        let error = printed(&json!({"content": content, "isError": true}));
        assert_eq!((&*error.stderr, error.exit_code, error.stdout.len()), (text, 5, 0));
        let structured = printed(&json!({"content": [], "structuredContent": {"a": 1}}));
        assert_eq!(structured, Printout::text("{\n  \"a\": 1\n}\n"));
    }

    #[test]
    fn people_are_told_commands() {
        for (text, expected) in [
            (
                "Full definitions: get_dynamic_tools {\"group\":\"g\",\"tools\":[\"NAME\"]}\nx",
                "Full definitions: `dynamic-mcp tools g NAME --config c.json`\nx",
            ),
            (
                "list a group's tools with get_dynamic_tools.",
                "list a group's tools with `dynamic-mcp tools --config c.json`.",
            ),
            (
                r#"get_dynamic_tools {"group":"my docs","tools":["a'b"]}"#,
                if cfg!(windows) {
                    r#"`dynamic-mcp tools "my docs" "a'b" --config c.json`"#
                } else {
                    r"`dynamic-mcp tools 'my docs' 'a'\''b' --config c.json`"
                },
            ),
            (r#"get_dynamic_tools {"group":"g","tools":["-x"]}"#, "`dynamic-mcp tools g --config c.json`"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(commands_for_tools(text, " --config c.json"), expected);
        }
    }
}
