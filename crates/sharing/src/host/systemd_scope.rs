//! Moves the host to a systemd scope, a control group of its own. Otherwise it stays in the control group of the
//! instance that happened to start it, and ends when that group is killed as a whole.

use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::{Error, OwnedObjectPath, Variant};

/// How long systemd may take. Nothing waits for it.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The name of the user's systemd on the session bus, and its interface: org.freedesktop.systemd1(5).
const BUS_NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const INTERFACE: &str = "org.freedesktop.systemd1.Manager";

/// Asks the user's systemd for a scope with these processes: the host and its warden. Every other process descends from
/// the warden. `dir` is the runtime directory of the host. Where there is no systemd, or it does not answer within
/// `TIMEOUT`, nothing changes.
pub(super) async fn enter(dir: PathBuf, pids: Vec<u32>) {
    let Some(bus) = bus_socket(&dir) else { return };
    match timeout(TIMEOUT, start_scope(&bus, pids)).await {
        Ok(Ok(())) => tracing::debug!("the host has a systemd scope of its own"),
        Ok(Err(error)) => tracing::debug!(%error, "the host gets no systemd scope"),
        Err(_) => tracing::debug!("systemd did not answer, so the host may have no scope"),
    }
}

/// Returns where systemd puts the socket of the session bus. The host inherits no environment that could name another
/// one.
fn bus_socket(dir: &Path) -> Option<PathBuf> {
    let base = match dir.file_name()?.to_str()? {
        "dynamic-mcp" => dir.parent()?.to_owned(),
        // The instance has no XDG_RUNTIME_DIR.
        _ => Path::new("/run/user").join(nix::unistd::getuid().to_string()),
    };
    Some(base.join("bus")).filter(|bus| bus.exists())
}

async fn start_scope(bus: &Path, pids: Vec<u32>) -> Result<(), Error> {
    let address = format!("unix:path={}", bus.display());
    let connection = Builder::address(address.as_str()).method_timeout(TIMEOUT).build().await?;
    let name = format!("dynamic-mcp-host-{}.scope", std::process::id());
    let properties = vec![
        ("Description", Variant::from("Shared servers of dynamic-mcp")),
        ("PIDs", Variant::from(pids)),
        // A scope that failed is not kept.
        ("CollectMode", Variant::from("inactive-or-failed")),
    ];
    let auxiliary_units: Vec<(&str, Vec<(&str, Variant<'_>)>)> = Vec::new();
    let body = (name, "fail", properties, auxiliary_units);
    let answer =
        connection.call_method(Some(BUS_NAME), PATH, Some(INTERFACE), "StartTransientUnit", &body).await?;
    answer.body().deserialize().map(|_job: OwnedObjectPath| ())
}
