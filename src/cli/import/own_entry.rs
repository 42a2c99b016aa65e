//! The entry by which a client starts this program: what it gives us beyond the client's environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::apps::ClientApp;
use super::discover::discover;
use crate::config::notation::literal;
use crate::config::referenced::ReferencedFiles;
use crate::config::vars::{Env, ExpandContext, VarError, expand};

/// The entry of a client for this program, in the user's file.
#[derive(Debug, Default)]
pub(in crate::cli) struct OwnEntry {
    /// The file.
    pub(in crate::cli) file: PathBuf,
    /// Its name there.
    pub(in crate::cli) name: String,
    /// The arguments.
    pub(in crate::cli) args: Vec<String>,
    /// Its variables, in our notation.
    env: BTreeMap<String, String>,
    /// The names of variables that it passes on from the client's environment.
    pub(in crate::cli) passed: Vec<String>,
    /// What only the client knows: our name for each, and what the client writes.
    client: BTreeMap<String, String>,
}

/// Finds a client's entry for this program. The files of projects are not read: they may be anybody's.
///
/// # Errors
///
/// Says which file cannot be read, and why.
pub(in crate::cli) fn find(app: ClientApp, env: &Env) -> Result<Option<OwnEntry>, String> {
    let discovery = discover(&[app], None, env);
    let places = discovery.files.iter().flat_map(|file| file.places.iter().map(|place| (&file.path, place)));
    let Some((file, own)) = places.filter_map(|(file, place)| Some((file, place.own.as_ref()?))).next()
    else {
        return discovery.errors.first().map_or(Ok(None), |(_, error)| Err(error.to_string()));
    };
    let entry = &own.translated.entry;
    let texts = |name: &str| {
        let list = entry.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(|text| literal(text).unwrap_or_else(|| text.to_owned())).collect()
    };
    let members = entry.get("env").and_then(Value::as_object).into_iter().flatten();
    let members = members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Ok(Some(OwnEntry {
        file: file.clone(),
        name: own.name.clone(),
        args: texts("args"),
        env: members.collect(),
        passed: texts("inherit_env"),
        client: own.translated.variables.client.clone(),
    }))
}

impl OwnEntry {
    /// The variables of the entry with their values, and what is to be known of those that have none. `client_env` is the
    /// environment of the client, `env` ours, which may have what only the client knows.
    pub(in crate::cli) fn variables(
        &self,
        app: ClientApp,
        client_env: &Env,
        env: &Env,
    ) -> (BTreeMap<String, String>, Vec<String>) {
        let known = self.client.keys().filter_map(|name| Some((name.as_str(), env.get(name)?)));
        let env = client_env.with(known);
        let (files, dir) = (ReferencedFiles::default(), self.file.parent().unwrap_or(&self.file));
        let (mut values, mut notes) = (BTreeMap::new(), Vec::new());
        for (name, text) in &self.env {
            let context = ExpandContext { env: &env, dir, files: &files, is_project: false };
            match expand(text, context) {
                Ok(value) => drop(values.insert(name.clone(), value)),
                Err(VarError::Undefined(unset)) => notes.push(match self.client.get(&unset) {
                    Some(original) => format!(
                        "{name} is {original}, which only {} knows; to check with a value, set {unset} here",
                        app.label()
                    ),
                    None => format!("{name} stays unset: {} has no variable {unset}", app.label()),
                }),
                Err(error) => notes.push(format!("{name} stays unset: {error}")),
            }
        }
        (values, notes)
    }
}
