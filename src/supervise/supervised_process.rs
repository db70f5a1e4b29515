//! One supervised process: its state machine and the effects of its actions.

use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use nix::libc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::child::{Child, ChildCommand};
use super::control::UnitStatus;
use super::env_marker::EnvMarker;
use super::health::{Health, HealthCheckFailure};
use super::journal::Journal;
use super::pid_file;
use super::restart::{CrashHistory, SupervisionLimits};
use super::state::{PauseReason, UnitAction, UnitEvent, UnitPhase, UnitState, UnitStateMachine};
use super::unit::{Refresh, StartError, Unit};
use crate::error::chain;
use crate::home::log::{Log, RotationLimits};
use crate::home::{Home, atomic};

/// The result of a background job, with the start of the process that it belongs to.
pub(crate) struct JobMessage {
    /// The index of the process.
    pub process: usize,
    start: u64,
    what: JobOutcome,
}

enum JobOutcome {
    /// The command to run, or the reason why there is none.
    Prepared(Result<ChildCommand, StartError>),
    /// The result of a health check.
    Checked(Result<Health, HealthCheckFailure>),
    /// `true` if the process was started with an outdated configuration.
    Looked(bool),
    /// The result of applying a new configuration.
    Refreshed(Result<Refresh, StartError>),
    /// The end of a cleanup, given by its number.
    Cleared(u64),
}

/// A supervised process and its background jobs.
pub(crate) struct SupervisedProcess {
    home: Home,
    unit: Arc<dyn Unit>,
    state: UnitStateMachine,
    child: Option<Child>,
    /// Set while the process has been ordered to run. An optional one also has to be wanted.
    should_run: bool,
    /// The number of starts, so that a late result for an earlier process is not applied to the current one.
    start: u64,
    spawned_at: i64,
    check_at: Option<i64>,
    look_at: Option<i64>,
    preparing: Option<JoinHandle<()>>,
    looking: Option<JoinHandle<()>>,
    refreshing: Option<JoinHandle<()>>,
    clearing: Option<JoinHandle<()>>,
    /// The number of cleanups, so that the end of an abandoned one is not taken for the current one's.
    clearings: u64,
    /// The reason why a new configuration could not be applied.
    stale: Option<String>,
    jobs: mpsc::Sender<JobMessage>,
    index: usize,
    health: Option<(Health, i64)>,
    trouble: Option<String>,
}

impl SupervisedProcess {
    /// Creates a process that does not run yet, with the crash history from disk.
    pub(crate) fn new(
        home: &Home,
        unit: Arc<dyn Unit>,
        limits: SupervisionLimits,
        index: usize,
        jobs: mpsc::Sender<JobMessage>,
    ) -> Self {
        let memory = remembered(home, unit.name());
        Self {
            home: home.clone(),
            state: UnitStateMachine::new(unit.limits(limits), unit.endings(), memory),
            unit,
            child: None,
            should_run: false,
            start: 0,
            spawned_at: 0,
            check_at: None,
            look_at: None,
            preparing: None,
            looking: None,
            refreshing: None,
            clearing: None,
            clearings: 0,
            stale: None,
            jobs,
            index,
            health: None,
            trouble: None,
        }
    }

    pub(crate) const fn state(&self) -> &UnitStateMachine {
        &self.state
    }

