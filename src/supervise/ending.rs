//! How the end of a process is read: which of its last lines tells why it ended, and whether starting it again could
//! end any other way.

use super::state::Exit;
use crate::error::Kind;

/// How the ends of one program are read.
#[derive(Debug)]
pub struct Endings {
    /// Whether a line of its output tells why it ended. Where none does it is the last one.
    pub tells: fn(&str) -> bool,
    /// The kind of failure, where starting it again would end the same way.
    pub lasting: fn(Exit, Option<&str>) -> Option<Kind>,
    /// The kind of failure, where it ends otherwise once something has passed that is not its own.
    pub passing: fn(Exit) -> Option<Kind>,
}

impl Endings {
    /// flock's own: its exit codes tell.
    pub const FLOCK: Self = Self {
        tells: |line| line.starts_with("error:") || line.contains("panicked"),
        lasting: |exit, _| exit.lasting(),
        passing: Exit::passing,
    };
}
