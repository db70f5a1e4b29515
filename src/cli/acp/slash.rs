//! Commands that a person types in an editor. `/compact`, `/context` and `/new` are the gateway's own.

use agent_client_protocol::v1::schema::AvailableCommand;
use serde_json::Value;

use super::follow::Follow;
use super::host::TIMEOUT;
use super::open_session::Place;
use super::outlet::Outlet;
use crate::cli::{Failure, person};
use crate::id::{AgentId, ChannelId};
use crate::supervise::gateway_client::{Call, Client};

/// A command that `flock acp` carries out by the gateway's routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    /// Asks again about the requests that wait for a person.
    Requests,
    /// Tells what the agents do.
    Status,
    Freeze,
    Thaw,
}

/// The commands of an agent's session, with what they do.
const OF_AGENT: [(&str, &str); 7] = [
    ("compact", "Compact the conversation"),
    ("context", "Show how full the conversation is"),
    ("new", "Begin a new conversation"),
    ("requests", "Ask again about the requests that wait for you"),
    ("status", "Show what the agent does"),
    ("freeze", "Freeze the agent"),
    ("thaw", "Thaw the agent"),
];

/// The commands of a channel.
const OF_CHANNEL: [(&str, &str); 2] =
    [("requests", "Ask again about the requests that wait for you"), ("status", "Show what the agents do")];

/// Returns the commands that an editor offers in a session.
pub(super) fn available(place: &Place) -> Vec<AvailableCommand> {
    let commands: &[_] = match place {
        Place::Agent { .. } => &OF_AGENT,
        Place::Channel(_) => &OF_CHANNEL,
    };
    commands.iter().map(|(name, what)| AvailableCommand::new(*name, *what)).collect()
}

/// Returns the command that a prompt consists of, if it is one of these.
pub(super) fn parse(text: &str) -> Option<SlashCommand> {
    Some(match text.trim() {
        "/requests" => SlashCommand::Requests,
        "/status" => SlashCommand::Status,
        "/freeze" => SlashCommand::Freeze,
        "/thaw" => SlashCommand::Thaw,
        _ => return None,
    })
}

/// Asks again about the requests of the session that wait for a person.
///
/// # Errors
///
/// Returns an error if they can't be listed.
pub(super) async fn ask_again(
    outlet: &Outlet,
    gateway: &Client,
    follow: &mut Follow<'_>,
) -> Result<(), Failure> {
    let listed: Value = gateway.get_json("/api/approvals", TIMEOUT).await?;
    let rows = listed["requests"].as_array().into_iter().flatten();
    let of_here = |row: &&Value| {
        row["state"] == "waiting" && row["session"].as_str().is_some_and(|key| follow.scope.has(key))
    };
    let ids: Vec<&str> = rows.filter(of_here).filter_map(|row| row["id"].as_str()).collect();
    if ids.is_empty() {
        outlet.say("No request of this conversation waits for you.\n").await;
    }
    ids.into_iter().for_each(|id| follow.ask(id));
    Ok(())
}

/// Carries out a command about one agent and tells its result.
///
/// # Errors
///
/// Returns the gateway's own error.
pub(super) async fn run(
    outlet: &Outlet,
    gateway: &Client,
    agent: &AgentId,
    command: SlashCommand,
) -> Result<(), Failure> {
    let verb = match command {
        SlashCommand::Freeze => "freeze",
        SlashCommand::Thaw => "thaw",
        SlashCommand::Status | SlashCommand::Requests => {
            let listed: Value = gateway.get_json("/api/agents", TIMEOUT).await?;
            outlet.say(status(&listed, |id| id == agent.as_str())).await;
            return Ok(());
        }
    };
    let call = Call::post(&format!("/api/agents/{agent}/{verb}?by={}", person::name()));
    let done: Value = gateway.ask(call, TIMEOUT).await?.json(TIMEOUT).await?;
    let now = &done["agents"][0];
    let word = if now["frozen"] == true { "frozen" } else { "not frozen" };
    let problem = now["problem"].as_str().map(|problem| format!(" ({problem})")).unwrap_or_default();
    outlet.say(format!("{agent} is {word}.{problem}\n")).await;
    Ok(())
}

/// Tells what the agents of a channel do.
///
/// # Errors
///
/// Returns the gateway's own error.
pub(super) async fn channel_status(
    outlet: &Outlet,
    gateway: &Client,
    channel: &ChannelId,
) -> Result<(), Failure> {
    let found = outlet.host.channel(gateway, channel).await?;
    let members: Vec<&str> =
        found["members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let listed: Value = gateway.get_json("/api/agents", TIMEOUT).await?;
    outlet.say(status(&listed, |id| members.contains(&id))).await;
    Ok(())
}

/// Returns a line for each of these agents.
fn status(listed: &Value, is_wanted: impl Fn(&str) -> bool) -> String {
    let agents = listed["agents"].as_array().into_iter().flatten();
    let wanted = agents.filter(|agent| agent["id"].as_str().is_some_and(&is_wanted));
    let line = |agent: &Value| {
        let text = |value: &Value| crate::clean::label(value.as_str().unwrap_or_default(), 200);
        let activity = &agent["activity"];
        let detail = text(&activity["detail"]);
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let model = agent["model"].as_str().map(|model| format!(", {model}")).unwrap_or_default();
        format!("- {}: {}{detail}{model}\n", text(&agent["id"]), text(&activity["state"]))
    };
    wanted.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_command_that_is_offered_is_known_here_or_to_the_gateway() {
        for (name, _) in OF_AGENT.iter().chain(&OF_CHANNEL) {
            let text = format!("/{name}");
            assert!(parse(&text).is_some() ^ crate::agent::Command::parse(&text).is_some(), "{name}");
        }
        assert_eq!(parse("/status of the build"), None, "a sentence is no command");
    }

    #[test]
    fn the_status_names_the_state_and_its_reason() {
        let listed = json!({"agents": [
            {"id": "coder", "model": "a/b", "activity": {"state": "working", "detail": "exec"}},
            {"id": "other", "model": null, "activity": {"state": "idle", "detail": null}},
        ]});
        assert_eq!(status(&listed, |id| id == "coder"), "- coder: working (exec), a/b\n");
        assert_eq!(status(&listed, |_| true).lines().last(), Some("- other: idle"));
    }
}
