//! Backups of the whole home: one archive with everything that can't be made again, and the way back.
//!
//! An archive is made while the gateway runs. It is read again before it gets its name, and unpacked and checked beside
//! its place before it becomes a home.

mod collect;
mod content;
mod draft;
mod error;
mod footer;
mod make;
pub(crate) mod manifest;
mod reader;
pub(crate) mod record;
pub(crate) mod restore;
mod selection;
mod tar_form;
pub(crate) mod verify;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use make::{BackupRequest, MadeBackup, make};

/// Shows the progress of a backup or a restore.
pub(crate) trait BackupWatcher {
    /// Begins with a step, as in `copying the database`.
    fn step(&self, text: &str);

    /// Shows that this many bytes of so many are done.
    fn at(&self, done: u64, of: u64);
}
