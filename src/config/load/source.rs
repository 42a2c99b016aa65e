//! One config file: where its servers stand, whatever client wrote it, and what each says.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::text::Text;
use crate::config::de::{self, Reader, kind_of};
use crate::config::nearest::nearest;
use crate::config::vars::{Env, Scope};
use crate::config::{ConfigError, Written, file};

/// What one file says.
#[derive(Default)]
pub(super) struct Part {
    /// One per name.
    pub(super) entries: Vec<Entry>,
    pub(super) settings: file::Settings,
    /// `settings.tools` is wrong, so nobody knows which tools must not be called.
    pub(super) lost_rules: Option<ConfigError>,
    pub(super) errors: Vec<ConfigError>,
    pub(super) warnings: Vec<ConfigError>,
}

/// A server's entry in a file.
pub(super) struct Entry {
    pub(super) name: String,
    /// `None`: disabled.
    pub(super) server: Result<Option<file::Server>, ConfigError>,
    pub(super) place: Place,
}

/// Where an entry and its fields stand, for what is found wrong later.
pub(super) struct Place {
    pub(super) dir: std::path::PathBuf,
    /// Line and column are counted in it only for a problem: an entry costs no look at all before it.
    text: Arc<Text>,
    /// Byte in the text.
    at: usize,
    /// Those that say something, and their bytes.
    fields: Vec<(String, usize)>,
    pub(super) written: Written,
}

impl Place {
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| name == field)
    }

    /// A problem with the first of these fields that is there, else with the whole entry.
    pub(super) fn problem(&self, fields: &[&str], message: String, hint: Option<String>) -> ConfigError {
        let field = self.fields.iter().find(|(name, _)| fields.contains(&name.as_str()));
        self.text.problem(field.map_or(self.at, |(_, at)| *at), message, hint)
    }
}

/// Reads one file.
pub(super) fn read(path: &Path, env: &Env) -> Part {
    const MISSING: &str =
        "write one as the README and examples/basic.json show, or name another one with `--config`";
    let text = match Text::read(&env.cwd().join(path), MISSING) {
        Ok(text) => Arc::new(text.named(path)),
        Err(problem) => {
            return Part {
                errors: vec![ConfigError { file: path.to_owned(), ..problem }],
                ..Part::default()
            };
        }
    };
    let dir = super::dir_of(path, env);
    let mut file = FileReader { text: &text, scope: Scope { env, dir: &dir }, part: Part::default() };
    match object(&text) {
        Ok(root) => file.root(&root),
        Err(problem) => file.part.errors.push(problem),
    }
    file.part
}

/// The text's top-level object.
fn object(text: &Text) -> Result<Object<'_>, ConfigError> {
    const HINT: &str = r#"a config is {"mcpServers": {NAME: {"command": …}}}, as JSON with comments"#;
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text.as_str(), &CollectOptions::default(), &options).map_err(|error| {
        let message = format!("is not JSON: {}", error.kind().to_string().to_lowercase());
        text.problem(error.range().start, message, None)
    })?;
    match parsed.value {
        Some(Value::Object(root)) => Ok(root),
        Some(other) => {
            let message = format!("expected an object, found {}", kind_of(&other));
            Err(text.problem(other.start(), message, Some(HINT.to_owned())))
        }
        None => Err(text.problem(0, "is empty", Some(HINT.to_owned()))),
    }
}

struct FileReader<'f> {
    text: &'f Arc<Text>,
    scope: Scope<'f>,
    part: Part,
}

