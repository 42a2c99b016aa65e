//! The strings of a client, in our notation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, MAIN_SEPARATOR, Path};

use serde_json::Value;

use super::apps::ClientApp;
use super::client::KnownClient;
use super::string_rules::VariableForm;
use crate::json::{all_strings, map_strings};
use base::digest;
use base::redact::name_words;
use config::env::Env;
use config::notation::{Malformed, StringPart, canonical, is_env_name, parts, push, write};

/// Variables that every client passes to servers.
pub(crate) const ALWAYS_PASSED: &[&str] = &["HOME", "PATH", "USER", "USERPROFILE"];

/// The variables that a server uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsedVariables {
    /// Those of the environment.
    pub env: BTreeSet<String>,
    /// Those that only the client knows: our name for each, and what the client writes.
    pub client: BTreeMap<String, String>,
    /// Those of the environment that their server may lack.
    pub(crate) optional: BTreeSet<String>,
    /// Why a file that one of them names cannot be named here.
    pub(crate) unusable_file: Option<&'static str>,
}

/// Where a server's entry, and the strings in it, are from.
pub(crate) struct EntryContext<'a> {
    /// The client.
    pub app: ClientApp,
    /// The directory of the client's file, where relative paths of `{file:…}` start.
    pub dir: &'a Path,
    /// The project's directory, if the server belongs to one. Its servers name no files elsewhere.
    pub project: Option<&'a Path>,
    /// The environment, which decides whether `$name` is a variable.
    pub env: &'a Env,
    /// Whether the strings are in our notation already.
    pub is_ours: bool,
}

impl EntryContext<'_> {
    /// Returns a string of this field in our notation, and notes the variables in it.
    pub(crate) fn translate(&self, field: &str, text: &str, used: &mut UsedVariables) -> String {
        write(&self.parts(field, text, used))
    }

    /// Translates the variables in every string of a value.
    pub(crate) fn translate_all(&self, field: &str, value: &Value, used: &mut UsedVariables) -> Value {
        map_strings(value, &mut |text| self.translate(field, text, used))
    }

    /// Returns the parts of a string of this field in our notation, and notes the variables in it.
    pub(crate) fn parts<'t>(
        &self,
        field: &str,
        text: &'t str,
        used: &mut UsedVariables,
    ) -> Vec<StringPart<'t>> {
        StringReader { context: self, used }.parts(field, text)
    }
}

/// Reads a string of a client.
struct StringReader<'a> {
    context: &'a EntryContext<'a>,
    /// The variables that were found.
    used: &'a mut UsedVariables,
}

