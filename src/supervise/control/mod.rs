//! The supervisor's control socket: lines of JSON over a Unix socket that only its owner may use.

pub(crate) mod client;
pub(crate) mod place;
pub(crate) mod protocol;
pub(crate) mod server;

pub use client::{ControlConnection, ControlError};
pub use protocol::{ControlReply, ControlRequest, SupervisorStatus, UnitName, UnitStatus};
