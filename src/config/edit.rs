//! Changing the configuration: one lock, one read, one edit, one rename.

use std::time::Duration;

use serde_json::Value;

use super::{ConfigError, file, parse};
use crate::clock;
use crate::home::lock::Lock;
use crate::home::{Home, atomic, version};

/// How long a writer waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many old configurations are kept.
const KEEP: usize = 20;

/// Lets `change` edit the document under `config.lock` and puts the result in place, if it is a usable
/// configuration and differs. The old one goes to backups/ first. A failure leaves the file as it was.
///
/// The lock is held for the edit alone: `change` must not wait for anything else.
///
/// # Errors
///
/// What `change` returns, or why the file could not be read or replaced.
pub fn edit<T, E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, E>,
) -> Result<T, E> {
    // A file that was broken by hand is not ours to build on: the person would lose the chance to mend it.
    let usable = |document: &Value| {
        parse::config(document, home).map(drop).map_err(|problem| file::shape(home, problem).into())
    };
    replace(home, |document| usable(document).and_then(|()| change(document)))
}

/// As [`edit()`], for a document that may lack what makes it usable, as OpenClaw's own: the change completes
/// it.
///
/// # Errors
///
/// As [`edit()`].
pub fn complete<T, E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, E>,
) -> Result<T, E> {
    replace(home, |document| {
        let value = change(document)?;
        // What a change that only adds can't make usable was broken before.
        parse::config(document, home).map_err(|problem| E::from(file::shape(home, problem)))?;
        Ok(value)
    })
}

fn replace<T, E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, E>,
) -> Result<T, E> {
    let home_error = |error| E::from(ConfigError::from(error));
    home.require().map_err(home_error)?;
    version::check_writable(home).map_err(home_error)?;
    let _lock = Lock::acquire(&home.config_lock(), PATIENCE).map_err(home_error)?;
    let (old, mut document) = file::read_document(home).map_err(E::from)?;
    let before = render(&document);
    let value = change(&mut document)?;
    let after = render(&document);
    if after == before {
        return Ok(value);
    }
    parse::config(&document, home)
        .map_err(|problem| E::from(ConfigError::Refused { at: problem.at, message: problem.message }))?;
    back_up(home, &old).map_err(E::from)?;
    atomic::write(&home.config(), &after, 0o600).map_err(home_error)?;
    Ok(value)
}

/// The document as it is stored: two spaces, a line feed at the end.
#[must_use]
pub fn render(document: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn back_up(home: &Home, old: &[u8]) -> Result<(), ConfigError> {
    fs_err::create_dir_all(home.backups()).map_err(|source| crate::home::HomeError::Io {
        verb: "make the folder",
        path: home.backups(),
        source,
    })?;
    // Two changes within a millisecond keep both: the first free name is taken.
    let at = clock::unix_ms();
    for step in 0..1000 {
        let path = home.backups().join(format!("config-{at:015}-{step:03}.json"));
        if atomic::write_new(&path, old, 0o600)? {
            break;
        }
    }
    let all = file::backups(home);
    for path in all.iter().take(all.len().saturating_sub(KEEP)) {
        // A backup too many is no reason to fail the change.
        let _ = fs_err::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
