//! The home's instance id: written once when it is made, and told from all others by it.

use super::{Home, HomeError, atomic};

const LONGEST: u64 = 4 << 10;

/// Reads it.
///
/// # Errors
///
/// If it can't be read, or there is none.
pub fn read(home: &Home) -> Result<String, HomeError> {
    let bytes = atomic::read(&home.instance(), LONGEST)?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() {
        return Err(HomeError::NotInitialised { root: home.root().to_owned() });
    }
    Ok(text.to_owned())
}
