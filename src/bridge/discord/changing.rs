//! Changes and deletes what flock sent, and does what needs no message.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::model::Channel;
use super::patience::waiting_up_to;
use super::refusal::{Failure, code};
use super::rendering::{render, with_author};
use super::rest::{Body, Request};
use super::sending::{self, Target, is_gone};
use super::{Discord, searching};
use crate::bridge::message::{IncomingMessage, Mention, OutgoingMessage};
use crate::bridge::platform::PlatformError;

/// The longest limit that an answer to one person waits out before it becomes a reply. The next event waits meanwhile.
const SHORT_WAIT: Duration = Duration::from_secs(3);
/// Largest number of people whose direct channel is remembered.
const MAX_DIRECT: usize = 1_000;

impl Discord {
    pub(super) async fn edit_message(
        &self,
        message: &str,
        new: &OutgoingMessage<'_>,
    ) -> Result<(), PlatformError> {
        // Without files, those of the message stay; without buttons, its buttons go.
        let text = render(new.markdown, new.mentions);
        if let Some(target) = self.webhook_for(new.external, false).await? {
            let body = Body::Json(sending::body(&text, new));
            match self.client.run(of_webhook(&target, Method::PATCH, message).body(body)).await {
                Err(failure) if is_of_another(&failure) => {}
                done => return done.map_err(Into::into),
            }
        }
        let body = sending::body(&with_author(new.author, &text), new);
        let request =
            Request::new(Method::PATCH, "/channels/{}/messages/{}", &[new.external, message]).json(body);
        Ok(self.client.run(request.needs("Send Messages")).await?)
    }

    pub(super) async fn delete_message(&self, external: &str, message: &str) -> Result<(), PlatformError> {
        if let Some(target) = self.webhook_for(external, false).await? {
            match self.client.run(of_webhook(&target, Method::DELETE, message)).await {
                Err(failure) if is_of_another(&failure) => {}
                done => return done.map_err(Into::into),
            }
        }
        let request = Request::new(Method::DELETE, "/channels/{}/messages/{}", &[external, message]);
        match self.client.run(request.needs("Manage Messages")).await {
            // Somebody else deleted it.
            Err(failure) if failure.code == code::UNKNOWN_MESSAGE => Ok(()),
            done => done.map_err(Into::into),
        }
    }

    pub(super) async fn add_reaction(
        &self,
        external: &str,
        message: &str,
        emoji: &str,
    ) -> Result<(), PlatformError> {
        let route = "/channels/{}/messages/{}/reactions/{}/@me";
        let request = Request::new(Method::PUT, route, &[external, message, emoji]);
        Ok(self.client.run(request.needs("Add Reactions")).await?)
    }

    pub(super) async fn type_in(&self, external: &str) -> Result<(), PlatformError> {
        let request = Request::new(Method::POST, "/channels/{}/typing", &[external]);
        Ok(self.client.run(request.needs("Send Messages")).await?)
    }

    /// Answers by a direct message or, if the person or Discord takes none now, by a reply that notifies nobody else.
    pub(super) async fn tell(&self, to: &IncomingMessage, markdown: &str) -> Result<(), PlatformError> {
        let key = format!("flock-{}", uuid::Uuid::now_v7());
        let outgoing = OutgoingMessage { markdown, key: &key, ..OutgoingMessage::default() };
        if to.is_direct {
            let outgoing = OutgoingMessage { external: &to.external, ..outgoing };
            return self.send_message(&outgoing).await.map(drop);
        }
        let account = &to.sender.account;
        match waiting_up_to(SHORT_WAIT, || self.tell_directly(account, outgoing.clone())).await {
            Err(PlatformError::Refused(_) | PlatformError::RateLimited(_)) => {}
            done => return done,
        }
        // A user name could contain markup, and the id can't.
        let mentions = [Mention { name: account.clone(), account: account.clone() }];
        let outgoing = OutgoingMessage {
            external: &to.external,
            markdown: &format!("@{account} {markdown}"),
            mentions: &mentions,
            key: &key,
            reply_to: Some(&to.id),
            ..OutgoingMessage::default()
        };
        self.send_message(&outgoing).await.map(drop)
    }

    async fn tell_directly(&self, account: &str, message: OutgoingMessage<'_>) -> Result<(), PlatformError> {
        let external = self.direct_channel(account).await?;
        self.send_message(&OutgoingMessage { external: &external, ..message }).await.map(drop)
    }

    async fn direct_channel(&self, account: &str) -> Result<String, PlatformError> {
        let known = self.direct_channels().get(account).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let request = Request::new(Method::POST, "/users/@me/channels", &[]);
        let direct: Channel = self.client.call(request.json(json!({"recipient_id": account}))).await?;
        let mut channels = self.direct_channels();
        // Opening one again costs little, so nothing is kept of the oldest.
        if channels.len() >= MAX_DIRECT {
            channels.clear();
        }
        channels.insert(account.to_owned(), direct.id.clone());
        Ok(direct.id)
    }

