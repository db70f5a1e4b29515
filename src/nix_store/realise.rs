//! Brings a package from its name to its files in the store, without running anything that an agent chose beside the
//! store. A flake is evaluated in one throw-away container, and each derivation that no cache has is built in a
//! container of its own. Only results that can be checked are taken over:
//!
//! | source | what is taken | check |
//! |---|---|---|
//! | evaluation | derivations and their sources | their path is made from their content |
//! | a cache | the files of a package | signed with a key that the store trusts |
//! | a build | exactly the outputs of the derivation | path made from the derivation, or from fixed content |
//!
//! A malicious derivation can therefore put wrong content into its own outputs and nowhere else.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::container::{self, BuildContainer, BuildSpec, FILES, Volumes};
use super::derivation::{self, DerivationOutput};
use super::monitor::BuildMonitor;
use super::path::StorePath;
use super::profile::{LONG, SHORT, Watch};
use super::store::{BUILDS, GC_ROOTS, exec, run_blocking};
use super::substituter::{FETCH_SETTINGS, TRUSTED_KEYS};
use super::{Attribute, Flake, NixError, PackageStore, Pin};
use crate::home::lock::Lock;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::{ConnectionRecord, EgressPolicy, EgressRule, Proxy};
use crate::sandbox::exec::EngineExec;
use crate::sandbox::{containers, names};

/// A package with the paths to install for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RealisedPackage {
    pub package: Attribute,
    pub outputs: Vec<StorePath>,
}

/// The work for one request in throw-away containers. While this value lives, the paths that it has brought to the
/// store are not collected.
pub(super) struct Realisation<'a> {
    store: &'a PackageStore,
    /// The id of the store's container.
    daemon: &'a str,
    agent: AgentId,
    id: String,
    steps: AtomicU32,
    image: String,
    volumes: Volumes,
    deadline: Instant,
    cancel: &'a CancellationToken,
    watch: Watch<'a>,
    /// Shows other processes that this work is alive.
    _lock: Lock,
}

