//! All output to a terminal: data, messages, errors, tables, progress and questions.
//!
//! Commands pass the facts. This module decides which stream they go to and in which colour, and it escapes every
//! character that could control the terminal.

pub(crate) mod ask;
pub(crate) mod editor;
pub(crate) mod failure;
pub(crate) mod line;
pub(crate) mod log;
pub(crate) mod pager;
pub mod panic;
pub(crate) mod printer;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod table;

pub(crate) use failure::Failure;
pub(crate) use line::{StyledLine, TextStyle};
pub(crate) use printer::{Color, OutputOptions, Printer};
pub(crate) use progress::Progress;
pub(crate) use table::Table;
