//! Loads every config in `examples` and `tests/configs`. The name of a file there is the rule it tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use config::env::Env;
use config::file::SCHEMA;
use config::load::load;
use config::{Config, ConfigError, Overrides};
use jsonc_parser::ast;
use serde_json::Value;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The configs in a directory of the repository, sorted by name.
fn config_files(dir: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    files.sort();
    assert!(!files.is_empty(), "no configs in {dir}");
    files
}

fn loaded_config(path: &Path) -> Config {
    let variables = [
        ("HOME", "/home/user"),
        ("TOKEN", "s3cret"),
        ("GITHUB_TOKEN", "s3cret"),
        ("DB_NAME", "shop"),
        ("PGPASSWORD", "s3cret"),
    ];
    load(&[path.to_owned()], &Env::new(variables, root()), &Overrides::default())
}

/// All errors and warnings as a user sees them, but without the directory of the file.
fn messages(config: &Config) -> Vec<String> {
    let servers = config.servers.iter().filter_map(|(_, server)| server.as_ref().err());
    let warnings: Vec<_> = config.all_warnings().collect();
    let message = |error: &ConfigError| {
        let dir = error.file.parent().unwrap();
        if dir.as_os_str().is_empty() {
            error.to_string()
        } else {
            error
                .to_string()
                .replace(&format!("{}/", dir.display()), "")
                .replace(&*dir.to_string_lossy(), "DIR")
        }
    };
    config.errors.iter().chain(servers).chain(&warnings).map(message).collect()
}

/// Converts a syntax tree to plain JSON, for the schema validator.
fn plain_json(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::StringLit(text) => text.value.as_ref().into(),
        ast::Value::NumberLit(number) => serde_json::from_str(number.value).unwrap(),
        ast::Value::BooleanLit(bool) => bool.value.into(),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => list.elements.iter().map(plain_json).collect(),
        ast::Value::Object(object) => object
            .properties
            .iter()
            .map(|member| (member.name.as_str().to_owned(), plain_json(&member.value)))
            .collect(),
    }
}

fn assert_satisfies_the_schema(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.trim_start_matches('\u{feff}');
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let instance = plain_json(&parsed.value.unwrap());
    let errors: Vec<String> =
        schema.iter_errors(&instance).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new(), "{}", path.display());
}

#[test]
fn examples_and_valid_configs_load_and_satisfy_the_schema() {
    for path in config_files("examples").into_iter().chain(config_files("tests/configs/valid")) {
        assert_eq!(messages(&loaded_config(&path)), Vec::<String>::new(), "{}", path.display());
        // Its disabled servers have neither a command nor a URL.
        if !path.ends_with("a_server_may_be_disabled_by_either_field.json") {
            assert_satisfies_the_schema(&path);
        }
    }
}

#[test]
#[cfg_attr(windows, ignore = "the snapshot has paths of Unix")]
fn invalid_configs_say_what_is_wrong() {
    let mut all = String::new();
    for path in config_files("tests/configs/invalid") {
        let messages = messages(&loaded_config(&path));
        assert!(!messages.is_empty(), "{} has no errors", path.display());
        writeln!(all, "{}", messages.join("\n")).unwrap();
    }
    assert!(!all.contains("s3cret"), "a value is repeated:\n{all}");
    insta::assert_snapshot!(all);
}

#[test]
fn a_missing_file_is_named_as_it_was_given() {
    let config = load(&["nowhere.json".into()], &Env::new([("", ""); 0], root()), &Overrides::default());
    let command = format!("dynamic-mcp import --config {}", root().join("nowhere.json").display());
    let hint = format!("`{command}` makes it from the files of your clients; `--config` names another file");
    assert_eq!(messages(&config), [format!("nowhere.json: cannot be read: no such file ({hint})")]);
    // The default file needs no option.
    let home = tempfile::tempdir().unwrap();
    let default = home.path().join("dynamic-mcp").join("servers.json");
    let hint_with = |variables: &[(&str, &str)]| {
        let home = home.path().to_str().unwrap();
        let variables = [&[("XDG_CONFIG_HOME", home), ("APPDATA", home)], variables].concat();
        messages(&load(std::slice::from_ref(&default), &Env::new(variables, root()), &Overrides::default()))
            .concat()
    };
    assert!(hint_with(&[]).contains("(`dynamic-mcp import` makes it"), "{}", hint_with(&[]));
    assert!(hint_with(&[("DYNAMIC_MCP_CONFIG", "other.json")]).contains("import --config"));
}
