//! `dynamic-mcp login NAME` and `dynamic-mcp logout NAME`.

use super::config_files::{find_server, load_config};
use auth::{Account, AuthError, BrowserLogin, LoginStart, LogoutOutcome, browser, has_authorization_header};
use base::text;
use clap::Args;
use config::env::Env;
use config::{Endpoint, GroupName, HttpConfig, OAuthFlow, Overrides};
use instance::InstanceOptions;
use instance::signals::interrupted;
use instance::stores::{secret_keyring, token_store};
use process::secrets::SecretResolver;
use process::warden::Warden;
use std::cell::Cell;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use terminal::VisibleText;
use terminal::outcome::{
    CommandError, EXIT_CONFIG, EXIT_FAILURE, EXIT_LOGIN_NEEDED, EXIT_UNREACHABLE, EXIT_USAGE, report,
};

/// Log in to a remote server in the browser
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// The name of the server in the config
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// Print the URL to open instead of opening a browser
    #[arg(long)]
    pub no_browser: bool,
    /// How long to wait for the login in the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
}

/// Logs in to a server, in a browser. Waits for the browser as long as `args.timeout` says. Once the browser has
/// returned, a signal does not end the login.
///
/// # Errors
///
/// Fails if stdout cannot be written. A login that fails is printed on stderr, and gives an exit code.
pub async fn login(args: &LoginArgs, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let is_redeeming = Cell::new(false);
    let mut outcome = pin!(async {
        let (http, account) = find_account(&args.name, options, env).await?;
        log_in(args, &http, &account, env, &is_redeeming).await
    });
    let outcome = tokio::select! {
        // The signal comes first, so that it is handled before the user sees the URL.
        biased;
        () = interrupted() => match is_redeeming.get() {
            // The code is used up, and the server may have issued tokens already. This takes some seconds at most.
            true => {
                let name = text::name(&args.name);
                terminal::message(format_args!("{name}: finishing the login, which takes 10 s at most"));
                outcome.await
            }
            false => Err(CommandError::new(EXIT_LOGIN_NEEDED, "cancelled")),
        },
        outcome = &mut outcome => outcome,
    };
    report(&args.name, outcome)
}

/// Ends the login at a server.
///
/// # Errors
///
/// Fails if stdout cannot be written. A logout that fails is printed on stderr, and gives an exit code.
pub async fn logout(name: &str, options: &InstanceOptions, env: &Env) -> anyhow::Result<ExitCode> {
    let outcome = match find_account(name, options, env).await {
        Ok((_, account)) => account.log_out().await.map_err(command_error),
        Err(error) => Err(error),
    };
    let message = outcome.map(|outcome| match outcome {
        LogoutOutcome::NotLoggedIn => "there was no login".to_owned(),
        LogoutOutcome::Revoked => "logged out; the server has revoked the login".to_owned(),
        LogoutOutcome::NotRevoked(why) => format!(
            "logged out here, but the login could not be revoked ({why}); it stays valid until it expires"
        ),
        LogoutOutcome::EntryLeft(why) => format!(
            "logged out here, but the login was in the system's keyring, which {why}: \
             its entry may still be there, and the login was not revoked"
        ),
    });
    report(name, message)
}

/// Returns the config and the account of the remote server with this name. Fetches the secrets that its entry names;
/// the user may be asked to unlock the keyring.
///
/// # Errors
///
/// The config has no such server or profile, the server is local or has a header in place of a login, its secrets or
/// address cannot be used, or there is no directory for logins.
async fn find_account(
    name: &str,
    options: &InstanceOptions,
    env: &Env,
) -> Result<(HttpConfig, Arc<Account>), CommandError> {
    let config = load_config(Overrides::default(), options, env)?;
    let group = GroupName::new(name);
    let server = find_server(&config, &group)?;
    let secrets = SecretResolver::new(secret_keyring(env), Arc::new(env.clone()), Warden::default());
    let fetched = secrets.resolve(Arc::new(server.clone())).await;
    let server = fetched.map_err(|error| CommandError::new(EXIT_FAILURE, error.to_string()))?;
    let Endpoint::Http(http) = &server.endpoint else {
        let message = "it is a local program, which gets its credentials from `env` in the config";
        return Err(CommandError::new(EXIT_USAGE, message));
    };
    if has_authorization_header(http) {
        let message = "the config sets its `Authorization` header, which is sent in place of a login";
        return Err(CommandError::new(EXIT_USAGE, message));
    }
    let store = token_store(options, env, &config.settings, true);
    let store = store.ok_or_else(|| {
        CommandError::new(EXIT_CONFIG, "there is no directory for logins because HOME is not set")
    })?;
    Ok((http.clone(), Account::new(&group, http, &store).map_err(command_error)?))
}

/// Logs in and returns the message for the user. Sets `is_redeeming` when the browser has returned.
///
/// # Errors
///
/// Nobody logged in within `args.timeout`, or the login failed.
async fn log_in(
    args: &LoginArgs,
    http: &HttpConfig,
    account: &Arc<Account>,
    env: &Env,
    is_redeeming: &Cell<bool>,
) -> Result<String, CommandError> {
    if http.oauth.as_ref().is_some_and(|oauth| oauth.flow == OAuthFlow::ClientCredentials) {
        account.access_token().await.map_err(command_error)?;
        return Ok("the server accepts the client's credentials; nobody needs to log in".to_owned());
    }
    let login = match account.start_login().await.map_err(command_error)? {
        LoginStart::NotNeeded => return Ok("the server answers without a login".to_owned()),
        LoginStart::Waiting(login) => login,
    };
    present(args, &login, env);
    let timeout = Duration::from_secs(args.timeout);
    let Ok(response) = tokio::time::timeout(timeout, login.wait_for_browser()).await else {
        let message = format!("nobody logged in within {} s (--timeout)", args.timeout);
        return Err(CommandError::new(EXIT_LOGIN_NEEDED, message));
    };
    is_redeeming.set(true);
    let granted = response.redeem().await.map_err(command_error)?;
    let scopes =
        if granted.is_empty() { String::new() } else { format!(" ({})", text::visible(&granted.join(", "))) };
    Ok(format!("logged in{scopes}; running instances use it from now on"))
}

/// Returns the failure of a command for an error of a login, with its exit code.
fn command_error(error: AuthError) -> CommandError {
    let exit_code = match error {
        AuthError::LoginNeeded(_) => EXIT_LOGIN_NEEDED,
        AuthError::Unreachable(_) => EXIT_UNREACHABLE,
        AuthError::KeyNeeded(_)
        | AuthError::ClientNeeded(_)
        | AuthError::Refused(_)
        | AuthError::Store(_)
        | AuthError::Busy(_)
        | AuthError::Keyring(..) => EXIT_FAILURE,
    };
    CommandError::new(exit_code, error.to_string())
}

/// Opens the browser or tells the user to do so.
fn present(args: &LoginArgs, login: &BrowserLogin, env: &Env) {
    let url = login.url();
    let is_opened = !args.no_browser && browser::open(url, env.get("BROWSER"));
    let mut text = VisibleText::default();
    text.line(match is_opened {
        true => "The login opens in your browser. If it does not, open this URL:",
        false => "Open this URL in a browser on this machine:",
    });
    text.line(url);
    // If stdout is closed, the browser may still have been opened.
    terminal::print(&text).ok();
}
