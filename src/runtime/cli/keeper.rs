//! What stands between flock and a program on the host: a process of flock's own that runs the program and takes over
//! whatever the program's processes leave behind, so that all of it can be ended, whatever environment, group or
//! session it gave itself. Only what another service of the machine starts for the program is not its own.
//!
//! Its standard input is a socket to the flock that wants the turn. The program's input comes there, and the end of it
//! means that the turn is given up, also by `kill -9` of flock; what became of the turn goes back there. Everything else
//! it leaves to the program: arguments, environment, folder, output.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};

use crate::env;
use crate::process::{ProcessId, table};

/// How long what a program has started may take to end by itself once the program has ended, and then to end when it is
/// asked to.
const BY_ITSELF: Duration = Duration::from_millis(200);
const ASKED: Duration = Duration::from_secs(1);
/// How often is looked.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of the line with the length of the input.
const MOST_DIGITS: u64 = 24;

/// What became of a turn, as the keeper tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Processes that the program had left when it ended, and that were ended.
    pub ended: usize,
    /// Of these, those that could not be: they are another user's.
    pub out_of_reach: usize,
}

impl Left {
    /// What people are told of it; `None` where nothing was left.
    #[must_use]
    pub fn told(self, title: &str) -> Option<String> {
        let processes = |count: usize| match count {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        };
        let ended =
            (self.ended > 0).then(|| format!("ended {} that {title} had left", processes(self.ended)));
        let others = (self.out_of_reach > 0).then(|| {
            format!("{} that {title} had left can't be ended: not this user's", processes(self.out_of_reach))
        });
        let told: Vec<String> = ended.into_iter().chain(others).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// What is told: how the program could not be started, or what it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Unstarted(i32),
    Left(Left),
}

impl Told {
    fn line(self) -> String {
        match self {
            Self::Unstarted(number) => format!("unstarted {number}\n"),
            Self::Left(Left { ended, out_of_reach }) => format!("left {ended} {out_of_reach}\n"),
        }
    }

    /// Reads it back; `None` where the keeper was killed.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let first = words.next()?;
        let mut number = || words.next()?.parse::<i32>().ok();
        match first {
            "unstarted" => Some(Self::Unstarted(number()?)),
            "left" => {
                let mut count = || usize::try_from(number()?).ok();
                Some(Self::Left(Left { ended: count()?, out_of_reach: count()? }))
            }
            _ => None,
        }
    }
}

/// What goes to the keeper before anything else: the program's input, after a line with its length.
pub(super) fn handed(input: &[u8]) -> Vec<u8> {
    [format!("{}\n", input.len()).as_bytes(), input].concat()
}

fn taken(flock: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    flock.take(MOST_DIGITS).read_line(&mut line)?;
    let length: u64 = line.trim_end().parse().map_err(io::Error::other)?;
    let mut input = Vec::new();
    flock.take(length).read_to_end(&mut input)?;
    Ok(input)
}

/// Runs a program to its end, ends what it leaves, and gives its exit code, or 128 and the signal. `turn` marks what it
/// starts.
///
/// # Errors
///
/// If standard input is not the socket.
pub fn hold(turn: &str, command: &[OsString]) -> io::Result<u8> {
    let mut flock = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut orders = BufReader::new(flock.try_clone()?);
    let input = taken(&mut orders)?;
    let started = adopt().and_then(|()| start(turn, command));
    let (program, stdin) = match started {
        Ok(started) => started,
        Err(error) => {
            let told = Told::Unstarted(error.raw_os_error().unwrap_or(Errno::EINVAL as i32));
            flock.write_all(told.line().as_bytes())?;
            return Ok(127);
        }
    };
    if let Some(mut stdin) = stdin {
        // A program may end without reading all of it, or never read.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let is_given_up = Arc::new(AtomicBool::new(false));
    let gives_up = is_given_up.clone();
    std::thread::spawn(move || {
        let mut piece = [0; 64];
        // Nothing more is sent; what came by mistake is no end.
        while matches!(orders.read(&mut piece), Ok(1..)) {}
        gives_up.store(true, Ordering::Relaxed);
        table::end(all);
    });
    let code = ended(program)?;
    let left = if is_given_up.load(Ordering::Relaxed) {
        // The other thread is at it, and ends with this one.
        table::end(all);
        Left::default()
    } else {
        clear()
    };
    // Where flock is gone nobody wants to know.
    let _ = flock.write_all(Told::Left(left).line().as_bytes());
    Ok(code)
}

/// From now on what descends from this process becomes its child when its parent ends.
fn adopt() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

fn start(turn: &str, command: &[OsString]) -> io::Result<(i32, Option<std::process::ChildStdin>)> {
    let (file, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut child = Command::new(file)
        .args(arguments)
        .env(env::TURN.name, turn)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()?;
    Ok((i32::try_from(child.id()).unwrap_or(0), child.stdin.take()))
}

/// Waits until the program has ended, and takes note of every other end meanwhile.
fn ended(program: i32) -> io::Result<u8> {
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid.as_raw() == program => {
                return Ok(u8::try_from(code & 0xff).unwrap_or(u8::MAX));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid.as_raw() == program => {
                return Ok(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends what the program has left: by itself, asked, killed.
fn clear() -> Left {
    let left = gone(BY_ITSELF);
    for one in &left {
        let _ = table::signal(*one, Signal::SIGTERM);
        // One that is stopped would not hear of it.
        let _ = table::signal(*one, Signal::SIGCONT);
    }
    gone(ASKED);
    let out_of_reach = table::end(all).len();
    Left { ended: left.len().saturating_sub(out_of_reach), out_of_reach }
}

/// Waits until nothing is left, or the time is over; gives what is left.
fn gone(limit: Duration) -> Vec<ProcessId> {
    let until = Instant::now() + limit;
    loop {
        let left = all();
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(PAUSE);
    }
}

fn all() -> Vec<ProcessId> {
    table::below(ProcessId::current(), is_supervisor)
}

/// Whether this is a supervisor of flock's that a program has started: it is to outlive its caller, as `flock start`
/// promises.
pub(super) fn is_supervisor(pid: i32) -> bool {
    let Ok(line) = fs_err::read(format!("/proc/{pid}/cmdline")) else { return false };
    let mut words = line.split(|byte| *byte == 0);
    let own = |file: &Path| file.file_name().map(|name| name.to_string_lossy().replace(" (deleted)", ""));
    let theirs = fs_err::read_link(format!("/proc/{pid}/exe")).ok();
    let ours = std::env::current_exe().ok();
    words.any(|word| word == b"supervise")
        && theirs.as_deref().and_then(own).is_some_and(|name| ours.as_deref().and_then(own) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_back() {
        for told in [Told::Unstarted(2), Told::Left(Left { ended: 3, out_of_reach: 1 })] {
            assert_eq!(Told::read(&told.line()), Some(told));
        }
        for nothing in ["", "left", "left 1", "left -1 0", "left x 0", "unstarted", "other 1 2"] {
            assert_eq!(Told::read(nothing), None, "{nothing:?}");
        }
        let handed = [handed(b"one\ntwo"), b"more".to_vec()].concat();
        assert_eq!(taken(&mut &handed[..]).unwrap(), b"one\ntwo");
        assert!(taken(&mut &b"x\n"[..]).is_err() && taken(&mut &b""[..]).is_err());
    }
}
