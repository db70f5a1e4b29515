//! Checks that an engine can hold sandboxes: its kind, its limits, its filter of system calls, its runtimes, and a sandbox that
//! is made in it, compared with its specification and probed from inside.

use std::sync::Arc;

use bollard::models::SystemInfo;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, EngineSettings};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::home::{elsewhere, remove_tree};
use crate::sandbox::docker::DockerSandbox;
use crate::sandbox::engine::{Engine, Versions};
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::podman;
use crate::sandbox::workspace_volume;
use crate::sandbox::{Command, CommandExit, Sandbox as _, SandboxError};

/// A property that an engine must have, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EngineCheck {
    pub name: &'static str,
    pub ok: bool,
    pub message: String,
    /// The command or the change that mends it.
    pub hint: Option<String>,
}

impl EngineCheck {
    pub(crate) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, ok: true, message: message.into(), hint: None }
    }

    pub(crate) fn bad(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, ok: false, message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn failed(name: &'static str, error: &SandboxError, fallback: &str) -> Self {
        // An engine that is not in the configuration yet has no command of flock that tells more about it.
        let hint = match error {
            error if error.way_hint().is_some() => error.way_hint().unwrap_or_default(),
            SandboxError::Unavailable { .. } => "start it, and look at its log".to_owned(),
            SandboxError::Denied { .. } => "let this user open the engine's socket".to_owned(),
            error => {
                error.hint().filter(|hint| hint != "flock doctor").unwrap_or_else(|| fallback.to_owned())
            }
        };
        Self::bad(name, chain(error), hint)
    }
}

/// Checks an engine. The first check that fails ends the run, because the others need what it lacks.
///
/// `others` are the engines that the home has already.
pub(crate) async fn run(
    home: &Home,
    config: &Config,
    settings: &EngineSettings,
    engine: &Arc<Engine>,
    others: &[Arc<Engine>],
) -> Vec<EngineCheck> {
    let mut checks = Vec::new();
    let is_good = |checks: &[EngineCheck]| checks.iter().all(|check| check.ok);
    let Some((versions, info)) = reached(engine, &mut checks).await else { return checks };
    if !is_good(&checks) {
        return checks;
    }
    checks.push(limits(&info));
    checks.push(seccomp(&info));
    checks.push(runtime(&info, settings, versions.is_podman));
    checks.extend(twin(&info, others).await);
    if !is_good(&checks) {
        return checks;
    }
    checks.push(image(home, config, engine).await);
    if is_good(&checks) {
        checks.push(Box::pin(walls(home, config, settings, engine)).await);
    }
    checks
}

async fn reached(engine: &Engine, checks: &mut Vec<EngineCheck>) -> Option<(Versions, SystemInfo)> {
    const NAME: &str = "engine";
    // An engine that is stopped or frozen shows here, within seconds.
    let asked = async {
        engine.first_ping().await?;
        let (versions, info) = tokio::try_join!(engine.version(), engine.describe())?;
        let refused = kind(engine, &versions);
        let info = match versions.is_podman && refused.is_none() {
            true => Box::pin(podman::corrected(engine, info)).await?,
            false => info,
        };
        Ok::<_, SandboxError>((versions, info, refused))
    };
    match asked.await {
        Ok((versions, info, refused)) => {
            let runc = versions.runc.as_ref().map_or(String::new(), |version| format!(", runc {version}"));
            let name = if versions.is_podman { "Podman " } else { "" };
            let text = format!("{name}version {}, API {}{runc}", versions.engine, versions.api);
            checks.push(EngineCheck::ok(NAME, text));
            checks.extend(refused);
            Some((versions, info))
        }
        Err(error) => {
            checks.push(EngineCheck::failed(NAME, &error, "look at its log"));
            None
        }
    }
}

