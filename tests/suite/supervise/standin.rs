//! The supervisor around a stand-in for the gateway that can be made to misbehave, with short limits.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flock::home::Home;
use flock::home::lock::Lock;
use flock::process::ProcessId;
use flock::supervise::child::ChildCommand;
use flock::supervise::control::{ControlConnection, ControlRequest, SupervisorStatus};
use flock::supervise::env_marker::EnvMarker;
use flock::supervise::halt::halt;
use flock::supervise::health::{Health, HealthCheckFailure};
use flock::supervise::journal::Journal;
use flock::supervise::restart::SupervisionLimits;
use flock::supervise::state::UnitState;
use flock::supervise::task::{SupervisorConfig, run};
use flock::supervise::unit::{StartError, Unit};
use flock::supervise::{SuperviseError, pid_file};
use futures_util::future::BoxFuture;

use super::LONG;
use crate::support::wait_until;

/// A shell script that is healthy when, and as long as, the file `healthy` is there.
struct Script {
    script: &'static str,
    dir: PathBuf,
    optional: bool,
}

impl Unit for Script {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn prepare(&self) -> BoxFuture<'static, Result<ChildCommand, StartError>> {
        let path = std::env::var_os("PATH").unwrap();
        Box::pin(std::future::ready(Ok(ChildCommand {
            file: "/bin/sh".into(),
            args: vec!["-c".into(), self.script.into()],
            env: vec![("PATH".into(), path), ("DIR".into(), OsString::from(&self.dir))],
        })))
    }

    fn port(&self) -> Option<u16> {
        None
    }

    fn check(&self, _process: ProcessId) -> BoxFuture<'static, Result<Health, HealthCheckFailure>> {
        let found = self.dir.join("healthy").exists();
        Box::pin(async move {
            let health = Health {
                reason: None,
                status: "ok".into(),
                version: "0".into(),
                instance: "i".into(),
                pid: 1,
                started_at: 0,
                proof: None,
            };
            found
                .then_some(health)
                .ok_or_else(|| HealthCheckFailure { reason: "not there".to_owned(), counts: true })
        })
    }

    fn is_optional(&self) -> bool {
        self.optional
    }

    /// Looks until the file `looked` is there, which it then takes away, and finds something new.
    fn is_outdated(&self) -> BoxFuture<'static, bool> {
        let dir = self.dir.clone();
        Box::pin(async move {
            let looking = dir.join("looking");
            std::fs::write(&looking, std::fs::read_to_string(&looking).unwrap_or_default() + "\n").unwrap();
            while std::fs::remove_file(dir.join("looked")).is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            true
        })
    }
}

struct Stage {
    dir: tempfile::TempDir,
    home: Home,
}

fn limits() -> SupervisionLimits {
    SupervisionLimits { start: 20_000, backoff: 5, grace: 200, crashes: 4, ..SupervisionLimits::default() }
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap().join("home"), None);
        home.make_folders().unwrap();
        Self { dir, home }
    }

    fn has(&self, file: &str) -> bool {
        self.dir.path().join(file).exists()
    }

    fn pid_in(&self, file: &str) -> ProcessId {
        wait_until(file, LONG, || {
            let text = std::fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
            let pid = text.trim().parse().map_err(|_| format!("{file}: {text:?}"))?;
            ProcessId::of(pid).ok_or_else(|| format!("{pid} does not live"))
        })
    }

    /// A supervisor of this script on a thread of its own.
    fn supervise(
        &self,
        script: &'static str,
        foreground: bool,
    ) -> std::thread::JoinHandle<Result<(), SuperviseError>> {
        self.supervised(Script { script, dir: self.dir.path().to_owned(), optional: false }, foreground)
    }

    fn supervised(
        &self,
        script: Script,
        foreground: bool,
    ) -> std::thread::JoinHandle<Result<(), SuperviseError>> {
        let home = self.home.clone();
        let lock = Lock::acquire(&home.supervisor_lock(), LONG).unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let plan = SupervisorConfig {
                units: vec![Arc::new(script)],
                limits: limits(),
                journal: Journal::new(&home, None),
                foreground,
                home,
            };
            runtime.block_on(run(plan, lock, || {}))
        })
    }

    fn ask(&self, request: ControlRequest) -> SupervisorStatus {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let end = std::time::Instant::now() + LONG;
            let mut connection = loop {
                match ControlConnection::open(&self.home).await {
                    Ok(connection) => break connection,
                    Err(error) if std::time::Instant::now() > end => panic!("{error}"),
                    Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            };
            connection.ask(request, LONG).await.unwrap().status.unwrap()
        })
    }

    fn halt(&self) -> flock::supervise::halt::HaltResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(halt(&self.home, &limits())).unwrap()
    }

    fn bearers(&self) -> Vec<ProcessId> {
        EnvMarker::new(&self.home, "gateway").bearers()
    }
}

