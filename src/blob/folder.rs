//! A store of blobs in a folder: each blob is a file that is named by its key.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;

use super::{BlobError, BlobFacts, BlobKey, BlobPage, BlobStore, Condition, MAX_BLOB, PAGE, Put};
use crate::home::{atomic, regular};
use crate::provider::BoxFuture;

/// A folder, such as one of a network file system. flock does not create it: without its disk, flock would fill the place
/// where that disk belongs.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    place: String,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), place: root.display().to_string() }
    }

    /// Runs blocking work on the file of a key.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let root = self.root.clone();
        let done = tokio::task::spawn_blocking(move || {
            if !root.is_dir() {
                return Err(BlobError::NoFolder { path: root });
            }
            work(&root)
        });
        done.await.unwrap_or_else(|error| Err(BlobError::io("use", &self.root)(io::Error::other(error))))
    }

    fn missing(&self, key: &BlobKey) -> BlobError {
        BlobError::Missing { place: self.place.clone(), key: key.clone() }
    }
}

impl BlobStore for Folder {
    fn place(&self) -> &str {
        &self.place
    }

    fn put<'a>(
        &'a self,
        key: &'a BlobKey,
        bytes: Bytes,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Put, BlobError>> {
        let key = key.clone();
        Box::pin(self.blocking(move |root| {
            let path = root.join(key.as_str());
            make_parents(root, &path)?;
            let put = match condition {
                Condition::Any => atomic::write(&path, &bytes, 0o600).map(|()| Put::Written),
                // Most blobs exist already if they are written again, so their bytes are not written for nothing.
                Condition::Absent if path.symlink_metadata().is_ok() => Ok(Put::Exists),
                Condition::Absent => atomic::write_new(&path, &bytes, 0o600)
                    .map(|is_new| if is_new { Put::Written } else { Put::Exists }),
            };
            Ok(put?)
        }))
    }

    fn get<'a>(
        &'a self,
        key: &'a BlobKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Bytes, BlobError>> {
        Box::pin(async move {
            let file = key.clone();
            let found = self.blocking(move |root| read(&root.join(file.as_str()), range)).await?;
            match found {
                Some(Ok(bytes)) => Ok(bytes),
                Some(Err(reason)) => {
                    Err(BlobError::Damaged { place: self.place.clone(), key: key.clone(), reason })
                }
                None => Err(self.missing(key)),
            }
        })
    }

    fn head<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<Option<BlobFacts>, BlobError>> {
        let key = key.clone();
        Box::pin(self.blocking(move |root| {
            let path = root.join(key.as_str());
            match path.symlink_metadata() {
                Ok(found) if found.is_file() => Ok(Some(facts(&found))),
                Ok(_) => Ok(None),
                Err(error) if is_absent(&error) => Ok(None),
                Err(error) => Err(BlobError::io("look at", &path)(error)),
            }
        }))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BlobPage, BlobError>> {
        let (prefix, after) = (prefix.to_owned(), after.unwrap_or_default().to_owned());
        Box::pin(self.blocking(move |root| {
            let mut found = Vec::new();
            // One more than a page shows that there is a next one.
            walk(root, prefix.trim_end_matches('/'), &after, &mut found)?;
            let next = if found.len() > PAGE {
                found.truncate(PAGE);
                found.last().map(|(key, _): &(BlobKey, BlobFacts)| key.as_str().to_owned())
            } else {
                None
            };
            Ok(BlobPage { blobs: found, next })
        }))
    }

    fn delete<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<(), BlobError>> {
        let key = key.clone();
        Box::pin(self.blocking(move |root| {
            let path = root.join(key.as_str());
            match fs_err::remove_file(&path) {
                Err(error) if !is_absent(&error) => Err(BlobError::io("remove", &path)(error)),
                _ => Ok(()),
            }
        }))
    }
}

/// Creates the folders above a file, and brings their names to the disk: a blob must not vanish with its folder in a power
/// cut.
fn make_parents(root: &Path, path: &Path) -> Result<(), BlobError> {
    let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) else { return Ok(()) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.map_err(BlobError::io("make the folder", parent))?;
    for above in parent.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
        let synced = File::open(above).and_then(|folder| folder.sync_all());
        synced.map_err(BlobError::io("sync", above))?;
    }
    Ok(())
}

