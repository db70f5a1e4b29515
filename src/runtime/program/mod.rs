//! Agent programs that are installed on the machine. A turn is one run of such a program, in the agent's sandbox or, if
//! a person chose that, on the host.
//!
//! Everything that is specific to a program is in its [`Program`]. A new program needs one more folder and its entry in
//! [`PROGRAMS`]. All programs reach their models through flock's relay and flock's tools through MCP, with a [`TurnAccess`]
//! that is valid for one turn.

pub(crate) mod acp;
mod claude;
mod codex;
mod conversation_record;
mod disabled_tools;
pub(crate) mod environment;
mod executable;
mod extract;
pub(crate) mod folders;
pub mod gate;
mod gemini;
mod handle;
pub mod host;
pub mod interface;
pub(crate) mod json_lines;
pub(crate) mod locate;
pub(crate) mod model_access;
mod node;
mod opencode;
mod outcome;
mod output_limits;
mod output_reader;
pub(crate) mod preview;
mod probe_cache;
mod run;
mod run_paths;
mod run_progress;
pub(crate) mod state;
mod user_folder;
pub(crate) mod version_check;

#[cfg(test)]
mod invocation_tests;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod recorded_tests;

use std::sync::Arc;

pub use gate::AccessProvider;
pub(crate) use gate::{CallCounter, RelayAccess, TurnAccess};
pub use handle::ProgramHandle;
pub use interface::Program;
pub(crate) use output_reader::RAW_TARGET;
pub(crate) use run::{ProgramRuntime, ProgramServices};

/// The programs that flock supports. There is no other list.
pub static PROGRAMS: [&dyn Program; 4] =
    [&claude::Claude, &codex::Codex, &gemini::Gemini, &opencode::OpenCode];

/// Returns the program of the list with this name.
#[must_use]
pub fn listed(name: &str) -> Option<&'static dyn Program> {
    PROGRAMS.into_iter().find(|program| program.name() == name)
}

/// Returns the program that a runtime's name means: one of the list, or the one that `acp:COMMAND` describes. It may not be
/// on this machine.
#[must_use]
pub fn named(name: &str) -> Option<ProgramHandle> {
    let described = || Some(ProgramHandle::Described(Arc::new(acp::named(name)?)));
    listed(name).map(ProgramHandle::Listed).or_else(described)
}
