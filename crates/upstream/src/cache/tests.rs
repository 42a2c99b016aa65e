//! Tests which key a catalog is cached under, and how damaged files are handled.

use super::*;
use crate::catalog::list_limits::{CatalogList, LeftOff};
use crate::catalog::list_reader::read_cached;
use crate::catalog::{CatalogSource, OtherLists, ServerInfo};
use config::env::Env;
use config::fields::{self, AppliesTo, CacheKeyPart, ConfigField};
use config::file::{ServerEntry, SettingsEntry};
use config::load::load;
use config::{GroupName, Overrides};
use std::time::SystemTime;
use wire::Raw;
use wire::object::Object;

const DEFINITION: &str =
    r#"{"name":"t","description":"Does it.","inputSchema":{"$defs":{"x":1.50}},"big":1e400}"#;

fn catalog(tools: usize) -> Arc<Catalog> {
    let page = format!("{{\"tools\":[{}]}}", vec![DEFINITION; tools].join(","));
    let tools = read_cached(CatalogList::Tools, &Object::parse(&Raw::from(page)).unwrap()).unwrap();
    let info = ServerInfo { title: Some("A server".into()), ..ServerInfo::default() };
    Arc::new(Catalog::new(info, tools, OtherLists::default(), LeftOff::default()))
}

fn key(n: usize) -> CacheKey {
    CacheKey { launch: format!("key{n}"), offer: "o".into() }
}

/// The file that has the definitions of a server with one catalog.
fn definitions_of(dir: &Path, key: &CacheKey) -> PathBuf {
    let summaries: Vec<VariantSummary> =
        serde_json::from_str(read_index(dir).servers[&key.launch].get()).unwrap();
    dir.join(definitions_file(&key.launch, &summaries[0].content))
}

/// Writes the catalogs of this many servers.
async fn write_servers(dir: &Path, servers: usize) {
    let cache = Cache::open(Some(dir.to_owned()));
    (0..servers).for_each(|n| cache.put(key(n), catalog(2)));
    cache.flush().await;
}

#[tokio::test]
async fn a_catalog_is_read_back_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    write_servers(dir.path(), 3).await;
    let cache = Cache::open(Some(dir.path().to_owned())).take_known();
    let known = cache.get(&key(1)).unwrap();
    assert!(known.is_same(&catalog(2)));
    assert_eq!(known.hashes, catalog(2).hashes);
    let definitions: Vec<_> = known.definitions().unwrap().map(|(_, raw)| raw.clone()).collect();
    assert_eq!(definitions, [DEFINITION, DEFINITION]);
    assert!(known.age().unwrap() < Duration::from_secs(60));
    assert!(cache.get(&key(9)).is_none());
}

#[tokio::test]
async fn a_catalog_that_was_read_in_the_future_has_no_age() {
    let dir = tempfile::tempdir().unwrap();
    write_servers(dir.path(), 1).await;
    let path = dir.path().join(INDEX);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("\"read\":").unwrap();
    // The clock was set back by more than a century.
    fs::write(&path, format!("{before}\"read\":9{rest}")).unwrap();
    let known = Cache::open(Some(dir.path().to_owned())).take_known().get(&key(0)).unwrap();
    assert_eq!(known.age(), None);
}

#[tokio::test]
async fn the_files_of_another_version_are_removed_by_the_first_write() {
    let dir = tempfile::tempdir().unwrap();
    write_servers(dir.path(), 3).await;
    let index = fs::read_to_string(dir.path().join(INDEX)).unwrap();
    let version = format!("\"version\":{VERSION}");
    assert!(index.contains(&version));
    fs::write(dir.path().join(INDEX), index.replace(&version, "\"version\":1")).unwrap();
    write_servers(dir.path(), 1).await;
    let names = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
    let definitions: Vec<_> = names.filter(|name| name.to_str().unwrap().starts_with("key")).collect();
    assert_eq!(definitions, [definitions_of(dir.path(), &key(0)).file_name().unwrap()]);
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    write_servers(&dir, 1).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!((mode(&dir.join(INDEX)), mode(&definitions_of(&dir, &key(0)))), (0o600, 0o600));
}