/// Returns the refusal of Podman on another machine, or of one without the interface by which flock makes containers. Podman
/// takes the filter of system calls only as a file of its machine, and what a runtime was given is in a file there, too.
pub(crate) fn kind(engine: &Engine, versions: &Versions) -> Option<EngineCheck> {
    if !versions.is_podman {
        return None;
    }
    if engine.is_remote() {
        let text =
            "it is Podman on another machine, which takes the filter of system calls only as a file there";
        let hint = "run Podman on this machine and give its socket, or the address of a Docker engine";
        return Some(EngineCheck::bad("kind", text, hint));
    }
    let major: u32 = versions.engine.split('.').next().and_then(|part| part.parse().ok()).unwrap_or_default();
    (major < podman::OLDEST).then(|| {
        let text = format!("it is Podman {}, which is too old", versions.engine);
        EngineCheck::bad("kind", text, format!("install Podman {} or later", podman::OLDEST))
    })
}

/// Checks that the kernel lets the engine limit what a sandbox uses.
fn limits(info: &SystemInfo) -> EngineCheck {
    const NAME: &str = "limits";
    let version = info.cgroup_version.map(|version| version.to_string()).unwrap_or_default();
    let is_rootless = has_option(info, "rootless");
    if is_rootless && version != "2" {
        let text = "a rootless engine can limit nothing without control groups of version 2";
        return EngineCheck::bad(
            NAME,
            text,
            "boot with systemd.unified_cgroup_hierarchy=1, or use an engine of root",
        );
    }
    let limits =
        [("memory", info.memory_limit), ("processors", info.cpu_cfs_quota), ("processes", info.pids_limit)];
    let missing: Vec<&str> =
        limits.iter().filter(|(_, has)| *has != Some(true)).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return EngineCheck::ok(
            NAME,
            format!("memory, processors and processes (control groups of version {version})"),
        );
    }
    let text = format!("it can't limit {}", missing.join(", "));
    let hint = if is_rootless {
        "give the user these controllers: sudo systemctl edit user@.service, with Delegate=cpu memory pids"
    } else {
        "give the engine these controllers of the control groups"
    };
    EngineCheck::bad(NAME, text, hint)
}

fn seccomp(info: &SystemInfo) -> EngineCheck {
    const NAME: &str = "seccomp";
    if has_option(info, "seccomp") {
        return EngineCheck::ok(NAME, "it filters system calls");
    }
    EngineCheck::bad(NAME, "it can't filter system calls", "install an engine that is built with seccomp")
}

/// Returns `true` if the engine names a security option, as in `name=seccomp,profile=default`.
fn has_option(info: &SystemInfo, wanted: &str) -> bool {
    let options = info.security_options.iter().flatten();
    let name = |option: &str| {
        let first = option.split(',').next().unwrap_or_default();
        first.strip_prefix("name=").unwrap_or(first).to_owned()
    };
    options.map(|option| name(option)).any(|name| name == wanted)
}

fn runtime(info: &SystemInfo, settings: &EngineSettings, is_podman: bool) -> EngineCheck {
    const NAME: &str = "runtime";
    let Some(wanted) = &settings.runtime else {
        let default = info.default_runtime.as_deref().unwrap_or("the engine's default");
        return EngineCheck::ok(NAME, default);
    };
    if is_podman && info.default_runtime.as_ref() != Some(wanted) {
        // It lists others, but has no way to choose one for a container.
        let only = info.default_runtime.as_deref().unwrap_or("its default");
        let text = format!("a service of Podman has one runtime for all containers, which is {only}");
        return EngineCheck::bad(
            NAME,
            text,
            format!("start the service with podman --runtime {wanted} system service"),
        );
    }
    let mut known: Vec<&str> = info.runtimes.iter().flatten().map(|(name, _)| name.as_str()).collect();
    known.sort_unstable();
    // A name of containerd's own kind need not be registered.
    if known.contains(&wanted.as_str()) || wanted.starts_with("io.containerd.") {
        return EngineCheck::ok(NAME, wanted);
    }
    let text = format!("it has no runtime {wanted:?}; it has {}", known.join(", "));
    EngineCheck::bad(
        NAME,
        text,
        format!("register {wanted} in the engine's daemon.json and restart the engine"),
    )
}