/// One at a time: these supervisors are threads of one process, and each starts and reaps children of its own.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Deaf to the request to stop, with a child in its group and one that has left it.
const STUBBORN: &str = "trap '' TERM; sleep 10000 & echo $! >$DIR/child; \
    setsid sleep 10000 & echo $$ >$DIR/leader; touch $DIR/healthy; while :; do wait; done";

#[test]
fn a_stop_ends_the_whole_group_also_of_who_does_not_want_to() {
    let _alone = alone();
    let stage = Stage::new();
    let supervisor = stage.supervise(STUBBORN, false);
    assert_eq!(stage.ask(ControlRequest::WaitReady).units[0].state, UnitState::Healthy);
    let (leader, child) = (stage.pid_in("leader"), stage.pid_in("child"));
    assert!(pid_file::read(&stage.home.pid_file("gateway")).is_some_and(|record| record.process == leader));
    let halted = stage.halt();
    assert!(halted.survivors.is_empty() && halted.orderly && halted.lock.is_some(), "{halted:?}");
    assert!(!leader.is_alive() && !child.is_alive());
    assert_eq!(stage.bearers(), [], "also not who has left the group");
    supervisor.join().unwrap().unwrap();
}

#[test]
fn what_a_dead_supervisor_left_is_ended_before_anything_starts() {
    let _alone = alone();
    let stage = Stage::new();
    // As if its supervisor had been killed, but without a tether that ends it.
    let mark = EnvMarker::new(&stage.home, "gateway");
    let (name, value) = mark.variable();
    let mut old = std::process::Command::new("/bin/sh")
        .args(["-c", STUBBORN])
        .env(name, value)
        .env("DIR", stage.dir.path())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (leader, child) = (stage.pid_in("leader"), stage.pid_in("child"));
    pid_file::write(&stage.home.pid_file("gateway"), &pid_file::PidRecord { process: leader, socket: None })
        .unwrap();
    let reaper = std::thread::spawn(move || old.wait());

    let supervisor = stage.supervise("touch $DIR/new; cat", false);
    let status = stage.ask(ControlRequest::WaitReady);
    assert_eq!(status.units[0].state, UnitState::Healthy);
    assert!(!leader.is_alive() && !child.is_alive());
    // `healthy` lies there since the old one, so the new one counts as healthy before its first line has run.
    wait_until("the new one", LONG, || stage.has("new").then_some(()).ok_or("not there".to_owned()));
    let halted = stage.halt();
    assert!(halted.survivors.is_empty(), "{halted:?}");
    supervisor.join().unwrap().unwrap();
    reaper.join().unwrap().unwrap();
}

#[test]
fn a_halt_without_a_supervisor_ends_what_is_left() {
    let _alone = alone();
    let stage = Stage::new();
    let (name, value) = EnvMarker::new(&stage.home, "gateway").variable();
    let mut old = std::process::Command::new("/bin/sh")
        .args(["-c", STUBBORN])
        .env(name, value)
        .env("DIR", stage.dir.path())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let leader = stage.pid_in("leader");
    pid_file::write(&stage.home.pid_file("gateway"), &pid_file::PidRecord { process: leader, socket: None })
        .unwrap();
    let reaper = std::thread::spawn(move || old.wait());
    let halted = stage.halt();
    assert!(halted.was_running && !halted.orderly && halted.survivors.is_empty(), "{halted:?}");
    assert_eq!(stage.bearers(), []);
    assert!(!stage.home.pid_file("gateway").exists());
    reaper.join().unwrap().unwrap();
    drop(halted);
    assert!(!stage.halt().was_running, "a second one finds nothing");
}

#[test]
fn an_end_that_would_come_again_is_not_repeated() {
    let _alone = alone();
    let script = "echo >>$DIR/runs; echo 'error: port 3779 is taken' >&2; exit 5";
    let stage = Stage::new();
    let supervisor = stage.supervise(script, false);
    let status = stage.ask(ControlRequest::WaitReady);
    let unit = &status.units[0];
    assert_eq!((unit.state, unit.failure.as_deref()), (UnitState::Failed, Some("conflict")));
    assert!(unit.reason.as_deref().unwrap().contains("port 3779 is taken"), "{unit:?}");
    assert_eq!(std::fs::read_to_string(stage.dir.path().join("runs")).unwrap().lines().count(), 1);
    stage.halt();
    supervisor.join().unwrap().unwrap();

    let error = Stage::new().supervise(script, true).join().unwrap().unwrap_err();
    assert!(error.to_string().contains("port 3779 is taken"), "{error}");
}

