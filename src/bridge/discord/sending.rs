//! Sends messages: by a webhook under the author's name where there may be one, else by the bot with the name before
//! the text.

use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::model::{Message, kind};
use super::places::Place;
use super::refusal::{Failure, code};
use super::rendering::{render, username, with_author};
use super::rest::Request;
use super::webhooks::Webhook;
use super::{Discord, form};
use crate::bridge::message::{Button, OutgoingMessage};
use crate::bridge::platform::PlatformError;

/// Keeps Discord from fetching the addresses in a message and from showing what is there. An agent that was deceived
/// could put what it knows into an address.
const WITHOUT_PREVIEWS: u64 = 1 << 2;
/// Largest number of accounts in the list of those who may be notified.
const MAX_MENTIONS: usize = 100;
/// Discord's number of a row of buttons.
const ROW: u64 = 1;
const BUTTON: u64 = 2;
const GREEN: u64 = 3;
const RED: u64 = 4;
/// Largest number of buttons in a row, and of rows.
const MAX_IN_ROW: usize = 5;
const MAX_LABEL: usize = 80;

impl Discord {
    pub(super) async fn send_message(&self, message: &OutgoingMessage<'_>) -> Result<String, PlatformError> {
        // A webhook can't answer a message, so an answer comes from the bot.
        if message.author.is_empty() || message.reply_to.is_some() {
            return self.post(message).await;
        }
        // A webhook that somebody deleted is made again, once.
        for _ in 0..2 {
            let Some(target) = self.webhook_for(message.external, true).await? else { break };
            match self.execute(&target, message).await {
                Ok(id) => return Ok(id),
                Err(failure) if is_gone(&failure) => {
                    self.webhooks.forget(&target.channel, &target.webhook).await?;
                }
                Err(failure) => return Err(failure.error),
            }
        }
        self.post(message).await
    }

    /// Sends a message by the bot itself.
    async fn post(&self, message: &OutgoingMessage<'_>) -> Result<String, PlatformError> {
        let text = with_author(message.author, &render(message.markdown, message.mentions));
        let mut body = body(&text, message);
        body["nonce"] = json!(nonce(message.key));
        body["enforce_nonce"] = json!(true);
        if let Some(answered) = message.reply_to {
            body["message_reference"] = json!({"message_id": answered, "fail_if_not_exists": false});
        }
        let request = Request::new(Method::POST, "/channels/{}/messages", &[message.external]);
        let request = request.body(form::body(body, message.files)).needs("Send Messages");
        Ok(self.client.call::<Message>(request).await?.id)
    }

    async fn execute(&self, target: &Target, message: &OutgoingMessage<'_>) -> Result<String, Failure> {
        let mut body = body(&render(message.markdown, message.mentions), message);
        body["username"] = json!(username(message.author));
        if let Some(avatar) = message.avatar {
            body["avatar_url"] = json!(avatar);
        }
        let Webhook { id, token } = &target.webhook;
        // The answer of an executed webhook is empty without `wait`.
        let mut query = "wait=true".to_owned();
        if !message.buttons.is_empty() {
            query.push_str("&with_components=true");
        }
        let request = Request::new(Method::POST, "/webhooks/{}/{}", &[id, token]);
        let request = request.query(target.query(&query)).body(form::body(body, message.files));
        Ok(self.client.call::<Message>(request.with_own_secret()).await?.id)
    }

    /// Returns the webhook that writes in a channel or thread. If `makes` is set, it is made if there is none.
    pub(super) async fn webhook_for(
        &self,
        external: &str,
        makes: bool,
    ) -> Result<Option<Target>, PlatformError> {
        let place = self.place(external).await?;
        if place.kind == kind::DIRECT {
            return Ok(None);
        }
        let channel = place.thread_of().unwrap_or(external).to_owned();
        let webhook = if makes {
            self.webhooks.of(&self.client, &self.account().await?.application, &channel).await?
        } else {
            self.webhooks.known(&channel).await?
        };
        let thread = (channel != external).then(|| external.to_owned());
        Ok(webhook.map(|webhook| Target { webhook, channel, thread }))
    }

