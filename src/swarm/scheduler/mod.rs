//! Decides which agent runs when. It is a pure state machine: it takes events and the time, and returns effects. The
//! owner carries out the effects and reports how they ended. The scheduler holds no message and no position. It knows
//! only that a session has undelivered messages, and how urgent they are.
//!
//! ```text
//! unseen ─┬─ at once ──────────────────────────────▶ a lane by priority ──▶ a slot: runs ───▶ ended
//!         └─ plain ──▶ the agent's next tick ──────▶        ▲                               │
//!                              ▲                            └── tried again ◀── backoff ◀────┘ failed
//!                              └────────────────────────────────────┘
//! ```
//!
//! Agents that are frozen, paused or failing, whose provider is down or whose quota is used up, stand in no lane. Their undelivered messages
//! stay where they are. The cost of a step depends on what it changes and not on the size of the team.

mod agent;
mod breaker;
mod clock;
mod dispatch;
mod event;
mod park;
mod provider;
mod ready_queue;
mod session;
mod settings;
mod state;
mod timers;

#[cfg(test)]
mod invariants_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
#[path = "../../../tests/unit/scheduler.rs"]
mod testing;

pub use event::{Effect, Mode, Priority, SchedulerEvent, TurnEnd, Urgency};
pub(crate) use provider::ProviderOutage;
pub(crate) use settings::Backoff;
pub use settings::Settings;
pub use state::Scheduler;
