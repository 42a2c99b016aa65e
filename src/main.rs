//! The binary.
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: the warden must stay one thread with nothing open.
    #[cfg(unix)]
    if std::env::args_os().nth(1).is_some_and(|mode| mode == dynamic_mcp::transport::warden::MODE) {
        return dynamic_mcp::transport::warden::run();
    }
    ExitCode::SUCCESS
}