impl PackageStore {
    /// Begins the work for one request. Waits while a garbage collection runs.
    pub(super) async fn begin<'a>(
        &'a self,
        daemon: &'a str,
        agent: &AgentId,
        what: &str,
        cancel: &'a CancellationToken,
        watch: Watch<'a>,
    ) -> Result<Realisation<'a>, NixError> {
        let given_up = || NixError::Cancelled { what: what.to_owned() };
        let free = async {
            // A collection must not delete paths that this work counts on.
            while self.is_locked("gc").await? {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok::<_, NixError>(())
        };
        cancel.run_until_cancelled(free).await.ok_or_else(given_up)??;
        // Random, because several processes of a home may work at once.
        let id = format!("{:08x}", rand::random::<u32>());
        let lock = self.lock(&id).await?;
        let image = self.image().await?;
        let volumes = self.volumes().await?;
        Ok(Realisation {
            store: self,
            daemon,
            agent: agent.clone(),
            id,
            steps: AtomicU32::new(0),
            image,
            volumes,
            deadline: Instant::now() + LONG,
            cancel,
            watch,
            _lock: lock,
        })
    }

    async fn lock(&self, name: &str) -> Result<Lock, NixError> {
        let path = self.home.nix_lock(name);
        run_blocking(move || Ok(Lock::acquire(&path, SHORT)?)).await
    }

    async fn is_locked(&self, name: &str) -> Result<bool, NixError> {
        let path = self.home.nix_lock(name);
        run_blocking(move || Ok(Lock::is_held(&path)?)).await
    }

    /// Waits until no request of any process of this home is in progress, and keeps new ones out until the returned
    /// lock is dropped.
    pub(super) async fn quiet(&self, cancel: &CancellationToken, watch: Watch<'_>) -> Result<Lock, NixError> {
        let gate = self.lock("gc").await?;
        let mut told = false;
        loop {
            let busy = self.working().await?;
            if busy.is_empty() {
                return Ok(gate);
            }
            if !std::mem::replace(&mut told, true) {
                watch("waiting for packages that are being installed");
            }
            if cancel.run_until_cancelled(tokio::time::sleep(POLL_INTERVAL)).await.is_none() {
                return Err(NixError::Cancelled { what: "collect garbage".to_owned() });
            }
        }
    }

    /// Returns the ids of the requests in progress, in any process.
    async fn working(&self) -> Result<BTreeSet<String>, NixError> {
        let run = self.home.run();
        run_blocking(move || {
            let mut ids = BTreeSet::new();
            let entries =
                fs_err::read_dir(&run).map_err(|error| NixError::Lost { reason: error.to_string() })?;
            for entry in entries.filter_map(Result::ok) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let id = name.strip_prefix("nix-").and_then(|rest| rest.strip_suffix(".lock"));
                let Some(id) = id.filter(|id| is_request_id(id)) else { continue };
                // A lock that cannot be examined counts as held.
                if Lock::is_held(&entry.path()).unwrap_or(true) {
                    ids.insert(id.to_owned());
                } else {
                    // Its holder is gone, and nobody takes a lock of a random name again.
                    let _ = fs_err::remove_file(entry.path());
                }
            }
            Ok(ids)
        })
        .await
    }

    /// Removes what requests of dead processes left behind: containers, folders and garbage collection roots.
    pub(super) async fn sweep(&self, daemon: &str) -> Result<(), NixError> {
        // List the folders before the locks. A folder that is made later is not in the list, and the owner of an
        // earlier one has its lock already.
        let script = format!("mkdir -p {BUILDS} {GC_ROOTS}; ls {BUILDS} {GC_ROOTS}");
        let found = self.script(daemon, "list leftovers of builds", &script, SHORT).await?;
        let containers = containers::list(&self.engine, &self.home).await?;
        let working = self.working().await?;
        let is_left = |id: &str| {
            let request = id.split('-').next().unwrap_or_default();
            is_request_id(request) && !working.contains(request)
        };
        for container in containers {
            if container.build.as_deref().is_some_and(is_left) {
                containers::remove(&self.engine, &container.id).await?;
            }
        }
        let left: Vec<&str> = found.lines().map(str::trim).filter(|line| is_left(line)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let folders: Vec<String> =
            left.iter().map(|id| format!("'{BUILDS}/{id}' '{GC_ROOTS}/{id}'")).collect();
        let script = format!("rm -rf -- {}", folders.join(" "));
        self.script(daemon, "remove leftovers of builds", &script, LONG).await.map(drop)
    }
}

