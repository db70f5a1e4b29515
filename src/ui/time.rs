//! Times for people.

pub use crate::clock::local;
