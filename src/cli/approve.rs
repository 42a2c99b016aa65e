//! `dynamic-mcp approve GROUP [TOOL]`: accepts definitions of tools that changed since they were first seen.

use super::config_files::{find_server, load_config};
use base::text::{counted, joined, name, quoted, shorten, visible};
use clap::Args;
use config::env::Env;
use config::{GroupName, Overrides};
use instance::InstanceOptions;
use std::process::ExitCode;
use terminal::VisibleText;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_USAGE};
use upstream::pins::group::{ApproveError, approve as approve_record};
use upstream::pins::record::{ApprovedTool, NotApproved};
use upstream::pins::varying::Varying;

/// How many characters of a description are shown.
const MAX_DESCRIPTION: usize = 200;
/// How many equal characters are shown before the first difference of two descriptions.
const CONTEXT: usize = 40;
/// How many tools an error names.
const MAX_NAMED: usize = 10;

/// Accept changed definitions of a server's tools
#[derive(Args, Debug)]
pub struct ApproveArgs {
    /// The name of the server in the config
    #[arg(value_name = "SERVER")]
    pub group: String,
    /// The name of the tool. Without it, all changed tools of the server are accepted
    pub tool: Option<String>,
    /// Accept that these members differ at each start: from now on, ignore the order of lists and texts if only the
    /// order differs, and do not compare other members
    #[arg(long)]
    pub varying: bool,
}

/// Approves the changed tools of a group, or one of them, and prints what they were and are.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn approve(args: &ApproveArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let tools = match approved_tools(args, options, env) {
        Ok(tools) => tools,
        Err(error) => return Ok(error.print(&args.group)),
    };
    let mut text = VisibleText::default();
    tools.iter().for_each(|tool| describe(&mut text, tool));
    let count = match tools.len() {
        0 => "confirmed".to_owned(),
        count => format!("approved {}", counted(count, "tool")),
    };
    let group = name(&args.group);
    text.line(format_args!("{group}: {count}; running instances notice within 2 seconds"));
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn approved_tools(
    args: &ApproveArgs,
    options: &InstanceOptions,
    env: &Env,
) -> Result<Vec<ApprovedTool>, CommandError> {
    let config = load_config(Overrides::default(), options, env)?;
    let group = GroupName::new(&args.group);
    let server = find_server(&config, &group)?;
    let dir = options.pins_dir.as_deref().ok_or_else(|| {
        CommandError::new(EXIT_CONFIG, "there is no directory for approvals because HOME is not set")
    })?;
    approve_record(dir, &group, server, args.tool.as_deref(), args.varying)
        .map_err(|error| refused(args.tool.as_deref().unwrap_or_default(), error))
}

/// Returns the error of a command that approved nothing.
fn refused(tool: &str, error: ApproveError) -> CommandError {
    let shown = |tool: &str| quoted(&shorten(tool, MAX_DESCRIPTION));
    let message = match error {
        ApproveError::File(why) => why,
        ApproveError::NothingKnown => {
            "its tools have not been seen yet; they are trusted as they are when it first connects".to_owned()
        }
        ApproveError::NotApproved(NotApproved::NothingChanged) => "none of its tools has changed".to_owned(),
        ApproveError::NotApproved(NotApproved::ToolNotChanged) => {
            format!("tool {} has not changed", shown(tool))
        }
        ApproveError::NotApproved(NotApproved::NotVarying(tool, why)) => {
            format!("tool {} cannot be approved as varying: {why}", shown(&tool))
        }
        ApproveError::NotApproved(NotApproved::UnknownTool(changed)) => {
            let named = joined(changed.iter().take(MAX_NAMED).map(|tool| shown(tool)));
            let changed = match (named.is_empty(), changed.len().saturating_sub(MAX_NAMED)) {
                (true, _) => "none has changed".to_owned(),
                (false, 0) => format!("changed: {named}"),
                (false, more) => format!("changed: {named}, +{more} more"),
            };
            return CommandError::new(EXIT_USAGE, format!("there is no tool {}; {changed}", shown(tool)));
        }
    };
    CommandError::new(EXIT_FAILURE, message)
}

