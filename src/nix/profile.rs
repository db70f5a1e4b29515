//! Profiles: what an agent has installed, on its PATH in its sandbox. Each change makes a new generation, and
//! the one before stays until it is collected.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::flake::Flake;
use super::manifest::Origin;
use super::realise::Realised;
use super::store::{PROFILES, shell};
use super::{Attribute, Installed, NixError, Pin, Store, manifest};
use crate::id::AgentId;
use crate::sandbox::exec::Exec;
use crate::sandbox::owned;

/// Shown to whoever waits: a line of what Nix says.
pub type Watch<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// Whose profile a change is for, what it is called in errors, and who may end and watch it.
#[derive(Clone, Copy)]
struct Order<'a> {
    agent: &'a AgentId,
    what: &'a str,
    cancel: &'a CancellationToken,
    watch: Watch<'a>,
}

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
        let pin = self.pinned(&flake).await?;
        let there = self.before(agent, &what, cancel).await?;
        let has = |package: &Attribute| {
            pin.as_ref().is_some_and(|pin| {
                let is = |found: &&Installed| {
                    found.package == package.as_str()
                        && found.flake == pin.locked
                        && found.nar_hash.as_ref() == Some(&pin.nar_hash)
                };
                there.iter().find(is).is_some()
            })
        };
        let new: Vec<Attribute> = packages.iter().filter(|package| !has(package)).cloned().collect();
        if !new.is_empty() {
            let order = Order { agent, what: &what, cancel, watch };
            Box::pin(self.add(&order, Wanted::Set(&flake, pin), &new)).await?;
        }
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
        let wrong = || NixError::NotAnAttribute(reference.chars().take(80).collect());
        let (source, name) = reference.split_once('#').ok_or_else(wrong)?;
        let package: Attribute = name.parse().map_err(|_| wrong())?;
        let local = source.starts_with("path:") || source.starts_with("file:");
        // It becomes a quoted word of a script.
        let plain = |c: char| c.is_ascii_graphic() && !"'\"\\`$".contains(c);
        if !source.contains(':') || source.starts_with(['-', '/', '.']) || local || !source.chars().all(plain)
        {
            return Err(wrong());
        }
        let what = format!("install {reference}");
        self.before(agent, &what, cancel).await?;
        let order = Order { agent, what: &what, cancel, watch };
        Box::pin(self.add(&order, Wanted::Reference(source), &[package])).await
    }

    /// What the agent has, and a store that is ready.
    async fn before(
        &self,
        agent: &AgentId,
        what: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Installed>, NixError> {
        let _writing = self.turn(what, cancel).await?;
        let container = Box::pin(self.running()).await?;
        self.sweep(&container).await?;
        self.read(&container, agent).await
    }

    /// Evaluates, fetches and builds packages apart from the store, and then switches the agent's profile.
    async fn add(
        &self,
        order: &Order<'_>,
        wanted: Wanted<'_>,
        packages: &[Attribute],
    ) -> Result<(), NixError> {
        let Order { agent, what, cancel, watch } = *order;
        // Not for as long as it takes, and not beside too many others: the store stays usable meanwhile.
        let permit = cancel.run_until_cancelled(self.building.acquire()).await;
        let _permit = permit.ok_or_else(|| NixError::Cancelled { what: what.to_owned() })?;
        let container = {
            let _writing = self.turn(what, cancel).await?;
            Box::pin(self.running()).await?
        };
        let work = self.begin(&container, agent, what, cancel, watch).await?;
        let done = async {
            let (flake, shown, nar_hash) = match wanted {
                Wanted::Reference(reference) => (reference.to_owned(), reference.to_owned(), None),
                Wanted::Set(flake, pin) => {
                    let (pin, source) = self.source(&work, flake, pin).await?;
                    (format!("path:{source}"), pin.locked, Some(pin.nar_hash))
                }
            };
            let made = work.realise(&flake, packages).await?;
            let _writing = self.turn(what, cancel).await?;
            let origin = |package| Origin { package, flake: shown.clone(), nar_hash: nar_hash.clone() };
            self.switch(&container, order, &origin, &made).await
        };
        let done = done.await;
        // Its error says less than that of the work itself.
        let finished = work.finish().await;
        done.and(finished)
    }

    /// Puts paths of the store into an agent's profile, in the place of other ones of the same packages. Nix builds
    /// nothing for it.
    async fn switch(
        &self,
        container: &str,
        order: &Order<'_>,
        origin: &(dyn Fn(String) -> Origin + Sync),
        made: &[Realised],
    ) -> Result<(), NixError> {
        let Order { agent, what, cancel, .. } = *order;
        let there = self.read(container, agent).await?;
        let is_new = |found: &&Installed| made.iter().any(|new| new.package.as_str() == found.package);
        let old: Vec<String> = there
            .iter()
            .filter(is_new)
            .flat_map(|found| &found.store_paths)
            .map(|path| format!("'{path}'"))
            .collect();
        let new: Vec<String> =
            made.iter().flat_map(|made| &made.outputs).map(|path| format!("'{path}'")).collect();
        let mut records = String::new();
        for made in made {
            let origin = serde_json::to_string(&origin(made.package.to_string())).unwrap_or_default();
            for path in &made.outputs {
                let _ = writeln!(records, "{} {origin}", path.base());
            }
        }
        let replace = if old.is_empty() {
            String::new()
        } else {
            format!(
                "nix profile remove --profile \"$profile\" {}; between=$(readlink \"$profile\")",
                old.join(" ")
            )
        };
        // The agent never has less than before: what is taken out first is back where the rest fails.
        let script = format!(
            "set -e; cd {PROFILES}; profile=$PWD/{agent}; before=$(readlink \"$profile\" || :); between=
             mkdir -p {ORIGINS}/{agent}
             while read -r path origin; do printf '%s\\n' \"$origin\" > {ORIGINS}/{agent}/\"$path\"; done
             {replace}
             if ! nix profile install --profile \"$profile\" {new}; then
               if [ -n \"$between\" ]; then ln -sfn \"$before\" \"$profile\"; rm -f \"$between\"; fi
               exit 1
             fi
             if [ -n \"$between\" ]; then rm -f \"$between\"; fi",
            new = new.join(" "),
        );
        profile(agent)?;
        let input = Some(records.into());
        let exec = Exec { command: shell(&script), input, timeout: LONG, ..Exec::default() };
        self.command(container, what, exec, cancel, &|_| {}).await.map(drop)
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
            paths.extend(found.iter().flat_map(|found| &found.store_paths).cloned());
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
        let _quiet = self.quiet(cancel, watch).await?;
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        self.sweep(&container).await?;
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
        let script = format!(
            "nix store gc; ended=$?; rm -rf /nix/var/nix/gc-socket
             for origin in {ORIGINS}/*/*; do [ -e \"/nix/store/${{origin##*/}}\" ] || rm -f \"$origin\"; done; exit $ended"
        );
        self.run(&container, "collect garbage", shell(&script), cancel, &note).await?;
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
            "set -e; rm -rf {ORIGINS}/{agent}; cd {PROFILES}; rm -f {agent}; ls | grep -E '^{agent}-[0-9]+-link$' | xargs -r rm -f"
        );
        self.run(&container, "remove the profile", shell(&script), &CancellationToken::new(), &|_| {}).await
    }

    /// As [`Self::forget`], where this home has a store: one that does not run is started for it and stopped again, so
    /// that the next agent of this id does not begin with the packages.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says.
    pub async fn forget_if_any(&self, agent: &AgentId) -> Result<(), NixError> {
        let state = self.state().await?;
        if state.state == "absent" {
            return Ok(());
        }
        let forgotten = self.forget(agent).await;
        if state.state != "running" {
            owned::stop(&self.engine, &state.container).await?;
        }
        forgotten
    }

    /// Gives an agent's profile with all its generations to another id, where this home has a store. Done already, it
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// As [`NixError`] says.
    pub async fn rename_if_any(&self, old: &AgentId, new: &AgentId) -> Result<(), NixError> {
        let state = self.state().await?;
        if state.state == "absent" {
            return Ok(());
        }
        let renamed = self.rename(old, new).await;
        if state.state != "running" {
            owned::stop(&self.engine, &state.container).await?;
        }
        renamed
    }

    async fn rename(&self, old: &AgentId, new: &AgentId) -> Result<(), NixError> {
        let _writing = self.writing.lock().await;
        let container = Box::pin(self.running()).await?;
        // The generations first: as long as the old name is there, the new one can be made from it.
        let script = format!(
            "set -e; [ ! -e {ORIGINS}/{old} ] || mv {ORIGINS}/{old} {ORIGINS}/{new}; cd {PROFILES}; \
             ls | grep -E '^{old}-[0-9]+-link$' | while read link; do mv \"$link\" \"{new}${{link#{old}}}\"; done; \
             if [ -L {old} ]; then current=$(basename \"$(readlink {old})\"); \
             ln -sfn \"{new}${{current#{old}}}\" {new}; rm -f {old}; fi"
        );
        self.run(&container, "rename the profile", shell(&script), &CancellationToken::new(), &|_| {}).await
    }

    async fn read(&self, container: &str, agent: &AgentId) -> Result<Vec<Installed>, NixError> {
        let profile = profile(agent)?;
        let script = format!(
            "if [ -e {profile}/manifest.json ]; then cat {profile}/manifest.json; fi; echo
             for origin in {ORIGINS}/{agent}/*; do [ ! -e \"$origin\" ] || echo \"${{origin##*/}} $(cat \"$origin\")\"; done"
        );
        let exec = Exec { command: shell(&script), timeout: SHORT, keep: MAX_PROFILE, ..Exec::default() };
        let never = CancellationToken::new();
        let outcome = self.command(container, "read the profile", exec, &never, &|_| {}).await?;
        let text = [outcome.output.head, outcome.output.tail].concat();
        Ok(manifest::read(&String::from_utf8_lossy(&text)))
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

/// What packages are asked of.
enum Wanted<'a> {
    /// The package set, with its pin if it has one.
    Set(&'a Flake, Option<Pin>),
    /// A reference that a person decided about.
    Reference(&'a str),
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

/// Where the origins of what is in profiles are, a folder for each agent.
const ORIGINS: &str = "/nix/var/flock";
/// The longest manifest with its origins, in bytes.
const MAX_PROFILE: usize = 4 << 20;
pub(super) const SHORT: Duration = Duration::from_secs(60);
pub(super) const LONG: Duration = Duration::from_secs(3600);

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
