//! The tool `flock_bridge`, with which the orchestrator requests and manages links, and the part that carries out a
//! granted request.

use std::sync::Arc;

use super::linking::{self, LinkSpec};
use crate::agent::prompt::without_marks;
use crate::id::{ChannelId, Party};
use crate::provider::BoxFuture;
use crate::store::{EVERYONE, Link};
use crate::swarm::triage::{ChannelLinker, FiledRequest, MAX_LINK_HEARS, Request, Triage};
use crate::swarm::{Actor, Swarm, notice};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns the tool.
#[must_use]
pub fn all(triage: &Arc<Triage>) -> Vec<Arc<dyn Tool>> {
    vec![FunctionTool::shared(&team::BRIDGE, triage, |t, c, a| Box::pin(call(t, c, a)))]
}

async fn call(triage: &Arc<Triage>, context: &CallContext, arguments: Arguments) -> ToolResult {
    arguments.only(&["action", "bridge", "external", "channelId", "allow", "reason"])?;
    let action: String = arguments.required("action")?;
    let swarm = triage.swarm();
    match action.as_str() {
        "list" => list(swarm).await,
        "create" => create(triage, context, &arguments).await,
        "remove" | "pause" | "resume" => change(swarm, context, &action, &arguments).await,
        _ => Err(ToolError::model("`action`: create, remove, list, pause or resume")),
    }
}

async fn list(swarm: &Swarm) -> ToolResult {
    let mut lines = Vec::new();
    for bridge in &swarm.config().bridges {
        let paused = if bridge.is_paused { ", paused" } else { "" };
        lines.push(format!("{} ({}{paused})", bridge.name, bridge.platform.as_str()));
        let links = swarm.store().links().list(Some(&bridge.name)).await;
        let links = links.map_err(crate::swarm::SwarmError::from)?;
        lines.extend(links.iter().map(line));
    }
    if lines.is_empty() {
        return Ok("there are no bridges; only the owner adds one (flock bridge add)".to_owned());
    }
    Ok(lines.join("\n"))
}

fn line(link: &Link) -> String {
    // People of the platform choose the title of its channel.
    let title = notice::one_line(&without_marks(&link.title));
    let heard = link.hears.len();
    let heard = match link.hears.iter().any(|name| name == EVERYONE) {
        true => "everyone".to_owned(),
        false => format!("{heard} accounts"),
    };
    format!(
        "- #{} with {} {title:?} ({}): hears {heard}",
        link.channel,
        notice::one_line(&without_marks(&link.external)),
        link.state.as_str()
    )
}

/// Files the request for a link. The platform's channel is looked up first, so that the decision is about exactly this
/// one and about those who are heard there.
async fn create(triage: &Arc<Triage>, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let reason: String = arguments.required("reason")?;
    let channel: String = arguments.required("channelId")?;
    let channel: ChannelId = channel.trim().trim_start_matches('#').parse()?;
    let external: String = arguments.required("external")?;
    let name: String = arguments.required("bridge")?;
    let allow: Option<Vec<String>> = arguments.optional("allow")?;
    // Models often send an empty list for a parameter that they do not use.
    let allow = allow.filter(|allow| !allow.is_empty());
    let swarm = triage.swarm();
    let channel = swarm.channel(&channel).await?.id;
    let bridge = linking::find(&swarm.config(), &name)?;
    let found = linking::look_up(swarm, &bridge, &external).await?;
    let members = found.members.unwrap_or_default();
    let allow = allow.as_deref().map(linking::read_names).transpose()?;
    let widens = allow.iter().flatten().any(|name| !members.contains(name));
    let hears = allow.unwrap_or(members);
    if hears.len() > MAX_LINK_HEARS {
        return Err(ToolError::model(format!(
            "{} accounts would be heard there, and a person can decide about at most {MAX_LINK_HEARS}: name them in \
             `allow`",
            hears.len()
        )));
    }
    let request = Request::BridgeLink {
        bridge: bridge.name,
        channel,
        external: found.id,
        title: found.title,
        hears,
        widens,
    };
    Ok(triage.request(&Actor::call(context), request, &reason, &context.cancel).await?)
}

async fn change(swarm: &Swarm, context: &CallContext, action: &str, arguments: &Arguments) -> ToolResult {
    let bridge: String = arguments.required("bridge")?;
    let external: String = arguments.required("external")?;
    let link = linking::find_link(swarm, &bridge, &external).await?;
    // Otherwise an agent could remove the link and make it again where the owner allowed the platform's channel.
    if link.is_paused_by_person && action != "pause" {
        return Err(ToolError::model("a person paused this link, so only a person resumes or removes it"));
    }
    let by = Actor::call(context);
    let what = format!("#{} and {} of {}", link.channel, notice::one_line(&link.external), link.bridge);
    if action == "remove" {
        linking::remove(swarm, &by, &link).await?;
        return Ok(format!("{what} are no longer linked"));
    }
    let is_paused = action == "pause";
    let changed = linking::set_paused(swarm, &by, link, is_paused).await?;
    Ok(match (changed, is_paused) {
        (true, true) => format!("the link of {what} is paused"),
        (true, false) => format!("the link of {what} is resumed"),
        (false, _) => format!("nothing changed: the link of {what} is in that state already, or archived"),
    })
}

/// Makes the links that were granted.
pub(crate) struct GrantedLinks(pub(crate) Arc<Swarm>);

impl ChannelLinker for GrantedLinks {
    fn link<'a>(&'a self, asked: &'a FiledRequest) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let Request::BridgeLink { bridge, channel, external, title, hears, .. } = &asked.request else {
                return Err("not done: it is no request for a link".to_owned());
            };
            let swarm = &self.0;
            let bridge = linking::find(&swarm.config(), bridge).map_err(|error| error.to_string())?;
            let spec = LinkSpec {
                channel: channel.clone(),
                external: Some(external.clone()),
                allow: Some(hears.clone()),
                is_cross: false,
                hears_bots: false,
            };
            let platform = linking::open(swarm, &bridge).map_err(|error| error.to_string())?;
            let by = Actor::party(Party::Agent(asked.agent.clone()));
            let made = linking::create(swarm, &by, &bridge, &*platform, spec).await;
            made.map(|link| format!("#{} is linked with {title}", link.channel))
                .map_err(|error| error.to_string())
        })
    }
}
