//! Who runs when: a pure state machine. Events and the time go in, effects come out; whoever owns it carries
//! them out and says how they ended. It holds no message and no position: only that there is something
//! undelivered for a session, and how urgent that is.

mod event;
mod settings;

pub use event::{Effect, Ended, Event, Mode, Priority, Urgency};
pub use settings::{Backoff, Settings};
