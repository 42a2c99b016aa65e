//! `dynamic-mcp demo`: what this program does, shown end to end on this machine.
//!
//! The demo is an MCP client of a second instance of this program, which it starts as any client would. That instance
//! has six groups: five run this program once more, as the MCP server in [`server`] with notes of its own, and one
//! names a program that does not exist.
//!
//! `walkthrough` has the steps and their texts, `instance::program_client` speaks MCP, `printer` lays out the output, and `sandbox`
//! owns the files: nothing of the user's configuration or cache is read or written. Every figure is
//! measured. A step whose outcome is not the one that its text promises ends the demo with an error.

use anyhow::{Context, bail};
use config::dirs;
use config::env::Env;
use instance::signals::interrupted;
use printer::Printer;
use sandbox::Sandbox;
use std::process::ExitCode;
use terminal::outcome::{CommandError, EXIT_INTERRUPTED, is_end_of_reader};

mod printer;
mod sandbox;
pub mod server;
mod walkthrough;

/// Runs `dynamic-mcp demo` on stdout.
///
/// # Errors
///
/// Fails if a step has another outcome than its text promises, and if a signal interrupts it. A reader that closes the
/// pipe early (`dynamic-mcp demo | head`) is no error.
pub async fn demo(env: &Env) -> anyhow::Result<ExitCode> {
    let has_color = terminal::has_color(env);
    let mut print = terminal::print;
    let mut printer = Printer::new(&mut print, has_color, terminal::width());
    let sandbox = Sandbox::create()?;
    let outcome = tokio::select! {
        // The signal comes first, so that it is handled before a server starts.
        biased;
        () = interrupted() => bail!(CommandError::new(EXIT_INTERRUPTED, "the demo was interrupted")),
        outcome = walkthrough::run(&mut printer, &sandbox, dirs::default_config_file(env)) => outcome,
    };
    match outcome {
        Err(error) if is_end_of_reader(&error) => Ok(ExitCode::SUCCESS),
        outcome => outcome.context("the demo failed").map(|()| ExitCode::SUCCESS),
    }
}
