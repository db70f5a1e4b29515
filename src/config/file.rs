//! Reads the configuration file and lists its backups.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::key_line;
use super::parse::{self, Problem};
use super::{Config, ConfigError};
use crate::home::{Home, atomic};

/// Largest size of a configuration, in bytes.
pub const CAP: u64 = 8 << 20;

/// Reads the configuration of a home.
///
/// # Errors
///
/// Returns an error if there is no home, or if its configuration cannot be read, is not JSON or is not valid.
pub fn read(home: &Home) -> Result<Config, ConfigError> {
    let (_, document) = read_document(home)?;
    parse::config(&document, home).map_err(|problem| shape(home, problem))
}

/// Returns the file's bytes and the document in them.
///
/// # Errors
///
/// Returns an error if there is no home, or if the file cannot be read or is not JSON.
pub(crate) fn read_document(home: &Home) -> Result<(Vec<u8>, Value), ConfigError> {
    let path = home.config();
    let Some(bytes) = atomic::read(&path, CAP)? else {
        // Without a home the message names that, instead of the missing file.
        home.require_initialised()?;
        return Err(crate::home::HomeError::NotInitialised { root: home.root().to_owned() }.into());
    };
    let document = document(&bytes).map_err(|(line, column, message)| ConfigError::Syntax {
        path,
        line,
        column,
        message,
        backup: newest_valid_backup(home),
    })?;
    Ok((bytes, document))
}

/// Parses the bytes of a file. A byte-order mark at the beginning is skipped. Everything else must be plain JSON.
pub(super) fn document(bytes: &[u8]) -> Result<Value, (usize, usize, String)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        // A comment is a likely mistake, so it gets its own message.
        let message = if is_comment(bytes, line, column) {
            "comments are not allowed: they are not JSON, and flock would lose them when it writes the file"
                .to_owned()
        } else {
            let text = error.to_string();
            text.split(" at line ").next().unwrap_or_default().to_owned()
        };
        (line, column, message)
    })
}

/// Returns `true` if a comment begins where the parser stopped. Elsewhere in the line `//` may be a part of a text, as
/// in `https://`.
fn is_comment(bytes: &[u8], line: usize, column: usize) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    // serde_json counts columns from 1. Column 0 is the end of the line before.
    let rest = column.checked_sub(1).and_then(|at| line.get(at..)).unwrap_or_default();
    [&b"//"[..], b"/*", b"#"].iter().any(|begin| rest.starts_with(begin))
}

pub(crate) fn shape(home: &Home, problem: Problem) -> ConfigError {
    // The typed view has no line numbers. The file is read again, only to name the line in the message.
    let line = atomic::read(&home.config(), CAP).ok().flatten().and_then(|bytes| {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        key_line::line_of(bytes, &problem.at)
    });
    ConfigError::Shape {
        path: home.config(),
        line,
        at: problem.at,
        message: problem.message,
        backup: newest_valid_backup(home),
    }
}

/// Returns the newest backup that is a usable configuration.
fn newest_valid_backup(home: &Home) -> Option<PathBuf> {
    let good = |path: &Path| {
        // A backup is fully checked: the error's hint is a command that copies it back.
        let bytes = atomic::read(path, CAP).ok()??;
        parse::config(&document(&bytes).ok()?, home).ok()
    };
    backups(home).into_iter().rev().find(|path| good(path).is_some())
}

/// Returns all backups of the configuration, oldest first.
#[must_use]
pub fn backups(home: &Home) -> Vec<PathBuf> {
    let Ok(folder) = fs_err::read_dir(home.backups()) else { return Vec::new() };
    let mut found: Vec<PathBuf> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("config-") && name.ends_with(".json")
        })
        .collect();
    // The names hold the time with a fixed number of digits, so they sort by age.
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_comment_is_called_a_comment() {
        let found = |text: &str| document(text.as_bytes()).unwrap_err();
        for text in [
            "// mine\n{}",
            "{\n  // mine\n}",
            "{\"a\": 1, // mine\n\"b\": 2}",
            "{\"a\": \"é\" // mine\n}",
            "{\"a\": [1, /* mine */ 2]}",
            "{\n# mine\n}",
            "{\"a\": 1 # mine\n}",
            "{}\n// mine\n",
            "\u{feff}{// mine\n}",
        ] {
            assert!(found(text).2.starts_with("comments are not allowed"), "{text}: {:?}", found(text));
        }
        for (text, place, message) in [
            ("{\n  \"baseUrl\": \"https://x/v1\" \"api\": 1\n}", (2, 29), "expected `,` or `}`"),
            ("{\"baseUrl\": https://x/v1}", (1, 13), "expected value"),
            ("{\"a\": \"https://x\",}", (1, 19), "trailing comma"),
            ("{\"a\": \"/* # //\" 1}", (1, 17), "expected `,` or `}`"),
            (
                "# heading",
                (1, 1),
                "comments are not allowed: they are not JSON, and flock would lose them when it writes the file",
            ),
            ("", (1, 0), "EOF while parsing a value"),
        ] {
            let (line, column, said) = found(text);
            assert_eq!(((line, column), said.as_str()), (place, message), "{text}");
        }
        // A text that is broken by a line end ends before the next line.
        assert!(!found("{\"a\": \"x\n// y\"}").2.contains("comments"));
    }
}
