//! The supervisor's loop.
//!
//! It takes signals, ends of processes, requests and deadlines one after the other, feeds them to the state machines
//! and carries out the resulting actions. It holds the supervisor's lock for its whole life.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::control::server::{Asked, Server};
use super::control::wire::Refusal;
use super::control::{Reply, Request, Status, place};
use super::journal::Journal;
use super::leftover;
use super::pid::{self, Record};
use super::restart::Limits;
use super::state::{Event, Phase, Standing};
use super::unit::Unit;
use super::ward::{News, Ward};
use super::{SUPERVISOR, SuperviseError};
use crate::clock;
use crate::error::Kind;
use crate::home::Home;
use crate::home::lock::Lock;
use crate::process::ProcessId;

/// The configuration of a supervisor.
pub struct Plan<'a> {
    pub home: Home,
    /// The processes that it runs.
    pub units: Vec<Arc<dyn Unit>>,
    pub limits: Limits,
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
pub async fn run(plan: Plan<'_>, lock: Lock, ready: impl FnOnce()) -> Result<(), SuperviseError> {
    let mut task = Task::begin(plan).await?;
    let (requests, mut asked) = mpsc::channel::<Asked>(64);
    let server = match task.listen(requests) {
        Ok(server) => server,
        Err(error) => {
            // Processes that run already must not continue without a supervisor that can be asked.
            task.stop();
            while !task.is_at_rest() {
                let happening = task.next(&mut mpsc::channel(1).1).await;
                task.take(happening).await;
            }
            return Err(error);
        }
    };
    ready();

    let mut failure = None;
    let ended = loop {
        let happening = task.next(&mut asked).await;
        task.take(happening).await;
        task.answer_waiters();
        if !task.ending
            && let Some(error) = task.lasting_failure()
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

struct Task<'a> {
    home: Home,
    wards: Vec<Ward>,
    journal: Journal<'a>,
    foreground: bool,
    began: Instant,
    began_at: i64,
    news: mpsc::Receiver<News>,
    signals: Signals,
    ready_waiters: Vec<oneshot::Sender<Reply>>,
    end_waiters: Vec<oneshot::Sender<Reply>>,
    ending: bool,
}

/// An event that the supervisor's loop waits for.
enum Happening {
    Signal(&'static str),
    ChildEnded,
    News(News),
    Due,
    Asked(Request, oneshot::Sender<Reply>),
}

struct Signals {
    child: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl<'a> Task<'a> {
    async fn begin(plan: Plan<'a>) -> Result<Self, SuperviseError> {
        let listen = |kind| signal(kind).map_err(SuperviseError::Signals);
        let signals = Signals {
            child: listen(SignalKind::child())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        };
        let (sender, news) = mpsc::channel(16);
        let Plan { home, units, limits, mut journal, foreground } = plan;
        let names: Vec<&str> = units.iter().map(|unit| unit.name()).collect();
        // Orphans of an earlier supervisor are ended before anything starts, so that nothing runs twice.
        leftover::end(&home, &names, &limits, &mut journal).await;
        let wards: Vec<Ward> = units
            .into_iter()
            .enumerate()
            .map(|(index, unit)| Ward::new(&home, unit, limits.clone(), index, sender.clone()))
            .collect();
        let mut task = Self {
            home,
            wards,
            journal,
            foreground,
            began: Instant::now(),
            began_at: clock::unix_ms(),
            news,
            signals,
            ready_waiters: Vec::new(),
            end_waiters: Vec::new(),
            ending: false,
        };
        task.all(&Event::Begin);
        Ok(task)
    }

    fn listen(&mut self, requests: mpsc::Sender<Asked>) -> Result<Server, SuperviseError> {
        let usual = place::usual(&self.home);
        let path = match &usual {
            Some(path) => path.clone(),
            None => place::elsewhere(&self.home).map_err(SuperviseError::NoPlace)?,
        };
        let server = Server::listen(&path, requests)
            .map_err(|source| SuperviseError::Listen { path: path.clone(), source })?;
        let socket = usual.is_none().then_some(path);
        let record = Record { process: ProcessId::current(), socket };
        pid::write(&self.home.pid_file(SUPERVISOR), &record)?;
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
    async fn next(&mut self, asked: &mut mpsc::Receiver<Asked>) -> Happening {
        let deadline = self.wards.iter().filter_map(Ward::next_deadline).min();
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
            _ = self.signals.terminate.recv() => Happening::Signal("SIGTERM"),
            _ = self.signals.interrupt.recv() => Happening::Signal("SIGINT"),
            _ = self.signals.hang_up.recv() => Happening::Signal("SIGHUP"),
            _ = self.signals.child.recv() => Happening::ChildEnded,
            Some(news) = self.news.recv() => Happening::News(news),
            () = due => Happening::Due,
            Some((request, answer)) = asked.recv() => Happening::Asked(request, answer),
        }
    }

    /// Handles an event completely.
    async fn take(&mut self, happening: Happening) {
        let now = self.now();
        match happening {
            Happening::Signal(signal) => self.signalled(signal),
            Happening::ChildEnded => {
                for ward in &mut self.wards {
                    ward.reap(now, &mut self.journal).await;
                }
            }
            Happening::News(news) => {
                if let Some(ward) = self.wards.get_mut(news.ward) {
                    ward.hear(news, now, &mut self.journal);
                }
            }
            Happening::Due => {
                for ward in &mut self.wards {
                    ward.tick(now, &mut self.journal);
                }
            }
            Happening::Asked(request, answer) => self.request(request, answer),
        }
    }

    fn signalled(&mut self, signal: &str) {
        self.journal.note(&format!("stopping: got {signal}"));
        self.stop();
    }

    fn stop(&mut self) {
        self.ending = true;
        self.all(&Event::Stop);
    }

    fn all(&mut self, event: &Event) {
        let now = self.now();
        for ward in &mut self.wards {
            ward.order(event.clone(), now, &mut self.journal);
        }
    }

    fn request(&mut self, request: Request, answer: oneshot::Sender<Reply>) {
        if self.ending && !matches!(request, Request::Status | Request::Stop) {
            // A client that has gone does not need the answer.
            let _ = answer.send(Reply { status: Some(self.status()), refused: Some(Refusal::Stopping) });
            return;
        }
        match request {
            Request::Status => {
                let _ = answer.send(self.reply());
            }
            Request::WaitReady => self.ready_waiters.push(answer),
            Request::Start => {
                self.all(&Event::Start);
                self.ready_waiters.push(answer);
            }
            Request::Restart => {
                self.journal.note("restarting: a person asked for it");
                self.all(&Event::Restart);
                self.ready_waiters.push(answer);
            }
            Request::RestartUnit { unit } => {
                let now = self.now();
                self.journal.note(&format!("restarting {}: a person asked for it", unit.as_str()));
                for ward in self.wards.iter_mut().filter(|ward| ward.name() == unit.as_str()) {
                    ward.order(Event::Restart, now, &mut self.journal);
                }
                self.ready_waiters.push(answer);
            }
            Request::Look => {
                let now = self.now();
                for ward in &mut self.wards {
                    ward.look(now, &mut self.journal);
                }
                let _ = answer.send(self.reply());
            }
            Request::Stop => {
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
        let hopeless = |ward: &Ward| !ward.is_hopeful() || ward.waits();
        let settled = |ward: &Ward| hopeless(ward) || ward.state().standing() == Standing::Healthy;
        // Nothing works without the gateway, so its failure answers at once. Optional processes do not delay the answer
        // about it.
        let lost = self.wards.iter().any(|ward| !ward.is_optional() && hopeless(ward));
        if !lost && !self.wards.iter().filter(|ward| ward.counts()).all(settled) {
            return;
        }
        let reply = self.reply();
        for waiter in self.ready_waiters.drain(..) {
            let _ = waiter.send(reply.clone());
        }
    }

    /// Returns the failure that ends a supervisor in the foreground, if there is one.
    fn lasting_failure(&self) -> Option<SuperviseError> {
        let mut needed = self.wards.iter().filter(|ward| self.foreground && !ward.is_optional());
        needed.find_map(|ward| match ward.state().phase() {
            Phase::Failed { kind } => Some(SuperviseError::Failed {
                name: ward.status().name,
                kind: *kind,
                reason: ward.state().reason().unwrap_or_default().to_owned(),
            }),
            _ => None,
        })
    }

    fn is_at_rest(&self) -> bool {
        self.wards.iter().all(Ward::is_at_rest)
    }

    fn reply(&self) -> Reply {
        Reply { status: Some(self.status()), refused: None }
    }

    fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: ProcessId::current().pid,
            started_at: self.began_at / 1000,
            foreground: self.foreground,
            units: self.wards.iter().filter(|ward| ward.counts()).map(Ward::status).collect(),
        }
    }

    async fn finish(&mut self) {
        pid::clear(&self.home.pid_file(SUPERVISOR), ProcessId::current());
        self.journal.note("ended");
        let reply = self.reply();
        for waiter in self.end_waiters.drain(..).chain(self.ready_waiters.drain(..)) {
            let _ = waiter.send(reply.clone());
        }
        // The tasks of the connections write the answers, and need a turn on this thread first.
        tokio::task::yield_now().await;
    }
}

/// Returns the kind of failure that a status reports, if a restart can't fix it.
#[must_use]
pub fn failure_kind(status: &Status) -> Option<Kind> {
    let code = status.units.iter().find_map(|unit| unit.failure.as_deref())?;
    Kind::ALL.into_iter().find(|kind| kind.code() == code)
}
