//! The messages that the two sides exchange in frames. The helper program compiles this file as well, so it uses only
//! the standard library.
//!
//! Numbers are little-endian. Texts and lists begin with their length.

use super::codec::{Reader, Writer};
use super::file_message::{FileReply, FileRequest};
use super::frame::Number;

/// Version of the protocol. Both sides must use the same.
pub const VERSION: u32 = 6;
/// Begins the word by which a probe is told how long to wait for an answer, in milliseconds.
pub const PROBE_PATIENCE: &str = "patience=";
/// Limit on the output kept of a command, in bytes. Both halves must fit into one frame.
pub const MAX_KEEP: usize = 768 * 1024;
/// Limit on a command in bytes. Linux accepts no longer argument.
pub const MAX_COMMAND: usize = 128 * 1024 - 1;
/// Limit on a variable or a folder's name, in bytes.
pub const MAX_TEXT: usize = 64 * 1024;
/// Limit on the number of variables.
pub const MAX_ENV: usize = 1024;
/// Number of bytes of a background job's command that are kept for lists.
pub const LISTED_COMMAND: usize = 4096;
/// Limit on running background jobs, and on ended ones that are remembered.
pub const MAX_BACKGROUND: usize = 32;
/// Limit on commands that run at once besides background jobs.
pub const MAX_FOREGROUND: usize = 64;
/// Limit on guests at the same time.
pub const MAX_GUESTS: usize = 64;
/// Limit on one write to a job's standard input, in bytes.
pub const MAX_WRITE: usize = 512 * 1024;

/// Limit on open streams.
pub const MAX_STREAMS: usize = 128;
/// Flow-control window: bytes of a stream that may be in flight in one direction before the other side has given credit
/// for more.
pub const WINDOW: usize = 64 * 1024;
/// Limit on the bytes of a stream in one frame.
pub const MAX_DATA: usize = 16 * 1024;

/// The value in the place of a port by which [`Request::Resume`] is told from a hello.
const RESUME: u32 = u32::MAX;
/// Kind of the frame that opens a connection.
pub const HELLO: u8 = 1;
/// Kind of the frame that answers [`HELLO`].
pub const WELCOME: u8 = 65;

/// A message from flock to the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Begins a new connection. The commands of the old one end.
    Hello {
        /// The client's [`VERSION`].
        version: u32,
        /// The port on the sandbox's loopback whose connections become streams, or 0 for none.
        port: u16,
    },
    /// Asks the helper to number its frames from now on, and to keep those that were not confirmed. Sent right after the hello.
    Keep,
    /// Goes on with the connection of this nonce over new streams. The answer is [`Reply::Resumed`], and the frames that did not
    /// arrive follow it.
    Resume {
        /// The client's [`VERSION`].
        version: u32,
        /// The number of the last frame that arrived.
        received: Number,
    },
    /// Reports which frames have arrived. It has no number itself.
    Confirm {
        /// The number of the last frame that arrived.
        received: Number,
        /// `true` if a later one arrived as well: those in between have to be sent again.
        again: bool,
    },
    /// Starts a command.
    Start(Start),
    /// Ends a command.
    Cancel {
        /// The `request` of the command's [`Start`].
        request: u32,
    },
    /// Asks about background jobs.
    Jobs {
        /// The request number, repeated in the reply.
        request: u32,
        ask: JobRequest,
    },
    /// Carries a step of a stream.
    Stream {
        /// The stream's number.
        stream: u32,
        step: Step,
    },
    /// Requests a mark for a guest, which is a program that the engine starts beside the helper. The reply comes when
    /// all guests that are being ended are gone.
    Admit {
        /// The request number, repeated in the reply.
        request: u32,
    },
    /// Reports the end of a guest, or asks for it.
    Dismiss {
        /// The request number, repeated in the reply.
        request: u32,
        /// The guest's mark.
        mark: u64,
        /// `true` to ask the guest to end and then kill it with every process it started. The reply comes when all of
        /// them are gone. `false` if the guest has ended by itself and its remaining processes may stay.
        end: bool,
    },
    /// Looks at a file or a folder, or changes it.
    File {
        /// The request number, repeated in the reply.
        request: u32,
        file: FileRequest,
    },
}

