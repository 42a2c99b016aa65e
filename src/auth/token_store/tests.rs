use super::*;
use crate::auth::keyring::tests::Fake;
use std::io::Write;

const URL: &str = "https://a.example/";

fn vault() -> (tempfile::TempDir, TokenStore, Key) {
    with(Keyring::off())
}

fn with(keyring: Keyring) -> (tempfile::TempDir, TokenStore, Key) {
    let dir = tempfile::tempdir().unwrap();
    let vault = TokenStore::new(dir.path().join("a").join("logins"), keyring);
    (dir, vault, Key::new(&GroupName::new("a/../b"), URL, None))
}

fn record(token: &str) -> Record {
    Record { access_token: Some(Secret::new(token)), ..Record::new("https://a.example/") }
}

#[tokio::test]
async fn what_is_written_is_read_for_the_same_address_only() {
    let (_dir, vault, key) = vault();
    assert_eq!(vault.read(&key, "https://a.example/").await, Ok(None));
    vault.write(&key, &record("one")).await.unwrap();
    vault.write(&key, &record("two")).await.unwrap();
    assert_eq!(vault.read(&key, "https://a.example/").await, Ok(Some(record("two"))));
    assert_eq!(vault.read(&key, "https://b.example/").await, Ok(None));
    vault.remove(&key).await.unwrap();
    vault.remove(&key).await.unwrap();
    assert_eq!(vault.read(&key, "https://a.example/").await, Ok(None));
}

#[test]
fn each_account_has_a_file_of_its_own_inside_the_directory() {
    let key = |name, url, client| Key::new(&GroupName::new(name), url, client);
    let one = key("a", "https://a.example/", None);
    for other in [
        key("b", "https://a.example/", None),
        key("a", "https://b.example/", None),
        key("a", "https://a.example/", Some("id")),
    ] {
        assert_ne!(one, other);
    }
    let file =
        TokenStore::new("/dir".into(), Keyring::off()).file(&key("../../é x", "https://a.example/", None));
    assert_eq!(file.parent(), Some(Path::new("/dir")));
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, vault, key) = vault();
    vault.write(&key, &record("t")).await.unwrap();
    let file = vault.file(&key);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let Err(AuthError::Store(why)) = vault.read(&key, "https://a.example/").await else { panic!("read") };
    assert!(why.contains("chmod 600"), "{why}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_in_its_place_is_not_followed() {
    let (dir, vault, key) = vault();
    vault.write(&key, &record("t")).await.unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(vault.file(&key), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, vault.file(&key)).unwrap();
    assert!(matches!(vault.read(&key, "https://a.example/").await, Err(AuthError::Store(_))));
    let before = fs::read(&elsewhere).unwrap();
    vault.write(&key, &record("other")).await.unwrap();
    assert_eq!(fs::read(&elsewhere).unwrap(), before);
    assert!(!fs::symlink_metadata(vault.file(&key)).unwrap().is_symlink());
}

