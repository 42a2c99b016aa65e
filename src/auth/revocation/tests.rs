use super::*;
use crate::auth::keyring::tests::Fake;
use crate::auth::keyring::{Keyring, Unusable};
use crate::auth::vault::Vault;
use crate::config::{GroupName, Http};
use std::time::Duration;
use tokio::time::Instant;

const URL: &str = "https://a.example/";

/// Logged in, with a login that is in that keyring.
async fn kept_in(keyring: Keyring) -> (tempfile::TempDir, Vault, Arc<Account>) {
    let dir = tempfile::tempdir().unwrap();
    let vault = Vault::new(dir.path().join("logins"), keyring);
    let account = account(vault.clone());
    vault.write(&account.key, &Record::new(URL)).await.unwrap();
    (dir, vault, account)
}

fn account(vault: Vault) -> Arc<Account> {
    let http = Http { url: URL.to_owned(), kind: None, headers: Vec::new(), ca_file: None, oauth: None };
    Account::new(&GroupName::new("a"), &http, vault).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_person_who_unlocks_the_keyring() {
    let fake = Fake::default();
    let (_dir, vault, account) = kept_in(fake.at_hand()).await;
    fake.fails(Some(Unusable::Silent));
    let (asked, began) = (*fake.asked.lock().unwrap(), Instant::now());
    let logging_out = tokio::spawn({
        let account = account.clone();
        async move { account.log_out().await }
    });
    while *fake.asked.lock().unwrap() == asked {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(vault.lock(&account.key).await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(matches!(logging_out.await.unwrap(), Err(Trouble::Keyring(_))));
    assert!(began.elapsed() > Duration::from_secs(50), "it is waited for: {:?}", began.elapsed());
}