/// A step of a stream, sent by either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A program has connected. Only the helper sends this.
    Open,
    /// More bytes, at most [`MAX_DATA`].
    Data(Vec<u8>),
    /// This many bytes of [`WINDOW`] are free again.
    Credit(u32),
    /// The sender has no more bytes.
    End,
    /// The stream is broken off.
    Reset,
}

/// A command to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The request number, repeated in every reply about the command.
    pub request: u32,
    /// `true` for a background job, which outlives this request and this connection.
    pub background: bool,
    /// `true` to start the helper's own probe instead of a shell. `command` then holds the probe's arguments, one per
    /// line.
    pub probe: bool,
    /// The number of output bytes to keep.
    pub keep: u32,
    /// The time limit in milliseconds, or 0 for none.
    pub timeout_ms: u64,
    /// The text for `sh -c`.
    pub command: Vec<u8>,
    pub workdir: Vec<u8>,
    /// The complete environment, as `NAME=value`.
    pub env: Vec<Vec<u8>>,
}

/// A request about background jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRequest {
    /// Lists all jobs.
    List,
    /// Returns one job with the output printed since the last poll.
    Poll(u32),
    /// Returns one job with all of its output that is kept.
    Log(u32),
    /// Writes these bytes to a job's standard input.
    Write(u32, Vec<u8>),
    /// Kills a job and every process it started. The reply comes when they are gone.
    Kill(u32),
}

/// A message from the helper to flock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The connection is open.
    Welcome {
        /// The helper's [`VERSION`].
        version: u32,
        /// `true` if the helper listens on the port of the hello.
        listens: bool,
    },
    /// The connection goes on, or is not known any more.
    Resumed {
        /// The helper's [`VERSION`].
        version: u32,
        /// The number of the last frame that arrived. `None` if the helper can't go on with the connection.
        received: Option<Number>,
    },
    /// Reports which frames have arrived. It has no number itself.
    Confirm {
        /// The number of the last frame that arrived.
        received: Number,
        /// `true` if a later one arrived as well: those in between have to be sent again.
        again: bool,
    },
    /// The request was not carried out.
    Refused {
        /// The number of the request.
        request: u32,
        why: Refusal,
        /// The reason as text.
        text: Vec<u8>,
    },
    /// A background job was started.
    Started {
        /// The number of the request.
        request: u32,
        job: JobState,
    },
    /// A command has ended.
    Ended {
        /// The number of the request.
        request: u32,
        ended: Ended,
        output: Output,
    },
    /// The answer about background jobs.
    Jobs {
        /// The number of the request.
        request: u32,
        jobs: Vec<JobState>,
        /// The output, for requests that return it.
        output: Output,
    },
    /// A step of a stream.
    Stream {
        /// The stream's number.
        stream: u32,
        step: Step,
    },
    /// A guest may be started.
    Admitted {
        /// The number of the request.
        request: u32,
        /// The guest's mark.
        mark: u64,
    },
    /// The helper no longer tracks the guest. If the guest had to end, none of its processes is left except the
    /// survivors.
    Dismissed {
        /// The number of the request.
        request: u32,
        /// The number of processes that could not be killed.
        survivors: u32,
    },
    /// The answer about a file or a folder.
    File {
        /// The number of the request.
        request: u32,
        reply: FileReply,
    },
}

/// The reason why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no background job of this number.
    NoJob,
    /// The command could not be started, or a limit was reached.
    Failed,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub end: CommandExit,
    /// Running time in microseconds.
    pub took_us: u64,
    /// The number of processes that could not be killed.
    pub survivors: u32,
}

/// The way a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandExit {
    /// The command ended by itself with this exit code.
    Exited(i32),
    /// The command was killed by the signal of this number.
    Signalled(i32),
    /// The command reached its time limit and was killed, together with every process it had started.
    TimedOut,
    /// The caller cancelled the command, and it was killed together with every process it had started.
    Cancelled,
}

