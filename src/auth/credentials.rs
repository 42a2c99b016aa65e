//! The login as the transport sees it: a header for each request, a verdict on each refusal.

use super::vault::Vault;
use super::{Account, Remedy, Secret, Trouble};
use crate::config::{Flow, GroupName, Http};
use crate::transport::remote::credentials::{Begun, BoxFuture, Credentials, Logins, Refusal, Verdict};
use crate::transport::remote::fault::Fault;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use std::sync::Arc;
use std::time::SystemTime;

/// The logins of this user. Without a vault nobody is logged in.
pub struct Kept(pub Option<Vault>);

impl Logins for Kept {
    fn of(&self, group: &GroupName, http: &Http) -> Result<Arc<dyn Credentials>, Fault> {
        if is_written(http) {
            return Ok(Arc::new(Written));
        }
        let Some(vault) = self.0.clone() else {
            return Err(Fault::config("there is no place for logins: HOME is not set"));
        };
        let account = Account::new(group, http, vault).map_err(|trouble| fault(&trouble))?;
        Ok(Arc::new(Bearer(account)))
    }

    fn changed(&self, group: &GroupName, http: &Http) -> BoxFuture<'static, Option<SystemTime>> {
        let vault = self.0.clone().filter(|_| !is_written(http));
        let key = super::place(group, http).map(|(_, key)| key);
        Box::pin(async move { vault?.changed(&key.ok()?).await })
    }

    fn settled(&self) -> BoxFuture<'static, ()> {
        let vault = self.0.clone();
        Box::pin(async move {
            if let Some(vault) = vault {
                vault.errands.settled().await;
            }
        })
    }

    fn begin(&self, group: &GroupName, http: &Http) -> BoxFuture<'static, Result<Option<Begun>, Fault>> {
        let alone = http.oauth.as_ref().is_some_and(|oauth| oauth.flow == Flow::ClientCredentials);
        let vault = self.0.clone().filter(|_| !alone && !is_written(http));
        let account = vault.map(|vault| Account::new(group, http, vault));
        Box::pin(async move {
            let Some(account) = account else { return Ok(None) };
            let begun = async { account?.begin().await };
            let super::Begun::Waiting(login) = begun.await.map_err(|trouble| fault(&trouble))? else {
                return Ok(None);
            };
            let url = login.url().to_string();
            let done =
                Box::pin(async move { login.finish().await.map(drop).map_err(|trouble| fault(&trouble)) });
            Ok(Some(Begun { url, done }))
        })
    }
}

fn is_written(http: &Http) -> bool {
    http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
}

/// The config has the header itself.
struct Written;

impl Credentials for Written {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Fault>> {
        Box::pin(async { Ok(None) })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Verdict> {
        let verdict = match refusal.status {
            StatusCode::UNAUTHORIZED => {
                let how = "the server refused the Authorization in \"headers\"";
                Verdict::Final(Fault::login_needed(how))
            }
            _ => Verdict::Unrelated,
        };
        Box::pin(async { verdict })
    }
}

struct Bearer(Arc<Account>);

impl Credentials for Bearer {
    fn authorization(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Fault>> {
        Box::pin(async {
            match self.0.token().await {
                Ok(token) => Ok(token.as_ref().and_then(header)),
                // There is no login any more. If the server needs one, it refuses this, and then that is said again.
                Err(trouble @ (Trouble::LoginNeeded(_) | Trouble::Refused(_))) => {
                    tracing::debug!(%trouble, "there is no token for a request");
                    Ok(None)
                }
                Err(trouble) => Err(fault(&trouble)),
            }
        })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Verdict> {
        Box::pin(async move {
            let challenge = refusal.challenge.as_ref().and_then(|value| value.to_str().ok());
            let sent = refusal.sent.as_ref().and_then(|value| value.to_str().ok());
            let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).map(Secret::new);
            let forbidden = refusal.status == StatusCode::FORBIDDEN;
            match self.0.refused(forbidden, challenge, sent).await {
                Ok(Remedy::Again) => Verdict::Again,
                Ok(Remedy::Unrelated) => Verdict::Unrelated,
                // What this request lacks, others may do without: the connection is as good as before.
                Err(Trouble::LoginNeeded(how)) if forbidden => {
                    Verdict::Final(Fault::rights_needed(refusal.status, &how))
                }
                Err(trouble) if forbidden => {
                    Verdict::Final(Fault::status(refusal.status, Some(&trouble.to_string())))
                }
                Err(trouble) => Verdict::Final(fault(&trouble)),
            }
        })
    }
}

fn header(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn fault(trouble: &Trouble) -> Fault {
    match trouble {
        Trouble::LoginNeeded(how) => Fault::login_needed(how),
        Trouble::Unreachable(why) => Fault::unreachable(&format!("its login cannot be renewed: {why}")),
        Trouble::Refused(why) => Fault::login_failed(why),
        // Another login would not help.
        Trouble::Store(why) => Fault::config(format!("its login cannot be used: {why}")),
        // It may be unlocked, or free, any time.
        Trouble::Keyring(_, why) | Trouble::Busy(why) => Fault::unreachable(why),
    }
}
