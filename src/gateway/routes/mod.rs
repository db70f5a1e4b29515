//! The HTTP routes, with one file for each resource.

pub mod a2a;
pub mod agents;
pub mod approvals;
pub mod audit;
pub mod channels;
pub mod chat;
pub mod events;
pub mod freeze;
pub mod health;
pub mod mcp;
pub mod messages;
pub mod models;
pub mod plugin;
pub mod sessions;
pub mod settings;
pub mod status;
pub mod tasks;
pub mod tokens;
