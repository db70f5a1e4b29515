//! Runs an agent's turns: the prompt, the transcript, and the loop of model calls and tool calls.
//!
//! The gateway uses only [`Engine`]: it passes a [`TurnRequest`] and receives events and a [`TurnOutcome`]. Every step
//! of a turn is committed to the session's transcript before the next one begins.

mod cache_key;
mod call_result;
mod call_trace;
pub(crate) mod client_tools;
pub(crate) mod command;
pub(crate) mod compaction;
pub(crate) mod content_json;
pub mod context;
mod context_wrapper;
mod deadline;
pub(crate) mod delegated;
mod derived_trace;
pub(crate) mod engine;
pub mod estimate;
mod failover;
mod history;
mod history_load;
pub mod identity;
mod imported;
mod inbox;
mod lost_writes;
pub(crate) mod messages;
mod metering;
mod model_chain;
mod overflow;
mod oversight;
pub mod prefix_cache;
pub(crate) mod preview;
pub mod prompt;
pub(crate) mod prompt_report;
mod provenance;
pub mod quota;
mod recent_exchanges;
mod recover;
mod rejected_thinking;
mod repetition;
pub(crate) mod replay;
mod reservation;
mod result_limits;
mod run;
pub(crate) mod sampling;
pub(crate) mod session;
mod session_command;
mod summary_request;
#[cfg(test)]
#[path = "../../tests/unit/agent.rs"]
mod testing;
pub(crate) mod text_calls;
mod tool_call;
mod tool_trace;
mod trace_buffer;
pub mod transcript;
pub(crate) mod transcript_copies;
pub(crate) mod turn;
pub(crate) mod turn_listing;
mod turn_recorder;
mod turn_watch;

pub use client_tools::{ClientCall, ClientResult, ClientTool, ClientTools};
pub use command::Command;
pub use engine::{Engine, EngineParts, TurnLimits};
pub(crate) use failover::{Cooldowns, FailoverDecision, ModelFailure, ModelQueue, of_provider as trouble_of};
pub(crate) use history::said;
pub use inbox::{Delivery, Inbox};
pub(crate) use lost_writes::LostWrites;
pub use metering::CallUsage;
pub use oversight::{ModelCall, NoOversight, Oversight, Reservation, TokenEstimate, ToolCallRecord};
pub use provenance::Provenance;
pub(crate) use provenance::SourceSession;
pub use recover::InterruptedTurn;
pub(crate) use reservation::CallReservation;
pub use turn::{TurnError, TurnEvent, TurnOutcome, TurnRequest, TurnStop};
pub use turn_watch::{TurnWatch, WatchedTurn};
