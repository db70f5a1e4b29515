//! Fetches packages: resolves them in a sandbox, downloads and unpacks what the lock says, and puts it in its place in one step.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::archive::{Unpacker, make_folders};
use super::artifacts::Artifacts;
use super::command::{self, RUN, RUN_FILE, SITE};
use super::error::PackageError;
use super::lock::{Lock, PackageRuntime};
use super::registry::Registry;
use super::relay::{self, Relay};
use super::spec::Request;
use super::tools::{self, Tool};
use super::{npm, pypi, tree};
use crate::config::{McpServer, PackageSource};
use crate::fault_point::{self, FaultPoint};
use crate::home::lock::Lock as FileLock;
use crate::home::scratch::ScratchDir;
use crate::home::{Home, atomic, remove_tree};
use crate::id::McpServerName;
use crate::sandbox::check::{CheckEnd, CheckSandbox, DockerChecks, Errand, ErrandReport, ExtraFile};
use crate::sandbox::program_mounts::{NODE_TARGET, PACKAGE_TARGET, ProgramMount};

/// The longest time of a resolution.
const RESOLVE_TIME: Duration = Duration::from_secs(300);
/// The most bytes of what a resolver writes.
const MAX_RESULT: u64 = 64 << 20;
/// The number of archives that are fetched at once.
const PARALLEL: usize = 8;
/// The longest wait for another process that works on the same server.
const WAIT: Duration = Duration::from_secs(600);
/// The most bytes of the record of an installation.
const MAX_RECORD: u64 = 64 << 10;

/// The places of npm and pip in the sandbox of a resolution.
const NPM_TARGET: &str = "/opt/flock/npm";
const PIP_TARGET: &str = "/opt/flock/pip";

/// The commands that resolve. The packages are named in a file, so no text of a person or a registry is in a command. flock
/// answers when it has all of an answer, so a slow registry needs longer time limits than the defaults.
const RESOLVE_NPM: &str = "exec /opt/flock/node/bin/node /opt/flock/npm/bin/npm-cli.js install --package-lock-only \
    --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error --replace-registry-host=always \
    --omit-lockfile-registry-resolved=false --registry=http://127.0.0.1:3128/relay/npm/ --cache=/tmp/npm-cache \
    --logs-max=0 --userconfig=/dev/null --fetch-timeout=280000";
const RESOLVE_PYPI: &str = "python3 -c 'import sys, json; print(json.dumps([sys.executable, \
    \"%d.%d\" % sys.version_info[:2]]))' > python.json && exec env PYTHONPATH=/opt/flock/pip python3 -m pip install \
    --dry-run --ignore-installed --only-binary=:all: --no-cache-dir --no-input --disable-pip-version-check --isolated \
    --no-color --quiet --progress-bar=off --timeout=280 --index-url=http://127.0.0.1:3128/relay/pypi/simple/ \
    --report=report.json --requirement=requirements.txt";

/// The contents of the folder of a server's package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Installed {
    /// The SHA-256 of the lock.
    pub lock: String,
    /// The hash of all files.
    pub tree: String,
    pub files: u64,
    pub bytes: u64,
    /// The folder of the Node that runs it, below the folder of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A package that was fetched and is not in its place yet. Dropping it removes it.
pub(crate) struct Staged {
    pub lock: Lock,
    pub installed: Installed,
    /// The command line of its program.
    pub command: Vec<String>,
    scratch: ScratchDir,
    /// Held so that nobody else works on the same server.
    _held: FileLock,
}

