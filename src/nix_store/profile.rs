//! Profiles. A profile holds the packages that an agent has installed and is on the PATH of its sandbox. Each change
//! makes a new generation, and earlier ones remain until garbage is collected.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::flake::Flake;
use super::manifest::PackageOrigin;
use super::path::{InvalidStorePath, StorePath};
use super::realise::RealisedPackage;
use super::store::{PROFILES, exec, run_blocking, shell};
use super::{Attribute, InstalledPackage, NixError, PackageStore, Pin, manifest, package_list};
use crate::error::chain;
use crate::generation::{self, Origin};
use crate::id::AgentId;
use crate::sandbox::containers;
use crate::sandbox::exec::EngineExec;

/// A callback for progress. It gets one line of Nix's output.
pub type Watch<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// The parameters of a change: the agent whose profile changes, its name in errors, the token that cancels it, the
/// callback that watches it, and if it is made for an agent that has yet to come to this store.
#[derive(Clone, Copy)]
struct ProfileChange<'a> {
    agent: &'a AgentId,
    what: &'a str,
    cancel: &'a CancellationToken,
    watch: Watch<'a>,
    is_ahead: bool,
}

impl PackageStore {
    /// Installs packages for an agent. Packages that it already has from the same pinned flake stay as they are.
    /// Returns the packages that are new.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The profile is then unchanged.
    pub async fn install(
        &self,
        agent: &AgentId,
        packages: &[Attribute],
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<Vec<Attribute>, NixError> {
        self.install_for(agent, packages, false, cancel, watch).await
    }

    /// Installs packages as [`Self::install`] does. With `is_ahead`, the agent has yet to come to this store, so the change is
    /// recorded when it has ([`Self::record_arrival`]).
    pub(super) async fn install_for(
        &self,
        agent: &AgentId,
        packages: &[Attribute],
        is_ahead: bool,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<Vec<Attribute>, NixError> {
        let flake = Flake::configured((self.config)().nix_flake.as_deref())?;
        let names: Vec<&str> = packages.iter().map(Attribute::as_str).collect();
        let what = format!("install {}", names.join(", "));
        let pin = self.pinned(&flake).await?;
        let there = self.before(agent, &what, cancel).await?;
        // Without a pin the current content of the flake is not known, so no package counts as installed.
        let has = |package: &Attribute| {
            pin.as_ref().is_some_and(|pin| {
                let is = |found: &&InstalledPackage| {
                    found.package == package.as_str()
                        && found.flake == pin.locked
                        && found.nar_hash.as_ref() == Some(&pin.nar_hash)
                };
                there.iter().find(is).is_some()
            })
        };
        let new: Vec<Attribute> = packages.iter().filter(|package| !has(package)).cloned().collect();
        if !new.is_empty() {
            let order = ProfileChange { agent, what: &what, cancel, watch, is_ahead };
            Box::pin(self.add(&order, PackageSource::Set(&flake, pin), &new)).await?;
        }
        Ok(new)
    }

    /// Installs the package that a complete reference names, for example `github:owner/repository#name`. Only a person
    /// may decide about such a source. This function just carries it out.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::NotAnAttribute`] for a malformed or local reference, and otherwise the error of the step
    /// that failed. The profile is then unchanged.
    pub(crate) async fn install_reference(
        &self,
        agent: &AgentId,
        reference: &str,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<(), NixError> {
        let wrong = || NixError::NotAnAttribute(reference.chars().take(80).collect());
        let (source, name) = reference.split_once('#').ok_or_else(wrong)?;
        let package: Attribute = name.parse().map_err(|_| wrong())?;
        // A local path would name a folder of the container and not of this machine.
        let local = source.starts_with("path:") || source.starts_with("file:");
        // The reference becomes a quoted word of a shell script, so quotes and other special characters are refused.
        let plain = |c: char| c.is_ascii_graphic() && !"'\"\\`$".contains(c);
        if !source.contains(':') || source.starts_with(['-', '/', '.']) || local || !source.chars().all(plain)
        {
            return Err(wrong());
        }
        let what = format!("install {reference}");
        self.before(agent, &what, cancel).await?;
        let order = ProfileChange { agent, what: &what, cancel, watch, is_ahead: false };
        Box::pin(self.add(&order, PackageSource::Reference(source), &[package])).await
    }

    /// Makes the store ready and returns the agent's installed packages.
    async fn before(
        &self,
        agent: &AgentId,
        what: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<InstalledPackage>, NixError> {
        let _writing = self.turn(what, cancel).await?;
        let container = Box::pin(self.running()).await?;
        self.sweep(&container).await?;
        self.read(&container, agent).await
    }

    /// Evaluates, fetches and builds packages outside the store, and then switches the agent's profile.
    async fn add(
        &self,
        order: &ProfileChange<'_>,
        wanted: PackageSource<'_>,
        packages: &[Attribute],
    ) -> Result<(), NixError> {
        let ProfileChange { agent, what, cancel, watch, is_ahead } = *order;
        // Limit the number of builds at once, but do not hold the write lock while they run: the store stays usable
        // meanwhile.
        let permit = cancel.run_until_cancelled(self.building.acquire()).await;
        let _permit = permit.ok_or_else(|| NixError::Cancelled { what: what.to_owned() })?;
        // The lock is released before the long work begins.
        let container = {
            let _writing = self.turn(what, cancel).await?;
            Box::pin(self.running()).await?
        };
        let work = self.begin(&container, agent, what, cancel, watch).await?;
        let done = async {
            let (flake, shown, nar_hash) = match wanted {
                PackageSource::Reference(reference) => (reference.to_owned(), reference.to_owned(), None),
                PackageSource::Set(flake, pin) => {
                    let (pin, source) = self.source(&work, flake, pin).await?;
                    (format!("path:{source}"), pin.locked, Some(pin.nar_hash))
                }
            };
            let made = work.realise(&flake, packages).await?;
            // Only the switch itself needs the lock again.
            let _writing = self.turn(what, cancel).await?;
            let origin =
                |package| PackageOrigin { package, flake: shown.clone(), nar_hash: nar_hash.clone() };
            let before = self.number(&container, agent).await?;
            self.switch(&container, order, &origin, &made).await?;
            match is_ahead {
                true => Ok(()),
                false => self.record(&container, agent, before).await,
            }
        };
        let done = done.await;
        // If both fail, the error of the work itself says more.
        let finished = work.finish().await;
        done.and(finished)
    }

    /// Puts paths of the store into an agent's profile, replacing the paths of the same packages. Nix builds nothing
    /// for it.
    async fn switch(
        &self,
        container: &str,
        order: &ProfileChange<'_>,
        origin: &(dyn Fn(String) -> PackageOrigin + Sync),
        made: &[RealisedPackage],
    ) -> Result<(), NixError> {
        let ProfileChange { agent, what, cancel, .. } = *order;
        let there = self.read(container, agent).await?;
        let is_new = |found: &&InstalledPackage| made.iter().any(|new| new.package.as_str() == found.package);
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
        // The agent must never have fewer packages than before: if the installation fails after the removal, the script
        // links the previous generation again.
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
        // Refuses an agent whose name cannot be that of a profile.
        profile(agent)?;
        let input = Some(records.into());
        let exec = EngineExec { input, ..exec(&script, LONG) };
        self.command(container, what, exec, cancel, &|_| {}).await.map(drop)
    }

    /// Waits for the write lock, and makes sure that the store's container runs. Returns the lock and the container's id.
    pub(super) async fn lock_running(&self) -> Result<(tokio::sync::MutexGuard<'_, ()>, String), NixError> {
        let writing = self.writing.lock().await;
        Ok((writing, Box::pin(self.running()).await?))
    }

    /// Waits for the write lock of the profiles, unless the caller cancels.
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
    /// Returns [`NixError::NotInstalled`] if one of them is not installed. Nothing is removed then.
    pub async fn uninstall(&self, agent: &AgentId, packages: &[Attribute]) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        let there = self.read(&container, agent).await?;
        let mut paths = Vec::new();
        for package in packages {
            let found: Vec<&InstalledPackage> =
                there.iter().filter(|found| found.package == package.as_str()).collect();
            if found.is_empty() {
                let package = package.to_string();
                return Err(NixError::NotInstalled { agent: agent.clone(), package });
            }
            // Remove by path. The numbers of elements shift after the first removal, and a name may be taken for a
            // pattern.
            paths.extend(found.iter().flat_map(|found| &found.store_paths).cloned());
        }
        let names: Vec<&str> = packages.iter().map(Attribute::as_str).collect();
        let what = format!("remove {}", names.join(", "));
        let before = self.number(&container, agent).await?;
        self.remove_paths(&container, agent, &what, &paths).await?;
        self.record(&container, agent, before).await
    }

    async fn remove_paths(
        &self,
        container: &str,
        agent: &AgentId,
        what: &str,
        paths: &[String],
    ) -> Result<(), NixError> {
        let profile = profile(agent)?;
        let mut arguments = vec!["profile", "remove", "--profile", &profile];
        arguments.extend(paths.iter().map(String::as_str));
        self.nix(container, what, &arguments).await
    }

    /// Removes packages from the profile of an agent that is not in this store, apart from those of the package set with these
    /// names. Nothing is recorded. The profile stays, so the numbers of its generations go on.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The profile is then unchanged.
    pub(crate) async fn clear_profile(&self, agent: &AgentId, kept: &[Attribute]) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        let is_kept = |found: &InstalledPackage| {
            found.nar_hash.is_some() && kept.iter().any(|name| name.as_str() == found.package)
        };
        let there = self.read(&container, agent).await?.into_iter();
        let paths: Vec<String> =
            there.filter(|found| !is_kept(found)).flat_map(|found| found.store_paths).collect();
        match paths.is_empty() {
            true => Ok(()),
            false => self.remove_paths(&container, agent, "clear the profile", &paths).await,
        }
    }

    /// Records that an agent has come to this store, in which its packages were installed ahead.
    ///
    /// # Errors
    ///
    /// Returns an error if the profile can't be read, or if the list of the packages can't be written.
    pub(crate) async fn record_arrival(&self, agent: &AgentId) -> Result<(), NixError> {
        {
            let (_writing, container) = self.lock_running().await?;
            self.record(&container, agent, 0).await?;
        }
        let (home, id) = (self.home.clone(), agent.clone());
        run_blocking(move || package_list::forget_other_homes(&home, &id)).await
    }

    /// Returns the packages that an agent has installed, sorted by name.
    pub async fn installed(&self, agent: &AgentId) -> Result<Vec<InstalledPackage>, NixError> {
        let (_writing, container) = self.lock_running().await?;
        self.read(&container, agent).await
    }

    /// Returns all paths that these paths of the store need, with the hashes of their content, sorted by path. The paths
    /// themselves are among them.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Nix`] if a path is not in the store.
    pub(crate) async fn closure(&self, paths: &[String]) -> Result<Vec<(String, String)>, NixError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let what = "read what packages need";
        let valid: Vec<StorePath> = paths
            .iter()
            .map(|path| {
                path.parse().map_err(|error: InvalidStorePath| NixError::Lost { reason: error.to_string() })
            })
            .collect::<Result<_, _>>()?;
        let words: Vec<String> = valid.iter().map(|path| format!("'{path}'")).collect();
        // The assignment fails if a path is missing. In a pipe, its failure would not count.
        let script = format!(
            "set -e; all=$(nix-store --query --requisites {}); for path in $(echo \"$all\" | sort -u); do \
             hash=$(nix-store --query --hash \"$path\"); echo \"$path $hash\"; done",
            words.join(" ")
        );
        let (_writing, container) = self.lock_running().await?;
        let found = self.script(&container, what, &script, LONG).await?;
        let line = |line: &str| line.split_once(' ').map(|(path, hash)| (path.to_owned(), hash.to_owned()));
        Ok(found.lines().filter_map(line).collect())
    }

    /// Switches to the generation before the last change.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Nix`] if there is no earlier generation.
    pub async fn rollback(&self, agent: &AgentId) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        let profile = profile(agent)?;
        let before = self.number(&container, agent).await?;
        self.nix(&container, "roll back", &["profile", "rollback", "--profile", &profile]).await?;
        self.record(&container, agent, before).await
    }

