//! The built binary on a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};

use super::home::TempHome;
use super::wait_until;

/// Everything comes much sooner; on a busy machine a screen takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The binary on a terminal of its own.
pub struct Terminal {
    pub child: Child,
    pub keys: File,
    /// All that was written to it.
    pub seen: Arc<Mutex<String>>,
    slave: OwnedFd,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts it; the terminal sends it no signals.
    pub fn new(home: &TempHome, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start(home, args, env, false)
    }

    /// Starts it as a shell does: Ctrl-C and a hang-up are signals.
    pub fn controlling(home: &TempHome, args: &[&str]) -> Self {
        Self::start(home, args, &[], true)
    }

    fn start(home: &TempHome, args: &[&str], env: &[(&str, &str)], controls: bool) -> Self {
        let (master, slave) = open();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut command = home.command();
        command.args(args).env("TERM", "xterm").envs(env.iter().copied());
        command.stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
        if controls {
            control(&mut command);
        }
        let child = command.spawn().unwrap();
        drop(command);
        let keys = master;
        let mut screen = keys.try_clone().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let writer = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A terminal whose program has ended gives an error, not an end.
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                writer.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { child, keys, seen, slave, reader }
    }

    /// Waits for a text, then presses keys.
    pub fn at(&mut self, text: &str, keys: &str) {
        wait_until(text, LIMIT, || {
            let seen = self.seen.lock().unwrap();
            if seen.contains(text) { Ok(()) } else { Err(seen.clone()) }
        });
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Its modes at the moment.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.slave).unwrap()
    }

    /// How often a text was written.
    pub fn count(&self, text: &str) -> usize {
        self.seen.lock().unwrap().matches(text).count()
    }

    /// Waits until a text was written so often, then presses keys.
    pub fn at_number(&mut self, number: usize, text: &str, keys: &str) {
        wait_until(text, LIMIT, || {
            if self.count(text) >= number { Ok(()) } else { Err(self.seen.lock().unwrap().clone()) }
        });
        self.press(keys);
    }

    /// Waits for its end; returns the exit code and all that was written.
    pub fn end(mut self) -> (i32, String) {
        let status = wait_until("the end", LIMIT, || {
            self.child.try_wait().unwrap().ok_or_else(|| self.seen.lock().unwrap().clone())
        });
        // Once nobody has the terminal open, what was written last is read to its end.
        drop(self.slave);
        wait_until("the last words", LIMIT, || {
            if self.reader.is_finished() {
                Ok(())
            } else {
                Err("something keeps the terminal open".to_owned())
            }
        });
        (status.code().unwrap(), self.seen.lock().unwrap().clone())
    }
}

/// Opens both ends of a terminal of 40 lines. No child of another test inherits them: the end of one would never be seen.
fn open() -> (File, OwnedFd) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname_r(&master).unwrap();
    let slave =
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(name).unwrap();
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is a terminal's, and the size lives until the call returns.
    let set = unsafe { nix::libc::ioctl(master.as_raw_fd(), nix::libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(set, 0);
    (File::from(master.as_fd().try_clone_to_owned().unwrap()), slave.into())
}

/// Makes standard input the controlling terminal of the child, in a session of its own.
fn control(command: &mut Command) {
    // SAFETY: setsid(2) and ioctl(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            match nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}
