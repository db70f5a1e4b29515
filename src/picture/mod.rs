//! Pictures from untrusted sources: their format is detected, and they are shrunk to fit the limits of a model API.

mod fit;
mod sniff;

pub use fit::{FittedPicture, MAX_INPUT_BYTES, PictureError, PictureLimits, fit};
pub use sniff::{PictureHeader, sniff};