impl FileReader<'_> {
    fn error(&mut self, offset: usize, message: impl ToString, hint: Option<String>) {
        self.part.errors.push(self.text.problem(offset, message, hint));
    }

    fn root(&mut self, root: &Object<'_>) {
        const KNOWN: [&str; 4] = ["mcpServers", "settings", "servers", "mcp"];
        // An OpenCode config is about much more than servers.
        let is_opencode = root.properties.iter().any(|member| member.name.as_str() == "mcp");
        let mut is_config = false;
        let mut odd = Vec::new();
        for member in &root.properties {
            let name = member.name.as_str();
            match name {
                "mcpServers" | "mcp_servers" | "servers" => self.servers(name, &member.value),
                "mcp" => self.opencode(&member.value),
                "settings" => self.settings(&member.value),
                "$schema" | "inputs" => continue,
                _ => {
                    if !is_opencode {
                        odd.push((name, member.name.start()));
                    }
                    continue;
                }
            }
            is_config = true;
        }
        if is_config {
            self.part.warnings.extend(
                odd.into_iter().map(|(name, offset)| unknown(self.text, offset, name, nearest(name, KNOWN))),
            );
        } else {
            let meant = odd.iter().find_map(|(name, offset)| Some((*offset, *name, nearest(name, KNOWN)?)));
            let (offset, hint) = match meant {
                Some((offset, name, meant)) => {
                    (offset, format!("did you mean `{meant}` instead of `{name}`?"))
                }
                None => (root.start(), r#"the servers belong into {"mcpServers": {NAME: {…}}}"#.to_owned()),
            };
            self.error(offset, "has no `mcpServers`", Some(hint));
        }
    }

    /// `mcp` holds the servers, or a `servers` that does.
    fn opencode(&mut self, mcp: &Value<'_>) {
        let nested = mcp.as_object().and_then(|mcp| mcp.get("servers")).map(|member| &member.value);
        match nested {
            Some(Value::Object(servers)) if !is_server(servers) => {
                self.servers("mcp.servers", &Value::Object(servers.clone()));
            }
            _ => self.servers("mcp", mcp),
        }
    }

    fn servers(&mut self, key: &str, servers: &Value<'_>) {
        let Value::Object(servers) = servers else {
            let message = format!("`{key}`: expected an object, found {}", kind_of(servers));
            return self.error(servers.start(), message, None);
        };
        let known = self.part.entries.iter().enumerate();
        let mut known: HashMap<_, _> = known.map(|(n, entry)| (entry.name.clone(), n)).collect();
        for member in &servers.properties {
            let entry = self.entry(member);
            match known.get(&entry.name).and_then(|n| self.part.entries.get_mut(*n)) {
                Some(earlier) => {
                    let (line, column) = self.text.at(earlier.place.at);
                    let message =
                        format!("the server `{}` is given twice, first at {line}:{column}", entry.name);
                    let hint = Some("rename or remove one of the two".to_owned());
                    earlier.server = Err(self.text.problem(member.name.start(), message, hint));
                }
                None => {
                    known.insert(entry.name.clone(), self.part.entries.len());
                    self.part.entries.push(entry);
                }
            }
        }
    }

    fn entry(&mut self, member: &ObjectProp<'_>) -> Entry {
        let name = member.name.as_str().to_owned();
        let place = self.place(member);
        let server = if name.trim().is_empty() {
            Err(self.text.problem(member.name.start(), "a server without a name", None))
        } else if is_disabled(&member.value) {
            Ok(None)
        } else {
            let (server, unknown) = self.typed(&without_foreign_forms(&member.value));
            self.part.warnings.extend(unknown);
            server.map(Some)
        };
        Entry { name, server, place }
    }

    fn place(&self, member: &ObjectProp<'_>) -> Place {
        let fields = member.value.as_object().map_or(&[][..], |server| &server.properties);
        Place {
            dir: self.scope.dir.to_owned(),
            text: self.text.clone(),
            at: member.name.start(),
            fields: fields
                .iter()
                .filter(|field| !says_nothing(&field.value))
                .map(|field| (field.name.as_str().to_owned(), field.name.start()))
                .collect(),
            written: written(fields, self.text.as_str()),
        }
    }

    /// Reads a value, and says which of its fields nobody knows.
    fn typed<T: serde::de::DeserializeOwned>(
        &self,
        value: &Value<'_>,
    ) -> (Result<T, ConfigError>, Vec<ConfigError>) {
        let reader = Reader::new(self.scope);
        let read = reader.read(value).map_err(|error| self.wrong(value, error));
        let warnings = reader.into_unknown();
        let warnings =
            warnings.iter().map(|field| unknown(self.text, field.offset, &field.name, field.nearest));
        (read, warnings.collect())
    }

    fn wrong(&self, value: &Value<'_>, error: de::Error) -> ConfigError {
        self.text.problem(error.offset.unwrap_or_else(|| value.start()), &error, error.hint.clone())
    }

    /// Reads the settings one by one, so that a wrong one does not take the others with it.
    fn settings(&mut self, settings: &Value<'_>) {
        let Value::Object(settings) = settings else {
            let message = format!("`settings`: expected an object, found {}", kind_of(settings));
            return self.error(settings.start(), message, None);
        };
        let mut good = settings.clone();
        good.properties.clear();
        for member in &settings.properties {
            let alone = Object { range: member.range, properties: vec![member.clone()] };
            match self.typed::<file::Settings>(&Value::Object(alone)).0 {
                Ok(_) => good.properties.push(member.clone()),
                Err(problem) => self.wrong_setting(member.name.as_str(), problem),
            }
        }
        let (read, warnings) = self.typed(&Value::Object(good));
        self.part.warnings.extend(warnings);
        match read {
            Ok(read) => self.part.settings = read,
            // One of them is given twice, and nobody knows which.
            Err(problem) => self.wrong_setting("tools", problem),
        }
    }

    fn wrong_setting(&mut self, name: &str, problem: ConfigError) {
        let problem = ConfigError { message: format!("`settings`: {}", problem.message), ..problem };
        if name == "tools" {
            self.part.lost_rules = Some(problem.clone());
        }
        self.part.errors.push(problem);
    }
}

