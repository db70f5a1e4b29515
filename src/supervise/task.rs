//! The supervisor's loop.
//!
//! It takes signals, ends of processes, requests and deadlines one after the other, feeds them to the state machines
//! and carries out the resulting actions. It holds the supervisor's lock for its whole life.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::control::protocol::ControlRefusal;
use super::control::server::{ControlServer, PendingRequest};
use super::control::{ControlReply, ControlRequest, SupervisorStatus, place};
use super::journal::Journal;
use super::orphans;
use super::pid_file::{self, PidRecord};
use super::restart::SupervisionLimits;
use super::state::{UnitEvent, UnitPhase, UnitState};
use super::supervised_process::{JobMessage, SupervisedProcess};
use super::unit::Unit;
use super::{SUPERVISOR, SuperviseError};
use crate::clock;
use crate::home::Home;
use crate::home::lock::Lock;
use crate::process::ProcessId;

/// The configuration of a supervisor.
pub struct SupervisorConfig<'a> {
    pub home: Home,
    /// The processes that it runs.
    pub units: Vec<Arc<dyn Unit>>,
    pub limits: SupervisionLimits,
    /// The supervisor's log.
    pub journal: Journal<'a>,
    /// Set if another program keeps the supervisor running. The supervisor then ends with an error once a process has
    /// failed in a way that a restart can't fix.
    pub foreground: bool,
}

/// Supervises until it is told to stop, and returns when all processes have ended.
///
/// `lock` is the supervisor's lock. `ready` is called once requests are accepted.
///
/// # Errors
///
/// Returns an error if the supervisor can't start. In the foreground, also returns [`SuperviseError::Failed`] if a
/// process failed in a way that a restart can't fix.
pub async fn run(plan: SupervisorConfig<'_>, lock: Lock, ready: impl FnOnce()) -> Result<(), SuperviseError> {
    let mut task = SupervisorTask::begin(plan).await?;
    let (requests, mut asked) = mpsc::channel::<PendingRequest>(64);
    let server = match task.listen(requests) {
        Ok(server) => server,
        Err(error) => {
            // Processes that run already must not continue without a supervisor that can be asked.
            task.stop();
            while !task.is_at_rest() {
                let event = task.next(&mut mpsc::channel(1).1).await;
                task.take(event).await;
            }
            return Err(error);
        }
    };
    ready();

    let mut failure = None;
    let ended = loop {
        let event = task.next(&mut asked).await;
        task.take(event).await;
        task.answer_waiters();
        if !task.ending
            && let Some(error) = task.permanent_failure()
        {
            failure = Some(error);
            // The other processes must not outlive this supervisor.
            task.stop();
        }
        if task.ending && task.is_at_rest() {
            break failure.map_or(Ok(()), Err);
        }
    };
    // The order matters: close the socket, answer the requests to stop, release the lock. A process that finds the lock
    // free can then rely on it that nothing runs in this home.
    drop(server);
    task.finish().await;
    drop(lock);
    ended
}

struct SupervisorTask<'a> {
    home: Home,
    processes: Vec<SupervisedProcess>,
    journal: Journal<'a>,
    foreground: bool,
    began: Instant,
    began_at: i64,
    jobs: mpsc::Receiver<JobMessage>,
    signals: Signals,
    ready_waiters: Vec<oneshot::Sender<ControlReply>>,
    end_waiters: Vec<oneshot::Sender<ControlReply>>,
    ending: bool,
}

