//! The team: channels and their members, who is due when, what is told to whom, and what all share.

pub mod scheduler;
pub mod skill;
pub mod tools;
pub mod vault;
