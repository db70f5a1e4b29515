//! Supervision: the background process that keeps gateways running, and what the command line needs to
//! talk to both.
//!
//! [`loopback`] is the small HTTP client for everything that answers on 127.0.0.1, [`health`] the proof that
//! what answers is this home's gateway, [`tether`] what ends a gateway whose supervisor has died.

pub mod health;
pub mod log;
pub mod loopback;
pub mod mark;
mod output;
pub mod pid;
pub mod restart;
pub mod state;
pub mod tether;
