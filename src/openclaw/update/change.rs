//! The change from one version to another: trying, swapping, proving, or taking it back.

use std::path::Path;
use std::time::Duration;

use super::restart::{self, RestartError, RestartLimits};
use super::{CompletedChange, Update, UpdateError, UpdateOutcome};
use crate::error::chain;
use crate::install::pending_change::{ChangeDirection, PendingVersionChange};
use crate::install::{
    InstallEvent, InstallNotice, InstallPhase, InstalledVersion, swap, swap_back, versions,
};
use crate::openclaw::check::OpenClawProgram;
use crate::openclaw::derive::DerivedConfig;
use crate::openclaw::trial::{self, Trial};
use crate::openclaw::{FailureCause, OpenClawError, agents, place, prepare, process, state};
use crate::sandbox::engine::Engine;
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::state::UnitState;
use crate::{config, env};

/// A change of the version in use.
pub(crate) struct VersionChange<'a> {
    pub update: &'a Update<'a>,
    pub way: ChangeDirection,
    /// The version in use before the change.
    pub from: &'a InstalledVersion,
    /// The version to put in use.
    pub to: &'a InstalledVersion,
}

impl VersionChange<'_> {
    /// Carries out the whole change.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The earlier version is then in use again, unless the text says
    /// otherwise.
    pub(crate) fn run(&self) -> Result<UpdateOutcome, UpdateError> {
        let (update, home) = (self.update, self.update.home);
        let tried = update.runtime.block_on(Box::pin(self.try_out()));
        let put_back = tried.inspect_err(|_| {
            // A version that the next update tries again is kept, so that it need not be built again.
            let again = !versions::failed(&home.openclaw_failures_file()).contains_key(&self.to.commit);
            update.tidy(again.then_some(self.to));
        })?;
        state::request_restore(home, put_back.then_some(self.to))?;
        // The record comes before the swap: a crash between the two is then recognised by the next update.
        self.pending(false).begin(&update.lock, home)?;
        swap(&update.lock, home, self.to)?;
        let serves = self.prove(false)?;
        let (from, to) = (self.from.clone(), self.to.clone());
        Ok(UpdateOutcome::Changed(Box::new(CompletedChange { way: self.way, from, to, serves, put_back })))
    }

    /// Completes an interrupted change. If the new version serves by now, it has proved itself. Returns `true` if it
    /// runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is not healthy, or if its state is unknown.
    pub(crate) fn go_on(&self) -> Result<bool, UpdateError> {
        if self.is_served(self.to)? {
            return self.conclude(true);
        }
        self.prove(state::has_been_healthy(self.update.home, self.to))
    }

    /// Completes a change that was interrupted while it was taken back: the earlier version runs again, if OpenClaw
    /// runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the earlier version does not become healthy.
    pub(crate) fn go_back(&self) -> Result<(), UpdateError> {
        let serves = if self.is_served(self.from)? { Ok(true) } else { self.restart(self.from) };
        // If the state is unknown, the record stays for the next update. Otherwise there is nothing more to go back to.
        if !matches!(serves, Err(RestartError::Stopped | RestartError::Unasked(_))) {
            self.end()?;
        }
        serves.map(drop).map_err(|why| self.unproved(why))
    }

    /// Restarts a running OpenClaw with the new version and waits until it is healthy, or takes the change back.
    /// Returns `true` if it runs.
    fn prove(&self, has_served: bool) -> Result<bool, UpdateError> {
        match self.restart(self.to) {
            Ok(serves) => self.conclude(serves),
            Err(RestartError::Fault(reason)) if has_served => {
                // Conversations continued in it since the swap. So it stays in use whatever it does now.
                self.conclude(false)?;
                Err(UpdateError::NoLongerHealthy { way: self.way, to: self.to.full_name(), reason })
            }
            Err(RestartError::Fault(reason)) => self.take_back(reason),
            // Nothing is known about the version itself. The record of the change stays, and the next update completes
            // it.
            Err(unproved) => Err(self.unproved(unproved)),
        }
    }

    /// Returns `true` if this version runs and is healthy.
    fn is_served(&self, version: &InstalledVersion) -> Result<bool, UpdateError> {
        let found = self.update.runtime.block_on(restart::look(self.update.home));
        Ok(found.map_err(|why| self.unproved(why))?.is_some_and(|unit| {
            unit.state == UnitState::Healthy && unit.build.as_deref() == Some(&version.name())
        }))
    }

    fn pending(&self, back: bool) -> PendingVersionChange {
        PendingVersionChange { way: self.way, from: self.from.name(), to: self.to.name(), back }
    }

    fn end(&self) -> Result<(), UpdateError> {
        Ok(PendingVersionChange::end(&self.update.lock, self.update.home)?)
    }

    fn conclude(&self, serves: bool) -> Result<bool, UpdateError> {
        // A version that a person rolled back must not come back with the next update.
        if self.way == ChangeDirection::Rollback {
            self.remember(self.from, "it was rolled back".to_owned(), false);
        }
        // Recorded before the change ends: a kill in between has the next update come here again.
        self.update.record_generation()?;
        self.end()?;
        Ok(serves)
    }

    /// Checks that the new version accepts its configuration and starts with it. Returns `true` if it needs the state
    /// that it left.
    async fn try_out(&self) -> Result<bool, UpdateError> {
        let (update, home) = (self.update, self.update.home);
        let own = state::find_copy(home, self.to);
        let present = home.openclaw_state();
        let is_migrated = own.as_ref().is_some_and(|own| state::is_migrated(own, &present));
        let (_, document) = config::file::read_document(home)?;
        let config = config::read(home)?;
        // Without agents there is no configuration to try, and nothing that could fail.
        if agents(&config).next().is_none() {
            update.tell(InstallNotice::NoAgents);
            return Ok(is_migrated);
        }
        let (engine, approved) = (Engine::from_env(), (update.approved)(home)?);
        let program = OpenClawProgram::from(self.to);
        let (_, derived) = prepare::derived(home, &document, &config, &engine, &approved, &program).await?;
        update.begin(InstallPhase::Checking);
        place::check_candidate(home, &derived, &program).await.map_err(|error| self.not_tried(error))?;
        update.begin(InstallPhase::Starting);
        // A trial works on a copy of the state. A state that was migrated is not readable for the older version.
        let first = own.as_deref().filter(|_| is_migrated).unwrap_or(&present);
        let mut put_back = is_migrated;
        let mut tried = self.start_beside(&derived, first, config.port).await;
        if let (Err(OpenClawError::Untried { .. }), Some(own), false) = (&tried, own.as_deref(), is_migrated)
        {
            // The version may fail to start because of what the other version changed in the state.
            tried = self.start_beside(&derived, own, config.port).await;
            put_back = true;
        }
        tried.map_err(|error| self.not_tried(error))?;
        (update.events)(InstallEvent::PhaseDone);
        Ok(put_back)
    }

    async fn start_beside(
        &self,
        derived: &DerivedConfig,
        state: &Path,
        gateway: u16,
    ) -> Result<(), OpenClawError> {
        let trial = Trial { version: self.to, derived, state: Some(state), gateway, limit: start_limit() };
        trial::run(self.update.home, &trial).await
    }

    /// Restarts a running OpenClaw with this version. Returns `true` if it runs.
    fn restart(&self, version: &InstalledVersion) -> Result<bool, RestartError> {
        let (update, home) = (self.update, self.update.home);
        let Some(before) = update.runtime.block_on(restart::look(home))? else { return Ok(false) };
        update.begin(InstallPhase::Restarting(version));
        // It may finish its turns first. Then the files for its start are prepared, which may be tried more than once.
        let grace = Duration::from_millis(u64::try_from(SupervisionLimits::default().grace).unwrap_or(0));
        let patience = RestartLimits { turn: grace + process::READY, start: start_limit() };
        let restarted = update.runtime.block_on(restart::restart(home, version, &before, patience));
        let ended = if restarted.is_ok() { InstallEvent::PhaseDone } else { InstallEvent::PhaseFailed };
        (update.events)(ended);
        restarted.map(|()| true)
    }

    /// Puts the earlier version in use again. Returns the error that tells so.
    fn take_back(&self, reason: String) -> Result<bool, UpdateError> {
        let (update, home) = (self.update, self.update.home);
        if self.way == ChangeDirection::Update {
            self.remember(self.to, format!("it did not get healthy: {reason}"), false);
        }
        // The other version was never healthy, so nothing in its state is worth keeping.
        let has_copy = state::find_copy(home, self.from).is_some();
        state::request_restore(home, has_copy.then_some(self.from))?;
        // Without this record only an interruption right now would be misread, as one from before the restart.
        let _ = self.pending(true).begin(&update.lock, home);
        let (from, to) = (self.from.full_name(), self.to.full_name());
        if let Err(error) = swap_back(&update.lock, home, self.from) {
            return Err(UpdateError::NotTakenBack { from, to, reason, error: Box::new(error) });
        }
        let serves = self.restart(self.from);
        // If the supervisor can't be asked, the record stays and the next update looks again.
        if !matches!(serves, Err(RestartError::Unasked(_))) {
            self.end()?;
        }
        update.tidy(None);
        Err(UpdateError::TakenBack { way: self.way, from, to, reason, serves })
    }

    fn unproved(&self, why: RestartError) -> UpdateError {
        UpdateError::Unproved { to: self.to.full_name(), why }
    }

    fn not_tried(&self, error: OpenClawError) -> UpdateError {
        let blame = match &error {
            OpenClawError::Untried { blame, .. } => *blame,
            OpenClawError::Invalid { .. } => FailureCause::Version,
            _ => FailureCause::Machine,
        };
        // A fault of the machine says nothing about the commit, so only other faults are remembered.
        let remembered = blame != FailureCause::Machine
            && self.way == ChangeDirection::Update
            && self.remember(self.to, chain(&error), blame == FailureCause::Either);
        let (from, to) = (self.from.full_name(), self.to.full_name());
        UpdateError::NotTried { way: self.way, from, to, error: Box::new(error), remembered }
    }

    fn remember(&self, version: &InstalledVersion, reason: String, doubtful: bool) -> bool {
        self.update.remember(&version.commit, Some(&version.version), reason, doubtful)
    }
}

/// Returns the time that a version may take from its start to its first answer.
fn start_limit() -> Duration {
    let said = env::OPENCLAW_START_LIMIT.get().and_then(|text| text.parse().ok());
    said.map_or(process::START, Duration::from_secs)
}
