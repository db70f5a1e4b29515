//! Podman in place of Docker. Its service takes requests of Docker's interface, but leaves out parts of them without an
//! error, so containers are made by its own interface. What a runtime was really given is then read from the file that
//! Podman writes for it, and put into Docker's words, so that the same rules judge the containers of both.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bollard::errors::Error as EngineError;
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerSummary, HostConfig, Mount, MountType,
    ResourcesUlimits, RestartPolicyNameEnum, SystemInfo,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use nix::sys::resource::{Resource, getrlimit};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::UnixStream;

use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, names, seccomp, spec, volumes};

/// The first version whose own interface is spoken here.
pub(super) const OLDEST: u32 = 4;

/// The start of all paths of that interface. Later versions take it, too.
const API: &str = "/v4.0.0/libpod";
/// The start of all paths of Docker's interface, as Podman 4 has it.
const DOCKER_API: &str = "/v1.41";

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 8 << 20;

/// The annotation that has the asked mounts of memory, for the description of the container.
const TMPFS: &str = "flock.tmpfs";

/// The period of the limit on processors, in microseconds.
const CPU_PERIOD: i64 = 100_000;

/// The limits on processes and on open files that are set where none is given, if this process has no lower ones. Podman sets its
/// own limit on processes to the kernel's number of process ids, which is at least this on usual machines.
const PROCESSES: u64 = 32_768;
const OPEN_FILES: u64 = 1_048_576;

/// Creates a container without starting it, and returns its id. Nothing that `body` asks for is left out: what has no
/// translation is refused.
pub(super) async fn create(
    engine: &Engine,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<String, SandboxError> {
    let what = format!("create {name}");
    let service = Service::ask(engine).await?;
    let failed = |source| SandboxError::Host { path: std::env::temp_dir(), source };
    let profile = tokio::task::spawn_blocking(profile_file).await;
    let profile = profile.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
    let asked = Specification::of(name, body, &service, profile.path());
    let Specification { document, volumes } =
        asked.map_err(|message| engine.error(&what, refused(400, message)))?;
    // Podman would make them without their labels.
    for (volume, labels) in volumes {
        volumes::create(engine, &volume, labels).await?;
    }
    // Podman reads the profile before it answers, and keeps what it says with the container.
    let path = format!("{API}/containers/create");
    let made = call(engine, Method::POST, &path, Some(&document));
    let made = engine.call(&what, engine::SLOW, made).await?;
    made["Id"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| SandboxError::Engine { what, source: "its answer has no id of the container".into() })
}

/// Returns the description of a container in Docker's interface.
pub(super) async fn inspect(
    engine: &Engine,
    container: &str,
) -> Result<ContainerInspectResponse, EngineError> {
    let path = format!("{DOCKER_API}/containers/{container}/json");
    let found = call(engine, Method::GET, &path, None).await?;
    Ok(serde_json::from_value(with_known_state(found))?)
}

/// Returns all containers that the filters find.
pub(super) async fn list(
    engine: &Engine,
    filters: &HashMap<String, Vec<String>>,
) -> Result<Vec<ContainerSummary>, EngineError> {
    let filters: String = form_urlencoded::byte_serialize(json!(filters).to_string().as_bytes()).collect();
    let path = format!("{DOCKER_API}/containers/json?all=true&filters={filters}");
    let found = call(engine, Method::GET, &path, None).await?;
    let found = found.as_array().cloned().unwrap_or_default();
    Ok(serde_json::from_value(found.into_iter().map(with_known_state).collect())?)
}

/// Replaces a state that Docker does not have, between the end of the processes and Podman's own cleaning up. The client would
/// not read it.
fn with_known_state(mut found: Value) -> Value {
    for place in ["/State", "/State/Status"] {
        if let Some(state) = found.pointer_mut(place).filter(|state| **state == "stopped") {
            *state = json!("exited");
        }
    }
    found
}

/// Returns the description of a container that was started, with what its runtime was given.
pub(super) async fn described(
    engine: &Engine,
    found: ContainerInspectResponse,
) -> Result<ContainerInspectResponse, SandboxError> {
    let id = found.id.clone().unwrap_or_default();
    let what = format!("inspect {id}");
    let path = format!("{API}/containers/{id}/json");
    let own = engine.call(&what, engine::QUICK, call(engine, Method::GET, &path, None)).await?;
    let Some(path) = own["OCIConfigPath"].as_str().filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Err(SandboxError::Engine { what, source: "its runtime was given nothing yet".into() });
    };
    let from = path.clone();
    let read = tokio::task::spawn_blocking(move || {
        serde_json::from_slice::<Value>(&fs_err::read(from)?).map_err(io::Error::other)
    });
    let given = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let given = given.map_err(|source| SandboxError::Host { path, source })?;
    Ok(in_words_of_docker(found, own["OCIRuntime"].as_str(), &given))
}

