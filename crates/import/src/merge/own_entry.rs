//! The entry by which a client starts this program: what it gives us beyond the client's environment, and what a further
//! import makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::discover::{Discovery, FoundServer, discover, places_mut};
use crate::clients::apps::{ClientApp, OWN_NAME, is_own_entry, is_wrapper, program_name};
use crate::clients::client::HostOs;
use crate::files::write::absolute;
use crate::json::{members, strings};
use config::dirs;
use config::dirs::expand_home;
use config::env::Env;
use config::notation::literal;
use config::referenced::ReferencedFiles;
use config::vars::{ExpandContext, VarError, expand};

/// The entry of a client for this program, in the user's file.
#[derive(Debug, Default)]
pub struct OwnEntry {
    /// The file.
    pub file: PathBuf,
    /// Its name there.
    pub name: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Its variables, in our notation.
    env: BTreeMap<String, String>,
    /// The names of variables of the client's environment that it uses, and need not have a value.
    optional: BTreeSet<String>,
    /// The names of variables that it passes on from the client's environment.
    pub passed: Vec<String>,
    /// What only the client knows: our name for each, and what the client writes.
    client: BTreeMap<String, String>,
}

/// Finds a client's entry for this program. `None`: its files have none. The files of projects are not read: they may
/// be anybody's.
///
/// # Errors
///
/// Says which file cannot be read, and why, if no other file has the entry.
pub fn find(app: ClientApp, env: &Env) -> Result<Option<OwnEntry>, String> {
    let discovery = discover([app], env);
    let mut owns = discovery.places().filter_map(|(file, place)| Some((&file.path, place.own.as_ref()?)));
    let Some((file, own)) = owns.next() else {
        let files = app.user_files(env, HostOs::CURRENT);
        let error = discovery.errors.iter().find(|(_, error)| files.contains(&error.file));
        return error.map_or(Ok(None), |(_, error)| Err(error.to_string()));
    };
    let entry = &own.translated.entry;
    let texts = |name: &str| strings(entry.get(name)).map(plain).collect();
    let env = members(entry.get("env"));
    let env = env.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Ok(Some(OwnEntry {
        file: file.clone(),
        name: own.name.clone(),
        args: texts("args"),
        env: env.collect(),
        optional: own.translated.variables.optional.clone(),
        passed: texts("inherit_env"),
        client: own.translated.variables.client.clone(),
    }))
}

impl OwnEntry {
    /// Returns the variables of the entry with their values, and a note for each variable without a value. `client_env`
    /// is the environment of the client, `env` ours, which may have what only the client knows.
    pub fn variables(
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
            // A variable that the client passes as its own text has no value here either.
            let is_text =
                |unset: &&String| env.get(unset).is_none() && text.contains(&format!("${{{unset}:-}}"));
            let unset = self.optional.iter().filter(|_| !app.is_empty_in_env).find(is_text);
            let expanded = match unset {
                Some(unset) => Err(VarError::Undefined(unset.clone())),
                None => expand(text, context),
            };
            match expanded {
                Ok(value) => drop(values.insert(name.clone(), value)),
                Err(VarError::Undefined(unset)) => notes.push(match self.client.get(&unset) {
                    Some(original) => format!(
                        "{name} is {original}, which only {} knows; to check with a value, set {unset} here",
                        app.label
                    ),
                    None => format!("{name} stays unset: {} has no variable {unset}", app.label),
                }),
                Err(error) => notes.push(format!("{name} stays unset: {error}")),
            }
        }
        (values, notes)
    }
}

/// Sets entries for this program apart that read other config files than `target`.
pub(crate) fn set_other_configs_apart(discovery: &mut Discovery, target: &Path, env: &Env) {
    for place in places_mut(&mut discovery.files).chain(places_mut(&mut discovery.other_files)) {
        if let Some(config) = place.own.as_ref().and_then(|own| other_config(own, target, env)) {
            place.other_own = place.own.take().map(|own| (own.name, config));
        }
    }
}

/// Returns the config files that an entry for this program names.
pub(crate) fn config_files(own: &FoundServer, env: &Env) -> Vec<PathBuf> {
    let files = option_values(own, "--config", "DYNAMIC_MCP_CONFIG").into_iter();
    // One that may be absent has a question mark behind it.
    files.map(|file| expand_home(Path::new(plain(&file).trim_end_matches('?')), env)).collect()
}

