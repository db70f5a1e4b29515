//! The modes of a terminal: taken over at the beginning and restored at the end, also after a panic.

use std::io::{self, Write as _};

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

/// The terminal of this process. Dropping it restores the original modes, also while a panic unwinds.
pub(crate) struct TerminalGuard {
    original: Termios,
    /// Set while the editor controls the terminal and has not finished reading.
    is_lent: bool,
}

/// Turns off bracketed paste, the one thing besides the modes that the editor switches on.
const DISABLE_BRACKETED_PASTE: &[u8] = b"\x1b[?2004l";

impl TerminalGuard {
    /// Remembers the modes and turns the echo off.
    pub(crate) fn take() -> io::Result<Self> {
        let mut screen = Self { original: tcgetattr(io::stdin())?, is_lent: false };
        screen.quiet();
        Ok(screen)
    }

    /// Keeps typed text for the next read without echoing it. Ctrl-C and similar keys still send signals.
    pub(crate) fn quiet(&mut self) {
        self.is_lent = false;
        let mut modes = self.original.clone();
        // Without ICANON a read returns after VMIN bytes, and VTIME 0 means that it waits without a limit.
        modes.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON);
        modes.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        modes.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        set(&modes);
    }

    /// Hands the terminal to the editor, which sets its own modes and later restores the modes it found.
    pub(crate) fn restore_for_editor(&mut self) {
        set(&self.original);
        self.is_lent = true;
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        set(&self.original);
        if self.is_lent && is_foreground() {
            let mut out = io::stdout().lock();
            // If the terminal is gone, there is nothing to restore.
            let _ = out
                .write_all(DISABLE_BRACKETED_PASTE)
                .and_then(|()| out.write_all(b"\n"))
                .and_then(|()| out.flush());
        }
    }
}

/// Returns `true` if this process is in the terminal's foreground process group.
///
/// Otherwise another job owns the terminal: its modes are left alone, and the kernel would stop a background process
/// that sets any (SIGTTOU).
fn is_foreground() -> bool {
    // The call fails if this is not the controlling terminal. Such a terminal has no foreground job to disturb.
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

fn set(modes: &Termios) {
    if is_foreground() {
        // Setting the modes fails only if the terminal has hung up, and then it has none.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, modes);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nix::pty::openpty;

    use super::*;

    /// The child process of the test below.
    #[test]
    #[ignore = "run by the other test in a process of its own, whose standard input is a terminal"]
    fn a_program_that_panics_while_it_edits() {
        // Without `--exact` a person runs all ignored tests, and this one would change the modes of their terminal.
        if !std::env::args().any(|argument| argument == "--exact") {
            return;
        }
        let before = tcgetattr(io::stdin()).unwrap();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut screen = TerminalGuard::take().unwrap();
            assert_ne!(tcgetattr(io::stdin()).unwrap(), before, "the terminal is quiet");
            screen.restore_for_editor();
            panic!("a defect");
        }));
        assert!(ended.is_err());
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let pty = openpty(None, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "ui::editor::terminal::tests::a_program_that_panics_while_it_edits";
        command
            .args(["--exact", "--ignored", "--nocapture", name])
            .stdin(Stdio::from(pty.slave.try_clone().unwrap()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("1 passed") && said.contains("\u{1b}[?2004l"), "{said:?}");
        assert_eq!(tcgetattr(&pty.slave).unwrap(), before);
    }
}