/// Finds the same engine among those that the home has already. Its containers would have two names.
async fn twin(info: &SystemInfo, others: &[Arc<Engine>]) -> Option<EngineCheck> {
    // Engines of Docker before version 23 on one machine have one id, from a key of the machine. Their folders differ.
    let identity = |info: &SystemInfo| Some((info.id.clone()?, info.docker_root_dir.clone()?));
    let own = identity(info)?;
    let own = &own;
    let asked = others.iter().map(|other| async move {
        // One that does not answer can't be compared.
        other.ping().await.ok()?;
        let found = other.describe().await.ok()?;
        (identity(&found).as_ref() == Some(own)).then(|| other.endpoint().to_owned())
    });
    let same = futures_util::future::join_all(asked).await.into_iter().flatten().next()?;
    let text = format!("it is the engine at {same}, which this home has already");
    Some(EngineCheck::bad("identity", text, "flock engine list"))
}

async fn image(home: &Home, config: &Config, engine: &Engine) -> EngineCheck {
    const NAME: &str = "image";
    let reference = image::reference(home, config, Recipe::Sandbox);
    match image::id(engine, &reference).await {
        Ok(Some(_)) => EngineCheck::ok(NAME, reference),
        Ok(None) => EngineCheck::bad(NAME, format!("{reference} is not there"), "flock init"),
        Err(error) => EngineCheck::failed(NAME, &error, "look at the engine's log"),
    }
}

/// Removes the volume of a trial on another machine.
async fn forget_volume(home: &Home, engine: &Engine, workspace: &std::path::Path, settings: &EngineSettings) {
    let Some(mark) = elsewhere::read(workspace) else { return };
    if let Err(error) = workspace_volume::remove(engine, home, &mark).await {
        tracing::warn!(engine = %settings.name, error = chain(&error), "the trial's volume may still exist");
    }
}

/// Makes a sandbox in the engine, compares and probes it, and has it read a file of this machine. The sandbox is removed.
async fn walls(home: &Home, config: &Config, settings: &EngineSettings, engine: &Arc<Engine>) -> EngineCheck {
    const NAME: &str = "walls";
    let agent = settings.trial(home);
    let (id, folder) = (agent.id.clone(), home.engine_trial(&settings.name));
    let workspace = agent.workspace.clone();
    let mark = crate::id::hex(&rand::random::<[u8; 16]>());
    // One that was interrupted may have left something.
    forget_volume(home, engine, &workspace, settings).await;
    let _ = remove_tree::clear(&home.engine_trials(), std::path::Path::new(settings.name.as_str()));
    if let Err(source) = fs_err::create_dir_all(&agent.workspace)
        .and_then(|()| fs_err::write(agent.workspace.join(MARK_FILE), &mark))
    {
        return EngineCheck::failed(
            NAME,
            &SandboxError::Host { path: agent.workspace, source },
            "flock doctor",
        );
    }
    let alone = Arc::new(Config {
        agents: vec![agent].into(),
        projects: Vec::new(),
        engines: Vec::new(),
        ..config.clone()
    });
    let sandbox = DockerSandbox::new(home.clone(), Arc::new(move || Arc::clone(&alone)), Arc::clone(engine));
    let tried = async {
        sandbox.probe(&id).await?;
        let command = Command { command: format!("cat {MARK_FILE}"), keep: 1024, ..Command::default() };
        sandbox.run(&id, command, &CancellationToken::new()).await
    };
    let check = match tried.await {
        Ok(outcome) if outcome.end == CommandExit::Exited(0) && outcome.output.head == mark.as_bytes() => {
            EngineCheck::ok(
                NAME,
                match engine.is_remote() {
                    true => "a sandbox in it is confined and has the workspace that was brought to it",
                    false => "a sandbox in it is confined and sees this machine's files",
                },
            )
        }
        Ok(_) if engine.is_remote() => EngineCheck::bad(
            NAME,
            "a sandbox in it does not have the workspace that was brought to it",
            "look at the engine's log",
        ),
        Ok(_) => EngineCheck::bad(
            NAME,
            "a sandbox in it does not see this machine's files, so it would not see an agent's workspace",
            "use an engine that runs on this machine's own files, outside of a virtual machine and a container",
        ),
        Err(error) => EngineCheck::failed(NAME, &error, "look at the engine's log"),
    };
    if let Err(error) = sandbox.remove(&id).await {
        tracing::warn!(engine = %settings.name, error = chain(&error), "the trial's container may still exist");
    }
    forget_volume(home, engine, &workspace, settings).await;
    if let Err((stuck, _)) =
        remove_tree::clear(&home.engine_trials(), std::path::Path::new(settings.name.as_str()))
    {
        tracing::warn!(folder = %folder.display(), error = %stuck.error, "the trial's folder may still exist");
    }
    check
}

