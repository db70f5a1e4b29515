//! Makes the typed view from the JSON document. Every error names the key.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::budgets;
use super::model::{
    Agent, Autonomy, ChannelReaders, Compaction, Config, DEFAULT_PORT, DockerSettings, Effort,
    EgressApprover, ModelCost, ModelSettings, Network, OpenClawSettings, ProviderSettings, Retention, Role,
    SandboxMode, SkillsMode,
};
use super::policy::{self, CommandPolicy};
use super::starter::SANDBOX_TOOLS;
use crate::env;
use crate::home::Home;
use crate::id::{AgentId, ModelRef, Party};

/// Path of the block with flock's own keys.
pub const PLUGIN: [&str; 4] = ["plugins", "entries", "flock", "config"];

/// A mistake in the document, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the key, as in `agents.list[0].model`.
    pub at: String,
    /// Continues a sentence that begins with the key, as in `must be a text`.
    pub message: String,
}

/// Makes the typed view of a document.
///
/// # Errors
///
/// Returns the first value that is missing or invalid.
pub fn config(document: &Value, home: &Home) -> Result<Config, Problem> {
    read(document, home, None)
}

/// Returns the paths of all keys that the parser looks up in a usable document, including keys that the document lacks.
///
/// # Errors
///
/// Returns the first value that is missing or invalid.
pub fn keys(document: &Value, home: &Home) -> Result<BTreeSet<String>, Problem> {
    let asked = RefCell::default();
    read(document, home, Some(&asked))?;
    let mut asked = asked.into_inner();
    // These two are checked by `ignored`, not by this parser.
    asked.extend(["dataDir", "dbBackend"].map(|name| format!("{}.{name}", PLUGIN.join("."))));
    Ok(asked)
}

