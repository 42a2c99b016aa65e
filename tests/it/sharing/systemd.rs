//! The systemd scope of the host. Where `dbus-daemon` is not installed, these tests print `SKIPPED` and pass; with
//! `CI=true` or `DYNAMIC_MCP_REQUIRE_REAL=1` they fail instead.

use super::*;
use crate::support::session_bus::start_session_bus;
use crate::support::{Processes, TEST_TIMEOUT, are_installed};
use futures_util::StreamExt;
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use zbus::{MessageStream, OwnedVariant, connection::Builder};

/// The arguments of a `StartTransientUnit`.
type TransientUnit =
    (String, String, Vec<(String, OwnedVariant)>, Vec<(String, Vec<(String, OwnedVariant)>)>);

/// Is `org.freedesktop.systemd1` on a bus until the bus ends. Passes on the scopes that it is asked for, and never answers.
fn silent_systemd(bus: PathBuf) -> mpsc::Receiver<TransientUnit> {
    let (requests, requested) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let address = format!("unix:path={}", bus.display());
            let connection = Builder::address(address.as_str()).build().await.unwrap();
            let mut messages = MessageStream::from(&connection);
            connection.request_name("org.freedesktop.systemd1").await.unwrap();
            ready.send(()).unwrap();
            while let Some(Ok(message)) = messages.next().await {
                if message.header().member().is_some_and(|member| member.as_str() == "StartTransientUnit")
                    && requests.send(message.body().deserialize().unwrap()).is_err()
                {
                    return;
                }
            }
        });
    });
    is_ready.recv_timeout(TEST_TIMEOUT).unwrap();
    requested
}

#[test]
fn the_host_and_its_warden_get_a_systemd_scope_and_nothing_waits_for_it() {
    if !are_installed(&["dbus-daemon"]) {
        return;
    }
    let user = User::new();
    let _bus = start_session_bus(user.runtime.path());
    let requested = silent_systemd(user.runtime.path().join("bus"));
    let config = shared_config(&[]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    let (host, server) = (user.host(), a.upstream_pid("g"));
    assert_eq!(b.upstream_pid("g"), server);
    let (name, mode, properties, auxiliary) = requested.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((name, mode.as_str()), (format!("dynamic-mcp-host-{host}.scope"), "fail"));
    assert!(auxiliary.is_empty());
    let (_, pids) = properties.into_iter().find(|(name, _)| name == "PIDs").unwrap();
    let pids = Vec::<u32>::try_from(pids).unwrap();
    let [of_host, warden] = pids[..] else { panic!("{pids:?}") };
    assert_eq!(of_host, host);
    assert!(Processes::descendants_of(host).running().contains(&warden));
    assert!(Processes::descendants_of(warden).running().contains(&server));
    assert!(requested.try_recv().is_err());
}

#[test]
fn a_session_bus_that_does_not_answer_delays_no_window() {
    let user = User::new();
    let _bus = UnixListener::bind(user.runtime.path().join("bus")).unwrap();
    let config = shared_config(&[]);
    let (mut a, mut b) = two_windows(&user, &config, &json!({}));
    assert_eq!(a.upstream_pid("g"), b.upstream_pid("g"));
    assert_eq!(user.hosts().len(), 1);
}
