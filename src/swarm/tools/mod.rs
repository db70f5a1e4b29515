//! The `flock_*` tools. Who calls is known from the [`crate::tool::CallContext`] alone, never from a parameter.

pub mod vault;
