use super::*;
use crate::config::GroupName;
use std::collections::HashMap;

/// A keyring that does as it is told.
#[derive(Clone, Default)]
pub(in crate::auth) struct Fake {
    pub(in crate::auth) entries: Arc<Mutex<HashMap<String, String>>>,
    pub(in crate::auth) trouble: Arc<Mutex<Option<Unusable>>>,
    /// How often it was asked.
    pub(in crate::auth) asked: Arc<Mutex<usize>>,
}

impl Fake {
    pub(in crate::auth) fn keyring(&self) -> Keyring {
        Keyring::new(self.clone(), false)
    }

    /// With a person.
    pub(in crate::auth) fn at_hand(&self) -> Keyring {
        Keyring::new(self.clone(), true)
    }

    pub(in crate::auth) fn fails(&self, trouble: Option<Unusable>) {
        *self.trouble.lock() = trouble;
    }

    /// A silent one never answers.
    fn does<'a, T: Send + 'a>(
        &'a self,
        what: impl FnOnce(&mut HashMap<String, String>) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, Unusable>> {
        *self.asked.lock() += 1;
        let trouble = self.trouble.lock().clone();
        Box::pin(async move {
            match trouble {
                Some(Unusable::Silent) => std::future::pending().await,
                Some(trouble) => Err(trouble),
                None => Ok(what(&mut self.entries.lock())),
            }
        })
    }
}

impl Ring for Fake {
    fn unlock<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>> {
        self.does(|_| ())
    }

    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Secret>, Unusable>> {
        self.does(|entries| entries.get(key.id()).cloned().map(Secret::new))
    }

    fn put<'a>(&'a self, key: &'a Key, text: Secret) -> BoxFuture<'a, Result<(), Unusable>> {
        self.does(move |entries| drop(entries.insert(key.id().to_owned(), text.expose().to_owned())))
    }

    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>> {
        self.does(|entries| drop(entries.remove(key.id())))
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_silent_or_locked_is_left_alone_for_a_while() {
    let fake = Fake::default();
    let (keyring, key) = (fake.keyring(), Key::new(&GroupName::new("a"), "https://a.example/", None));
    for trouble in [Unusable::Silent, Unusable::Locked] {
        fake.fails(Some(trouble.clone()));
        let begin = Instant::now();
        for _ in 0..3 {
            assert_eq!(keyring.get(&key).await, Err(trouble.clone()));
        }
        assert!(begin.elapsed() <= PATIENCE);
        fake.fails(None);
        assert_eq!(keyring.get(&key).await, Err(trouble));
        tokio::time::advance(HOLD).await;
        assert_eq!(keyring.get(&key).await, Ok(None));
    }
    assert_eq!(*fake.asked.lock(), 4);
}

#[tokio::test]
async fn one_that_refuses_a_login_may_take_another() {
    let fake = Fake::default();
    let (keyring, key) = (fake.keyring(), Key::new(&GroupName::new("a"), "https://a.example/", None));
    fake.fails(Some(Unusable::Failed("too long".to_owned())));
    assert!(keyring.put(&key, Secret::new("t")).await.is_err());
    fake.fails(None);
    assert_eq!(keyring.put(&key, Secret::new("t")).await, Ok(()));
}

#[cfg(all(unix, not(target_os = "macos")))]
#[tokio::test]
async fn where_there_is_no_bus_there_is_no_keyring_and_nobody_waits() {
    let key = Key::new(&GroupName::new("a"), "https://a.example/", None);
    let dir = tempfile::tempdir().unwrap();
    let nobody = dir.path().join("bus");
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    let path = dir.path().to_str().unwrap();
    for (name, value) in [
        ("XDG_RUNTIME_DIR", path.to_owned()),
        ("XDG_RUNTIME_DIR", format!("{path}/none")),
        ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={path}/none")),
        ("DBUS_SESSION_BUS_ADDRESS", "disabled:".to_owned()),
    ] {
        let keyring = Keyring::of_system(&Env::new([(name, value.as_str())], "/"), false);
        let begin = Instant::now();
        assert_eq!(keyring.get(&key).await, Err(Unusable::Missing), "{name}={value}");
        assert!(begin.elapsed() < Duration::from_secs(1));
    }
}
