//! `dynamic-mcp completions SHELL`: completions for bash, zsh, fish and PowerShell.
//!
//! # Theory of operation
//!
//! The script of a shell is a few lines that ask this program, `dynamic-mcp __complete -- WORD…`, each time the user
//! presses Tab. `typed_line` finds out from clap's definition of the command line what stands at the cursor, and
//! `candidates` has what may stand there: commands, options, and the names of servers, tools, profiles and secrets, as
//! they are in the config and in what earlier sessions left on disk. No server is started, and no running instance is
//! asked.
//!
//! The answer has one candidate per line, followed by a tab and what it is about. Without one the shell completes the
//! names of files.

use super::Cli;
use clap::{Args, CommandFactory, ValueEnum};
use config::env::Env;
use std::process::ExitCode;
use typed_line::TypedLine;

mod candidates;
mod typed_line;

/// Print the completions for a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Add one of these lines to the files of your shell:\n  bash, ~/.bashrc: eval \"$(dynamic-mcp completions bash)\"\n  zsh, ~/.zshrc, after compinit: eval \"$(dynamic-mcp completions zsh)\"\n  fish, ~/.config/fish/config.fish: dynamic-mcp completions fish | source\n  PowerShell, $PROFILE: dynamic-mcp completions powershell | Out-String | Invoke-Expression"
)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: CompletedShell,
}

/// A shell with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    /// GNU Bash
    Bash,
    /// The Z shell
    Zsh,
    /// fish
    Fish,
    /// PowerShell
    #[value(name = "powershell", alias = "pwsh")]
    PowerShell,
}

/// Prints the script of a shell.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn print_script(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let script = match args.shell {
        CompletedShell::Bash => include_str!("completions/dynamic-mcp.bash"),
        CompletedShell::Zsh => include_str!("completions/dynamic-mcp.zsh"),
        CompletedShell::Fish => include_str!("completions/dynamic-mcp.fish"),
        CompletedShell::PowerShell => include_str!("completions/dynamic-mcp.ps1"),
    };
    terminal::payload(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what may stand in place of `typed`, which follows these words, which follow the name of the program. Without
/// `typed` it is the last word.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub async fn complete(words: &[String], typed: Option<&str>, env: &Env) -> anyhow::Result<ExitCode> {
    let words: Vec<String> = words.iter().cloned().chain(typed.map(str::to_owned)).collect();
    let mut root = Cli::command();
    root.build();
    let line = TypedLine::new(&root, &words);
    let mut text = String::new();
    for candidate in candidates::of(&line, env).await {
        text.push_str(&format!("{}\t{}\n", candidate.word, candidate.about));
    }
    terminal::payload(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
