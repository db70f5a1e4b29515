//! What needs a real engine.

mod images;