/// Reads a file or a range of it. Returns `None` if there is none, and the reason if it can't be the blob.
fn read(path: &Path, range: Option<Range<u64>>) -> Result<Option<Result<Bytes, String>>, BlobError> {
    let failed = BlobError::io("read", path);
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let size = file.metadata().map_err(&failed)?.len();
    let range = range.unwrap_or(0..size);
    let length = range.end.saturating_sub(range.start);
    if range.end > size || length > MAX_BLOB {
        return Ok(Some(Err(format!("it has {size} bytes"))));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    file.read_exact_at(&mut bytes, range.start).map_err(&failed)?;
    Ok(Some(Ok(bytes.into())))
}

/// Adds the files below a folder whose keys come after `after`, in the order of keys, until there are more than a page.
fn walk(
    root: &Path,
    folder: &str,
    after: &str,
    found: &mut Vec<(BlobKey, BlobFacts)>,
) -> Result<(), BlobError> {
    let path = root.join(folder);
    let failed = BlobError::io("read", &path);
    let entries = match fs_err::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(&failed)?;
        let kind = entry.file_type().map_err(&failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let key = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        // A name that is no key is not flock's, or is a draft of a killed process.
        if key.parse::<BlobKey>().is_err() || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        // A folder comes at the place of the keys in it, which continue with a slash.
        names.push(if kind.is_dir() { format!("{key}/") } else { key });
    }
    names.sort_unstable();
    for name in names {
        if found.len() > PAGE {
            break;
        }
        if let Some(folder) = name.strip_suffix('/') {
            // All keys of a folder come before `after` if the folder does, unless `after` is one of them.
            if name.as_str() > after || after.starts_with(&name) {
                walk(root, folder, after, found)?;
            }
        } else if name.as_str() > after {
            let path = root.join(&name);
            match (path.symlink_metadata(), name.parse()) {
                (Ok(metadata), Ok(key)) => found.push((key, facts(&metadata))),
                // Somebody has removed it meanwhile.
                (Err(error), _) if is_absent(&error) => {}
                (Err(error), _) => return Err(BlobError::io("look at", &path)(error)),
                (_, Err(_)) => {}
            }
        }
    }
    Ok(())
}

fn facts(metadata: &std::fs::Metadata) -> BlobFacts {
    let at = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let at = at.and_then(|at| i64::try_from(at.as_millis()).ok()).unwrap_or(0);
    BlobFacts { size: metadata.len(), at }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::list_all;
    use crate::error::Explain as _;

    fn key(text: &str) -> BlobKey {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_blob_is_written_once_and_read_as_a_whole_or_in_part() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
        let at = key("a/b/c.1");
        assert_eq!(folder.put(&at, "hello".into(), Condition::Absent).await.unwrap(), Put::Written);
        assert_eq!(folder.put(&at, "other".into(), Condition::Absent).await.unwrap(), Put::Exists);
        assert_eq!(folder.get(&at, None).await.unwrap(), "hello");
        assert_eq!(folder.get(&at, Some(1..3)).await.unwrap(), "el");
        assert_eq!(folder.head(&at).await.unwrap().unwrap().size, 5);
        let short = folder.get(&at, Some(3..9)).await.unwrap_err();
        assert!(matches!(&short, BlobError::Damaged { reason, .. } if reason == "it has 5 bytes"), "{short}");
        assert_eq!(folder.put(&at, "new".into(), Condition::Any).await.unwrap(), Put::Written);
        assert_eq!(folder.get(&at, None).await.unwrap(), "new");
        folder.delete(&at).await.unwrap();
        folder.delete(&at).await.unwrap();
        assert!(folder.get(&at, None).await.unwrap_err().is_missing());
        assert_eq!(folder.head(&at).await.unwrap(), None);
        assert_eq!(folder.head(&key("a/b")).await.unwrap(), None, "a folder is no blob");
    }

    #[tokio::test]
    async fn a_list_has_pages_in_the_order_of_keys() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(root.path());
        let mut keys: Vec<String> = (0..PAGE + 5).map(|number| format!("x/a/{number:05}")).collect();
        // A folder's keys come after a name that goes on with a character before the slash.
        keys.extend(["x/a-b", "x/a.c", "x/b"].map(str::to_owned));
        for name in &keys {
            let path = root.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "1").unwrap();
        }
        fs_err::write(root.path().join("x/.new-1-abcdef"), "a draft").unwrap();
        fs_err::write(root.path().join("y"), "beside").unwrap();
        keys.sort_unstable();
        let first = folder.list("x/", None).await.unwrap();
        assert_eq!((first.blobs.len(), first.next.is_some()), (PAGE, true));
        let all = list_all(&folder, "x/").await.unwrap();
        assert_eq!(all.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), keys);
        assert_eq!(list_all(&folder, "none/").await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_folder_that_is_not_mounted_is_not_made() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::new(&root.path().join("nas"));
        let error = folder.put(&key("a"), "x".into(), Condition::Any).await.unwrap_err();
        assert!(matches!(error, BlobError::NoFolder { .. }), "{error}");
        assert!(error.hint().unwrap().starts_with("mount the disk"));
        assert!(!root.path().join("nas").exists());
    }
}
