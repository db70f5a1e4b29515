//! Reads of the home's database by verbs that are not async.

use std::panic::resume_unwind;
use std::thread;

use super::context::block_on;
use crate::home::Home;
use crate::store::{Reader, StoreError};

/// Reads the home's database with `work`. Returns `None` if there is none yet.
///
/// # Errors
///
/// Returns an error if the database can't be opened or read.
pub fn read<T: Send>(
    home: &Home,
    work: impl AsyncFnOnce(Reader) -> Result<T, StoreError> + Send,
) -> Result<Option<T>, StoreError> {
    let Some(reader) = Reader::open(home)? else { return Ok(None) };
    let run = || block_on(work(reader)).map_err(StoreError::Thread)?.map(Some);
    // Some callers run on a thread of a runtime already, and no other runtime may start there.
    thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic)))
}