/// Returns the config file that this entry reads, if it does not read `target`.
fn other_config(own: &FoundServer, target: &Path, env: &Env) -> Option<PathBuf> {
    let mut files = config_files(own, env);
    if files.is_empty() {
        files.extend(dirs::default_config_file(env));
    }
    let reads_target = files.iter().any(|file| absolute(file) == *target);
    files.into_iter().find(|file| !reads_target && file.exists())
}

/// Returns a text without its escapes, or as it is if it has variables.
pub(crate) fn plain(text: &str) -> String {
    literal(text).unwrap_or_else(|| text.to_owned())
}

/// Returns the values of an option that an entry for this program has: those in its arguments, or else in its variable.
pub(crate) fn option_values(own: &FoundServer, option: &str, variable: &str) -> Vec<String> {
    let entry = &own.translated.entry;
    let args = entry.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut values: Vec<String> = values_of(args, option).into_iter().map(|(_, value)| value).collect();
    if values.is_empty() {
        let value = entry.get("env").and_then(|env| env.get(variable)?.as_str());
        values.extend(value.map(str::to_owned));
    }
    values
}

/// Returns the name of our entry among a client's servers. Users rename it.
pub(crate) fn name_among(servers: &Map<String, Value>) -> Option<&str> {
    let own = || servers.iter().filter(|(_, entry)| is_own_entry(entry)).map(|(name, _)| name.as_str());
    own().find(|name| *name == OWN_NAME).or_else(|| own().next())
}