/// Another user could have put a tool of theirs into them.
#[cfg(unix)]
#[tokio::test]
async fn files_that_others_can_change_are_not_read_and_the_next_write_replaces_them() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("cache");
    write_servers(&dir, 1).await;
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let read = || Cache::open(Some(dir.clone())).take_known().get(&key(0));
    set_mode(&dir.join(INDEX), 0o666);
    assert!(read().is_none());
    write_servers(&dir, 1).await;
    set_mode(&definitions_of(&dir, &key(0)), 0o606);
    assert!(read().unwrap().definitions().is_none());
    write_servers(&dir, 1).await;
    assert!(read().unwrap().definitions().is_some());
    set_mode(&dir, 0o770);
    assert!(read().is_none());
    let before = fs::read(dir.join(INDEX)).unwrap();
    write_servers(&dir, 2).await;
    assert_eq!(fs::read(dir.join(INDEX)).unwrap(), before, "nor is such a directory written to");
}

#[tokio::test]
async fn temporary_files_of_a_killed_process_are_removed_by_the_next_write() {
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("index.1.tmp");
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    File::create(&stale).unwrap().set_modified(hours_ago).unwrap();
    write_servers(dir.path(), 1).await;
    assert!(!stale.exists());
}

#[tokio::test]
async fn a_damaged_file_only_loses_its_content() {
    let dir = tempfile::tempdir().unwrap();
    for index in [
        "",
        "{",
        "[]",
        "{\"version\":99,\"servers\":{}}",
        "\u{0}\u{1}",
        "{\"version\":4,\"servers\":{\"key0\":3}}",
        "{\"version\":5,\"servers\":{\"key0\":[3]}}",
    ] {
        replace(&dir.path().join(INDEX), index.as_bytes(), false).unwrap();
        assert!(Cache::open(Some(dir.path().to_owned())).take_known().get(&key(0)).is_none(), "{index}");
        // The next write replaces it.
        write_servers(dir.path(), 1).await;
        assert!(Cache::open(Some(dir.path().to_owned())).take_known().get(&key(0)).is_some(), "{index}");
    }
    for definitions in ["", "[1]", "{}", "{\"tools\":[]}", "not json"] {
        let file = definitions_of(dir.path(), &key(0));
        replace(&file, definitions.as_bytes(), false).unwrap();
        let known = Cache::open(Some(dir.path().to_owned())).take_known().get(&key(0)).unwrap();
        assert!(known.definitions().is_none(), "{definitions}");
    }
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_stays_empty() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    fs::write(&file, "x").unwrap();
    write_servers(&file.join("dir"), 1).await;
    assert!(Cache::open(Some(file.join("dir"))).take_known().get(&key(0)).is_none());
    let none = Cache::open(None);
    none.put(key(0), catalog(1));
    none.flush().await;
}

#[tokio::test]
async fn instances_that_write_at_the_same_time_keep_each_others_entries() {
    let dir = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let dir = dir.path().to_owned();
            tokio::spawn(async move {
                let cache = Cache::open(Some(dir));
                cache.put(key(n), catalog(3));
                cache.flush().await;
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let cache = Cache::open(Some(dir.path().to_owned())).take_known();
    assert!((0..8).all(|n| cache.get(&key(n)).is_some()));
    let temporary = fs::read_dir(dir.path())
        .unwrap()
        .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "tmp"));
    assert_eq!(temporary.count(), 0);
}

#[test]
fn servers_that_were_read_longest_ago_are_dropped() {
    let entry = |read: usize| {
        let variants = serde_json::json!([{ "read": read, "content": "a" }, { "read": 0, "content": "b" }]);
        to_raw_value(&variants).unwrap()
    };
    let mut servers: BTreeMap<_, _> = (0..MAX_SERVERS + 5).map(|n| (format!("k{n}"), entry(n))).collect();
    let files = drop_oldest(&mut servers);
    assert_eq!(servers.len(), MAX_SERVERS);
    assert!(!servers.contains_key("k4") && servers.contains_key("k5"));
    assert_eq!((files.len(), &files[..2]), (10, &["k0-a.json".to_owned(), "k0-b.json".to_owned()][..]));
}