    /// Switches to a generation of the profile by its number. 0 stands for no profile. Nothing is recorded as a
    /// generation of the home.
    ///
    /// # Errors
    ///
    /// Returns [`NixError::Nix`] if the profile has no such generation any more.
    pub(crate) async fn switch_to(&self, agent: &AgentId, number: u32) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        let profile = profile(agent)?;
        // One rename, so that a command in the sandbox finds the old packages or the new ones.
        let script = match number {
            0 => format!("rm -f {profile}"),
            _ => format!(
                "set -e; cd {PROFILES}; [ -e {agent}-{number}-link ] || {{ echo 'the profile has no generation \
                 {number} any more' >&2; exit 1; }}; ln -sfn {agent}-{number}-link .new-{agent}; mv -T .new-{agent} {agent}"
            ),
        };
        let never = CancellationToken::new();
        self.run(&container, "go back", shell(&script), &never, &|_| {}).await
    }

    /// Returns the numbers of the generations that an agent's profile still has, and the one in use. 0 stands for no
    /// profile.
    pub(crate) async fn numbers(&self, agent: &AgentId) -> Result<(Vec<u32>, u32), NixError> {
        let (_writing, container) = self.lock_running().await?;
        let present = self.number(&container, agent).await?;
        let script = format!("cd {PROFILES} && ls | grep -E '^{agent}-[0-9]+-link$' || :");
        let exec = EngineExec { keep: MAX_PROFILE, ..exec(&script, SHORT) };
        let never = CancellationToken::new();
        let listed = self.command(&container, "read the profile", exec, &never, &|_| {}).await?;
        Ok((listed.lines().filter_map(|line| link_number(line, agent)).collect(), present))
    }

    /// Returns the number of the profile's generation in use. 0 stands for no profile.
    async fn number(&self, container: &str, agent: &AgentId) -> Result<u32, NixError> {
        let script = format!("readlink {} || :", profile(agent)?);
        let never = CancellationToken::new();
        let link = self.command(container, "read the profile", exec(&script, SHORT), &never, &|_| {}).await?;
        Ok(link_number(link.trim(), agent).unwrap_or(0))
    }

    /// Makes the change of an agent's profile a generation of the home. The profile of an MCP server belongs to its entry in
    /// the configuration, so generations don't have it.
    ///
    /// # Errors
    ///
    /// Returns an error if the profile can't be read.
    pub(super) async fn record(&self, container: &str, agent: &AgentId, before: u32) -> Result<(), NixError> {
        if agent.mcp_server().is_some() {
            return Ok(());
        }
        let now = self.number(container, agent).await?;
        let id = agent.clone();
        // The first change of a home's packages shows which generation was in use until now.
        let known = move |packages: &mut BTreeMap<AgentId, u32>| {
            packages.entry(id).or_insert(before);
        };
        let id = agent.clone();
        let changed = move |packages: &mut BTreeMap<AgentId, u32>| {
            packages.insert(id, now);
        };
        self.record_packages(known, changed).await;
        // The change is done, whatever becomes of the list.
        if let Err(error) = Box::pin(self.record_list(container, agent)).await {
            tracing::warn!(%agent, error = chain(&error), "failed to record the list of an agent's packages");
        }
        Ok(())
    }

    /// Records the packages in use in the list that other gateways read.
    async fn record_list(&self, container: &str, agent: &AgentId) -> Result<(), NixError> {
        let installed = self.read(container, agent).await?;
        let (home, id) = (self.home.clone(), agent.clone());
        run_blocking(move || package_list::record(&home, &id, &installed)).await
    }

    /// Records a change of profiles. The change is done, so a failure to record it is only reported.
    async fn record_packages(
        &self,
        known: impl FnOnce(&mut BTreeMap<AgentId, u32>) + Send + 'static,
        changed: impl FnOnce(&mut BTreeMap<AgentId, u32>) + Send + 'static,
    ) {
        let home = self.home.clone();
        let origin = Origin::current();
        let recorded = run_blocking(move || {
            generation::recorder::complete(&home, |state| known(&mut state.packages))?;
            origin.run(|| generation::change(&home, |state| changed(&mut state.packages)))?;
            Ok(())
        });
        if let Err(error) = recorded.await {
            tracing::warn!(error = chain(&error), "failed to record a change of packages as a generation");
        }
    }

    /// Deletes everything that no profile needs. With `keep_days`, generations that were replaced more than that many
    /// days ago are deleted first, so there is no way back to them. Returns the last line of Nix's output, which says
    /// what was freed.
    pub async fn gc(
        &self,
        keep_days: Option<u32>,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<String, NixError> {
        // A collection must not delete paths that a running request counts on.
        let _quiet = self.quiet(cancel, watch).await?;
        let (_writing, container) = self.lock_running().await?;
        self.sweep(&container).await?;
        let last = Mutex::new(String::new());
        let note = |line: &str| {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = line.to_owned();
            watch(line);
        };
        if let Some(days) = keep_days {
            // `old` stands for every generation except the current one.
            let older = if days == 0 { "old".to_owned() } else { format!("{days}d") };
            let script = format!(
                "set -e; cd {PROFILES}; ls | grep -vE -- '-[0-9]+-link$' | while read -r profile; do \
                 nix-env --profile \"$PWD/$profile\" --delete-generations {older}; done"
            );
            self.run(&container, "delete old generations", shell(&script), cancel, &|_| {}).await?;
        }
        // A garbage collection listens on a socket in the volume and leaves it there. Sandboxes share the volume, so it
        // is removed.
        let script = format!(
            "nix store gc; ended=$?; rm -rf /nix/var/nix/gc-socket
             for origin in {ORIGINS}/*/*; do [ -e \"/nix/store/${{origin##*/}}\" ] || rm -f \"$origin\"; done; exit $ended"
        );
        self.run(&container, "collect garbage", shell(&script), cancel, &note).await?;
        let last = last.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(last.clone())
    }

    /// Removes an agent's profile with all its generations. The packages are deleted by the next garbage collection.
    pub async fn forget(&self, agent: &AgentId) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        // An id contains no character that is special in a shell or a pattern.
        let script = format!(
            "set -e; rm -rf {ORIGINS}/{agent}; cd {PROFILES}; rm -f {agent}; ls | grep -E '^{agent}-[0-9]+-link$' | xargs -r rm -f"
        );
        self.run(&container, "remove the profile", shell(&script), &CancellationToken::new(), &|_| {}).await
    }

    /// Removes an agent's profile if this home has a store, so that a later agent of the same id does not start with
    /// its packages.
    pub(crate) async fn clean_up_profile(&self, agent: &AgentId) -> Result<(), NixError> {
        self.change_if_present(Box::pin(self.forget(agent))).await?;
        let id = agent.clone();
        let removed = move |packages: &mut BTreeMap<AgentId, u32>| {
            packages.remove(&id);
        };
        self.record_packages(|_| {}, removed).await;
        Ok(())
    }

    /// Moves an agent's profile with all its generations to another id, if this home has a store. Repeating it changes
    /// nothing.
    pub(crate) async fn rename_profile(&self, old: &AgentId, new: &AgentId) -> Result<(), NixError> {
        self.change_if_present(Box::pin(self.rename(old, new))).await?;
        let (old, new) = (old.clone(), new.clone());
        let renamed = move |packages: &mut BTreeMap<AgentId, u32>| {
            if let Some(number) = packages.remove(&old) {
                packages.insert(new, number);
            }
        };
        self.record_packages(|_| {}, renamed).await;
        Ok(())
    }

    /// Gives an agent the packages of a generation of another one's profile, if this home has a store. 0 stands for no
    /// profile, and `None` for the generation in use.
    pub(crate) async fn copy_profile(
        &self,
        from: &AgentId,
        to: &AgentId,
        number: Option<u32>,
    ) -> Result<(), NixError> {
        if number == Some(0) {
            return Ok(());
        }
        self.change_if_present(Box::pin(self.copy(from, to, number))).await
    }

    async fn copy(&self, from: &AgentId, to: &AgentId, number: Option<u32>) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        let is_there = number.map_or_else(String::new, |number| {
            format!(
                "[ -e {from}-{number}-link ] || {{ echo 'the profile has no generation {number} any more' >&2; exit 1; }}; "
            )
        });
        let link = number.map_or_else(|| from.to_string(), |number| format!("{from}-{number}-link"));
        // Both profiles lead to the same packages. A later change makes a generation of one of them.
        let script = format!(
            "set -e; cd {PROFILES}; {is_there}[ ! -L {link} ] || {{ ln -sfn \"$(readlink -f {link})\" {to}-1-link; \
             ln -sfn {to}-1-link {to}; }}; [ ! -d {ORIGINS}/{from} ] || {{ rm -rf {ORIGINS}/{to}; \
             cp -r {ORIGINS}/{from} {ORIGINS}/{to}; }}"
        );
        self.run(&container, "copy the profile", shell(&script), &CancellationToken::new(), &|_| {}).await?;
        self.record(&container, to, 0).await
    }

    /// Makes a change of profiles if this home has a store. A store that does not run is started by the change, and
    /// stopped again.
    async fn change_if_present(
        &self,
        change: impl Future<Output = Result<(), NixError>>,
    ) -> Result<(), NixError> {
        let state = self.state().await?;
        if state.state == "absent" {
            return Ok(());
        }
        let changed = change.await;
        if state.state != "running" {
            containers::stop(&self.engine, &state.container).await?;
        }
        changed
    }

    async fn rename(&self, old: &AgentId, new: &AgentId) -> Result<(), NixError> {
        let (_writing, container) = self.lock_running().await?;
        // The generations are moved first. While the old link exists, an interrupted move can be repeated.
        let script = format!(
            "set -e; [ ! -e {ORIGINS}/{old} ] || mv {ORIGINS}/{old} {ORIGINS}/{new}; cd {PROFILES}; \
             ls | grep -E '^{old}-[0-9]+-link$' | while read link; do mv \"$link\" \"{new}${{link#{old}}}\"; done; \
             if [ -L {old} ]; then current=$(basename \"$(readlink {old})\"); \
             ln -sfn \"{new}${{current#{old}}}\" {new}; rm -f {old}; fi"
        );
        self.run(&container, "rename the profile", shell(&script), &CancellationToken::new(), &|_| {}).await
    }

    /// Returns the packages in use.
    ///
    /// # Errors
    ///
    /// Returns an error if the profile can't be read.
    pub(super) async fn read(
        &self,
        container: &str,
        agent: &AgentId,
    ) -> Result<Vec<InstalledPackage>, NixError> {
        self.read_at(container, agent, &profile(agent)?).await
    }

    /// Returns the packages of a profile, or of one of its generations, at this path.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be read.
    pub(super) async fn read_at(
        &self,
        container: &str,
        agent: &AgentId,
        profile: &str,
    ) -> Result<Vec<InstalledPackage>, NixError> {
        // Not `echo` for the origins: that of dash replaces the backslashes of JSON.
        let script = format!(
            "if [ -e {profile}/manifest.json ]; then cat {profile}/manifest.json; fi; echo
             for origin in {ORIGINS}/{agent}/*; do
               [ ! -e \"$origin\" ] || printf '%s %s\\n' \"${{origin##*/}}\" \"$(cat \"$origin\")\"
             done"
        );
        let exec = EngineExec { keep: MAX_PROFILE, ..exec(&script, SHORT) };
        let never = CancellationToken::new();
        Ok(manifest::read(&self.command(container, "read the profile", exec, &never, &|_| {}).await?))
    }

    async fn nix(&self, container: &str, what: &str, arguments: &[&str]) -> Result<(), NixError> {
        let command = std::iter::once("nix").chain(arguments.iter().copied()).map(str::to_owned).collect();
        self.run(container, what, command, &CancellationToken::new(), &|_| {}).await
    }

    async fn run(
        &self,
        container: &str,
        what: &str,
        command: Vec<String>,
        cancel: &CancellationToken,
        watch: Watch<'_>,
    ) -> Result<(), NixError> {
        let lines = Mutex::new(Lines::default());
        let pieces = |bytes: &[u8]| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).add(bytes, watch);
        };
        let exec = EngineExec { command, timeout: LONG, ..EngineExec::default() };
        let done = self.command(container, what, exec, cancel, &pieces).await.map(drop);
        lines.lock().unwrap_or_else(PoisonError::into_inner).end(watch);
        done
    }
}