/// Fetches packages.
pub(crate) struct Installer<'a> {
    home: Home,
    registry: Arc<Registry>,
    checks: DockerChecks,
    /// Told what is being done.
    say: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Installer<'a> {
    /// Creates the value without asking anybody.
    ///
    /// # Errors
    ///
    /// Returns an error if the environment names a registry that is no address.
    pub fn new(
        home: Home,
        checks: DockerChecks,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Self, PackageError> {
        Ok(Self { home, registry: Arc::new(Registry::from_env()?), checks, say })
    }

    /// Finds the packages for a request, downloads and unpacks them.
    ///
    /// # Errors
    ///
    /// Returns an error if they can't be found, pinned or fetched. Nothing is left then.
    pub async fn fetch(
        &self,
        server: &McpServer,
        request: &Request,
        arguments: &[String],
    ) -> Result<Staged, PackageError> {
        let (scratch, held) = self.scratch(&server.name).await?;
        let archives = scratch.path().join("archives");
        make_folders(&archives)?;
        let relay = Arc::new(Relay::new(Arc::clone(&self.registry), Artifacts::new(archives)));
        let lock = match request.source {
            PackageSource::Npm => self.resolve_npm(server, request, &relay).await?,
            PackageSource::Pypi => self.resolve_pypi(server, request, &relay).await?,
        };
        if lock.check().is_err() {
            let package = request.text();
            return Err(PackageError::Unpinned {
                package,
                what: "has packages that can't be written down".to_owned(),
            });
        }
        let hash = lock.sha256();
        Box::pin(self.stage((lock, hash), arguments, scratch, held)).await
    }

    /// Downloads and unpacks the packages of a lock again, which is given with the hash that is pinned. Archives with
    /// another hash are refused.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them can't be fetched.
    pub async fn fetch_locked(
        &self,
        server: &McpServerName,
        lock: (Lock, String),
        arguments: &[String],
    ) -> Result<Staged, PackageError> {
        let (scratch, held) = self.scratch(server).await?;
        make_folders(&scratch.path().join("archives"))?;
        Box::pin(self.stage(lock, arguments, scratch, held)).await
    }

    /// Makes a folder to work in, and removes those of processes that were killed.
    async fn scratch(&self, server: &McpServerName) -> Result<(ScratchDir, FileLock), PackageError> {
        let (home, server) = (self.home.clone(), server.clone());
        blocking(move || {
            let held = FileLock::acquire(&home.mcp_packages_lock(&server), WAIT)?;
            let folder = home.mcp_server(&server);
            for name in crate::home::scratch::names(&folder) {
                if name.starts_with(".new-") || name.starts_with(".old-") {
                    drop(remove_tree::clear(&folder, name.as_ref()));
                }
            }
            Ok((ScratchDir::make(&folder, &format!(".new-{}", std::process::id()))?, held))
        })
        .await
    }

    async fn resolve_npm(
        &self,
        server: &McpServer,
        request: &Request,
        relay: &Arc<Relay>,
    ) -> Result<Lock, PackageError> {
        (self.say)(&format!("asking npm for {}", request.name));
        let version = npm::version(&self.registry, request).await?;
        let (node, npm) = (tools::node()?, tools::npm()?);
        let mounts = vec![
            (node.get(&self.home, &self.registry, self.say).await?, NODE_TARGET.to_owned()),
            (npm.get(&self.home, &self.registry, self.say).await?, NPM_TARGET.to_owned()),
        ];
        (self.say)(&format!("resolving {}", request.source.exact(&request.name, &version)));
        let content = npm::manifest(request, &version);
        let files = vec![ExtraFile { path: "package.json".into(), content }];
        let results = vec![("package-lock.json".into(), MAX_RESULT)];
        let mut report = self.errand(server, (files, results), (RESOLVE_NPM, mounts), relay).await?;
        let Some(bytes) = report.results.pop().flatten().filter(|_| report.run.end.is_success()) else {
            return Err(unresolved(&report, relay, request, None));
        };
        let packages = npm::read_lock(&self.registry, &bytes, relay::NPM)?;
        Ok(Lock::new(request.clone(), version, node.runtime(), packages))
    }

    async fn resolve_pypi(
        &self,
        server: &McpServer,
        request: &Request,
        relay: &Arc<Relay>,
    ) -> Result<Lock, PackageError> {
        (self.say)(&format!("asking PyPI for {}", request.name));
        let unknown =
            || PackageError::UnknownPackage { registry: request.source, name: request.name.clone() };
        let project = pypi::project(&self.registry, &request.name, relay::PYPI).await?.ok_or_else(unknown)?;
        let mounts =
            vec![(tools::pip()?.get(&self.home, &self.registry, self.say).await?, PIP_TARGET.to_owned())];
        (self.say)(&format!("resolving {}", request.text()));
        let content = pypi::requirements(request);
        let files = vec![ExtraFile { path: "requirements.txt".into(), content }];
        let results = vec![("python.json".into(), MAX_RECORD), ("report.json".into(), MAX_RESULT)];
        let mut report = self.errand(server, (files, results), (RESOLVE_PYPI, mounts), relay).await?;
        let (found, python) = (report.results.pop().flatten(), report.results.pop().flatten());
        let Some(bytes) = found.filter(|_| report.run.end.is_success()) else {
            return Err(unresolved(&report, relay, request, Some(&project)));
        };
        let packages = pypi::read_report(&self.registry, &bytes, &relay.wheels())?;
        let python = python.and_then(|bytes| serde_json::from_slice::<(String, String)>(&bytes).ok());
        let (path, python) = python.ok_or_else(|| PackageError::Unresolved {
            asked: request.text(),
            output: "the image of the sandbox has no usable python3".to_owned(),
        })?;
        let is_own = |name: &str| super::lock::normalized(name) == super::lock::normalized(&request.name);
        let own = packages.iter().find(|one| is_own(&one.name)).ok_or_else(unknown)?;
        let version = own.version.clone();
        Ok(Lock::new(request.clone(), version, PackageRuntime::Python { path, version: python }, packages))
    }

    /// Runs a resolver in a sandbox with the limits and the image of the server's own.
    async fn errand(
        &self,
        server: &McpServer,
        (files, results): (Vec<ExtraFile>, Vec<(PathBuf, u64)>),
        (command, mounts): (&str, Vec<(PathBuf, String)>),
        relay: &Arc<Relay>,
    ) -> Result<ErrandReport, PackageError> {
        let mut agent = server.sandbox(&self.home);
        // A server may run in less memory than its packages are found in.
        agent.docker.memory = None;
        let errand = Errand {
            sandbox: CheckSandbox::of(&agent, Vec::new()),
            files,
            mounts,
            environment: Vec::new(),
            command: command.to_owned(),
            limit: RESOLVE_TIME,
            results,
            inside: relay.clone(),
        };
        Ok(Box::pin(self.checks.errand(&errand, &CancellationToken::new())).await?)
    }

    async fn stage(
        &self,
        (lock, hash): (Lock, String),
        arguments: &[String],
        scratch: ScratchDir,
        held: FileLock,
    ) -> Result<Staged, PackageError> {
        let source = lock.request.source;
        let node = match Tool::of_runtime(&lock.runtime) {
            Some(node) => Some(node.get(&self.home, &self.registry, self.say).await?),
            None => None,
        };
        (self.say)(&format!("fetching {} packages", lock.packages.len()));
        let archives = Artifacts::new(scratch.path().join("archives"));
        let fetched: BTreeMap<usize, PathBuf> =
            stream::iter(lock.packages.iter().enumerate())
                .map(|(at, package)| {
                    let archives = &archives;
                    async move {
                        Ok::<_, PackageError>((at, archives.get(&self.registry, source, package).await?))
                    }
                })
                .buffer_unordered(PARALLEL)
                .try_collect()
                .await?;
        (self.say)("unpacking");
        let (folder, unpacked) = (scratch.path().join("packages"), lock.clone());
        let to = folder.clone();
        let (tree, files, bytes) = blocking(move || unpack(&unpacked, &fetched, &to)).await?;
        let command = command::command(&folder, &lock, arguments)?;
        let node = node.and_then(|folder| Some(folder.file_name()?.to_str()?.to_owned()));
        let installed = Installed { lock: hash, tree, files, bytes, node };
        Ok(Staged { lock, installed, command, scratch, _held: held })
    }
}

