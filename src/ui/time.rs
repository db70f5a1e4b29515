//! Formatting of times for people.

pub(crate) use crate::clock::local;