impl StringReader<'_> {
    fn parts<'t>(&mut self, field: &str, text: &'t str) -> Vec<StringPart<'t>> {
        let rules: &KnownClient = &self.context.app;
        let forms = if rules.fields.has(field) { rules.forms } else { &[] };
        let mut found = match forms {
            _ if self.context.is_ours => ours(text),
            [VariableForm::Ours] => ours(text),
            forms => self.split(forms, text),
        };
        let is_alone = found.len() == 1;
        if rules.home_fields.contains(&field)
            && let Some(StringPart::Text(first)) = found.first_mut()
            && let Some(rest) = first.strip_prefix('~').map(str::to_owned)
            && (rest.starts_with(['/', '\\']) || (rest.is_empty() && is_alone))
        {
            *first = rest.into();
            found.insert(0, home());
        }
        for part in &mut found {
            if let StringPart::Env { name, default } = part
                && !name.is_empty()
                && !self.used.client.contains_key(&**name)
            {
                self.used.env.insert(name.to_string());
                let is_optional = default.is_none() && rules.optional.has(field);
                if is_optional && !ALWAYS_PASSED.contains(&&**name) {
                    *default = Some("".into());
                    self.used.optional.insert(name.to_string());
                }
            }
        }
        found
    }

    /// Splits a string into text and the variables of these notations.
    fn split<'t>(&mut self, forms: &[VariableForm], text: &'t str) -> Vec<StringPart<'t>> {
        let (mut found, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find(['$', '{']) {
            push(&mut found, StringPart::Text(rest[..at].into()));
            rest = &rest[at..];
            let variable = self.variable(forms, rest);
            let (part, after) = variable.unwrap_or_else(|| (StringPart::Text(rest[..1].into()), &rest[1..]));
            push(&mut found, part);
            rest = after;
        }
        push(&mut found, StringPart::Text(rest.into()));
        found
    }

    /// Returns the variable that the text starts with, or the braces that only look like one, and the text after it.
    fn variable<'t>(&mut self, forms: &[VariableForm], text: &'t str) -> Option<(StringPart<'t>, &'t str)> {
        if let [VariableForm::OpenCode] = forms {
            return self.opencode(text);
        }
        if let Some((body, after)) = self.body(text).filter(|_| !forms.is_empty()) {
            let mut parts = forms.iter().filter_map(|form| match form {
                VariableForm::Braces => braces(body),
                VariableForm::Name => is_name(body).then(|| env(body)),
                VariableForm::EnvName => body.strip_prefix("env:").filter(|name| is_name(name)).map(env),
                VariableForm::Editor => self.editor(body),
                VariableForm::ClientOnly(names) => {
                    self.of_project(body).or_else(|| self.client_only(body, names))
                }
                VariableForm::Ours | VariableForm::BareName | VariableForm::OpenCode => None,
            });
            let unknown = || StringPart::Text(text[..text.len() - after.len()].into());
            return Some((parts.next().unwrap_or_else(unknown), after));
        }
        let has_bare_names = forms.iter().any(|form| matches!(form, VariableForm::BareName));
        self.bare_name(text).filter(|_| has_bare_names)
    }

    /// Returns what the client knows about its window, where that is the project.
    fn of_project(&self, body: &str) -> Option<StringPart<'static>> {
        let dir = match body {
            "workspaceFolder" => self.context.project?.as_os_str(),
            "workspaceFolderBasename" => self.context.project?.file_name()?,
            _ => return None,
        };
        Some(StringPart::Text(dir.to_string_lossy().into_owned().into()))
    }

    /// Returns a variable with one of these names.
    fn client_only(&mut self, body: &str, names: &[&str]) -> Option<StringPart<'static>> {
        let name = body.find(':').map_or(body, |colon| &body[..=colon]);
        names.contains(&name).then(|| self.add_client(body))
    }

    /// Returns what stands in the braces of a `${…}`, and the text after it.
    fn body<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let inner = text.strip_prefix("${")?;
        let (mut depth, balances) = (1, self.context.app.balances_braces);
        let end = inner.find(|c| {
            depth += i32::from(c == '{' && balances) - i32::from(c == '}');
            depth == 0
        })?;
        (balances || end > 0).then(|| (&inner[..end], &inner[end + 1..]))
    }

    /// `$NAME`. A lower-case name, as a password may have, is a variable only if it is defined.
    fn bare_name<'t>(&self, text: &'t str) -> Option<(StringPart<'t>, &'t str)> {
        let rest = text.strip_prefix('$')?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_constant = !name.contains(|c: char| c.is_ascii_lowercase());
        let is_variable = is_name(name) && (is_constant || self.context.env.get(name).is_some());
        is_variable.then(|| (env(name), after))
    }

    fn opencode<'t>(&mut self, text: &'t str) -> Option<(StringPart<'t>, &'t str)> {
        if let Some((name, after)) = text.strip_prefix("{env:").and_then(|rest| rest.split_once('}')) {
            // What can be no name is no variable of the environment, and so it is empty.
            let part = if is_env_name(name) { env(name) } else { StringPart::Text("".into()) };
            return (!name.is_empty()).then_some((part, after));
        }
        let (path, after) =
            text.strip_prefix("{file:")?.split_once('}').filter(|(path, _)| !path.is_empty())?;
        let is_of_home = path.starts_with('~');
        let path =
            if is_of_home { path.to_owned() } else { self.context.dir.join(path).display().to_string() };
        if path.contains('}') {
            self.used.unusable_file = Some("its file in `{file:…}` is in a directory with `}` in its name");
        }
        if self.context.project.is_some_and(|project| is_of_home || !is_inside(Path::new(&path), project)) {
            self.used.unusable_file = Some("its file in `{file:…}` is not in the directory of the project");
        }
        Some((StringPart::File(path.into()), after))
    }
    fn editor<'t>(&mut self, body: &'t str) -> Option<StringPart<'t>> {
        Some(match body {
            "userHome" => home(),
            "pathSeparator" | "/" => StringPart::Text(MAIN_SEPARATOR.to_string().into()),
            _ => match body.strip_prefix("env:")? {
                name if is_name(name) => env(name),
                _ => self.add_client(body),
            },
        })
    }

    /// Notes a variable that only the client knows, by what stands in its braces.
    fn add_client(&mut self, body: &str) -> StringPart<'static> {
        let name = own_name(body, self.context.project);
        self.used.client.insert(name.clone(), format!("${{{body}}}"));
        StringPart::Env { name: name.into(), default: None }
    }
}

