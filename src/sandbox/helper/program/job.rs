//! A started command: its process, its pipes, its output and the progress of its end.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::output_buffer::OutputBuffer;
use crate::message::{Ended, CommandExit, JobState, LISTED_COMMAND, MAX_KEEP, MAX_WRITE, Start};
use crate::sys::{self, Exit, Pid};

/// Limit on the input that a background job has not read yet, in bytes.
const MAX_UNREAD: usize = 2 * MAX_WRITE;

pub struct Job {
    pub id: u32,
    pub pid: Pid,
    pub background: bool,
    /// The mark of every process it starts.
    pub mark: u64,
    pub phase: Phase,
    pub deadline: Option<Instant>,
    /// Requests that wait for its end. A background job may have several. A foreground job has none after its client is
    /// gone.
    pub waiters: Vec<u32>,
    pub output: OutputBuffer,
    /// The number of output bytes that the last poll has seen.
    pub polled: u64,
    pipe: Option<File>,
    input: Option<File>,
    unread: Vec<u8>,
    started: Instant,
    /// The reason why it was killed, if it was.
    killed: Option<CommandExit>,
    command: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The main process runs and may go on.
    Running,
    /// Every process that it started has to be killed. The main process may be reaped already.
    Dying { main: Option<CommandExit> },
    /// No process of it is left.
    Ended(Ended),
}

/// The reason why a command was not started.
pub enum NotStarted {
    /// The sandbox has as many processes as it may have.
    Full(String),
    Failed(String),
}

impl From<String> for NotStarted {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl Job {
    /// Starts a command. `null` is a file that reads as empty.
    pub fn start(id: u32, start: &Start, mark: u64, null: &File) -> Result<Self, NotStarted> {
        let text =
            |bytes: &[u8], what: &str| CString::new(bytes).map_err(|_| format!("{what} holds a zero byte"));
        let folder_name = String::from_utf8_lossy(&start.workdir).into_owned();
        // Opened before the start, so that a missing folder is reported as such and not as a failed start.
        let folder = sys::open_folder(&text(&start.workdir, "the working folder's name")?)
            .map_err(|error| format!("can't enter the folder {folder_name:?}: {}", reason(&error)))?;
        let env: Vec<CString> =
            start.env.iter().map(|entry| text(entry, "a variable")).collect::<Result<_, _>>()?;
        let command = text(&start.command, "the command")?;
        let (path, args) = if start.probe {
            (c"/proc/self/exe", vec![c"flock-helper".to_owned(), c"probe".to_owned(), command])
        } else {
            (c"/bin/sh", vec![c"sh".to_owned(), c"-c".to_owned(), command])
        };
        let pipes = || -> io::Result<_> {
            let input = if start.background { Some(sys::pipe()?) } else { None };
            Ok((sys::pipe()?, input))
        };
        let ((reader, writer), input) = pipes().map_err(|error| format!("no pipe: {}", reason(&error)))?;
        // A child inherits the limit of this process, so the mark is set right before the start.
        sys::set_mark(mark);
        let started = Instant::now();
        let pid = sys::spawn(&sys::Spawn {
            path,
            args: &args,
            env: &env,
            folder: folder.as_raw_fd(),
            stdin: input.as_ref().map_or(null.as_raw_fd(), |(read, _)| read.as_raw_fd()),
            output: writer.as_raw_fd(),
        })
        .map_err(|error| {
            let text = format!("can't start {path:?}: {}", reason(&error));
            if sys::is_transient(&error) { NotStarted::Full(text) } else { NotStarted::Failed(text) }
        })?;
        let nonblocking = |fd: OwnedFd| {
            sys::set_nonblocking(fd.as_raw_fd());
            File::from(fd)
        };
        Ok(Self {
            id,
            pid,
            background: start.background,
            mark,
            phase: Phase::Running,
            deadline: (start.timeout_ms > 0)
                .then(|| started.checked_add(Duration::from_millis(start.timeout_ms)))
                .flatten(),
            waiters: if start.background { Vec::new() } else { vec![start.request] },
            output: OutputBuffer::new((start.keep as usize).min(MAX_KEEP)),
            polled: 0,
            pipe: Some(nonblocking(reader)),
            input: input.map(|(_, write)| nonblocking(write)),
            unread: Vec::new(),
            started,
            killed: None,
            command: start.command[..start.command.len().min(LISTED_COMMAND)].to_vec(),
        })
    }

