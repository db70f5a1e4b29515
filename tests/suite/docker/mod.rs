//! What needs a real engine.

mod hostile;
mod images;

mod sandbox;
mod store;
mod tools;
