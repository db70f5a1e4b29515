//! Tries a version before it is put in use. It is started on another port, with a copy of its configuration and of the
//! state, and has to answer. It gets no key, no engine, and no access to flock's gateway, so that nothing it does has
//! an effect outside of the trial. It ends with flock, however flock ends.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::libc;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::check::OpenClawProgram;
use super::copy::{CopyMode, copy};
use super::derive::DerivedConfig;
use super::plugin::ID;
use super::probe::{self, Depth, ProbeError};
use super::process::{self, Folders};
use super::{FailureCause, OpenClawError, port, state};
use crate::error::{Kind, chain};
use crate::home::log::{Log, RotationLimits};
use crate::home::{Home, HomeError, atomic};
use crate::id::hex;
use crate::install::{InstalledVersion, LOG, step};
use crate::supervise::child::{self, Child};
use crate::supervise::env_marker::EnvMarker;
use crate::supervise::journal::Journal;
use crate::supervise::orphans;
use crate::supervise::pid_file;
use crate::supervise::state::Exit;
use crate::supervise::unit::OPENCLAW;

/// The inputs of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial<'a> {
    pub version: &'a InstalledVersion,
    /// The configuration to start it with.
    pub derived: &'a DerivedConfig,
    /// The state that it gets a copy of. It starts on an empty state instead if this is `None`, in use by a running
    /// OpenClaw, or too large.
    pub state: Option<&'a Path>,
    /// The port of flock's own gateway, which the trial must not take.
    pub gateway: u16,
    /// Time limit from the start to the first answer.
    pub limit: Duration,
}

/// Starts the version, asks until it answers, and ends it. Removes everything that the trial made.
///
/// # Errors
///
/// Returns [`OpenClawError::Untried`] with the likely cause if the version ends or does not answer in time. Other
/// errors are not the version's fault.
pub(crate) async fn run(home: &Home, trial: &Trial<'_>) -> Result<(), OpenClawError> {
    // An interrupted trial ended with the flock that started it, except for processes that left its group.
    clear(home).await?;
    let tried = start(home, trial).await;
    clear(home).await?;
    tried
}

async fn start(home: &Home, trial: &Trial<'_>) -> Result<(), OpenClawError> {
    let root = folder(home);
    let (config, own) = (root.join("openclaw.json"), root.join("state"));
    state::make(&root)?;
    match trial.state.filter(|from| is_at_rest(home, from) && state::is_copyable(home, from)) {
        Some(from) => {
            let extent = CopyMode::Alone { live: &home.openclaw_state() };
            copy(from, &own, extent, &CancellationToken::new())?;
        }
        None => state::make(&own)?,
    }
    let mut tries = MAX_PORTS;
    loop {
        let port = port::for_trial(trial.gateway).ok_or(OpenClawError::NoPort)?;
        let (document, workspaces) = isolate_config(&trial.derived.document, port, &root);
        workspaces.iter().try_for_each(|folder| state::make(folder))?;
        atomic::write(&config, &serde_json::to_vec(&document).unwrap_or_default(), 0o600)?;
        let wrong = match run_once(home, trial, Folders { config: &config, state: &own }, port).await {
            Ok(()) => return Ok(()),
            Err(wrong) => wrong,
        };
        tries -= 1;
        // Another program took the port after it was found to be free.
        if tries == 0 || !wrong.is_taken {
            let TrialFailure { reason, blame, .. } = wrong;
            return Err(OpenClawError::Untried { reason, log: home.log(LOG), blame });
        }
    }
}

/// Returns `true` if the state exists and no OpenClaw runs on it. A running one has its databases open, so a copy could
/// be inconsistent. Newer versions also record in the databases who has them open, and refuse to start on a copy.
fn is_at_rest(home: &Home, state: &Path) -> bool {
    let is_used = state == home.openclaw_state() && pid_file::read(&home.pid_file(OPENCLAW)).is_some();
    state.is_dir() && !is_used
}

/// The reason why a version failed a trial.
struct TrialFailure {
    reason: String,
    blame: FailureCause,
    /// `true` if another program holds a resource that it needs.
    is_taken: bool,
}

impl TrialFailure {
    /// Creates a failure that is the machine's fault.
    const fn machine(reason: String) -> Self {
        Self { reason, blame: FailureCause::Machine, is_taken: false }
    }

    /// Creates the failure of a version that ended before it answered.
    fn ended(exit: Exit, said: Option<&str>) -> Self {
        let is_taken = (process::EXIT_REASONS.lasting)(exit, said) == Some(Kind::Conflict);
        let blame = match exit {
            _ if is_taken => FailureCause::Machine,
            // The kernel kills with this signal when memory runs out.
            Exit::Signal(libc::SIGKILL) => FailureCause::Either,
            _ => FailureCause::Version,
        };
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        Self { reason: format!("{exit}{said}"), blame, is_taken }
    }
}

