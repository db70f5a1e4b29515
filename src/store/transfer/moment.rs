//! A copy of a server's database as it was at one moment, in a file, for a backup of the home.
//!
//! It is made by the same steps as a move, with the same comparison. The difference is in the source: nothing is locked and
//! nothing is changed there. All reads are in one transaction that sees one state, so gateways go on meanwhile.

use std::path::Path;

use super::end::{self, End};
use super::error::MoveError;
use super::{Copier, Destination, MoveRequest, MoveWatcher, begin_file, home_id, read_failed, state};
use crate::home::Home;
use crate::store::StoreError;
use crate::store::postgres::{SchemaEnd, Settings};

/// Shows nothing. The backup has a progress of its own.
pub(in crate::store) struct Silent;

impl MoveWatcher for Silent {
    fn step(&self, _: &str) {}

    fn at(&self, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// Copies the home's database on a server into a new file, and compares the two. Returns `false` if the server has no tables
/// of flock yet; no file is made then.
///
/// # Errors
///
/// Returns an error if the server can't be reached or ends in the middle, if its database is no store that is in use, and if
/// the file can't be written or is not what was copied. The caller removes the file then.
pub(in crate::store) fn copy(
    home: &Home,
    (settings, secret): (Settings, String),
    path: &Path,
    watcher: &dyn MoveWatcher,
) -> Result<bool, MoveError> {
    let source = SchemaEnd::look(home, settings, secret)?;
    let moment = source.connection().snapshot().map_err(read_failed)?;
    if source.store_version()? == 0 {
        return Ok(false);
    }
    let request = MoveRequest { home: home.clone(), to: Destination::File, replace_nul: false, owner: None };
    let copier = Copier { request: &request, source: End::Schema(&source), watcher };
    let file = begin_file(path, &home_id(home)?)?;
    let target = End::File(&file);
    let prepared = copier.prepare(target, 0)?;
    prepared.begin(target)?;
    copier.fill_rows(target, &prepared)?;
    // The server keeps old versions of rows for as long as somebody may read them.
    drop(moment);
    end::finish_rows(target, &prepared.tables)?;
    let ended = file.connection().in_transaction(state::end);
    ended.map_err(|source| StoreError::query("end the copy", source))?;
    file.finish()?;
    Ok(true)
}
