//! One supervised process: its state, and the effects its actions ask for.

use std::sync::Arc;

use nix::libc;
use tokio::sync::mpsc;

use super::child::Child;
use super::control::UnitStatus;
use super::health::{Health, Unseen};
use super::journal::Journal;
use super::mark::Mark;
use super::pid;
use super::restart::{Limits, Memory};
use super::state::{Action, Event, Phase, Standing, State};
use super::unit::Unit;
use crate::error::chain;
use crate::home::log::{Cap, Log};
use crate::home::{Home, atomic};

/// What a health check found, and of which start of the process.
pub struct Checked {
    /// Which ward was asked.
    pub ward: usize,
    start: u64,
    found: Result<Health, Unseen>,
}

/// One supervised process.
pub struct Ward {
    home: Home,
    unit: Arc<dyn Unit>,
    state: State,
    child: Option<Child>,
    /// Counts the starts, so that a late answer of an earlier process is not taken for the present one's.
    start: u64,
    spawned_at: i64,
    check_at: Option<i64>,
    checks: mpsc::Sender<Checked>,
    index: usize,
    health: Option<(Health, i64)>,
    trouble: Option<String>,
}

impl Ward {
    /// A process that does not run yet, with what is remembered of it on disk.
    pub fn new(
        home: &Home,
        unit: Arc<dyn Unit>,
        limits: Limits,
        index: usize,
        checks: mpsc::Sender<Checked>,
    ) -> Self {
        let memory = remembered(home, unit.name());
        Self {
            home: home.clone(),
            state: State::new(limits, memory),
            unit,
            child: None,
            start: 0,
            spawned_at: 0,
            check_at: None,
            checks,
            index,
            health: None,
            trouble: None,
        }
    }

    /// Where it stands.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Whether no process of it is left.
    pub fn is_at_rest(&self) -> bool {
        self.child.is_none() && self.state.standing() == Standing::Stopped
    }

    /// When [`Ward::tick`] is due.
    pub fn next_deadline(&self) -> Option<i64> {
        [self.state.next_deadline(), self.check_at].into_iter().flatten().min()
    }

    /// Does what the time asks for.
    pub fn tick(&mut self, now: i64, journal: &mut Journal<'_>) {
        if self.state.next_deadline().is_some_and(|deadline| now >= deadline) {
            self.event(Event::Tick, now, journal);
        }
        if self.check_at.is_some_and(|at| now >= at) {
            self.check_at = None;
            let check = self.unit.check();
            let (checks, ward, start) = (self.checks.clone(), self.index, self.start);
            tokio::spawn(async move {
                let found = check.await;
                // Nobody takes it when the supervisor ends.
                let _ = checks.send(Checked { ward, start, found }).await;
            });
        }
    }

    /// Takes the result of a health check.
    pub fn checked(&mut self, checked: Checked, now: i64, journal: &mut Journal<'_>) {
        if checked.start != self.start || self.child.is_none() {
            return;
        }
        let wait = match self.state.phase() {
            Phase::Starting { since } if now - since < EAGER => SOON,
            Phase::Starting { .. } => SOMETIME,
            _ => LATER,
        };
        match checked.found {
            Ok(health) => {
                self.health = Some((health, now));
                self.trouble = None;
                self.check_at = Some(now + LATER);
                self.event(Event::Proved, now, journal);
            }
            Err(Unseen { reason, counts }) => {
                self.trouble = Some(reason.clone());
                self.check_at = Some(now + wait);
                if counts {
                    self.event(Event::Missed(reason), now, journal);
                }
            }
        }
    }

    /// Takes note of the end of the process, if it has ended.
    pub async fn reap(&mut self, now: i64, journal: &mut Journal<'_>) {
        let Some(child) = &mut self.child else { return };
        let exit = match child.ended() {
            Ok(None) => return,
            Ok(Some(exit)) => exit,
            // Somebody else took note of it; how it ended can't be known any more.
            Err(_) => super::state::Exit::Signal(libc::SIGKILL),
        };
        let said = child.last_words().await;
        pid::clear(&self.home.pid_file(self.unit.name()), child.id());
        self.child = None;
        self.check_at = None;
        self.health = None;
        self.event(Event::Ended(exit, said), now, journal);
    }

