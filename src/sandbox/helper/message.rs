//! What the two sides say to each other in frames. Std-only: the helper's program compiles this file too.
//!
//! Numbers are little-endian, texts and lists carry their length first.

use super::codec::{Reader, Writer};

/// Both sides must speak the same one.
pub const VERSION: u32 = 3;
/// The most output that is kept of a command: its two halves must fit into one frame.
pub const MAX_KEEP: usize = 768 * 1024;
/// The longest command: Linux takes no longer argument.
pub const MAX_COMMAND: usize = 128 * 1024 - 1;
/// The most bytes of a variable or a folder's name.
pub const MAX_TEXT: usize = 64 * 1024;
/// The most variables.
pub const MAX_ENV: usize = 1024;
/// How much of a background job's command is kept to be listed.
pub const LISTED_COMMAND: usize = 4096;
/// Background jobs that may run at once, and ended ones that are remembered.
pub const MAX_BACKGROUND: usize = 32;
/// Commands that may run at once besides background jobs.
pub const MAX_FOREGROUND: usize = 64;
/// Guests that may be there at once.
pub const MAX_GUESTS: usize = 64;
/// The most that one write to a job's standard input may hold.
pub const MAX_WRITE: usize = 512 * 1024;

/// Streams that may be open at once.
pub const MAX_STREAMS: usize = 128;
/// Bytes of a stream that may be on their way in one direction before the other side has asked for more.
pub const WINDOW: usize = 64 * 1024;
/// The most bytes of a stream in one frame.
pub const MAX_DATA: usize = 16 * 1024;

/// The kind of the frame that opens a connection.
pub const HELLO: u8 = 1;
/// The kind of the frame that answers it.
pub const WELCOME: u8 = 65;

/// From flock to the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new connection begins: the old one's commands end.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The port on the sandbox's loopback whose connections become streams; 0 for none.
        port: u16,
    },
    /// Start a command.
    Start(Start),
    /// End the command that was started with this number.
    Cancel {
        /// The `request` of its [`Start`].
        request: u32,
    },
    /// Ask about background jobs.
    Jobs {
        /// Comes back in the reply.
        request: u32,
        /// What to do.
        ask: Ask,
    },
    /// A step of a stream.
    Stream {
        /// Which.
        stream: u32,
        /// What.
        step: Step,
    },
    /// Give a mark for a guest: a program that the engine starts beside the helper. The reply comes when all have gone that
    /// are being ended.
    Admit {
        /// Comes back in the reply.
        request: u32,
    },
    /// A guest has ended, or is to end.
    Dismiss {
        /// Comes back in the reply.
        request: u32,
        /// Its mark.
        mark: u64,
        /// Whether it is asked to end, and then killed with all that it has started; the reply comes when it is gone. Else
        /// it has ended by itself, and what it left may stay.
        end: bool,
    },
}

/// A step of a stream, said by either side of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A program has connected. Said by the helper only.
    Open,
    /// More bytes, at most [`MAX_DATA`].
    Data(Vec<u8>),
    /// So many bytes of [`WINDOW`] are free again.
    Credit(u32),
    /// No more bytes come from this side.
    End,
    /// It is broken off.
    Reset,
}

/// What to start and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Comes back in every reply about it.
    pub request: u32,
    /// Whether it outlives this request and this connection.
    pub background: bool,
    /// Start the helper's own probe, not a shell; `command` then lists what it may know, a word a line.
    pub probe: bool,
    /// Bytes of output to keep.
    pub keep: u32,
    /// Milliseconds it may run; 0 is for ever.
    pub timeout_ms: u64,
    /// The shell's command.
    pub command: Vec<u8>,
    /// The working folder.
    pub workdir: Vec<u8>,
    /// The whole environment, `NAME=value` each.
    pub env: Vec<Vec<u8>>,
}

/// What to do with background jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Name all.
    List,
    /// One, with what it printed since the last poll.
    Poll(u32),
    /// One, with all that is kept of its output.
    Log(u32),
    /// Write to its standard input.
    Write(u32, Vec<u8>),
    /// End it and all it started; the reply comes when it is gone.
    Kill(u32),
}

