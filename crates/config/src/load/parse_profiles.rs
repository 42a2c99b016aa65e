//! Parses the `profiles` of one file, and remembers where their parts are.

use std::collections::BTreeMap;
use std::sync::Arc;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::findings::{unknown_field, value_error};
use super::json_text::expected_an_object;
use super::source_text::SourceText;
use crate::ConfigError;
use crate::de::ValueReader;
use crate::file::profiles::{ProfileEntry, ProfileToolsEntry};
use crate::file::values::ServerPattern;
use crate::vars::ExpandContext;
use base::text;

/// A profile of a file.
pub(super) struct NamedProfile {
    /// Its name.
    pub(super) name: String,
    /// What it says. Of a profile that is wrong, nothing: it chooses no server.
    pub(super) content: ProfileContent,
    /// The file.
    pub(super) text: Arc<SourceText>,
}

/// What a profile says.
#[derive(Default)]
pub(super) struct ProfileContent {
    /// The globs that choose servers and exclude them.
    pub(super) servers: Vec<Located<ServerPattern>>,
    /// The rules for tools, with the name of their server.
    pub(super) tools: Vec<Located<(String, ProfileToolsEntry)>>,
}

/// A part of a profile, and the byte offset of its place in the file.
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) offset: usize,
}

/// Reads the value of `profiles`. Returns the profiles, and what is wrong with them. A profile that is wrong, or
/// defined twice, has nothing.
pub(super) fn parse_profiles(
    value: &Value<'_>,
    text: &Arc<SourceText>,
    context: ExpandContext<'_>,
) -> (Vec<NamedProfile>, Vec<ConfigError>) {
    let Value::Object(object) = value else {
        let message = format!("`profiles`: {}", expected_an_object(value));
        return (Vec::new(), vec![text.error(value.start(), message, None)]);
    };
    let (mut profiles, mut errors): (Vec<NamedProfile>, Vec<ConfigError>) = (Vec::new(), Vec::new());
    for member in &object.properties {
        let name = member.name.as_str().to_owned();
        let mut wrong = |error: ConfigError| {
            let message = format!("profile {}: {}", text::name(&name), error.message);
            errors.push(ConfigError { message, ..error });
            ProfileContent::default()
        };
        let content = read_profile(member, text, context).unwrap_or_else(&mut wrong);
        match profiles.iter_mut().find(|known| known.name == name) {
            Some(first) => {
                first.content = wrong(text.error(member.name.start(), "it is defined twice", None));
            }
            None => profiles.push(NamedProfile { name, content, text: text.clone() }),
        }
    }
    (profiles, errors)
}

/// Reads a profile: a list of globs, or an object.
///
/// # Errors
///
/// Fails at any mistake, also at an unknown field: a field that is misspelled may be what hides servers or tools.
fn read_profile(
    member: &ObjectProp<'_>,
    text: &SourceText,
    context: ExpandContext<'_>,
) -> Result<ProfileContent, ConfigError> {
    let value = &member.value;
    if member.name.as_str().trim().is_empty() {
        return Err(text.error(member.name.start(), "its name is empty", None));
    }
    let reader = ValueReader::new(context);
    let read = match value {
        Value::Object(_) => reader.read::<ProfileEntry>(value),
        _ => reader.read(value).map(|servers| ProfileEntry { servers, tools: BTreeMap::new() }),
    };
    let entry = read.map_err(|error| {
        let is_no_list = error.offset == Some(value.start());
        let hint = is_no_list.then(|| "write a list, such as [\"docs*\"]".to_owned());
        let error = value_error(text, &error);
        ConfigError { hint: error.hint.or(hint), ..error }
    })?;
    if let Some(field) = reader.into_unknown().first() {
        return Err(unknown_field(text, field));
    }
    let servers = located_servers(entry.servers, value, text)?;
    Ok(ProfileContent { servers, tools: located_rules(entry.tools, value, text)? })
}

/// Returns the member of this name of the profile `value`, if that is an object.
fn member_of<'v, 't>(value: &'v Value<'t>, name: &str) -> Option<&'v Value<'t>> {
    Some(&value.as_object()?.get(name)?.value)
}

/// Finds the places of these globs in the profile `value`.
///
/// # Errors
///
/// All of them exclude. Nothing says which servers are used instead.
fn located_servers(
    patterns: Vec<ServerPattern>,
    value: &Value<'_>,
    text: &SourceText,
) -> Result<Vec<Located<ServerPattern>>, ConfigError> {
    let list = member_of(value, "servers").unwrap_or(value);
    if !patterns.is_empty() && patterns.iter().all(|pattern| pattern.excludes) {
        let hint = Some("write [\"*\", \"!NAME\"] to use all servers but NAME".to_owned());
        return Err(text.error(list.start(), "it excludes servers and chooses none", hint));
    }
    let elements = list.as_array().map_or(&[][..], |list| &list.elements);
    // Without a list, the place of the glob for all is that of the profile.
    let places = elements.iter().map(Ranged::start).chain(std::iter::repeat(value.start()));
    Ok(patterns.into_iter().zip(places).map(|(value, offset)| Located { value, offset }).collect())
}

/// Finds the places of these rules in the profile `value`.
///
/// # Errors
///
/// Two of them are for the same server.
fn located_rules(
    mut rules: BTreeMap<String, ProfileToolsEntry>,
    value: &Value<'_>,
    text: &SourceText,
) -> Result<Vec<Located<(String, ProfileToolsEntry)>>, ConfigError> {
    let object = member_of(value, "tools").and_then(Value::as_object);
    let members = object.map_or(&[][..], |object| &object.properties);
    let located = members.iter().map(|member| {
        let offset = member.name.start();
        match rules.remove_entry(member.name.as_str()) {
            Some(value) => Ok(Located { value, offset }),
            None => Err(text.error(offset, "`tools`: the rules for this server are given twice", None)),
        }
    });
    located.collect()
}
