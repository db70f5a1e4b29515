//! A prompt to an agent: one turn in its session, streamed, and what follows from the requests that it makes.

use std::collections::HashMap;
use std::time::Duration;

use agent_client_protocol::v1::schema::{ContentBlock, SessionUpdate, StopReason, UsageUpdate};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::follow::{self, Follow, Scope};
use super::history;
use super::host::{AgentView, TIMEOUT};
use super::open_session::Seen;
use super::outlet::Outlet;
use super::prompt_content::PromptContent;
use super::slash::{self, SlashCommand};
use super::turn_view::TurnView;
use crate::cli::Failure;
use crate::error::Kind;
use crate::id::SessionKey;
use crate::supervise::gateway_client::{Call, Client, ServerSentEvent, ServerSentEvents};

/// Time without any event after which the gateway counts as gone. It sends a keep-alive every 15 seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which the end of a cancelled turn is waited for.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two looks at it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the prompt to its end and returns the reason of the end.
///
/// # Errors
///
/// Returns an error if the gateway can't be asked, and the gateway's own error if the turn fails.
pub(super) async fn run(
    outlet: &Outlet,
    (key, agent): (&SessionKey, &AgentView),
    blocks: &[ContentBlock],
    cancel: &CancellationToken,
    seen: &mut Seen,
) -> Result<StopReason, Failure> {
    let content = PromptContent::of(blocks)?;
    let gateway = outlet.host.gateway().await?;
    let workspaces = HashMap::from([(agent.id.to_string(), agent.workspace.clone())]);
    let view = TurnView::new(outlet, workspaces, false);
    let scope = Scope::Session(key.clone());
    let mut follow = Follow::begin(outlet, gateway.clone(), scope, view).await;
    history::catch_up(&gateway, key, &mut follow.view, seen).await;
    follow.seen.clone_from(&seen.turn);
    let mut ended = match slash::parse(&content.text) {
        Some(SlashCommand::Requests) => {
            slash::ask_again(outlet, &gateway, &mut follow).await?;
            Ok(StopReason::EndTurn)
        }
        Some(command) => {
            slash::run(outlet, &gateway, &agent.id, command).await?;
            return Ok(StopReason::EndTurn);
        }
        None => stream(outlet, &gateway, (key, &content), cancel, &mut follow).await,
    };
    if matches!(ended, Ok(StopReason::EndTurn)) {
        ended = settle(&mut follow, cancel).await;
    }
    drop(follow);
    let last = history::last_turn(&gateway, key).await;
    if last > seen.turn {
        seen.turn = last;
    }
    show_usage(outlet, &gateway, key).await;
    ended
}

/// Asks for the turn and passes its answer on.
async fn stream(
    outlet: &Outlet,
    gateway: &Client,
    (key, content): (&SessionKey, &PromptContent),
    cancel: &CancellationToken,
    follow: &mut Follow<'_>,
) -> Result<StopReason, Failure> {
    let body = json!({
        "model": key.agent(),
        "messages": [{"role": "user", "content": content.chat()}],
        "stream": true,
    });
    let call = Call::post("/v1/chat/completions")
        .header("x-openclaw-session-key", key.as_str())
        .header("x-flock-activity", "1")
        .json(&body)?;
    let answer = tokio::select! {
        answer = gateway.ask(call, SILENCE_TIMEOUT) => answer?,
        // Dropping the request closes its connection, which cancels the turn.
        () = cancel.cancelled() => return Ok(StopReason::Cancelled),
    };
    let turn = answer.header("x-flock-turn-id").unwrap_or_default().to_owned();
    follow.own(&turn);
    let mut pieces = TurnStream { turn: &turn, events: answer.events(), stop: StopReason::EndTurn };
    loop {
        tokio::select! {
            event = pieces.events.next(SILENCE_TIMEOUT) => {
                let cut_off = || {
                    let text = "the gateway ended the answer before it was complete";
                    Failure::new(Kind::Failed, text).hint("flock logs gateway")
                };
                let event = event?.ok_or_else(cut_off)?;
                if event.data == "[DONE]" {
                    follow.own_ended();
                    follow.read(key.as_str());
                    return Ok(pieces.stop);
                }
                pieces.take(&event, outlet, follow).await?;
            }
            news = follow.news() => follow.handle(news).await,
            () = cancel.cancelled() => {
                drop(pieces);
                wait_for_end(gateway, &turn).await;
                return Ok(StopReason::Cancelled);
            }
        }
    }
}

