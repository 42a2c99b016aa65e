//! `dynamic-mcp secret set|list|remove`.

use auth::Secret;
use auth::secret_store::{SecretStore, SecretStoreError};
use base::blocking;
use base::text;
use clap::Subcommand;
use config::env::Env;
use config::secrets::is_secret_name;
use instance::signals::EndSignals;
use instance::stores::secret_store;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::time::Duration;
use terminal::VisibleText;
use terminal::hidden_input::HiddenInput;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE};

/// The largest value, in bytes. Some keyrings store less.
const MAX_VALUE_BYTES: u64 = 64 << 10;
/// How long a user may take to type a value.
const INPUT_TIMEOUT: Duration = Duration::from_secs(600);

/// The commands of `dynamic-mcp secret`.
#[derive(Subcommand, Debug)]
pub enum SecretCommand {
    /// Store a secret, or replace it: the value is typed without being shown, or read from stdin
    Set {
        /// The name of the secret: letters, digits, _ and -
        name: String,
    },
    /// Print the names of the secrets
    List,
    /// Remove a secret
    #[command(alias = "forget")]
    Remove {
        /// The name of the secret
        name: String,
    },
}

/// Runs a command.
///
/// # Errors
///
/// Fails if the command fails, or stdout cannot be written.
pub async fn run(command: &SecretCommand, env: &Env) -> anyhow::Result<ExitCode> {
    let store = secret_store(env).ok_or_else(|| {
        let message = "there is no directory for the names of secrets because HOME is not set";
        CommandError::new(EXIT_CONFIG, message)
    })?;
    let outcome = match command {
        SecretCommand::Set { name } => set(&store, name).await,
        SecretCommand::List => store.names().await.map(|names| {
            if names.is_empty() {
                terminal::message("there are no secrets; `dynamic-mcp secret set NAME` keeps one");
            }
            Some(names)
        }),
        SecretCommand::Remove { name } => store.remove(name).await.map(|was_stored| {
            let outcome = if was_stored { "removed" } else { "there was no such secret" };
            Some(vec![format!("{}: {outcome}", text::name(name))])
        }),
    };
    let Some(lines) = outcome.map_err(failed)? else { return Ok(ExitCode::from(EXIT_INTERRUPTED)) };
    let mut text = VisibleText::default();
    lines.iter().for_each(|line| text.line(line));
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn failed(error: SecretStoreError) -> CommandError {
    let exit_code = match error {
        SecretStoreError::Name(_) | SecretStoreError::Value(_) => EXIT_USAGE,
        SecretStoreError::Keyring { .. } | SecretStoreError::Files(_) => EXIT_FAILURE,
    };
    CommandError::new(exit_code, error.to_string())
}

/// Reads a value and stores it. `None` if a signal came.
///
/// # Errors
///
/// No secret can have this name, the value cannot be read, or the keyring or the file cannot be written.
async fn set(store: &SecretStore, name: &str) -> Result<Option<Vec<String>>, SecretStoreError> {
    if !is_secret_name(name) {
        return Err(SecretStoreError::Name(name.to_owned()));
    }
    let value = read_value(&format!("Value of {name}")).await;
    let value = value.map_err(|error| SecretStoreError::Value(error.to_string()))?;
    let Some(value) = value else { return Ok(None) };
    if value.expose().is_empty() {
        return Err(SecretStoreError::Value("the value is empty".to_owned()));
    }
    store.set(name, value).await?;
    Ok(Some(vec![format!(
        "{name}: stored in the system's keyring; write {{keyring:{name}}} in env, headers or oauth of servers.json"
    )]))
}

/// Reads the value of a secret: what the user types after the question, which is not shown, or all of stdin without the
/// line breaks at its end. `None` if a signal came meanwhile; the terminal then shows again what is typed.
///
/// # Errors
///
/// Fails if stdin cannot be read, nothing is typed within `INPUT_TIMEOUT`, the value is larger than `MAX_VALUE_BYTES`, or
/// signals cannot be handled.
pub(super) async fn read_value(question: &str) -> io::Result<Option<Secret>> {
    let is_typed = io::stdin().is_terminal();
    let read = move || -> io::Result<String> {
        let mut text = String::new();
        match is_typed {
            true => drop(io::stdin().read_line(&mut text)?),
            false => drop(io::stdin().take(MAX_VALUE_BYTES + 1).read_to_string(&mut text)?),
        }
        Ok(text)
    };
    // First, so that no signal ends the process while the terminal shows nothing.
    let mut signals = EndSignals::listen()?;
    let hidden = is_typed.then(HiddenInput::start).transpose()?;
    if is_typed {
        terminal::to_stderr(format_args!("{question} (not shown): "));
    }
    let text = tokio::select! {
        text = blocking::run(INPUT_TIMEOUT, read) => Some(text.map_err(io::Error::other)?),
        _ = signals.next() => None,
    };
    if hidden.is_some() {
        // Fails if the terminal is gone.
        terminal::to_stderr("\n");
    }
    drop(hidden);
    let Some(text) = text.transpose()? else { return Ok(None) };
    let text = text.trim_end_matches(['\n', '\r']);
    match text.len() as u64 {
        0..=MAX_VALUE_BYTES => Ok(Some(Secret::new(text))),
        _ => Err(io::Error::other(format!("the value is larger than {MAX_VALUE_BYTES} bytes"))),
    }
}
