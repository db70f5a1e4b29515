//! The page of MCP servers: what they are, whether they run, and which agent may call which of their tools.

use askama::Template;
use serde::Deserialize;

use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};

#[derive(Deserialize)]
struct ServerList {
    servers: Vec<Server>,
}

#[derive(Deserialize)]
struct Server {
    name: String,
    #[serde(default)]
    command: Vec<String>,
    url: Option<String>,
    network: String,
    egress: Vec<String>,
    running: bool,
    title: Option<String>,
    failure: Option<String>,
    grants: Vec<Grant>,
    capabilities: Vec<Capability>,
}

#[derive(Deserialize)]
struct Grant {
    agent: String,
    tool: String,
    waits: bool,
}

#[derive(Deserialize)]
struct Capability {
    agent: String,
    capability: String,
    today: SampledToday,
}

#[derive(Deserialize)]
struct SampledToday {
    calls: u64,
    tokens: u64,
}

#[derive(Template)]
#[template(path = "mcp_servers.html")]
struct ServersPage {
    layout: Layout,
    servers: Vec<ServerView>,
}

struct ServerView {
    name: String,
    /// The title that it gives itself.
    title: String,
    program: String,
    /// The hosts that it may reach. `None` for a server at a URL, which flock does not run.
    network: Option<String>,
    state: &'static str,
    state_text: &'static str,
    failure: String,
    agents: Vec<AgentView>,
}

/// The tools of a server that an agent may call.
struct AgentView {
    agent: String,
    tools: Vec<String>,
    /// The tools that wait until a person has seen their changed definitions.
    waiting: Vec<String>,
    /// The capabilities that the server may use while the agent calls it, with today's use.
    asks: Vec<String>,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let list: ServerList = fetch(api, "/api/mcp/servers").await?;
    let texts = viewer.texts();
    let servers = list.servers.into_iter().map(|server| {
        let (state, state_text) = match (server.running, &server.failure) {
            (true, _) => ("running", texts.mcp_running),
            (false, Some(_)) => ("failed", texts.mcp_failed),
            (false, None) => ("idle", texts.mcp_idle),
        };
        let hosts = if server.egress.is_empty() { server.network } else { server.egress.join(", ") };
        ServerView {
            name: server.name,
            title: server.title.unwrap_or_default(),
            network: server.url.is_none().then_some(hosts),
            program: server.url.unwrap_or_else(|| server.command.join(" ")),
            state,
            state_text,
            failure: server.failure.unwrap_or_default(),
            agents: by_agent(server.grants, server.capabilities),
        }
    });
    let layout = Layout::new(viewer, Some(NavItem::Team), texts.mcp_servers);
    Page::of(&ServersPage { layout, servers: servers.collect() })
}

/// Returns what is granted by agent, in the order of the agents' first grants.
fn by_agent(grants: Vec<Grant>, capabilities: Vec<Capability>) -> Vec<AgentView> {
    let mut agents: Vec<AgentView> = Vec::new();
    for grant in grants {
        let view = view_of(&mut agents, grant.agent);
        if grant.waits {
            view.waiting.push(grant.tool.clone());
        }
        view.tools.push(grant.tool);
    }
    for Capability { agent, capability, today } in capabilities {
        let text = match capability.as_str() {
            "sampling" => format!("sampling ({} × / {} tokens)", today.calls, today.tokens),
            _ => capability,
        };
        view_of(&mut agents, agent).asks.push(text);
    }
    agents
}

fn view_of(agents: &mut Vec<AgentView>, agent: String) -> &mut AgentView {
    let at = agents.iter().position(|view| view.agent == agent).unwrap_or(agents.len());
    if at == agents.len() {
        agents.push(AgentView { agent, tools: Vec::new(), waiting: Vec::new(), asks: Vec::new() });
    }
    &mut agents[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_shown_by_agent_with_those_that_wait() {
        let grant = |agent: &str, tool: &str, waits| Grant { agent: agent.into(), tool: tool.into(), waits };
        let views = by_agent(
            vec![
                grant("coder", "echo", false),
                grant("tester", "echo", true),
                grant("coder", "search", true),
            ],
            vec![Capability {
                agent: "reader".into(),
                capability: "sampling".into(),
                today: SampledToday { calls: 2, tokens: 30 },
            }],
        );
        let shown: Vec<_> = views
            .iter()
            .map(|view| format!("{}: {} ({})", view.agent, view.tools.join(" "), view.waiting.join(" ")))
            .collect();
        assert_eq!(shown, ["coder: echo search (search)", "tester: echo (echo)", "reader:  ()"]);
        assert_eq!(views[2].asks, ["sampling (2 × / 30 tokens)"]);
    }
}
