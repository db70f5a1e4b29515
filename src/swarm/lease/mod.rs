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

mod contact;
mod keeper;
mod plan;

#[cfg(test)]
mod model_tests;

pub use contact::{BEAT_MS, Contact, Hold, RETRY_MS, next_beat};
pub use keeper::LeaseKeeper;
pub use plan::{FleetView, LeasePlan, LeasePlanner};
