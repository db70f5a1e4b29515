//! The transaction that installs OpenClaw, updates it or rolls it back: plan, fetch, build, trial, swap, restart, health,
//! and taking the change back.
//!
//! A version is built and tried beside the one in use. Only then is the link swapped, and a running OpenClaw restarted.
//! If it does not become healthy, everything is taken back. The change is recorded ([`pending_change`]), so that the
//! next update completes one that was killed.
//!
//! The steps report their progress as events. All functions here block.

mod change;
mod error;
mod restart;

use tokio::runtime::Runtime;

use super::port;
use crate::error::chain;
use crate::generation;
use crate::home::Home;
use crate::install::pending_change::{self, ChangeDirection, PendingVersionChange, VersionChangeState};
use crate::install::update::{UpdateDecision, VersionQuery, VersionRequest, VersionSearch, own_fault};
use crate::install::versions::{self, Failed};
use crate::install::{
    self, InstallError, InstallEvent, InstallLock, InstallNotice, InstallPhase, InstallTarget,
    InstalledVersion,
};
use crate::sandbox::mount::ApprovedMounts;
use crate::store::StoreError;
use crate::{clock, config};
use change::VersionChange;

pub(crate) use error::{INIT, UPDATE, UpdateError};

/// A process that changes the version in use.
pub(crate) struct Update<'a> {
    pub lock: InstallLock,
    pub home: &'a Home,
    /// Runs the trial and the restart.
    pub runtime: Runtime,
    /// Returns the host folders that each agent is granted. Approvals are known only in a higher layer.
    pub approved: fn(&Home) -> Result<ApprovedMounts, StoreError>,
    pub events: &'a dyn Fn(InstallEvent<'_>),
    /// The command that continues after an error: [`INIT`] or [`UPDATE`].
    pub command: &'static str,
}

/// The result of an update, a rollback or an installation.
pub(crate) enum UpdateOutcome {
    /// This version stays in use. The search tells the reason.
    Kept {
        version: InstalledVersion,
        search: Box<VersionSearch>,
        /// The build that still runs, if it is another one, for example after a person changed the link by hand.
        stale: Option<String>,
    },
    /// Another version is in use now.
    Changed(Box<CompletedChange>),
    /// The first version is in use now. It was not started.
    Installed(InstalledVersion),
}

/// A change of the version in use that succeeded.
pub(crate) struct CompletedChange {
    pub way: ChangeDirection,
    /// The version in use before the change.
    pub from: InstalledVersion,
    /// The version in use now.
    pub to: InstalledVersion,
    /// `true` if the new version runs and is healthy.
    pub serves: bool,
    /// `true` if the version got back the state that it left itself when it was in use before.
    pub put_back: bool,
}

