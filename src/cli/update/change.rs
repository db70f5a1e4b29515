//! The change from one version to another: trying, swapping, proving, or taking it back.

use std::time::Duration;

use super::super::{Context, Failure, openclaw};
use super::openclaw_restart::{self, RestartError, RestartLimits};
use super::{remember, report};
use crate::error::Explain as _;
use crate::home::Home;
use crate::install::pending_change::{ChangeDirection, PendingVersionChange};
use crate::install::{InstallError, InstallLock, InstalledVersion, swap, swap_back, versions};
use crate::openclaw::check::OpenClawProgram;
use crate::openclaw::trial::{self, Trial};
use crate::openclaw::{FailureCause, OpenClawError, derive::DerivedConfig, place, process, state};
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::state::UnitState;
use crate::{config, env, error};

/// A change of the version in use.
pub struct VersionChange<'a> {
    pub installer: &'a InstallLock,
    pub home: &'a Home,
    pub context: &'a Context,
    pub way: ChangeDirection,
    /// The version in use before the change.
    pub from: &'a InstalledVersion,
    /// The version to put in use.
    pub to: &'a InstalledVersion,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// `true` if the new version runs and is healthy.
    pub serves: bool,
    /// `true` if the version got back the state that it left itself when it was in use before.
    pub put_back: bool,
}

