//! Turns against a model API over real HTTP that refuses what the real ones refuse, with tools of the
//! tests' own.

mod asked;
mod client_tools;
mod compaction;
mod delivery;
mod fallbacks;
mod faults;
mod feed;
mod hygiene;
mod knowledge;
mod long;
mod oversight;
mod refusals;
mod rig;
mod sessions;
mod text_calls;
mod turns;
pub mod watch;