impl Realisation<'_> {
    /// Evaluates, fetches and builds the packages, and returns their paths in the store. `flake` is the reference to
    /// evaluate.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The store then contains at most parts of the packages, which the next
    /// garbage collection removes.
    pub(crate) async fn realise(
        &self,
        flake: &str,
        packages: &[Attribute],
    ) -> Result<Vec<RealisedPackage>, NixError> {
        let (evaluated, missing) = self.evaluate(flake, packages).await?;
        for (at, derivation) in missing.iter().enumerate() {
            (self.watch)(&format!("building {} ({} of {})", derivation.name(), at + 1, missing.len()));
            self.build(derivation).await?;
        }
        Ok(evaluated)
    }

    /// Returns the id of the store's container.
    pub const fn daemon(&self) -> &str {
        self.daemon
    }

    /// Starts a container like that of a build, checks its confinement, and removes it.
    pub async fn probe(&self) -> Result<(), NixError> {
        Box::pin(self.open(false, String::new(), None)).await?.0.remove().await
    }

    /// Resolves a reference to its current revision and content hash.
    pub async fn lock(&self, flake: &str, reference: &str) -> Result<Pin, NixError> {
        let what = format!("look up {reference}");
        let mark = mark();
        let script = format!(
            "set -e; nix-store --load-db < registration
             found=$(nix flake metadata --json --no-write-lock-file '{reference}'); echo; echo \"{mark} locked $found\""
        );
        let (said, _) = self.fetch_in_container(&what, script).await?;
        let found = said.lines().rev().find_map(|line| line.strip_prefix(&format!("{mark} locked ")));
        let found: Option<serde_json::Value> = found.and_then(|line| serde_json::from_str(line).ok());
        let text = |path: &str| Some(found.as_ref()?.pointer(path)?.as_str()?.to_owned());
        match (text("/url"), text("/locked/narHash")) {
            // `fetch` writes the reference into a script, so it must be one that could be configured.
            (Some(locked), Some(nar_hash)) if Flake::configured(Some(&locked)).is_ok() => {
                Ok(Pin { flake: flake.to_owned(), locked, nar_hash })
            }
            _ => Err(NixError::Nix { what, tail: "it reported neither revision nor hash".to_owned() }),
        }
    }

    /// Fetches the content of a reference into the store.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Changed`] if the content is not the one that belongs at the path `source`.
    pub async fn fetch(&self, reference: &str, source: &StorePath) -> Result<(), NixError> {
        // The hash is left out, because Nix 2.8 takes it for a part of a tarball's address. The content is compared
        // below.
        let (place, query) = reference.split_once('?').unwrap_or((reference, ""));
        let query: Vec<&str> =
            query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("narHash=")).collect();
        let fetched =
            if query.is_empty() { place.to_owned() } else { format!("{place}?{}", query.join("&")) };
        let what = format!("fetch {fetched}");
        let mark = mark();
        // `nix flake prefetch` of Nix 2.8 cannot be used: it requests an empty address for a tarball.
        let script = format!(
            "set -e; nix-store --load-db < registration; nix flake metadata --no-write-lock-file '{fetched}' > /dev/null
             if nix-store --check-validity '{source}' 2>/dev/null
             then nix copy --to 'file:///nix/store/{FILES}/cache?compression=none' '{source}'
             else echo; echo '{mark} changed'; fi"
        );
        let (said, folder) = self.fetch_in_container(&what, script).await?;
        if said.lines().any(|line| line == format!("{mark} changed")) {
            return Err(NixError::Changed { flake: reference.to_owned() });
        }
        let root = self.root("source");
        let script = format!(
            "set -e; nix copy --from 'file://{BUILDS}/{folder}/upper/{FILES}/cache' '{source}'
             mkdir -p \"$(dirname '{root}')\"; ln -sfn '{source}' '{root}'"
        );
        self.store.script(self.daemon, "take over the package set", &script, LONG).await.map(drop)
    }

    /// Returns the place for a link that keeps a path from being collected while the work lives.
    pub fn root(&self, name: &str) -> String {
        format!("{GC_ROOTS}/{}/{name}", self.id)
    }

    /// Removes the folders and roots of the work.
    pub async fn finish(self) -> Result<(), NixError> {
        let script = format!("rm -rf -- {BUILDS}/{id}-* {GC_ROOTS}/{id}", id = self.id);
        let done = self.store.script(self.daemon, "clean up after a build", &script, LONG).await.map(drop);
        // The file is removed while the lock is held. Nobody else takes a lock of a random name.
        let _ = fs_err::remove_file(self.store.home.nix_lock(&self.id));
        done
    }

    /// Evaluates the packages and fetches the paths that the caches have. Returns the packages, and the derivations that
    /// have to be built, each after those that it needs.
    async fn evaluate(
        &self,
        flake: &str,
        packages: &[Attribute],
    ) -> Result<(Vec<RealisedPackage>, Vec<StorePath>), NixError> {
        let names: Vec<&str> = packages.iter().map(Attribute::as_str).collect();
        let what = format!("evaluate {}", names.join(", "));
        let mark = mark();
        let script = evaluate_script(flake, &names, &mark);
        let (said, folder) = self.fetch_in_container(&what, script).await?;
        let mut evaluated = Vec::new();
        let mut derivations = Vec::new();
        for package in packages {
            match package_paths(&said, &mark, package.as_str()).as_deref() {
                Some([derivation, outputs @ ..]) if derivation.is_derivation() && !outputs.is_empty() => {
                    derivations.push(derivation.clone());
                    evaluated.push(RealisedPackage { package: package.clone(), outputs: outputs.to_vec() });
                }
                _ => return Err(NixError::NotAPackage { package: package.to_string() }),
            }
        }
        let missing = self.import_evaluation(&folder, &derivations, &fetched_paths(&said, &mark)).await?;
        Ok((evaluated, missing))
    }

    /// Takes derivations, their sources and the fetched paths out of the folder of an evaluation. Returns the
    /// derivations that have to be built, each after those that it needs.
    async fn import_evaluation(
        &self,
        folder: &str,
        derivations: &[StorePath],
        fetched: &[StorePath],
    ) -> Result<Vec<StorePath>, NixError> {
        // `nix copy` checks each path: the content against the name, or the signature against the trusted keys. The
        // list of fetched paths comes through standard input, because it can be longer than a command line may be.
        let quoted: Vec<&str> = derivations.iter().map(StorePath::as_str).collect();
        let quoted = quoted.join(" ");
        let roots = format!("{GC_ROOTS}/{}", self.id);
        let script = format!(
            "set -e
             from='file://{BUILDS}/{folder}/upper/{FILES}/cache'
             nix copy --derivation --from \"$from\" {quoted}
             mkdir -p {roots}
             for derivation in {quoted}; do ln -sfn \"$derivation\" '{roots}/'\"${{derivation##*/}}\"; done
             xargs -r nix copy --from \"$from\"
             rm -rf '{BUILDS}/{folder}'
             nix-store --realise --dry-run {quoted} 2>&1"
        );
        let fetched: String = fetched.iter().map(|path| format!("{path}\n")).collect();
        let exec = EngineExec { input: Some(fetched.into()), ..exec(&script, LONG) };
        Ok(missing_derivations(&self.command("take over the evaluated packages", exec).await?))
    }

    /// Builds one derivation whose inputs are in the store, and takes its outputs.
    async fn build(&self, derivation: &StorePath) -> Result<(), NixError> {
        let what = format!("build {}", derivation.name());
        let fixed = self.outputs(derivation).await?;
        // Only a derivation whose content is fixed by a hash may use the network.
        let network = fixed.iter().all(|output| output.fixed.is_some());
        let settings = format!("max-jobs = 1\ncores = {}\nsubstitute = false", container::cores());
        let script = format!(
            "set -e; nix-store --load-db < /nix/store/{FILES}/registration; exec nix-store --realise '{derivation}'"
        );
        let (_, folder) = self.run_in_container(&what, network, settings, Some(derivation), script).await?;
        self.import_outputs(&folder, derivation, fixed).await
    }

    /// Reads the outputs of a derivation in the store.
    async fn outputs(&self, derivation: &StorePath) -> Result<Vec<DerivationOutput>, NixError> {
        let exec = EngineExec {
            command: vec!["cat".to_owned(), derivation.to_string()],
            timeout: SHORT,
            keep: MAX_DERIVATION,
            ..EngineExec::default()
        };
        let what = format!("read {}", derivation.name());
        let text = self.command(&what, exec).await?;
        let outputs = derivation::outputs(&text).filter(|outputs| !outputs.is_empty());
        let tail = || "the paths of its outputs are not known before the build".to_owned();
        outputs.ok_or_else(|| NixError::Nix { what, tail: tail() })
    }

    /// Runs a command in the store's container.
    pub(super) async fn command(&self, what: &str, exec: EngineExec) -> Result<String, NixError> {
        self.store.command(self.daemon, what, exec, self.cancel, &|_| {}).await
    }

    /// Runs a script that may fetch and builds nothing, as [`Self::run_in_container`] does.
    async fn fetch_in_container(&self, what: &str, script: String) -> Result<(String, String), NixError> {
        (self.watch)(what);
        // With `max-jobs = 0` Nix builds nothing.
        let settings = format!("max-jobs = 0\n{TRUSTED_KEYS}\n{FETCH_SETTINGS}");
        self.run_in_container(what, true, settings, None, script).await
    }

    /// Runs a script in a new container, which is gone afterwards, also if the script fails. Returns the output and the
    /// name of the folder that holds the container's files.
    async fn run_in_container(
        &self,
        what: &str,
        network: bool,
        settings: String,
        derivation: Option<&StorePath>,
        script: String,
    ) -> Result<(String, String), NixError> {
        let (container, folder) = Box::pin(self.open(network, settings, derivation)).await?;
        let said = self.work(&container, &folder, what, script).await;
        // None of its processes may run any more when the files are examined.
        container.remove().await?;
        Ok((said?, folder))
    }

    /// Creates and starts a container for one step. Returns it with the name of its folder.
    async fn open(
        &self,
        network: bool,
        settings: String,
        derivation: Option<&StorePath>,
    ) -> Result<(BuildContainer, String), NixError> {
        let id = format!("{}-{}", self.id, self.steps.fetch_add(1, Ordering::Relaxed));
        let plan = BuildSpec {
            home: &self.store.home,
            id: id.clone(),
            image: self.image.clone(),
            volumes: &self.volumes,
            proxy: network.then(|| self.proxy()),
            settings,
        };
        let user = container::user();
        let files = format!("{BUILDS}/{id}/upper/{FILES}");
        // A build may know only its inputs. An evaluation may know every path of the store.
        let known = derivation.map_or_else(String::new, |derivation| {
            format!(" $(nix-store -q --requisites --include-outputs '{derivation}')")
        });
        let script = format!(
            "set -e; mkdir -p '{files}/tmp' '{files}/cache' '{BUILDS}/{id}/work'
             nix-store --dump-db{known} > '{files}/registration'
             chown -R {user}:{user} '{BUILDS}/{id}/upper'"
        );
        let (created, prepared) = tokio::join!(
            BuildContainer::create(&self.store.engine, &plan),
            self.store.script(self.daemon, "prepare a build", &script, SHORT)
        );
        // One of the two may have succeeded, so the container may exist.
        if let Err(error) = created.and(prepared.map(drop)) {
            containers::remove(&self.store.engine, &names::build(&self.store.home, &id)).await?;
            return Err(error);
        }
        let started = Box::pin(BuildContainer::start(&self.store.engine, &plan));
        let started = self.cancel.run_until_cancelled(started).await;
        let container =
            started.ok_or_else(|| NixError::Cancelled { what: "start a build container".to_owned() })??;
        Ok((container, id))
    }

    /// Runs a script in a container, unless it has to be ended before.
    async fn work(
        &self,
        container: &BuildContainer,
        folder: &str,
        what: &str,
        script: String,
    ) -> Result<String, NixError> {
        let monitor = BuildMonitor { store: self.store, daemon: self.daemon, container, folder, what };
        tokio::select! {
            done = container.run(what, script, self.deadline, self.cancel) => done,
            reason = Box::pin(monitor.reason_to_end()) => Err(reason),
        }
    }

    fn proxy(&self) -> Arc<Proxy> {
        Arc::new(Proxy {
            agent: self.agent.clone(),
            policy: Arc::new(PublicNames),
            dial: Arc::clone(&self.store.dial),
            has_network: true,
            // A build may reach public hosts but nothing of flock.
            inside: None,
        })
    }
}

