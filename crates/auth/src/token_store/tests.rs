use super::*;
use crate::keyring::tests::FakeKeyring;
use base::clock::unix_time_s;
use config::GroupName;
use std::path::Path;
use std::time::SystemTime;

const URL: &str = "https://a.example/";
const OTHER_URL: &str = "https://b.example/";

/// Operations on one login, each under its lock.
impl TokenStore {
    fn at(&self, key: &StoreKey) -> LoginEntry {
        self.entry(key.clone(), URL)
    }

    fn file(&self, key: &StoreKey) -> PathBuf {
        self.at(key).file()
    }

    async fn read(&self, key: &StoreKey, url: &str) -> Result<Option<StoredLogin>, AuthError> {
        self.entry(key.clone(), url).read().await
    }

    async fn write(&self, key: &StoreKey, login: &StoredLogin) -> Result<(), AuthError> {
        self.at(key).lock().await?.write(login).await
    }

    async fn save(&self, key: &StoreKey, login: &StoredLogin, previous: Option<StoredLogin>) {
        self.at(key).lock().await.unwrap().save(login, previous).await;
    }

    async fn remove(&self, key: &StoreKey) -> Result<Option<KeyringError>, AuthError> {
        self.at(key).lock().await?.remove().await
    }
}

/// A store without a keyring in a new directory.
fn file_store() -> (tempfile::TempDir, TokenStore, StoreKey) {
    store_with(Keyring::disabled())
}

fn store_with(keyring: Keyring) -> (tempfile::TempDir, TokenStore, StoreKey) {
    let dir = tempfile::tempdir().unwrap();
    let store = TokenStore::new(dir.path().join("a").join("logins"), keyring);
    (dir, store, StoreKey::new(&GroupName::new("a/../b"), URL, None))
}

fn login(token: &str) -> StoredLogin {
    StoredLogin { access_token: Some(Secret::new(token)), ..StoredLogin::new(URL) }
}

fn file_text(store: &TokenStore, key: &StoreKey) -> String {
    fs::read_to_string(store.file(key)).unwrap()
}

/// The text of the login's entry in the keyring.
fn entry_text(fake: &FakeKeyring, store: &TokenStore, key: &StoreKey) -> String {
    fake.entries.lock()[&key.keyring_entry(&store.dir).username].clone()
}

/// Keeps this process from writing the login's file, whichever user runs it. Returns the obstacle.
fn obstruct(store: &TokenStore, key: &StoreKey) -> PathBuf {
    let temporary = store.file(key).with_extension(format!("{}.tmp", std::process::id()));
    fs::create_dir_all(temporary.join("obstacle")).unwrap();
    temporary
}

#[tokio::test]
async fn a_login_is_read_only_for_the_address_it_was_written_for() {
    let (_dir, store, key) = file_store();
    assert_eq!(store.read(&key, URL).await, Ok(None));
    store.write(&key, &login("one")).await.unwrap();
    store.write(&key, &login("two")).await.unwrap();
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("two"))));
    assert_eq!(store.read(&key, OTHER_URL).await, Ok(None));
    store.remove(&key).await.unwrap();
    store.remove(&key).await.unwrap();
    assert_eq!(store.read(&key, URL).await, Ok(None));
}

