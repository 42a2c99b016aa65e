//! Settings of a client beside its servers that an import changes: what turns off servers of packages, the list of the only
//! servers that the client starts, and rules for tools. `--undo` puts them back.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edit::{ObjectEdit, edit};
use crate::clients::package::{ClientSetting, SettingChange};
use crate::source::{literal, value_at};
use base::text;

/// A setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangedSetting {
    /// The keys that lead to the object that has it.
    keys: Vec<String>,
    /// Its name.
    name: String,
    /// Its value before; `None`: there was none.
    before: Option<Value>,
    /// Its value after.
    after: Value,
}

/// Returns the value of a setting in a text of a file.
///
/// # Errors
///
/// Says why the text cannot be read.
fn value(path: &Path, text: &str, keys: &[String], name: &str) -> Result<Option<Value>, String> {
    let root = literal(path, text).map_err(|error| error.to_string())?;
    Ok(value_at(&root, keys).and_then(|object| object.get(name)).cloned())
}

/// Returns the text of a file with this setting, and notes the change. Writes nothing.
///
/// # Errors
///
/// Says why the text cannot be edited so.
pub(crate) fn change_setting(
    text: &str,
    setting: &ClientSetting,
    changed: &mut Vec<ChangedSetting>,
) -> Result<String, String> {
    let ClientSetting { file, keys, name, change } = setting;
    let before = value(file, text, keys, name)?;
    let after = match (change, &before) {
        (SettingChange::Set(value), _) => value.clone(),
        (SettingChange::Add(value), None) => json!([value]),
        (SettingChange::Add(value), Some(Value::Array(list))) => {
            list.iter().filter(|known| *known != value).chain([value]).cloned().collect()
        }
        (SettingChange::Add(_), Some(_)) => return Err(format!("`{}` is not a list", text::name(name))),
    };
    match changed.iter_mut().find(|known| known.keys == *keys && known.name == *name) {
        Some(known) => known.after = after.clone(),
        None => changed.push(ChangedSetting {
            keys: keys.clone(),
            name: name.clone(),
            before,
            after: after.clone(),
        }),
    }
    edit(file, text, &[ObjectEdit::set(keys.clone(), vec![(name.clone(), after)])])
}

/// Returns the text of a file with these settings as they were before, and a note about each one that somebody has changed
/// since: it stays. In a list, only what the import has put there leaves or gets its old form.
///
/// # Errors
///
/// Says why the text cannot be edited so.
pub(crate) fn restore_settings(
    path: &Path,
    text: &str,
    settings: &[ChangedSetting],
) -> Result<(String, Vec<String>), String> {
    let (mut text, mut notes) = (text.to_owned(), Vec::new());
    for ChangedSetting { keys, name, before, after } in settings {
        let then = match (value(path, &text, keys, name)?, before, after) {
            (now, before, _) if now == *before => continue,
            (Some(now), before, after) if now == *after => before.clone(),
            (Some(Value::Array(now)), before, Value::Array(after)) => {
                let old = before.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let restored = |value: Value| match after.iter().position(|after| *after == value) {
                    Some(at) if !old.contains(&value) => old.get(at).cloned(),
                    _ => Some(value),
                };
                Some(now.into_iter().filter_map(restored).collect())
            }
            _ => {
                notes.push(format!("`{}` was changed since, and stays as it is.", text::name(name)));
                continue;
            }
        };
        let remove = if then.is_none() { vec![name.clone()] } else { Vec::new() };
        let set = then.into_iter().map(|value| (name.clone(), value)).collect();
        text = edit(path, &text, &[ObjectEdit { keys: keys.clone(), remove, set }])?;
    }
    Ok((text, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "s.json";

    fn setting(keys: &[&str], change: SettingChange) -> ClientSetting {
        ClientSetting::new(Path::new(PATH), keys, change)
    }

    #[test]
    fn settings_are_changed_and_put_back_beside_the_changes_of_others() {
        let old = "{\n  // mine\n  \"denied\": [\"a\"],\n  \"plugins\": {\"x\": true}\n}\n";
        let mut changed = Vec::new();
        let mut text = old.to_owned();
        for setting in [
            setting(&["denied"], SettingChange::Add("b".into())),
            setting(&["denied"], SettingChange::Add("c".into())),
            setting(&["plugins", "x"], SettingChange::Set(false.into())),
            setting(&["mcp", "excluded"], SettingChange::Add("d".into())),
        ] {
            text = change_setting(&text, &setting, &mut changed).unwrap();
        }
        let content = |text: &str| literal(Path::new(PATH), text).unwrap();
        let expected =
            json!({"denied": ["a", "b", "c"], "plugins": {"x": false}, "mcp": {"excluded": ["d"]}});
        assert_eq!((content(&text), changed.len()), (expected, 3));
        let restored = restore_settings(Path::new(PATH), &text, &changed).unwrap();
        assert_eq!(content(&restored.0), json!({"denied": ["a"], "plugins": {"x": true}, "mcp": {}}));
        assert!(restored.0.contains("// mine") && restored.1.is_empty(), "{restored:?}");
        let edited = text.replace("\"b\"", "\"mine\"").replace("false", "\"no\"");
        let (restored, notes) = restore_settings(Path::new(PATH), &edited, &changed).unwrap();
        let expected = json!({"denied": ["a", "mine"], "plugins": {"x": "no"}, "mcp": {}});
        assert_eq!(
            (content(&restored), notes),
            (expected, vec!["`x` was changed since, and stays as it is.".to_owned()])
        );
        let wrong = setting(&["plugins"], SettingChange::Add("b".into()));
        assert_eq!(change_setting(old, &wrong, &mut changed), Err("`plugins` is not a list".to_owned()));
    }
}