/// The file by which a sandbox shows that it sees this machine's files.
const MARK_FILE: &str = "mark";

#[cfg(test)]
mod tests {
    use bollard::models::SystemInfoCgroupVersionEnum;

    use super::*;

    fn info() -> SystemInfo {
        SystemInfo {
            memory_limit: Some(true),
            cpu_cfs_quota: Some(true),
            pids_limit: Some(true),
            cgroup_version: Some(SystemInfoCgroupVersionEnum::_2),
            security_options: Some(vec!["name=seccomp,profile=default".into(), "name=cgroupns".into()]),
            ..SystemInfo::default()
        }
    }

    #[test]
    fn podman_is_refused_on_another_machine_and_if_it_is_too_old() {
        let versions = |engine: &str, is_podman| Versions {
            engine: engine.to_owned(),
            api: "1.41".to_owned(),
            runc: None,
            is_podman,
        };
        let home = Home::new("/srv/flock".into(), None);
        let at = |address: &str| Engine::named(&home, "pod".parse().unwrap(), address);
        let here = at("unix:///run/podman/podman.sock");
        assert_eq!(kind(&here, &versions("4.3.1", true)), None);
        assert_eq!(kind(&here, &versions("5.4.0-dev", true)), None);
        let found = kind(&here, &versions("3.4.4", true)).unwrap();
        assert!(!found.ok && found.message.contains("too old"), "{found:?}");
        for address in ["ssh://far.example.org", "tcp://far.example.org:2376"] {
            assert_eq!(kind(&at(address), &versions("20.10.24", false)), None);
            let found = kind(&at(address), &versions("4.3.1", true)).unwrap();
            assert!(!found.ok && found.message.starts_with("it is Podman on another machine"), "{found:?}");
        }
    }

    #[test]
    fn a_service_of_podman_has_only_its_own_runtime() {
        let info = SystemInfo {
            default_runtime: Some("crun".into()),
            runtimes: Some(["crun", "runsc"].map(|name| (name.to_owned(), Default::default())).into()),
            ..info()
        };
        let of = |name: &str| EngineSettings {
            runtime: Some(name.into()),
            ..EngineSettings::new("pod".parse().unwrap(), None)
        };
        assert!(runtime(&info, &of("crun"), true).ok && runtime(&info, &of("runsc"), false).ok);
        let found = runtime(&info, &of("runsc"), true);
        assert!(!found.ok && found.hint.unwrap().contains("podman --runtime runsc"), "{}", found.message);
    }

    #[test]
    fn an_engine_without_limits_is_refused_by_what_it_lacks() {
        assert!(limits(&info()).ok);
        let found = limits(&SystemInfo { memory_limit: Some(false), pids_limit: None, ..info() });
        assert_eq!((found.ok, found.message.as_str()), (false, "it can't limit memory, processes"));
        let rootless = SystemInfo {
            cgroup_version: Some(SystemInfoCgroupVersionEnum::_1),
            security_options: Some(vec!["name=rootless".into()]),
            ..info()
        };
        let found = limits(&rootless);
        assert!(!found.ok && found.message.contains("control groups of version 2"), "{found:?}");
        let root = SystemInfo { security_options: None, ..rootless };
        assert!(limits(&root).ok, "an engine of root has limits with either version");
    }

    #[test]
    fn an_engine_without_a_filter_or_the_runtime_is_refused() {
        assert!(seccomp(&info()).ok);
        assert!(!seccomp(&SystemInfo { security_options: Some(vec!["name=cgroupns".into()]), ..info() }).ok);
        let settings = EngineSettings {
            runtime: Some("runsc".into()),
            ..EngineSettings::new("second".parse().unwrap(), None)
        };
        let found = runtime(&info(), &settings, false);
        assert!(!found.ok && found.hint.unwrap().starts_with("register runsc in"), "{}", found.message);
        assert!(runtime(&info(), &EngineSettings::new("second".parse().unwrap(), None), false).ok);
    }
}
