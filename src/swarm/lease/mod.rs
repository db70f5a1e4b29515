//! Decides which of several gateways does what. Pure: the owner passes in the time and carries out the decisions.
//!
//! Each thing that only one gateway may do at a time is a subject with a lease: an agent with its sessions, a bridge, the
//! merge train of a project, and so on. A lease lives as long as its gateway, and moves by changes of the database alone,
//! which are serial. So whatever the clocks do, a subject has one owner there.
//!
//! | file | subject |
//! |---|---|
//! | [`contact`] | if this gateway may end others, and until when it may act itself |
//! | [`plan`] | which subjects it takes and which it gives up |
//! | [`keeper`] | both together, with what it holds |
//! | [`ownership`] | what the rest of the program knows of it, and guards of what it is at work on |
//! | [`held`] | work that begins and ends with a lease |

mod contact;
mod held;
mod keeper;
mod ownership;
mod plan;

#[cfg(test)]
mod model_tests;

pub use contact::{BEAT_MS, Contact, Hold, RETRY_MS, next_beat};
pub(crate) use held::while_held;
pub use keeper::LeaseKeeper;
pub use ownership::{LeaseUse, LeaseView, Owner, Ownership};
pub use plan::{Fitness, FleetView, LeasePlan, LeasePlanner};
