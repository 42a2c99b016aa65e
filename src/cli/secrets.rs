//! `dynamic-mcp secret set|list|remove`.

use auth::secret_store::{SecretStore, SecretStoreError};
use base::text;
use clap::Subcommand;
use config::env::Env;
use config::secrets::is_secret_name;
use instance::stores::secret_store;
use std::process::ExitCode;
use terminal::VisibleText;
use terminal::ask::ask_secret;
use terminal::outcome::{CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE};

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
    let value = ask_secret(&format!("Value of {name}")).await;
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
