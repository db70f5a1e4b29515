//! Reads of the home's database by verbs that are not async.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use super::context::block_on;
use crate::home::Home;
use crate::store::{ReadDeadline, Reader, StoreError};

/// The time in which a server has to answer to a view, which can do without. It is longer than a busy server takes.
const VIEW_LIMIT: Duration = Duration::from_secs(5);

/// The time in which a server has to answer while a person types.
const TYPING_LIMIT: Duration = Duration::from_millis(800);

/// Reads the home's database with `work`. Returns `None` if there is none yet.
///
/// # Errors
///
/// Returns an error if the database can't be opened or read.
pub fn read<T: Send>(
    home: &Home,
    work: impl AsyncFnOnce(Reader) -> Result<T, StoreError> + Send,
) -> Result<Option<T>, StoreError> {
    read_until(home, ReadDeadline::default(), work)
}

/// Reads a few rows as [`read`] does, for what a person looks at. A server that does not answer costs a few seconds.
///
/// # Errors
///
/// Returns an error if the database can't be opened or read in this time.
pub fn read_view<T: Send>(
    home: &Home,
    work: impl AsyncFnOnce(Reader) -> Result<T, StoreError> + Send,
) -> Result<Option<T>, StoreError> {
    read_until(home, ReadDeadline::after(VIEW_LIMIT), work)
}

/// Reads a few rows as [`read`] does, to complete what a person types. A server that does not answer costs less than a second.
///
/// # Errors
///
/// Returns an error if the database can't be opened or read in this time.
pub fn read_typing<T: Send>(
    home: &Home,
    work: impl AsyncFnOnce(Reader) -> Result<T, StoreError> + Send,
) -> Result<Option<T>, StoreError> {
    read_until(home, ReadDeadline::after(TYPING_LIMIT), work)
}

fn read_until<T: Send>(
    home: &Home,
    deadline: ReadDeadline,
    work: impl AsyncFnOnce(Reader) -> Result<T, StoreError> + Send,
) -> Result<Option<T>, StoreError> {
    let Some(reader) = Reader::open_until(home, deadline)? else { return Ok(None) };
    let run = || block_on(work(reader)).map_err(StoreError::Thread)?.map(Some);
    // Some callers run on a thread of a runtime already, and no other runtime may start there.
    thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::error::chain;

    #[test]
    fn a_server_that_hangs_is_waited_for_as_long_as_the_reader_has_time() {
        // Its kernel takes connections, and nobody ever answers.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let port = silent.local_addr().unwrap().port();
        let place = format!(r#"{{"postgres": "postgres://flock@127.0.0.1:{port}/flock?sslmode=disable"}}"#);
        fs_err::write(home.store_location(), place).unwrap();
        let error = read_typing(&home, async |reader| reader.people().list().await).unwrap_err();
        assert!(matches!(error, StoreError::Connect { .. }), "{error:?}");
        assert!(chain(&error).ends_with("gave no answer within 1 s"), "{error:?}");
    }
}