/// Splits output into lines as it arrives. A chunk may end anywhere, also within a character.
#[derive(Default)]
struct Lines {
    /// The beginning of the present line.
    rest: Vec<u8>,
}

impl Lines {
    /// Takes a chunk, and reports each line that is complete with it.
    fn add(&mut self, chunk: &[u8], watch: Watch<'_>) {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") || self.rest.len() > MAX_LINE {
                self.end(watch);
            }
        }
    }

    /// Reports the present line as it is, unless it is blank.
    fn end(&mut self, watch: Watch<'_>) {
        let line = std::mem::take(&mut self.rest);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if !line.is_empty() {
            watch(line);
        }
    }
}

/// The source of the requested packages.
enum PackageSource<'a> {
    /// The package set, with its pin if it has one.
    Set(&'a Flake, Option<Pin>),
    /// A reference that a person decided about.
    Reference(&'a str),
}

/// Returns the number in the name of a profile's generation, as in `coder-12-link`.
fn link_number(link: &str, agent: &AgentId) -> Option<u32> {
    let name = link.rsplit('/').next()?;
    name.strip_prefix(agent.as_str())?.strip_prefix('-')?.strip_suffix("-link")?.parse().ok()
}

/// Returns the path of an agent's profile. Nix creates the profile as a link beside its generations, which are called
/// `<profile>-<number>-link`. An agent whose name looks like such a generation cannot have a profile.
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

/// Folder with the origins of installed paths, with one subfolder per agent.
const ORIGINS: &str = "/nix/var/flock";
/// Length in bytes at which a line is reported although its end is not there.
const MAX_LINE: usize = 16 << 10;
/// Limit on a manifest together with its origins, in bytes.
const MAX_PROFILE: usize = 4 << 20;
// Time limit of reading a profile.
pub(super) const SHORT: Duration = Duration::from_secs(60);
// Time limit of a change or of a garbage collection.
pub(super) const LONG: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::home::Home;
    use crate::sandbox::engine::Engine;

    #[test]
    fn a_line_is_reported_whole_however_it_arrives() {
        let text = "deleting unused links…\n\n 12 store paths deleted, 1.5 MiB freed";
        for size in 1..=text.len() {
            let told = Mutex::new(Vec::new());
            let watch = |line: &str| told.lock().unwrap().push(line.to_owned());
            let mut lines = Lines::default();
            for chunk in text.as_bytes().chunks(size) {
                lines.add(chunk, &watch);
            }
            lines.end(&watch);
            let told = told.into_inner().unwrap();
            assert_eq!(told, ["deleting unused links…", "12 store paths deleted, 1.5 MiB freed"], "{size}");
        }
    }

    #[tokio::test]
    async fn a_cancelled_request_stops_waiting_for_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let document = json!({"gateway": {"auth": {"token": "t"}}});
        let config = Arc::new(crate::config::parse::config(&document, &home).unwrap());
        let store =
            PackageStore::new(home, Arc::new(move || Arc::clone(&config)), Arc::new(Engine::from_env()));
        // Another task holds the lock, as during an installation that takes an hour.
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