#[test]
fn questions_do_not_keep_an_end_from_being_noticed() {
    let _alone = alone();
    let stage = Stage::new();
    // What it leaves holds its output open, so its last words are waited for; meanwhile it is asked for.
    let script = "echo >>$DIR/runs; setsid sleep 10000 & until [ -e $DIR/go ]; do sleep 0.01; done; exit 5";
    let supervisor = stage.supervise(script, false);
    assert_eq!(stage.ask(ControlRequest::Status).units[0].state, UnitState::Starting);
    std::fs::write(stage.dir.path().join("go"), "").unwrap();
    wait_until("its end to be noticed", LONG, || {
        let unit = stage.ask(ControlRequest::Status).units.remove(0);
        if unit.state == UnitState::Failed { Ok(()) } else { Err(format!("{unit:?}")) }
    });
    assert_eq!(std::fs::read_to_string(stage.dir.path().join("runs")).unwrap().lines().count(), 1);
    assert!(stage.halt().survivors.is_empty());
    supervisor.join().unwrap().unwrap();
}

#[test]
fn a_look_that_takes_long_keeps_nobody_waiting_but_who_wants_to_know_what_it_finds() {
    let _alone = alone();
    let stage = Stage::new();
    let script = "[ -e $DIR/mended ] || exit 5; touch $DIR/healthy; cat";
    let dir = stage.dir.path().to_owned();
    let supervisor = stage.supervised(Script { script, dir, optional: true }, false);
    assert_eq!(stage.ask(ControlRequest::WaitReady).units[0].state, UnitState::Failed);
    for _ in 0..2 {
        assert_eq!(stage.ask(ControlRequest::Look).units[0].state, UnitState::Failed);
    }
    assert_eq!(stage.ask(ControlRequest::Status).units[0].state, UnitState::Failed);
    let write = |file: &str| std::fs::write(stage.dir.path().join(file), "").unwrap();
    wait_until("it looks", LONG, || stage.has("looking").then_some(()).ok_or(String::new()));
    write("mended");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| stage.ask(ControlRequest::WaitReady).units.remove(0).state);
        assert_eq!(stage.ask(ControlRequest::Status).units[0].state, UnitState::Failed);
        let looks = std::fs::read_to_string(stage.dir.path().join("looking")).unwrap();
        assert_eq!(looks, "\n", "one at a time");
        write("looked");
        assert_eq!(waiting.join().unwrap(), UnitState::Healthy);
    });
    stage.halt();
    supervisor.join().unwrap().unwrap();
}

#[test]
fn a_crash_loop_stops_after_the_limit() {
    let _alone = alone();
    let stage = Stage::new();
    let supervisor =
        stage.supervise("echo >>$DIR/runs; echo 'thread main panicked at x' >&2; exit 70", false);
    let status = stage.ask(ControlRequest::WaitReady);
    let unit = &status.units[0];
    assert_eq!(unit.state, UnitState::BreakerOpen);
    assert!(unit.reason.as_deref().unwrap().contains("panicked at x"), "{unit:?}");
    let runs = || std::fs::read_to_string(stage.dir.path().join("runs")).unwrap().lines().count();
    assert_eq!(runs(), limits().crashes);
    // Asked again by a person it tries again, as often.
    assert_eq!(stage.ask(ControlRequest::Start).units[0].state, UnitState::BreakerOpen);
    assert_eq!(runs(), 2 * limits().crashes);
    stage.halt();
    supervisor.join().unwrap().unwrap();
    assert!(stage.home.breaker("gateway").exists());
}

#[test]
fn a_flood_of_output_is_bounded_and_blocks_nobody() {
    let _alone = alone();
    let stage = Stage::new();
    let script = "head -c 100000000 /dev/zero | tr '\\0' 'x'; yes | head -n 2000000; \
        echo the end; touch $DIR/healthy; cat";
    let supervisor = stage.supervise(script, false);
    assert_eq!(stage.ask(ControlRequest::WaitReady).units[0].state, UnitState::Healthy);
    let size: u64 = flock::home::log::files(&stage.home.log("gateway"))
        .iter()
        .map(|path| std::fs::metadata(path).unwrap().len())
        .sum();
    assert!(size < 50 << 20, "{size}");
    stage.halt();
    supervisor.join().unwrap().unwrap();
}
