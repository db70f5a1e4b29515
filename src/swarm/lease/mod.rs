//! Decides which of several gateways does what. Pure: the owner passes in the time and carries out the decisions.
//!
//! | file | subject |
//! |---|---|
//! | [`contact`] | if this gateway may end others, and until when it may act itself |

mod contact;

pub use contact::{BEAT_MS, Contact, Hold, next_beat};
