//! Changes the configuration: one lock, one read, one edit, one rename.

use std::time::Duration;

use serde_json::Value;

use super::{Config, ConfigError, file, parse};
use crate::clock;
use crate::generation::pending_rollback::ConfigSwitch;
use crate::generation::{self, pending_rollback};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, version};

/// Longest time that a writer waits for other writers.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of old configurations that are kept in backups/.
const MAX_BACKUPS: usize = 20;

/// Lets `change` edit the document under `config.lock` and writes the result if it is a usable configuration and
/// differs. The old file is first copied to backups/. A failure leaves the file as it was.
///
/// The lock is held only for the edit: `change` must not wait for anything else.
///
/// # Errors
///
/// Returns the error of `change`, or a [`ConfigError`] if the file cannot be read, is not usable before or after the
/// change, or cannot be replaced. Also fails if the home was made by a newer flock, or if other writers hold the lock
/// for more than 30 seconds.
pub fn edit<T, E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, E>,
) -> Result<T, E> {
    // A file that was broken by hand is not built upon: the person would lose the chance to repair it.
    let usable = |document: &Value| {
        parse::config(document, home).map(drop).map_err(|problem| file::shape(home, problem).into())
    };
    replace(home, |document| usable(document).and_then(|()| change(document)))
}

/// A change that was tried and not written.
pub(crate) struct Preview<T> {
    /// The result of the change.
    pub value: T,
    pub before: Value,
    pub after: Value,
    /// The configuration that `after` is.
    pub config: Config,
}

/// Edits the document as [`edit()`] does, but writes nothing.
///
/// # Errors
///
/// Returns the errors of [`edit()`].
pub(crate) fn preview<T>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, ConfigError>,
) -> Result<Preview<T>, ConfigError> {
    home.require_initialised()?;
    version::check_writable(home)?;
    if pending_rollback::is_open(home) {
        return Err(ConfigError::RollingBack);
    }
    let (_, before) = file::read_document(home)?;
    parse::config(&before, home).map_err(|problem| file::shape(home, problem))?;
    let mut after = before.clone();
    let value = change(&mut after)?;
    let config = parse::config(&after, home).map_err(refused)?;
    Ok(Preview { value, before, after, config })
}

/// Edits the document as [`edit()`] does, but does not require it to be usable before the change. OpenClaw's own
/// configuration, for example, lacks what flock needs until `change` adds it.
///
/// # Errors
///
/// Returns the error of `change`, or a [`ConfigError`] if the file cannot be read or replaced, or is not usable after
/// the change.
pub fn complete<T, E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, E>,
) -> Result<T, E> {
    replace(home, |document| {
        let value = change(document)?;
        // The change only adds keys. If the document is still not usable, it was broken before.
        parse::config(document, home).map_err(|problem| E::from(file::shape(home, problem)))?;
        Ok(value)
    })
}

fn replace<T, E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, E>,
) -> Result<T, E> {
    let home_error = |error| E::from(ConfigError::from(error));
    home.require_initialised().map_err(home_error)?;
    // An older flock must not write a home of a newer one: it would drop what it does not know.
    version::check_writable(home).map_err(home_error)?;
    let _lock = Lock::acquire(&home.config_lock(), LOCK_TIMEOUT).map_err(home_error)?;
    let (old, mut document) = file::read_document(home).map_err(E::from)?;
    let present = document.clone();
    // The rendered bytes are compared, not the file's own, so that formatting alone is no change.
    let before = render(&document);
    let value = change(&mut document)?;
    let after = render(&document);
    if after == before {
        return Ok(value);
    }
    // Every change is checked, whoever made it. A file that flock could not read again is never written.
    parse::config(&document, home).map_err(|problem| E::from(refused(problem)))?;
    write_as_generation(home, (&old, Some(&present)), (&after, &document)).map_err(E::from)?;
    Ok(value)
}