#[test]
fn each_account_has_its_own_file_inside_the_directory() {
    let key = |name, url, client| StoreKey::new(&GroupName::new(name), url, client);
    let one = key("a", URL, None);
    for other in [key("b", URL, None), key("a", OTHER_URL, None), key("a", URL, Some("id"))] {
        assert_ne!(one, other);
    }
    let file = TokenStore::new("/dir".into(), Keyring::disabled()).file(&key("../../é x", URL, None));
    assert_eq!(file.parent(), Some(Path::new("/dir")));
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_a_login() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, store, key) = file_store();
    store.write(&key, &login("t")).await.unwrap();
    let file = store.file(&key);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let Err(AuthError::Store(message)) = store.read(&key, URL).await else { panic!("read") };
    assert!(message.contains("chmod 600"), "{message}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_others_can_change_is_refused_for_reading_writing_and_locking() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, store, key) = file_store();
    store.write(&key, &login("t")).await.unwrap();
    fs::set_permissions(&store.dir, fs::Permissions::from_mode(0o777)).unwrap();
    let message = |error| match error {
        AuthError::Store(message) => message,
        other => panic!("{other}"),
    };
    for error in [
        store.read(&key, URL).await.unwrap_err(),
        store.write(&key, &login("t")).await.unwrap_err(),
        store.check_writable().await.unwrap_err(),
        store.at(&key).lock().await.err().unwrap(),
    ] {
        let message = message(error);
        assert!(message.contains(&format!("run `chmod 700 {}`", store.dir.display())), "{message}");
    }
}

