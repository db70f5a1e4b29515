//! Reads Discord's gateway: the websocket by which events arrive.
//!
//! A task of its own reads, so that heartbeats and answers to buttons are in time while the receiver is busy. The
//! library resumes a session that broke off. If it can't, the connection fails, because what was missed has to be read
//! from the history.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::timeout;
use twilight_gateway::error::ReceiveMessageErrorType;
use twilight_gateway::queue::InMemoryQueue;
use twilight_gateway::{ConfigBuilder, Intents, Message, Shard, ShardId};

use super::model::{GatewayAddress, Interaction};
use super::refusal::APPS;
use super::rest::{Client, Request};
use crate::bridge::platform::PlatformError;

/// Number of events that wait for the receiver. If there are more, they are read from the history later.
pub(super) const MAX_WAITING: usize = 2_000;
/// The longest silence of a connection. Discord answers a heartbeat every 41 seconds.
const MAX_SILENCE: Duration = Duration::from_secs(150);
/// The longest that a new connection takes.
const CONNECTING: Duration = Duration::from_secs(60);
/// Number of times that a connection may break off without an event in between.
const MAX_BREAKS: u32 = 5;
/// The event types that are read.
const WANTED: [&str; 12] = [
    "READY",
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "MESSAGE_DELETE_BULK",
    "MESSAGE_REACTION_ADD",
    "GUILD_CREATE",
    "GUILD_DELETE",
    "CHANNEL_CREATE",
    "CHANNEL_UPDATE",
    "THREAD_CREATE",
    "THREAD_UPDATE",
];
const INTERACTION: &str = "INTERACTION_CREATE";
/// The answer to a button that changes nothing yet.
const DEFERRED: u64 = 6;

/// An event of the gateway.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) kind: String,
    pub(super) data: Box<RawValue>,
}

/// A payload of the gateway.
#[derive(Deserialize)]
struct Payload<'p> {
    op: u64,
    t: Option<String>,
    #[serde(borrow)]
    d: Option<&'p RawValue>,
}

/// Number of a payload that has an event, and of one that ends the session.
const EVENT: u64 = 0;
const INVALID_SESSION: u64 = 9;

/// Makes the connection for a bot. Nothing is sent yet.
///
/// # Errors
///
/// Returns an error if Discord does not tell the gateway's address, or takes no more connections today.
pub(super) async fn shard(
    client: &Client,
    token: &str,
    queue: InMemoryQueue,
) -> Result<Shard, PlatformError> {
    let address: GatewayAddress = client.call(Request::get("/gateway/bot", &[])).await?;
    if address.session_start_limit.remaining == 0 {
        let wait = Duration::from_millis(address.session_start_limit.reset_after.min(86_400_000));
        return Err(PlatformError::RateLimited(wait));
    }
    let intents = Intents::GUILDS
        | Intents::GUILD_MESSAGES
        | Intents::GUILD_MESSAGE_REACTIONS
        | Intents::DIRECT_MESSAGES
        | Intents::DIRECT_MESSAGE_REACTIONS
        | Intents::MESSAGE_CONTENT;
    let mut config = ConfigBuilder::new(token.to_owned(), intents).queue(queue);
    if client.is_elsewhere() {
        let address = address.url.trim_end_matches('/').to_owned();
        let is_url = address
            .parse::<axum::http::Uri>()
            .is_ok_and(|url| matches!(url.scheme_str(), Some("ws" | "wss")) && url.host().is_some());
        if !is_url {
            return Err(PlatformError::Unavailable("the gateway has no address".to_owned()));
        }
        config = config.proxy_url(address);
    }
    Ok(Shard::with_config(ShardId::ONE, config.build()))
}

