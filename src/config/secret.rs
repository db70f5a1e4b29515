//! Keys that are not in the configuration: one file for each in secrets/, which only the owner can read.

use std::path::PathBuf;

use crate::home::{Home, HomeError, atomic};
pub(crate) use crate::secret_text::is_reference;

/// Largest size of a secret, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Returns the secret with this name, without surrounding white space. `None` if there is none or it is empty.
///
/// # Errors
///
/// Returns an error if the name is not valid, or the file exists but cannot be read.
pub fn get(home: &Home, name: &str) -> Result<Option<String>, HomeError> {
    let path = path(home, name)?;
    let bytes = atomic::read(&path, MAX_BYTES)?;
    // A line end at the end of the file is not a part of the secret.
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Stores a secret.
///
/// # Errors
///
/// Returns an error if the name is not valid, or the file cannot be written.
pub fn set(home: &Home, name: &str, value: &str) -> Result<(), HomeError> {
    atomic::write(&path(home, name)?, value.trim().as_bytes(), 0o600)
}

/// Removes a secret. It is no error if there is none.
///
/// # Errors
///
/// Returns an error if the name is not valid, or the file cannot be removed.
pub(crate) fn remove(home: &Home, name: &str) -> Result<(), HomeError> {
    let path = path(home, name)?;
    match fs_err::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(HomeError::Io { verb: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// Returns `true` if `name` can name a secret: 1 to 64 of `[A-Za-z0-9._-]`, not starting with a dot.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(allowed)
}

fn path(home: &Home, name: &str) -> Result<PathBuf, HomeError> {
    // The name becomes a file name, and may come from the configuration.
    if is_name(name) {
        Ok(home.secrets().join(name))
    } else {
        Err(HomeError::Unusable { path: name.into(), reason: "it is not the name of a secret" })
    }
}
