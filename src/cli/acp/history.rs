//! The past of a conversation: of a session that is opened again, and what happened between two prompts.

use std::collections::HashMap;

use serde_json::Value;

use super::host::{AgentView, TIMEOUT};
use super::open_session::Seen;
use super::outlet::Outlet;
use super::turn_view::{Part, TurnView};
use crate::cli::{Failure, person};
use crate::id::{ChannelId, SessionKey};
use crate::supervise::gateway_client::Client;

/// Turns that one request reads.
const PAGE: usize = 100;
/// Turns of a session that are shown again at most.
const MAX_TURNS: usize = 500;
/// Messages of a channel that are shown again.
const MAX_MESSAGES: usize = 200;

/// Shows the turns of an agent's session, oldest first, if there is an outlet. Returns the last one.
///
/// # Errors
///
/// Returns an error if they can't be read.
pub(super) async fn agent(
    gateway: &Client,
    key: &SessionKey,
    agent: &AgentView,
    outlet: Option<&Outlet>,
) -> Result<Option<String>, Failure> {
    let mut pages: Vec<Vec<Value>> = Vec::new();
    let mut before = String::new();
    let (most, limit) = if outlet.is_some() { (MAX_TURNS / PAGE, PAGE) } else { (1, 1) };
    while pages.len() < most {
        let path = format!("/api/sessions/{key}/transcript?limit={limit}{before}");
        let mut page: Value = gateway.get_json(&path, TIMEOUT).await?;
        pages.push(page["turns"].as_array_mut().map(std::mem::take).unwrap_or_default());
        let Some(turn) = page["before"].as_str() else { break };
        before = format!("&before={turn}");
    }
    let last = pages.first().and_then(|page| last_ended(page));
    if let Some(outlet) = outlet {
        let workspaces = HashMap::from([(agent.id.to_string(), agent.workspace.clone())]);
        let mut view = TurnView::new(outlet, workspaces, false);
        for turn in pages.iter().rev().flatten().filter(|turn| turn["state"] != "started") {
            view.list(agent.id.as_str(), turn, Part::Replay).await;
        }
    }
    Ok(last)
}

/// Shows what the agent's session has had since the last prompt, such as answers to the results of requests. A session
/// that can't be read has nothing to show.
pub(super) async fn catch_up(gateway: &Client, key: &SessionKey, view: &mut TurnView<'_>, seen: &mut Seen) {
    let path = format!("/api/sessions/{key}/transcript?limit=20");
    let listed: Result<Value, _> = gateway.get_json(&path, TIMEOUT).await;
    let Ok(listed) = listed else { return };
    let turns = listed["turns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let before = seen.turn.clone();
    for turn in turns.iter().filter(|turn| turn["turn"].as_str() > before.as_deref()) {
        if turn["state"] == "started" {
            break;
        }
        view.list(key.agent().as_str(), turn, Part::All).await;
        seen.turn = turn["turn"].as_str().map(str::to_owned);
    }
}

/// Returns the last turn of a session that has ended and that none before it still runs.
pub(super) async fn last_turn(gateway: &Client, key: &SessionKey) -> Option<String> {
    let path = format!("/api/sessions/{key}/transcript?limit=20");
    let listed: Value = gateway.get_json(&path, TIMEOUT).await.ok()?;
    last_ended(listed["turns"].as_array()?)
}

fn last_ended(turns: &[Value]) -> Option<String> {
    let ended = turns.iter().take_while(|turn| turn["state"] != "started");
    ended.last().and_then(|turn| turn["turn"].as_str()).map(str::to_owned)
}

/// Shows the newest messages of a channel, oldest first, if there is an outlet. Returns the number of the last one.
///
/// # Errors
///
/// Returns an error if they can't be read.
pub(super) async fn channel(
    gateway: &Client,
    id: &ChannelId,
    outlet: Option<&Outlet>,
) -> Result<u64, Failure> {
    let path = format!("/api/channels/{id}/messages?limit={MAX_MESSAGES}");
    let listed: Value = gateway.get_json(&path, TIMEOUT).await?;
    if let Some(outlet) = outlet {
        for message in listed["messages"].as_array().into_iter().flatten() {
            if is_own(message) {
                outlet.repeat(message["content"].as_str().unwrap_or_default()).await;
            } else {
                outlet.say(spoken(message)).await;
            }
        }
    }
    Ok(listed["lastSeq"].as_u64().unwrap_or_default())
}

/// Returns `true` for a message of the person in the editor.
pub(super) fn is_own(message: &Value) -> bool {
    message["author"] == format!("human:{}", person::name())
}

/// Returns a message of a channel with its author, so that the voices of several agents can be told apart.
pub(super) fn spoken(message: &Value) -> String {
    let text = |key: &str| message[key].as_str().unwrap_or_default();
    format!("**{}**: {}\n\n", text("author"), text("content").trim_end())
}
