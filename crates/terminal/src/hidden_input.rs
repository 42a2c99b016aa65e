//! A terminal that does not show what is typed.

use std::io;

/// While it lives, the terminal does not show what is typed.
#[cfg(unix)]
pub struct HiddenInput {
    before: nix::sys::termios::Termios,
}

#[cfg(unix)]
impl HiddenInput {
    /// Begins. What was typed before and not read yet is discarded.
    ///
    /// # Errors
    ///
    /// Fails if stdin is no terminal.
    pub fn start() -> io::Result<Self> {
        use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &hidden)?;
        Ok(Self { before })
    }
}

#[cfg(unix)]
impl Drop for HiddenInput {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        // Fails only if the terminal is gone.
        tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before).ok();
    }
}

/// While it lives, the console does not show what is typed.
#[cfg(windows)]
pub struct HiddenInput {
    before: u32,
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "the mode of a console has no safe wrapper")]
mod console {
    use super::{HiddenInput, io};
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::System::Console::{ENABLE_ECHO_INPUT, GetConsoleMode, SetConsoleMode};

    impl HiddenInput {
        /// Begins.
        ///
        /// # Errors
        ///
        /// Fails if stdin is no console.
        pub fn start() -> io::Result<Self> {
            let mut before = 0;
            // SAFETY: the handle is open, and the mode is a number of ours.
            if unsafe { GetConsoleMode(io::stdin().as_raw_handle(), &raw mut before) } == 0 {
                return Err(io::Error::last_os_error());
            }
            set_mode(before & !ENABLE_ECHO_INPUT)?;
            Ok(Self { before })
        }
    }

    impl Drop for HiddenInput {
        fn drop(&mut self) {
            // Fails only if the console is gone.
            set_mode(self.before).ok();
        }
    }

    fn set_mode(mode: u32) -> io::Result<()> {
        // SAFETY: the handle is open.
        match unsafe { SetConsoleMode(io::stdin().as_raw_handle(), mode) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}