    pub(crate) fn name(&self) -> &'static str {
        self.unit.name()
    }

    /// Returns `true` if the home is useful without it.
    pub(crate) fn is_optional(&self) -> bool {
        self.unit.is_optional()
    }

    /// Returns `true` if a status has to mention it: it runs, or it should.
    pub(crate) fn counts(&self) -> bool {
        !self.is_optional() || self.state.standing() != UnitState::Stopped || self.unit.is_wanted()
    }

    /// Returns `true` if the process has ended and its cleanup is done.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.child.is_none() && self.clearing.is_none() && self.state.standing() == UnitState::Stopped
    }

    /// Returns the time at which [`SupervisedProcess::tick`] is due.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        [self.state.next_deadline(), self.check_at, self.look_at].into_iter().flatten().min()
    }

    /// Handles an order to begin, start, restart or stop.
    pub(crate) fn order(&mut self, event: UnitEvent, now: i64, journal: &mut Journal<'_>) {
        self.should_run = event != UnitEvent::Stop;
        // Only optional processes follow changes of the configuration.
        self.look_at = (self.should_run && self.is_optional()).then_some(now + CHECK_INTERVAL_MS);
        if self.should_run && self.is_optional() && !self.unit.is_wanted() {
            return self.dismiss(now, journal);
        }
        self.event(event, now, journal);
    }

    /// Checks if an optional process is wanted, and if it runs with the current configuration.
    pub(crate) fn look(&mut self, now: i64, journal: &mut Journal<'_>) {
        if !self.should_run || !self.is_optional() {
            return;
        }
        self.look_at = Some(now + CHECK_INTERVAL_MS);
        if !self.unit.is_wanted() {
            return self.dismiss(now, journal);
        }
        match self.state.standing() {
            // `Begin` instead of `Start`, because an open breaker has to stay open.
            UnitState::Stopped => self.event(UnitEvent::Begin, now, journal),
            UnitState::Failed | UnitState::Healthy if self.looking.is_none() && self.refreshing.is_none() => {
                let outdated = self.unit.is_outdated();
                self.looking = Some(self.spawn_job(async { JobOutcome::Looked(outdated.await) }));
            }
            _ => {}
        }
    }

    /// Applies the current configuration, if the process was started with another one.
    fn looked(&mut self, is_outdated: bool, now: i64, journal: &mut Journal<'_>) {
        if !is_outdated || !self.should_run || !self.unit.is_wanted() {
            return;
        }
        match self.state.standing() {
            // The change may have fixed the cause of the failure.
            UnitState::Failed => self.event(UnitEvent::Start, now, journal),
            UnitState::Healthy => {
                let refreshed = self.unit.refresh();
                self.refreshing = Some(self.spawn_job(async { JobOutcome::Refreshed(refreshed.await) }));
            }
            _ => {}
        }
    }

    /// Returns `true` if it can become healthy without help. A check in progress may find that the cause of a failure
    /// was fixed.
    pub(crate) const fn is_hopeful(&self) -> bool {
        self.state.is_hopeful() || self.looking.is_some()
    }

    /// Returns `true` if it can't run until an outside cause has passed, which may take any time.
    pub(crate) const fn waits(&self) -> bool {
        matches!(self.pause(), Some(PauseReason::Outside(_)))
    }

    /// Returns the reason for the delay before its restart, if it is going to be restarted.
    const fn pause(&self) -> Option<PauseReason> {
        match self.state.phase() {
            UnitPhase::BackingOff { after, .. } => Some(*after),
            _ => None,
        }
    }

    /// Stops a process that is not wanted any more.
    fn dismiss(&mut self, now: i64, journal: &mut Journal<'_>) {
        if !matches!(self.state.standing(), UnitState::Stopped | UnitState::Stopping) {
            journal.note(&format!("{} is no longer needed", self.unit.name()));
        }
        self.event(UnitEvent::Stop, now, journal);
    }

    /// Runs a job beside the loop, which receives its result.
    fn spawn_job(&self, what: impl Future<Output = JobOutcome> + Send + 'static) -> JoinHandle<()> {
        let (jobs, process, start) = (self.jobs.clone(), self.index, self.start);
        tokio::spawn(async move {
            let what = what.await;
            // When the supervisor ends, nobody receives the result.
            let _ = jobs.send(JobMessage { process, start, what }).await;
        })
    }

    /// Does everything that is due.
    pub(crate) fn tick(&mut self, now: i64, journal: &mut Journal<'_>) {
        if self.state.next_deadline().is_some_and(|deadline| now >= deadline) {
            self.event(UnitEvent::Tick, now, journal);
        }
        if self.check_at.is_some_and(|at| now >= at) {
            // The next check is scheduled when this one has finished, so that slow checks never pile up.
            self.check_at = None;
            if let Some(child) = &self.child {
                let check = self.unit.check(child.id());
                drop(self.spawn_job(async { JobOutcome::Checked(check.await) }));
            }
        }
        if self.look_at.is_some_and(|at| now >= at) {
            self.look(now, journal);
        }
    }

    /// Handles the result of a background job.
    pub(crate) fn on_job_done(&mut self, message: JobMessage, now: i64, journal: &mut Journal<'_>) {
        if let JobOutcome::Cleared(which) = message.what {
            if which == self.clearings {
                self.clearing = None;
            }
            return;
        }
        // The result belongs to an earlier process.
        if message.start != self.start {
            return;
        }
        match message.what {
            JobOutcome::Prepared(prepared) => {
                if self.preparing.take().is_some()
                    && let Err(unready) = prepared.and_then(|program| self.launch(&program, now, journal))
                {
                    self.event(UnitEvent::NotSpawned(unready), now, journal);
                }
            }
            JobOutcome::Looked(is_outdated) => {
                self.looking = None;
                self.looked(is_outdated, now, journal);
            }
            JobOutcome::Refreshed(refreshed) => {
                self.refreshing = None;
                self.refreshed(refreshed, now, journal);
            }
            JobOutcome::Checked(found) => self.checked(found, now, journal),
            JobOutcome::Cleared(_) => {}
        }
    }

    fn refreshed(&mut self, found: Result<Refresh, StartError>, now: i64, journal: &mut Journal<'_>) {
        let name = self.unit.name();
        self.stale = None;
        match found {
            Ok(Refresh::Done) => {}
            Ok(Refresh::Restart(reason)) if self.state.standing() == UnitState::Healthy => {
                journal.note(&format!("restarting {name}: {reason}"));
                self.event(UnitEvent::Restart, now, journal);
            }
            // It is being started anyway, with the new configuration.
            Ok(Refresh::Restart(_)) => {}
            Err(StartError { reason, .. }) => {
                journal.note(&format!("{name} keeps running with its earlier configuration: {reason}"));
                self.stale = Some(reason);
            }
        }
    }

    fn checked(&mut self, found: Result<Health, HealthCheckFailure>, now: i64, journal: &mut Journal<'_>) {
        if self.child.is_none() {
            return;
        }
        // Checks are frequent early in a start, so that a fast start is noticed at once.
        let wait = match self.state.phase() {
            UnitPhase::Starting { since, .. } if now - since < FAST_CHECK_PERIOD_MS => FAST_CHECK_MS,
            UnitPhase::Starting { .. } => SLOW_CHECK_MS,
            _ => CHECK_INTERVAL_MS,
        };
        match found {
            Ok(health) => {
                self.health = Some((health, now));
                self.trouble = None;
                self.check_at = Some(now + CHECK_INTERVAL_MS);
                self.event(UnitEvent::Proved, now, journal);
            }
            Err(HealthCheckFailure { reason, counts }) => {
                self.trouble = Some(reason.clone());
                self.check_at = Some(now + wait);
                if counts {
                    self.event(UnitEvent::Missed(reason), now, journal);
                }
            }
        }
    }

    /// Handles the end of the process, if it has ended.
    pub(crate) async fn reap(&mut self, now: i64, journal: &mut Journal<'_>) {
        let Some(child) = &mut self.child else { return };
        let exit = match child.ended() {
            Ok(None) => return,
            Ok(Some(exit)) => exit,
            // Other code has waited for it, so its exit status is lost.
            Err(_) => super::state::Exit::Signal(libc::SIGKILL),
        };
        let said = child.last_words(self.unit.endings().tells).await;
        pid_file::clear(&self.home.pid_file(self.unit.name()), child.id());
        self.child = None;
        self.check_at = None;
        self.health = None;
        self.event(UnitEvent::Ended(exit, said), now, journal);
        // If the next start is being prepared, that does the cleanup first.
        if self.preparing.is_none() && self.child.is_none() {
            self.clear();
        }
    }

    /// Starts to remove what outlives the process.
    fn clear(&mut self) {
        let Some(cleared) = self.unit.clear() else { return };
        abort_job(&mut self.clearing);
        self.clearings += 1;
        let which = self.clearings;
        self.clearing = Some(self.spawn_job(async move {
            cleared.await;
            JobOutcome::Cleared(which)
        }));
    }

    /// Feeds an event to the state machine and carries out the resulting actions.
    pub(crate) fn event(&mut self, event: UnitEvent, now: i64, journal: &mut Journal<'_>) {
        let before = self.state.standing();
        let mut actions = self.state.on_event(event, now);
        while !actions.is_empty() {
            // A failed action is an event of its own, which can lead to further actions.
            let failed = actions.drain(..).filter_map(|action| self.run_action(action, now, journal)).last();
            if let Some(unready) = failed {
                actions = self.state.on_event(UnitEvent::NotSpawned(unready), now);
            }
        }
        let after = self.state.standing();
        if before != after {
            let reason = self.state.reason().filter(|_| after != UnitState::Healthy).unwrap_or_default();
            let word = match self.pause() {
                Some(PauseReason::Outside(_)) => "can't run yet, starting again soon",
                Some(PauseReason::Replaced) => "was replaced by another one, starting again soon",
                Some(PauseReason::Crash) | None => word(after),
            };
            let text = format!("{} {word}: {reason}", self.unit.name());
            journal.note(text.trim_end_matches(": "));
        }
    }

    /// Carries out one action. Returns the reason if there is no process afterwards.
    fn run_action(&mut self, action: UnitAction, now: i64, journal: &mut Journal<'_>) -> Option<StartError> {
        match action {
            UnitAction::Spawn => return self.spawn(now, journal).err(),
            UnitAction::Terminate | UnitAction::Kill => match &self.child {
                Some(child) if action == UnitAction::Kill => child.kill(),
                Some(child) => child.terminate(),
                None => {
                    // The preparation may have been in the middle of its own cleanup.
                    abort_job(&mut self.preparing);
                    self.clear();
                    return Some(StartError { reason: "its start was cancelled".to_owned(), lasting: None });
                }
            },
            UnitAction::Save => {
                if let Err(error) = save_crash_history(&self.home, self.unit.name(), self.state.memory()) {
                    journal.note(&format!("failed to write the record of crashes: {}", chain(&error)));
                }
            }
        }
        None
    }

    fn spawn(&mut self, now: i64, journal: &mut Journal<'_>) -> Result<(), StartError> {
        self.start += 1;
        self.health = None;
        self.trouble = None;
        self.stale = None;
        abort_job(&mut self.looking);
        abort_job(&mut self.refreshing);
        abort_job(&mut self.clearing);
        let mut prepared = self.unit.prepare();
        // A preparation that completes at once, as the gateway's does, needs no job of its own.
        match (&mut prepared).now_or_never() {
            Some(prepared) => self.launch(&prepared?, now, journal),
            None => {
                self.preparing = Some(self.spawn_job(async { JobOutcome::Prepared(prepared.await) }));
                Ok(())
            }
        }
    }

    fn launch(
        &mut self,
        program: &ChildCommand,
        now: i64,
        journal: &mut Journal<'_>,
    ) -> Result<(), StartError> {
        let name = self.unit.name();
        let log = Log::new(self.home.log(name), RotationLimits::default());
        let child =
            Child::spawn(program, &EnvMarker::new(&self.home, name), log).map_err(|error| StartError {
                reason: format!("failed to start {}: {error}", program.file.display()),
                lasting: None,
            })?;
        let record = pid_file::PidRecord { process: child.id(), socket: None };
        // The process can run without a PID file: its mark still identifies it.
        if let Err(error) = pid_file::write(&self.home.pid_file(name), &record) {
            journal.note(&format!("its PID file can't be written: {}", chain(&error)));
        }
        journal.note(&format!("{name} started with pid {}", child.id().pid));
        self.child = Some(child);
        self.spawned_at = now;
        // This event never leads to an action.
        let _ = self.state.on_event(UnitEvent::Launched, now);
        self.check_at = Some(now + FAST_CHECK_MS);
        Ok(())
    }

    /// Returns the status for people and programs.
    pub(crate) fn status(&self) -> UnitStatus {
        let memory = self.state.memory();
        UnitStatus {
            name: self.unit.name().to_owned(),
            state: self.state.standing(),
            pid: self.child.as_ref().map(|child| child.id().pid),
            port: self.unit.port(),
            build: self.unit.build(),
            spawned_at: self.child.as_ref().map(|_| self.spawned_at),
            restarts: self.state.restarts(),
            crashes: memory.crashes.len(),
            replacements: self.state.replacements(),
            reason: self.state.reason().map(str::to_owned),
            failure: self.state.failure().map(|kind| kind.code().to_owned()),
            retry_at: match self.state.phase() {
                UnitPhase::BackingOff { until, .. } => Some(*until),
                _ => None,
            },
            breaker_opened_at: memory.opened_at,
            health: self.health.as_ref().map(|(health, _)| health.clone()),
            checked_at: self.health.as_ref().map(|(_, at)| *at),
            check: self.trouble.clone(),
            stale: self.stale.clone(),
        }
    }
}