/// An event that the supervisor's loop waits for.
enum LoopEvent {
    Signal(&'static str),
    ChildEnded,
    JobDone(JobMessage),
    Due,
    Asked(ControlRequest, oneshot::Sender<ControlReply>),
}

struct Signals {
    child: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl<'a> SupervisorTask<'a> {
    async fn begin(plan: SupervisorConfig<'a>) -> Result<Self, SuperviseError> {
        let listen = |kind| signal(kind).map_err(SuperviseError::Signals);
        let signals = Signals {
            child: listen(SignalKind::child())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        };
        let (sender, jobs) = mpsc::channel(16);
        let SupervisorConfig { home, units, limits, mut journal, foreground } = plan;
        let names: Vec<&str> = units.iter().map(|unit| unit.name()).collect();
        // Orphans of an earlier supervisor are ended before anything starts, so that nothing runs twice.
        orphans::end(&home, &names, &limits, &mut journal).await;
        let processes: Vec<SupervisedProcess> = units
            .into_iter()
            .enumerate()
            .map(|(index, unit)| SupervisedProcess::new(&home, unit, limits.clone(), index, sender.clone()))
            .collect();
        let mut task = Self {
            home,
            processes,
            journal,
            foreground,
            began: Instant::now(),
            began_at: clock::unix_ms(),
            jobs,
            signals,
            ready_waiters: Vec::new(),
            end_waiters: Vec::new(),
            ending: false,
        };
        task.all(&UnitEvent::Begin);
        Ok(task)
    }

    fn listen(&mut self, requests: mpsc::Sender<PendingRequest>) -> Result<ControlServer, SuperviseError> {
        let usual = place::usual(&self.home);
        let path = match &usual {
            Some(path) => path.clone(),
            None => place::elsewhere(&self.home).map_err(SuperviseError::NoPlace)?,
        };
        let server = ControlServer::listen(&path, requests)
            .map_err(|source| SuperviseError::Listen { path: path.clone(), source })?;
        let socket = usual.is_none().then_some(path);
        let record = PidRecord { process: ProcessId::current(), socket };
        pid_file::write(&self.home.pid_file(SUPERVISOR), &record)?;
        Ok(server)
    }

    /// Returns Unix milliseconds from a clock that never goes back.
    fn now(&self) -> i64 {
        self.began_at + i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX / 2)
    }

    /// Waits for the next event, without handling it.
    ///
    /// The wait can be cancelled at any point when another event comes first. The handling of an event must never be
    /// cancelled, so it is separate.
    async fn next(&mut self, asked: &mut mpsc::Receiver<PendingRequest>) -> LoopEvent {
        let deadline = self.processes.iter().filter_map(SupervisedProcess::next_deadline).min();
        let until = deadline.map(|at| {
            let wait = u64::try_from(at - self.began_at).unwrap_or(0);
            tokio::time::Instant::from_std(self.began + Duration::from_millis(wait))
        });
        let due = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Biased: a request to stop comes first, and ends of processes before deadlines and requests that depend on
            // them.
            biased;
            _ = self.signals.terminate.recv() => LoopEvent::Signal("SIGTERM"),
            _ = self.signals.interrupt.recv() => LoopEvent::Signal("SIGINT"),
            _ = self.signals.hang_up.recv() => LoopEvent::Signal("SIGHUP"),
            _ = self.signals.child.recv() => LoopEvent::ChildEnded,
            Some(message) = self.jobs.recv() => LoopEvent::JobDone(message),
            () = due => LoopEvent::Due,
            Some((request, answer)) = asked.recv() => LoopEvent::Asked(request, answer),
        }
    }

    /// Handles an event completely.
    async fn take(&mut self, event: LoopEvent) {
        let now = self.now();
        match event {
            LoopEvent::Signal(signal) => {
                self.journal.note(&format!("stopping: got {signal}"));
                self.stop();
            }
            LoopEvent::ChildEnded => {
                for process in &mut self.processes {
                    process.reap(now, &mut self.journal).await;
                }
            }
            LoopEvent::JobDone(message) => {
                if let Some(process) = self.processes.get_mut(message.process) {
                    process.on_job_done(message, now, &mut self.journal);
                }
            }
            LoopEvent::Due => {
                for process in &mut self.processes {
                    process.tick(now, &mut self.journal);
                }
            }
            LoopEvent::Asked(request, answer) => self.request(request, answer),
        }
    }

    fn stop(&mut self) {
        self.ending = true;
        self.all(&UnitEvent::Stop);
    }

    fn all(&mut self, event: &UnitEvent) {
        let now = self.now();
        for process in &mut self.processes {
            process.order(event.clone(), now, &mut self.journal);
        }
    }

