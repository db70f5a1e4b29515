//! The person at the command line: what they are called and what they say.

use std::io::Read as _;

use super::Failure;
use crate::error::Kind;

pub use crate::process::login;

/// All that comes on stdin, up to `most` bytes; `hint` says what to do with more.
///
/// # Errors
///
/// If there is more, it can't be read, or it is no text.
pub fn stdin(most: u64, hint: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(most + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::caused("failed to read stdin as text", &error))?;
    if text.len() as u64 > most {
        return Err(Failure::new(Kind::Usage, format!("stdin holds more than {} MiB", most >> 20)).hint(hint));
    }
    Ok(text)
}
