//! Profiles: what an agent has installed, on its PATH in its sandbox. Each change makes a new generation, and
//! the one before stays until it is collected.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::flake::{self, Flake};
use super::store::{PROFILES, shell};
use super::{Attribute, Installed, NixError, Store, manifest};
use crate::id::AgentId;
use crate::sandbox::exec::Exec;

/// Shown to whoever waits: a line of what Nix says.
pub type Watch<'a> = &'a (dyn Fn(&str) + Send + Sync);

impl Store {
    /// Installs packages for an agent; those it has from the same flake already stay as they are. Returns
    /// those that are new.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says; the profile is then what it was.
    pub async fn install(
        &self,
        agent: &AgentId,
        packages: &[Attribute],
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<Vec<Attribute>, NixError> {
        let flake = Flake::configured((self.config)().nix_flake.as_deref())?;
        let names: Vec<&str> = packages.iter().map(Attribute::as_str).collect();
        let what = format!("install {}", names.join(", "));
        let _writing = self.turn(&what, cancel).await?;
        let container = Box::pin(self.running()).await?;
        let inside = flake.inside();
        let there = self.read(&container, agent).await?;
        let has = |package: &Attribute| {
            there.iter().any(|found| found.package == package.as_str() && found.flake == inside)
        };
        let new: Vec<Attribute> = packages.iter().filter(|package| !has(package)).cloned().collect();
        if new.is_empty() {
            return Ok(new);
        }
        if let Flake::Folder(folder) = &flake {
            self.carry(&container, folder.clone()).await?;
        }
        let mut arguments = vec!["profile", "install", "--no-write-lock-file", "--profile"];
        let profile = profile(agent)?;
        arguments.push(&profile);
        let references: Vec<String> = new.iter().map(|package| format!("{inside}#{package}")).collect();
        arguments.extend(references.iter().map(String::as_str));
        self.nix(&container, &what, &arguments, cancel, watch).await?;
        Ok(new)
    }

    /// Installs what a whole reference names, as in `github:owner/repository#name`. Nobody but a person decides
    /// about such a source; this only runs it.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says; the profile is then what it was.
    pub async fn install_reference(
        &self,
        agent: &AgentId,
        reference: &str,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<(), NixError> {
        let named = reference.split_once('#').is_some_and(|(source, name)| {
            source.contains(':') && !source.starts_with(['-', '/', '.']) && name.parse::<Attribute>().is_ok()
        });
        let local = reference.starts_with("path:") || reference.starts_with("file:");
        if !named || local || reference.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NixError::NotAnAttribute(reference.chars().take(80).collect()));
        }
        let profile = profile(agent)?;
        let what = format!("install {reference}");
        let _writing = self.turn(&what, cancel).await?;
        let container = Box::pin(self.running()).await?;
        let arguments = ["profile", "install", "--no-write-lock-file", "--profile", &profile, reference];
        self.nix(&container, &what, &arguments, cancel, watch).await
    }

