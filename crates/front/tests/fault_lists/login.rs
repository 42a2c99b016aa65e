//! The logins of the remote servers of a session: a user who opens the address has logged in three seconds later.

use crate::server::Servers;
use config::{GroupName, HttpConfig};
use futures_util::future::BoxFuture;
use http_client::credentials::{Credentials, LoginService, PendingLogin};
use http_client::error::RemoteError;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

pub(crate) struct Logins {
    servers: Arc<Servers>,
}

impl Logins {
    pub(crate) fn new(servers: Arc<Servers>) -> Arc<Self> {
        Arc::new(Self { servers })
    }
}

impl LoginService for Logins {
    fn credentials(&self, _: &GroupName, _: &HttpConfig) -> Result<Arc<dyn Credentials>, RemoteError> {
        unreachable!("servers in this process ask for no credentials")
    }

    fn changed_elsewhere(&self, group: &GroupName, _: &HttpConfig) -> BoxFuture<'static, bool> {
        let state = self.servers.0.get(group.as_str()).cloned();
        Box::pin(async move { state.is_some_and(|state| state.lock().has_new_login) })
    }

    fn begin_login(
        &self,
        group: &GroupName,
        _: &HttpConfig,
    ) -> BoxFuture<'static, Result<Option<PendingLogin>, RemoteError>> {
        let state = self.servers.0[group.as_str()].clone();
        Box::pin(async move {
            let done = Box::pin(async move {
                sleep(Duration::from_secs(3)).await;
                let mut state = state.lock();
                state.log_in();
                state.has_new_login = false;
                Ok(())
            });
            Ok(Some(PendingLogin { url: "http://127.0.0.1:1/login".to_owned(), done }))
        })
    }

    fn flush(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}
