//! Makes our program the host.
//!
//! It happens in two steps, each a program of its own. The first one leaves the session of the instance that started it,
//! starts the second one and exits, so that the host is no descendant of that instance: clients end an instance by
//! killing its whole tree. The second one closes what it inherited, listens, reports that on stdout, and serves.

use super::listener::HostSocket;
use crate::MODE_ARG;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{dup2_stdout, setsid};
use process::descriptors::close_other_descriptors;
use process::own_program::own_program;
use process::runtime_dir::RuntimeDir;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The last argument of the second step.
const SECOND_STEP: &str = "serve";

/// Runs the host, given the arguments after the mode: the runtime directory, the path of the socket, and the soft
/// RLIMIT_NOFILE of servers.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let done = match &args[..] {
        [_, _, _] => launch(&args),
        [dir, socket, nofile, step] if step == SECOND_STEP => {
            serve(dir.into(), socket.into(), nofile.to_str().and_then(|text| text.parse().ok()))
        }
        _ => return ExitCode::from(2),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The first step: starts the second one outside of the instance's session, and returns at once.
///
/// # Errors
///
/// Fails if it cannot be started.
fn launch(args: &[OsString]) -> io::Result<()> {
    // Fails only for the leader of a process group, which this process is not.
    setsid().ok();
    close_other_descriptors();
    Command::new(own_program()).arg0("dmcp-host").arg(MODE_ARG).args(args).arg(SECOND_STEP).spawn()?;
    Ok(())
}

/// The second step: listens, reports that, and serves until the host ends.
///
/// # Errors
///
/// Fails if the host cannot listen, or [`HostSocket::serve`] fails.
fn serve(dir: PathBuf, socket: PathBuf, nofile: Option<u64>) -> io::Result<()> {
    close_other_descriptors();
    nix::sys::prctl::set_name(c"dmcp-host")?;
    // The instance has raised its own limit. Servers get the original one.
    if let (Some(nofile), Ok((_, hard))) = (nofile, getrlimit(Resource::RLIMIT_NOFILE)) {
        setrlimit(Resource::RLIMIT_NOFILE, nofile.min(hard), hard)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = HostSocket::bind(RuntimeDir::open_at(dir)?, socket)?;
        report_ready()?;
        listener.serve().await
    })
}

/// Tells the instance that the host listens, and gives up stdout.
///
/// # Errors
///
/// Fails if stdout cannot be replaced. An instance that is gone is no error.
fn report_ready() -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the instance reads it")]
    let mut stdout = io::stdout();
    // The instance may be gone already, which ends nothing: others may come.
    drop(stdout.write_all(b"\n").and_then(|()| stdout.flush()));
    dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}
