//! Pictures of unknown origin, made to fit what a model API takes.

mod fit;
mod sniff;

pub use fit::{Fit, Limits, MOST_INPUT, Unfit, fit};
pub use sniff::{Picture, sniff};