    fn direct_channels(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn has(&self, external: &str, message: &str) -> Result<Option<bool>, PlatformError> {
        match self.client.run(searching::of_message(external, message)).await {
            Ok(()) => Ok(Some(true)),
            Err(failure) if failure.code == code::UNKNOWN_MESSAGE => Ok(Some(false)),
            Err(failure) => Err(failure.error),
        }
    }
}

fn of_webhook(target: &Target, method: Method, message: &str) -> Request {
    let (id, token) = (&target.webhook.id, &target.webhook.token);
    let request = Request::new(method, "/webhooks/{}/{}/messages/{}", &[id, token, message]);
    request.query(target.query("")).with_own_secret()
}

/// Returns `true` if a message is not of this webhook: the bot sent it itself, or an earlier webhook did.
fn is_of_another(failure: &Failure) -> bool {
    failure.code == code::UNKNOWN_MESSAGE || is_gone(failure)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::bridge::discord::answers::Served;

    const NO_MESSAGE: u64 = code::UNKNOWN_MESSAGE;

    /// A channel with a webhook, whose messages have ids from 100 on.
    fn answer(asked: &str) -> (u16, Value) {
        let gone = || (404, json!({"message": "Unknown Message", "code": NO_MESSAGE}));
        match asked {
            "GET /channels/5" => (200, json!({"id": "5", "type": 0, "guild_id": "9"})),
            "GET /channels/5/webhooks" => (200, json!([{"id": "7", "token": "t", "application_id": "2"}])),
            asked if asked.contains("/messages/404") => gone(),
            asked if asked.contains("/webhooks/7/t/messages/") && !asked.contains("/messages/1") => gone(),
            _ => (200, json!({"id": "100"})),
        }
    }

    fn outgoing(external: &str) -> OutgoingMessage<'_> {
        OutgoingMessage { external, author: "coder", markdown: "new", ..OutgoingMessage::default() }
    }

    #[tokio::test]
    async fn a_message_is_changed_by_whoever_sent_it() {
        let served = Served::start(answer).await;
        served.discord.send_message(&outgoing("5")).await.unwrap();
        served.discord.edit_message("100", &outgoing("5")).await.unwrap();
        served.discord.edit_message("200", &outgoing("5")).await.unwrap();
        let asked = served.asked();
        assert_eq!(
            asked[3..],
            [
                "PATCH /webhooks/7/t/messages/100",
                "PATCH /webhooks/7/t/messages/200",
                "PATCH /channels/5/messages/200",
            ]
        );
        assert_eq!(served.body("PATCH /webhooks/7/t/messages/100")["content"], "new");
        let by_bot = served.body("PATCH /channels/5/messages/200");
        assert_eq!((&by_bot["content"], &by_bot["components"]), (&json!("**[coder]** new"), &json!([])));
    }

    #[tokio::test]
    async fn a_message_that_is_gone_counts_as_deleted() {
        let served = Served::start(answer).await;
        served.discord.delete_message("5", "404").await.unwrap();
        assert_eq!(served.discord.has("5", "404").await, Ok(Some(false)));
        assert_eq!(served.discord.has("5", "100").await, Ok(Some(true)));
        served.discord.add_reaction("5", "100", "👍").await.unwrap();
        assert_eq!(served.asked().last().unwrap(), "PUT /channels/5/messages/100/reactions/%f0%9f%91%8d/@me");
    }

    fn stranger() -> IncomingMessage {
        let mut to =
            IncomingMessage { external: "5".to_owned(), id: "50".to_owned(), ..IncomingMessage::default() };
        to.sender.account = "8".to_owned();
        to
    }

    #[tokio::test]
    async fn somebody_is_answered_apart_by_a_direct_message() {
        let served = Served::start(|asked| match asked {
            "POST /users/@me/channels" => (200, json!({"id": "6"})),
            _ => answer(asked),
        })
        .await;
        served.discord.tell(&stranger(), "not here").await.unwrap();
        assert_eq!(served.body("POST /channels/6/messages")["content"], "not here");
        served.discord.tell(&stranger(), "nor there").await.unwrap();
        let opened = served.asked().into_iter().filter(|asked| asked.ends_with("/users/@me/channels"));
        assert_eq!(opened.count(), 1, "the channel is remembered");
    }

    #[tokio::test]
    async fn somebody_is_answered_in_the_channel_where_discord_opens_no_direct_one_now() {
        let served = Served::start(|asked| match asked {
            "POST /users/@me/channels" => (
                429,
                json!({"message": "You are being rate limited.", "retry_after": 600.0, "global": false}),
            ),
            _ => answer(asked),
        })
        .await;
        served.discord.tell(&stranger(), "not here").await.unwrap();
        assert_eq!(served.body("POST /channels/5/messages")["content"], "<@8> not here");
    }

    #[tokio::test]
    async fn somebody_who_takes_no_direct_messages_is_answered_alone() {
        let served = Served::start(|asked| match asked {
            "POST /users/@me/channels" => (200, json!({"id": "6"})),
            "POST /channels/6/messages" => {
                (403, json!({"message": "Cannot send messages to this user", "code": 50007}))
            }
            _ => answer(asked),
        })
        .await;
        served.discord.tell(&stranger(), "not here").await.unwrap();
        let body = served.body("POST /channels/5/messages");
        assert_eq!(body["content"], "<@8> not here");
        assert_eq!(body["allowed_mentions"], json!({"parse": [], "users": ["8"], "replied_user": false}));
        assert_eq!(body["message_reference"]["message_id"], "50");
    }
}