    /// Waits until nobody else writes a profile, unless the caller gives up.
    async fn turn(
        &self,
        what: &str,
        cancel: &CancellationToken,
    ) -> Result<tokio::sync::MutexGuard<'_, ()>, NixError> {
        let waited = cancel.run_until_cancelled(self.writing.lock()).await;
        waited.ok_or_else(|| NixError::Cancelled { what: what.to_owned() })
    }

    /// Removes packages from an agent's profile.
    ///
    /// # Errors
    ///
    /// [`NixError::NotInstalled`] before anything is removed, else as [`NixError`] says.
    pub async fn uninstall(&self, agent: &AgentId, packages: &[Attribute]) -> Result<(), NixError> {
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        let there = self.read(&container, agent).await?;
        let mut paths = Vec::new();
        for package in packages {
            let found: Vec<&Installed> =
                there.iter().filter(|found| found.package == package.as_str()).collect();
            if found.is_empty() {
                let package = package.to_string();
                return Err(NixError::NotInstalled { agent: agent.clone(), package });
            }
            // By path: a number means another package after the first removal, a name may be a pattern.
            paths.extend(found.iter().filter_map(|found| found.store_paths.first()).cloned());
        }
        let profile = profile(agent)?;
        let mut arguments = vec!["profile", "remove", "--profile", &profile];
        arguments.extend(paths.iter().map(String::as_str));
        let names: Vec<&str> = packages.iter().map(Attribute::as_str).collect();
        let what = format!("remove {}", names.join(", "));
        self.nix(&container, &what, &arguments, &CancellationToken::new(), &|_| {}).await
    }

    /// What an agent has installed, by name.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says.
    pub async fn installed(&self, agent: &AgentId) -> Result<Vec<Installed>, NixError> {
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        self.read(&container, agent).await
    }

    /// Goes back to the generation before the last change.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says, also where there is none.
    pub async fn rollback(&self, agent: &AgentId) -> Result<(), NixError> {
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        let profile = profile(agent)?;
        let arguments = ["profile", "rollback", "--profile", &profile];
        self.nix(&container, "roll back", &arguments, &CancellationToken::new(), &|_| {}).await
    }

    /// Deletes what no profile needs. With `keep_days`, generations that were replaced longer ago than that
    /// are given up first, so that there is no way back to them. Returns what Nix says it freed.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says.
    pub async fn gc(
        &self,
        keep_days: Option<u32>,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<String, NixError> {
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        let last = std::sync::Mutex::new(String::new());
        let note = |line: &str| {
            *last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = line.to_owned();
            watch(line);
        };
        if let Some(days) = keep_days {
            let older = if days == 0 { "old".to_owned() } else { format!("{days}d") };
            let script = format!(
                "set -e; cd {PROFILES}; ls | grep -vE -- '-[0-9]+-link$' | while read -r profile; do \
                 nix-env --profile \"$PWD/$profile\" --delete-generations {older}; done"
            );
            self.run(&container, "give up old generations", shell(&script), cancel, &|_| {}).await?;
        }
        // A collection listens on a socket of the volume and leaves it there; a sandbox shares the volume.
        let script = "nix store gc; ended=$?; rm -rf /nix/var/nix/gc-socket; exit $ended";
        self.run(&container, "collect garbage", shell(script), cancel, &note).await?;
        let last = last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(last.clone())
    }

    /// Removes an agent's profile with all its generations; the packages go with the next collection.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says.
    pub async fn forget(&self, agent: &AgentId) -> Result<(), NixError> {
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        // An id has no character that means anything to a shell or a pattern.
        let script = format!(
            "set -e; cd {PROFILES}; rm -f {agent}; ls | grep -E '^{agent}-[0-9]+-link$' | xargs -r rm -f"
        );
        self.run(&container, "remove the profile", shell(&script), &CancellationToken::new(), &|_| {}).await
    }

    async fn read(&self, container: &str, agent: &AgentId) -> Result<Vec<Installed>, NixError> {
        let profile = profile(agent)?;
        let script = format!("if [ -e {profile}/manifest.json ]; then cat {profile}/manifest.json; fi");
        let exec = Exec { command: shell(&script), timeout: SHORT, ..Exec::default() };
        let never = CancellationToken::new();
        let outcome = self.command(container, "read the profile", exec, &never, &|_| {}).await?;
        Ok(manifest::parse(&[outcome.output.head, outcome.output.tail].concat()))
    }

    /// Copies a flake of this machine into the container, over what was there.
    async fn carry(&self, container: &str, folder: std::path::PathBuf) -> Result<(), NixError> {
        let target = Flake::folder_inside(&folder);
        let packed = tokio::task::spawn_blocking(move || flake::pack(&folder)).await.map_err(|error| {
            NixError::FlakeFolder { path: target.clone().into(), source: std::io::Error::other(error) }
        })??;
        let target = target.as_str();
        let script = format!(
            "set -e; rm -rf {target}; mkdir -p {target}; tar -x --no-same-owner -C {target}; \
             chown -R 0:0 {target}"
        );
        let exec = Exec { command: shell(&script), input: Some(packed), timeout: SHORT, ..Exec::default() };
        let never = CancellationToken::new();
        self.command(container, "take over the flake", exec, &never, &|_| {}).await.map(drop)
    }

    async fn nix(
        &self,
        container: &str,
        what: &str,
        arguments: &[&str],
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<(), NixError> {
        let command = std::iter::once("nix").chain(arguments.iter().copied()).map(str::to_owned).collect();
        self.run(container, what, command, cancel, watch).await
    }

    async fn run(
        &self,
        container: &str,
        what: &str,
        command: Vec<String>,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<(), NixError> {
        let pieces = |bytes: &[u8]| {
            for line in String::from_utf8_lossy(bytes).lines().map(str::trim).filter(|line| !line.is_empty())
            {
                watch(line);
            }
        };
        let exec = Exec { command, timeout: LONG, ..Exec::default() };
        self.command(container, what, exec, cancel, &pieces).await.map(drop)
    }
}

/// Nix makes the profile itself, as a link beside its generations, `<profile>-<number>-link`. An agent that is
/// named like a generation of another has none.
fn profile(agent: &AgentId) -> Result<String, NixError> {
    let generation = |id: &str| {
        let (_, number) = id.strip_suffix("-link")?.rsplit_once('-')?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
    };
    match generation(agent.as_str()) {
        None => Ok(format!("{PROFILES}/{agent}")),
        Some(()) => Err(NixError::NoProfile(agent.clone())),
    }
}

const SHORT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::home::Home;
    use crate::sandbox::engine::Engine;

    #[tokio::test]
    async fn who_waits_for_the_store_can_give_up() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let document = json!({"gateway": {"auth": {"token": "t"}}});
        let config = Arc::new(crate::config::parse::config(&document, &home).unwrap());
        let store = Store::new(home, Arc::new(move || Arc::clone(&config)), Arc::new(Engine::from_env()));
        // Somebody else installs something that takes an hour.
        let _busy = store.writing.lock().await;
        let cancel = CancellationToken::new();
        cancel.cancel();
        let agent: AgentId = "coder".parse().unwrap();
        let package = ["hello".parse().unwrap()];
        let end = Duration::from_secs(20);
        let gave_up = tokio::time::timeout(end, store.install(&agent, &package, &cancel, &|_| {})).await;
        assert!(matches!(gave_up, Ok(Err(NixError::Cancelled { .. }))), "{gave_up:?}");
        let reference = store.install_reference(&agent, "github:a/b#c", &cancel, &|_| {});
        assert!(matches!(tokio::time::timeout(end, reference).await, Ok(Err(NixError::Cancelled { .. }))));
    }
}
