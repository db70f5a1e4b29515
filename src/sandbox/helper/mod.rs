//! The helper inside a sandbox: a small static program that is the container's main process, and the client
//! that speaks to it over the container's attached streams.
//!
//! [`frame`] and [`message`] are the protocol, compiled into both sides. `program/` is the other side; it is
//! built by build.rs and carried as [`PROGRAM`]. How the streams are had is not known here: [`HelperClient`]
//! takes any pair.

mod client;
mod codec;
mod connection;
mod error;
pub mod frame;
pub mod message;
mod patience;
pub mod probe_report;
mod streams;

pub use client::{Environment, HelperClient};
pub use connection::Entrance;
pub use error::HelperError;
pub use patience::Patience;
pub use probe_report::{Expected, ProbeReport};
pub use streams::{Accept, Stream};

/// The program. Empty where flock was built for a system other than Linux.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flock-helper"));

/// Its SHA-256, in lower-case hexadecimal.
pub const PROGRAM_SHA256: &str = env!("FLOCK_HELPER_SHA256");

#[cfg(test)]
#[path = "program/kept.rs"]
mod kept;
