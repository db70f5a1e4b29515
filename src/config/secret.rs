//! Keys that are not in the configuration: one file each in secrets/, readable by the owner alone.

use std::path::PathBuf;

use crate::home::{Home, HomeError, atomic};

/// No secret is longer than this, in bytes.
const CAP: u64 = 64 << 10;

/// The secret of this name, without white space around it.
///
/// # Errors
///
/// If it is there but can't be read.
pub fn get(home: &Home, name: &str) -> Result<Option<String>, HomeError> {
    let path = path(home, name)?;
    let bytes = atomic::read(&path, CAP)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Stores a secret.
///
/// # Errors
///
/// If the name is not one, or the file can't be written.
pub fn set(home: &Home, name: &str, value: &str) -> Result<(), HomeError> {
    atomic::write(&path(home, name)?, value.trim().as_bytes(), 0o600)
}

/// Whether `name` can name a secret: `[A-Za-z0-9._-]`, at most 64, not starting with a dot.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(allowed)
}

fn path(home: &Home, name: &str) -> Result<PathBuf, HomeError> {
    if is_name(name) {
        Ok(home.secrets().join(name))
    } else {
        Err(HomeError::Unusable { path: name.into(), reason: "it is not the name of a secret" })
    }
}
