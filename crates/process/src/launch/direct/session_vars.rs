//! Variables that name a session, a window or a process of the user's desktop, shell or client. They differ at every start of
//! a client, and no launcher chooses by them what it starts.

use std::ffi::OsStr;

/// Their names. A server gets them as they are now, whatever was learned with other values.
const NAMES: [&str; 47] = [
    // Clients.
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CODEX_THREAD_ID",
    "COPILOT_SESSION_ID",
    "CURSOR_TRACE_ID",
    "GEMINI_SESSION_ID",
    "KILO_PID",
    "KILO_RUN_ID",
    "OPENCODE_PID",
    "OPENCODE_PROCESS_ROLE",
    "OPENCODE_RUN_ID",
    "QWEN_SESSION_ID",
    "VSCODE_CWD",
    "VSCODE_GIT_IPC_HANDLE",
    "VSCODE_IPC_HOOK",
    "VSCODE_IPC_HOOK_CLI",
    "VSCODE_PID",
    "ZED_TERM_SESSION_ID",
    // Terminals and multiplexers.
    "ALACRITTY_LOG",
    "ALACRITTY_SOCKET",
    "ALACRITTY_WINDOW_ID",
    "GNOME_TERMINAL_SCREEN",
    "GPG_TTY",
    "ITERM_SESSION_ID",
    "KITTY_PID",
    "KITTY_WINDOW_ID",
    "KONSOLE_DBUS_SESSION",
    "KONSOLE_DBUS_WINDOW",
    "STY",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "WEZTERM_PANE",
    "WEZTERM_UNIX_SOCKET",
    "WINDOW",
    "WINDOWID",
    // Desktops, logins and shells.
    "DESKTOP_STARTUP_ID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SESSION_MANAGER",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "XDG_ACTIVATION_TOKEN",
    "XDG_SESSION_ID",
];

/// Returns whether a variable has another value in every session or window.
pub(super) fn is_of_session(name: &OsStr) -> bool {
    NAMES.iter().any(|known| name == *known)
}
