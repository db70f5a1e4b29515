//! The native gateway: an HTTP server in front, and agent turns behind it.
//!
//! Path of a request: [`server`] accepts the connection and enforces the limits, [`middleware`] checks where it
//! comes from and who the caller is, a file of [`routes`] parses it, and [`driver`] runs the turn that it asks for.
//! [`events`] informs watchers. [`team`] runs the turns that the scheduler decides on. [`assembly`] builds all of
//! them.

pub(crate) mod a2a;
pub(crate) mod ability;
mod activity;
pub(crate) mod agent_changes;
pub(crate) mod agent_services;
pub(crate) mod assembly;
pub(crate) mod auth;
mod backup;
pub(crate) mod bind;
pub(crate) mod body;
pub(crate) mod channels;
mod checkpoint_copies;
pub(crate) mod clock_check;
mod config_change;
mod config_review;
pub(crate) mod connection_slots;
mod departure;
mod disk_quota;
mod doctor;
mod draining_body;
pub mod driver;
mod egress_audit;
mod engine_contact;
pub(crate) mod engines;
pub mod error;
mod event_seal;
pub mod events;
pub(crate) mod extract;
pub(crate) mod file_response;
pub mod git;
mod grants;
mod heartbeat;
pub(crate) mod idempotency;
pub mod lifecycle;
pub(crate) mod limits;
mod lost_engines;
pub mod mcp;
pub(crate) mod metrics;
pub mod middleware;
pub(crate) mod openai;
pub mod openapi;
mod operation_recovery;
pub(crate) mod package_moves;
pub(crate) mod peers;
pub mod person_access;
mod place_mark;
pub mod projects;
pub mod push;
pub(crate) mod queue;
pub mod races;
pub mod relay;
mod retention;
pub(crate) mod routes;
mod schedules;
pub mod scope;
mod search_index;
pub mod server;
pub mod sessions;
pub(crate) mod shared_config;
pub(crate) mod sign_in;
mod skill_summary;
pub mod state;
pub(crate) mod status_source;
mod storage_status;
pub(crate) mod stream;
mod stream_auth;
mod tasks;
pub(crate) mod team;
pub(crate) mod telemetry;
mod token_uses;
pub mod tools;
mod transcript_copies;
pub(crate) mod turn_error;
mod turn_trace;
pub(crate) mod unread;
pub(crate) mod uploads;
mod vault_copies;
mod wall_clock;
pub(crate) mod write_timeout;

pub use limits::ServerLimits;
pub use state::{Gateway, GatewayParts, StatusSource};