impl Staged {
    /// Puts the package in its place, and writes down its lock and what it is.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be written or moved. If the process is killed in between, the record and the folder
    /// do not fit each other, and the server does not start until the package is fetched again.
    pub fn place(&self, home: &Home, server: &McpServerName) -> Result<(), PackageError> {
        fault_point::reach(FaultPoint::PackageStaged);
        // A lock that another version of flock wrote stays as it is.
        if self.installed.lock == self.lock.sha256() {
            self.lock.store(home, server)?;
        }
        fault_point::reach(FaultPoint::PackagePlacing);
        let (above, target) = (home.mcp_server(server), home.mcp_packages(server));
        let record = home.mcp_installed(server);
        // Without a record, no folder counts.
        match fs_err::remove_file(&record) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(PackageError::host(&record)(error));
            }
            _ => {}
        }
        fault_point::reach(FaultPoint::PackagePlacing);
        let old = format!(".old-{}", std::process::id());
        match fs_err::rename(&target, above.join(&old)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(PackageError::host(&target)(error));
            }
            _ => {}
        }
        fault_point::reach(FaultPoint::PackagePlacing);
        fs_err::rename(self.scratch.path().join("packages"), &target).map_err(PackageError::host(&target))?;
        fault_point::reach(FaultPoint::PackagePlacing);
        atomic::write(&record, &serde_json::to_vec(&self.installed).unwrap_or_default(), 0o600)?;
        fault_point::reach(FaultPoint::PackagePlacing);
        if let Err((first, more)) = remove_tree::clear(&above, old.as_ref()) {
            tracing::warn!(path = %first.path.display(), error = %first.error, more, "an old package could not be removed");
        }
        Ok(())
    }
}

