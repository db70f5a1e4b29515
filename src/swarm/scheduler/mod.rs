//! Who runs when: a pure state machine. Events and the time go in, effects come out; whoever owns it carries
//! them out and says how they ended. It holds no message and no position: only that there is something
//! undelivered for a session, and how urgent that is.
//!
//! ```text
//! unseen ─┬─ at once ──────────────────────────────▶ a line by priority ──▶ a place: runs ──▶ ended
//!         └─ plain ──▶ the agent's next tick ──────▶        ▲                               │
//!                              ▲                            └── tried again ◀── backoff ◀────┘ failed
//!                              └────────────────────────────────────┘
//! ```
//!
//! Agents that are frozen, paused, failing, or whose provider is down, stand in no lane; what is unseen for
//! them stays where it is. A step costs what it changes, not what the team is large.

mod agent;
mod breaker;
mod clock;
mod event;
mod lanes;
mod provider;
mod session;
mod settings;
mod snapshot;
mod state;
mod timers;
mod waiting;

#[cfg(test)]
mod invariants_tests;
#[cfg(test)]
mod rules_tests;
#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod testing;

pub use event::{Effect, Ended, Event, Mode, Priority, Urgency};
pub use settings::{Backoff, Settings};
pub use snapshot::{Down, Snapshot, Standing};
pub use state::Scheduler;