    /// Feeds the state machine and does what it asks for.
    pub fn event(&mut self, event: Event, now: i64, journal: &mut Journal<'_>) {
        let before = self.state.standing();
        let mut actions = self.state.on_event(event, now);
        while !actions.is_empty() {
            let failed = actions.drain(..).filter_map(|action| self.act(action, now, journal)).last();
            if let Some(reason) = failed {
                actions = self.state.on_event(Event::NotSpawned(reason), now);
            }
        }
        let after = self.state.standing();
        if before != after {
            let reason = self.state.reason().filter(|_| after != Standing::Healthy).unwrap_or_default();
            let text = format!("{} {}: {reason}", self.unit.name(), word(after));
            journal.note(text.trim_end_matches(": "));
        }
    }

    /// Does one thing; gives the reason if the process could not be started.
    fn act(&mut self, action: Action, now: i64, journal: &mut Journal<'_>) -> Option<String> {
        match action {
            Action::Spawn => return self.spawn(now, journal).err(),
            Action::Terminate => self.child.iter().for_each(Child::terminate),
            Action::Kill => self.child.iter().for_each(Child::kill),
            Action::Save => {
                if let Err(error) = save(&self.home, self.unit.name(), self.state.memory()) {
                    journal.note(&format!("what is known of crashes can't be kept: {}", chain(&error)));
                }
            }
        }
        None
    }

    fn spawn(&mut self, now: i64, journal: &mut Journal<'_>) -> Result<(), String> {
        let name = self.unit.name();
        self.start += 1;
        self.health = None;
        let log = Log::new(self.home.log(name), Cap::default());
        let program = self.unit.program();
        let child = Child::spawn(&program, &Mark::new(&self.home, name), log)
            .map_err(|error| format!("failed to start {}: {error}", program.file.display()))?;
        let record = pid::Record { process: child.id(), socket: None };
        if let Err(error) = pid::write(&self.home.pid_file(name), &record) {
            journal.note(&format!("its PID file can't be written: {}", chain(&error)));
        }
        journal.note(&format!("{name} started with pid {}", child.id().pid));
        self.child = Some(child);
        self.spawned_at = now;
        self.check_at = Some(now + SOON);
        Ok(())
    }

    /// How it stands, for people and programs.
    pub fn status(&self) -> UnitStatus {
        let memory = self.state.memory();
        UnitStatus {
            name: self.unit.name().to_owned(),
            state: self.state.standing(),
            pid: self.child.as_ref().map(|child| child.id().pid),
            port: self.unit.port(),
            spawned_at: self.child.as_ref().map(|_| self.spawned_at),
            restarts: self.state.restarts(),
            crashes: memory.crashes.len(),
            reason: self.state.reason().map(str::to_owned),
            failure: match self.state.phase() {
                Phase::Failed { kind } => Some(kind.code().to_owned()),
                _ => None,
            },
            retry_at: match self.state.phase() {
                Phase::BackingOff { until } => Some(*until),
                _ => None,
            },
            breaker_opened_at: memory.opened_at,
            health: self.health.as_ref().map(|(health, _)| health.clone()),
            checked_at: self.health.as_ref().map(|(_, at)| *at),
            check: self.trouble.clone(),
        }
    }
}

/// The word for where a process stands.
#[must_use]
pub const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Stopped => "stopped",
        Standing::Starting => "starting",
        Standing::Healthy => "healthy",
        Standing::BackingOff => "crashed, starting again soon",
        Standing::Stopping => "stopping",
        Standing::BreakerOpen => "crashed too often, not started again",
        Standing::Failed => "failed, not started again",
    }
}

/// Milliseconds between health checks: at first, later in a slow start, and when all is well.
const SOON: i64 = 2;
const SOMETIME: i64 = 25;
const LATER: i64 = 5_000;
/// How long the checks of a start follow each other closely.
const EAGER: i64 = 1_000;

/// What is remembered of crashes; a damaged file remembers nothing.
#[must_use]
pub fn remembered(home: &Home, name: &str) -> Memory {
    let bytes = atomic::read(&home.breaker(name), 64 << 10).ok().flatten();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn save(home: &Home, name: &str, memory: &Memory) -> Result<(), crate::home::HomeError> {
    let path = home.breaker(name);
    if memory.is_empty() {
        // Not being there is what is wanted.
        let _ = fs_err::remove_file(&path);
        return Ok(());
    }
    let text = serde_json::to_vec(memory).unwrap_or_default();
    atomic::write(&path, &text, 0o600)
}