/// The key of a server under another offer.
fn key_offering(n: usize, offer: &str) -> CacheKey {
    CacheKey { offer: offer.into(), ..key(n) }
}

/// Writes a catalog with this many tools, as read under this offer.
async fn write_as(dir: &Path, offer: &str, tools: usize) {
    let cache = Cache::open(Some(dir.to_owned()));
    cache.put(key_offering(0, offer), catalog(tools));
    cache.flush().await;
}

/// Returns how many tools the catalog under this offer has, and whether it is borrowed.
fn known_as(dir: &Path, offer: &str) -> (usize, bool) {
    let known = Cache::open(Some(dir.to_owned())).take_known().get(&key_offering(0, offer)).unwrap();
    assert_eq!(known.definitions().unwrap().count(), known.tools.len());
    (known.tools.len(), matches!(known.source, CatalogSource::Borrowed(_)))
}

fn files_in(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[tokio::test]
async fn an_offer_that_was_never_made_borrows_the_catalog_that_was_read_last() {
    let dir = tempfile::tempdir().unwrap();
    write_as(dir.path(), "a", 1).await;
    assert_eq!((known_as(dir.path(), "a"), known_as(dir.path(), "b")), ((1, false), (1, true)));
    write_as(dir.path(), "b", 2).await;
    assert_eq!((known_as(dir.path(), "a"), known_as(dir.path(), "b")), ((1, false), (2, false)));
    assert_eq!(known_as(dir.path(), "c"), (2, true));
    write_as(dir.path(), "a", 1).await;
    assert_eq!(known_as(dir.path(), "c"), (1, true));
}

#[tokio::test]
async fn equal_catalogs_are_kept_once_and_those_without_an_offer_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    write_as(dir.path(), "a", 1).await;
    let files = files_in(dir.path());
    for n in 0..30 {
        write_as(dir.path(), &format!("o{n}"), 1).await;
    }
    assert_eq!(files_in(dir.path()), files);
    assert_eq!(known_as(dir.path(), "o29"), (1, false));
    assert_eq!(known_as(dir.path(), "a"), (1, true), "it was made longest ago");
    // The server lists something else now.
    for tools in 2..12 {
        write_as(dir.path(), "o29", tools).await;
    }
    assert_eq!(files_in(dir.path()), files + 1);
    assert_eq!((known_as(dir.path(), "o28"), known_as(dir.path(), "o29")), ((1, false), (11, false)));
    for n in 0..8 {
        write_as(dir.path(), &format!("o{n}"), 20 + n).await;
    }
    assert_eq!(files_in(dir.path()), files + 3, "four catalogs of a server are kept");
}

#[tokio::test]
async fn a_failure_is_known_under_every_offer_until_the_server_works_under_one() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(dir.path().to_owned()));
    cache.put_failure(key_offering(0, "a"), "login needed");
    cache.flush().await;
    let failure = || {
        let known = Cache::open(Some(dir.path().to_owned())).take_known();
        known.failure(&key_offering(0, "b")).map(str::to_owned)
    };
    assert_eq!(failure().as_deref(), Some("login needed"));
    write_as(dir.path(), "c", 1).await;
    assert_eq!(failure(), None);
}

#[tokio::test]
async fn a_failure_takes_nothing_from_a_catalog_that_is_not_written_yet() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(Some(dir.path().to_owned()));
    cache.put(key(0), catalog(2));
    cache.put_failure(key(0), "it has ended");
    cache.flush().await;
    let known = Cache::open(Some(dir.path().to_owned())).take_known();
    assert_eq!(known.failure(&key(0)), Some("it has ended"));
    assert!(known.get(&key(0)).unwrap().is_same(&catalog(2)));
}

#[tokio::test]
async fn clear_removes_all_servers() {
    let dir = tempfile::tempdir().unwrap();
    write_servers(dir.path(), 2).await;
    assert_eq!(clear(dir.path()).unwrap(), 2);
    assert_eq!(clear(dir.path()).unwrap(), 0);
}