/// The egress policy of package builds: any public host is allowed by its name.
struct PublicNames;

impl EgressPolicy for PublicNames {
    fn rules<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        Box::pin(async { vec![EgressRule::any_name()] })
    }

    fn note(&self, agent: &AgentId, connection: &ConnectionRecord) {
        let ConnectionRecord { host, port, fate, sent, received, .. } = connection;
        tracing::info!(%agent, %host, port, fate = fate.as_str(), sent, received, "fetched for a package");
    }
}

/// Returns the script of an evaluation. Neither the attribute names nor the reference contain a character that ends a
/// quoted word.
fn evaluate_script(flake: &str, packages: &[&str], mark: &str) -> String {
    let mut script = format!("set -e; cd /nix/store/{FILES}; nix-store --load-db < registration\n");
    for package in packages {
        let _ = write!(
            script,
            "paths=$(nix eval --raw --no-update-lock-file '{flake}#{package}' --apply '{PATHS_FUNCTION}')\n\
             printf '%s\\n' \"$paths\" >> paths; echo; echo \"{mark} package {package} $paths\"\n"
        );
    }
    let _ = write!(
        script,
        "derivations=$(cut -d ' ' -f 1 paths)
         nix-store --realise --dry-run $derivations 2> missing || {{ cat missing; exit 1; }}
         awk '/ will be fetched/ {{ on = 1; next }} /^[^ ]/ {{ on = 0 }} on {{ print $1 }}' missing > fetch
         to='file:///nix/store/{FILES}/cache?compression=none'
         xargs -r nix-store --realise < fetch > fetched
         nix copy --derivation --to \"$to\" $derivations
         xargs -r nix copy --to \"$to\" < fetched
         sed 's/^/{mark} fetched /' fetched\n"
    );
    script
}