/// The answer of a turn as it arrives.
struct TurnStream<'a> {
    turn: &'a str,
    events: ServerSentEvents,
    stop: StopReason,
}

impl TurnStream<'_> {
    async fn take(
        &mut self,
        event: &ServerSentEvent,
        outlet: &Outlet,
        follow: &mut Follow<'_>,
    ) -> Result<(), Failure> {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let text = |key: &str| data[key].as_str().unwrap_or_default();
        let agent = match &follow.scope {
            Scope::Session(key) => key.agent().to_string(),
            Scope::Channel(_) => String::new(),
        };
        match event.name.as_str() {
            "" => return self.chunk(&data, outlet).await,
            "turn.thinking" => outlet.think(text("text")).await,
            "tool.started" => {
                let call = (text("call"), text("tool"));
                follow.view.begin(&agent, self.turn, call, text("arguments")).await;
                if let Scope::Session(key) = &follow.scope {
                    let key = key.to_string();
                    follow.read(&key);
                }
            }
            // The result is read because of the gateway's event of the same name.
            "tool.ended" => follow.view.end(self.turn, text("call"), data["isError"] == true).await,
            "turn.retrying" => {
                outlet.think(format!("\nasking the model again: {}\n", text("reason"))).await;
            }
            "turn.notice" => outlet.think(format!("\n{}\n", text("text"))).await,
            _ => {}
        }
        Ok(())
    }

    /// Takes a piece of the answer.
    async fn chunk(&mut self, data: &Value, outlet: &Outlet) -> Result<(), Failure> {
        if let Some(error) = data.get("error") {
            match error["code"].as_str() {
                Some("too_many_steps" | "looping") => self.stop = StopReason::MaxTurnRequests,
                _ => {
                    let mut failure =
                        Failure::new(Kind::Failed, error["message"].as_str().unwrap_or("the turn failed"));
                    failure.hint = error["hint"].as_str().map(str::to_owned);
                    return Err(failure);
                }
            }
        }
        let choice = &data["choices"][0];
        match choice["finish_reason"].as_str() {
            Some("length") => self.stop = StopReason::MaxTokens,
            Some("content_filter") => self.stop = StopReason::Refusal,
            _ => {}
        }
        if let Some(piece) = choice["delta"]["content"].as_str().filter(|piece| !piece.is_empty()) {
            outlet.say(piece).await;
        }
        Ok(())
    }
}

/// Waits until the requests of the turn are decided and the agent has answered to their results.
async fn settle(follow: &mut Follow<'_>, cancel: &CancellationToken) -> Result<StopReason, Failure> {
    loop {
        let settled_at = follow.settled_at();
        if settled_at.is_some_and(|at| at <= Instant::now()) {
            return Ok(StopReason::EndTurn);
        }
        tokio::select! {
            news = follow.news() => follow.handle(news).await,
            () = follow::moment(settled_at) => {}
            // The requests stay open, and a turn that tells their results goes on: flock began it, not the editor.
            () = cancel.cancelled() => return Ok(StopReason::Cancelled),
        }
    }
}

/// Waits until a turn whose connection was closed has ended, so that nothing of it comes after its end.
async fn wait_for_end(gateway: &Client, turn: &str) {
    let until = Instant::now() + CANCEL_TIMEOUT;
    while Instant::now() < until {
        let listed: Result<Value, _> = gateway.get_json("/api/sessions", TIMEOUT).await;
        let runs = |listed: &Value| {
            listed["turns"].as_array().into_iter().flatten().any(|running| running["turn"] == turn)
        };
        if listed.is_ok_and(|listed| !runs(&listed)) {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Shows how full the conversation is. Without an answer, nothing is shown.
async fn show_usage(outlet: &Outlet, gateway: &Client, key: &SessionKey) {
    let found: Result<Value, _> = gateway.get_json(&format!("/api/sessions/{key}"), TIMEOUT).await;
    let Ok(report) = found else { return };
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let used = number("prompt") + number("tools") + number("conversation");
    if number("window") > 0 {
        outlet.update(SessionUpdate::UsageUpdate(UsageUpdate::new(used, number("window")))).await;
    }
}