#[tokio::test]
async fn a_damaged_file_is_as_none() {
    let (_dir, vault, key) = vault();
    vault.write(&key, &record("t")).await.unwrap();
    for text in ["", "{", "[]", r#"{"version": 2, "url": "https://a.example/"}"#] {
        let mut file = private().write(true).truncate(true).open(vault.file(&key)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        assert_eq!(vault.read(&key, "https://a.example/").await, Ok(None), "{text}");
    }
}

#[tokio::test]
async fn one_at_a_time_changes_a_login() {
    let (_dir, vault, key) = vault();
    let held = vault.lock(&key).await.unwrap();
    let second = vault.lock(&key);
    tokio::pin!(second);
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(waited.is_err(), "two hold it");
    drop(held);
    assert!(tokio::time::timeout(Duration::from_secs(5), second).await.unwrap().is_ok());
}

#[test]
fn a_token_is_renewed_before_it_expires_and_no_sooner_than_its_last_quarter() {
    let expiring = |received: u64, expires: u64| Record {
        received_at: now() - received,
        expires_at: Some(now() + expires),
        ..record("t")
    };
    assert!(record("t").fresh_token().is_some(), "without an end");
    assert!(expiring(0, 3600).fresh_token().is_some());
    assert!(expiring(3600, 20).fresh_token().is_none());
    assert!(expiring(3600, 20).live_token().is_some());
    assert!(expiring(0, 8).fresh_token().is_some(), "a short one is used as well");
    assert!(expiring(8, 0).live_token().is_none());
}

#[test]
fn debug_shows_no_token() {
    let record = Record {
        refresh_token: Some(Secret::new("MARKER-R")),
        client_secret: Some(Secret::new("MARKER-S")),
        ..record("MARKER-A")
    };
    assert!(!format!("{record:?}").contains("MARKER"));
}

fn text(vault: &TokenStore, key: &Key) -> String {
    fs::read_to_string(vault.file(key)).unwrap()
}

#[tokio::test]
async fn a_login_is_in_the_keyring_and_its_file_says_so() {
    let fake = Fake::default();
    let (_dir, vault, key) = with(fake.keyring());
    for token in ["MARKER-1", "MARKER-2"] {
        let before = vault.changed(&key).await;
        vault.write(&key, &record(token)).await.unwrap();
        assert_ne!(vault.changed(&key).await, before);
        assert_eq!(vault.read(&key, URL).await, Ok(Some(record(token))));
        assert!(!text(&vault, &key).contains("MARKER"));
        assert!(fake.entries.lock()[key.in_place(&vault.dir).id()].contains(token));
    }
    let asked = *fake.asked.lock();
    assert_eq!(vault.read(&key, "https://b.example/").await, Ok(None));
    assert_eq!(*fake.asked.lock(), asked, "it is asked for no other server's login");

    vault.remove(&key).await.unwrap();
    assert!(fake.entries.lock().is_empty());
    assert_eq!(vault.read(&key, URL).await, Ok(None));
}

#[tokio::test]
async fn a_login_in_a_file_stays_there_until_somebody_logs_in_again() {
    let fake = Fake::default();
    let (dir, vault, key) = vault();
    vault.write(&key, &record("MARKER-1")).await.unwrap();
    let vault = TokenStore { keyring: fake.keyring(), ..vault };
    vault.save(&key, &record("MARKER-2"), Some(record("MARKER-1"))).await;
    assert!(text(&vault, &key).contains("MARKER-2"), "others have no keyring");
    assert_eq!(vault.read(&key, URL).await, Ok(Some(record("MARKER-2"))));
    assert_eq!(*fake.asked.lock(), 0);
    vault.write(&key, &record("MARKER-3")).await.unwrap();
    vault.save(&key, &record("MARKER-4"), Some(record("MARKER-3"))).await;
    assert!(!text(&vault, &key).contains("MARKER"));
    assert_eq!(vault.read(&key, URL).await, Ok(Some(record("MARKER-4"))));

    // New tokens need a place more than they need this one.
    fake.fails(Some(Unusable::Failed("full".to_owned())));
    vault.save(&key, &record("MARKER-5"), Some(record("MARKER-4"))).await;
    assert!(text(&vault, &key).contains("MARKER-5"));
    drop(dir);
}

#[tokio::test(start_paused = true)]
async fn a_keyring_that_cannot_be_used_costs_no_login() {
    for trouble in
        [Unusable::Missing, Unusable::Locked, Unusable::Silent, Unusable::Failed("too long".to_owned())]
    {
        let fake = Fake::default();
        let (_dir, vault, key) = with(fake.keyring());
        vault.write(&key, &record("one")).await.unwrap();
        fake.fails(Some(trouble.clone()));
        // What is there cannot be read, and the reader is told what to do.
        let Err(AuthError::Keyring(_, why)) = vault.read(&key, URL).await else { panic!("{trouble}") };
        assert!(why.contains("login a/../b") && why.contains(&trouble.to_string()), "{why}");
        // One that is there has to forget it first.
        if trouble != Unusable::Missing {
            let Err(AuthError::Keyring(..)) = vault.remove(&key).await else { panic!("{trouble}: gone") };
        }
        // What is new goes to the file; what is in the keyring is older then, and does not count.
        vault.write(&key, &record("two")).await.unwrap();
        assert_eq!(vault.read(&key, URL).await, Ok(Some(record("two"))), "{trouble}");
        tokio::time::advance(Duration::from_secs(60)).await;
        fake.fails(None);
        assert_eq!(vault.read(&key, URL).await, Ok(Some(record("two"))), "{trouble}");
        vault.remove(&key).await.unwrap();
        assert!(fake.entries.lock().is_empty());
    }
}

#[tokio::test]
async fn a_login_that_moves_to_the_keyring_is_in_its_file_until_it_is_there() {
    let fake = Fake::default();
    let (_dir, vault, key) = vault();
    vault.write(&key, &record("one")).await.unwrap();
    fake.fails(Some(Unusable::Silent));
    let vault = TokenStore { keyring: fake.keyring(), ..vault };
    // Cut off while the keyring keeps it waiting.
    let written = tokio::time::timeout(Duration::from_millis(200), vault.write(&key, &record("two"))).await;
    assert!(written.is_err());
    assert_eq!(vault.read(&key, URL).await, Ok(Some(record("two"))));
}

#[tokio::test]
async fn an_entry_that_somebody_took_out_of_the_keyring_or_changed_is_as_none() {
    let fake = Fake::default();
    let (_dir, vault, key) = with(fake.keyring());
    vault.write(&key, &record("t")).await.unwrap();
    for text in ["", "{", r#"{"version": 2, "url": "https://a.example/"}"#] {
        fake.entries.lock().insert(key.in_place(&vault.dir).id().to_owned(), text.to_owned());
        assert_eq!(vault.read(&key, URL).await, Ok(None), "{text}");
    }
    fake.entries.lock().clear();
    assert_eq!(vault.read(&key, URL).await, Ok(None));
}

#[tokio::test]
async fn a_login_in_a_keyring_that_is_turned_off_is_not_lost_silently() {
    let fake = Fake::default();
    let (_dir, vault, key) = with(fake.keyring());
    vault.write(&key, &record("t")).await.unwrap();
    let vault = TokenStore { keyring: Keyring::off(), ..vault };
    let Err(AuthError::Keyring(_, why)) = vault.read(&key, URL).await else { panic!("read") };
    assert!(why.contains("`keyring` in `settings`"), "{why}");
}

/// Files in this vault cannot be written by this process, whoever its user is.
fn obstructed(vault: &TokenStore, key: &Key) -> PathBuf {
    let temporary = vault.file(key).with_extension(format!("{}.tmp", std::process::id()));
    fs::create_dir_all(temporary.join("in the way")).unwrap();
    temporary
}

#[tokio::test]
async fn tokens_that_cannot_be_written_are_used_and_written_later() {
    let (_dir, vault, key) = vault();
    vault.write(&key, &record("one")).await.unwrap();
    let obstacle = obstructed(&vault, &key);
    vault.save(&key, &record("two"), Some(record("one"))).await;
    vault.save(&key, &record("three"), Some(record("two"))).await;
    assert_eq!(vault.clone().read(&key, URL).await, Ok(Some(record("three"))));
    vault.retry(&key).await;
    assert_eq!(vault.read_kept(&key, URL).await, Ok(Some(record("one"))));
    fs::remove_dir_all(&obstacle).unwrap();

    let busy = vault.lock(&key).await.unwrap();
    vault.retry(&key).await;
    assert_eq!(vault.read_kept(&key, URL).await, Ok(Some(record("one"))), "somebody else has the lock");
    drop(busy);
    vault.retry(&key).await;
    assert_eq!(vault.read_kept(&key, URL).await, Ok(Some(record("three"))));

    obstructed(&vault, &key);
    vault.save(&key, &record("four"), Some(record("three"))).await;
    fs::remove_dir_all(&obstacle).unwrap();
    vault.settled().await;
    assert_eq!(vault.read_kept(&key, URL).await, Ok(Some(record("four"))), "at the end at the latest");
}

#[tokio::test]
async fn tokens_that_cannot_be_written_do_not_outlive_a_login_of_somebody_else() {
    let (_dir, vault, key) = vault();
    let other = TokenStore::new(vault.dir.clone(), Keyring::off());
    vault.write(&key, &record("one")).await.unwrap();
    let obstacle = obstructed(&vault, &key);
    vault.save(&key, &record("two"), Some(record("one"))).await;
    fs::remove_dir_all(&obstacle).unwrap();
    other.write(&key, &record("new")).await.unwrap();
    vault.retry(&key).await;
    assert_eq!(vault.read(&key, URL).await, Ok(Some(record("new"))));
    obstructed(&vault, &key);
    vault.save(&key, &record("newer"), Some(record("new"))).await;
    other.remove(&key).await.unwrap();
    assert_eq!(vault.read(&key, URL).await, Ok(None));
}

#[tokio::test]
async fn a_login_whose_file_cannot_be_written_goes_to_the_keyring() {
    let fake = Fake::default();
    let (_dir, vault, key) = vault();
    vault.write(&key, &record("MARKER-1")).await.unwrap();
    let vault = TokenStore { keyring: fake.keyring(), ..vault };
    obstructed(&vault, &key);
    vault.save(&key, &record("MARKER-2"), Some(record("MARKER-1"))).await;
    assert!(fake.entries.lock()[key.in_place(&vault.dir).id()].contains("MARKER-2"));
    assert_eq!(vault.read(&key, URL).await, Ok(Some(record("MARKER-2"))));
}

#[tokio::test]
async fn a_login_in_the_keyring_is_kept_also_if_its_file_cannot_be_written_again() {
    let fake = Fake::default();
    let (_dir, vault, key) = with(fake.keyring());
    vault.write(&key, &record("one")).await.unwrap();
    obstructed(&vault, &key);
    vault.write(&key, &record("two")).await.unwrap();
    assert_eq!(vault.read_kept(&key, URL).await, Ok(Some(record("two"))));
}

#[tokio::test]
async fn two_places_for_logins_have_an_entry_each_and_two_ways_to_one_place_have_the_same() {
    let fake = Fake::default();
    let (dir, vault, key) = with(fake.keyring());
    let (_other, other, _) = with(fake.keyring());
    vault.write(&key, &record("one")).await.unwrap();
    other.write(&key, &record("two")).await.unwrap();
    assert_eq!(vault.read(&key, URL).await, Ok(Some(record("one"))));
    assert_eq!(other.read(&key, URL).await, Ok(Some(record("two"))));
    let same = TokenStore::new(dir.path().join("a").join("..").join("a").join("logins"), fake.keyring());
    assert_eq!(same.read(&key, URL).await, Ok(Some(record("one"))));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_stays_busy_is_no_reason_for_a_login() {
    let (_dir, vault, key) = vault();
    let _held = vault.lock(&key).await.unwrap();
    assert!(matches!(vault.lock(&key).await, Err(AuthError::Busy(why)) if why.contains("another process")));
}
