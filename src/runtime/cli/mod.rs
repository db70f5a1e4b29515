//! Agent programs that are installed on the machine: a turn is one run of one of them, in the agent's sandbox or, where
//! a person said so, on the host.
//!
//! What is particular about a program is in its [`Program`] and nowhere else: a further one is one more file. All of
//! them reach their models through flock's relay and flock's tools through MCP, with a [`Pass`] that is worth one turn.

pub mod gate;
pub mod program;

pub use gate::{Calls, Gate, Pass, Relayed};
pub use program::{
    Conversation, Covered, Ended, Exit, Habits, Invocation, Learned, Parser, Parts, Program, Said, StateFile,
    Turn, TurnFile,
};
