//! From one version to another: derived for, tried, swapped, proved, or taken back.

use std::time::Duration;

use super::super::{Context, Failure, openclaw};
use super::serving::{self, Patience, Unproved};
use super::{remember, report};
use crate::error::Explain as _;
use crate::home::Home;
use crate::install::underway::{Underway, Way};
use crate::install::{InstallError, Installer, Version, swap, swap_back, versions};
use crate::openclaw::check::Program;
use crate::openclaw::trial::{self, Trial};
use crate::openclaw::{Blame, OpenClawError, derive::Derived, place, process, state};
use crate::supervise::restart::Limits;
use crate::supervise::state::Standing;
use crate::{config, env, error};

/// A change of the version in use.
pub struct Change<'a> {
    pub installer: &'a Installer,
    pub home: &'a Home,
    pub context: &'a Context,
    pub way: Way,
    /// The version in use.
    pub from: &'a Version,
    /// The one that is to be.
    pub to: &'a Version,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Whether the new version runs, and is healthy.
    pub serves: bool,
    /// Whether the state is the one that it left itself, when it was in use before.
    pub put_back: bool,
}

impl Change<'_> {
    /// Does all of it.
    ///
    /// # Errors
    ///
    /// What failed. The version that was in use is in use again, unless the text says otherwise.
    pub fn run(&self) -> Result<Done, Failure> {
        let tried = self.context.block_on(Box::pin(self.try_out()));
        let put_back = tried.inspect_err(|_| {
            // What is to be tried again is kept: it need not be made again.
            let again = !versions::failed(self.home).contains_key(&self.to.commit);
            super::tidy(self.installer, self.home, self.context, again.then_some(self.to));
        })?;
        if put_back {
            state::put_back_at_start(self.home, self.to)?;
        } else {
            state::leave_as_it_is(self.home)?;
        }
        self.underway(false).begin(self.installer, self.home)?;
        swap(self.installer, self.home, self.to)?;
        Ok(Done { put_back, ..self.prove()? })
    }

    /// Has the version that was put in use prove itself where OpenClaw runs, or takes the change back.
    ///
    /// # Errors
    ///
    /// As [`Change::run`].
    pub fn prove(&self) -> Result<Done, Failure> {
        match self.context.block_on(async { Ok(self.restart(self.to).await) })? {
            Ok(serves) => self.conclude(serves),
            Err(Unproved::Fault(reason)) => self.take_back(&reason),
            // Nothing is known of the version. What is under way stays noted, and the next update ends it.
            Err(unproved) => Err(report::unproved(self, &unproved)),
        }
    }

    /// Ends a change that was interrupted: where the new version serves by now, it has proved itself.
    ///
    /// # Errors
    ///
    /// As [`Change::run`].
    pub fn go_on(&self) -> Result<Done, Failure> {
        if self.is_served(self.to)? {
            return self.conclude(true);
        }
        if !state::has_been_healthy(self.home, self.to) {
            return self.prove();
        }
        // It has served since, and its conversations went on: it stays in use whatever it does now.
        match self.context.block_on(async { Ok(self.restart(self.to).await) })? {
            Ok(serves) => self.conclude(serves),
            Err(fault @ Unproved::Fault(_)) => {
                self.conclude(false)?;
                Err(report::no_longer(self, &fault))
            }
            Err(unproved) => Err(report::unproved(self, &unproved)),
        }
    }

    /// Whether this version runs and is healthy.
    fn is_served(&self, version: &Version) -> Result<bool, Failure> {
        let found = self.context.block_on(async { Ok(serving::look(self.home).await) })?;
        let found = found.map_err(|unproved| report::unproved(self, &unproved))?;
        Ok(found.is_some_and(|unit| {
            unit.state == Standing::Healthy && unit.build.as_deref() == Some(&version.name())
        }))
    }

    fn underway(&self, back: bool) -> Underway {
        Underway { way: self.way, from: self.from.name(), to: self.to.name(), back }
    }

    /// Ends a change that was interrupted while it was taken back: the version before runs again, where OpenClaw runs.
    ///
    /// # Errors
    ///
    /// If it does not get healthy.
    pub fn go_back(&self) -> Result<(), Failure> {
        if self.is_served(self.from)? {
            return Ok(Underway::end(self.installer, self.home)?);
        }
        let serves = self.context.block_on(async { Ok(self.restart(self.from).await) })?;
        if let Err(unproved @ (Unproved::Stopped | Unproved::Unasked(_))) = &serves {
            return Err(report::unproved(self, unproved));
        }
        Underway::end(self.installer, self.home)?;
        serves.map_err(|reason| report::unproved(self, &reason))?;
        Ok(())
    }

    fn conclude(&self, serves: bool) -> Result<Done, Failure> {
        if self.way == Way::Rollback {
            remember(self.home, self.from, "it was rolled back".to_owned(), false);
        }
        Underway::end(self.installer, self.home)?;
        Ok(Done { serves, put_back: false })
    }

    /// Whether the new version takes its configuration and starts on it. Says whether it needs the state that it left.
    async fn try_out(&self) -> Result<bool, Failure> {
        let own = state::left_by(self.home, self.to);
        let present = self.home.openclaw_state();
        let is_migrated = own.as_ref().is_some_and(|own| state::is_migrated(own, &present));
        let Some(derived) = openclaw::derived_for(self.home, self.to).await? else {
            self.context.printer.say("no agent runs on OpenClaw, so it is not started");
            return Ok(is_migrated);
        };
        let printer = &self.context.printer;
        let asking = printer.progress("asking the version whether it takes its configuration");
        place::try_on(self.home, &derived, &Program::from(self.to))
            .await
            .map_err(|error| self.not_tried(error))?;
        asking.done("it takes its configuration");
        let trying = printer.progress("starting it on another port");
        let first = own.as_deref().filter(|_| is_migrated).unwrap_or(&present);
        let mut put_back = is_migrated;
        let mut tried = self.tried(&derived, first).await;
        if let (Err(OpenClawError::Untried { .. }), Some(own), false) = (&tried, own.as_deref(), is_migrated)
        {
            // What the other version made of the state may be what it does not start on.
            tried = self.tried(&derived, own).await;
            put_back = true;
        }
        tried.map_err(|error| self.not_tried(error))?;
        trying.done("it started and answered");
        Ok(put_back)
    }

    async fn tried(&self, derived: &Derived, state: &std::path::Path) -> Result<(), OpenClawError> {
        let gateway = config::read(self.home)?.port;
        let trial = Trial { version: self.to, derived, state: Some(state), gateway, limit: start_limit() };
        trial::run(self.home, &trial).await
    }

    /// Starts OpenClaw anew with this version where it runs; says whether it does.
    async fn restart(&self, version: &Version) -> Result<bool, Unproved> {
        let Some(before) = serving::look(self.home).await? else { return Ok(false) };
        let progress = self.context.printer.progress(&format!("restarting with {}", report::name(version)));
        // It may end its turns first, and what it is started on is made ready, for which it may be asked again.
        let grace = Duration::from_millis(u64::try_from(Limits::default().grace).unwrap_or(0));
        let patience = Patience { turn: grace + process::READY, start: start_limit() };
        serving::restart(self.home, version, &before, patience).await?;
        progress.done(&format!("{} is healthy", report::name(version)));
        Ok(true)
    }

    /// Has the version before in use again.
    fn take_back(&self, reason: &str) -> Result<Done, Failure> {
        if self.way == Way::Update {
            remember(self.home, self.to, format!("it did not get healthy: {reason}"), false);
        }
        if state::left_by(self.home, self.from).is_some() {
            // The other one was not healthy for a moment: nothing in its state is worth keeping.
            state::put_back_at_start(self.home, self.from)?;
        } else {
            state::leave_as_it_is(self.home)?;
        }
        // Without it only an interruption right now would be taken for one before anything had happened.
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
        if !matches!(serves, Err(Unproved::Unasked(_))) {
            Underway::end(self.installer, self.home)?;
        }
        super::tidy(self.installer, self.home, self.context, None);
        Err(report::taken_back(self, reason, &serves))
    }

    fn not_tried(&self, error: OpenClawError) -> Failure {
        let blame = match &error {
            OpenClawError::Untried { blame, .. } => *blame,
            OpenClawError::Invalid { .. } => Blame::Version,
            _ => Blame::Machine,
        };
        let doubtful = blame == Blame::Either;
        let remembered = blame != Blame::Machine
            && self.way == Way::Update
            && remember(self.home, self.to, error::chain(&error), doubtful);
        report::not_tried(self, error, remembered)
    }
}

/// From a start to the first answer.
fn start_limit() -> Duration {
    let said = env::OPENCLAW_START_LIMIT.get().and_then(|text| text.parse().ok());
    said.map_or(process::START, Duration::from_secs)
}