/// The state of a background job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    pub id: u32,
    /// The way it ended, or `None` while it runs.
    pub end: Option<CommandExit>,
    /// The number of bytes it has printed.
    pub total: u64,
    /// Running time in microseconds.
    pub took_us: u64,
    /// The beginning of its command, at most [`LISTED_COMMAND`] bytes.
    pub command: Vec<u8>,
}

/// The output of a command, with a bound on its size. Bytes that do not fit are counted but not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes of stdout and stderr, in the order they arrived.
    pub head: Vec<u8>,
    /// The last bytes. Empty if the whole output fits into `head`.
    pub tail: Vec<u8>,
    /// The number of all bytes printed. `total - head - tail` bytes between the two were dropped.
    pub total: u64,
}

impl Output {
    /// Returns the kept bytes as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned()
    }
}

impl Request {
    /// Returns the frame's kind and payload.
    #[must_use]
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let mut out = Writer::default();
        let kind = match self {
            Self::Hello { version, port } => {
                out.u32(*version);
                out.u32(u32::from(*port));
                HELLO
            }
            Self::Resume { version, received } => {
                out.u32(*version);
                out.u32(RESUME);
                out.u32(received.get());
                HELLO
            }
            Self::Keep => 9,
            Self::Confirm { received, again } => {
                out.u32(received.get());
                out.u8(u8::from(*again));
                10
            }
            Self::Start(start) => {
                out.u32(start.request);
                out.u8(u8::from(start.background));
                out.u8(u8::from(start.probe));
                out.u32(start.keep);
                out.u64(start.timeout_ms);
                out.bytes(&start.command);
                out.bytes(&start.workdir);
                out.u32(start.env.len() as u32);
                start.env.iter().for_each(|entry| out.bytes(entry));
                2
            }
            Self::Cancel { request } => {
                out.u32(*request);
                3
            }
            Self::Jobs { request, ask } => {
                out.u32(*request);
                let (what, id) = match ask {
                    JobRequest::List => (0, 0),
                    JobRequest::Poll(id) => (1, *id),
                    JobRequest::Log(id) => (2, *id),
                    JobRequest::Write(id, _) => (3, *id),
                    JobRequest::Kill(id) => (4, *id),
                };
                out.u8(what);
                out.u32(id);
                if let JobRequest::Write(_, data) = ask {
                    out.bytes(data);
                }
                4
            }
            Self::Stream { stream, step } => {
                out.step(*stream, step);
                5
            }
            Self::Admit { request } => {
                out.u32(*request);
                6
            }
            Self::Dismiss { request, mark, end } => {
                out.u32(*request);
                out.u64(*mark);
                out.u8(u8::from(*end));
                7
            }
            Self::File { request, file } => {
                out.u32(*request);
                file.encode(&mut out);
                8
            }
        };
        (kind, out.0)
    }

    /// Decodes a frame. Returns `None` if it is not a request.
    #[must_use]
    pub fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader(payload);
        let message = match kind {
            HELLO => {
                let (version, port) = (input.u32()?, input.u32()?);
                match port {
                    RESUME => Self::Resume { version, received: Number::new(input.u32()?)? },
                    port => Self::Hello { version, port: u16::try_from(port).ok()? },
                }
            }
            9 => Self::Keep,
            10 => Self::Confirm { received: Number::new(input.u32()?)?, again: input.bool()? },
            2 => Self::Start(Start {
                request: input.u32()?,
                background: input.bool()?,
                probe: input.bool()?,
                keep: input.u32()?,
                timeout_ms: input.u64()?,
                command: input.bytes(MAX_COMMAND)?,
                workdir: input.bytes(MAX_TEXT)?,
                env: input.list(MAX_ENV, |input| input.bytes(MAX_TEXT))?,
            }),
            3 => Self::Cancel { request: input.u32()? },
            4 => {
                let request = input.u32()?;
                let (what, id) = (input.u8()?, input.u32()?);
                let ask = match what {
                    0 => JobRequest::List,
                    1 => JobRequest::Poll(id),
                    2 => JobRequest::Log(id),
                    3 => JobRequest::Write(id, input.bytes(MAX_WRITE)?),
                    4 => JobRequest::Kill(id),
                    _ => return None,
                };
                Self::Jobs { request, ask }
            }
            5 => {
                let (stream, step) = input.step()?;
                Self::Stream { stream, step }
            }
            6 => Self::Admit { request: input.u32()? },
            7 => Self::Dismiss { request: input.u32()?, mark: input.u64()?, end: input.bool()? },
            8 => Self::File { request: input.u32()?, file: FileRequest::decode(&mut input)? },
            _ => return None,
        };
        input.end(message)
    }
}