fn read(document: &Value, home: &Home, asked: Option<&LookupLog>) -> Result<Config, Problem> {
    let root = View { value: Some(document), at: String::new(), asked };
    if !document.is_object() {
        // Every key is read through `View`, which names the key in an error and records that it was looked up.
        return Err(Problem { at: "the file".into(), message: "must hold one object".into() });
    }
    let own = PLUGIN.iter().try_fold(root.clone(), |view, name| view.get(name))?;
    let defaults = root.get("agents")?.get("defaults")?;
    let default_model = DefaultModel {
        primary: model(&defaults.get("model")?)?,
        fallbacks: fallbacks(&defaults.get("model")?)?,
    };
    let default_docker = defaults.get("sandbox")?.get("docker")?;
    let tools = root.get("tools")?;
    let global_tools = tools.get("sandbox")?.get("tools")?;
    let global = Globals {
        allow: allow_list(&global_tools)?.unwrap_or_else(|| SANDBOX_TOOLS.map(str::to_owned).to_vec()),
        scope: tool_scope(&tools)?,
        deny: [global_tools.get("deny")?.texts()?, tools.get("deny")?.texts()?].concat(),
        policy: policy::policy(&own.get("policy")?)?,
        language: language(&own.get("language")?)?,
    };

    // Looked up even if there are no agents: a key that is never looked up counts as unknown.
    let most_disk = disk(&own.get("sandbox")?.get("disk")?)?.unwrap_or(DEFAULT_DISK);
    let listed = root.get("agents")?.get("list")?.items()?;
    let mut seen = BTreeSet::new();
    let mut agents = Vec::new();
    for entry in own.get("gatewayAgents")?.items()? {
        let id_at = entry.get("id")?;
        let id: AgentId = id_at
            .required_text()?
            .parse()
            .map_err(|error| id_at.problem(&format!("is not usable: {error}")))?;
        if !seen.insert(id.clone()) {
            // Two entries with one id would be two agents with one workspace and one set of sessions.
            return Err(id_at.problem("is there twice"));
        }
        let listing = listed
            .iter()
            .find(|listing| listing.value.is_some_and(|value| value["id"] == id.as_str()))
            .cloned()
            // OpenClaw's list may lack an agent. Its lookups are not recorded, because they belong to no real place.
            .unwrap_or(View { value: None, at: format!("agents.list[{id}]"), asked: None });
        let mut agent = agent(id, &entry, &listing, &global, &default_model, &default_docker, home)?;
        let limit = disk(&entry.get("disk")?)?.unwrap_or(most_disk);
        // `none` is stored as no limit, while a missing key means the default.
        agent.docker.disk = (limit != NO_LIMIT).then_some(limit);
        agents.push(agent);
    }

    let gateway = root.get("gateway")?;
    let bind = gateway.get("bind")?;
    if bind.text()?.is_some_and(|bind| bind != "loopback") {
        // Other values of OpenClaw's key ask for other network interfaces.
        return Err(bind.problem("must be \"loopback\": flock listens on 127.0.0.1 only"));
    }
    let token = gateway.get("auth")?.get("token")?;
    let chat_completions = gateway.get("http")?.get("endpoints")?.get("chatCompletions")?.get("enabled")?;
    let port = port(&own.get("gateway")?.get("port")?)?;
    let nix = own.get("nix")?;
    Ok(Config {
        agents,
        port: port.unwrap_or(DEFAULT_PORT),
        token: token.required_text()?.to_owned(),
        chat_completions: chat_completions.flag()?.unwrap_or(true),
        providers: providers(&root)?,
        bedrock_region: bedrock_region(&root)?,
        nix_flake: nix.get("flake")?.text()?,
        nix_image: nix.get("image")?.text()?,
        sandbox_image: own.get("sandbox")?.get("image")?.text()?,
        budgets: budgets::budgets(&own.get("budgets")?)?,
        channel_readers: own
            .get("channels")?
            .get("read")?
            .word::<ChannelReaders>("all or members")?
            .unwrap_or_default(),
        max_agents: usize::try_from(own.get("maxAgents")?.number()?.unwrap_or(20)).unwrap_or(usize::MAX),
        mount_roots: mount_roots(&own.get("mountRoots")?, home)?,
        egress_ask: egress_ask(&own.get("egress")?)?,
        approvers: approvers(&own)?,
        approval_time: approval_time(&own)?,
        packages_per_day: packages_per_day(&own)?,
        retention: retention(&own.get("retention")?)?,
        openclaw: openclaw(&own.get("openclaw")?, &gateway)?,
        image_side: image_side(&defaults.get("imageMaxDimensionPx")?)?,
        turn_time: turn_time(&defaults.get("timeoutSeconds")?)?,
        compaction: compaction(&own)?,
    })
}

fn turn_time(view: &View<'_>) -> Result<Option<Duration>, Problem> {
    match view.number()? {
        None => Ok(None),
        Some(number @ 1..=2_592_000) => Ok(Some(Duration::from_secs(number))),
        Some(_) => Err(view.problem("must be a number of seconds from 1 to 2592000, which is 30 days")),
    }
}

/// Reads the longest side of a picture. Providers refuse sides longer than 8000 pixels, and their models see no more
/// than about 1568 of them.
fn image_side(view: &View<'_>) -> Result<u32, Problem> {
    const LONGEST: u64 = 8000;
    let side = view.number()?.unwrap_or(1200);
    u32::try_from(side)
        .ok()
        .filter(|_| (1..=LONGEST).contains(&side))
        .ok_or_else(|| view.problem("must be a number of pixels from 1 to 8000"))
}

fn compaction(own: &View<'_>) -> Result<Compaction, Problem> {
    let most = Compaction::default().most_staged;
    let number = own.get("contextCompressionMaxStagedFiles")?;
    // The environment variable wins over the file, because it is how one run is set apart from the others.
    let most_staged = match env::MAX_STAGED_FILES.get() {
        Some(text) => text.parse().map_err(|_| Problem {
            at: env::MAX_STAGED_FILES.name.to_owned(),
            message: "must be a number".to_owned(),
        })?,
        None => number.number()?.map_or(most, |number| usize::try_from(number).unwrap_or(usize::MAX)),
    };
    let block = own.get("compaction")?;
    block.only(&["summary"])?;
    Ok(Compaction { most_staged, summary: block.get("summary")?.flag()?.unwrap_or(false) })
}

