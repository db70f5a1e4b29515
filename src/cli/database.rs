//! Reads of the home's database by verbs that are not async.

use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::thread;

use tokio::runtime::Builder;

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
    let run = || {
        let mut done = None;
        drive(pin!(async { done = Some(work(reader).await) }))?;
        done.transpose()
    };
    // Some callers run on a thread of a runtime already, and no other runtime may start there.
    thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Not generic, so that the runtime is not compiled once more for each reader.
fn drive(future: Pin<&mut dyn Future<Output = ()>>) -> Result<(), StoreError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(StoreError::Thread)?;
    runtime.block_on(future);
    Ok(())
}
