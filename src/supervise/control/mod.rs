//! The supervisor's control socket: lines of JSON over a Unix socket that only its owner may use.

pub mod client;
pub mod place;
pub mod protocol;
pub mod server;

pub use client::{ControlConnection, ControlError};
pub use protocol::{ControlReply, ControlRequest, SupervisorStatus, UnitName, UnitStatus};