fn mount_roots(view: &View<'_>, home: &Home) -> Result<Vec<PathBuf>, Problem> {
    let roots: Vec<PathBuf> = view.texts()?.into_iter().map(PathBuf::from).collect();
    for root in &roots {
        // `..` could lead out of a folder that looks harmless in the file.
        if !root.is_absolute() || root.components().any(|part| part.as_os_str() == "..") {
            return Err(view.problem("must hold absolute paths"));
        }
        // The home holds secrets and the workspaces of other agents.
        if root.starts_with(home.root()) {
            return Err(view.problem("can't hold a folder of flock's own home"));
        }
    }
    Ok(roots)
}

fn egress_ask(view: &View<'_>) -> Result<EgressApprover, Problem> {
    view.only(&["ask"])?;
    Ok(view.get("ask")?.word::<EgressApprover>("person, sysadmin or auto")?.unwrap_or_default())
}

fn approvers(own: &View<'_>) -> Result<Vec<Party>, Problem> {
    let approver = |item: &View<'_>| match item.required_text()?.parse() {
        // An agent must not approve what agents ask for.
        Ok(party @ Party::Human(_)) => Ok(party),
        _ => Err(item.problem("must be a person, as in \"human:ann\"")),
    };
    own.get("approvers")?.items()?.iter().map(approver).collect()
}

fn approval_time(own: &View<'_>) -> Result<Duration, Problem> {
    let hours = own.get("approvalHours")?;
    match hours.number()?.unwrap_or(24) {
        number @ 1..=720 => Ok(Duration::from_secs(number * 3600)),
        _ => Err(hours.problem("must be a number of hours from 1 to 720")),
    }
}

fn packages_per_day(own: &View<'_>) -> Result<u32, Problem> {
    let packages = own.get("packagesPerDay")?;
    let number = packages.number()?.unwrap_or(20);
    u32::try_from(number).map_err(|_| packages.problem("must be a number of packages"))
}

/// Reads the retention block. An unknown key is refused, because a misspelt setting would keep records forever.
fn retention(view: &View<'_>) -> Result<Retention, Problem> {
    view.only(&["messages", "traces", "audit", "logs"])?;
    let days = |name: &str| -> Result<Option<u32>, Problem> {
        let days = view.get(name)?;
        let Some(number) = days.number()? else { return Ok(None) };
        match u32::try_from(number) {
            Ok(number @ 1..=36_500) => Ok(Some(number)),
            _ => Err(days.problem("must be a number of days from 1 to 36500")),
        }
    };
    Ok(Retention {
        messages: days("messages")?,
        traces: days("traces")?,
        audit: days("audit")?,
        logs: days("logs")?,
    })
}

/// Reads flock's `openclaw` block, and the port, for which OpenClaw has a key of its own.
fn openclaw(view: &View<'_>, gateway: &View<'_>) -> Result<OpenClawSettings, Problem> {
    view.only(&["repo", "ref", "node", "unsandboxedSysadmin"])?;
    let filled = |name: &str| {
        let item = view.get(name)?;
        if item.value.is_none() { Ok(None) } else { item.required_text().map(|text| Some(text.to_owned())) }
    };
    let node = filled("node")?.map(PathBuf::from);
    // A relative path would depend on the folder in which flock was started.
    if node.as_ref().is_some_and(|node| !node.is_absolute()) {
        return Err(view.get("node")?.problem("must be an absolute path"));
    }
    Ok(OpenClawSettings {
        repository: filled("repo")?,
        reference: filled("ref")?,
        node,
        port: port(&gateway.get("port")?)?,
        unsandboxed_sysadmin: view.get("unsandboxedSysadmin")?.flag()?.unwrap_or(false),
    })
}

