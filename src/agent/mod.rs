//! Runs an agent's turns: the prompt, the transcript, and the loop of model calls and tool calls.
//!
//! The gateway uses only [`Engine`]: it passes a [`TurnRequest`] and receives events and a [`TurnOutcome`]. Every step
//! of a turn is committed to the session's transcript before the next one begins.

mod ask;
mod cache_key;
mod call;
mod calls;
pub mod command;
mod compacting;
pub mod compaction;
pub mod context;
pub mod delegated;
mod derived;
pub mod engine;
pub mod estimate;
mod failover;
mod foreign;
mod halt;
mod history;
pub mod identity;
mod inbox;
mod instead;
mod line;
mod lost;
pub mod messages;
mod overflow;
mod oversight;
mod past;
mod past_context;
mod prefix_cache;
pub mod preview;
pub mod prompt;
mod provenance;
mod recent;
mod recover;
mod refusals;
mod repetition;
mod run;
mod running;
pub mod session;
mod steps;
mod taken;
pub mod text_calls;
mod trace;
pub mod transcript;
pub mod turn;
mod wrapper;

pub use command::Command;
pub use engine::{Engine, Limits, Parts};
pub use failover::{Cooldowns, Trouble, of_provider as trouble_of};
pub use inbox::{Delivery, Inbox};
pub use lost::Lost;
pub use oversight::{CalledTool, ModelCall, Oversight, Paused, Reservation, Seen, Unwatched};
pub use provenance::{Provenance, Source};
pub use recover::Interrupted;
pub use taken::Taken;
pub use turn::{Stop, TurnError, TurnEvent, TurnOutcome, TurnRequest};
