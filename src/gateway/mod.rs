//! The native gateway: an HTTP server in front, and agent turns behind it.
//!
//! Path of a request: [`server`] accepts the connection and enforces the limits, [`middleware`] checks where it
//! comes from and who the caller is, a file of [`routes`] parses it, and [`driver`] runs the turn that it asks for.
//! [`events`] informs watchers. [`team`] runs the turns that the scheduler decides on. [`assembly`] builds all of
//! them.

pub mod a2a;
pub mod agent_changes;
pub mod assembly;
pub mod auth;
mod backup;
pub mod bind;
pub mod body;
pub mod channels;
pub mod clock_check;
pub mod connection_slots;
mod disk_quota;
pub mod driver;
mod egress_audit;
pub mod error;
pub mod events;
pub mod extract;
mod grants;
pub mod idempotency;
pub mod lifecycle;
pub mod limits;
pub mod middleware;
pub mod openai;
mod operation_recovery;
pub mod queue;
pub mod relay;
mod retention;
pub mod routes;
pub mod scope;
pub mod server;
pub mod sessions;
pub mod state;
pub mod status_source;
pub mod stream;
mod stream_auth;
mod tasks;
pub mod team;
pub mod tools;
pub mod write_timeout;

pub use limits::ServerLimits;
pub use state::{Gateway, GatewayParts, StatusSource};