fn port(view: &View<'_>) -> Result<Option<u16>, Problem> {
    let Some(number) = view.number()? else { return Ok(None) };
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.map(Some).ok_or_else(|| view.problem("must be a port from 1 to 65535"))
}

/// Global settings for agents that have none of their own.
struct Globals {
    allow: Vec<String>,
    scope: ToolScope,
    deny: Vec<String>,
    policy: CommandPolicy,
    language: Option<String>,
}

/// The value of `tools.allow`, `tools.alsoAllow` and `tools.profile` in one place: an agent's entry or the global
/// block.
struct ToolScope {
    /// `None` if the place sets neither. The inner `None` stands for all tools.
    list: Option<Option<Vec<String>>>,
    also: Vec<String>,
}

fn tool_scope(tools: &View<'_>) -> Result<ToolScope, Problem> {
    let allow = tools.get("allow")?.texts()?;
    let profile = tools.get("profile")?;
    let named: Option<&[&str]> = match profile.text()?.as_deref() {
        // The profiles and their tools are OpenClaw's.
        None => None,
        Some("full") => Some(&["*"]),
        Some("minimal") => Some(&["session_status"]),
        Some("coding") => Some(&["group:fs", "group:runtime", "group:sessions", "group:memory", "image"]),
        Some("messaging") => {
            Some(&["group:messaging", "sessions_list", "sessions_history", "sessions_send", "session_status"])
        }
        Some(_) => return Err(profile.problem("must be minimal, coding, messaging or full")),
    };
    // An explicit list wins over a profile.
    let list = if allow.is_empty() {
        named.map(|list| (list != ["*"]).then(|| list.iter().map(ToString::to_string).collect()))
    } else {
        Some(Some(allow))
    };
    Ok(ToolScope { list, also: tools.get("alsoAllow")?.texts()? })
}

/// Returns the tools that the agent's own settings leave, or else the global ones. `alsoAllow` only extends a list.
fn tool_profile(own: ToolScope, global: &ToolScope) -> Option<Vec<String>> {
    let mut list = own.list.or_else(|| global.list.clone()).flatten()?;
    list.extend(own.also);
    list.extend(global.also.iter().cloned());
    Some(list)
}

fn allow_list(tools: &View<'_>) -> Result<Option<Vec<String>>, Problem> {
    let allow = tools.get("allow")?;
    // An empty list is not the same as a missing one: it allows nothing.
    allow.value.is_some().then(|| allow.texts()).transpose()
}