impl VersionChange<'_> {
    /// Carries out the whole change.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The earlier version is then in use again, unless the text says
    /// otherwise.
    pub fn run(&self) -> Result<Done, Failure> {
        let tried = self.context.block_on(Box::pin(self.try_out()));
        let put_back = tried.inspect_err(|_| {
            // A version that the next update tries again is kept, so that it need not be built again.
            let again = !versions::failed(self.home).contains_key(&self.to.commit);
            super::tidy(self.installer, self.home, self.context, again.then_some(self.to));
        })?;
        if put_back {
            state::request_restore(self.home, self.to)?;
        } else {
            state::cancel_restore(self.home)?;
        }
        // The record comes before the swap: a crash between the two is then recognised by the next update.
        self.underway(false).begin(self.installer, self.home)?;
        swap(self.installer, self.home, self.to)?;
        Ok(Done { put_back, ..self.prove()? })
    }

    /// Restarts a running OpenClaw with the new version and waits until it is healthy, or takes the change back.
    ///
    /// # Errors
    ///
    /// Returns an error if the version did not become healthy, or if its state is unknown.
    pub fn prove(&self) -> Result<Done, Failure> {
        match self.context.block_on(async { Ok(self.restart(self.to).await) })? {
            Ok(serves) => self.conclude(serves),
            Err(RestartError::Fault(reason)) => self.take_back(&reason),
            // Nothing is known about the version itself. The record of the change stays, and the next update completes
            // it.
            Err(unproved) => Err(report::unproved(self, &unproved)),
        }
    }

    /// Completes an interrupted change. If the new version serves by now, it has proved itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is not healthy, or if its state is unknown.
    pub fn go_on(&self) -> Result<Done, Failure> {
        if self.is_served(self.to)? {
            return self.conclude(true);
        }
        if !state::has_been_healthy(self.home, self.to) {
            return self.prove();
        }
        // It has served since the swap, and conversations continued in it. So it stays in use whatever it does now.
        match self.context.block_on(async { Ok(self.restart(self.to).await) })? {
            Ok(serves) => self.conclude(serves),
            Err(fault @ RestartError::Fault(_)) => {
                self.conclude(false)?;
                Err(report::no_longer_healthy_failure(self, &fault))
            }
            Err(unproved) => Err(report::unproved(self, &unproved)),
        }
    }

    /// Returns `true` if this version runs and is healthy.
    fn is_served(&self, version: &InstalledVersion) -> Result<bool, Failure> {
        let found = self.context.block_on(async { Ok(openclaw_restart::look(self.home).await) })?;
        let found = found.map_err(|unproved| report::unproved(self, &unproved))?;
        Ok(found.is_some_and(|unit| {
            unit.state == UnitState::Healthy && unit.build.as_deref() == Some(&version.name())
        }))
    }

    fn underway(&self, back: bool) -> PendingVersionChange {
        PendingVersionChange { way: self.way, from: self.from.name(), to: self.to.name(), back }
    }

    /// Completes a change that was interrupted while it was taken back: the earlier version runs again, if OpenClaw
    /// runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the earlier version does not become healthy.
    pub fn go_back(&self) -> Result<(), Failure> {
        if self.is_served(self.from)? {
            return Ok(PendingVersionChange::end(self.installer, self.home)?);
        }
        let serves = self.context.block_on(async { Ok(self.restart(self.from).await) })?;
        // The state is unknown, so the record stays for the next update.
        if let Err(unproved @ (RestartError::Stopped | RestartError::Unasked(_))) = &serves {
            return Err(report::unproved(self, unproved));
        }
        // Whatever the result, there is nothing more to go back to, so the record ends here.
        PendingVersionChange::end(self.installer, self.home)?;
        serves.map_err(|reason| report::unproved(self, &reason))?;
        Ok(())
    }

    fn conclude(&self, serves: bool) -> Result<Done, Failure> {
        // A version that a person rolled back must not come back with the next update.
        if self.way == ChangeDirection::Rollback {
            remember(self.home, self.from, "it was rolled back".to_owned(), false);
        }
        PendingVersionChange::end(self.installer, self.home)?;
        Ok(Done { serves, put_back: false })
    }

    /// Checks that the new version accepts its configuration and starts with it. Returns `true` if it needs the state
    /// that it left.
    async fn try_out(&self) -> Result<bool, Failure> {
        let own = state::find_copy(self.home, self.to);
        let present = self.home.openclaw_state();
        let is_migrated = own.as_ref().is_some_and(|own| state::is_migrated(own, &present));
        // Without agents there is no configuration to try, and nothing that could fail.
        let Some(derived) = openclaw::derive_for(self.home, self.to).await? else {
            self.context.printer.say("no agent runs on OpenClaw, so it is not started");
            return Ok(is_migrated);
        };
        let printer = &self.context.printer;
        let asking = printer.progress("checking the configuration with this version");
        place::check_candidate(self.home, &derived, &OpenClawProgram::from(self.to))
            .await
            .map_err(|error| self.not_tried(error))?;
        asking.done("it accepts the configuration");
        let trying = printer.progress("starting it on another port");
        // A trial works on a copy of the state. A state that was migrated is not readable for the older version.
        let first = own.as_deref().filter(|_| is_migrated).unwrap_or(&present);
        let mut put_back = is_migrated;
        let mut tried = self.tried(&derived, first).await;
        if let (Err(OpenClawError::Untried { .. }), Some(own), false) = (&tried, own.as_deref(), is_migrated)
        {
            // The version may fail to start because of what the other version changed in the state.
            tried = self.tried(&derived, own).await;
            put_back = true;
        }
        tried.map_err(|error| self.not_tried(error))?;
        trying.done("it started and answered");
        Ok(put_back)
    }

    async fn tried(&self, derived: &DerivedConfig, state: &std::path::Path) -> Result<(), OpenClawError> {
        let gateway = config::read(self.home)?.port;
        let trial = Trial { version: self.to, derived, state: Some(state), gateway, limit: start_limit() };
        trial::run(self.home, &trial).await
    }

    /// Restarts a running OpenClaw with this version. Returns `true` if it runs.
    async fn restart(&self, version: &InstalledVersion) -> Result<bool, RestartError> {
        let Some(before) = openclaw_restart::look(self.home).await? else { return Ok(false) };
        let progress = self.context.printer.progress(&format!("restarting with {}", report::name(version)));
        // It may finish its turns first. Then the files for its start are prepared, which may be tried more than once.
        let grace = Duration::from_millis(u64::try_from(SupervisionLimits::default().grace).unwrap_or(0));
        let patience = RestartLimits { turn: grace + process::READY, start: start_limit() };
        openclaw_restart::restart(self.home, version, &before, patience).await?;
        progress.done(&format!("{} is healthy", report::name(version)));
        Ok(true)
    }

    /// Puts the earlier version in use again.
    fn take_back(&self, reason: &str) -> Result<Done, Failure> {
        if self.way == ChangeDirection::Update {
            remember(self.home, self.to, format!("it did not get healthy: {reason}"), false);
        }
        if state::find_copy(self.home, self.from).is_some() {
            // The other version was never healthy, so nothing in its state is worth keeping.
            state::request_restore(self.home, self.from)?;
        } else {
            state::cancel_restore(self.home)?;
        }
        // Without this record only an interruption right now would be misread, as one from before the restart.
        let _ = self.underway(true).begin(self.installer, self.home);
        let back: Result<(), InstallError> = swap_back(self.installer, self.home, self.from);
        if let Err(error) = back {
            let text = format!(
                "{} did not get healthy ({reason}), and {} can't be put in use again: {}",
                report::name(self.to),
                report::name(self.from),
                error::chain(&error)
            );
            return Err(Failure::new(error.kind(), text).hint("flock update"));
        }
        let serves = self.context.block_on(async { Ok(self.restart(self.from).await) })?;
        // If the supervisor can't be asked, the record stays and the next update looks again.
        if !matches!(serves, Err(RestartError::Unasked(_))) {
            PendingVersionChange::end(self.installer, self.home)?;
        }
        super::tidy(self.installer, self.home, self.context, None);
        Err(report::rolled_back_failure(self, reason, &serves))
    }

    fn not_tried(&self, error: OpenClawError) -> Failure {
        let blame = match &error {
            OpenClawError::Untried { blame, .. } => *blame,
            OpenClawError::Invalid { .. } => FailureCause::Version,
            _ => FailureCause::Machine,
        };
        let doubtful = blame == FailureCause::Either;
        // A fault of the machine says nothing about the commit, so only other faults are remembered.
        let remembered = blame != FailureCause::Machine
            && self.way == ChangeDirection::Update
            && remember(self.home, self.to, error::chain(&error), doubtful);
        report::not_tried(self, error, remembered)
    }
}

/// Returns the time that a version may take from its start to its first answer.
fn start_limit() -> Duration {
    let said = env::OPENCLAW_START_LIMIT.get().and_then(|text| text.parse().ok());
    said.map_or(process::START, Duration::from_secs)
}
