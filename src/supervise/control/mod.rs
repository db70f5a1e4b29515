//! The supervisor's control socket: lines of JSON over a Unix socket that only its owner may use.

pub mod client;
pub mod place;
pub mod server;
pub mod wire;

pub use client::{Connection, ControlError};
pub use wire::{Reply, Request, Status, UnitName, UnitStatus};
