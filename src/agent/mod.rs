//! Runs an agent's turns: the prompt, the transcript, and the loop of model calls and tool calls.
//!
//! The gateway uses only [`Engine`]: it passes a [`TurnRequest`] and receives events and a [`TurnOutcome`]. Every step
//! of a turn is committed to the session's transcript before the next one begins.

mod cache_key;
pub mod command;
pub mod compaction;
pub mod context;
mod context_wrapper;
mod deadline;
pub mod delegated;
mod derived_trace;
pub mod engine;
pub mod estimate;
mod failover;
mod history;
mod history_load;
pub mod identity;
mod imported;
mod inbox;
mod lost_writes;
pub mod messages;
mod metering;
mod model_chain;
mod overflow;
mod oversight;
pub mod prefix_cache;
pub mod preview;
pub mod prompt;
mod provenance;
mod recent_exchanges;
mod recover;
mod rejected_thinking;
mod repetition;
mod reservation;
mod run;
pub mod session;
mod session_command;
mod summary_request;
pub mod text_calls;
mod tool_call;
mod trace_buffer;
pub mod transcript;
pub mod turn;
mod turn_recorder;

pub use command::Command;
pub use engine::{Engine, EngineParts, TurnLimits};
pub use failover::{Cooldowns, FailoverDecision, ModelFailure, ModelQueue, of_provider as trouble_of};
pub use inbox::{Delivery, Inbox};
pub use lost_writes::LostWrites;
pub use metering::CallUsage;
pub use oversight::{
    ModelCall, NoOversight, Oversight, PauseReason, Reservation, TokenEstimate, ToolCallRecord,
};
pub use provenance::{Provenance, SourceSession};
pub use recover::InterruptedTurn;
pub use reservation::CallReservation;
pub use turn::{TurnError, TurnEvent, TurnOutcome, TurnRequest, TurnStop};
