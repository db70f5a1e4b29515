//! What needs a real engine.

mod images;

mod sandbox;
mod store;
mod tools;
