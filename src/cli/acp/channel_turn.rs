//! A prompt to a channel: a post of the person, and all that its agents say and do until none of them works any more.

use std::collections::HashMap;
use std::time::Duration;

use agent_client_protocol::v1::schema::{ContentBlock, StopReason};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::follow::{self, Follow, Scope};
use super::history;
use super::host::TIMEOUT;
use super::open_session::Seen;
use super::outlet::Outlet;
use super::prompt_content::PromptContent;
use super::slash::{self, SlashCommand};
use super::turn_view::TurnView;
use crate::cli::channel::backend::path;
use crate::cli::{Failure, person};
use crate::id::ChannelId;
use crate::supervise::gateway_client::{Call, Client};

/// Time without anything new after which the agents count as done: an answer may wake another agent.
const QUIET: Duration = Duration::from_secs(2);
/// Time within which a message that was posted before a cancellation has woken its agents.
const WAKE_TIME: Duration = Duration::from_millis(700);
/// Time for which the end of cancelled turns is waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two looks at them.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time within which the first agent begins after a post, if it wakes one.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Posts the prompt and returns when the channel's agents are done.
///
/// # Errors
///
/// Returns an error if the gateway can't be asked, or refuses the post.
pub(super) async fn run(
    outlet: &Outlet,
    channel: &ChannelId,
    blocks: &[ContentBlock],
    cancel: &CancellationToken,
    seen: &mut Seen,
) -> Result<StopReason, Failure> {
    let content = PromptContent::of(blocks)?;
    let gateway = outlet.host.gateway().await?;
    let view = TurnView::new(outlet, workspaces(&gateway).await?, true);
    let mut follow = Follow::begin(outlet, gateway.clone(), Scope::Channel(channel.clone()), view).await;
    let mut talk = Talk { outlet, gateway: &gateway, channel, seen };
    talk.show_new().await?;
    let mut quiet = QUIET;
    match slash::parse(&content.text) {
        Some(SlashCommand::Requests) => {
            slash::ask_again(outlet, &gateway, &mut follow).await?;
            quiet = Duration::ZERO;
        }
        Some(SlashCommand::Status) => {
            slash::channel_status(outlet, &gateway, channel).await?;
            return Ok(StopReason::EndTurn);
        }
        // The others concern one agent, and a channel has several.
        Some(_) | None => talk.post(&content).await?,
    }
    let start_until = Instant::now() + if quiet.is_zero() { Duration::ZERO } else { START_TIMEOUT };
    loop {
        if follow.take_messages() {
            talk.show_new().await?;
        }
        let settled_at = follow.settled_at().map(|at| {
            let started = if follow.has_begun { at } else { at.max(start_until) };
            started.max(follow.active_at + quiet)
        });
        if settled_at.is_some_and(|at| at <= Instant::now()) {
            if !is_waiting(&gateway, &follow.scope).await {
                talk.show_new().await?;
                return Ok(StopReason::EndTurn);
            }
            follow.active_at = Instant::now();
            continue;
        }
        tokio::select! {
            news = follow.news() => follow.handle(news).await,
            () = follow::moment(settled_at) => {}
            () = cancel.cancelled() => {
                // The agents worked because of the prompt, so they stop with it. After the end of stdin they go on: the
                // person has closed an editor, and asked nobody to stop.
                if !outlet.host.over.is_cancelled() {
                    stop(&gateway, &follow.scope).await;
                }
                return Ok(StopReason::Cancelled);
            }
        }
    }
}

/// The conversation in the channel.
struct Talk<'a> {
    outlet: &'a Outlet,
    gateway: &'a Client,
    channel: &'a ChannelId,
    seen: &'a mut Seen,
}

impl Talk<'_> {
    /// Posts what the person said, with its pictures.
    async fn post(&self, content: &PromptContent) -> Result<(), Failure> {
        let mut files = Vec::new();
        for (name, bytes) in content.files()? {
            let call = Call::put(&path("/api/files", &json!({"name": name}))).bytes(&bytes);
            let sent: Value = self.gateway.ask(call, TIMEOUT).await?.json(TIMEOUT).await?;
            files.push(sent["id"].clone());
        }
        let text = if content.text.trim().is_empty() { "(a picture)" } else { &content.text };
        let mut body = json!({"content": text, "as": person::name()});
        if !files.is_empty() {
            body["files"] = json!(files);
        }
        let call = Call::post(&format!("/api/channels/{}/messages", self.channel)).json(&body)?;
        let posted: Value = self.gateway.ask(call, TIMEOUT).await?.json(TIMEOUT).await?;
        for note in posted["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.outlet.think(format!("{note}\n")).await;
        }
        Ok(())
    }

    /// Shows the messages that are new. The person's own ones are in the editor already.
    async fn show_new(&mut self) -> Result<(), Failure> {
        loop {
            let path = format!("/api/channels/{}/messages?after={}", self.channel, self.seen.message);
            let page: Value = self.gateway.get_json(&path, TIMEOUT).await?;
            for message in page["messages"].as_array().into_iter().flatten() {
                if !history::is_own(message) {
                    self.outlet.say(history::spoken(message)).await;
                }
                self.seen.message = message["seq"].as_u64().unwrap_or_default().max(self.seen.message);
            }
            if page["after"].is_null() {
                return Ok(());
            }
        }
    }
}

/// Returns the workspace of each agent.
async fn workspaces(gateway: &Client) -> Result<HashMap<String, String>, Failure> {
    let listed: Value = gateway.get_json("/api/agents", TIMEOUT).await?;
    let text = |agent: &Value, key: &str| agent[key].as_str().map(str::to_owned);
    let agents = listed["agents"].as_array().into_iter().flatten();
    Ok(agents.filter_map(|agent| Some((text(agent, "id")?, text(agent, "workspace")?))).collect())
}

/// Returns `true` if a turn of the channel runs or waits.
async fn is_waiting(gateway: &Client, scope: &Scope) -> bool {
    !working(gateway, scope).await.is_empty()
}

/// Returns the sessions of the channel in which a turn runs or waits. None if the gateway does not tell.
async fn working(gateway: &Client, scope: &Scope) -> Vec<String> {
    let listed: Result<Value, _> = gateway.get_json("/api/sessions", TIMEOUT).await;
    let Ok(listed) = listed else { return Vec::new() };
    let turns = listed["turns"].as_array().into_iter().flatten();
    let sessions = turns.filter_map(|turn| turn["session"].as_str()).filter(|key| scope.has(key));
    sessions.map(str::to_owned).collect()
}

/// Stops the turns of the channel, also those that its last message is about to begin.
async fn stop(gateway: &Client, scope: &Scope) {
    let until = Instant::now() + CANCEL_TIMEOUT;
    let mut quiet_since = Instant::now();
    while Instant::now() < until && quiet_since.elapsed() < WAKE_TIME {
        for session in working(gateway, scope).await {
            quiet_since = Instant::now();
            // A turn that has ended meanwhile needs no stop.
            drop(gateway.ask(Call::post(&format!("/api/sessions/{session}/stop")), TIMEOUT).await);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
