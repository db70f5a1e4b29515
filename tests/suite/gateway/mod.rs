//! The gateway over real HTTP on a port of its own, with a runner that plays the turns.

mod auth;
mod chat;
pub mod crew;
mod damaged;
mod dashboard;
mod early;
mod events;
mod files;
mod forms;
mod freeze;
pub mod house;
mod limits;
mod mcp;
mod mcp_calls;
mod messages;
mod metrics;
pub mod openapi;
pub mod process;
mod push;
mod queue;
mod relay;
mod reload;
mod replaced;
mod responses;
mod retries;
mod stop;
mod tokens;
