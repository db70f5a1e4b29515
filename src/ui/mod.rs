//! All output to a terminal: data, messages, errors, tables, progress and questions.
//!
//! Commands pass the facts. This module decides which stream they go to and in which colour, and it escapes every
//! character that could control the terminal.

pub mod ask;
pub mod editor;
pub mod failure;
pub mod line;
pub mod log;
pub mod pager;
pub mod panic;
pub mod printer;
pub mod progress;
pub mod table;
pub mod time;

pub use failure::Failure;
pub use line::{StyledLine, TextStyle};
pub use printer::{Color, OutputOptions, Printer};
pub use progress::Progress;
pub use table::Table;
