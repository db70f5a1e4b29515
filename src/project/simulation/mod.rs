//! A team's work on a project, played by the clock alone: no model is asked and nothing is run.
//!
//! The work is the project's own past: each of the last changes of its tip is a piece of work that an agent takes, does by
//! a script, and submits. What it submits goes through a merge train like flock's. So the numbers show how this code base
//! can be divided, and not how clever a model is.
//!
//! | file | subject |
//! |---|---|
//! | [`history`] | the past changes of a project as pieces of work |
//! | [`script`] | the model calls that a piece of work takes, and their tokens |
//! | [`team`] | agents, merge train and reviewers over time |

pub mod history;
pub mod script;
pub mod team;

pub use history::{Work, past_work};
pub use script::{Manner, Spent};
pub use team::{Outcome, Pace, Wait, play};
