//! Follows what people write: first what was missed, from the history, then what the gateway tells.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::cursor::Cursor;
use super::gateway::{self, Dispatch};
use super::model::{Channel, Deletion, Guild, Message, Reaction, kind};
use super::patience::patiently;
use super::reading::{pressed, reacted};
use super::searching::Side;
use super::{Account, Discord, snowflake};
use crate::bridge::message::{BotAccount, PlatformEvent, Position};
use crate::bridge::platform::PlatformError;

/// A message is in the stored position this much after it was delivered, so that not each one costs a commit.
const CURSOR_DELAY: Duration = Duration::from_secs(1);

/// One connection: where it stands, and to whom it delivers.
struct Following<'f> {
    discord: &'f Discord,
    account: &'f Account,
    events: mpsc::Sender<PlatformEvent>,
    cursor: Cursor,
    /// The time at which the cursor is due to be stored.
    due: Option<Instant>,
}

impl Discord {
    /// Follows the events until the connection fails.
    pub(super) async fn follow(
        &self,
        from: Position,
        events: mpsc::Sender<PlatformEvent>,
    ) -> Result<PlatformError, PlatformError> {
        let account = self.account().await?;
        // Its own webhooks tell flock which messages are its own.
        self.webhooks.load().await?;
        let queue = self.queue.get_or_init(Default::default).clone();
        let shard = gateway::shard(&self.client, &self.token, queue).await?;
        let (sender, mut arriving) = mpsc::channel(gateway::MAX_WAITING);
        let reader = AbortOnDropHandle::new(tokio::spawn(gateway::read(shard, self.client.clone(), sender)));
        let cursor = Cursor::read(from.cursor.as_deref());
        let mut following = Following { discord: self, account, events, cursor, due: None };
        while let Some(dispatch) = following.next(&mut arriving).await? {
            let is_ready = dispatch.kind == "READY";
            following.take(&dispatch).await?;
            if is_ready {
                // The gateway's events wait meanwhile, because they are newer.
                following.fill(&from).await?;
            }
        }
        // A panic of the library, for instance on an address that is none, ends only this connection.
        let ended = reader.await;
        Ok(ended.unwrap_or_else(|_| PlatformError::Unavailable("the gateway can't be understood".to_owned())))
    }
}