/// Reads events until the connection fails, and puts them in order into `events`.
pub(super) async fn read(
    mut shard: Shard<InMemoryQueue>,
    client: Arc<Client>,
    events: mpsc::Sender<Dispatch>,
) -> PlatformError {
    let (mut is_ready, mut breaks) = (false, 0);
    loop {
        let patience = if is_ready { MAX_SILENCE } else { CONNECTING };
        let Ok(next) = timeout(patience, shard.next()).await else {
            return PlatformError::Unavailable("the gateway says nothing".to_owned());
        };
        let text = match next {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => {
                let code = frame.map_or(1006, |frame| frame.code);
                breaks += 1;
                match fatal(code) {
                    Some(error) => return error,
                    None if breaks > MAX_BREAKS => {
                        return PlatformError::Unavailable(format!(
                            "the gateway closes each connection: {code}"
                        ));
                    }
                    None => continue,
                }
            }
            Some(Err(error)) => match error.kind() {
                // It can't be read, and the next one may be.
                ReceiveMessageErrorType::Deserializing { .. } => continue,
                _ => return PlatformError::Unavailable("the gateway can't be reached".to_owned()),
            },
            None => return PlatformError::Unavailable("the gateway ended the connection".to_owned()),
        };
        let Ok(payload) = serde_json::from_str::<Payload<'_>>(&text) else { continue };
        if is_ready && payload.op == INVALID_SESSION && payload.d.is_none_or(|data| data.get() != "true") {
            return PlatformError::Unavailable("the session ended, so the history is read".to_owned());
        }
        let (EVENT, Some(kind), Some(data)) = (payload.op, payload.t, payload.d) else { continue };
        breaks = 0;
        if kind == "READY" && std::mem::replace(&mut is_ready, true) {
            return PlatformError::Unavailable("a new session began, so the history is read".to_owned());
        }
        if kind == INTERACTION {
            acknowledge(&client, data);
        } else if !WANTED.contains(&kind.as_str()) {
            continue;
        }
        match events.try_send(Dispatch { kind, data: data.to_owned() }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return PlatformError::Unavailable("events come faster than they are taken".to_owned());
            }
            Err(TrySendError::Closed(_)) => {
                return PlatformError::Unavailable("the gateway stops".to_owned());
            }
        }
    }
}

/// Tells Discord that a button was seen. Without it, Discord says after three seconds that the button failed.
fn acknowledge(client: &Arc<Client>, data: &RawValue) {
    let Ok(interaction) = serde_json::from_str::<Interaction>(data.get()) else { return };
    if super::reading::pressed(interaction.clone()).is_none() {
        return;
    }
    let client = client.clone();
    tokio::spawn(async move {
        let ids = [interaction.id.as_str(), interaction.token.as_str()];
        let request = Request::new(reqwest::Method::POST, "/interactions/{}/{}/callback", &ids);
        let request = request.json(json!({"type": DEFERRED})).with_own_secret();
        if let Err(failure) = client.run(request).await {
            tracing::warn!(error = %failure.error, "failed to tell Discord that a button was seen");
        }
    });
}

/// Returns the error of a code by which the gateway refuses the bot for good. `None` if another attempt may work.
fn fatal(code: u16) -> Option<PlatformError> {
    let refused =
        |text: String| Some(PlatformError::Refused(format!("{text} (the gateway closed with {code})")));
    match code {
        4004 => Some(PlatformError::Unauthorized(format!(
            "the gateway closed with 4004; get a new one at {APPS} under Bot, Reset Token"
        ))),
        4010 | 4011 => refused("the bot is in more servers than one connection can have".to_owned()),
        4012 => refused("Discord no longer has this version of the gateway".to_owned()),
        4013 | 4014 => refused(without_intent()),
        _ => None,
    }
}

/// Says which intent is missing, and where it is given.
pub(super) fn without_intent() -> String {
    format!(
        "the bot can't read messages: switch the Message Content Intent on at {APPS}, in the app under Bot, \
         Privileged Gateway Intents"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_codes_end_a_connection_for_good() {
        assert!(matches!(fatal(4004), Some(PlatformError::Unauthorized(_))));
        assert!(
            matches!(fatal(4014), Some(PlatformError::Refused(why)) if why.contains("Message Content Intent"))
        );
        for code in [1000, 1006, 4000, 4007, 4009] {
            assert_eq!(fatal(code), None);
        }
    }

    #[test]
    fn payloads_are_read_with_whatever_they_hold() {
        let text = r#"{"t":"X","s":1,"op":0,"d":{"a":[1]},"new":true}"#;
        let payload: Payload<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(
            (payload.op, payload.t.as_deref(), payload.d.unwrap().get()),
            (0, Some("X"), r#"{"a":[1]}"#)
        );
        let text = r#"{"t":null,"s":null,"op":9,"d":false}"#;
        assert_eq!(serde_json::from_str::<Payload<'_>>(text).unwrap().d.unwrap().get(), "false");
    }
}