/// Returns a prefix for the output lines of one script that are meant for flock. It is random, because a flake prints
/// lines of its own (`builtins.trace`) while it is evaluated, and must not be able to print one with this prefix.
fn mark() -> String {
    format!("flock-{:016x}:", rand::random::<u64>())
}

/// Parses the derivation and the outputs of a package from the output of an evaluation.
fn package_paths(said: &str, mark: &str, package: &str) -> Option<Vec<StorePath>> {
    let prefix = format!("{mark} package {package} ");
    let line = said.lines().rev().find_map(|line| line.strip_prefix(&prefix))?;
    line.split(' ').map(|path| path.parse().ok()).collect()
}

/// Parses the paths that an evaluation has fetched from caches.
fn fetched_paths(said: &str, mark: &str) -> Vec<StorePath> {
    let prefix = format!("{mark} fetched ");
    said.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse().ok()).collect()
}

/// Parses the derivations that Nix says it would build. Its order puts each after those that it needs.
fn missing_derivations(said: &str) -> Vec<StorePath> {
    let mut found = Vec::new();
    let mut listed = false;
    for line in said.lines() {
        if !line.starts_with(' ') {
            listed = line.ends_with("will be built:");
        } else if listed && let Ok(path) = line.trim().parse() {
            found.push(path);
        }
    }
    found
}