/// Unpacks the archives of a lock into a folder, and returns its hash, its files and its bytes.
fn unpack(
    lock: &Lock,
    archives: &BTreeMap<usize, PathBuf>,
    folder: &Path,
) -> Result<(String, u64, u64), PackageError> {
    let mut unpacker = Unpacker::default();
    make_folders(folder)?;
    // A folder of npm sorts after those above it.
    for (at, package) in lock.packages.iter().enumerate() {
        let archive =
            archives.get(&at).ok_or_else(|| PackageError::Defect("an archive is missing".to_owned()))?;
        let file = File::open(archive).map_err(PackageError::host(archive))?;
        let exact = lock.request.source.exact(&package.name, &package.version);
        match lock.request.source {
            PackageSource::Npm => unpacker.tarball(&exact, file, &folder.join(&package.folder), &|_| true)?,
            PackageSource::Pypi => unpacker.wheel(&exact, file, &folder.join(SITE))?,
        }
    }
    if lock.request.source == PackageSource::Pypi {
        let path = folder.join(RUN_FILE);
        fs_err::write(&path, RUN).map_err(PackageError::host(&path))?;
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&path, open).map_err(PackageError::host(&path))?;
    }
    sync(folder)?;
    Ok((tree::hash(folder)?, unpacker.files, unpacker.bytes))
}

/// Waits until everything on the disk of a folder is written, so that a rename after it means that the files are whole.
pub(super) fn sync(folder: &Path) -> Result<(), PackageError> {
    let open = File::open(folder).map_err(PackageError::host(folder))?;
    nix::unistd::syncfs(open.as_fd()).map_err(|error| PackageError::host(folder)(error.into()))
}

/// Returns the error for a resolver that found nothing.
fn unresolved(
    report: &ErrandReport,
    relay: &Relay,
    request: &Request,
    project: Option<&pypi::Project>,
) -> PackageError {
    if let Some(failure) = relay.failure() {
        return failure;
    }
    let output = &report.run.output;
    let text = match report.run.end {
        CheckEnd::TimedOut => format!("it took longer than {} s", RESOLVE_TIME.as_secs()),
        _ => crate::clean::summary(&output.text(), 1_000),
    };
    match project {
        Some(project) => project.nothing_found(request, &text),
        None => PackageError::Unresolved { asked: request.text(), output: text },
    }
}

