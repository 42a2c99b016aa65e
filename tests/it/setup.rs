//! Failures are seen where people look: a wrong command line, a wrong config and servers that do not work are named in
//! the tool list, in search, in `get_status`, in messages to the client and in a log file.

mod child_env;
mod closed_outputs;
mod command_line;
// Users and modes.
#[cfg(unix)]
mod directories;
mod local_servers;
mod log_file;
// Elsewhere, desktops know the user's PATH.
#[cfg(unix)]
mod login_shell;
mod messages;
mod mistakes;
mod notes;
mod profiles;