/// Says in lines of text what changed about a tool, with hidden characters made visible.
pub(super) fn describe(text: &mut VisibleText, tool: &ApprovedTool) {
    text.line(format_args!("{}: {}", quoted(&shorten(&tool.name, MAX_DESCRIPTION)), tool.parts.join(", ")));
    for (path, how) in &tool.varying {
        let how = match how {
            Varying::Order => "compared without its order",
            Varying::Value => "not compared",
        };
        text.line(format_args!("  {} varies: from now on it is {how}", shorten(path, MAX_DESCRIPTION)));
    }
    let is_described = tool.parts.iter().any(|part| part == "description" || part == "new");
    if !is_described {
        return;
    }
    let old = tool.old.as_deref().unwrap_or_default();
    let start = difference(old, &tool.new);
    if tool.old.is_some() {
        text.line(format_args!("  old description: {}", excerpt(old, start)));
    }
    text.line(format_args!("  new description: {}", excerpt(&tool.new, start)));
    if old == tool.new {
        text.line("  (they differ after the beginning that is remembered)");
    }
}

/// Returns the number of characters at the beginning that need not be shown, because they are equal.
fn difference(old: &str, new: &str) -> usize {
    let equal = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
    equal.saturating_sub(CONTEXT)
}

/// Returns the text from the character `start` on, quoted and shortened.
fn excerpt(text: &str, start: usize) -> String {
    let rest: String = text.chars().skip(start).collect();
    let rest = shorten(&rest, MAX_DESCRIPTION);
    let mark = if start > 0 { "…" } else { "" };
    // What is remembered is visible text already, which a second pass does not change.
    format!("\"{mark}{}\"", visible(&rest).replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(parts: &[&str], old: Option<&str>, new: &str) -> ApprovedTool {
        ApprovedTool {
            name: "t".into(),
            parts: parts.iter().map(ToString::to_string).collect(),
            old: old.map(str::to_owned),
            new: new.into(),
            varying: [].into(),
        }
    }

    fn described(tool: &ApprovedTool) -> String {
        let mut text = VisibleText::default();
        describe(&mut text, tool);
        text.to_string()
    }

    #[test]
    fn what_is_approved_is_shown_on_one_line_each() {
        assert_eq!(
            described(&tool(&["description"], Some("Reads."), "Reads.\n\u{202e}Sends.")),
            "\"t\": description\n  old description: \"Reads.\"\n  new description: \"Reads.\\n\\u{202e}Sends.\"\n"
        );
        assert_eq!(described(&tool(&["new"], None, "Sends.")), "\"t\": new\n  new description: \"Sends.\"\n");
        assert_eq!(described(&tool(&["inputSchema"], Some("x"), "x")), "\"t\": inputSchema\n");
    }

    #[test]
    fn a_difference_at_the_end_of_a_long_description_is_shown() {
        let long = "word ".repeat(150);
        let shown =
            described(&tool(&["description"], Some(&long), &format!("{long}and send it to evil.example")));
        assert!(shown.contains("and send it to evil.example"), "{shown}");
        assert!(shown.contains("old description: \"…"), "{shown}");
        let beyond = described(&tool(&["description"], Some(&long), &long));
        assert!(beyond.contains("differ after"), "{beyond}");
    }

    #[test]
    fn a_command_that_cannot_approve_fails() {
        let args = ApproveArgs { group: "g".into(), tool: None, varying: false };
        let code =
            |options: &InstanceOptions| format!("{:?}", approve(&args, options, &Env::default()).unwrap());
        let exit_code = |code: u8| format!("{:?}", ExitCode::from(code));
        assert_eq!(code(&InstanceOptions::default()), exit_code(EXIT_USAGE), "there is no such server");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.json");
        std::fs::write(&file, r#"{"mcpServers": {"g": {"command": "x"}}}"#).unwrap();
        let mut options = InstanceOptions { files: vec![file], ..InstanceOptions::default() };
        assert_eq!(code(&options), exit_code(EXIT_CONFIG), "there is no directory for approvals");
        options.pins_dir = Some(dir.path().join("pins"));
        assert_eq!(code(&options), exit_code(EXIT_FAILURE), "its tools have not been seen");
    }
}
