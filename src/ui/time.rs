//! Formatting of times for people.

pub use crate::clock::local;