/// Returns what the engine says about itself, with the limits that it can really set. Podman says what the machine can
/// limit, also if nothing was delegated to the user of a rootless service.
pub(super) async fn corrected(engine: &Engine, info: SystemInfo) -> Result<SystemInfo, SandboxError> {
    let service = Service::ask(engine).await?;
    let has = |name: &str| Some(service.controllers.iter().any(|found| found == name));
    let mut security = info.security_options.unwrap_or_default();
    // Docker names this here.
    security.extend(service.is_rootless.then(|| "name=rootless".to_owned()));
    Ok(SystemInfo {
        security_options: Some(security),
        memory_limit: has("memory"),
        cpu_cfs_quota: has("cpu"),
        pids_limit: has("pids"),
        ..info
    })
}

/// Returns `true` if Podman refuses a call because the container is not in a state for it. Docker answers 409 then.
pub(super) fn is_wrong_state(error: &SandboxError) -> bool {
    let SandboxError::Engine { source, .. } = error else { return false };
    matches!(
        source.downcast_ref::<EngineError>(),
        Some(EngineError::DockerResponseServerError { message, .. })
            if message.ends_with("container state improper")
    )
}

/// Facts about a service that a container depends on.
struct Service {
    is_rootless: bool,
    /// The OCI runtime of all its containers.
    runtime: String,
    /// The controllers of the control groups that it may use.
    controllers: Vec<String>,
    /// The limits of a process to set where a container has none of its own.
    limits: [(&'static str, u64); 2],
}

impl Service {
    async fn ask(engine: &Engine) -> Result<Self, SandboxError> {
        let path = format!("{API}/info");
        let asked = call(engine, Method::GET, &path, None);
        let answer = engine.call("describe itself", engine::QUICK, asked).await?;
        let host = &answer["host"];
        Ok(Self {
            is_rootless: host["security"]["rootless"] == true,
            runtime: host["ociRuntime"]["name"].as_str().unwrap_or_default().to_owned(),
            controllers: strings(&host["cgroupControllers"]),
            // Podman sets 1,048,576 where none is given, and the runtime fails if Podman's own limit is lower and can't be
            // raised.
            limits: [
                ("nproc", at_most(Resource::RLIMIT_NPROC, PROCESSES)),
                ("nofile", at_most(Resource::RLIMIT_NOFILE, OPEN_FILES)),
            ],
        })
    }
}

fn at_most(resource: Resource, most: u64) -> u64 {
    getrlimit(resource).map_or(most, |(_, hard)| hard.min(most))
}

/// A request for a container in the form of Podman's own interface.
struct Specification {
    document: Value,
    /// The volumes that it needs, with their labels.
    volumes: Vec<(String, HashMap<String, String>)>,
}

impl Specification {
    /// Translates a request of Docker's interface. `profile` is the file with the filter of system calls.
    ///
    /// # Errors
    ///
    /// Returns a description of what can't be translated.
    fn of(name: &str, body: &ContainerCreateBody, service: &Service, profile: &Path) -> Result<Self, String> {
        let mut body = body.clone();
        let mut host = body.host_config.take().unwrap_or_default();
        if let Some(wanted) = host.runtime.take().filter(|wanted| *wanted != service.runtime) {
            return Err(format!(
                "a service of Podman has one runtime for all containers, which is {} and not {wanted}",
                service.runtime
            ));
        }
        // These are the defaults of Podman's own interface, or are set below.
        let is_confined = host.privileged.take() != Some(true)
            && host.init.take() != Some(true)
            && host.network_mode.take().as_deref() == Some("none")
            && host.ipc_mode.take().as_deref() == Some("private")
            && host.security_opt.take() == Some(spec::security_options())
            && host.log_config.take().and_then(|log| log.typ).as_deref() == Some("none")
            && host.restart_policy.take().and_then(|policy| policy.name) == Some(RestartPolicyNameEnum::NO)
            && body.stop_signal.take().as_deref() == Some("SIGKILL")
            && body.tty.take() != Some(true)
            && body.network_disabled.take() != Some(true);
        // Podman attaches what a request to attach names, and closes standard input with the first one in any case.
        for attached in
            [&mut body.attach_stdin, &mut body.attach_stdout, &mut body.attach_stderr, &mut body.stdin_once]
        {
            *attached = None;
        }
        let Places { mut mounts, named, volumes } = Places::of(host.mounts.take().unwrap_or_default())?;
        let in_memory = host.tmpfs.take().unwrap_or_default();
        for (target, options) in &in_memory {
            // Podman would fill it with the files of the image.
            let options: Vec<&str> = tmpfs_options(options).into_iter().chain(["notmpcopyup"]).collect();
            mounts
                .push(json!({"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options}));
        }
        let given = host.ulimits.take().unwrap_or_default();
        let missing = service
            .limits
            .iter()
            .filter(|(name, _)| given.iter().all(|one| one.name.as_deref() != Some(*name)));
        let missing = missing.map(|(name, most)| json!({"type": name, "soft": most, "hard": most}));
        let limits = given.iter().map(|one| json!({"type": one.name, "soft": one.soft, "hard": one.hard}));
        let limits = limits.chain(missing);
        let mut document = walls();
        // A rootless service shifts users. With this, the workspace is the sandbox's own as with Docker of root.
        let users = if service.is_rootless { "keep-id" } else { "host" };
        for (key, value) in [
            ("name", json!(name)),
            ("image", json!(body.image.take())),
            ("hostname", json!(body.hostname.take())),
            ("user", json!(body.user.take())),
            ("entrypoint", json!(body.entrypoint.take())),
            ("command", json!(body.cmd.take())),
            ("work_dir", json!(body.working_dir.take())),
            ("labels", json!(body.labels.take())),
            ("annotations", json!({TMPFS: json!(in_memory).to_string()})),
            ("stdin", json!(body.open_stdin.take())),
            ("remove", json!(host.auto_remove.take())),
            ("read_only_filesystem", json!(host.readonly_rootfs.take())),
            ("seccomp_profile_path", json!(profile)),
            ("cap_drop", json!(host.cap_drop.take())),
            ("cap_add", json!(host.cap_add.take())),
            ("userns", json!({"nsmode": users})),
            ("r_limits", json!(limits.collect::<Vec<_>>())),
            ("resource_limits", resources(&mut host)),
            ("mounts", json!(mounts)),
            ("volumes", json!(named)),
        ] {
            document[key] = value;
        }
        if let Some(adjustment) = host.oom_score_adj.take() {
            document["oom_score_adj"] = json!(adjustment);
        }
        if !is_confined || body != ContainerCreateBody::default() || host != HostConfig::default() {
            return Err("the request has a part that is not translated for Podman".to_owned());
        }
        Ok(Self { document, volumes })
    }
}

/// Returns what all containers have in common, which the check of a request has found in it.
fn walls() -> Value {
    let own = json!({"nsmode": "private"});
    json!({
        "stop_signal": nix::libc::SIGKILL,
        // It would mount more, and make parts of it writable, for an init process of that name.
        "systemd": "false",
        "sdnotifyMode": "ignore",
        // The proxy of the service's own environment must not get in.
        "httpproxy": false,
        "image_volume_mode": "ignore",
        "log_configuration": {"driver": "none"},
        "restart_policy": "no",
        "privileged": false,
        "no_new_privileges": true,
        "netns": {"nsmode": "none"},
        "ipcns": own,
        "pidns": own,
        "utsns": own,
        "cgroupns": own,
    })
}

/// Takes the limits of the control groups out of a request.
fn resources(host: &mut HostConfig) -> Value {
    let mut limits = json!({});
    if let Some(memory) = host.memory.take() {
        limits["memory"] = json!({"limit": memory});
        if let Some(swap) = host.memory_swap.take() {
            limits["memory"]["swap"] = json!(swap);
        }
    }
    if let Some(nanos) = host.nano_cpus.take() {
        limits["cpu"] = json!({"quota": nanos / (1_000_000_000 / CPU_PERIOD), "period": CPU_PERIOD});
    }
    if let Some(most) = host.pids_limit.take() {
        limits["pids"] = json!({"limit": most});
    }
    limits
}

/// The mounts of a request, as Podman takes them.
#[derive(Default)]
struct Places {
    mounts: Vec<Value>,
    /// The mounts of volumes that have a name.
    named: Vec<Value>,
    volumes: Vec<(String, HashMap<String, String>)>,
}

impl Places {
    fn of(asked: Vec<Mount>) -> Result<Self, String> {
        let mut places = Self::default();
        for mut mount in asked {
            let target = mount.target.take().unwrap_or_default();
            if places.add(&target, &mut mount).is_none() {
                return Err(format!("the mount of {target} is not translated for Podman"));
            }
        }
        Ok(places)
    }

    /// Adds a mount. Returns `None` if a part of it has no translation.
    fn add(&mut self, target: &str, mount: &mut Mount) -> Option<()> {
        let access = if mount.read_only.take() == Some(true) { "ro" } else { "rw" };
        match (mount.typ.take()?, mount.source.take()) {
            (MountType::BIND, Some(source)) => {
                // The propagation is always private.
                let is_flat =
                    mount.bind_options.take().is_some_and(|options| options.non_recursive == Some(true));
                // Each of the two words with an r makes the mount recursive.
                let options =
                    if is_flat { ["bind", access, "private"] } else { ["rbind", access, "rprivate"] };
                self.mounts.push(
                    json!({"destination": target, "type": "bind", "source": source, "options": options}),
                );
            }
            (MountType::VOLUME, Some(name)) => {
                let options = mount.volume_options.take().unwrap_or_default();
                if options.driver_config.is_some() || options.subpath.is_some() {
                    return None;
                }
                let flags =
                    std::iter::once(access).chain((options.no_copy == Some(true)).then_some("nocopy"));
                self.named.push(json!({"Name": name, "Dest": target, "Options": flags.collect::<Vec<_>>()}));
                self.volumes.push((name, options.labels.unwrap_or_default()));
            }
            // A volume without a name, which is nothing but its mount and goes with the container.
            (MountType::VOLUME, None) => {
                let driver = mount.volume_options.take()?.driver_config?.options?;
                let options: Vec<&str> = driver.get("o")?.split(',').chain([access]).collect();
                self.mounts.push(json!({
                    "destination": target,
                    "type": driver.get("type")?,
                    "source": driver.get("device")?,
                    "options": options,
                }));
            }
            _ => return None,
        }
        (*mount == Mount::default()).then_some(())
    }
}

/// Writes the filter of system calls into a file that only this user and root can read.
fn profile_file() -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("flock-seccomp-").tempfile()?;
    file.write_all(seccomp::profile().as_bytes())?;
    Ok(file)
}

/// Describes a container in the words of Docker, by what its runtime was given. Podman's own translation leaves out the
/// filter of system calls, names the namespaces otherwise and lists each mount twice.
fn in_words_of_docker(
    mut found: ContainerInspectResponse,
    runtime: Option<&str>,
    given: &Value,
) -> ContainerInspectResponse {
    let (process, linux) = (&given["process"], &given["linux"]);
    if let Some(settings) = &mut found.config {
        // It does not say that it closes standard input with the first attached stream, which it always does.
        let is_check = settings.labels.as_ref().is_some_and(|labels| labels.contains_key(names::LABEL_CHECK));
        settings.stdin_once = Some(is_check);
    }
    let Some(host) = found.host_config.as_mut().filter(|_| process.is_object() && linux.is_object()) else {
        // Without the parts that are needed it is not confined.
        found.host_config = None;
        return found;
    };
    // A namespace with a path is that of somebody else.
    let path_of = |kind: &str| {
        let mut spaces = items(&linux["namespaces"]);
        let space = spaces.find(|space| space["type"] == kind)?;
        Some(space["path"].as_str().unwrap_or_default())
    };
    let mode = |kind: &str, own: &str| match path_of(kind) {
        Some("") => own.to_owned(),
        Some(path) => path.to_owned(),
        None => "host".to_owned(),
    };
    host.runtime = runtime.map(str::to_owned);
    host.pid_mode = Some(mode("pid", ""));
    host.uts_mode = Some(mode("uts", ""));
    host.ipc_mode = Some(mode("ipc", "private"));
    // Docker's containers share the users of the engine, too.
    host.userns_mode = Some(path_of("user").unwrap_or_default().to_owned());
    let shared_network = mode("network", "");
    if !shared_network.is_empty() {
        host.network_mode = Some(shared_network);
    }
    host.readonly_rootfs = given["root"]["readonly"].as_bool();
    let sets = process["capabilities"].as_object();
    let held: BTreeSet<&str> =
        sets.into_iter().flat_map(|sets| sets.values()).flat_map(items).filter_map(Value::as_str).collect();
    host.cap_drop = Some(vec!["ALL".to_owned()]);
    host.cap_add = Some(held.into_iter().map(|name| name.trim_start_matches("CAP_").to_owned()).collect());
    let has_filter = linux["seccomp"] == filter();
    let options = [
        (process["noNewPrivileges"] == true).then(|| "no-new-privileges".to_owned()),
        has_filter.then(seccomp::option),
    ];
    host.security_opt = Some(options.into_iter().flatten().collect());
    let limit = |limit: &Value| {
        Some(ResourcesUlimits {
            name: Some(limit["type"].as_str()?.trim_start_matches("RLIMIT_").to_ascii_lowercase()),
            soft: limit["soft"].as_i64(),
            hard: limit["hard"].as_i64(),
        })
    };
    host.ulimits = Some(items(&process["rlimits"]).filter_map(limit).collect());
    let resources = &linux["resources"];
    host.memory = resources["memory"]["limit"].as_i64();
    host.memory_swap = resources["memory"]["swap"].as_i64();
    host.pids_limit = resources["pids"]["limit"].as_i64();
    let (quota, period) = (resources["cpu"]["quota"].as_i64(), resources["cpu"]["period"].as_i64());
    host.nano_cpus =
        quota.zip(period).and_then(|(quota, period)| quota.checked_mul(1_000_000_000)?.checked_div(period));
    host.masked_paths = Some(strings(&linux["maskedPaths"]));
    host.readonly_paths = Some(strings(&linux["readonlyPaths"]));
    // Each of them is among the mounts.
    host.binds = None;
    host.tmpfs = Some(tmpfs(given));
    found
}

/// Returns the places and the options of the mounts that keep their files in memory, except that of the devices.
fn tmpfs(given: &Value) -> HashMap<String, String> {
    let asked = given["annotations"][TMPFS].as_str().and_then(|text| serde_json::from_str(text).ok());
    let asked: HashMap<String, String> = asked.unwrap_or_default();
    let described = |mount: &Value| {
        let target = mount["destination"].as_str().filter(|target| *target != "/dev")?;
        let options =
            items(&mount["options"]).filter_map(Value::as_str).filter(|option| *option != "rprivate");
        let options: Vec<&str> = options.collect();
        let same = asked.get(target).filter(|asked| tmpfs_options(asked) == options);
        Some((target.to_owned(), same.cloned().unwrap_or_else(|| options.join(","))))
    };
    items(&given["mounts"]).filter(|mount| mount["type"] == "tmpfs").filter_map(described).collect()
}

/// Returns the options of a mount that keeps its files in memory, as Podman takes them. It knows no owner: what has one can be
/// written by everybody, and the container's user is the only one there.
fn tmpfs_options(asked: &str) -> Vec<&str> {
    let is_owner = |option: &str| option.starts_with("uid=") || option.starts_with("gid=");
    let has_owner = asked.split(',').any(is_owner);
    let mode = |option| match has_owner && str::starts_with(option, "mode=") {
        true => "mode=1777",
        false => option,
    };
    asked.split(',').filter(|option| !is_owner(option)).map(mode).collect()
}

/// Returns the filter of system calls as a runtime is given it. A second value of 0 is left out.
fn filter() -> Value {
    let mut filter: Value = serde_json::from_str(seccomp::profile()).unwrap_or_default();
    for rule in filter["syscalls"].as_array_mut().into_iter().flatten() {
        // Indexing would add the key to a rule without conditions.
        for condition in rule.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
            if condition["valueTwo"] == 0
                && let Some(condition) = condition.as_object_mut()
            {
                condition.shift_remove("valueTwo");
            }
        }
    }
    filter
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn strings(list: &Value) -> Vec<String> {
    items(list).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Calls the service by its socket on this machine.
async fn call(
    engine: &Engine,
    method: Method,
    path: &str,
    sent: Option<&Value>,
) -> Result<Value, EngineError> {
    let Some(socket) = engine.socket() else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "Podman is used by a socket only").into());
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(UnixStream::connect(socket).await?)).await?;
    // It ends with the sender.
    tokio::spawn(connection);
    let text = sent.map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "podman")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(text)))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body =
        Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(io::Error::other)?.to_bytes();
    if status.is_success() {
        return Ok(serde_json::from_slice(&body)?);
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = said["message"].as_str().unwrap_or("it gives no reason").to_owned();
    // It has one status for most errors, and tells them apart by a text.
    let status = match said["cause"].as_str() {
        Some("that name is already in use") => 409,
        Some("image not known") => 404,
        _ => status.as_u16(),
    };
    Err(refused(status, message))
}

fn refused(status_code: u16, message: String) -> EngineError {
    EngineError::DockerResponseServerError { status_code, message }
}

#[cfg(test)]
#[path = "podman_tests.rs"]
mod tests;
