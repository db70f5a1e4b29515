//! The keeper: a process of flock's own between flock and a program on the host. It runs the program, and as a
//! subreaper it adopts all processes that the program leaves behind. All of them can therefore be ended, whatever
//! environment, process group or session they have chosen. Only a process that another service of the machine starts
//! for the program is out of its reach.
//!
//! Its standard input is a socket to the flock process that runs the turn. The program's input arrives there. The end
//! of this stream means that the turn is given up, also by a `kill -9` of flock. The result of the turn goes back over
//! it. Arguments, environment, working folder and output belong to the program.

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

/// Time that remaining processes have to end by themselves after the program has ended, and then time to end after
/// SIGTERM.
const EXIT_GRACE: Duration = Duration::from_millis(200);
const SIGTERM_GRACE: Duration = Duration::from_secs(1);
/// Interval between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Most bytes of the line with the length of the input.
const MAX_LENGTH_LINE: u64 = 24;

/// The processes that a program left running, as the keeper reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrphanCounts {
    /// Number of remaining processes that were ended.
    pub ended: usize,
    /// Number of remaining processes that could not be ended, because they belong to another user.
    pub out_of_reach: usize,
}

impl OrphanCounts {
    /// Returns the note for people. `None` if nothing was left.
    #[must_use]
    pub fn note(self, title: &str) -> Option<String> {
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

/// The keeper's report: the error number if the program could not be started, or the processes that it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubreaperReport {
    Unstarted(i32),
    Left(OrphanCounts),
}

impl SubreaperReport {
    fn line(self) -> String {
        match self {
            Self::Unstarted(number) => format!("unstarted {number}\n"),
            Self::Left(OrphanCounts { ended, out_of_reach }) => format!("left {ended} {out_of_reach}\n"),
        }
    }

    /// Parses a report. Returns `None` if the keeper was killed before it wrote one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let first = words.next()?;
        let mut number = || words.next()?.parse::<i32>().ok();
        match first {
            "unstarted" => Some(Self::Unstarted(number()?)),
            "left" => {
                let mut count = || usize::try_from(number()?).ok();
                Some(Self::Left(OrphanCounts { ended: count()?, out_of_reach: count()? }))
            }
            _ => None,
        }
    }
}

/// Returns the message that flock sends first: a line with the length of the program's input, and the input.
pub(crate) fn encode_input(input: &[u8]) -> Vec<u8> {
    [format!("{}\n", input.len()).as_bytes(), input].concat()
}

fn read_input(flock: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    flock.take(MAX_LENGTH_LINE).read_line(&mut line)?;
    let length: u64 = line.trim_end().parse().map_err(io::Error::other)?;
    let mut input = Vec::new();
    flock.take(length).read_to_end(&mut input)?;
    Ok(input)
}

/// Runs a program to its end, ends the processes that it leaves, and returns its exit code, or 128 plus the signal.
/// `turn` is the mark in the environment of the program.
///
/// # Errors
///
/// Returns an error if standard input is not the socket, or the report cannot be written.
pub fn hold(turn: &str, command: &[OsString]) -> io::Result<u8> {
    let mut flock = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut orders = BufReader::new(flock.try_clone()?);
    let input = read_input(&mut orders)?;
    let started = become_subreaper().and_then(|()| start(turn, command));
    let (program, stdin) = match started {
        Ok(started) => started,
        Err(error) => {
            let told = SubreaperReport::Unstarted(error.raw_os_error().unwrap_or(Errno::EINVAL as i32));
            flock.write_all(told.line().as_bytes())?;
            // 127 is what a shell returns for a program that cannot be started.
            return Ok(127);
        }
    };
    if let Some(mut stdin) = stdin {
        // A program may end without reading its whole input, or never read. The thread keeps this from blocking the
        // keeper.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let is_given_up = Arc::new(AtomicBool::new(false));
    let gives_up = is_given_up.clone();
    std::thread::spawn(move || {
        let mut piece = [0; 64];
        // flock sends nothing more. Unexpected bytes do not count as the end.
        while matches!(orders.read(&mut piece), Ok(1..)) {}
        gives_up.store(true, Ordering::Relaxed);
        table::end(all);
    });
    let code = ended(program)?;
    let left = if is_given_up.load(Ordering::Relaxed) {
        // The other thread is ending them already. This call makes sure that it is finished before the process exits.
        table::end(all);
        OrphanCounts::default()
    } else {
        clear()
    };
    // If flock is gone, nobody reads the report.
    let _ = flock.write_all(SubreaperReport::Left(left).line().as_bytes());
    Ok(code)
}

/// Makes this process a subreaper: orphaned descendants become its children.
fn become_subreaper() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

fn start(turn: &str, command: &[OsString]) -> io::Result<(i32, Option<std::process::ChildStdin>)> {
    let (file, arguments) = command.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut child = Command::new(file)
        .args(arguments)
        .env(env::TURN.name, turn)
        .stdin(Stdio::piped())
        // A group of its own, so that signals to the program's group do not reach the keeper.
        .process_group(0)
        .spawn()?;
    Ok((i32::try_from(child.id()).unwrap_or(0), child.stdin.take()))
}

/// Waits until the program has ended. Meanwhile it collects the status of every other child.
fn ended(program: i32) -> io::Result<u8> {
    loop {
        // Adopted processes end too. Without this they would stay as zombies.
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

/// Ends the processes that the program has left: first it waits, then it sends SIGTERM, then SIGKILL.
fn clear() -> OrphanCounts {
    let left = wait_until_gone(EXIT_GRACE);
    for one in &left {
        let _ = table::signal(*one, Signal::SIGTERM);
        // A stopped process would not handle SIGTERM before it continues.
        let _ = table::signal(*one, Signal::SIGCONT);
    }
    wait_until_gone(SIGTERM_GRACE);
    let out_of_reach = table::end(all).len();
    OrphanCounts { ended: left.len().saturating_sub(out_of_reach), out_of_reach }
}

/// Waits until no process is left or the time is over. Returns the remaining processes.
fn wait_until_gone(limit: Duration) -> Vec<ProcessId> {
    let until = Instant::now() + limit;
    // Polling is enough for waits this short.
    loop {
        let left = all();
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn all() -> Vec<ProcessId> {
    table::below(ProcessId::current(), is_supervisor)
}

/// Returns `true` for a flock supervisor that a program has started. It must outlive its caller, as `flock start`
/// promises.
pub(crate) fn is_supervisor(pid: i32) -> bool {
    let Ok(line) = fs_err::read(format!("/proc/{pid}/cmdline")) else { return false };
    let mut words = line.split(|byte| *byte == 0);
    // Linux appends this to the path of a program that was replaced, for example by an update.
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
    fn reports_and_input_survive_encoding() {
        for told in
            [SubreaperReport::Unstarted(2), SubreaperReport::Left(OrphanCounts { ended: 3, out_of_reach: 1 })]
        {
            assert_eq!(SubreaperReport::read(&told.line()), Some(told));
        }
        for nothing in ["", "left", "left 1", "left -1 0", "left x 0", "unstarted", "other 1 2"] {
            assert_eq!(SubreaperReport::read(nothing), None, "{nothing:?}");
        }
        let handed = [encode_input(b"one\ntwo"), b"more".to_vec()].concat();
        assert_eq!(read_input(&mut &handed[..]).unwrap(), b"one\ntwo");
        assert!(read_input(&mut &b"x\n"[..]).is_err() && read_input(&mut &b""[..]).is_err());
    }
}