    /// Returns what is known of a channel, and asks if nothing is.
    pub(super) async fn place(&self, external: &str) -> Result<Place, PlatformError> {
        if let Some(known) = self.places(|places| places.place(external).cloned()) {
            return Ok(known);
        }
        let channel = self.channel(external).await?;
        self.places(|places| places.learn(channel.clone()));
        Ok(Place::of(channel))
    }
}

/// A webhook, and the thread that it writes in if it is not the channel itself.
pub(super) struct Target {
    pub(super) webhook: Webhook,
    pub(super) channel: String,
    thread: Option<String>,
}

impl Target {
    /// Returns the query of a request, with the thread.
    pub(super) fn query(&self, query: &str) -> String {
        match &self.thread {
            Some(thread) if query.is_empty() => format!("thread_id={thread}"),
            Some(thread) => format!("{query}&thread_id={thread}"),
            None => query.to_owned(),
        }
    }
}

/// Returns `true` if the webhook is there no more, or has another token.
pub(super) fn is_gone(failure: &Failure) -> bool {
    matches!(failure.code, code::UNKNOWN_WEBHOOK | code::INVALID_WEBHOOK_TOKEN)
}

/// Returns what a message has in all forms. It notifies those whom it mentions on purpose and nobody else.
pub(super) fn body(text: &str, message: &OutgoingMessage<'_>) -> Value {
    let users = message.mentions.iter().map(|mention| mention.account.as_str());
    let mut users: Vec<&str> = users.filter(|id| super::snowflake::parse(id).is_some()).collect();
    users.sort_unstable();
    users.dedup();
    users.truncate(MAX_MENTIONS);
    json!({
        "content": text,
        "allowed_mentions": {"parse": [], "users": users, "replied_user": false},
        "flags": WITHOUT_PREVIEWS,
        "components": rows(message.buttons),
    })
}

fn rows(buttons: &[Button]) -> Vec<Value> {
    let button = |button: &Button| {
        let label: String = button.label.chars().take(MAX_LABEL).collect();
        json!({
            "type": BUTTON, "style": if button.is_positive { GREEN } else { RED }, "custom_id": button.id,
            "label": if label.trim().is_empty() { "?".to_owned() } else { label },
        })
    };
    let row = |row: &[Button]| json!({"type": ROW, "components": row.iter().map(button).collect::<Vec<_>>()});
    buttons.chunks(MAX_IN_ROW).take(MAX_IN_ROW).map(row).collect()
}

/// Returns the key as Discord takes it, in at most 25 characters.
fn nonce(key: &str) -> String {
    crate::id::hex(&Sha256::digest(key)[..12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::message::Mention;

    #[test]
    fn a_message_notifies_those_whom_it_mentions_and_nobody_else() {
        let mention = |account: &str| Mention { name: "a".to_owned(), account: account.to_owned() };
        let mentions = [mention("2"), mention("1"), mention("2"), mention("everyone")];
        let message = OutgoingMessage { mentions: &mentions, ..OutgoingMessage::default() };
        let allowed = json!({"parse": [], "users": ["1", "2"], "replied_user": false});
        assert_eq!(body("@everyone", &message)["allowed_mentions"], allowed);
    }

    #[test]
    fn buttons_stand_in_rows_and_report_their_id() {
        let button = |id: &str, is_positive| Button { id: id.to_owned(), label: "l".repeat(90), is_positive };
        let rows = rows(&[button("yes", true), button("no", false)]);
        let row = &rows[0]["components"];
        assert_eq!((rows.len(), &row[0]["custom_id"], &row[1]["style"]), (1, &json!("yes"), &json!(RED)));
        assert_eq!(row[0]["label"], json!("l".repeat(80)));
        let many: Vec<_> = (0..40).map(|number| button(&number.to_string(), true)).collect();
        assert_eq!(super::rows(&many).len(), 5);
    }

    #[test]
    fn the_nonce_is_short_and_one_for_each_key() {
        assert!(nonce("flock-a").len() <= 25);
        assert_eq!(nonce("flock-a"), nonce("flock-a"));
        assert_ne!(nonce("flock-a"), nonce("flock-b"));
    }
}