/// Returns whether a path leads into a directory, after links.
fn is_inside(path: &Path, dir: &Path) -> bool {
    let has_parent = path.components().any(|part| part == Component::ParentDir);
    match (path.canonicalize(), dir.canonicalize()) {
        (Ok(path), Ok(dir)) => path.starts_with(dir),
        _ => !has_parent && path.starts_with(dir),
    }
}

/// Returns the parts of a string that is in our notation already.
fn ours(text: &str) -> Vec<StringPart<'_>> {
    // What is malformed is an error of the server, once it is read.
    parts(text).unwrap_or_else(|Malformed| vec![env("")])
}

fn env(name: &str) -> StringPart<'_> {
    StringPart::Env { name: name.into(), default: None }
}

fn home() -> StringPart<'static> {
    env(if cfg!(windows) { "USERPROFILE" } else { "HOME" })
}

/// `NAME` or `NAME:-default`.
fn braces(body: &str) -> Option<StringPart<'_>> {
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default.into())),
        None => (body, None),
    };
    is_name(name).then(|| StringPart::Env { name: name.into(), default })
}

fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_word)
}

/// Returns a string as it is written where a variable that is not set is empty, so that equal variables are equal.
pub(crate) fn comparable(text: &str) -> String {
    let Ok(mut parts) = parts(text) else { return canonical(text) };
    for part in &mut parts {
        if let StringPart::Env { default, .. } = part {
            default.take_if(|default| default.is_empty());
        }
    }
    write(&parts)
}

/// Returns the name of the variable that a string consists of. `None` if the string has anything else, or the variable
/// a default.
pub(crate) fn env_name(text: &str) -> Option<String> {
    match &parts(text).ok()?[..] {
        [StringPart::Env { name, default: None }] => Some(name.to_string()),
        _ => None,
    }
}

/// Returns the environment variables that the strings of a value name, without the ones that every client passes.
pub(crate) fn names_in(value: &Value) -> BTreeSet<String> {
    let parts = all_strings(value).into_iter().flat_map(|text| parts(text).unwrap_or_default());
    let names = parts.filter_map(|part| match part {
        StringPart::Env { name, .. } => Some(name.into_owned()),
        _ => None,
    });
    names.filter(|name| !name.is_empty() && !ALWAYS_PASSED.contains(&name.as_str())).collect()
}

/// Returns the names of the secrets of the keyring that the strings of a value name.
pub(crate) fn secrets_in(value: &Value) -> BTreeSet<String> {
    let parts = all_strings(value).into_iter().flat_map(|text| parts(text).unwrap_or_default());
    let names = parts.filter_map(|part| match part {
        StringPart::Secret(body) => Some(body.strip_prefix("keyring:")?.to_owned()),
        _ => None,
    });
    names.collect()
}

