//! The native gateway: HTTP in front, turns behind.
//!
//! A request's way: [`server`] accepts and bounds it, [`front`] checks where it comes from and whose it is,
//! a file of [`routes`] understands it, [`driver`] runs the turn that it asks for. [`events`] tells watchers.
//! [`team`] runs the turns that the scheduler decides on.

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
