//! The interpretation of a process's end: which of its last lines explains it, and whether a restart can help.

use super::state::Exit;
use crate::error::Kind;

/// The rules for the ends of one program.
#[derive(Debug)]
pub struct ExitRules {
    /// Returns `true` for an output line that explains the end. If there is none, the last line is used.
    pub tells: fn(&str) -> bool,
    /// Returns the kind of failure if a restart would end the same way.
    pub lasting: fn(Exit, Option<&str>) -> Option<Kind>,
    /// Returns the kind of failure if a restart will succeed once an outside cause has passed.
    pub passing: fn(Exit) -> Option<Kind>,
    /// Returns `true` if it ended because another process has taken over its work, as from a gateway that was paused.
    pub replaced: fn(Exit) -> bool,
}

impl ExitRules {
    /// The rules for flock's own programs, whose exit codes tell the kind.
    pub const FLOCK: Self = Self {
        tells: |line| line.starts_with("error:") || line.contains("panicked"),
        lasting: |exit, _| exit.lasting(),
        passing: Exit::passing,
        replaced: Exit::is_replaced,
    };
}