#[expect(clippy::too_many_arguments, reason = "each is a different place of the document")]
fn agent(
    id: AgentId,
    entry: &View<'_>,
    listing: &View<'_>,
    global: &Globals,
    default_model: &DefaultModel,
    default_docker: &View<'_>,
    home: &Home,
) -> Result<Agent, Problem> {
    let role = entry.get("role")?.word::<Role>("orchestrator, sysadmin or worker")?.unwrap_or(Role::Worker);
    let sandbox = listing.get("sandbox")?;
    let tools = listing.get("tools")?;
    let own_tools = tools.get("sandbox")?.get("tools")?;
    let mode = sandbox.get("mode")?;
    let mode = match mode.text()?.as_deref() {
        // OpenClaw's "non-main" sandboxes every session but the main one. flock has no main agent.
        None | Some("all" | "non-main") => SandboxMode::All,
        Some("off") => SandboxMode::Off,
        Some(_) => return Err(mode.problem("must be \"all\" or \"off\"")),
    };
    // Only the sysadmin works on the machine itself. Without a sandbox, an agent's tools have all rights of the user.
    if mode == SandboxMode::Off && role != Role::Sysadmin {
        return Err(sandbox.get("mode")?.problem("can be \"off\" for a sysadmin only"));
    }
    let workspace = listing.get("workspace")?;
    let workspace = match workspace.text()? {
        None => home.workspace(&id),
        Some(text) => {
            let path = PathBuf::from(text);
            // Tools work there on the host. A folder that is in the home, or holds the home, is not the agent's own.
            let shared = path.starts_with(home.root()) || home.root().starts_with(&path);
            if shared && path != home.workspace(&id) {
                return Err(workspace.problem("must be the agent's own folder, or outside of the home"));
            }
            path
        }
    };
    let network = entry.get("network")?.word::<Network>("none or proxy")?;
    let egress = entry.get("egress")?.texts()?;
    Ok(Agent {
        role,
        archetype: entry.get("archetype")?.text()?,
        runtime: entry.get("runtime")?.text()?.unwrap_or_else(|| "native".to_owned()),
        on_host: entry.get("onHost")?.flag()?.unwrap_or_default(),
        autonomy: entry
            .get("autonomy")?
            .word::<Autonomy>("readonly, supervised or full")?
            .unwrap_or(Autonomy::Supervised),
        effort: entry.get("effort")?.word::<Effort>("off, low, medium or high")?,
        model: model(&listing.get("model")?)?.or_else(|| default_model.primary.clone()),
        // An empty list means that there are no fallbacks, whatever the default is.
        fallbacks: fallbacks(&listing.get("model")?)?
            .or_else(|| default_model.fallbacks.clone())
            .unwrap_or_default(),
        workspace,
        identity: home.identity(&id),
        sandbox: mode,
        allow: allow_list(&own_tools)?.unwrap_or_else(|| global.allow.clone()),
        profile: tool_profile(tool_scope(&tools)?, &global.scope),
        // Denials of all places add up, so that an agent's own entry cannot lift a global one.
        deny: [global.deny.clone(), own_tools.get("deny")?.texts()?, tools.get("deny")?.texts()?].concat(),
        // Hosts without a network setting mean that they are to be reached.
        network: network.unwrap_or(if egress.is_empty() { Network::None } else { Network::Proxy }),
        egress,
        docker: docker(&sandbox.get("docker")?, default_docker)?,
        policy: global.policy.clone(),
        persona: persona(&entry.get("identity")?)?,
        skills: entry.get("skillsMode")?.word::<SkillsMode>("full or compact")?.unwrap_or_default(),
        language: language(&entry.get("language")?)?.or_else(|| global.language.clone()),
        id,
    })
}

/// Reads a persona document: `{format: "aieos", path}`.
fn persona(view: &View<'_>) -> Result<Option<PathBuf>, Problem> {
    if view.value.is_none() {
        return Ok(None);
    }
    view.only(&["format", "path"])?;
    let format = view.get("format")?;
    if format.required_text()? != "aieos" {
        return Err(format.problem("must be \"aieos\""));
    }
    let path = view.get("path")?;
    let found = PathBuf::from(path.required_text()?);
    // The file is read on the host, so the path must not climb out of the identity folder.
    if found.file_name().is_none() || found.components().any(|part| part.as_os_str() == "..") {
        return Err(path.problem("must be a file, without \"..\""));
    }
    Ok(Some(found))
}

/// Reads the name of a language, as in `ko` or `pt-BR`. It becomes the name of a folder, so nothing else is allowed.
fn language(view: &View<'_>) -> Result<Option<String>, Problem> {
    let is_part =
        |part: &str| (1..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric());
    match view.text()? {
        Some(name) if name.len() > 35 || !name.split('-').all(is_part) => {
            Err(view.problem("must be the name of a language, as in \"ko\" or \"pt-BR\""))
        }
        found => Ok(found),
    }
}

/// Reads a model, which is written as a text or as `{primary}`.
fn model(view: &View<'_>) -> Result<Option<ModelRef>, Problem> {
    let view = if view.value.is_some_and(Value::is_object) { view.get("primary")? } else { view.clone() };
    let Some(text) = view.text()? else { return Ok(None) };
    text.parse().map(Some).map_err(|error| view.problem(&format!("is not usable: {error}")))
}

/// The contents of `agents.defaults.model`.
struct DefaultModel {
    primary: Option<ModelRef>,
    fallbacks: Option<Vec<ModelRef>>,
}

/// The most fallbacks that can be named.
const MAX_FALLBACKS: usize = 8;

