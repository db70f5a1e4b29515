//! Builds an agent's A2A card. One document serves both versions of the protocol. Each version finds its own keys in
//! it, and a client that knows 1.0 uses those.

use serde_json::{Value, json};

use crate::swarm::card::{Card, CardSkill};

/// Returns the card of an agent that clients reach through the gateway at this port.
#[must_use]
pub(crate) fn show(card: &Card, port: u16) -> Value {
    let home = format!("http://127.0.0.1:{port}");
    let url = format!("{home}/flock/a2a/{}", card.agent);
    let interface =
        |version: &str| json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version});
    json!({
        "name": card.name,
        "description": card.description,
        "version": env!("CARGO_PKG_VERSION"),
        "provider": {"organization": "flock", "url": home},
        "supportedInterfaces": [interface("1.0"), interface("0.3")],
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        "capabilities": {
            "streaming": true,
            "pushNotifications": false,
            "stateTransitionHistory": false,
            "extendedAgentCard": false,
        },
        "securitySchemes": {"bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of the home this agent belongs to",
            "httpAuthSecurityScheme": {"scheme": "Bearer", "description": "A token of the home this agent belongs to"},
        }},
        "security": [{"bearer": []}],
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain"],
        "skills": card.skills.iter().map(skill).collect::<Vec<_>>(),
    })
}

/// Returns all cards, each with the id and the role of its agent.
#[must_use]
pub(crate) fn directory(cards: &[Card], port: u16) -> Value {
    let entry = |card: &Card| {
        let mut shown = show(card, port);
        shown["id"] = card.agent.as_str().into();
        shown["role"] = card.role.as_str().into();
        shown
    };
    json!({"agents": cards.iter().map(entry).collect::<Vec<_>>()})
}

fn skill(skill: &CardSkill) -> Value {
    let description = if skill.description.is_empty() { &skill.name } else { &skill.description };
    json!({
        "id": skill.id,
        "name": skill.name,
        "description": description,
        "tags": skill.tags,
        "examples": skill.examples,
    })
}
