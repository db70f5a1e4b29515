//! A second place for what has to outlive this machine's disk: a folder of another disk, or a bucket of object storage.
//!
//! A blob is written as a whole and never changed. It is named by its content, or by a name that only one writer can take.
//! So a reader sees all of a blob or none of it, and two writers that are not aware of each other do no harm.

mod error;
mod folder;
mod key;
pub mod owner;
mod probe;
mod s3;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub use self::error::BlobError;
pub use self::key::{BlobKey, NotAKey};
pub use self::probe::{ProbeReport, probe};
use crate::config::BlobSettings;
use crate::home::Home;
use crate::provider::BoxFuture;

/// The most bytes of a blob. It has to fit into memory several times.
pub const MAX_BLOB: u64 = 64 << 20;

/// The most blobs on a page of a list.
pub const PAGE: usize = 1000;

/// A condition for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The blob is written unless one with its key exists.
    Absent,
    /// A blob with its key is replaced.
    Any,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Written,
    /// A blob with this key exists, and nothing was written.
    Exists,
}

/// The facts about a blob without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobFacts {
    pub size: u64,
    /// The time at which it was written, in Unix milliseconds. If the store does not tell, it is 0, and in a list the time of
    /// the list.
    pub at: i64,
}

/// A part of a list, in the order of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPage {
    pub blobs: Vec<(BlobKey, BlobFacts)>,
    /// The key after which the next page begins, or `None` if this is the last page.
    pub next: Option<String>,
}

/// A store of blobs.
pub trait BlobStore: Send + Sync {
    /// Returns the place for people, without a key.
    fn place(&self) -> &str;

    /// Writes a blob, and returns once the store has promised to keep it.
    fn put<'a>(
        &'a self,
        key: &'a BlobKey,
        bytes: Bytes,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Put, BlobError>>;

    /// Reads a blob, or a range of its bytes that lies within it.
    fn get<'a>(
        &'a self,
        key: &'a BlobKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Bytes, BlobError>>;

    /// Returns the facts about a blob, or `None` if it does not exist.
    fn head<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<Option<BlobFacts>, BlobError>>;

    /// Lists the blobs whose keys begin with `prefix`, which is empty or ends with a slash, from the first key after
    /// `after` on.
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BlobPage, BlobError>>;

    /// Deletes a blob. It is no error if it does not exist.
    fn delete<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<(), BlobError>>;

    /// Returns how far the server's clock was ahead of this machine's at the last answer, in milliseconds. `None` if the
    /// store has no clock of its own.
    fn clock_ahead(&self) -> Option<i64> {
        None
    }
}

/// Opens the store of these settings. Nothing is sent or created yet.
#[must_use]
pub fn open(home: &Home, settings: &BlobSettings) -> Arc<dyn BlobStore> {
    match settings {
        BlobSettings::Folder(path) => Arc::new(folder::Folder::new(path)),
        BlobSettings::S3(bucket) => Arc::new(s3::Bucket::new(home, bucket, settings.place())),
    }
}

/// Returns all blobs whose keys begin with `prefix`.
///
/// # Errors
///
/// Returns an error if a page can't be read.
pub async fn list_all(store: &dyn BlobStore, prefix: &str) -> Result<Vec<(BlobKey, BlobFacts)>, BlobError> {
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut page = store.list(prefix, after.as_deref()).await?;
        all.append(&mut page.blobs);
        match page.next {
            // A store that repeats a page would never end.
            Some(next) if after.as_ref().is_none_or(|after| *after < next) => after = Some(next),
            Some(_) => {
                let problem = "it repeats a page of a list".to_owned();
                return Err(BlobError::Refused { place: store.place().to_owned(), problem });
            }
            None => return Ok(all),
        }
    }
}
