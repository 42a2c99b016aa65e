use super::*;
use std::collections::HashMap;

/// A keyring in memory, whose calls can be made to fail.
#[derive(Clone, Default)]
pub(crate) struct FakeKeyring {
    /// The texts of the entries, by user name.
    pub(crate) entries: Arc<Mutex<HashMap<String, String>>>,
    failure: Arc<Mutex<Option<KeyringError>>>,
    /// How many calls it has received.
    calls: Arc<Mutex<usize>>,
}

impl FakeKeyring {
    /// A keyring that may not ask the user.
    pub(crate) fn keyring(&self) -> Keyring {
        Keyring::new(self.clone(), false)
    }

    /// A keyring that may ask the user.
    pub(crate) fn keyring_with_user(&self) -> Keyring {
        Keyring::new(self.clone(), true)
    }

    /// Makes all calls fail with this error from now on; `TimedOut`: they never end.
    pub(crate) fn set_failure(&self, failure: Option<KeyringError>) {
        *self.failure.lock() = failure;
    }

    pub(crate) fn calls(&self) -> usize {
        *self.calls.lock()
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        change: impl FnOnce(&mut HashMap<String, String>) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, KeyringError>> {
        *self.calls.lock() += 1;
        let failure = self.failure.lock().clone();
        Box::pin(async move {
            match failure {
                Some(KeyringError::TimedOut) => std::future::pending().await,
                Some(error) => Err(error),
                None => Ok(change(&mut self.entries.lock())),
            }
        })
    }
}

impl KeyringBackend for FakeKeyring {
    fn unlock<'a>(&'a self, _entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>> {
        self.call(|_| ())
    }

    fn get<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<Option<Secret>, KeyringError>> {
        self.call(|entries| entries.get(&entry.username).cloned().map(Secret::new))
    }

    fn set<'a>(&'a self, entry: &'a KeyringEntry, text: Secret) -> BoxFuture<'a, Result<(), KeyringError>> {
        self.call(move |entries| drop(entries.insert(entry.username.clone(), text.expose().to_owned())))
    }

    fn remove<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>> {
        self.call(|entries| drop(entries.remove(&entry.username)))
    }
}

fn entry() -> KeyringEntry {
    KeyringEntry { username: "a-1".to_owned(), label: "login to a".to_owned(), content_type: "text/plain" }
}

#[tokio::test(start_paused = true)]
async fn a_keyring_that_is_locked_or_does_not_answer_is_not_asked_again_for_a_while() {
    let fake = FakeKeyring::default();
    let (keyring, entry) = (fake.keyring(), entry());
    for error in [KeyringError::TimedOut, KeyringError::Locked] {
        fake.set_failure(Some(error.clone()));
        let started = Instant::now();
        for _ in 0..3 {
            assert_eq!(keyring.get(&entry).await, Err(error.clone()));
        }
        assert!(started.elapsed() <= CALL_TIMEOUT);
        fake.set_failure(None);
        assert_eq!(keyring.get(&entry).await, Err(error));
        tokio::time::advance(RETRY_INTERVAL).await;
        assert_eq!(keyring.get(&entry).await, Ok(None));
    }
    assert_eq!(fake.calls(), 4);
}

#[tokio::test]
async fn a_keyring_that_rejects_a_login_is_asked_again_at_once() {
    let fake = FakeKeyring::default();
    let (keyring, entry) = (fake.keyring(), entry());
    fake.set_failure(Some(KeyringError::Failed("too long".to_owned())));
    assert!(keyring.set(&entry, Secret::new("t")).await.is_err());
    fake.set_failure(None);
    assert_eq!(keyring.set(&entry, Secret::new("t")).await, Ok(()));
}

#[cfg(all(unix, not(target_os = "macos")))]
#[tokio::test]
async fn without_a_bus_the_keyring_is_unavailable_at_once() {
    let entry = entry();
    let dir = tempfile::tempdir().unwrap();
    let closed_socket = dir.path().join("bus");
    drop(std::os::unix::net::UnixListener::bind(&closed_socket).unwrap());
    let path = dir.path().to_str().unwrap();
    for (name, value) in [
        ("XDG_RUNTIME_DIR", path.to_owned()),
        ("XDG_RUNTIME_DIR", format!("{path}/none")),
        ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={path}/none")),
        ("DBUS_SESSION_BUS_ADDRESS", "disabled:".to_owned()),
    ] {
        let keyring = Keyring::of_system(&Env::new([(name, value.as_str())], "/"), false);
        let started = Instant::now();
        assert_eq!(keyring.get(&entry).await, Err(KeyringError::Unavailable), "{name}={value}");
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}

/// It uses the credential manager of the user, for a moment.
#[cfg(windows)]
#[tokio::test]
async fn the_credential_manager_keeps_an_entry_until_it_is_removed() {
    let entry = KeyringEntry { username: format!("test {}", std::process::id()), ..entry() };
    let keyring = Keyring::of_system(&Env::new([("", ""); 0], "/"), false);
    keyring.set(&entry, Secret::new("s3cret ä")).await.unwrap();
    assert_eq!(keyring.get(&entry).await.unwrap().unwrap().expose(), "s3cret ä");
    keyring.remove(&entry).await.unwrap();
    assert!(keyring.get(&entry).await.unwrap().is_none());
}
