//! The way out of a sandbox that has no network: its helper carries connections to the gateway, which is the
//! proxy. What an agent may reach is asked for each connection, so an approval works at once.

pub mod address;
mod rule;

pub use rule::{EgressRule, Host, PORTS, RuleError};
