//! The mechanical floor: the minimum level of a request, computed from the request and the current state. Pure
//! functions. Neither anybody's statement nor urgency has an effect.

use std::net::IpAddr;

use super::request::{PackageAction, Request};
use crate::config::model::{EgressApprover, Network};
use crate::config::{Agent, Config, Role};
use crate::nix_store::Attribute;
use crate::store::Level;

/// The state on which the level depends.
#[derive(Clone, Debug)]
pub(crate) struct LevelContext<'a> {
    pub config: &'a Config,
    /// The agent that makes the request.
    pub agent: &'a Agent,
    /// `true` if the agent was granted exactly this before.
    pub granted: bool,
    /// The place to which the path of a mount leads.
    pub place: PathClass,
    /// `true` if the package set is pinned to one content.
    pub pinned: bool,
    /// Number of packages that the agent asked to install in the last day.
    pub installs: u32,
    /// `true` unless the request names an archetype that does not exist.
    pub archetype: bool,
}

/// The place to which a host path leads after resolving symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PathClass {
    /// Below a folder whose contents may be granted.
    Below,
    /// Not below such a folder, or it does not exist.
    #[default]
    Outside,
    /// A place that is never granted to an agent, with the reason.
    Never(&'static str),
}

/// Returns the reason why nobody can grant a request, as text for the model.
#[must_use]
pub(crate) fn refusal(request: &Request, context: &LevelContext<'_>) -> Option<String> {
    match request {
        Request::Mount { path, .. } => match context.place {
            PathClass::Below => None,
            PathClass::Never(why) => Some(format!("{path} is never given to an agent: {why}")),
            // One text for both cases: it does not tell the agent if the path exists.
            PathClass::Outside => Some(format!(
                "{path} is not below a folder that the owner shares with agents (mountRoots), or does not exist"
            )),
        },
        // A granted host would have no effect, because such a sandbox is not connected to the proxy.
        Request::Egress { .. } if context.agent.network == Network::None => Some(
            "your sandbox has no network; the owner enables it with `flock config set` (network: \"proxy\")"
                .to_owned(),
        ),
        Request::Command { .. }
            if !context.config.agents.iter().any(|agent| agent.role == Role::Sysadmin) =>
        {
            Some("there is no sysadmin who looks after the host".to_owned())
        }
        Request::AgentCreate { id, archetype, .. } => {
            if context.config.agent(id).is_some() {
                return Some(format!("agent {id} exists already"));
            }
            let most = context.config.max_agents;
            if context.config.agents.len() >= most {
                return Some(format!(
                    "there are {most} agents, the limit for new ones by agents (maxAgents)"
                ));
            }
            let missing = archetype.as_ref().filter(|_| !context.archetype);
            missing.map(|name| format!("there is no archetype {name}"))
        }
        Request::AgentRemove { id } if *id == context.agent.id => {
            Some("you can't remove yourself".to_owned())
        }
        Request::AgentRemove { id } if context.config.agent(id).is_none() => {
            Some(format!("there is no agent {id}"))
        }
        Request::BridgeLink { bridge, .. }
            if !context.config.bridges.iter().any(|known| known.name == *bridge) =>
        {
            Some(format!("there is no bridge {bridge}"))
        }
        _ => None,
    }
}