/// Reads the fallbacks. `None` if the document does not mention them.
fn fallbacks(view: &View<'_>) -> Result<Option<Vec<ModelRef>>, Problem> {
    if !view.value.is_some_and(Value::is_object) {
        return Ok(None);
    }
    let list = view.get("fallbacks")?;
    if list.value.is_none() {
        return Ok(None);
    }
    let items = list.items()?;
    if items.len() > MAX_FALLBACKS {
        return Err(list.problem(&format!("must hold at most {MAX_FALLBACKS} models")));
    }
    let read = |item: &View<'_>| {
        item.required_text()?.parse().map_err(|error| item.problem(&format!("is not usable: {error}")))
    };
    items.iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// Keys of a docker block that weaken a sandbox. Unset or empty, they only repeat what flock does anyway.
const WEAKENING_KEYS: [&str; 18] = [
    "privileged",
    "capAdd",
    "devices",
    "deviceRequests",
    "securityOpt",
    "seccompProfile",
    "apparmorProfile",
    "pidMode",
    "ipcMode",
    "usernsMode",
    "cgroupParent",
    "volumesFrom",
    "extraHosts",
    "mounts",
    "gpus",
    "dangerouslyAllowReservedContainerTargets",
    "dangerouslyAllowExternalBindSources",
    "dangerouslyAllowContainerNamespaceJoin",
];

/// Keys of a docker block that flock reads.
const SUPPORTED_KEYS: [&str; 7] = ["binds", "cpus", "env", "image", "memory", "network", "runtime"];

/// Returns `true` if a key that flock does not read asks only for what every sandbox has anyway.
fn is_redundant(name: &str, value: &Value, block: &Value) -> bool {
    // An OpenClaw configuration that is as strict as flock's sandbox must not be refused.
    match (name, value) {
        (_, Value::Null) => true,
        ("readOnlyRoot", value) => *value == Value::Bool(true),
        ("capDrop", Value::Array(names)) => {
            names.iter().any(|name| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case("all")))
        }
        ("workdir", value) => value == "/workspace",
        ("pidsLimit", value) => value.as_u64() == Some(256),
        ("tmpfs", Value::Array(places)) => places.iter().all(|place| place == "/tmp"),
        ("memorySwap", value) => block.get("memory") == Some(value),
        (name, value) if WEAKENING_KEYS.contains(&name) => match value {
            Value::Bool(is_set) => !is_set,
            Value::Array(items) => items.is_empty(),
            Value::Object(items) => items.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// Returns `true` if an engine may know an OCI runtime under this name.
fn is_runtime_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with(['.', '-'])
}

fn docker(own: &View<'_>, default: &View<'_>) -> Result<DockerSettings, Problem> {
    // The agent's own block comes last and wins. Mounts and unsupported keys of both blocks add up.
    let mut settings = DockerSettings::default();
    for block in [default, own] {
        for (name, value) in block.get("env")?.entries()? {
            settings.env.insert(name, value.required_text()?.to_owned());
        }
        settings.binds.extend(block.get("binds")?.texts()?);
        settings.network = block.get("network")?.text()?.or(settings.network);
        settings.image = block.get("image")?.text()?.or(settings.image);
        let memory = block.get("memory")?;
        if let Some(value) = memory.value {
            settings.memory =
                Some(bytes(value).ok_or_else(|| {
                    memory.problem("must be a size as in \"512m\" or \"2g\", at least 32m")
                })?);
        }
        let cpus = block.get("cpus")?;
        if let Some(value) = cpus.value {
            settings.cpu_millis = Some(
                cpu_millis(value)
                    .ok_or_else(|| cpus.problem("must be a number of cores as in 1.5, at least 0.1"))?,
            );
        }
        let runtime = block.get("runtime")?;
        if let Some(name) = runtime.text()? {
            if !is_runtime_name(&name) {
                return Err(runtime.problem("must be the engine's name of a runtime, as in \"runsc\""));
            }
            settings.runtime = Some(name);
        }
        let whole = block.value.cloned().unwrap_or_default();
        // Unsupported keys are collected, not refused here: the configuration stays readable, and only the sandbox is
        // refused.
        for (name, value) in block.entries()? {
            let holds = SUPPORTED_KEYS.contains(&name.as_str())
                || is_redundant(&name, value.value.unwrap_or(&Value::Null), &whole);
            if !holds && !settings.refused.contains(&name) {
                settings.refused.push(name);
            }
        }
    }
    Ok(settings)
}

/// Default size limit of a workspace in bytes.
const DEFAULT_DISK: u64 = 32 << 30;

const NO_LIMIT: u64 = u64::MAX;

/// Reads the size limit of a workspace. `None` if the document does not set it.
fn disk(view: &View<'_>) -> Result<Option<u64>, Problem> {
    match view.value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text == "none" => Ok(Some(NO_LIMIT)),
        Some(value) => match bytes(value) {
            Some(size) => Ok(Some(size)),
            None => Err(view.problem("must be a size as in \"512m\" or \"20g\", at least 32m, or \"none\"")),
        },
    }
}

