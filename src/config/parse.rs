//! Makes the typed view from the JSON document. Every error names the key.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::blocks;
use super::budgets;
use super::docker;
use super::model::{ChannelReaders, Config, DEFAULT_PORT, EgressApprover};
use super::origins;
use super::parse_agent::{Globals, agent, language, models};
use super::policy;
use super::providers;
use super::starter::SANDBOX_TOOLS;
use super::tool_lists::{allow_list, tool_scope};
pub(crate) use super::view::Problem;
use super::view::{LookupLog, View};
use crate::home::Home;
use crate::id::{AgentId, Party};

/// Path of the block with flock's own keys.
pub(crate) const PLUGIN: [&str; 4] = ["plugins", "entries", "flock", "config"];

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
    let root = View::new(Some(document), "", asked);
    if !document.is_object() {
        // Every key is read through `View`, which names the key in an error and records that it was looked up.
        return Err(Problem { at: "the file".into(), message: "must hold one object".into() });
    }
    let own = PLUGIN.iter().try_fold(root.clone(), |view, name| view.get(name))?;
    let defaults = root.get("agents")?.get("defaults")?;
    let tools = root.get("tools")?;
    let global_tools = tools.get("sandbox")?.get("tools")?;
    let global = Globals {
        home,
        models: models(&defaults)?,
        docker: defaults.get("sandbox")?.get("docker")?,
        // Looked up even if there are no agents: a key that is never looked up counts as unknown.
        disk: docker::disk(&own.get("sandbox")?.get("disk")?)?.unwrap_or(DEFAULT_DISK),
        allow: allow_list(&global_tools)?.unwrap_or_else(|| SANDBOX_TOOLS.map(str::to_owned).to_vec()),
        scope: tool_scope(&tools)?,
        deny: [global_tools.get("deny")?.texts()?, tools.get("deny")?.texts()?].concat(),
        policy: policy::policy(&own.get("policy")?)?,
        language: language(&own.get("language")?)?,
    };

    let listed = root.get("agents")?.get("list")?.items()?;
    // By id: a search of the whole list for each agent would take seconds in a large team.
    let mut listings: HashMap<&str, &View<'_>> = HashMap::new();
    for listing in &listed {
        if let Some(id) = listing.value.and_then(|value| value["id"].as_str()) {
            listings.entry(id).or_insert(listing);
        }
    }
    let mut seen = BTreeSet::new();
    let mut agents = Vec::new();
    for entry in own.get("gatewayAgents")?.items()? {
        let id_at = entry.get("id")?;
        let id: AgentId = id_at.parsed()?;
        if !seen.insert(id.clone()) {
            // Two entries with one id would be two agents with one workspace and one set of sessions.
            return Err(id_at.problem("is there twice"));
        }
        let listing = match listings.get(id.as_str()) {
            Some(listing) => (*listing).clone(),
            // OpenClaw's list may lack an agent. Its lookups are not recorded, because they belong to no real place.
            None => View::new(None, &format!("agents.list[{id}]"), None),
        };
        agents.push(agent(id, &entry, &listing, &global)?);
    }

    let projects = super::projects::projects(&own.get("projects")?)?;
    for agent in &mut agents {
        agent.has_project = projects.iter().any(|project| project.has_agent(&agent.id));
    }

    let gateway = root.get("gateway")?;
    // Other values of OpenClaw's key ask for other network interfaces.
    let message = "must be \"loopback\": flock listens on 127.0.0.1 only";
    gateway.get("bind")?.text_if(|bind| bind == "loopback", message)?;
    let token = gateway.get("auth")?.get("token")?;
    let endpoints = gateway.get("http")?.get("endpoints")?;
    let chat_completions = endpoints.get("chatCompletions")?.get("enabled")?;
    let responses = endpoints.get("responses")?.get("enabled")?;
    let nix = own.get("nix")?;
    let (dashboard, hooks) = (own.get("dashboard")?, own.get("hooks")?);
    dashboard.only(&["trustedOrigins", "oidc"])?;
    hooks.only(&["trustedOrigins"])?;
    let models = root.get("models")?;
    Ok(Config {
        agents: agents.into(),
        port: blocks::port(&own.get("gateway")?)?.unwrap_or(DEFAULT_PORT),
        peer_address: blocks::peer_address(&own.get("gateway")?)?,
        token: token.required_text()?.to_owned(),
        chat_completions: chat_completions.flag()?.unwrap_or(true),
        responses: responses.flag()?.unwrap_or(true),
        providers: providers::providers(&models)?,
        bedrock_region: providers::bedrock_region(&models)?,
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
        max_turns: own.get("maxTurns")?.within(1..=4096, "a number of turns")?.unwrap_or(8),
        mount_roots: mount_roots(&own.get("mountRoots")?, home)?,
        egress_ask: egress_ask(&own.get("egress")?)?,
        approvers: approvers(&own)?,
        approvals: blocks::approvals(&own.get("approvals")?)?,
        trusted_origins: origins::trusted(&dashboard)?,
        oidc: super::oidc::oidc(&dashboard.get("oidc")?)?,
        hook_origins: origins::trusted(&hooks)?,
        approval_time: Duration::from_secs(
            own.get("approvalHours")?.within::<u64>(1..=720, "a number of hours")?.unwrap_or(24) * 3600,
        ),
        packages_per_day: own
            .get("packagesPerDay")?
            .within(0..=u32::MAX.into(), "a number of packages")?
            .unwrap_or(20),
        retention: blocks::retention(&own.get("retention")?)?,
        generations: blocks::generations(&own.get("generations")?)?,
        openclaw: blocks::openclaw(&own.get("openclaw")?, &gateway)?,
        // Providers refuse sides longer than 8000 pixels, and their models see no more than about 1568 of them.
        image_side: defaults
            .get("imageMaxDimensionPx")?
            .within(1..=8000, "a number of pixels")?
            .unwrap_or(1200),
        // At most 30 days.
        turn_time: defaults
            .get("timeoutSeconds")?
            .within(1..=2_592_000, "a number of seconds")?
            .map(Duration::from_secs),
        quota_patience: blocks::quota_patience(&own.get("quota")?)?,
        compaction: blocks::compaction(&own)?,
        checkpoints: blocks::checkpoints(&own.get("checkpoints")?)?,
        race_idle: blocks::race_idle(&own.get("races")?)?,
        schedule_distance: blocks::schedule_distance(&own.get("schedules")?)?,
        bridges: super::bridges::bridges(&own.get("bridges")?)?,
        projects,
        mcp_servers: super::mcp_servers::servers(&own.get("mcpServers")?)?,
        engines: super::engines::engines(&own.get("engines")?)?,
        otlp: super::telemetry::otlp(&own.get("telemetry")?)?,
        blobs: super::storage::blobs(&own.get("storage")?)?,
    })
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

/// Default size limit of a workspace in bytes.
const DEFAULT_DISK: u64 = 32 << 30;

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
