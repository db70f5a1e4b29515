//! The native gateway: an HTTP server in front, and agent turns behind it.
//!
//! Path of a request: [`server`] accepts the connection and enforces the limits, [`front`] checks where it comes from
//! and who the caller is, a file of [`routes`] parses it, and [`driver`] runs the turn that it asks for. [`events`]
//! informs watchers. [`team`] runs the turns that the scheduler decides on.

pub mod a2a;
pub mod auth;
mod backup;
pub mod bind;
pub mod body;
pub mod channels;
mod disk;
pub mod driver;
pub mod error;
pub mod events;
pub mod extract;
pub mod front;
mod granted;
pub mod idempotency;
pub mod jump;
pub mod limits;
pub mod openai;
pub mod places;
pub mod queue;
pub mod records;
pub mod relay;
mod retention;
mod revoked;
pub mod roster;
pub mod routes;
pub mod scope;
pub mod serve;
pub mod server;
pub mod sessions;
pub mod stall;
pub mod state;
pub mod stream;
mod tally;
mod tasks;
pub mod team;
pub mod tools;
mod unfinished;

pub use limits::Limits;
pub use state::{Gateway, Parts, Records};
