//! Everything that writes to a terminal: data, talk, errors, tables, progress, questions.
//!
//! Commands hand over what they know; this module decides where it goes, in which colour, and that nothing
//! in it can steer the terminal.

pub mod ask;
pub mod editor;
pub mod failure;
pub mod line;
pub mod log;
pub mod pages;
pub mod panic;
pub mod printer;
pub mod progress;
pub mod table;
pub mod time;

pub use failure::Failure;
pub use line::{Line, Tone};
pub use printer::{Color, Options, Printer};
pub use progress::Progress;
pub use table::Table;