    /// Kills the process group of the main process and leaves all others to the sweep. `why` is recorded if the main
    /// process still ran.
    pub fn kill(&mut self, why: CommandExit) {
        if self.phase == Phase::Running {
            self.killed = Some(why);
            // The main process is not reaped yet, so the group's id cannot belong to another process.
            let _ = sys::signal(-self.pid, sys::SIGKILL);
            self.phase = Phase::Dying { main: None };
        }
    }

    /// Kills the group of a main process that has ended and that the caller is about to reap.
    pub fn main_ended(&mut self) {
        let _ = sys::signal(-self.pid, sys::SIGKILL);
    }

    /// Records that the main process was reaped.
    pub fn main_reaped(&mut self, exit: Exit) {
        let main = match exit {
            Exit::Code(code) => CommandExit::Exited(code),
            Exit::Signal(signal) => CommandExit::Signalled(signal),
        };
        self.phase = Phase::Dying { main: Some(self.killed.unwrap_or(main)) };
    }

    /// Records that no process is left except `survivors` that cannot be killed.
    pub fn finish(&mut self, survivors: u32) {
        let Phase::Dying { main } = self.phase else { return };
        // A pipe holds 64 KiB, and 1 MiB at most. If there is more, a process that is not of this job writes to it.
        for _ in 0..16 {
            if !self.read(&mut [0; 65536]) {
                break;
            }
        }
        self.pipe = None;
        self.input = None;
        self.unread = Vec::new();
        let end = main.or(self.killed).unwrap_or(CommandExit::Cancelled);
        self.phase = Phase::Ended(Ended { end, took_us: micros(self.started.elapsed()), survivors });
    }

    pub fn pipe_fd(&self) -> Option<i32> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Returns the descriptor for its input if some input waits to be written.
    pub fn input_fd(&self) -> Option<i32> {
        self.input.as_ref().filter(|_| !self.unread.is_empty()).map(AsRawFd::as_raw_fd)
    }

    /// Reads one chunk of output. Returns `false` if there is none for now.
    pub fn read(&mut self, buffer: &mut [u8]) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        match pipe.read(buffer) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(count) => {
                self.output.push(&buffer[..count]);
                count == buffer.len()
            }
            Err(_) => false,
        }
    }

    /// Queues input for the job.
    pub fn write(&mut self, data: &[u8]) -> Result<(), String> {
        if self.phase != Phase::Running || self.input.is_none() {
            return Err(format!("job {} reads no more input", self.id));
        }
        if self.unread.len() + data.len() > MAX_UNREAD {
            return Err(format!("job {} has not read {} bytes of input yet", self.id, self.unread.len()));
        }
        self.unread.extend_from_slice(data);
        self.feed();
        if self.input.is_none() { Err(format!("job {} has closed its input", self.id)) } else { Ok(()) }
    }

    /// Writes as much of the queued input as the job's pipe accepts.
    pub fn feed(&mut self) {
        while let (Some(input), false) = (&mut self.input, self.unread.is_empty()) {
            match input.write(&self.unread) {
                Ok(count) => drop(self.unread.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.input = None;
                    self.unread = Vec::new();
                }
            }
        }
    }

    pub fn state(&self) -> JobState {
        let (end, took_us) = match self.phase {
            Phase::Ended(ended) => (Some(ended.end), ended.took_us),
            _ => (None, micros(self.started.elapsed())),
        };
        JobState { id: self.id, end, total: self.output.total, took_us, command: self.command.clone() }
    }
}

/// Replaces this process with a program. Returns only if that fails, with the exit code that a shell would have.
pub fn exec(program: &OsStr, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let error = Command::new(program).args(arguments).exec();
    eprintln!("{}: {}", program.display(), reason(&error));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Returns the system's message without the number that the standard library appends.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