/// Returns the error of a change whose result can't be used.
fn refused(problem: parse::Problem) -> ConfigError {
    ConfigError::Refused { at: problem.at, message: problem.message }
}

/// Replaces the file, keeps the old one in backups/, and makes the change a generation. The caller holds the lock.
pub(super) fn write_as_generation(
    home: &Home,
    (old, before): (&[u8], Option<&Value>),
    (new, after): (&[u8], &Value),
) -> Result<(), ConfigError> {
    // A rollback that fails puts the old file back, which would lose a change made meanwhile.
    if pending_rollback::is_open(home) {
        return Err(ConfigError::RollingBack);
    }
    back_up(home, old)?;
    let draft = generation::prepare(home, before, after)?;
    if let Err(error) = atomic::write(&home.config(), new, 0o600) {
        draft.into_iter().for_each(generation::recorder::Draft::cancel);
        return Err(error.into());
    }
    draft.into_iter().for_each(generation::recorder::Draft::commit);
    Ok(())
}

/// Puts another document in the place of the configuration, for a rollback. It makes no generation: the rollback itself
/// does. Returns the name of the backup that holds the present file, and the digests of both. `begin` is called with
/// them before the file is replaced.
///
/// # Errors
///
/// Returns the error of `begin`, or an error if the document is no usable configuration or a file can't be written.
pub(crate) fn switch<E: From<ConfigError>>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<(), E>,
    begin: impl FnOnce(ConfigSwitch) -> Result<(), E>,
) -> Result<(), E> {
    let home_error = |error| E::from(ConfigError::from(error));
    let _lock = Lock::acquire(&home.config_lock(), LOCK_TIMEOUT).map_err(home_error)?;
    let (old, mut document) = file::read_document(home).map_err(E::from)?;
    change(&mut document)?;
    parse::config(&document, home).map_err(|problem| E::from(refused(problem)))?;
    let new = render(&document);
    let backup = back_up(home, &old).map_err(E::from)?;
    let (before, after) = (super::restore::digest(&old), super::restore::digest(&new));
    begin(ConfigSwitch { backup, before, after })?;
    atomic::write(&home.config(), &new, 0o600).map_err(home_error)
}

/// Undoes a [`switch()`]. Returns `false` if somebody has changed the file since, which then stays.
///
/// # Errors
///
/// Returns an error if the backup can't be read or the file can't be replaced.
pub(crate) fn switch_back(home: &Home, switch: &ConfigSwitch) -> Result<bool, ConfigError> {
    let _lock = Lock::acquire(&home.config_lock(), LOCK_TIMEOUT)?;
    let present = atomic::read(&home.config(), file::CAP)?.unwrap_or_default();
    let present = super::restore::digest(&present);
    if present == switch.before {
        return Ok(true);
    }
    if present != switch.after {
        return Ok(false);
    }
    let (bytes, _) = super::restore::find(home, &switch.backup)?.read()?;
    atomic::write(&home.config(), &bytes, 0o600)?;
    Ok(true)
}

/// Returns the document as it is stored: indented by two spaces, with a line feed at the end.
#[must_use]
pub fn render(document: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(document).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Keeps a copy of the bytes in backups/, and removes the oldest copies. Returns the name of the copy.
pub(super) fn back_up(home: &Home, old: &[u8]) -> Result<String, ConfigError> {
    let folder = home.backups();
    fs_err::create_dir_all(&folder).map_err(HomeError::io("make the folder", &folder))?;
    // Two changes within one millisecond keep both files, because the first free name is taken.
    let at = clock::unix_ms();
    let mut name = String::new();
    for step in 0..1000 {
        name = format!("config-{at:015}-{step:03}.json");
        if atomic::write_new(&folder.join(&name), old, 0o600)? {
            break;
        }
    }
    let all = file::backups(home);
    for path in all.iter().take(all.len().saturating_sub(MAX_BACKUPS)) {
        // A leftover backup is no reason to fail the change.
        let _ = fs_err::remove_file(path);
    }
    Ok(name)
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