/// Whether an object is a server, not servers by name.
fn is_server(object: &Object<'_>) -> bool {
    object.properties.iter().any(|member| {
        matches!(member.name.as_str(), "command" | "url" | "type") && member.value.as_object().is_none()
    })
}

/// A server without what other clients write in a form of their own.
fn without_foreign_forms<'v>(server: &Value<'v>) -> Value<'v> {
    let mut server = server.clone();
    if let Value::Object(server) = &mut server {
        server.properties.retain(|field| {
            let foreign = file::has_foreign_form(field.name.as_str(), &field.value);
            if foreign {
                tracing::debug!(field = field.name.as_str(), "a field in another client's form is ignored");
            }
            !foreign
        });
    }
    server
}

/// Clients that write every field for every server write these.
fn says_nothing(value: &Value<'_>) -> bool {
    match value {
        Value::NullKeyword(_) => true,
        Value::Object(object) => object.properties.is_empty(),
        Value::Array(list) => list.elements.is_empty(),
        _ => false,
    }
}

/// A disabled server is not looked at any further.
fn is_disabled(server: &Value<'_>) -> bool {
    let says = |name, wanted| {
        let member = server.as_object().and_then(|server| server.get(name));
        member.and_then(|member| member.value.as_boolean_lit()).is_some_and(|bool| bool.value == wanted)
    };
    says("enabled", false) || says("disabled", true)
}

fn unknown(text: &Text, offset: usize, name: &str, nearest: Option<&str>) -> ConfigError {
    let hint = nearest.map(|nearest| format!("did you mean `{nearest}`?"));
    text.problem(offset, format_args!("the field `{name}` is not known"), hint)
}

/// The fields that say how to reach a server, as they are written, in an order that does not depend on the file's.
fn written(fields: &[ObjectProp<'_>], text: &str) -> Written {
    const REACH: [&str; 23] = [
        "args",
        "caFile",
        "ca_file",
        "command",
        "cwd",
        "env",
        "envFile",
        "env_file",
        "environment",
        "headers",
        "httpUrl",
        "http_url",
        "oauth",
        "oauthClientId",
        "oauthScopes",
        "oauth_client_id",
        "oauth_scopes",
        "serverUrl",
        "server_url",
        "transport",
        "transportType",
        "type",
        "url",
    ];
    let mut reach: Vec<_> = fields.iter().filter(|field| REACH.contains(&field.name.as_str())).collect();
    reach.sort_by_key(|field| field.name.as_str());
    Written::new(
        reach.iter().map(|field| format!("{}={}\n", field.name.as_str(), field.value.text(text))).collect(),
    )
}