/// Reads the record of what is installed. `None` if there is none that counts.
fn record(home: &Home, server: &McpServerName) -> Option<Installed> {
    let bytes = atomic::read(&home.mcp_installed(server), MAX_RECORD).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the mounts that the sandbox of a server needs for its package.
#[must_use]
pub(crate) fn mounts(home: &Home, server: &McpServerName) -> Vec<ProgramMount> {
    let Some(installed) = record(home, server) else { return Vec::new() };
    let package = ProgramMount::fetched(home.mcp_packages(server), PACKAGE_TARGET.to_owned());
    // A name with a path in it is none of flock's.
    let node = installed.node.filter(|name| !name.contains('/') && !name.starts_with('.'));
    let node =
        node.and_then(|name| ProgramMount::fetched(home.package_tools().join(name), NODE_TARGET.to_owned()));
    package.into_iter().chain(node).collect()
}

/// Returns what tells the folder of a server's package from one that is put in its place later: inode and modification
/// time.
#[must_use]
pub(crate) fn placed(home: &Home, server: &McpServer) -> Option<(u64, i64)> {
    server.package.as_ref()?;
    ProgramMount::fetched(home.mcp_packages(&server.name), String::new())?.seen()
}

/// Returns the variables with which a package's program runs.
#[must_use]
pub(crate) fn variables(server: &McpServer) -> Vec<(String, String)> {
    match server.package.as_ref().map(|package| package.source) {
        Some(PackageSource::Pypi) => vec![
            // For programs that it starts itself.
            ("PYTHONPATH".to_owned(), format!("{PACKAGE_TARGET}/{SITE}")),
            // The package's own folder is read-only.
            ("PYTHONPYCACHEPREFIX".to_owned(), "/tmp/pycache".to_owned()),
        ],
        _ => Vec::new(),
    }
}

/// Returns the reason why the installed package of a server is not the one of its configuration. With `deep`, every file is
/// read.
#[must_use]
pub(crate) fn installed_problem(home: &Home, server: &McpServer, deep: bool) -> Option<String> {
    let package = server.package.as_ref()?;
    let exact = package.exact();
    let Some(installed) = record(home, &server.name) else {
        return Some(format!("its package {exact} is not there"));
    };
    if installed.lock != package.lock {
        return Some(format!("the package that is there is not the {exact} of its configuration"));
    }
    let folder = home.mcp_packages(&server.name);
    let node = installed.node.as_ref().map(|name| home.package_tools().join(name));
    if !folder.is_dir() {
        return Some(format!("the folder of its package {exact} is not there"));
    }
    if node.is_some_and(|node| !node.is_dir()) {
        return Some(format!("the Node that runs its package {exact} is not there"));
    }
    let is_same = || tree::hash(&folder).is_ok_and(|found| found == installed.tree);
    (deep && !is_same()).then(|| format!("files of its package {exact} have been changed"))
}

/// Removes the package of a server that is no more.
pub(crate) fn forget(home: &Home, server: &McpServerName) {
    let above = home.mcp_server(server);
    // A server without a package has none of these.
    let _ = fs_err::remove_file(home.mcp_installed(server));
    for name in ["packages", "locks"] {
        if let Err((first, more)) = remove_tree::clear(&above, name.as_ref()) {
            tracing::warn!(path = %first.path.display(), error = %first.error, more, "a package could not be removed");
        }
    }
}

/// Returns what is known about the package of a server, for people and programs.
#[must_use]
pub(crate) fn described(home: &Home, server: &McpServer) -> Option<Value> {
    let package = server.package.as_ref()?;
    let lock = Lock::load(home, &server.name, package).ok();
    let installed = record(home, &server.name).filter(|installed| installed.lock == package.lock);
    Some(json!({
        "source": package.source,
        "name": package.name,
        "version": package.version,
        "integrity": lock.as_ref().and_then(Lock::main).map(|main| &main.integrity),
        "lock": package.lock,
        "packages": lock.as_ref().map(|lock| lock.packages.len()),
        "files": installed.as_ref().map(|installed| installed.files),
        "bytes": installed.as_ref().map(|installed| installed.bytes),
        "problem": installed_problem(home, server, false),
    }))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PackageError> + Send + 'static,
) -> Result<T, PackageError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| PackageError::Defect(error.to_string()))?
}