/// Returns the minimum level of a request, and the reasons for it.
#[must_use]
pub(crate) fn floor(request: &Request, context: &LevelContext<'_>) -> (Level, Vec<&'static str>) {
    let mut level = Level::Green;
    let mut why = Vec::new();
    let mut at_least = |new: Level, reason| {
        level = level.max(new);
        why.push(reason);
    };
    match request {
        Request::Package { action: PackageAction::Remove, .. } => {
            at_least(Level::Green, "only its own packages change");
        }
        Request::Package { package, .. } if package.parse::<Attribute>().is_ok() => {
            at_least(Level::Green, "a package of the pinned set, for its own profile");
            // Without a pin, the next evaluation could give another content than the one that was judged.
            if !context.pinned {
                at_least(Level::Red, "the package set is not pinned yet (flock nix pin --update)");
            }
            if context.installs >= context.config.packages_per_day {
                at_least(Level::Yellow, "it reached packagesPerDay for today");
            }
        }
        Request::Package { .. } => at_least(Level::Red, "it is not from the pinned set"),
        Request::Egress { host, port } => {
            // These rules apply to a repeated request as well, because they concern its form.
            if host.parse::<IpAddr>().is_ok() {
                at_least(Level::Red, "an address does not show whose it is");
            }
            if host.starts_with("*.") {
                at_least(Level::Red, "it is more than one host");
            }
            if port.is_some_and(|port| port != 80 && port != 443) {
                at_least(Level::Red, "it is a port other than 80 and 443");
            }
            if context.granted {
                at_least(Level::Green, "it was granted this before");
            } else {
                match context.config.egress_ask {
                    EgressApprover::Person => {
                        at_least(Level::Red, "a person decides about each new host (egress.ask)");
                    }
                    // Nobody else can judge it then, so a person has to.
                    EgressApprover::Sysadmin if !has_other_sysadmin(context) => {
                        at_least(Level::Red, "there is no sysadmin who could decide about a new host");
                    }
                    EgressApprover::Sysadmin => {
                        at_least(Level::Yellow, "the sysadmin decides about each new host (egress.ask)");
                    }
                    EgressApprover::Auto => {
                        at_least(Level::Yellow, "data can leave to a host that is new for this agent");
                    }
                }
            }
        }
        Request::Mount { .. } if context.place == PathClass::Below => {
            if context.granted {
                at_least(Level::Green, "it was granted this before");
            } else {
                at_least(Level::Red, "it can read a folder of the host");
            }
        }
        // `refusal` stops such a request earlier. The level is a second barrier.
        Request::Mount { .. } => at_least(Level::Red, "it is not below a folder that may be given away"),
        Request::Command { .. } => at_least(Level::Red, "it runs on the host, outside of every sandbox"),
        Request::AgentCreate { model, .. } => {
            at_least(Level::Yellow, "a new agent costs money and room");
            // Some agent uses a known model already, so the owner has allowed it.
            let known =
                |model| context.config.agents.iter().any(|agent| agent.models().any(|one| one == model));
            if model.as_ref().is_some_and(|model| !known(model)) {
                at_least(Level::Red, "no agent uses that model so far");
            }
        }
        Request::AgentRemove { .. } => at_least(Level::Red, "removing an agent can't be undone"),
        Request::BridgeLink { bridge, external, title, widens, .. } => {
            let mut bridges = context.config.bridges.iter().filter(|known| known.name == *bridge);
            if !bridges.any(|known| known.allow.iter().any(|pattern| pattern.matches(external, title))) {
                at_least(
                    Level::Red,
                    "what the channel says would leave flock to a place that the owner did not name",
                );
            } else if *widens {
                at_least(Level::Red, "others would be heard than those who are in that private channel");
            } else {
                at_least(Level::Yellow, "the owner lets such channels be linked (bridges, allow)");
            }
        }
        Request::McpTool { .. } => at_least(
            Level::Red,
            "the server describes the tool differently than when it was granted, and a model would read that",
        ),
        Request::McpQuestion { .. } => at_least(Level::Red, "only a person can answer"),
        Request::Schedule { .. } => at_least(Level::Yellow, "it works by itself at each of its times"),
        Request::Other { .. } => at_least(Level::Green, "nothing is run for it"),
    }
    (level, why)
}

/// Returns `true` if there is a sysadmin other than the requester. Nobody decides about their own requests.
fn has_other_sysadmin(context: &LevelContext<'_>) -> bool {
    let mut agents = context.config.agents.iter();
    agents.any(|agent| agent.role == Role::Sysadmin && agent.id != context.agent.id)
}

/// Returns `true` if a request of this level is done only after the sysadmin agreed.
#[must_use]
pub(crate) fn asks_sysadmin(request: &Request, context: &LevelContext<'_>, level: Level) -> bool {
    matches!(request, Request::Egress { .. })
        && level == Level::Yellow
        && !context.granted
        && context.config.egress_ask == EgressApprover::Sysadmin
}

#[cfg(test)]
#[path = "floor_tests.rs"]
mod tests;