/// Converts a size to bytes: a number, or a text with the unit k, m or g. Returns `None` for less than 32 MiB.
#[must_use]
pub fn bytes(value: &Value) -> Option<u64> {
    let size = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => {
            let text = text.trim().to_ascii_lowercase();
            // Docker writes `512mb` as well as `512m`.
            let text = text.strip_suffix('b').unwrap_or(&text);
            let (digits, shift) = match text.chars().last()? {
                'k' => (&text[..text.len() - 1], 10),
                'm' => (&text[..text.len() - 1], 20),
                'g' => (&text[..text.len() - 1], 30),
                _ => (text, 0),
            };
            digits.parse::<u64>().ok()?.checked_mul(1 << shift)?
        }
        _ => return None,
    };
    (size >= 32 << 20).then_some(size)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before the cast"
)]
fn cpu_millis(value: &Value) -> Option<u64> {
    let cpus = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (0.1..=1024.0).contains(&cpus).then(|| (cpus * 1000.0).round() as u64)
}

/// Reads the region of Amazon Bedrock. OpenClaw looks for Bedrock's models there, and flock asks them there too.
fn bedrock_region(root: &View<'_>) -> Result<Option<String>, Problem> {
    let view = root.get("models")?.get("bedrockDiscovery")?.get("region")?;
    let Some(region) = view.text()? else { return Ok(None) };
    // The region becomes part of a host name.
    let fits = (4..=32).contains(&region.len())
        && region.contains('-')
        && region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if fits { Ok(Some(region)) } else { Err(view.problem("must be a region of AWS, as in eu-central-1")) }
}

fn providers(root: &View<'_>) -> Result<BTreeMap<String, ProviderSettings>, Problem> {
    let mut found = BTreeMap::new();
    for (name, entry) in root.get("models")?.get("providers")?.entries()? {
        let mut models = Vec::new();
        for model in entry.get("models")?.items()? {
            let input = model.get("input")?.texts()?;
            models.push(ModelSettings {
                id: model.get("id")?.required_text()?.to_owned(),
                context_window: model.get("contextWindow")?.number()?,
                max_tokens: model.get("maxTokens")?.number()?,
                // No `input` list means that it is not known whether the model takes images.
                images: (!input.is_empty()).then(|| input.iter().any(|kind| kind == "image")),
                reasoning: model.get("reasoning")?.flag()?,
                tools: model.get("compat")?.get("supportsTools")?.flag()?,
                cost: cost(&model.get("cost")?)?,
            });
        }
        let settings = ProviderSettings {
            base_url: entry.get("baseUrl")?.text()?,
            api_key: entry.get("apiKey")?.text()?,
            api: entry.get("api")?.word("one of the APIs that docs/config.md lists")?,
            models,
        };
        let is_web = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if settings.base_url.as_ref().is_some_and(|url| !is_web(url)) {
            return Err(entry.get("baseUrl")?.problem("must be an http or https address"));
        }
        found.insert(name, settings);
    }
    Ok(found)
}

