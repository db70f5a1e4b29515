//! Agent programs that are installed on the machine. A turn is one run of such a program, in the agent's sandbox or, if
//! a person chose that, on the host.
//!
//! Everything that is specific to a program is in its [`Program`]. A new program needs one more folder and its entry in
//! [`PROGRAMS`]. All programs reach their models through flock's relay and flock's tools through MCP, with a [`TurnAccess`]
//! that is valid for one turn.

mod claude;
mod codex;
mod conversation_record;
mod disabled_tools;
pub mod environment;
mod executable;
mod extract;
pub mod folders;
pub mod gate;
mod gemini;
pub mod host;
pub mod interface;
pub mod json_lines;
pub mod locate;
pub mod model_access;
mod opencode;
mod outcome;
mod output_limits;
mod output_reader;
pub mod preview;
mod probe_cache;
mod run;
mod run_progress;
pub mod state;
pub mod subreaper;
mod user_folder;
pub mod version_check;

#[cfg(test)]
mod invocation_tests;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod recorded_tests;

pub use gate::{AccessProvider, CallCounter, RelayAccess, TurnAccess};
pub use interface::{
    ConversationStart, Exit, HiddenEntry, Invocation, Parser, Program, ProgramCapabilities, ProgramEvent,
    ProgramFiles, ProgramProbe, RunLocation, RunOutcome, StateFile, TurnFile, TurnSpec,
};
pub use locate::LocatedProgram;
pub(crate) use output_reader::RAW_TARGET;
pub use run::{ProgramRuntime, ProgramServices as CliParts};

/// The programs that flock supports. There is no other list.
pub static PROGRAMS: [&dyn Program; 4] =
    [&claude::Claude, &codex::Codex, &gemini::Gemini, &opencode::OpenCode];

/// Returns the program with this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Program> {
    PROGRAMS.iter().copied().find(|program| program.name() == name)
}
