//! What is remembered, and what a broken file costs.

use super::*;
use crate::upstream::catalog::{OtherLists, read_tools};
use crate::wire::Raw;

const DEFINITION: &str =
    r#"{"name":"t","description":"Does it.","inputSchema":{"$defs":{"x":1.50}},"big":1e400}"#;

fn catalog(tools: usize) -> Arc<Catalog> {
    let page = format!("{{\"tools\":[{}]}}", vec![DEFINITION; tools].join(","));
    let tools = read_tools(&Raw::from(page));
    let info = ServerInfo { title: Some("A server".into()), ..ServerInfo::default() };
    Arc::new(Catalog::new(info, tools, OtherLists::default()))
}

fn key(n: usize) -> Key {
    Key(format!("key{n}"))
}

async fn remembered(dir: &Path, servers: usize) {
    let cache = Cache::open(Some(dir.to_owned()));
    (0..servers).for_each(|n| cache.put(key(n), catalog(2)));
    cache.flush().await;
}

#[tokio::test]
async fn the_next_start_knows_everything_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    remembered(dir.path(), 3).await;
    let cache = Cache::open(Some(dir.path().to_owned())).read();
    let known = cache.get(&key(1)).unwrap();
    assert!(known.is_same(&catalog(2)));
    assert_eq!(known.hashes, catalog(2).hashes);
    let definitions: Vec<_> = known.definitions().unwrap().map(|(_, raw)| raw.clone()).collect();
    assert_eq!(definitions, [DEFINITION, DEFINITION]);
    assert!(known.age() < Duration::from_secs(60));
    assert!(cache.get(&key(9)).is_none());
}

#[tokio::test]
async fn nobody_else_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    remembered(&dir, 1).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!((mode(&dir.join(INDEX)), mode(&body_file(&dir, &key(0)))), (0o600, 0o600));
}

#[tokio::test]
async fn broken_foreign_and_lost_files_cost_nothing_but_knowledge() {
    let dir = tempfile::tempdir().unwrap();
    for index in [
        "",
        "{",
        "[]",
        "{\"version\":99,\"servers\":{}}",
        "\u{0}\u{1}",
        "{\"version\":3,\"servers\":{\"key0\":3}}",
    ] {
        fs::write(dir.path().join(INDEX), index).unwrap();
        assert!(Cache::open(Some(dir.path().to_owned())).read().get(&key(0)).is_none(), "{index}");
        // It is written over, and good again.
        remembered(dir.path(), 1).await;
        assert!(Cache::open(Some(dir.path().to_owned())).read().get(&key(0)).is_some(), "{index}");
    }
    for definitions in ["", "[1]", "{}", "{\"tools\":[]}", "not json"] {
        fs::write(body_file(dir.path(), &key(0)), definitions).unwrap();
        let known = Cache::open(Some(dir.path().to_owned())).read().get(&key(0)).unwrap();
        assert!(known.definitions().is_none(), "{definitions}");
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    fs::write(&file, "x").unwrap();
    remembered(&file.join("dir"), 1).await;
    assert!(Cache::open(Some(file.join("dir"))).read().get(&key(0)).is_none());
    let none = Cache::open(None);
    none.put(key(0), catalog(1));
    none.flush().await;
}

#[tokio::test]
async fn instances_that_write_at_once_leave_a_whole_file_with_what_both_know() {
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
    let cache = Cache::open(Some(dir.path().to_owned())).read();
    assert!((0..8).all(|n| cache.get(&key(n)).is_some()));
    let left = fs::read_dir(dir.path())
        .unwrap()
        .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "tmp"));
    assert_eq!(left.count(), 0);
}

#[test]
fn the_oldest_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let entry = |read: usize| to_raw_value(&serde_json::json!({ "read": read })).unwrap();
    let mut servers: BTreeMap<_, _> = (0..REMEMBERED + 5).map(|n| (format!("k{n}"), entry(n))).collect();
    forget_oldest(dir.path(), &mut servers);
    assert_eq!(servers.len(), REMEMBERED);
    assert!(!servers.contains_key("k4") && servers.contains_key("k5"));
}

#[tokio::test]
async fn clearing_forgets_all() {
    let dir = tempfile::tempdir().unwrap();
    remembered(dir.path(), 2).await;
    assert_eq!(clear(dir.path()).unwrap(), 2);
    assert_eq!(clear(dir.path()).unwrap(), 0);
}