/// Returns our entry in a client's file, with what a new one has beyond it: what the user added or chose there stays.
pub fn merged(known: &Value, new: &Map<String, Value>) -> Value {
    let Value::Object(known) = known else { return Value::Object(new.clone()) };
    let mut entry = known.clone();
    let program = known.get("command").and_then(|command| command.get(0).unwrap_or(command).as_str());
    let is_wrapped = program.is_some_and(|program| is_wrapper(program_name(program)));
    // What a shell runs is the user's.
    let fields = new.iter().filter(|(field, _)| !is_wrapped || !matches!(field.as_str(), "command" | "args"));
    for (field, value) in fields {
        match (entry.get_mut(field), value) {
            (Some(Value::Array(words)), Value::Array(new)) if field == "command" => {
                // OpenCode has the program and the arguments in one list.
                if let ([program, args @ ..], [new_program, new_args @ ..]) = (&words[..], &new[..]) {
                    let args = merged_args(args, new_args);
                    *words = [vec![merged_program(program, new_program)], args].concat();
                }
            }
            (Some(program), new) if field == "command" => *program = merged_program(program, new),
            (Some(Value::Array(args)), Value::Array(new)) if field == "args" => {
                *args = merged_args(args, new);
            }
            (Some(Value::Array(names)), Value::Array(new)) if field == "env_vars" => {
                let missing: Vec<_> = new.iter().filter(|name| !names.contains(name)).cloned().collect();
                names.extend(missing);
            }
            (Some(Value::Object(members)), Value::Object(new)) => {
                for (name, value) in new {
                    members.entry(name).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
            (None, value) => drop(entry.insert(field.clone(), value.clone())),
        }
    }
    Value::Object(entry)
}

/// Returns the program of a merged entry. A path to this program becomes the new one; a launcher stays.
fn merged_program(known: &Value, new: &Value) -> Value {
    let is_path = known.as_str().is_some_and(|program| program_name(program) == "dynamic-mcp");
    if is_path { new.clone() } else { known.clone() }
}

/// Returns the arguments with the options of the new ones, each with its value. What is there stays, but for a config
/// file that is gone: the new one takes its place, or is read after those that are there.
fn merged_args(known: &[Value], new: &[Value]) -> Vec<Value> {
    let mut args = known.to_vec();
    for pair in new.chunks(2) {
        let [Value::String(option), Value::String(value)] = pair else { continue };
        let given = values_of(&args, option);
        let is_given = given.iter().any(|(_, given)| given == value);
        let gone = given.iter().find(|(_, file)| option == "--config" && is_gone(file));
        match gone {
            _ if is_given => {}
            Some((place, _)) => {
                let is_joined = args[*place].as_str().is_some_and(|arg| arg.starts_with("--config="));
                args[*place] = if is_joined { format!("{option}={value}") } else { value.clone() }.into();
            }
            None if given.is_empty() || option == "--config" => args.extend(pair.iter().cloned()),
            None => {}
        }
    }
    args
}

/// Returns the values of an option among arguments, and where each stands.
fn values_of(args: &[Value], option: &str) -> Vec<(usize, String)> {
    let joined = format!("{option}=");
    let mut values = Vec::new();
    for (place, arg) in args.iter().enumerate().filter_map(|(place, arg)| Some((place, arg.as_str()?))) {
        if let Some(value) = arg.strip_prefix(&joined) {
            values.push((place, value.to_owned()));
        } else if arg == option
            && let Some(value) = args.get(place + 1).and_then(Value::as_str)
        {
            values.push((place + 1, value.to_owned()));
        }
    }
    values
}

/// Returns whether there is certainly no config file of this name. What the client or we expand may be any file.
fn is_gone(file: &str) -> bool {
    !file.starts_with('~')
        && !file.contains('$')
        && Path::new(file).is_absolute()
        && !Path::new(file).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::apps::PUBLISHED_NAME;
    use serde_json::json;

    #[test]
    fn a_further_import_keeps_what_the_user_wrote_into_our_entry() {
        let args = ["--config", "/new.json"];
        let new = json!({"command": "/new/dynamic-mcp", "args": args, "env": {"A": "${A}", "B": "${B}"}, "tools": ["*"]});
        let new = new.as_object().unwrap();
        for (known, expected) in [
            (
                json!({"command": "/old/dynamic-mcp", "args": ["--profile", "work", "--config", "/old.json"], "env": {"A": "mine"}, "x": 1}),
                json!({"command": "/new/dynamic-mcp", "args": ["--profile", "work", "--config", "/new.json"], "env": {"A": "mine", "B": "${B}"}, "x": 1, "tools": ["*"]}),
            ),
            (
                json!({"command": "npx", "args": ["-y", format!("{PUBLISHED_NAME}@1"), "--config=/old.json"], "tools": ["a"]}),
                json!({"command": "npx", "args": ["-y", format!("{PUBLISHED_NAME}@1"), "--config=/new.json"], "tools": ["a"], "env": {"A": "${A}", "B": "${B}"}}),
            ),
        ] {
            assert!(is_own_entry(&known), "{known}");
            assert_eq!(merged(&known, new), expected);
        }
        let opencode = json!({"command": ["uvx", format!("{PUBLISHED_NAME}==1.2")], "enabled": true});
        let new = json!({"type": "local", "command": ["/new/dynamic-mcp", "--config", "/new.json"]});
        let expected = json!({"command": ["uvx", format!("{PUBLISHED_NAME}==1.2"), "--config", "/new.json"], "enabled": true, "type": "local"});
        assert_eq!(merged(&opencode, new.as_object().unwrap()), expected);
    }

    #[test]
    fn a_config_file_of_the_users_is_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own.json");
        std::fs::write(&own, "{}").unwrap();
        let own = own.to_str().unwrap();
        let new = [json!("--config"), json!("/new.json")];
        for (known, expected) in [
            (json!(["--config", own]), json!(["--config", own, "--config", "/new.json"])),
            (json!(["--config", "~/own.json"]), json!(["--config", "~/own.json", "--config", "/new.json"])),
            (
                json!(["--config", own, "--config", "/gone.json"]),
                json!(["--config", own, "--config", "/new.json"]),
            ),
            (json!(["--config=/new.json", "--config", own]), json!(["--config=/new.json", "--config", own])),
            (json!(["--config=/gone.json"]), json!(["--config=/new.json"])),
        ] {
            assert_eq!(json!(merged_args(known.as_array().unwrap(), &new)), expected);
        }
    }

    #[test]
    fn our_entry_is_known_by_what_it_starts() {
        let servers = json!({"a": {"command": "npx", "args": ["other"]}, "my-dyn": {"command": "C:\\x\\dynamic-mcp.exe"}, "dyn": {"command": "other"}});
        assert_eq!(name_among(servers.as_object().unwrap()), Some("my-dyn"));
        let servers = json!({"z": {"command": ["dynamic-mcp"]}, "dyn": {"command": "/x/dynamic-mcp"}});
        assert_eq!(name_among(servers.as_object().unwrap()), Some("dyn"));
        assert_eq!(name_among(&Map::new()), None);
        let shell = json!({"command": "/bin/sh", "args": ["-c", "exec '/x/dynamic-mcp' --config a.json"]});
        assert!(
            is_own_entry(&shell) && !is_own_entry(&json!({"command": "sh", "args": ["-c", "exec other"]}))
        );
        let new = json!({"command": "/x/dynamic-mcp", "args": ["--config", "b.json"], "env": {"A": "1"}});
        let merged = merged(&shell, new.as_object().unwrap());
        assert_eq!((&merged["args"], &merged["env"]), (&shell["args"], &json!({"A": "1"})));
        let this = std::env::current_exe().unwrap();
        assert!(is_own_entry(&json!({"command": this})));
    }
}
