//! The helper inside a sandbox, which is a small static program that runs as the container's main process, and the
//! client that talks to it over the container's attached streams.
//!
//! [`frame`], [`message`], [`file_message`] and [`delivery`] are the protocol and are compiled into both sides. `program/` is the
//! helper itself.
//! build.rs compiles it, and flock carries it as [`PROGRAM`]. This module does not know where the streams come from:
//! [`HelperClient`] takes any pair.

mod client;
mod codec;
mod connection;
mod delivery;
mod error;
pub mod file_message;
mod files;
pub mod frame;
mod line;
pub mod message;
pub(crate) mod output_buffer;
mod pausable_clock;
pub(crate) mod probe_report;
mod streams;

pub use client::{Environment, HelperClient};
pub use connection::PortForward;
pub use error::HelperError;
pub use files::{FileError, HelperFiles};
pub(crate) use line::{HelperStreams, Redial, Resumption};
pub(crate) use pausable_clock::PausableClock;
pub use probe_report::{ProbeExpectations, ProbeReport};
pub use streams::HelperStream;

/// The helper program. Empty if flock was built for another system than Linux.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flock-helper"));

/// SHA-256 of the helper program in lower-case hexadecimal.
pub(crate) const PROGRAM_SHA256: &str = env!("FLOCK_HELPER_SHA256");