fn cost(view: &View<'_>) -> Result<Option<ModelCost>, Problem> {
    if view.value.is_none() {
        return Ok(None);
    }
    let price = |name| -> Result<u64, Problem> {
        let place = view.get(name)?;
        let price = place.value.map(|value| {
            budgets::micros(value)
                .ok_or_else(|| place.problem("must be dollars per million tokens, as in 2.5"))
        });
        Ok(price.transpose()?.unwrap_or(0))
    };
    Ok(Some(ModelCost {
        input: price("input")?,
        output: price("output")?,
        cache_read: price("cacheRead")?,
        cache_write: price("cacheWrite")?,
    }))
}

/// A place in the document and its path. There may be no value.
#[derive(Clone)]
pub(super) struct View<'a> {
    pub(super) value: Option<&'a Value>,
    pub(super) at: String,
    /// Records the paths that are looked up.
    asked: Option<&'a LookupLog>,
}

/// Paths that were looked up.
type LookupLog = RefCell<BTreeSet<String>>;

impl<'a> View<'a> {
    #[cfg(test)]
    pub(super) fn of(value: Option<&'a Value>, at: &str) -> Self {
        Self { value, at: at.to_owned(), asked: None }
    }

    /// Returns an error if the object has a key that is not in `names`.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Problem> {
        match self.entries()?.into_iter().find(|(name, _)| !names.contains(&name.as_str())) {
            Some((_, entry)) => Err(entry.problem(&format!("is not known here: use {}", names.join(", ")))),
            None => Ok(()),
        }
    }

    pub(super) fn problem(&self, message: &str) -> Problem {
        Problem { at: self.at.clone(), message: message.to_owned() }
    }

    pub(super) fn get(&self, name: &str) -> Result<Self, Problem> {
        let at = if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) };
        let value = match self.value {
            None => None,
            // `null` counts as missing.
            Some(Value::Object(object)) => object.get(name).filter(|value| !value.is_null()),
            Some(_) => return Err(self.problem("must be an object")),
        };
        // A missing key is recorded too: it is a key that flock knows.
        if let Some(asked) = self.asked {
            asked.borrow_mut().insert(at.clone());
        }
        Ok(Self { value, at, asked: self.asked })
    }

    pub(super) fn entries(&self) -> Result<Vec<(String, Self)>, Problem> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Object(object)) => {
                object.keys().map(|name| Ok((name.clone(), self.get(name)?))).collect()
            }
            Some(_) => Err(self.problem("must be an object")),
        }
    }

    pub(super) fn items(&self) -> Result<Vec<Self>, Problem> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, value)| View {
                    value: Some(value),
                    at: format!("{}[{index}]", self.at),
                    asked: self.asked,
                })
                .collect()),
            Some(_) => Err(self.problem("must be a list")),
        }
    }

    pub(super) fn text(&self) -> Result<Option<String>, Problem> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.problem("must be a text")),
        }
    }

    pub(super) fn required_text(&self) -> Result<&'a str, Problem> {
        match self.value {
            // A text of blanks counts as empty.
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
            None => Err(self.problem("is missing")),
            Some(_) => Err(self.problem("must be a text that is not empty")),
        }
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, Problem> {
        self.items()?.iter().map(|item| item.required_text().map(str::to_owned)).collect()
    }

    pub(super) fn flag(&self) -> Result<Option<bool>, Problem> {
        match self.value {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.problem("must be true or false")),
        }
    }

    pub(super) fn number(&self) -> Result<Option<u64>, Problem> {
        match self.value {
            None => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| self.problem("must be a whole number from 0"))
            }
        }
    }

    pub(super) fn word<T: DeserializeOwned>(&self, choices: &str) -> Result<Option<T>, Problem> {
        match self.value {
            None => Ok(None),
            Some(value) => serde_json::from_value(value.clone())
                .map(Some)
                .map_err(|_| self.problem(&format!("must be {choices}"))),
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