    fn request(&mut self, request: ControlRequest, answer: oneshot::Sender<ControlReply>) {
        if self.ending && !matches!(request, ControlRequest::Status | ControlRequest::Stop) {
            // A client that has gone does not need the answer.
            let _ = answer
                .send(ControlReply { status: Some(self.status()), refused: Some(ControlRefusal::Stopping) });
            return;
        }
        match request {
            ControlRequest::Status => {
                let _ = answer.send(self.reply());
            }
            ControlRequest::WaitReady => self.ready_waiters.push(answer),
            ControlRequest::Start => {
                self.all(&UnitEvent::Start);
                self.ready_waiters.push(answer);
            }
            ControlRequest::Restart => {
                self.journal.note("restarting: a person asked for it");
                self.all(&UnitEvent::Restart);
                self.ready_waiters.push(answer);
            }
            ControlRequest::RestartUnit { unit } => {
                let now = self.now();
                self.journal.note(&format!("restarting {}: a person asked for it", unit.as_str()));
                for process in self.processes.iter_mut().filter(|process| process.name() == unit.as_str()) {
                    process.order(UnitEvent::Restart, now, &mut self.journal);
                }
                self.ready_waiters.push(answer);
            }
            ControlRequest::Look => {
                let now = self.now();
                for process in &mut self.processes {
                    process.look(now, &mut self.journal);
                }
                let _ = answer.send(self.reply());
            }
            ControlRequest::Stop => {
                self.journal.note("stopping: a person asked for it");
                self.end_waiters.push(answer);
                self.stop();
            }
        }
    }

    fn answer_waiters(&mut self) {
        if self.ready_waiters.is_empty() {
            return;
        }
        // A process that waits for an outside cause may do so for hours, so a client must not wait for it.
        let hopeless = |process: &SupervisedProcess| !process.is_hopeful() || process.waits();
        let settled = |one: &SupervisedProcess| hopeless(one) || one.state().standing() == UnitState::Healthy;
        // Nothing works without the gateway, so its failure answers at once. Optional processes do not delay the answer
        // about it.
        let lost = self.processes.iter().any(|process| !process.is_optional() && hopeless(process));
        if !lost && !self.processes.iter().filter(|process| process.counts()).all(settled) {
            return;
        }
        let reply = self.reply();
        for waiter in self.ready_waiters.drain(..) {
            let _ = waiter.send(reply.clone());
        }
    }

    /// Returns the failure that ends a supervisor in the foreground, if there is one.
    fn permanent_failure(&self) -> Option<SuperviseError> {
        let mut needed = self.processes.iter().filter(|process| self.foreground && !process.is_optional());
        needed.find_map(|process| match process.state().phase() {
            UnitPhase::Failed { kind } => Some(SuperviseError::Failed {
                name: process.status().name,
                kind: *kind,
                reason: process.state().reason().unwrap_or_default().to_owned(),
            }),
            _ => None,
        })
    }

    fn is_at_rest(&self) -> bool {
        self.processes.iter().all(SupervisedProcess::is_at_rest)
    }

    fn reply(&self) -> ControlReply {
        ControlReply { status: Some(self.status()), refused: None }
    }

    fn status(&self) -> SupervisorStatus {
        let counted = self.processes.iter().filter(|process| process.counts());
        SupervisorStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: ProcessId::current().pid,
            started_at: self.began_at / 1000,
            foreground: self.foreground,
            units: counted.map(SupervisedProcess::status).collect(),
        }
    }

    async fn finish(&mut self) {
        pid_file::clear(&self.home.pid_file(SUPERVISOR), ProcessId::current());
        self.journal.note("ended");
        let reply = self.reply();
        for waiter in self.end_waiters.drain(..).chain(self.ready_waiters.drain(..)) {
            let _ = waiter.send(reply.clone());
        }
        // The tasks of the connections write the answers, and need a turn on this thread first.
        tokio::task::yield_now().await;
    }
}
