//! The modes of a terminal, taken at the beginning and given back at the end, however that comes.

use std::io::{self, Write as _};

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

/// This process' terminal. Dropping it restores the modes it had, also while a panic unwinds.
pub struct Screen {
    original: Termios,
    /// The editor has the terminal, and is not done with it.
    is_lent: bool,
}

/// Ends what the editor asks of a terminal besides its modes: brackets around what is pasted.
const NO_BRACKETS: &[u8] = b"\x1b[?2004l";

impl Screen {
    /// Remembers the modes and makes the terminal quiet.
    pub fn take() -> io::Result<Self> {
        let mut screen = Self { original: tcgetattr(io::stdin())?, is_lent: false };
        screen.quiet();
        Ok(screen)
    }

    /// Keeps what is typed for the next read, without an echo. Ctrl-C and the like still send signals.
    pub fn quiet(&mut self) {
        self.is_lent = false;
        let mut modes = self.original.clone();
        modes.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON);
        modes.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        modes.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        set(&modes);
    }

    /// Gives the terminal to the editor, which sets its own modes and returns to those it found.
    pub fn lend(&mut self) {
        set(&self.original);
        self.is_lent = true;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        set(&self.original);
        if self.is_lent && is_ours() {
            let mut out = io::stdout().lock();
            // Where the terminal is gone nothing is left to restore.
            let _ = out.write_all(NO_BRACKETS).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
        }
    }
}

/// Whether the terminal is this process group's at the moment. The modes that another job set are left alone, and a
/// process in the background that set any would be stopped.
fn is_ours() -> bool {
    // One that does not control this process has no job of it either.
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

fn set(modes: &Termios) {
    if is_ours() {
        // A terminal that has hung up has no modes.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, modes);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use nix::pty::openpty;

    use super::*;

    /// What the child of the test below is.
    #[test]
    #[ignore = "run by the other test in a process of its own, whose standard input is a terminal"]
    fn a_program_that_panics_while_it_edits() {
        // Whoever runs all ignored tests has another terminal to lose.
        if !std::env::args().any(|argument| argument == "--exact") {
            return;
        }
        let before = tcgetattr(io::stdin()).unwrap();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut screen = Screen::take().unwrap();
            assert_ne!(tcgetattr(io::stdin()).unwrap(), before, "the terminal is quiet");
            screen.lend();
            panic!("a defect");
        }));
        assert!(ended.is_err());
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let pty = openpty(None, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "ui::editor::screen::tests::a_program_that_panics_while_it_edits";
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
