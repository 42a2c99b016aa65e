//! Every config in `examples` and `tests/configs` is loaded; the name of a file is the rule it is about.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dynamic_mcp::config::file::SCHEMA;
use dynamic_mcp::config::load::{Overrides, load};
use dynamic_mcp::config::vars::Env;
use dynamic_mcp::config::{Config, ConfigError};
use jsonc_parser::ast;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The configs in a directory, by name.
fn configs(dir: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut configs: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    configs.sort();
    assert!(!configs.is_empty(), "no configs in {dir}");
    configs
}

fn loaded(path: &Path) -> Config {
    let variables = [
        ("HOME", "/home/user"),
        ("TOKEN", "s3cret"),
        ("GITHUB_TOKEN", "s3cret"),
        ("DB_NAME", "shop"),
        ("PGPASSWORD", "s3cret"),
    ];
    load(&[path.to_owned()], &Env::new(variables, root()), &Overrides::default())
}

/// All that is wrong, as a user sees it, but for where the repository is.
fn problems(config: &Config) -> Vec<String> {
    let servers = config.servers.iter().filter_map(|(_, server)| server.as_ref().err());
    let shown = |problem: &ConfigError| {
        let file = problem.file.file_name().unwrap().into();
        ConfigError { file, ..problem.clone() }.to_string()
    };
    config.errors.iter().chain(servers).chain(&config.warnings).map(shown).collect()
}

/// The same as plain JSON, for the schema.
fn plain(value: &ast::Value<'_>) -> Value {
    match value {
        ast::Value::StringLit(text) => text.value.as_ref().into(),
        ast::Value::NumberLit(number) => serde_json::from_str(number.value).unwrap(),
        ast::Value::BooleanLit(bool) => bool.value.into(),
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::Array(list) => list.elements.iter().map(plain).collect(),
        ast::Value::Object(object) => object
            .properties
            .iter()
            .map(|member| (member.name.as_str().to_owned(), plain(&member.value)))
            .collect(),
    }
}

fn assert_satisfies_the_schema(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.trim_start_matches('\u{feff}');
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let instance = plain(&parsed.value.unwrap());
    let errors: Vec<String> =
        schema.iter_errors(&instance).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, Vec::<String>::new(), "{}", path.display());
}

#[test]
fn examples_and_valid_configs_load_and_satisfy_the_schema() {
    for path in configs("examples").into_iter().chain(configs("tests/configs/valid")) {
        assert_eq!(problems(&loaded(&path)), Vec::<String>::new(), "{}", path.display());
        if !path.ends_with("a_server_may_be_disabled_in_both_words.json") {
            assert_satisfies_the_schema(&path);
        }
    }
}

#[test]
fn invalid_configs_say_what_is_wrong() {
    let mut messages = String::new();
    for path in configs("tests/configs/invalid") {
        let problems = problems(&loaded(&path));
        assert!(!problems.is_empty(), "{} has nothing wrong", path.display());
        writeln!(messages, "{}", problems.join("\n")).unwrap();
    }
    assert!(!messages.contains("s3cret"), "a value is repeated:\n{messages}");
    insta::assert_snapshot!(messages);
}

#[test]
fn a_missing_file_is_named_as_it_was_given() {
    let config = load(&["nowhere.json".into()], &Env::new([("", ""); 0], root()), &Overrides::default());
    assert_eq!(
        problems(&config),
        ["nowhere.json: cannot be read: no such file \
          (write one as the README and examples/basic.json show, or \
           name another one with `--config`)"]
    );
}