impl Reply {
    /// Returns the frame's kind and payload.
    #[must_use]
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let mut out = Writer::default();
        let kind = match self {
            Self::Welcome { version, listens } => {
                out.u32(*version);
                out.u8(u8::from(*listens));
                WELCOME
            }
            Self::Resumed { version, received } => {
                out.u32(*version);
                out.u8(match received {
                    Some(_) => 2,
                    None => 3,
                });
                out.u32(received.unwrap_or_default().get());
                WELCOME
            }
            Self::Confirm { received, again } => {
                out.u32(received.get());
                out.u8(u8::from(*again));
                74
            }
            Self::Refused { request, why, text } => {
                out.u32(*request);
                out.u8(match why {
                    Refusal::NoJob => 0,
                    Refusal::Failed => 1,
                });
                out.bytes(text);
                66
            }
            Self::Started { request, job } => {
                out.u32(*request);
                out.job(job);
                67
            }
            Self::Ended { request, ended, output } => {
                out.u32(*request);
                out.end(Some(ended.end));
                out.u64(ended.took_us);
                out.u32(ended.survivors);
                out.kept(output);
                68
            }
            Self::Jobs { request, jobs, output } => {
                out.u32(*request);
                out.u32(jobs.len() as u32);
                jobs.iter().for_each(|job| out.job(job));
                out.kept(output);
                69
            }
            Self::Stream { stream, step } => {
                out.step(*stream, step);
                70
            }
            Self::Admitted { request, mark } => {
                out.u32(*request);
                out.u64(*mark);
                71
            }
            Self::Dismissed { request, survivors } => {
                out.u32(*request);
                out.u32(*survivors);
                72
            }
            Self::File { request, reply } => {
                out.u32(*request);
                reply.encode(&mut out);
                73
            }
        };
        (kind, out.0)
    }

    /// Decodes a frame. Returns `None` if it is not a reply.
    #[must_use]
    pub fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader(payload);
        let message = match kind {
            WELCOME => {
                let (version, what) = (input.u32()?, input.u8()?);
                match what {
                    0 | 1 => Self::Welcome { version, listens: what == 1 },
                    2 => Self::Resumed { version, received: Some(Number::new(input.u32()?)?) },
                    3 => Self::Resumed { version, received: input.u32().map(|_| None)? },
                    _ => return None,
                }
            }
            74 => Self::Confirm { received: Number::new(input.u32()?)?, again: input.bool()? },
            66 => Self::Refused {
                request: input.u32()?,
                why: match input.u8()? {
                    0 => Refusal::NoJob,
                    1 => Refusal::Failed,
                    _ => return None,
                },
                text: input.bytes(MAX_TEXT)?,
            },
            67 => Self::Started { request: input.u32()?, job: input.job()? },
            68 => Self::Ended {
                request: input.u32()?,
                ended: Ended { end: input.end_state()??, took_us: input.u64()?, survivors: input.u32()? },
                output: input.kept()?,
            },
            69 => Self::Jobs {
                request: input.u32()?,
                jobs: input.list(2 * MAX_BACKGROUND, Reader::job)?,
                output: input.kept()?,
            },
            70 => {
                let (stream, step) = input.step()?;
                Self::Stream { stream, step }
            }
            71 => Self::Admitted { request: input.u32()?, mark: input.u64()? },
            72 => Self::Dismissed { request: input.u32()?, survivors: input.u32()? },
            73 => Self::File { request: input.u32()?, reply: FileReply::decode(&mut input)? },
            _ => return None,
        };
        input.end(message)
    }
}