impl Following<'_> {
    /// Waits for the next event of the gateway, and stores the position when that is due. `None` if the connection
    /// ended.
    async fn next(
        &mut self,
        arriving: &mut mpsc::Receiver<Dispatch>,
    ) -> Result<Option<Dispatch>, PlatformError> {
        loop {
            let due = self.due;
            let wait = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => self.store().await?,
                dispatch = arriving.recv() => return Ok(dispatch),
            }
        }
    }

    async fn send(&self, event: PlatformEvent) -> Result<(), PlatformError> {
        let sent = self.events.send(event).await;
        sent.map_err(|_| PlatformError::Unavailable("the gateway stops".to_owned()))
    }

    async fn store(&mut self) -> Result<(), PlatformError> {
        self.due = None;
        self.send(PlatformEvent::Cursor(self.cursor.text())).await
    }

    /// Takes an event of the gateway. One that can't be read is passed over.
    async fn take(&mut self, dispatch: &Dispatch) -> Result<(), PlatformError> {
        match dispatch.kind.as_str() {
            "READY" => {
                let account = BotAccount { id: self.account.id.clone(), name: self.account.name.clone() };
                self.send(PlatformEvent::Connected(account)).await
            }
            "MESSAGE_CREATE" => match read::<Message>(dispatch) {
                Some(message) => self.message(message).await,
                None => Ok(()),
            },
            "MESSAGE_UPDATE" => match read::<Message>(dispatch) {
                // Discord also says so when it has looked at the addresses in a message.
                Some(message) if message.edited_timestamp.is_some() => self.edited(message).await,
                _ => Ok(()),
            },
            "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => self.deleted(dispatch).await,
            "MESSAGE_REACTION_ADD" => self.reacted(dispatch).await,
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                self.channel(dispatch).await
            }
            "GUILD_CREATE" => {
                if let Some(guild) = read::<Guild>(dispatch) {
                    self.discord.places(|places| places.learn_guild(guild));
                }
                Ok(())
            }
            // Its messages would be missed while those of other servers move the position on.
            "GUILD_DELETE" if read::<Unavailable>(dispatch).is_some_and(|guild| guild.unavailable) => {
                Err(PlatformError::Unavailable("a server of Discord's does not work now".to_owned()))
            }
            "INTERACTION_CREATE" => match read(dispatch).and_then(pressed) {
                Some(pressed) => self.send(PlatformEvent::Pressed(pressed)).await,
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Delivers a message as it was written.
    async fn message(&mut self, message: Message) -> Result<(), PlatformError> {
        self.locate(&message).await?;
        if let Some(incoming) = self.discord.incoming(&message, self.account) {
            if incoming.is_direct {
                self.cursor.learn_direct(&message.channel_id);
            }
            self.send(PlatformEvent::Message(incoming)).await?;
        }
        if let Some(id) = snowflake::parse(&message.id) {
            self.cursor.see(id);
            self.due.get_or_insert_with(|| Instant::now() + CURSOR_DELAY);
        }
        Ok(())
    }

    async fn edited(&mut self, message: Message) -> Result<(), PlatformError> {
        self.locate(&message).await?;
        match self.discord.incoming(&message, self.account) {
            Some(incoming) => self.send(PlatformEvent::Edited(incoming)).await,
            None => Ok(()),
        }
    }

    async fn deleted(&mut self, dispatch: &Dispatch) -> Result<(), PlatformError> {
        let Some(deletion) = read::<Deletion>(dispatch) else { return Ok(()) };
        for message in std::iter::once(deletion.id).chain(deletion.ids).filter(|id| !id.is_empty()) {
            let external = deletion.channel_id.clone();
            self.send(PlatformEvent::Deleted { external, message }).await?;
        }
        Ok(())
    }

    async fn reacted(&self, dispatch: &Dispatch) -> Result<(), PlatformError> {
        let Some(reaction) = read::<Reaction>(dispatch) else { return Ok(()) };
        let (external, message) = (reaction.channel_id.clone(), reaction.message_id.clone());
        match reacted(reaction) {
            Some((sender, emoji)) if sender.account != self.account.id => {
                self.send(PlatformEvent::Reacted { external, message, sender, emoji }).await
            }
            _ => Ok(()),
        }
    }

    /// Remembers a channel or thread, and tells of a new name.
    async fn channel(&mut self, dispatch: &Dispatch) -> Result<(), PlatformError> {
        let Some(channel) = read::<Channel>(dispatch).filter(|channel| !channel.id.is_empty()) else {
            return Ok(());
        };
        let external = channel.id.clone();
        let known = self.discord.places(|places| places.learn(channel));
        let now = self.discord.places(|places| places.place(&external).cloned());
        match (known, now) {
            (Some(known), Some(now)) if known.name != now.name => {
                self.send(PlatformEvent::Renamed { external, title: now.title() }).await
            }
            _ => Ok(()),
        }
    }

    /// Learns the channel of a message. A thread that nothing is known of is asked for.
    async fn locate(&self, message: &Message) -> Result<(), PlatformError> {
        if message.guild_id.is_none() {
            let (id, kind) = (message.channel_id.clone(), kind::DIRECT);
            self.discord.places(|places| {
                if places.place(&id).is_none() {
                    places.learn(Channel { id, kind, ..Channel::default() });
                }
            });
            return Ok(());
        }
        match patiently(|| self.discord.place(&message.channel_id)).await {
            // It is gone, or flock may not see it any more.
            Err(PlatformError::Refused(_)) => Ok(()),
            located => located.map(drop),
        }
    }

    /// Delivers what was written since the position, channel by channel.
    async fn fill(&mut self, from: &Position) -> Result<(), PlatformError> {
        let mut guilds: Vec<String> = Vec::new();
        for linked in &from.channels {
            match patiently(|| self.discord.place(&linked.external)).await {
                Ok(place) => guilds.extend(place.guild),
                Err(PlatformError::Refused(why)) => {
                    tracing::warn!(channel = linked.external, why, "a linked channel can't be read");
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.fill_channel(&linked.external, linked.since).await?;
        }
        guilds.sort_unstable();
        guilds.dedup();
        for guild in guilds {
            for thread in patiently(|| self.discord.threads_of(&guild)).await? {
                self.fill_thread(from, thread).await?;
            }
        }
        for direct in self.cursor.direct().to_vec() {
            self.discord.places(|places| {
                places.learn(Channel { id: direct.clone(), kind: kind::DIRECT, ..Channel::default() })
            });
            self.fill_channel(&direct, 0).await?;
        }
        self.cursor.complete();
        self.store().await
    }

    /// Fills a thread of a linked channel.
    async fn fill_thread(&mut self, from: &Position, mut thread: Channel) -> Result<(), PlatformError> {
        let parent = thread.parent_id.as_deref().unwrap_or_default();
        let linked = from.channels.iter().find(|linked| linked.external == parent);
        let Some(linked) = linked.filter(|_| from.channels.iter().all(|other| other.external != thread.id))
        else {
            return Ok(());
        };
        let newest = thread.last_message_id.as_deref().and_then(snowflake::parse).unwrap_or(u64::MAX);
        let id = thread.id.clone();
        thread.guild_id = thread.guild_id.or_else(|| {
            self.discord.places(|places| places.place(parent).and_then(|place| place.guild.clone()))
        });
        self.discord.places(|places| places.learn(thread.clone()));
        if newest <= self.cursor.start(&id, linked.since) {
            return Ok(());
        }
        self.fill_channel(&id, linked.since).await
    }

    async fn fill_channel(&mut self, external: &str, since: i64) -> Result<(), PlatformError> {
        let mut after = self.cursor.start(external, since);
        loop {
            let page = match patiently(|| self.discord.page(external, Side::After(after))).await {
                Ok(page) => page,
                Err(PlatformError::Refused(why)) => {
                    tracing::warn!(channel = external, why, "the history of a channel can't be read");
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            for mut message in page.messages {
                // A message without the roles of its sender might not be heard.
                match patiently(|| self.discord.roles_of(&message)).await {
                    Ok(member) => message.member = member,
                    Err(PlatformError::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
                if let Some(incoming) = self.discord.incoming(&message, self.account) {
                    self.send(PlatformEvent::Message(incoming)).await?;
                }
                after = snowflake::parse(&message.id).unwrap_or(after).max(after);
            }
            if page.is_last {
                return Ok(());
            }
            self.cursor.fill(external, after);
            self.store().await?;
        }
    }
}

/// The event of a server that flock's bot has left, or that does not work.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Unavailable {
    unavailable: bool,
}

fn read<T: DeserializeOwned>(dispatch: &Dispatch) -> Option<T> {
    let read = serde_json::from_str(dispatch.data.get());
    if let Err(error) = &read {
        tracing::debug!(kind = dispatch.kind, %error, "an event of Discord's can't be read");
    }
    read.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bridge::discord::answers::Served;
    use crate::bridge::message::LinkedChannel;

    const NOW: i64 = 1_700_000_000_000;

    fn id(seconds: i64) -> String {
        snowflake::at(NOW + 1000 * seconds).to_string()
    }

    fn message(channel: &str, seconds: i64) -> Value {
        json!({
            "id": id(seconds), "channel_id": channel, "guild_id": "9", "content": seconds.to_string(),
            "author": {"id": "8", "username": "ann"}, "member": {"roles": []},
        })
    }

    /// Does something with a connection, and returns the events that come of it.
    async fn events(served: &Served, act: impl AsyncFnOnce(&mut Following<'_>)) -> Vec<PlatformEvent> {
        let (events, mut arriving) = mpsc::channel(1000);
        let account = served.discord.account().await.unwrap();
        let cursor = Cursor::default();
        act(&mut Following { discord: &served.discord, account, events, cursor, due: None }).await;
        let mut found = Vec::new();
        while let Ok(event) = arriving.try_recv() {
            found.push(event);
        }
        found
    }

    async fn taken(served: &Served, kind: &str, data: Value) -> Vec<PlatformEvent> {
        let data = serde_json::value::to_raw_value(&data).unwrap();
        let dispatch = Dispatch { kind: kind.to_owned(), data };
        events(served, async move |following| following.take(&dispatch).await.unwrap()).await
    }

    fn answer(asked: &str) -> (u16, Value) {
        match asked {
            "GET /channels/5" => (200, json!({"id": "5", "type": 0, "guild_id": "9", "name": "news"})),
            "GET /channels/6" => {
                (200, json!({"id": "6", "type": 11, "guild_id": "9", "parent_id": "5", "name": "t"}))
            }
            _ => (404, json!({"message": "Unknown Channel", "code": 10003})),
        }
    }

    #[tokio::test]
    async fn edits_deletions_reactions_and_buttons_are_delivered() {
        let served = Served::start(answer).await;
        let mut edit = message("6", 1);
        assert_eq!(taken(&served, "MESSAGE_UPDATE", edit.clone()).await, []);
        edit["edited_timestamp"] = json!("2023-11-14T22:13:21Z");
        let edited = taken(&served, "MESSAGE_UPDATE", edit).await;
        assert!(matches!(&edited[..], [PlatformEvent::Edited(new)]
            if new.text == "1" && new.thread.as_ref().is_some_and(|thread| thread.channel == "5")));
        let deletion = json!({"ids": ["1", "2"], "channel_id": "5"});
        assert_eq!(taken(&served, "MESSAGE_DELETE_BULK", deletion).await.len(), 2);
        let reaction = |user: &str| {
            json!({
                "user_id": user, "channel_id": "5", "message_id": "6", "emoji": {"id": null, "name": "👍"},
            })
        };
        let reacted = taken(&served, "MESSAGE_REACTION_ADD", reaction("8")).await;
        assert!(matches!(&reacted[..], [PlatformEvent::Reacted { emoji, .. }] if emoji == "👍"));
        assert_eq!(taken(&served, "MESSAGE_REACTION_ADD", reaction("1")).await, []);
        let press = json!({
            "id": "1", "token": "t", "type": 3, "channel_id": "5", "data": {"custom_id": "yes"},
            "message": {"id": "6"}, "member": {"user": {"id": "8"}},
        });
        assert!(matches!(
            &taken(&served, "INTERACTION_CREATE", press).await[..],
            [PlatformEvent::Pressed(_)]
        ));
    }

    #[tokio::test]
    async fn a_new_name_of_a_channel_is_told_once() {
        let served = Served::start(answer).await;
        let named = |name: &str| json!({"id": "5", "type": 0, "guild_id": "9", "name": name});
        assert_eq!(taken(&served, "CHANNEL_CREATE", named("news")).await, []);
        assert_eq!(taken(&served, "CHANNEL_UPDATE", named("news")).await, []);
        let renamed = PlatformEvent::Renamed { external: "5".to_owned(), title: "#olds".to_owned() };
        assert_eq!(taken(&served, "CHANNEL_UPDATE", named("olds")).await, [renamed]);
    }

    #[tokio::test]
    async fn what_can_not_be_read_is_passed_over() {
        let served = Served::start(answer).await;
        for kind in
            ["MESSAGE_CREATE", "MESSAGE_DELETE", "GUILD_CREATE", "CHANNEL_UPDATE", "INTERACTION_CREATE", "X"]
        {
            for data in [json!(null), json!([1]), json!({"id": 5}), json!({"id": {}}), json!("x")] {
                assert_eq!(taken(&served, kind, data).await, [], "{kind}");
            }
        }
        let unknown = taken(&served, "MESSAGE_CREATE", message("404", 1)).await;
        assert!(matches!(&unknown[..], [PlatformEvent::Message(_)]));
    }

    #[tokio::test]
    async fn what_was_missed_is_read_page_by_page_with_the_threads() {
        let since = snowflake::at(NOW) - 1;
        let served = Served::start(move |asked| match asked {
            "GET /guilds/9/threads/active" => {
                let thread =
                    json!({"id": "6", "type": 11, "parent_id": "5", "name": "t", "last_message_id": id(1)});
                let other = json!({"id": "66", "type": 11, "parent_id": "55", "last_message_id": id(1)});
                (200, json!({"threads": [thread, other]}))
            }
            "GET /guilds/9/members/8" => (200, json!({"roles": ["4"]})),
            asked if asked == format!("GET /channels/5/messages?limit=100&after={since}") => {
                (200, (1..=100).rev().map(|seconds| message("5", seconds)).collect())
            }
            asked if asked == format!("GET /channels/5/messages?limit=100&after={}", id(100)) => {
                (200, json!([message("5", 101)]))
            }
            asked if asked.starts_with("GET /channels/6/messages") => (200, json!([message("6", 102)])),
            _ => answer(asked),
        })
        .await;
        let linked = ["5", "404"].map(|external| LinkedChannel { external: external.to_owned(), since: NOW });
        let from = Position { cursor: None, channels: linked.into() };
        let events = events(&served, async |following| following.fill(&from).await.unwrap()).await;
        let texts: Vec<i64> = events
            .iter()
            .filter_map(|event| match event {
                PlatformEvent::Message(message) => message.text.parse().ok(),
                _ => None,
            })
            .collect();
        assert_eq!(texts, (1..=102).collect::<Vec<_>>());
        let cursors: Vec<_> =
            events.iter().filter(|event| matches!(event, PlatformEvent::Cursor(_))).collect();
        assert_eq!(cursors.len(), 2);
        assert!(!served.asked().iter().any(|asked| asked.contains("/channels/66/")));
    }
}
