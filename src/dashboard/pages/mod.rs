//! The pages, one file each: what it asks of the routes, and what its template shows.

pub(super) mod automation;
pub(super) mod channel;
pub(super) mod channels;
pub(super) mod checkpoints;
pub(super) mod cost;
mod engine;
mod file;
mod freeze;
pub(super) mod graph;
pub(super) mod machine;
pub(super) mod mcp_servers;
pub(super) mod message;
pub(super) mod people;
pub(super) mod project;
pub(super) mod projects;
pub(super) mod race;
pub(super) mod races;
pub(super) mod receipt;
pub(super) mod receipts;
pub(super) mod requests;
pub(super) mod search;
pub(super) mod session;
pub(super) mod sessions;
pub(super) mod team;