#[tokio::test]
async fn temporary_files_of_a_killed_process_are_removed_when_a_login_is_written() {
    let (_dir, store, key) = file_store();
    store.write(&key, &login("t")).await.unwrap();
    let stale = store.file(&key).with_extension("1.tmp");
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    File::create(&stale).unwrap().set_modified(hours_ago).unwrap();
    store.write(&key, &login("t")).await.unwrap();
    assert!(!stale.exists());
    let mut names: Vec<_> = fs::read_dir(&store.dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|name| name.extension().is_none_or(|extension| extension != "lock"));
    assert_eq!(names, [store.file(&key)]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_symbolic_link_in_place_of_the_file_is_not_followed() {
    let (dir, store, key) = file_store();
    store.write(&key, &login("t")).await.unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(store.file(&key), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, store.file(&key)).unwrap();
    assert!(matches!(store.read(&key, URL).await, Err(AuthError::Store(_))));
    let before = fs::read(&elsewhere).unwrap();
    store.write(&key, &login("other")).await.unwrap();
    assert_eq!(fs::read(&elsewhere).unwrap(), before);
    assert!(!fs::symlink_metadata(store.file(&key)).unwrap().is_symlink());
}

#[tokio::test]
async fn a_damaged_file_counts_as_no_login() {
    let (_dir, store, key) = file_store();
    store.write(&key, &login("t")).await.unwrap();
    for text in ["", "{", "[]", r#"{"version": 2, "url": "https://a.example/"}"#] {
        fs::write(store.file(&key), text).unwrap();
        assert_eq!(store.read(&key, URL).await, Ok(None), "{text}");
    }
}

#[test]
fn the_format_of_a_login_is_stable() {
    let text = r#"{"version":1,"url":"https://a.example/","issuer":"https://i.example","client_id":"c","client_secret":"s","access_token":"a","refresh_token":"r","received_at":1,"expires_at":2,"granted":["x"],"asked":["x","y"],"wanted":["z"]}"#;
    let login: StoredLogin = serde_json::from_str(text).unwrap();
    assert_eq!((login.granted_scopes.len(), login.requested_scopes.len()), (1, 2));
    assert_eq!(login.missing_scopes, ["z"]);
    assert_eq!(serde_json::to_string(&login).unwrap(), text);
    let text = r#"{"version":1,"url":"https://a.example/","kept":"in the keyring"}"#;
    let file: LoginFile = serde_json::from_str(text).unwrap();
    assert!(matches!(&file, LoginFile::InKeyring(marker) if marker.url == URL));
    assert_eq!(serde_json::to_string(&file).unwrap(), text);
}

#[tokio::test]
async fn one_holder_at_a_time_locks_a_login() {
    let (_dir, store, key) = file_store();
    let first = store.at(&key).lock().await.unwrap();
    let entry = store.at(&key);
    let second = entry.lock();
    tokio::pin!(second);
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(waited.is_err(), "two hold the lock");
    drop(first);
    assert!(tokio::time::timeout(Duration::from_secs(5), second).await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiting_too_long_for_the_lock_is_reported_as_busy() {
    let (_dir, store, key) = file_store();
    let _held = store.at(&key).lock().await.unwrap();
    let error = store.at(&key).lock().await.err();
    assert!(matches!(error, Some(AuthError::Busy(message)) if message.contains("another process")));
}

#[test]
fn a_token_is_refreshed_before_it_expires_but_not_before_its_last_quarter() {
    let expiring = |age: u64, remaining: u64| StoredLogin {
        received_at: unix_time_s() - age,
        expires_at: Some(unix_time_s() + remaining),
        ..login("t")
    };
    assert!(login("t").fresh_token().is_some(), "it does not expire");
    assert!(expiring(0, 3600).fresh_token().is_some());
    assert!(expiring(3600, 20).fresh_token().is_none());
    assert!(expiring(3600, 20).valid_token().is_some());
    assert!(expiring(0, 8).fresh_token().is_some(), "a short-lived one is used too");
    assert!(expiring(8, 0).valid_token().is_none());
}

#[test]
fn debug_output_shows_no_token() {
    let login = StoredLogin {
        refresh_token: Some(Secret::new("MARKER-R")),
        client_secret: Some(Secret::new("MARKER-S")),
        ..login("MARKER-A")
    };
    assert!(!format!("{login:?}").contains("MARKER"));
}

#[tokio::test]
async fn a_login_in_the_keyring_leaves_only_a_marker_in_its_file() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = store_with(fake.keyring());
    for token in ["MARKER-1", "MARKER-2"] {
        let modified = store.at(&key).version().await;
        store.write(&key, &login(token)).await.unwrap();
        assert_ne!(store.at(&key).version().await, modified);
        assert_eq!(store.read(&key, URL).await, Ok(Some(login(token))));
        assert!(!file_text(&store, &key).contains("MARKER"));
        assert!(entry_text(&fake, &store, &key).contains(token));
    }
    let calls = fake.calls();
    assert_eq!(store.read(&key, OTHER_URL).await, Ok(None));
    assert_eq!(fake.calls(), calls, "the keyring is not asked for the login of another server");

    store.remove(&key).await.unwrap();
    assert!(fake.entries.lock().is_empty());
    assert_eq!(store.read(&key, URL).await, Ok(None));
}

#[tokio::test]
async fn a_login_in_a_file_moves_to_the_keyring_only_by_a_new_login() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = file_store();
    store.write(&key, &login("MARKER-1")).await.unwrap();
    let store = TokenStore { keyring: fake.keyring(), ..store };
    store.save(&key, &login("MARKER-2"), Some(login("MARKER-1"))).await;
    assert!(file_text(&store, &key).contains("MARKER-2"), "other processes may have no keyring");
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("MARKER-2"))));
    assert_eq!(fake.calls(), 0);
    store.write(&key, &login("MARKER-3")).await.unwrap();
    store.save(&key, &login("MARKER-4"), Some(login("MARKER-3"))).await;
    assert!(!file_text(&store, &key).contains("MARKER"));
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("MARKER-4"))));

    // If the keyring fails, the tokens are stored in the file rather than lost.
    fake.set_failure(Some(KeyringError::Failed("full".to_owned())));
    store.save(&key, &login("MARKER-5"), Some(login("MARKER-4"))).await;
    assert!(file_text(&store, &key).contains("MARKER-5"));
}

