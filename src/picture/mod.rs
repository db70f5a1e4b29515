//! Pictures from untrusted sources: their format is detected, and they are shrunk to fit the limits of a model API.

mod fit;
mod sniff;

pub(crate) use fit::{FittedPicture, MAX_INPUT_BYTES, PictureLimits, fit};
pub(crate) use sniff::{MEDIA_TYPES, is_base64, sniff};
