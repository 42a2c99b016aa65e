//! The clients that upstreams feed. While one of them does not read, upstreams are not read either.

use crate::wire::output::Output;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub struct Audience(Mutex<Vec<Output>>);

impl Audience {
    pub fn attach(&self, client: Output) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }

    /// Returns when every client has room for more.
    pub async fn ready(&self) {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for client in clients {
            client.ready().await;
        }
    }
}