#[tokio::test(start_paused = true)]
async fn a_keyring_that_fails_is_reported_and_does_not_prevent_a_new_login() {
    for error in [
        KeyringError::Unavailable,
        KeyringError::Locked,
        KeyringError::TimedOut,
        KeyringError::Failed("too long".to_owned()),
    ] {
        let fake = FakeKeyring::default();
        let (_dir, store, key) = store_with(fake.keyring());
        store.write(&key, &login("one")).await.unwrap();
        fake.set_failure(Some(error.clone()));
        let Err(AuthError::Keyring(_, message)) = store.read(&key, URL).await else { panic!("{error}") };
        assert!(message.contains("login a/../b") && message.contains(&error.to_string()), "{message}");
        // A keyring that is there has to remove its entry first.
        if error != KeyringError::Unavailable {
            let Err(AuthError::Keyring(..)) = store.remove(&key).await else { panic!("{error}: removed") };
        }
        // The new login is stored in the file, and the older entry does not count when the keyring works again.
        store.write(&key, &login("two")).await.unwrap();
        assert_eq!(store.read(&key, URL).await, Ok(Some(login("two"))), "{error}");
        tokio::time::advance(Duration::from_secs(60)).await;
        fake.set_failure(None);
        assert_eq!(store.read(&key, URL).await, Ok(Some(login("two"))), "{error}");
        store.remove(&key).await.unwrap();
        assert!(fake.entries.lock().is_empty());
    }
}

#[tokio::test]
async fn a_login_that_moves_to_the_keyring_is_in_its_file_until_the_keyring_has_it() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = file_store();
    store.write(&key, &login("one")).await.unwrap();
    fake.set_failure(Some(KeyringError::TimedOut));
    let store = TokenStore { keyring: fake.keyring(), ..store };
    // Cancelled while the keyring does not answer, once the file has it.
    let second = login("two");
    let mut writing = Box::pin(store.write(&key, &second));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(store.file(&key)).is_ok_and(|text| text.contains("two")) {
        assert!(Instant::now() < deadline);
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut writing).await.is_err());
    }
    drop(writing);
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("two"))));
}

#[tokio::test]
async fn a_damaged_or_missing_keyring_entry_counts_as_no_login() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = store_with(fake.keyring());
    store.write(&key, &login("t")).await.unwrap();
    for text in ["", "{", r#"{"version": 2, "url": "https://a.example/"}"#] {
        fake.entries.lock().insert(key.keyring_entry(&store.dir).username, text.to_owned());
        assert_eq!(store.read(&key, URL).await, Ok(None), "{text}");
    }
    fake.entries.lock().clear();
    assert_eq!(store.read(&key, URL).await, Ok(None));
}

#[tokio::test]
async fn a_login_in_a_keyring_that_is_turned_off_is_reported() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = store_with(fake.keyring());
    store.write(&key, &login("t")).await.unwrap();
    let store = TokenStore { keyring: Keyring::disabled(), ..store };
    let Err(AuthError::Keyring(_, message)) = store.read(&key, URL).await else { panic!("read") };
    assert!(message.contains("`keyring` in `settings`"), "{message}");
}

#[tokio::test]
async fn tokens_that_cannot_be_written_are_used_and_written_later() {
    let (_dir, store, key) = file_store();
    store.write(&key, &login("one")).await.unwrap();
    let obstacle = obstruct(&store, &key);
    store.save(&key, &login("two"), Some(login("one"))).await;
    store.save(&key, &login("three"), Some(login("two"))).await;
    assert_eq!(store.clone().read(&key, URL).await, Ok(Some(login("three"))));
    store.at(&key).retry_unsaved().await;
    assert_eq!(store.at(&key).read_stored().await, Ok(Some(login("one"))));
    fs::remove_dir_all(&obstacle).unwrap();

    let lock = store.at(&key).lock().await.unwrap();
    store.at(&key).retry_unsaved().await;
    assert_eq!(store.at(&key).read_stored().await, Ok(Some(login("one"))), "another process has the lock");
    drop(lock);
    store.at(&key).retry_unsaved().await;
    assert_eq!(store.at(&key).read_stored().await, Ok(Some(login("three"))));

    obstruct(&store, &key);
    store.save(&key, &login("four"), Some(login("three"))).await;
    fs::remove_dir_all(&obstacle).unwrap();
    store.finish().await;
    assert_eq!(store.at(&key).read_stored().await, Ok(Some(login("four"))), "written at shutdown");
}

