//! Follows the updates of a bot.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::incoming;
use super::names::{Bot, title_of};
use super::{Moved, Telegram};
use crate::bridge::message::{BotAccount, IncomingMessage, PlatformEvent, Position};
use crate::bridge::platform::PlatformError;
use crate::clean;

/// Time that Telegram holds a request for updates while there are none.
const POLL: Duration = Duration::from_secs(30);
/// Time within which a pressed button has to be answered, or the next update is taken without it.
const ANSWER: Duration = Duration::from_secs(5);
/// Largest number of updates in one answer, which is the most that Telegram gives.
const BATCH: usize = 100;
/// The kinds of updates that are asked for. Telegram sends no others then.
const KINDS: [&str; 6] =
    ["message", "edited_message", "channel_post", "callback_query", "my_chat_member", "message_reaction"];

/// The facts about flock's own account.
pub(super) struct Me {
    pub(super) bot: Bot,
    /// Set if privacy mode is off.
    pub(super) reads_all: bool,
}

impl Me {
    pub(super) fn account(&self) -> BotAccount {
        BotAccount { id: self.bot.id.to_string(), name: format!("@{}", self.bot.username) }
    }
}

/// The receiver of the events is gone.
struct Closed;

impl Telegram {
    pub(super) async fn me(&self) -> Result<Me, PlatformError> {
        let me = self.call("getMe", &json!({})).await?;
        let id = me["id"].as_i64();
        let id =
            id.ok_or_else(|| PlatformError::Unavailable("Telegram does not say who the bot is".to_owned()))?;
        let username = me["username"].as_str().unwrap_or_default().to_owned();
        Ok(Me { bot: Bot { id, username }, reads_all: me["can_read_all_group_messages"] == true })
    }

    /// Follows the updates until the receiver is gone.
    pub(super) async fn follow(
        &self,
        from: Position,
        events: &mpsc::Sender<PlatformEvent>,
    ) -> Result<(), PlatformError> {
        let me = self.me().await?;
        let mut offset = from.cursor.and_then(|cursor| cursor.parse::<i64>().ok());
        let since: HashMap<String, i64> =
            from.channels.into_iter().map(|channel| (channel.external, channel.since)).collect();
        // The first answer comes at once, so that the connection is known to stand.
        let mut wait = Duration::ZERO;
        loop {
            let updates = self.poll(offset, wait).await?;
            wait = POLL;
            let next = next_offset(&updates)?;
            if self.deliver(&updates, next, &me, &since, events).await.is_err() {
                return Ok(());
            }
            offset = next.or(offset);
        }
    }

    async fn poll(&self, offset: Option<i64>, wait: Duration) -> Result<Vec<Value>, PlatformError> {
        let mut parameters = json!({"timeout": wait.as_secs(), "limit": BATCH, "allowed_updates": KINDS});
        if let Some(offset) = offset {
            parameters["offset"] = json!(offset);
        }
        match self.call("getUpdates", &parameters).await? {
            Value::Array(updates) => Ok(updates),
            _ => Err(PlatformError::Unavailable("Telegram's answer has no updates".to_owned())),
        }
    }

    /// Delivers what an answer has, and returns when all of it was taken.
    async fn deliver(
        &self,
        updates: &[Value],
        next: Option<i64>,
        me: &Me,
        since: &HashMap<String, i64>,
        events: &mpsc::Sender<PlatformEvent>,
    ) -> Result<(), Closed> {
        let send = async |event| events.send(event).await.map_err(|_| Closed);
        send(PlatformEvent::Connected(me.account())).await?;
        for event in self.untold_moves() {
            send(event).await?;
        }
        for update in updates {
            self.answer_press(&update["callback_query"]).await;
            tell_of_membership(&update["my_chat_member"], &me.bot);
            for event in incoming::events(update, &me.bot, &self.topics) {
                if !is_too_old(&event, since) {
                    send(event).await?;
                }
            }
        }
        let Some(next) = next else { return Ok(()) };
        send(PlatformEvent::Cursor(next.to_string())).await?;
        // The next request confirms these updates, and then Telegram forgets them. The receiver takes one event after
        // the other, so once it has fetched an event behind the cursor, the cursor is stored.
        send(PlatformEvent::Connected(me.account())).await?;
        events.reserve_many(events.max_capacity()).await.map(drop).map_err(|_| Closed)
    }

