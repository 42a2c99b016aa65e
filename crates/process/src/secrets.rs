//! Fetches the values that a server's config names: from the keyring, or as the output of a command.
//!
//! A value is fetched when a server that needs it starts. Keyrings are asked one at a time, as are commands, so that a user
//! who starts ten servers sees one prompt. Values stay in memory. One that is older than a minute is fetched anew after a
//! server that uses it failed to start: it may have been replaced. A failure is remembered for some seconds, so that
//! servers with the same value fail together.
//!
//! A command is started like a local server, by the warden and without a shell. At its deadline it is ended with every
//! process that it started. Nothing that it prints is logged; an error has its last line of stderr.

use super::child::drained;
use super::launch;
use super::warden::{Exit, StopTimeouts, Warden};
use base::redact;
use base::text::{one_line, shorten};
use config::env::Env;
use config::secrets::{SecretKeyring, SecretPart, SecretPlace, SecretSource, header_value_error};
use config::{InheritEnv, ServerConfig, StdioConfig};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// How long a command may take: a user may have to confirm it with a finger.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest output of a command, in bytes.
const MAX_OUTPUT: u64 = 64 << 10;
/// How many characters of stderr an error shows.
const MAX_STDERR: usize = 200;
/// How long a failure is remembered.
const FAILURE_AGE: Duration = Duration::from_secs(5);
/// The age from which a value may be outdated.
const FRESH_AGE: Duration = Duration::from_secs(60);

/// Why a server's values are not known. The text follows "group X is not available: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} is not known: {reason}")]
pub struct SecretError {
    place: String,
    reason: String,
}

/// A value, or why there is none, and since when.
struct Fetched {
    source: SecretSource,
    value: Result<String, String>,
    at: Instant,
}

/// Fetches values. Clones share what was fetched.
#[derive(Clone)]
pub struct SecretResolver(Arc<ResolverInner>);

struct ResolverInner {
    /// `None` if the home directory is not known.
    keyring: Option<Arc<dyn SecretKeyring>>,
    process_env: Arc<Env>,
    warden: Warden,
    command_timeout: Duration,
    fetched: Mutex<Vec<Fetched>>,
    /// One keyring call at a time.
    keyring_turn: Semaphore,
    /// One command at a time.
    command_turn: Semaphore,
    /// Whether a keyring call has failed. The user is not asked to unlock the keyring after that.
    has_keyring_failed: AtomicBool,
}

impl SecretResolver {
    /// Makes a resolver whose commands have this environment. Nothing is fetched yet.
    pub fn new(keyring: Option<Arc<dyn SecretKeyring>>, process_env: Arc<Env>, warden: Warden) -> Self {
        Self::with_command_timeout(keyring, process_env, warden, COMMAND_TIMEOUT)
    }

    /// Creates a resolver with another deadline for commands.
    pub fn with_command_timeout(
        keyring: Option<Arc<dyn SecretKeyring>>,
        process_env: Arc<Env>,
        warden: Warden,
        command_timeout: Duration,
    ) -> Self {
        Self(Arc::new(ResolverInner {
            keyring,
            process_env,
            warden,
            command_timeout,
            fetched: Mutex::default(),
            keyring_turn: Semaphore::new(1),
            command_turn: Semaphore::new(1),
            has_keyring_failed: AtomicBool::new(false),
        }))
    }

    /// Returns the config with its values, at once if it names none. Keyrings are asked one at a time, as are commands,
    /// so the calls of other servers are awaited. A command is killed after 30 s.
    ///
    /// # Errors
    ///
    /// Returns the first value that is not known or cannot stand in its place, and why. The others are then not
    /// fetched.
    pub async fn resolve(&self, server: Arc<ServerConfig>) -> Result<Arc<ServerConfig>, SecretError> {
        if server.secrets.0.is_empty() {
            return Ok(server);
        }
        let mut resolved = (*server).clone();
        for (place, parts) in &server.secrets.0 {
            let error = |reason: String| SecretError { place: place.to_string(), reason };
            let mut value = String::new();
            for part in parts {
                match part {
                    SecretPart::Text(text) => value.push_str(text),
                    SecretPart::Fetched(source) => value.push_str(&self.value(source).await.map_err(error)?),
                }
            }
            check_value(place, &value).map_err(|reason| error(reason.to_owned()))?;
            resolved.set_secret(place, value);
        }
        Ok(Arc::new(resolved))
    }

    /// Forgets the values of a server that failed to start, unless they were fetched within the last minute.
    pub fn forget_old(&self, server: &ServerConfig) {
        let is_used =
            |fetched: &Fetched| server.secrets.sources().any(|(_, source)| *source == fetched.source);
        self.0.fetched.lock().retain(|fetched| fetched.at.elapsed() < FRESH_AGE || !is_used(fetched));
    }