/// Returns the key of the server `s` in a config with this entry and these settings.
fn key_of(entry: &serde_json::Value, settings: &serde_json::Value) -> CacheKey {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("env"), "A=1").unwrap();
    let text = serde_json::json!({"mcpServers": {"s": entry}, "settings": settings}).to_string();
    fs::write(dir.path().join("servers.json"), &text).unwrap();
    let env = Env::new([("TOKEN", "t0k3n")], dir.path());
    let config = load(&["servers.json".into()], &env, &Overrides::default());
    let server = config.server(&GroupName::new("s")).unwrap_or_else(|| panic!("{text} disables the server"));
    let server = server.as_ref().unwrap_or_else(|error| panic!("{text}: {error}"));
    CacheKey::new(server, Path::new("/"), b"{}")
}

/// Returns the shortest entry that this field applies to.
fn minimal_entry(field: &ConfigField) -> serde_json::Value {
    match (field.name, field.applies_to) {
        ("httpUrl", _) => serde_json::json!({}),
        (_, AppliesTo::Remote) => serde_json::json!({"url": "https://example.com"}),
        _ => serde_json::json!({"command": "x"}),
    }
}

/// Returns two values of a field that mean different things.
fn two_values(field: &ConfigField) -> [serde_json::Value; 2] {
    let json = match field.name {
        "command" => r#"["y", "z"]"#,
        "args" | "expose" | "includeTools" | "excludeTools" => r#"[["y"], ["z"]]"#,
        "env" | "headers" => r#"[{"A": "1"}, {"A": "2"}]"#,
        "env_file" => r#"["env", "./env"]"#,
        "cwd" | "ca_file" | "description" | "oauth_client_id" | "oauth_scopes" => r#"["y", "z"]"#,
        "inherit_env" => r#"[["A"], ["B"]]"#,
        "url" | "httpUrl" => r#"["https://example.com/1", "https://example.com/2"]"#,
        "type" => r#"["stdio", "local"]"#,
        "oauth" => r#"[{"client_id": "y"}, {"client_id": "z"}]"#,
        "enabled" => "[true, null]",
        "disabled" => "[false, null]",
        "stateful" | "prefetch" | "trust_annotations" | "pin_tools" | "all_users" => "[true, false]",
        "lazy_startup" => r#"["eager", "pure"]"#,
        "share" => r#"["client", "user"]"#,
        "launcher" => r#"["keep", "direct"]"#,
        "idle_timeout" | "store_above" => "[1, 2]",
        "timeout" => r#"[{"wait": 1}, {"wait": 2}]"#,
        "features" => r#"[{"prompts": true}, {"prompts": false}]"#,
        "tools" => r#"[{"deny": ["y"]}, {"deny": ["z"]}]"#,
        name => panic!("give two values of `{name}`"),
    };
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_field_changes_the_key_exactly_if_the_table_says_so() {
    for field in fields::all(ServerEntry::FIELDS) {
        let keys = two_values(field).map(|value| {
            let mut entry = minimal_entry(field);
            entry[field.name] = value;
            key_of(&entry, &serde_json::json!({}))
        });
        assert_eq!(keys[0] != keys[1], field.cache_key != CacheKeyPart::NotPart, "{}", field.name);
    }
}

#[test]
fn a_setting_changes_the_key_exactly_if_it_is_the_default_of_a_resolved_part() {
    for field in fields::all(ServerEntry::FIELDS)
        .filter(|field| fields::all(SettingsEntry::FIELDS).any(|s| s.name == field.name))
    {
        let keys = two_values(field)
            .map(|value| key_of(&minimal_entry(field), &serde_json::json!({field.name: value})));
        assert_eq!(keys[0] != keys[1], field.cache_key == CacheKeyPart::AsResolved, "{}", field.name);
    }
}

#[test]
fn the_key_depends_on_neither_the_order_nor_the_spelling_of_fields() {
    let none = serde_json::json!({});
    let one = serde_json::json!({"command": "x", "env_file": "env", "env": {"A": "${TOKEN}"}});
    let other = serde_json::json!({"environment": {"A": "${TOKEN}"}, "envFile": "env", "command": "x"});
    assert_eq!(key_of(&one, &none), key_of(&other, &none));
}