    /// Returns events for the groups of which a failed request told that they became supergroups.
    fn untold_moves(&self) -> Vec<PlatformEvent> {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = moved.iter_mut().filter(|(_, moved)| !moved.is_told);
        untold
            .map(|(from, moved)| {
                let Moved { to, is_told } = moved;
                *is_told = true;
                PlatformEvent::Moved { from: from.to_string(), to: to.to_string() }
            })
            .collect()
    }

    /// Ends the wait that Telegram shows on a pressed button. An answer that fails changes nothing for flock.
    async fn answer_press(&self, query: &Value) {
        let Some(id) = query["id"].as_str() else { return };
        let parameters = json!({"callback_query_id": id});
        let answered = self.call("answerCallbackQuery", &parameters);
        if let Ok(Err(error)) = tokio::time::timeout(ANSWER, answered).await {
            tracing::debug!(%error, "failed to answer a pressed button");
        }
    }
}

/// Returns the offset behind these updates. It is not the largest one ever seen: after a week without updates Telegram
/// begins to count at another number.
fn next_offset(updates: &[Value]) -> Result<Option<i64>, PlatformError> {
    let last = updates.iter().rev().find_map(|update| update["update_id"].as_i64());
    match last {
        None if !updates.is_empty() => {
            // They would come again at once, for ever.
            Err(PlatformError::Unavailable("Telegram's updates have no numbers".to_owned()))
        }
        last => Ok(last.map(|last| last.saturating_add(1))),
    }
}

/// Returns `true` for a message from before its channel was linked. Telegram's times have whole seconds.
fn is_too_old(event: &PlatformEvent, since: &HashMap<String, i64>) -> bool {
    let (PlatformEvent::Message(message) | PlatformEvent::Edited(message)) = event else { return false };
    let IncomingMessage { external, thread, sent_at, .. } = message;
    let linked = since.get(external).or_else(|| since.get(&thread.as_ref()?.channel));
    linked.is_some_and(|&since| sent_at.saturating_add(999) < since)
}

/// Writes into the log which group the bot was added to: people have no other simple way to its id.
fn tell_of_membership(change: &Value, bot: &Bot) {
    let (chat, new) = (&change["chat"], &change["new_chat_member"]);
    let (Some(id), Some(status)) = (chat["id"].as_i64(), new["status"].as_str()) else { return };
    if new["user"]["id"].as_i64() != Some(bot.id) || chat["type"] == "private" {
        return;
    }
    let title = clean::summary(&title_of(chat), 80);
    match status {
        "member" | "administrator" | "restricted" => {
            let hint = format!("flock bridge link CHANNEL BRIDGE:{id}");
            tracing::info!(id, ?title, status, hint, "the bot is in a Telegram group");
        }
        _ => tracing::warn!(id, ?title, "the bot is no longer in a Telegram group"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_behind_the_last_update() {
        let next = |updates: Value| next_offset(updates.as_array().unwrap());
        assert_eq!(next(json!([])), Ok(None));
        assert_eq!(next(json!([{"update_id": 9}, {"update_id": 4}, {"x": 1}])), Ok(Some(5)));
        assert_eq!(next(json!([{"update_id": i64::MAX}])), Ok(Some(i64::MAX)));
        assert!(next(json!([{"x": 1}, 2])).is_err());
    }

    #[test]
    fn what_is_older_than_its_link_is_left_out() {
        let since = HashMap::from([("-1".to_owned(), 5_500)]);
        let message = |external: &str, sent_at| {
            let external = external.to_owned();
            PlatformEvent::Message(IncomingMessage { external, sent_at, ..IncomingMessage::default() })
        };
        assert!(is_too_old(&message("-1", 4_000), &since));
        assert!(!is_too_old(&message("-1", 5_000), &since));
        assert!(!is_too_old(&message("-2", 4_000), &since));
        assert!(!is_too_old(&PlatformEvent::Cursor("1".to_owned()), &since));
    }
}