async fn run_once(
    home: &Home,
    trial: &Trial<'_>,
    folders: Folders<'_>,
    port: u16,
) -> Result<(), TrialFailure> {
    let token = hex(&rand::random::<[u8; 32]>());
    let program = program(trial, folders, &token);
    let mut log = Log::new(home.log(LOG), RotationLimits::default());
    // Not being able to write the log is no reason to reject a version.
    let _ = log.append(format!("$ node openclaw.mjs gateway run (a trial, port {port})\n").as_bytes());
    let mut child = Child::spawn(&program, &mark(home), log)
        .map_err(|error| TrialFailure::machine(format!("it can't be started: {error}")))?;
    let asked = ask(&mut child, port, &token, trial.limit).await;
    child.kill();
    while matches!(child.ended(), Ok(None)) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    asked
}

/// Asks until the version answers, ends, or exceeds the time limit.
async fn ask(child: &mut Child, port: u16, token: &str, limit: Duration) -> Result<(), TrialFailure> {
    let end = Instant::now() + limit;
    loop {
        if let Some(exit) = child.ended().map_err(|error| TrialFailure::machine(error.to_string()))? {
            let said = child.last_words(process::EXIT_REASONS.tells).await;
            return Err(TrialFailure::ended(exit, said.as_deref()));
        }
        // Even the last question gets at least a second, so that a slow answer is not cut off at once.
        let left = end.saturating_duration_since(Instant::now()).clamp(MIN_ANSWER_TIME, MAX_ANSWER_TIME);
        let Err(error) = probe::ask(port, token, child.id(), Depth::Proof, left).await else { return Ok(()) };
        if Instant::now() >= end {
            let reason = format!("it was not ready within {} seconds: {}", limit.as_secs(), chain(&error));
            // A wrong answer is not a matter of speed, so it is the version's fault alone.
            let blame = if matches!(error, ProbeError::Impostor { .. }) {
                FailureCause::Version
            } else {
                FailureCause::Either
            };
            return Err(TrialFailure { reason, blame, is_taken: false });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the command of the trial, without keys and engine, in a process group that ends with flock.
fn program(trial: &Trial<'_>, folders: Folders<'_>, token: &str) -> child::ChildCommand {
    let secrets = process::placeholder_environment(token, &trial.derived.keys);
    let program = process::program(&OpenClawProgram::from(trial.version), folders, &secrets);
    let mut env = program.env;
    env.retain(|(name, _)| name != "DOCKER_HOST" && name != "XDG_RUNTIME_DIR");
    // The copied state may name containers of the running gateway. An address that leads nowhere keeps the trial away
    // from them.
    env.push(("DOCKER_HOST".into(), format!("unix://{}", folders.state.join("no-engine").display()).into()));
    let (file, args) = step::watched(program.file, program.args);
    child::ChildCommand { file, args, env }
}

async fn clear(home: &Home) -> Result<(), HomeError> {
    orphans::sweep(&mark(home), &mut Journal::new(home, None)).await;
    state::remove(&folder(home))
}

fn folder(home: &Home) -> PathBuf {
    home.openclaw_versions().join(".trial")
}

fn mark(home: &Home) -> EnvMarker {
    EnvMarker::new(home, "openclaw-trial")
}

/// Returns a copy of the configuration for the trial, and the workspace folders in it. It has another port, its plugin
/// can't reach flock's gateway, and it writes only into the trial's folder.
fn isolate_config(document: &Value, port: u16, root: &Path) -> (Value, Vec<PathBuf>) {
    let mut document = document.clone();
    document["gateway"]["port"] = port.into();
    document["logging"]["file"] = json!(root.join("openclaw.log"));
    if let Some(settings) = document.pointer_mut(&format!("/plugins/entries/{ID}/config")) {
        settings["gateway"] = "http://127.0.0.1:1".into();
        settings["tokenFile"] = json!(root.join("no-token"));
    }
    let mut folders = Vec::new();
    if let Some(Value::Object(agents)) = document.get_mut("agents") {
        for (key, value) in agents {
            let all: Vec<&mut Value> = match value {
                Value::Array(list) => list.iter_mut().collect(),
                Value::Object(entries) if key == "entries" => entries.values_mut().collect(),
                one => vec![one],
            };
            for place in all.into_iter().filter_map(|one| one.get_mut("workspace")) {
                let folder = root.join("workspaces").join(folders.len().to_string());
                *place = json!(folder);
                folders.push(folder);
            }
        }
    }
    (document, folders)
}

/// Number of ports that are tried.
const MAX_PORTS: u32 = 3;
/// Time between two questions.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum time for an answer.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Maximum time for an answer. A starting version does much work on one thread.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::super::derive::TOKEN_VARIABLE;
    use super::*;

    #[test]
    fn the_isolated_config_only_changes_outside_references() {
        let document = json!({
            "gateway": {"port": 3790, "mode": "local"},
            "logging": {"file": "/home/openclaw.log", "level": "warn"},
            "plugins": {"entries": {ID: {"config": {"gateway": "http://127.0.0.1:3779", "tokenFile": "/s", "tools": {}}}}},
            "agents": {
                "defaults": {"workspace": "/live", "skipBootstrap": true},
                "entries": {"coder": {"workspace": "/live/coder", "name": "C"}, "tester": {"name": "T"}},
                "list": [{"id": "coder", "workspace": "/live/coder"}, {"id": "writer", "workspace": "/live/writer"}],
            },
        });
        let (copy, folders) = isolate_config(&document, 4000, Path::new("/trial"));
        assert_eq!(folders.len(), 4);
        assert_eq!(
            copy,
            json!({
                "gateway": {"port": 4000, "mode": "local"},
                "logging": {"file": "/trial/openclaw.log", "level": "warn"},
                "plugins": {"entries": {ID: {"config": {
                    "gateway": "http://127.0.0.1:1", "tokenFile": "/trial/no-token", "tools": {},
                }}}},
                "agents": {
                    "defaults": {"workspace": "/trial/workspaces/0", "skipBootstrap": true},
                    "entries": {"coder": {"workspace": "/trial/workspaces/1", "name": "C"}, "tester": {"name": "T"}},
                    "list": [
                        {"id": "coder", "workspace": "/trial/workspaces/2"},
                        {"id": "writer", "workspace": "/trial/workspaces/3"},
                    ],
                },
            })
        );
        assert_eq!(isolate_config(&json!({}), 1, Path::new("/t")).0["plugins"], json!(null));
    }

    #[test]
    fn the_cause_of_a_failure_is_derived_from_its_exit() {
        for (exit, said, blame) in [
            (Exit::Code(3), Some("TypeError: x is not a function"), FailureCause::Version),
            (Exit::Code(78), None, FailureCause::Version),
            (Exit::Signal(libc::SIGSEGV), None, FailureCause::Version),
            (Exit::Signal(libc::SIGKILL), None, FailureCause::Either),
            (Exit::Code(1), Some("Error: listen EADDRINUSE: 127.0.0.1:3790"), FailureCause::Machine),
        ] {
            assert_eq!(TrialFailure::ended(exit, said).blame, blame, "{exit} {said:?}");
        }
    }

    #[test]
    fn a_state_in_use_is_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        let (state, left) = (home.openclaw_state(), home.openclaw_versions().join("left"));
        assert!(!is_at_rest(&home, &state));
        fs_err::create_dir_all(&state).unwrap();
        fs_err::create_dir_all(&left).unwrap();
        assert!(is_at_rest(&home, &state));
        let myself = pid_file::PidRecord { process: crate::process::ProcessId::current(), socket: None };
        fs_err::create_dir_all(home.pid_file(OPENCLAW).parent().unwrap()).unwrap();
        pid_file::write(&home.pid_file(OPENCLAW), &myself).unwrap();
        assert!(!is_at_rest(&home, &state) && is_at_rest(&home, &left));
    }

    #[test]
    fn a_trial_gets_no_key_and_no_engine() {
        let version: InstalledVersion = serde_json::from_value(json!({
            "version": "2026.9.6", "commit": "0".repeat(40), "reference": "main", "follows": true, "origin": "/o",
            "committedAt": 1, "builtAt": 1, "node": "/n/bin/node", "nodeVersion": "24.0.0",
        }))
        .unwrap();
        let key = super::super::derive::ProviderKey {
            provider: "lab".to_owned(),
            variable: "FLOCK_PROVIDER_KEY_LAB".to_owned(),
            needed: true,
        };
        let derived = DerivedConfig { document: json!({}), keys: vec![key], dropped: Vec::new() };
        let limit = Duration::from_secs(1);
        let trial = Trial { version: &version, derived: &derived, state: None, gateway: 1, limit };
        let folders = Folders { config: Path::new("/t/openclaw.json"), state: Path::new("/t/state") };
        let program = program(&trial, folders, "a-token");
        let value = |name: &str| {
            let mut found = program.env.iter().filter(|(known, _)| known == name);
            let value = found.next().map(|(_, value)| value.to_str().unwrap());
            assert!(found.next().is_none(), "{name} is there twice");
            value
        };
        assert_eq!(value("DOCKER_HOST"), Some("unix:///t/state/no-engine"));
        assert_eq!(value("FLOCK_PROVIDER_KEY_LAB"), Some("not-the-key"));
        assert_eq!(value(TOKEN_VARIABLE), Some("a-token"));
        assert_eq!(value("XDG_RUNTIME_DIR"), None);
        assert_eq!(program.file, Path::new("/bin/sh"));
    }
}
