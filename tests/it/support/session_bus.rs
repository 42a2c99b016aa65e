//! A session bus of one test: `dbus-daemon` with a socket `bus` in a directory of the test.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::wait_until;

const CONFIG: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=DIR/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>"#;

/// A process that is killed when it is dropped.
pub(crate) struct Daemon(pub(crate) Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts a bus whose socket is `dir`/bus.
pub(crate) fn start_session_bus(dir: &Path) -> Daemon {
    let config = dir.join("bus.conf");
    std::fs::write(&config, CONFIG.replace("DIR", dir.to_str().unwrap())).unwrap();
    let mut command = Command::new("dbus-daemon");
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).arg("--nofork").arg("--config-file").arg(config);
    let bus = Daemon(command.spawn().unwrap());
    // The socket is there a moment before the bus accepts connections.
    wait_until("there is a bus", || UnixStream::connect(dir.join("bus")).is_ok());
    bus
}
