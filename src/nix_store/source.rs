//! Provides the content of the package set in the store. It is exactly the pinned content.

use tokio_util::sync::CancellationToken;

use super::flake::{self, Flake};
use super::path::StorePath;
use super::pin;
use super::profile::{LONG, SHORT, Watch};
use super::realise::Realisation;
use super::store::{GC_ROOTS, exec, run_blocking};
use super::{NixError, PackageStore, Pin};
use crate::id::AgentId;
use crate::sandbox::exec::EngineExec;

impl PackageStore {
    /// Pins the configured flake to its current content, or to a revision, and records the pin. Returns the pin.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The recorded pin is then unchanged.
    pub async fn pin(
        &self,
        rev: Option<&str>,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<Pin, NixError> {
        let flake = Flake::configured((self.config)().nix_flake.as_deref())?;
        let reference = match rev {
            Some(rev) => flake.at(rev)?,
            None => flake.reference(),
        };
        if let Flake::Folder(folder) = flake {
            let home = self.home.clone();
            return run_blocking(move || Pin::folder(&home, &folder)).await;
        }
        // The write lock is not held while the reference is looked up.
        let container = {
            let (_writing, container) = self.lock_running().await?;
            self.sweep(&container).await?;
            container
        };
        let work = self.begin(&container, &log_agent()?, "pin the package set", cancel, watch).await?;
        let pin = work.lock(&flake.reference(), &reference).await;
        // Finish before returning an error, so that the folders of the work are removed.
        let finished = work.finish().await;
        let pin = pin?;
        finished?;
        pin.write(&self.home)?;
        Ok(pin)
    }

    /// Starts a build container and checks its confinement.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::NotConfined`] if the container has something open that must be closed.
    pub(crate) async fn probe_builds(&self) -> Result<(), NixError> {
        let (_, container) = self.lock_running().await?;
        let never = CancellationToken::new();
        let work = self.begin(&container, &log_agent()?, "probe a build container", &never, &|_| {}).await?;
        let probed = work.probe().await;
        let finished = work.finish().await;
        probed.and(finished)
    }

    /// Returns the pin of the configured flake, or `None` if it has none. A folder without a pin is pinned now.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Changed`] if the content of a pinned folder has changed.
    pub(super) async fn pinned(&self, flake: &Flake) -> Result<Option<Pin>, NixError> {
        let (home, flake) = (self.home.clone(), flake.clone());
        run_blocking(move || {
            let pin = pin::adopt(&home, Some(&flake.reference()))?;
            if let (Flake::Folder(folder), Some(pin)) = (&flake, &pin)
                && pin::folder_hash(folder)? != pin.nar_hash
            {
                return Err(NixError::Changed { flake: flake.reference() });
            }
            Ok(pin)
        })
        .await
    }

    /// Returns the pin and the path of the package set in the store, bringing the content there if it is missing. A
    /// remote flake without a pin is pinned now.
    pub(super) async fn source(
        &self,
        work: &Realisation<'_>,
        flake: &Flake,
        pin: Option<Pin>,
    ) -> Result<(Pin, StorePath), NixError> {
        let pin = match pin {
            Some(pin) => pin,
            None => {
                let pin = work.lock(&flake.reference(), &flake.reference()).await?;
                pin.write(&self.home)?;
                pin
            }
        };
        let source = pin.source(&self.home)?;
        let root = work.root("source");
        let script = format!(
            "if nix-store --check-validity '{source}' 2>/dev/null; then mkdir -p \"$(dirname '{root}')\"; ln -sfn \
             '{source}' '{root}'; ln -sfn '{source}' {GC_ROOTS}/set; echo there; fi"
        );
        let said = self.script(work.daemon(), "look for the package set", &script, SHORT).await?;
        if said.trim() == "there" {
            return Ok((pin, source));
        }
        match flake {
            Flake::Folder(folder) => {
                let found = self.carry(work.daemon(), folder.clone(), &root).await?;
                // The folder has changed since its hash was computed.
                if found != source {
                    return Err(NixError::Changed { flake: flake.reference() });
                }
            }
            Flake::Remote(_) => work.fetch(&pin.locked, &source).await?,
        }
        let script = format!("ln -sfn '{source}' {GC_ROOTS}/set");
        self.script(work.daemon(), "keep the package set", &script, SHORT).await?;
        Ok((pin, source))
    }

    /// Copies a flake's folder of this machine into the store and protects it from collection with a link at `root`.
    async fn carry(
        &self,
        container: &str,
        folder: std::path::PathBuf,
        root: &str,
    ) -> Result<StorePath, NixError> {
        let packed = run_blocking(move || flake::pack(&folder)).await?;
        let script = format!(
            "set -e; made=$(mktemp -d /tmp/flake.XXXXXX); trap 'rm -rf \"$made\"' EXIT; mkdir \"$made/source\"
             tar -x --no-same-owner -C \"$made/source\"
             path=$(nix store add-path --name source \"$made/source\" 2> \"$made/said\") || {{ cat \"$made/said\"; exit 1; }}
             mkdir -p \"$(dirname '{root}')\"; ln -sfn \"$path\" '{root}'; echo; echo \"$path\""
        );
        let exec = EngineExec { input: Some(packed), ..exec(&script, LONG) };
        let what = "take over the flake";
        let said = self.command(container, what, exec, &CancellationToken::new(), &|_| {}).await?;
        let path = said.lines().rev().find_map(|line| line.trim().parse().ok());
        path.ok_or_else(|| NixError::Nix { what: what.to_owned(), tail: said })
    }
}

/// Returns the name for the log if no agent has made the request.
fn log_agent() -> Result<AgentId, NixError> {
    "owner".parse().map_err(|_| NixError::Lost { reason: "no name for it".to_owned() })
}
