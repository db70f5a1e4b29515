//! Pictures from untrusted sources: their format is detected, and they are shrunk to fit the limits of a model API.

mod fit;
mod sniff;

pub use fit::{Fit, Limits, MOST_INPUT, Unfit, fit};
pub use sniff::{Picture, sniff};