/// Returns our name for what only the client knows: `DYN_GITHUB_TOKEN` for `${input:github-token}`. Inputs whose names
/// have the same words get different names, and so do inputs of a project's own file: their names have a digest.
fn own_name(body: &str, project: Option<&Path>) -> String {
    let input = body.strip_prefix("input:");
    let words = name_words(&input.unwrap_or(body).replace(|c: char| !c.is_ascii(), " "));
    let is_usual = match input {
        Some(input) => words.join("-") == input && words.first().is_some_and(|word| word != "workspace"),
        None => body == "workspaceFolder",
    };
    let mut name = std::iter::once("dyn".to_owned()).chain(words).collect::<Vec<_>>().join("_");
    if !is_usual || project.is_some() {
        let id = format!("{}\n{body}", project.map(Path::to_string_lossy).unwrap_or_default());
        name.push_str(&format!("_{}", digest::of(id.as_bytes(), 3)));
    }
    name.to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A string in `args` of a client.
    fn translated(app: &str, text: &str) -> (String, UsedVariables) {
        let env = Env::new([("word", "x")], "/");
        let mut used = UsedVariables::default();
        let translator = EntryContext {
            app: ClientApp::find(app).unwrap(),
            env: &env,
            dir: Path::new("/c"),
            project: None,
            is_ours: false,
        };
        let text = translator.translate("args", text, &mut used);
        (text, used)
    }

    #[test]
    fn every_notation_becomes_ours_and_all_else_stands_for_itself() {
        for (app, text, wanted) in [
            ("claude-desktop", "${A} $A $$ $", "$${A} $A $$$ $"),
            ("claude-desktop", "{env:A} {file:~/x} {command:id}", "{{env:A} {{file:~/x} {{command:id}"),
            ("claude-code", "x${A}y${B:-c d}", "x${A:-}y${B:-c d}"),
            ("claude-code", "$A ${a b} ${env:A} $${A} ${x${A}", "$A $${a b} $${env:A} $$${A:-} $${x$${A}"),
            ("gemini", "Bearer $TOKEN, ${A}", "Bearer ${TOKEN:-}, ${A:-}"),
            ("gemini", "pa$sword$word$$5", "pa$sword${word:-}$$$5"),
            (
                "cursor",
                "${env:A}:${userHome}${/}x",
                if cfg!(windows) { r"${A:-}:${USERPROFILE}\x" } else { "${A:-}:${HOME}/x" },
            ),
            (
                "cursor",
                "${workspaceFolder} ${input:a} ${A} ~/x",
                "${DYN_WORKSPACE_FOLDER} $${input:a} $${A} ~/x",
            ),
            (
                "vscode",
                "${input:api-key} ${workspaceFolder:a} ${A}",
                "${DYN_API_KEY} ${DYN_WORKSPACE_FOLDER_A_8335F2} $${A}",
            ),
            ("vscode", "~/x", if cfg!(windows) { "${USERPROFILE}/x" } else { "${HOME}/x" }),
            (
                "opencode",
                "{env:A} {file:./t} {file:~/t} ${A} {a}",
                if cfg!(windows) {
                    r"${A:-} {file:/c\./t} {file:~/t} $${A} {a}"
                } else {
                    "${A:-} {file:/c/./t} {file:~/t} $${A} {a}"
                },
            ),
            ("opencode", "{{env:A} ${file:~/t} {{file:~/t}", "{${A:-} ${:-$}{file:~/t} {{{file:~/t}"),
            (
                "vscode",
                "${env:A} ${userHome}",
                if cfg!(windows) { "${A:-} ${USERPROFILE}" } else { "${A:-} ${HOME}" },
            ),
            ("codex", "$$ ${A} {{file:x}", "$ ${A} {{file:x}"),
        ] {
            assert_eq!(translated(app, text).0, wanted, "{app:?} {text}");
        }
    }

    #[test]
    fn the_variables_in_use_are_known() {
        let (_, used) = translated("vscode", "${env:A}${input:a-b}${input:a_b}${input:a-b}${env:a b}");
        assert_eq!(used.env, BTreeSet::from(["A".to_owned()]));
        let client = [
            ("DYN_A_B", "${input:a-b}"),
            ("DYN_A_B_88C736", "${input:a_b}"),
            ("DYN_ENV_A_B_353527", "${env:a b}"),
        ];
        assert_eq!(used.client, client.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
    }
}
