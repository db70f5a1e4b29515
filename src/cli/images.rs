//! Making the images and the package store, with progress.

use super::{Context, Failure};
use crate::config::Config;
use crate::home::Home;

/// Makes what is missing.
///
/// # Errors
///
/// If the engine does not answer, or something could not be made.
pub fn make(_home: &Home, _config: &Config, _context: &Context) -> Result<(), Failure> {
    Ok(())
}