impl Update<'_> {
    /// Completes a change that was interrupted between the swap and the proof of the new version. Returns the version
    /// that is in use then.
    ///
    /// # Errors
    ///
    /// Returns an error if the version in use is not healthy, or if its state is unknown.
    pub(crate) fn current(&self) -> Result<Option<InstalledVersion>, UpdateError> {
        match pending_change::interrupted(self.home) {
            None => {}
            // It was interrupted before the swap, so the version in use never changed.
            Some(VersionChangeState::Nothing) => PendingVersionChange::end(&self.lock, self.home)?,
            Some(VersionChangeState::Back { from }) => {
                self.tell(InstallNotice::GoingBack(&from));
                // Going back needs only the version that it leads to, so both ends of the change are that one.
                VersionChange { update: self, way: ChangeDirection::Rollback, from: &from, to: &from }
                    .go_back()?;
            }
            Some(VersionChangeState::Swapped { way, from, to }) => {
                self.tell(InstallNotice::GoingOn(&to));
                let serves = VersionChange { update: self, way, from: &from, to: &to }.go_on()?;
                // A version that proved itself must not be passed over any longer.
                if way == ChangeDirection::Update {
                    versions::forget_failure(&self.home.openclaw_failures_file(), &to.commit)?;
                }
                if serves {
                    self.tell(InstallNotice::Healthy(&to));
                }
            }
        }
        Ok(versions::current(self.home))
    }

    /// Looks for another version, and builds it, tries it and puts it in use if there is one.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The earlier version is then still in use, unless the text says
    /// otherwise.
    pub(crate) fn update(
        &self,
        current: &InstalledVersion,
        query: VersionQuery,
    ) -> Result<UpdateOutcome, UpdateError> {
        let search = VersionSearch::at(self.home, current, query, self.events);
        let mut search = search.map_err(|error| UpdateError::not_asked(error, self.command))?;
        let wanted = &search.query.wanted;
        // A tag that was moved upstream would give another program under the same name, so a person has to name the
        // commit.
        if let UpdateDecision::Moved(moved) = &search.decision {
            let moved = InstallError::Moved { repository: wanted.repository.clone(), moved: moved.clone() };
            return Err(self.not_made(current, &search, moved));
        }
        // The same commit under another branch or from another repository only needs a new record.
        let renamed = search.decision == UpdateDecision::Current
            && (wanted.reference != current.reference || wanted.repository != current.origin);
        if !renamed && !matches!(search.decision, UpdateDecision::New(_)) {
            return Ok(self.keep(current.clone(), search));
        }
        let made = install::prepare(&self.lock, self.home, wanted, self.events);
        let made = made.map_err(|error| self.not_made(current, &search, error))?;
        (self.events)(InstallEvent::PhaseDone);
        if made.commit == current.commit {
            // It is the same commit under another name, or one that was given in a shortened form.
            search.decision = UpdateDecision::Current;
            return Ok(self.keep(made, search));
        }
        // The full commit is known only now, if a shortened one was asked for. It may have failed here before.
        let known = versions::failed(&self.home.openclaw_failures_file()).remove(&made.commit);
        if let Some(failed) = known.filter(|_| !search.query.retry) {
            search.decision = UpdateDecision::Failed(made.commit, failed);
            return Ok(self.keep(current.clone(), search));
        }
        let done =
            VersionChange { update: self, way: ChangeDirection::Update, from: current, to: &made }.run()?;
        versions::forget_failure(&self.home.openclaw_failures_file(), &made.commit)?;
        self.tidy(None);
        Ok(done)
    }

    /// Rolls back to the earlier version. Later updates pass over the one that is left.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no earlier version, if it failed here or its files have changed, or the error of
    /// the step that failed.
    pub(crate) fn rollback(&self, current: &InstalledVersion) -> Result<UpdateOutcome, UpdateError> {
        let before = versions::previous(self.home).filter(|before| before.entry().is_file());
        let refused = |before| UpdateError::NoRollback { current: current.full_name(), before };
        let before = before.ok_or_else(|| refused(None))?;
        if let Some(failed) = versions::failed(&self.home.openclaw_failures_file()).remove(&before.commit) {
            return Err(refused(Some((before.full_name(), failed.reason))));
        }
        // The files may have been changed since the build. A rollback must not put such a version in use.
        before.check().map_err(|error| UpdateError::Altered {
            error: Box::new(error),
            commit: before.commit.clone(),
        })?;
        VersionChange { update: self, way: ChangeDirection::Rollback, from: current, to: &before }.run()
    }

    /// Installs the wanted version. Over a version that is in use, it is tried and put in use as by an update.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The earlier version is then still in use, unless the text says
    /// otherwise.
    pub(crate) fn install(
        &self,
        repository: Option<&str>,
        reference: Option<&str>,
    ) -> Result<UpdateOutcome, UpdateError> {
        // The installed version may be serving agents, so its replacement is tried first. A version whose program is
        // missing or whose files were changed is built again.
        if versions::current(self.home).is_some() {
            port::assign(self.home)?;
            let is_whole = |current: &InstalledVersion| current.entry().is_file() && current.check().is_ok();
            if let Some(current) = self.current()?.filter(is_whole) {
                let is_named = repository.or(reference).is_some();
                let asked = if is_named { VersionRequest::Named } else { VersionRequest::Followed };
                let settings = config::read(self.home)?.openclaw;
                let wanted = InstallTarget::choose(repository, reference, &settings, Some(&current));
                return self.update(&current, VersionQuery { wanted, asked, retry: false });
            }
        }
        let settings = config::read(self.home)?.openclaw;
        let current = versions::current(self.home);
        let wanted = InstallTarget::choose(repository, reference, &settings, current.as_ref());
        let version = install::prepare(&self.lock, self.home, &wanted, self.events)?;
        (self.events)(InstallEvent::PhaseDone);
        // The port is configured before the version is in use, because its first start already needs the port.
        port::assign(self.home)?;
        install::swap(&self.lock, self.home, &version)?;
        self.record_generation()?;
        self.tidy(None);
        Ok(UpdateOutcome::Installed(version))
    }

    /// Makes the version in use a part of the newest generation.
    fn record_generation(&self) -> Result<(), UpdateError> {
        let current = versions::current(self.home).map(|version| version.name());
        generation::change(self.home, |state| state.openclaw = current).map_err(InstallError::from)?;
        Ok(())
    }

    /// Puts an installed version in use, also one that was rolled back before. `flock rollback` calls it.
    ///
    /// # Errors
    ///
    /// Returns an error if the files of the version have changed, or the error of the step that failed.
    pub(crate) fn go_to(
        &self,
        current: &InstalledVersion,
        to: &InstalledVersion,
    ) -> Result<UpdateOutcome, UpdateError> {
        to.check()
            .map_err(|error| UpdateError::Altered { error: Box::new(error), commit: to.commit.clone() })?;
        let done = VersionChange { update: self, way: ChangeDirection::Rollback, from: current, to }.run()?;
        versions::forget_failure(&self.home.openclaw_failures_file(), &to.commit)?;
        Ok(done)
    }

    fn keep(&self, version: InstalledVersion, search: VersionSearch) -> UpdateOutcome {
        let runs = self.runtime.block_on(restart::look(self.home)).ok().flatten().and_then(|unit| unit.build);
        let stale = runs.filter(|build| *build != version.name());
        UpdateOutcome::Kept { version, search: Box::new(search), stale }
    }

    /// Removes versions that are no longer needed, except `again`.
    ///
    /// An error is only a warning: the change itself is complete, and the next update tries the removal again.
    fn tidy(&self, again: Option<&InstalledVersion>) {
        let removed = match self.runtime.block_on(restart::look(self.home)) {
            Ok(unit) => {
                // A version that still runs must keep its files, even if it is not in use any more.
                let runs = unit.and_then(|unit| unit.build);
                let most =
                    config::read(self.home).map(|config| config.generations).unwrap_or_default().builds;
                // The newest generations can be gone back to.
                let pinned = generation::log::openclaw_builds(self.home, most);
                let again = again.map(InstalledVersion::name);
                let kept: Vec<String> = runs.into_iter().chain(again).chain(pinned).collect();
                install::prune(&self.lock, self.home, &kept).map_err(|error| chain(&error))
            }
            Err(unasked) => Err(unasked.to_string()),
        };
        if let Err(reason) = removed {
            self.tell(InstallNotice::NotTidied(&reason));
        }
    }

    /// Returns the error of a commit that can't be built, and remembers it if that is the commit's own fault.
    fn not_made(
        &self,
        current: &InstalledVersion,
        search: &VersionSearch,
        error: InstallError,
    ) -> UpdateError {
        let reason = own_fault(&error).filter(|_| search.is_staged(self.home));
        let commit = search.tip.as_ref().and_then(|tip| tip.commit.as_deref());
        let remembered = match (reason, commit) {
            (Some(reason), Some(commit)) => self.remember(commit, None, reason, false),
            _ => false,
        };
        let kept = Some(current.full_name());
        UpdateError::NotMade { error: Box::new(error), command: self.command, kept, remembered }
    }

    /// Remembers a commit that does not work here or shall not be used. Returns `true` if updates pass over it from
    /// now on. A doubtful failure, which may be the machine's fault, counts only the second time.
    fn remember(&self, commit: &str, version: Option<&str>, reason: String, doubtful: bool) -> bool {
        let version = version.map(str::to_owned);
        let failed = Failed { version, reason, at: clock::unix_ms() / 1000, doubtful };
        // An error of recording changes nothing about what failed, so it is dropped.
        versions::record_failure(&self.home.openclaw_failures_file(), commit, failed).unwrap_or(false)
    }

    fn begin(&self, phase: InstallPhase<'_>) {
        (self.events)(InstallEvent::Phase(phase));
    }

    fn tell(&self, notice: InstallNotice<'_>) {
        (self.events)(InstallEvent::Notice(notice));
    }
}
