//! `dynamic-mcp login NAME` and `dynamic-mcp logout NAME`.

use super::Cli;
use super::serve::config_files;
use crate::auth::keyring::Keyring;
use crate::auth::token_store::TokenStore;
use crate::auth::{Account, AuthError, Login, LoginStart, LogoutOutcome, browser};
use crate::config::load;
use crate::config::vars::Env;
use crate::config::{Endpoint, GroupName, HttpConfig, OAuthFlow, Overrides, Settings};
use crate::dirs;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// What a command ends with that did not work.
const LOGIN_NEEDED: u8 = 3;
const UNREACHABLE: u8 = 4;
const CONFIG: u8 = 78;

#[derive(Args, Debug)]
pub struct LoginArgs {
    /// The server, as the config names it
    pub name: String,
    /// Print the address to open instead of opening a browser
    #[arg(long)]
    pub no_browser: bool,
    /// How long to wait for the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
}

/// Why a command did not work, and its exit code.
struct Failure(u8, String);

impl From<AuthError> for Failure {
    fn from(trouble: AuthError) -> Self {
        let code = match trouble {
            AuthError::LoginNeeded(_) => LOGIN_NEEDED,
            AuthError::Unreachable(_) => UNREACHABLE,
            AuthError::Refused(_) | AuthError::Store(_) | AuthError::Busy(_) | AuthError::Keyring(..) => 1,
        };
        Self(code, trouble.to_string())
    }
}

/// Where logins are kept: in files in `logins` of the data directory, and in the keyring, which a `person` may be asked
/// to unlock.
pub fn vault(env: &Env, settings: &Settings, person: bool) -> Option<TokenStore> {
    let dir = dirs::data_dir(env)?.join("logins");
    let keyring = if settings.keyring { Keyring::of_system(env, person) } else { Keyring::off() };
    Some(TokenStore::new(dir, keyring))
}

/// Logs in to a server, in a browser.
pub async fn login(args: &LoginArgs, cli: &Cli, env: &Env) -> anyhow::Result<ExitCode> {
    let outcome = async {
        let (http, account) = remote(&args.name, cli, env)?;
        log_in(args, &http, &account, env).await
    };
    let outcome = tokio::select! {
        // Listening before anybody is told that there is something to cancel.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Failure(LOGIN_NEEDED, "cancelled".to_owned())),
        outcome = outcome => outcome,
    };
    report(&args.name, outcome)
}

/// Ends the login at a server.
pub async fn logout(name: &str, cli: &Cli, env: &Env) -> anyhow::Result<ExitCode> {
    let outcome = match remote(name, cli, env) {
        Ok((_, account)) => account.log_out().await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let outcome = outcome.map(|ended| match ended {
        LogoutOutcome::Nothing => "there was no login".to_owned(),
        LogoutOutcome::Revoked => "logged out; the server has revoked the login".to_owned(),
        LogoutOutcome::Forgotten(why) => {
            format!("logged out here; the login could not be revoked ({why}) and ends when it expires")
        }
        LogoutOutcome::Left(why) => format!(
            "logged out here; the login was in the system's keyring, which {why}: \
             an entry may be left there, and it is not revoked"
        ),
    });
    report(name, outcome)
}

fn report(name: &str, outcome: Result<String, Failure>) -> anyhow::Result<ExitCode> {
    match outcome {
        Ok(text) => {
            writeln!(std::io::stdout(), "{name}: {text}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(Failure(code, text)) => {
            eprintln!("dynamic-mcp: {name}: {text}");
            Ok(ExitCode::from(code))
        }
    }
}

/// The server of that name, if it is a remote one.
fn remote(name: &str, cli: &Cli, env: &Env) -> Result<(HttpConfig, Arc<Account>), Failure> {
    let config = load::load(&config_files(cli, env), env, &Overrides::default());
    let group = GroupName::new(name);
    let wrong = |text: String| Failure(CONFIG, text);
    let server = match config.server(&group) {
        Some(Ok(server)) => server,
        Some(Err(problem)) => return Err(wrong(problem.to_string())),
        None if !config.errors.is_empty() => return Err(wrong(config.errors[0].to_string())),
        None => {
            let names: Vec<_> = config.servers.iter().map(|(name, _)| name.as_str()).collect();
            let known = match names.is_empty() {
                true => "there are no servers in the config".to_owned(),
                false => format!("the config has {}", names.join(", ")),
            };
            return Err(Failure(2, format!("there is no such server; {known}")));
        }
    };
    let Endpoint::Http(http) = &server.endpoint else {
        return Err(Failure(2, "it is a program, and gets what it needs to log in from `env`".to_owned()));
    };
    if http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        let text = "the config has its `Authorization` header, which is sent in place of any login";
        return Err(Failure(2, text.to_owned()));
    }
    let vault = vault(env, &config.settings, true);
    let vault = vault.ok_or_else(|| wrong("there is no place for logins: HOME is not set".to_owned()))?;
    Ok((http.clone(), Account::new(&group, http, vault)?))
}

async fn log_in(
    args: &LoginArgs,
    http: &HttpConfig,
    account: &Arc<Account>,
    env: &Env,
) -> Result<String, Failure> {
    if http.oauth.as_ref().is_some_and(|oauth| oauth.flow == OAuthFlow::ClientCredentials) {
        account.token().await?;
        return Ok("the server takes the client's credentials; nobody needs to log in".to_owned());
    }
    let login = match account.begin().await? {
        LoginStart::NotNeeded => return Ok("it answers without a login".to_owned()),
        LoginStart::Waiting(login) => login,
    };
    present(args, &login, env);
    let returned = tokio::time::timeout(Duration::from_secs(args.timeout), login.returned()).await;
    let late = |_| Failure(LOGIN_NEEDED, "nobody logged in in time (--timeout)".to_owned());
    let granted = returned.map_err(late)?.redeem().await?;
    let rights = if granted.is_empty() { String::new() } else { format!(" ({})", granted.join(", ")) };
    Ok(format!("logged in{rights}; running instances use it from now on"))
}

fn present(args: &LoginArgs, login: &Login, env: &Env) {
    let url = login.url();
    let opened = !args.no_browser && browser::open(url, env.get("BROWSER"));
    let told = match opened {
        true => writeln!(std::io::stdout(), "The browser shows the login. If it does not, open:\n{url}"),
        false => writeln!(std::io::stdout(), "Open this in a browser on this machine:\n{url}"),
    };
    // Without anybody who reads it, the browser may still have been opened.
    drop(told);
}
