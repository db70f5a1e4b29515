//! The person at the command line: their login name and their input.

use std::io::Read as _;

use super::Failure;
use crate::error::Kind;

pub(crate) use crate::process::login;

/// Reads all of stdin, up to `most` bytes. `hint` tells the person what to do with a larger text.
///
/// # Errors
///
/// Returns an error if stdin holds more, if it can't be read, or if it is not UTF-8 text.
pub(crate) fn stdin(most: u64, hint: &str) -> Result<String, Failure> {
    let mut text = String::new();
    // One byte more than allowed tells a text of exactly the limit from a longer one.
    let read = std::io::stdin().take(most + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::with_cause("failed to read stdin as text", &error))?;
    if text.len() as u64 > most {
        return Err(Failure::new(Kind::Usage, format!("stdin holds more than {} MiB", most >> 20)).hint(hint));
    }
    Ok(text)
}
