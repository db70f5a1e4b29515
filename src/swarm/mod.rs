//! The team: channels and their members, who is due when, and what is told to whom.

pub mod scheduler;
