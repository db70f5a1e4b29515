//! Archives of packages, each fetched once and kept by its hash while an installation goes on.

use std::path::PathBuf;

use super::error::PackageError;
use super::lock::{Integrity, LockedPackage};
use super::registry::Registry;
use crate::config::PackageSource;
use crate::id::hex;

/// The number of times that an archive is fetched if the connection breaks off.
const TRIES: u32 = 3;

/// A folder of archives. Each is in it only after its hash was compared.
pub(super) struct Artifacts {
    folder: PathBuf,
}

impl Artifacts {
    /// Keeps archives in a folder that nobody else uses.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the file with the archive of a package, which is fetched if it is not there.
    ///
    /// # Errors
    ///
    /// Returns an error if the registry does not have it, or has another one.
    pub async fn get(
        &self,
        registry: &Registry,
        source: PackageSource,
        package: &LockedPackage,
    ) -> Result<PathBuf, PackageError> {
        let digest = match &package.integrity {
            Integrity::Sha512(bytes) | Integrity::Sha256(bytes) => hex(bytes),
        };
        let path = self.folder.join(&digest);
        if path.is_file() {
            return Ok(path);
        }
        let exact = source.exact(&package.name, &package.version);
        let url = registry.archive(source, &exact, &package.url)?;
        let mut tried = 0;
        loop {
            tried += 1;
            let made = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder);
            let mut file = made.map_err(PackageError::host(&self.folder))?;
            let wanted = &package.integrity;
            match registry.download((source, &exact), &url, wanted, file.as_file_mut()).await {
                Ok(_) => {
                    let kept = file.persist(&path);
                    kept.map_err(|error| PackageError::host(&path)(error.error))?;
                    return Ok(path);
                }
                Err(PackageError::Unreached { .. }) if tried < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }
}
