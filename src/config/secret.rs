//! Keys that are not in the configuration: one file for each in secrets/, which only the owner can read.

use std::path::PathBuf;

use serde_json::Value;

use crate::home::{Home, HomeError, atomic};
pub(crate) use crate::secret_text::is_reference;
use crate::secret_text::is_secret_name;

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

/// Returns all secrets that can be read, for the search for them in what leaves the machine.
#[must_use]
pub(crate) fn all(home: &Home) -> Vec<String> {
    let Ok(entries) = fs_err::read_dir(home.secrets()) else { return Vec::new() };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    let mut all: Vec<String> = names.filter_map(|name| get(home, name.to_str()?).ok().flatten()).collect();
    // Some files hold several, such as the tokens of a sign-in.
    let parsed: Vec<Value> = all.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    parsed.iter().for_each(|value| add_inner(value, &mut all));
    all
}

/// Adds the values in a document whose names say that they are secrets.
fn add_inner(value: &Value, all: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::String(text) if is_secret_name(name) => all.push(text.clone()),
            value => add_inner(value, all),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_in_a_document_are_found_too() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        fs_err::create_dir(home.secrets()).unwrap();
        set(&home, "plain", "sk-plain").unwrap();
        set(
            &home,
            "mcp-far.oauth",
            r#"{"url":"u","tokens":{"accessToken":"access-1","refreshToken":"r-1"}}"#,
        )
        .unwrap();
        let all = all(&home);
        for secret in ["sk-plain", "access-1", "r-1"] {
            assert!(all.iter().any(|found| found == secret), "{secret}: {all:?}");
        }
        assert!(!all.iter().any(|found| found == "u"));
    }
}