#[tokio::test]
async fn tokens_that_cannot_be_written_yield_to_a_login_or_logout_by_another_process() {
    let (_dir, store, key) = file_store();
    let other = TokenStore::new(store.dir.clone(), Keyring::disabled());
    store.write(&key, &login("one")).await.unwrap();
    let obstacle = obstruct(&store, &key);
    store.save(&key, &login("two"), Some(login("one"))).await;
    fs::remove_dir_all(&obstacle).unwrap();
    other.write(&key, &login("new")).await.unwrap();
    store.at(&key).retry_unsaved().await;
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("new"))));
    obstruct(&store, &key);
    store.save(&key, &login("newer"), Some(login("new"))).await;
    other.remove(&key).await.unwrap();
    assert_eq!(store.read(&key, URL).await, Ok(None));
}

#[tokio::test]
async fn refreshed_tokens_go_to_the_keyring_if_the_file_cannot_be_written() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = file_store();
    store.write(&key, &login("MARKER-1")).await.unwrap();
    let store = TokenStore { keyring: fake.keyring(), ..store };
    obstruct(&store, &key);
    store.save(&key, &login("MARKER-2"), Some(login("MARKER-1"))).await;
    assert!(entry_text(&fake, &store, &key).contains("MARKER-2"));
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("MARKER-2"))));
}

#[tokio::test]
async fn a_login_in_the_keyring_is_replaced_even_if_its_marker_cannot_be_written() {
    let fake = FakeKeyring::default();
    let (_dir, store, key) = store_with(fake.keyring());
    store.write(&key, &login("one")).await.unwrap();
    obstruct(&store, &key);
    store.write(&key, &login("two")).await.unwrap();
    assert_eq!(store.at(&key).read_stored().await, Ok(Some(login("two"))));
}

#[tokio::test]
async fn each_directory_has_its_own_keyring_entries_however_its_path_is_written() {
    let fake = FakeKeyring::default();
    let (dir, store, key) = store_with(fake.keyring());
    let (_other_dir, other, _) = store_with(fake.keyring());
    store.write(&key, &login("one")).await.unwrap();
    other.write(&key, &login("two")).await.unwrap();
    assert_eq!(store.read(&key, URL).await, Ok(Some(login("one"))));
    assert_eq!(other.read(&key, URL).await, Ok(Some(login("two"))));
    let same = TokenStore::new(dir.path().join("a").join("..").join("a").join("logins"), fake.keyring());
    assert_eq!(same.read(&key, URL).await, Ok(Some(login("one"))));
}

#[tokio::test(start_paused = true)]
async fn only_a_login_by_another_process_is_a_change_elsewhere() {
    let (_dir, store, key) = file_store();
    let other = TokenStore::new(store.dir.clone(), Keyring::disabled());
    let entry = store.at(&key);
    let is_changed = || entry.changed_elsewhere();
    assert_eq!(store.at(&key).cached().await, Ok(None));
    assert!(!is_changed().await, "there is none");
    store.write(&key, &login("one")).await.unwrap();
    assert!(!is_changed().await, "it is our own");
    other.write(&key, &login("two")).await.unwrap();
    assert!(is_changed().await);
    assert_eq!(store.at(&key).peek().await, Ok(Some(login("two"))));
    assert!(is_changed().await, "it was not used");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(store.at(&key).cached().await, Ok(Some(login("two"))));
    assert!(!is_changed().await);
    store.save(&key, &login("three"), Some(login("two"))).await;
    assert!(!is_changed().await);
    assert_eq!(store.at(&key).cached().await, Ok(Some(login("three"))), "every entry knows it at once");
    other.remove(&key).await.unwrap();
    assert!(!is_changed().await, "somebody logged out");
}
