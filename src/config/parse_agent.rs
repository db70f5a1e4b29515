//! Makes the typed view of one agent.

use std::path::PathBuf;

use serde_json::Value;

use super::docker::{self, DockerSettings, NO_LIMIT};
use super::engines;
use super::model::{Agent, Autonomy, Effort, Network, Role, SandboxMode, SkillsMode};
use super::policy::CommandPolicy;
use super::tool_lists::{ToolScope, allow_list, tool_profile, tool_scope};
use super::view::{Problem, View};
use crate::home::Home;
use crate::id::{AgentId, ModelRef};

/// Global settings for agents that have none of their own.
pub(super) struct Globals<'a> {
    pub(super) home: &'a Home,
    pub(super) models: Models,
    pub(super) docker: View<'a>,
    pub(super) disk: u64,
    pub(super) allow: Vec<String>,
    pub(super) scope: ToolScope,
    pub(super) deny: Vec<String>,
    pub(super) policy: CommandPolicy,
    pub(super) language: Option<String>,
}

/// Reads one agent from flock's entry and OpenClaw's listing of it.
pub(super) fn agent(
    id: AgentId,
    entry: &View<'_>,
    listing: &View<'_>,
    global: &Globals<'_>,
) -> Result<Agent, Problem> {
    let home = global.home;
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
    let models = models(listing)?;
    let disk = docker::disk(&entry.get("disk")?)?.unwrap_or(global.disk);
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
        model: models.primary.or_else(|| global.models.primary.clone()),
        // An empty list means that there are no fallbacks, whatever the default is.
        fallbacks: models.fallbacks.or_else(|| global.models.fallbacks.clone()).unwrap_or_default(),
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
        docker: DockerSettings {
            // `none` is stored as no limit, while a missing key means the default.
            disk: (disk != NO_LIMIT).then_some(disk),
            ..docker::docker(&sandbox.get("docker")?, &global.docker)?
        },
        policy: global.policy.clone(),
        persona: persona(&entry.get("identity")?)?,
        avatar: avatar(listing)?,
        skills: entry.get("skillsMode")?.word::<SkillsMode>("full or compact")?.unwrap_or_default(),
        language: language(&entry.get("language")?)?.or_else(|| global.language.clone()),
        // Set once the projects are read.
        has_project: false,
        labels: engines::labels(&entry.get("labels")?)?,
        id,
    })
}

/// Reads the URL of the agent's picture. OpenClaw's key may also name a file, which no platform could fetch.
fn avatar(listing: &View<'_>) -> Result<Option<String>, Problem> {
    let url = listing.get("identity")?.get("avatar")?.text()?;
    Ok(url.filter(|url| url.starts_with("https://") && url.len() <= MAX_AVATAR_URL && url.is_ascii()))
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
pub(super) fn language(view: &View<'_>) -> Result<Option<String>, Problem> {
    let is_part =
        |part: &str| (1..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric());
    let fits = |name: &str| name.len() <= 35 && name.split('-').all(is_part);
    view.text_if(fits, "must be the name of a language, as in \"ko\" or \"pt-BR\"")
}

/// The models of an agent, or the default ones. `None` if the document does not mention them.
pub(super) struct Models {
    primary: Option<ModelRef>,
    fallbacks: Option<Vec<ModelRef>>,
}

/// The most fallbacks that can be named.
const MAX_FALLBACKS: usize = 8;
/// The longest URL of a picture that Discord takes.
const MAX_AVATAR_URL: usize = 2_048;

/// Reads the models of an agent or of the defaults. A text is the main model.
pub(super) fn models(holder: &View<'_>) -> Result<Models, Problem> {
    let view = holder.get("model")?;
    let is_object = view.value.is_some_and(Value::is_object);
    let primary = if is_object { view.get("primary")? } else { view.clone() };
    let primary = primary.text()?.map(|_| primary.parsed()).transpose()?;
    if !is_object || view.get("fallbacks")?.value.is_none() {
        return Ok(Models { primary, fallbacks: None });
    }
    let list = view.get("fallbacks")?;
    let items = list.items()?;
    if items.len() > MAX_FALLBACKS {
        return Err(list.problem(&format!("must hold at most {MAX_FALLBACKS} models")));
    }
    Ok(Models { primary, fallbacks: Some(items.iter().map(View::parsed).collect::<Result<_, _>>()?) })
}
