//! The values of the settings of a bundle.

use anyhow::bail;
use auth::Secret;
use auth::secret_store::SecretStore;
use base::text::{joined, one_line};
use bundle::manifest::BundleManifest;
use bundle::values::{SettingValue, UserSetting};
use config::dirs::{expand_home, own_config_file};
use config::env::Env;
use config::secrets::free_secret_name;
use import::write::absolute;
use std::collections::BTreeMap;
use std::env::{join_paths, split_paths};
use std::io::{self, IsTerminal};
use std::path::Path;
use terminal::ask::{ask, ask_secret};
use terminal::outcome::{CommandError, EXIT_INTERRUPTED, EXIT_USAGE};

/// The values of the settings.
pub(super) struct FoundSettings<'a> {
    /// The values, with the names of secrets. At first, those that are known.
    pub(super) values: BTreeMap<String, SettingValue>,
    /// The secrets that are not stored yet, with their names.
    pub(super) secrets: Vec<(String, Secret)>,
    /// Where they are stored.
    pub(super) store: SecretStore,
    /// The name of the server.
    pub(super) server: &'a str,
    /// The config file that names the secrets.
    pub(super) config: &'a Path,
    /// The environment.
    pub(super) env: &'a Env,
}

impl FoundSettings<'_> {
    /// Finds the values of all settings: those of `set`, as `KEY=VALUE`, then those that are known, then those that the
    /// person at the terminal types.
    ///
    /// # Errors
    ///
    /// A value is not what the setting takes, a required one is missing, or the terminal cannot be read.
    pub(super) async fn find(&mut self, manifest: &BundleManifest, set: &[String]) -> anyhow::Result<()> {
        let wrong = |message: String| CommandError::new(EXIT_USAGE, message);
        let keys = || manifest.user_config.iter().map(|(key, _)| key.as_str());
        let set =
            set.iter().map(|pair| pair.split_once('=').filter(|(set, _)| keys().any(|key| key == *set)));
        let set: Option<BTreeMap<_, _>> = set.collect();
        let set = set.ok_or_else(|| {
            wrong(format!("write --set KEY=VALUE; the settings of the bundle are {}", joined(keys())))
        })?;
        for (key, setting) in &manifest.user_config {
            let value = match set.get(key.as_str()) {
                Some(value) => (*value).to_owned(),
                None if self.values.contains_key(key) || !io::stdin().is_terminal() => continue,
                None => typed(setting).await?,
            };
            if let Some(value) = self.value(key, setting, value).await? {
                self.values.insert(key.clone(), value);
            }
        }
        let missing = manifest.missing(&self.values);
        if !missing.is_empty() {
            let options = joined(missing.iter().map(|key| format!("--set {key}=VALUE")));
            bail!(wrong(format!("{} needs values: run this at a terminal, or add {options}", self.server)));
        }
        Ok(())
    }

    /// Returns the value that a text is. Of an empty one, that of a required setting is its default, as in the form of a
    /// client.
    ///
    /// # Errors
    ///
    /// It is not what the setting takes, or a secret that the config file cannot name.
    async fn value(
        &mut self,
        key: &str,
        setting: &UserSetting,
        text: String,
    ) -> anyhow::Result<Option<SettingValue>> {
        if text.is_empty() {
            return Ok(setting.default().filter(|_| setting.required));
        }
        if let Err(reason) = setting.check(&text) {
            bail!(CommandError::new(EXIT_USAGE, format!("{key}: {reason}")));
        }
        let absolute_path =
            |path: &Path| self.env.cwd().join(expand_home(path, self.env)).to_string_lossy().into_owned();
        Ok(Some(match setting.sensitive {
            true => self.secret(key, Secret::new(text)).await?,
            false if setting.multiple => {
                SettingValue::List(split_paths(&text).map(|path| absolute_path(&path)).collect())
            }
            false if setting.is_path() => SettingValue::Text(absolute_path(Path::new(&text))),
            false => SettingValue::Text(text),
        }))
    }

    /// Gives a secret its name in the keyring.
    ///
    /// # Errors
    ///
    /// The config file cannot name secrets, or the names of others cannot be read.
    async fn secret(&mut self, key: &str, secret: Secret) -> anyhow::Result<SettingValue> {
        let own = own_config_file(self.env).map(|file| absolute(&file));
        if own.as_deref() != Some(self.config) {
            let message =
                format!("{key} is a secret, which only your own servers.json can name; leave out --config");
            bail!(CommandError::new(EXIT_USAGE, message));
        }
        let name = match self.values.get(key) {
            Some(SettingValue::Keyring(name)) => name.clone(),
            _ => {
                let mut taken = self.store.names().await?;
                taken.extend(self.secrets.iter().map(|(name, _)| name.clone()));
                free_secret_name(self.server, key, |name| taken.iter().any(|taken| taken == name))
            }
        };
        self.secrets.push((name.clone(), secret));
        Ok(SettingValue::Keyring(name))
    }
}

/// Asks for the value of a setting. Several paths stand in one line, as in PATH.
///
/// # Errors
///
/// The terminal cannot be read, or a signal came.
async fn typed(setting: &UserSetting) -> anyhow::Result<String> {
    let default = match setting.default() {
        Some(SettingValue::Text(text)) => text,
        Some(SettingValue::List(texts)) => join_paths(texts)?.to_string_lossy().into_owned(),
        Some(SettingValue::Keyring(_)) | None => String::new(),
    };
    let default = if default.is_empty() { default } else { format!(" [{}]", one_line(&default)) };
    let question = format!("{} ({}){default}", one_line(&setting.title), one_line(&setting.description));
    match setting.sensitive {
        true => match ask_secret(&question).await? {
            Some(secret) => Ok(secret.expose().to_owned()),
            None => bail!(CommandError::new(EXIT_INTERRUPTED, "interrupted; nothing was written")),
        },
        false => Ok(ask(&format!("{question}: ")).await?),
    }
}
