use super::*;
use crate::auth::keyring::tests::Fake;
use crate::auth::keyring::{Keyring, Unusable};
use crate::auth::token_store::TokenStore;
use crate::config::{GroupName, HttpConfig};
use std::time::Duration;
use tokio::time::Instant;

const URL: &str = "https://a.example/";

/// Logged in, with a login that is in that keyring.
async fn kept_in(keyring: Keyring) -> (tempfile::TempDir, TokenStore, Arc<Account>) {
    let dir = tempfile::tempdir().unwrap();
    let vault = TokenStore::new(dir.path().join("logins"), keyring);
    let account = account(vault.clone());
    vault.write(&account.key, &Record::new(URL)).await.unwrap();
    (dir, vault, account)
}

fn account(vault: TokenStore) -> Arc<Account> {
    let http =
        HttpConfig { url: URL.to_owned(), kind: None, headers: Vec::new(), ca_file: None, oauth: None };
    Account::new(&GroupName::new("a"), &http, vault).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_person_who_unlocks_the_keyring() {
    let fake = Fake::default();
    let (_dir, vault, account) = kept_in(fake.at_hand()).await;
    fake.fails(Some(Unusable::Silent));
    let (asked, began) = (*fake.asked.lock(), Instant::now());
    let logging_out = tokio::spawn({
        let account = account.clone();
        async move { account.log_out().await }
    });
    while *fake.asked.lock() == asked {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(vault.lock(&account.key).await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(matches!(logging_out.await.unwrap(), Err(AuthError::Keyring(..))));
    assert!(began.elapsed() > Duration::from_secs(50), "it is waited for: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_login_whose_keyring_is_not_there_is_forgotten_and_that_an_entry_may_be_left_is_said() {
    let fake = Fake::default();
    for why in [Unusable::Off, Unusable::Missing] {
        fake.fails(None);
        let (_dir, vault, _) = kept_in(fake.keyring()).await;
        fake.fails(Some(why.clone()));
        let account = account(vault.clone());
        assert!(matches!(vault.read(&account.key, URL).await, Err(AuthError::Keyring(..))));
        assert_eq!(account.log_out().await, Ok(LogoutOutcome::Left(why)));
        assert_eq!(vault.read(&account.key, URL).await, Ok(None));
        assert_eq!(account.log_out().await, Ok(LogoutOutcome::Nothing));
    }
}

#[tokio::test(start_paused = true)]
async fn a_keyring_that_is_there_and_does_not_give_a_login_has_to_before_it_is_forgotten() {
    for why in [Unusable::Locked, Unusable::Silent] {
        let fake = Fake::default();
        let (_dir, vault, account) = kept_in(fake.at_hand()).await;
        fake.fails(Some(why));
        let Err(AuthError::Keyring(_, what)) = account.log_out().await else { panic!("forgotten") };
        assert!(what.ends_with("unlock it, then run `dynamic-mcp logout a` again"), "{what}");
        fake.fails(None);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(account.log_out().await, Ok(LogoutOutcome::Nothing), "it has no tokens");
        assert_eq!(vault.read(&account.key, URL).await, Ok(None));
    }
}
