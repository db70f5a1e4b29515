//! Tokens that a person gives in a file or on stdin, so that they are in no list of processes.

use std::io::Read as _;

use super::Failure;
use crate::error::Kind;

const MAX_TOKEN_FILE: u64 = 64 * 1024;

/// Reads a token from a file, or from stdin if `source` is `-`.
///
/// # Errors
///
/// Returns an error if it can't be read, or if it is not 8 to 512 visible ASCII characters, which a header can hold.
pub(crate) fn read(source: &str) -> Result<String, Failure> {
    let mut text = String::new();
    if source == "-" {
        let read = std::io::stdin().take(MAX_TOKEN_FILE).read_to_string(&mut text);
        read.map_err(|error| Failure::with_cause("failed to read the token from stdin", &error))?;
    } else if std::path::Path::new(source).exists() {
        // The path may be a pipe of the shell, so the file is opened without checking its type.
        fs_err::File::open(source)
            .and_then(|file| file.take(MAX_TOKEN_FILE).read_to_string(&mut text))
            .map_err(|error| Failure::with_cause("failed to read the token", &error))?;
    } else {
        return Err(Failure::new(Kind::Failed, format!("the token file {source} is not there")));
    }
    check(&text)
}

/// Returns a token without the white space around it.
///
/// # Errors
///
/// Returns an error if it is not 8 to 512 visible ASCII characters, which a header can hold.
pub(crate) fn check(text: &str) -> Result<String, Failure> {
    let token = text.trim();
    if !(8..=512).contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = "the token must be 8 to 512 visible ASCII characters without spaces";
        return Err(Failure::new(Kind::Usage, text));
    }
    Ok(token.to_owned())
}