    async fn value(&self, source: &SecretSource) -> Result<String, String> {
        let turn = match source {
            SecretSource::Keyring { .. } => &self.0.keyring_turn,
            SecretSource::Command(_) => &self.0.command_turn,
        };
        let _turn = turn.acquire().await.map_err(|_| "dynamic-mcp is shutting down".to_owned())?;
        if let Some(known) = self.cached(source) {
            return known;
        }
        tracing::debug!(%source, "fetching a value");
        let value = match source {
            SecretSource::Keyring { name, .. } => self.0.ask_keyring(name).await,
            SecretSource::Command(words) => self.0.run(words).await,
        };
        let fetched = Fetched { source: source.clone(), value: value.clone(), at: Instant::now() };
        self.0.fetched.lock().push(fetched);
        value
    }

    /// Returns the value that was fetched before, or its failure if that is younger than [`FAILURE_AGE`].
    fn cached(&self, source: &SecretSource) -> Option<Result<String, String>> {
        let mut fetched = self.0.fetched.lock();
        fetched.retain(|fetched| fetched.value.is_ok() || fetched.at.elapsed() < FAILURE_AGE);
        fetched.iter().find(|fetched| fetched.source == *source).map(|fetched| fetched.value.clone())
    }
}

impl ResolverInner {
    async fn ask_keyring(&self, name: &str) -> Result<String, String> {
        let Some(keyring) = &self.keyring else {
            return Err("there is no directory for secrets because HOME is not set".to_owned());
        };
        let may_prompt = !self.has_keyring_failed.load(Ordering::Relaxed);
        match keyring.get(name, may_prompt).await {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(format!(
                "the system's keyring has no secret {name}; store it with `dynamic-mcp secret set {name}`"
            )),
            Err(error) => {
                self.has_keyring_failed.store(true, Ordering::Relaxed);
                Err(format!("the system's keyring {error}"))
            }
        }
    }

    /// Runs a command and returns what it prints, without the line breaks at the end. The command is killed when
    /// `command_timeout` is over.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the command cannot be started, does not end in time or ends with another code than 0,
    /// or if it prints nothing, more than [`MAX_OUTPUT`] or what is not UTF-8.
    async fn run(&self, words: &[String]) -> Result<String, String> {
        let (program, args) = words.split_first().ok_or("there is no command")?;
        let failed = |why: String| format!("the command {program:?} {why}");
        let stdio = StdioConfig {
            command: program.clone(),
            args: args.to_vec(),
            env: BTreeMap::new(),
            cwd: None,
            // The command is the user's own, and gets what it would get in a terminal.
            inherit_env: InheritEnv::All,
        };
        let launch = launch::prepare(&stdio, &self.process_env, self.command_timeout)
            .await
            .map_err(|error| error.to_string())?;
        let process =
            self.warden.spawn(launch).await.map_err(|error| failed(format!("did not start: {error}")))?;
        drop(process.stdin);
        let handle = process.handle;
        let ran = timeout(self.command_timeout, async {
            let mut outputs = (Vec::new(), Vec::new());
            let reading = async {
                tokio::join!(read(process.stdout, &mut outputs.0), read(process.stderr, &mut outputs.1))
            };
            tokio::select! {
                ((), ()) = reading => {}
                () = drained(&handle) => {}
            }
            (handle.exited().await, outputs)
        });
        let outcome = ran.await;
        handle.stop(StopTimeouts::FAST).await;
        let Ok((exit, (stdout, stderr))) = outcome else {
            return Err(failed(format!(
                "did not end within {} s and was killed",
                self.command_timeout.as_secs_f32()
            )));
        };
        if exit != Exit::Code(0) {
            let stderr = String::from_utf8_lossy(&stderr);
            let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).map(one_line);
            let last = last
                .map(|line| format!(": {}", shorten(&redact::text(&line), MAX_STDERR)))
                .unwrap_or_default();
            return Err(failed(format!("{exit}{last}")));
        }
        if stdout.len() as u64 > MAX_OUTPUT {
            return Err(failed(format!("printed more than {MAX_OUTPUT} bytes")));
        }
        let text = String::from_utf8(stdout).map_err(|_| failed("printed what is not UTF-8".to_owned()))?;
        match text.trim_end_matches(['\n', '\r']) {
            "" => Err(failed("printed nothing".to_owned())),
            value => Ok(value.to_owned()),
        }
    }
}

/// Reads to the end, or to more than the limit. What was read stays in `output`, even if this is cancelled.
async fn read(from: impl AsyncRead + Unpin, output: &mut Vec<u8>) {
    // A broken pipe is the end.
    drop(from.take(MAX_OUTPUT + 1).read_to_end(output).await);
}

/// Checks that the value can stand in its place.
///
/// # Errors
///
/// Says why it cannot.
fn check_value(place: &SecretPlace, value: &str) -> Result<(), &'static str> {
    match place {
        SecretPlace::Header(_) => header_value_error(value).map_or(Ok(()), Err),
        SecretPlace::Env(_) if value.contains('\0') => Err("the value contains a null character"),
        _ => Ok(()),
    }
}
