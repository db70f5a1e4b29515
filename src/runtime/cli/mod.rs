//! Agent programs that are installed on the machine. A turn is one run of such a program, in the agent's sandbox or, if
//! a person chose that, on the host.
//!
//! Everything that is specific to a program is in its [`Program`]. A new program needs one more folder and its entry in
//! [`PROGRAMS`]. All programs reach their models through flock's relay and flock's tools through MCP, with a [`Pass`]
//! that is valid for one turn.

pub mod asks;
mod bounds;
mod claude;
mod codex;
mod ear;
pub mod folders;
pub mod gate;
mod gemini;
pub mod handed;
pub mod host;
pub mod installed;
pub mod keeper;
mod learned;
pub mod lines;
pub mod locate;
mod memory;
mod native;
mod opencode;
pub mod preview;
pub mod program;
mod reading;
mod run;
pub mod state;
mod user;
mod verdict;
mod withheld;

#[cfg(test)]
mod invocation_tests;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod recorded_tests;

pub(crate) use ear::RAW_TARGET;
pub use gate::{Calls, Gate, Pass, Relayed};
pub use locate::Found;
pub use program::{
    Conversation, Covered, Ended, Exit, Habits, Invocation, Learned, Parser, Parts, Place, Program, Said,
    StateFile, Turn, TurnFile,
};
pub use run::{Cli, Parts as CliParts};

/// The programs that flock supports. There is no other list.
pub static PROGRAMS: [&dyn Program; 4] =
    [&claude::Claude, &codex::Codex, &gemini::Gemini, &opencode::OpenCode];

/// Returns the program with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Program> {
    PROGRAMS.iter().copied().find(|program| program.name() == name)
}
