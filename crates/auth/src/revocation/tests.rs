use super::*;
use crate::keyring::Keyring;
use crate::keyring::tests::FakeKeyring;
use crate::token_store::TokenStore;
use config::{GroupName, HttpConfig};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const URL: &str = "https://a.example/";

/// An account with a login (without tokens) that is stored in this keyring.
async fn logged_in_account(keyring: Keyring) -> (tempfile::TempDir, TokenStore, Arc<Account>) {
    let dir = tempfile::tempdir().unwrap();
    let store = TokenStore::new(dir.path().join("logins"), keyring);
    let account = account(&store);
    account.login.lock().await.unwrap().write(&StoredLogin::new(URL)).await.unwrap();
    (dir, store, account)
}

fn account(store: &TokenStore) -> Arc<Account> {
    let http =
        HttpConfig { url: URL.to_owned(), kind: None, headers: Vec::new(), ca_file: None, oauth: None };
    Account::new(&GroupName::new("a"), &http, store).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_free_while_the_user_unlocks_the_keyring() {
    let fake = FakeKeyring::default();
    let (_dir, _, account) = logged_in_account(fake.keyring_with_user()).await;
    fake.set_failure(Some(KeyringError::TimedOut));
    let (calls, started) = (fake.calls(), Instant::now());
    let logout = tokio::spawn({
        let account = account.clone();
        async move { account.log_out().await }
    });
    while fake.calls() == calls {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(account.login.lock().await.unwrap());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(matches!(logout.await.unwrap(), Err(AuthError::Keyring(..))));
    assert!(started.elapsed() > Duration::from_secs(50), "it waits for the user: {:?}", started.elapsed());
}

#[tokio::test]
async fn a_logout_without_the_keyring_removes_the_login_and_reports_that_an_entry_may_be_left() {
    let fake = FakeKeyring::default();
    for why in [KeyringError::Disabled, KeyringError::Unavailable] {
        fake.set_failure(None);
        let (_dir, store, _) = logged_in_account(fake.keyring()).await;
        fake.set_failure(Some(why.clone()));
        let account = account(&store);
        assert!(matches!(account.login.read().await, Err(AuthError::Keyring(..))));
        assert_eq!(account.log_out().await, Ok(LogoutOutcome::EntryLeft(why)));
        assert_eq!(account.login.read().await, Ok(None));
        assert_eq!(account.log_out().await, Ok(LogoutOutcome::NotLoggedIn));
    }
}

#[tokio::test(start_paused = true)]
async fn a_logout_with_a_locked_or_silent_keyring_fails_and_keeps_the_login() {
    for why in [KeyringError::Locked, KeyringError::TimedOut] {
        let fake = FakeKeyring::default();
        let (_dir, _, account) = logged_in_account(fake.keyring_with_user()).await;
        fake.set_failure(Some(why));
        let Err(AuthError::Keyring(_, message)) = account.log_out().await else { panic!("logged out") };
        assert!(message.ends_with("unlock it, then run `dynamic-mcp logout a` again"), "{message}");
        fake.set_failure(None);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(account.log_out().await, Ok(LogoutOutcome::NotLoggedIn), "the login has no tokens");
        assert_eq!(account.login.read().await, Ok(None));
    }
}