fn is_request_id(id: &str) -> bool {
    id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

// The magic number `NIXE` of the export format.
/// Nix function that returns a package's derivation and the paths of the outputs to install.
const PATHS_FUNCTION: &str = "p: if (p.type or null) == \"derivation\" then builtins.concatStringsSep \" \" ([ p.drvPath ] ++ \
                     builtins.map (o: p.${o}.outPath) (p.meta.outputsToInstall or [ p.outputName ])) else throw \"it is \
                     not a package\"";
/// Limit on a derivation and on a list of paths, in bytes.
pub(super) const MAX_DERIVATION: usize = 16 << 20;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "/nix/store/ppc3xm1flkzr35z08qmzsf98g37yk7pl-lib.drv";

    #[test]
    fn derivations_to_build_keep_their_order() {
        let said = format!(
            "warning: x\nthese 2 derivations will be built:\n  {LIB}\n  {LIB}2.drv\nthese 1 paths will be \
             fetched (0.1 MiB):\n  /nix/store/bbc3xm1flkzr35z08qmzsf98g37yk7pl-x\n"
        );
        let built: Vec<String> = missing_derivations(&said).iter().map(ToString::to_string).collect();
        assert_eq!(built, [LIB.to_owned(), format!("{LIB}2.drv")]);
        assert_eq!(missing_derivations("this derivation will be built:\n  ../x\n"), []);
        assert_eq!(missing_derivations(""), []);
    }

    #[test]
    fn a_line_that_a_flake_prints_is_not_taken_for_one_of_the_script() {
        const OUT: &str = "/nix/store/bbc3xm1flkzr35z08qmzsf98g37yk7pl-lib";
        const OTHER: &str = "/nix/store/cbc3xm1flkzr35z08qmzsf98g37yk7pl-other";
        let mark = mark();
        // `builtins.trace` prints a text of several lines as it is, before and after the line of the script.
        let guess = super::mark();
        let traced = ["flock:", guess.as_str()]
            .map(|mark| format!("trace: a text\n{mark} package lib {LIB} {OTHER}\n{mark} fetched {OTHER}\n"));
        let traced = traced.concat();
        let said =
            format!("{traced}{mark} package lib {LIB} {OUT}\n{mark} package library {LIB} {OTHER}\n{traced}");
        let paths: Vec<String> =
            package_paths(&said, &mark, "lib").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(paths, [LIB, OUT]);
        assert_eq!(fetched_paths(&said, &mark), []);
        assert_eq!(package_paths(&traced, &mark, "lib"), None);
        assert_eq!(fetched_paths(&format!("{mark} fetched {OUT}\n"), &mark).len(), 1);
    }
}
