//! `dynamic-mcp status --html`: the status as a page in the browser.

use anyhow::ensure;
use auth::browser;
use base::{private_files, text};
use clap::Args;
use config::env::Env;
use front::tools::status_page;
use instance::control;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The options of the page.
#[derive(Args, Debug)]
pub(super) struct PageArgs {
    /// Write a page to FILE, or to the runtime directory, and open it in the browser
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["json", "watch"])]
    pub(super) html: Option<Option<PathBuf>>,
    /// Do not open the page
    #[arg(long, requires = "html")]
    pub(super) no_open: bool,
}

/// Writes the page with this report, which only the user can read, and opens it. Prints the path of the file.
///
/// # Errors
///
/// Fails if the file cannot be written, or exists and is not a regular file: a device, a FIFO or a link would be replaced.
pub(super) fn write(
    report: &Value,
    file: Option<&Path>,
    no_open: bool,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    let page = status_page::with_data(report);
    let file = match file {
        Some(file) => {
            let file = env.cwd().join(file);
            ensure!(
                file.symlink_metadata().map_or(true, |metadata| metadata.is_file()),
                "{} is not a regular file, so no page is written to it; name another file",
                text::path(&file)
            );
            private_files::replace_one_of_many(&file, page.as_bytes(), false)?;
            file
        }
        None => {
            let file = control::page_file(env)?;
            private_files::replace(&file, page.as_bytes(), false)?;
            file
        }
    };
    terminal::line(text::path(&file))?;
    if !no_open && !browser::open_file(&file, env.get("BROWSER")) {
        terminal::message("no browser could be started; open the file in one");
    }
    Ok(ExitCode::SUCCESS)
}