/// From the helper to flock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The connection is open.
    Welcome {
        /// The helper's [`VERSION`].
        version: u32,
        /// Whether it listens on the port of the hello.
        listens: bool,
    },
    /// A request was not done.
    Refused {
        /// Which.
        request: u32,
        /// Whether there is no such job, or something else.
        why: Refusal,
        /// In words.
        text: Vec<u8>,
    },
    /// A background job runs.
    Started {
        /// Which request.
        request: u32,
        /// It.
        job: JobState,
    },
    /// A command has ended.
    Ended {
        /// Which request.
        request: u32,
        /// How.
        ended: Ended,
        /// What it printed.
        output: Kept,
    },
    /// An answer about background jobs.
    Jobs {
        /// Which request.
        request: u32,
        /// The jobs.
        jobs: Vec<JobState>,
        /// Output, where it was asked for.
        output: Kept,
    },
    /// A step of a stream.
    Stream {
        /// Which.
        stream: u32,
        /// What.
        step: Step,
    },
    /// A guest may come.
    Admitted {
        /// Which request.
        request: u32,
        /// What it is known by.
        mark: u64,
    },
    /// Nothing of a guest is left that is to go.
    Dismissed {
        /// Which request.
        request: u32,
        /// Processes that could not be killed.
        survivors: u32,
    },
}

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such background job.
    NoJob,
    /// It could not be started, or there is too much of something.
    Failed,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In which way.
    pub end: HowEnded,
    /// Microseconds from start to end.
    pub took_us: u64,
    /// Processes that could not be killed.
    pub survivors: u32,
}

/// In which way a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowEnded {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// It was told to.
    Cancelled,
}

/// A background job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// Its id.
    pub id: u32,
    /// How it ended, if it has.
    pub end: Option<HowEnded>,
    /// Bytes it has printed.
    pub total: u64,
    /// Microseconds it has run.
    pub took_us: u64,
    /// The beginning of its command.
    pub command: Vec<u8>,
}

/// Output of which the middle may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes.
    pub tail: Vec<u8>,
    /// How many there were.
    pub total: u64,
}

impl Request {
    /// The frame's kind and payload.
    #[must_use]
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let mut out = Writer::default();
        let kind = match self {
            Self::Hello { version, port } => {
                out.u32(*version);
                out.u32(u32::from(*port));
                HELLO
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
                    Ask::List => (0, 0),
                    Ask::Poll(id) => (1, *id),
                    Ask::Log(id) => (2, *id),
                    Ask::Write(id, _) => (3, *id),
                    Ask::Kill(id) => (4, *id),
                };
                out.u8(what);
                out.u32(id);
                if let Ask::Write(_, data) = ask {
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
        };
        (kind, out.0)
    }

    /// The message of a frame.
    #[must_use]
    pub fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader(payload);
        let message = match kind {
            HELLO => Self::Hello { version: input.u32()?, port: u16::try_from(input.u32()?).ok()? },
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
                    0 => Ask::List,
                    1 => Ask::Poll(id),
                    2 => Ask::Log(id),
                    3 => Ask::Write(id, input.bytes(MAX_WRITE)?),
                    4 => Ask::Kill(id),
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
            _ => return None,
        };
        input.end(message)
    }
}

impl Reply {
    /// The frame's kind and payload.
    #[must_use]
    pub fn encode(&self) -> (u8, Vec<u8>) {
        let mut out = Writer::default();
        let kind = match self {
            Self::Welcome { version, listens } => {
                out.u32(*version);
                out.u8(u8::from(*listens));
                WELCOME
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
        };
        (kind, out.0)
    }

    /// The message of a frame.
    #[must_use]
    pub fn decode(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader(payload);
        let message = match kind {
            WELCOME => Self::Welcome { version: input.u32()?, listens: input.bool()? },
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
            _ => return None,
        };
        input.end(message)
    }
}