fn abort_job(task: &mut Option<JoinHandle<()>>) {
    if let Some(task) = task.take() {
        task.abort();
    }
}

/// Returns the description of a phase for people.
#[must_use]
pub(crate) const fn word(standing: UnitState) -> &'static str {
    match standing {
        UnitState::Stopped => "stopped",
        UnitState::Starting => "starting",
        UnitState::Healthy => "healthy",
        UnitState::BackingOff => "crashed, starting again soon",
        UnitState::Stopping => "stopping",
        UnitState::BreakerOpen => "crashed too often, not started again",
        UnitState::Failed => "failed, not started again",
    }
}

/// Milliseconds between health checks: early in a start, late in a slow start, and while healthy.
const FAST_CHECK_MS: i64 = 2;
const SLOW_CHECK_MS: i64 = 25;
const CHECK_INTERVAL_MS: i64 = 5_000;
/// The time in milliseconds for which the checks of a start follow each other closely.
const FAST_CHECK_PERIOD_MS: i64 = 1_000;

/// Reads the crash history of a process. A damaged file counts as an empty history.
#[must_use]
pub(crate) fn remembered(home: &Home, name: &str) -> CrashHistory {
    let bytes = atomic::read(&home.breaker(name), 64 << 10).ok().flatten();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn save_crash_history(home: &Home, name: &str, memory: &CrashHistory) -> Result<(), crate::home::HomeError> {
    let path = home.breaker(name);
    if memory.is_empty() {
        // A file that is missing already is fine.
        let _ = fs_err::remove_file(&path);
        return Ok(());
    }
    let text = serde_json::to_vec(memory).unwrap_or_default();
    atomic::write(&path, &text, 0o600)
}
