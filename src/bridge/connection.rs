//! One bridge at work: it stays connected, takes what people write, and sends what waits in the outbox.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Notify, mpsc};

use super::decision::{Decisions, Unanswered, WrongAnswers};
use super::inbound::{Inbound, Taken};
use super::message::{IncomingMessage, LinkedChannel, PlatformEvent, Position};
use super::outbound::{Attempt, Outbound};
use super::platform::{Platform, PlatformError};
use super::side_by_side::until;
use super::turns::Turns;
use super::{retry, text, typing};
use crate::clock::unix_ms;
use crate::config::Bridge;
use crate::error::chain;
use crate::id::{ChannelId, Party};
use crate::store::{Link, OutboxContent, OutboxEntry, StoreError};
use crate::swarm::triage::Triage;
use crate::swarm::{Swarm, SwarmError};

/// Longest time for which a message waits to be sent.
const MAX_AGE: Duration = Duration::from_secs(7 * 86_400);
/// Largest number of messages that wait for one link.
const MAX_WAITING: u64 = 10_000;
/// Time between two looks for messages that wait too long or are too many.
const TRIM_INTERVAL: Duration = Duration::from_secs(60);
/// The wait before the database is tried again.
const DATABASE_WAIT: Duration = Duration::from_secs(1);
/// A connection that stood this long has recovered, so the next failure is the first one.
const STABLE: Duration = Duration::from_secs(60);

/// The facts about a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BridgeStatus {
    /// The platform's id of flock's account, once it was connected.
    pub(crate) account: Option<String>,
    /// Unix milliseconds since which it is connected; `None` if it is not.
    pub(crate) connected_since: Option<i64>,
    /// The last failure, until the next success.
    pub(crate) last_error: Option<String>,
    /// Unix milliseconds until which the platform takes no messages.
    pub(crate) limited_until: Option<i64>,
    /// Unix milliseconds of the last message from the platform.
    pub(crate) last_received: Option<i64>,
    /// Unix milliseconds of the last message to the platform.
    pub(crate) last_sent: Option<i64>,
}

/// The state that a bridge's task shares with those who ask for it.
#[derive(Default)]
pub(super) struct SharedState {
    status: Mutex<BridgeStatus>,
    /// Wakes the sender after a post.
    pub(super) wake: Notify,
    /// Wakes the sender of answers to direct messages, after the end of a task.
    pub(super) wake_answers: Notify,
    /// Wakes the one who shows requests, after a change of one.
    pub(super) wake_decisions: Notify,
}

impl SharedState {
    pub(super) fn status(&self) -> BridgeStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut BridgeStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A running bridge.
pub(super) struct Connection {
    swarm: Arc<Swarm>,
    triage: Arc<Triage>,
    bridge: Bridge,
    platform: Box<dyn Platform>,
    shared: Arc<SharedState>,
    turns: Turns,
    wrong: Mutex<WrongAnswers>,
    unanswered: Unanswered,
}

impl Connection {
    pub(super) fn new(
        triage: Arc<Triage>,
        bridge: Bridge,
        platform: Box<dyn Platform>,
        shared: Arc<SharedState>,
        turns: Turns,
    ) -> Self {
        let (swarm, wrong, unanswered) = (triage.swarm().clone(), Mutex::default(), Unanswered::default());
        Self { swarm, triage, bridge, platform, shared, turns, wrong, unanswered }
    }

    fn decisions(&self) -> Decisions<'_> {
        let Self { triage, bridge, platform, wrong, unanswered, .. } = self;
        Decisions { triage, bridge, platform: &**platform, wrong, unanswered }
    }

    /// Runs until it is dropped. Every step of both ways is committed before the next one, so it can be dropped at any
    /// moment.
    pub(super) async fn run(&self) {
        let typing = typing::show(&self.swarm, &self.bridge.name, &*self.platform, &self.turns);
        let decisions = self.decisions();
        let decisions = decisions.keep(&self.shared.wake_decisions);
        tokio::join!(self.receive(), self.send(), self.answer_direct(), self.trim(), typing, decisions);
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound { swarm: &self.swarm, bridge: &self.bridge, platform: &*self.platform, turns: &self.turns }
    }

    fn note(&self, change: impl FnOnce(&mut BridgeStatus)) {
        self.shared.note(change);
    }

    /// Stays connected, and takes what arrives.
    async fn receive(&self) {
        let mut failed = 0;
        loop {
            let began = std::time::Instant::now();
            let error = self.receive_once().await;
            self.note(|status| {
                status.connected_since = None;
                status.last_error = Some(error.to_string());
            });
            failed = if began.elapsed() > STABLE { 1 } else { failed + 1 };
            let wait = match &error {
                PlatformError::RateLimited(wait) => *wait,
                // Only a person can mend these.
                PlatformError::Unauthorized(_) | PlatformError::Refused(_) => Duration::from_secs(300),
                PlatformError::Unavailable(_) => retry::wait(failed, rand::random()),
            };
            tracing::warn!(bridge = self.bridge.name, %error, ?wait, "a bridge lost its connection");
            tokio::time::sleep(wait).await;
        }
    }

    async fn receive_once(&self) -> PlatformError {
        let from = loop {
            match self.position().await {
                Ok(position) => break position,
                Err(error) => self.wait_for_database(&error).await,
            }
        };
        // The room for one event makes the platform wait until the last one was taken.
        let (sender, mut events) = mpsc::channel(1);
        let taking = async {
            while let Some(event) = events.recv().await {
                self.take(event).await;
            }
        };
        let connected = self.platform.connect(from, sender);
        // The receiver ends with the connection, because the connection owns the only sender.
        tokio::join!(connected, taking).0
    }

    /// Returns the place up to which everything was taken.
    async fn position(&self) -> Result<Position, StoreError> {
        let links = self.swarm.store().links();
        let cursor = links.cursor(&self.bridge.name).await?;
        let links = self.swarm.store().links().list(Some(&self.bridge.name)).await?;
        let channel = |link: Link| LinkedChannel { external: link.external, since: link.created_at };
        Ok(Position { cursor, channels: links.into_iter().map(channel).collect() })
    }

    /// Takes one event. It does not return before the event is committed: the next cursor is stored after it.
    pub(super) async fn take(&self, event: PlatformEvent) {
        loop {
            let taken = match &event {
                PlatformEvent::Connected(account) => {
                    self.note(|status| {
                        status.account = Some(account.id.clone());
                        status.last_error = None;
                        status.connected_since.get_or_insert_with(unix_ms);
                    });
                    return;
                }
                PlatformEvent::Cursor(cursor) => {
                    let store = self.swarm.store();
                    let stored = store.links().set_cursor(self.bridge.name.clone(), cursor.clone()).await;
                    stored.map(|()| Taken::Ignored).map_err(Into::into)
                }
                PlatformEvent::Message(message) => match self.decisions().reply(message).await {
                    Ok(true) => Ok(Taken::Ignored),
                    Ok(false) => self.inbound().take(message).await,
                    Err(error) => Err(error.into()),
                },
                PlatformEvent::Edited(message) => self.inbound().change(message, false).await,
                PlatformEvent::Deleted { external, message } => {
                    let deleted = IncomingMessage {
                        external: external.clone(),
                        id: message.clone(),
                        ..IncomingMessage::default()
                    };
                    let changed = self.inbound().change(&deleted, true).await;
                    self.delete_copies(external, message).await;
                    changed
                }
                PlatformEvent::Renamed { external, title } => {
                    let title = crate::clean::summary(title, 100);
                    let links = self.swarm.store().links();
                    let renamed = links.set_title(self.bridge.name.clone(), external.clone(), title).await;
                    renamed.map(|()| Taken::Ignored).map_err(Into::into)
                }
                PlatformEvent::Moved { from, to } => {
                    tracing::info!(bridge = self.bridge.name, from, to, "a linked channel has another id");
                    let links = self.swarm.store().links();
                    let moved = links.set_external(self.bridge.name.clone(), from.clone(), to.clone()).await;
                    moved.map(|()| Taken::Ignored).map_err(Into::into)
                }
                PlatformEvent::Pressed(press) => {
                    let pressed = self.decisions().pressed(press).await;
                    pressed.map(|()| Taken::Ignored).map_err(Into::into)
                }
                PlatformEvent::Reacted { external, message, sender, emoji } => {
                    let reacted = self.decisions().reacted(external, message, sender, emoji).await;
                    reacted.map(|()| Taken::Ignored).map_err(Into::into)
                }
            };
            match (&taken, &event) {
                (Ok(Taken::Posted { .. }), _) => {
                    return self.note(|status| status.last_received = Some(unix_ms()));
                }
                (Ok(Taken::NotHeard(link)), PlatformEvent::Message(message)) => {
                    return self.refuse(link, message).await;
                }
                (Ok(Taken::Direct), PlatformEvent::Message(message)) => {
                    // The answer may take minutes, so the person sees at once that the message was taken.
                    if let Err(error) = self.platform.react(&message.external, &message.id, "👀").await {
                        tracing::debug!(bridge = self.bridge.name, %error, "a message got no reaction");
                    }
                    return self.note(|status| status.last_received = Some(unix_ms()));
                }
                (Ok(Taken::NotAllowed), PlatformEvent::Message(message)) => {
                    tracing::info!(
                        bridge = self.bridge.name,
                        account = message.sender.account,
                        "somebody is not heard"
                    );
                    let text = "Nobody reads this: the owner of this flock has not let you in.";
                    return drop(self.answer(message, text).await);
                }
                (Ok(Taken::Answered(text)), PlatformEvent::Message(message)) => {
                    return drop(self.answer(message, text).await);
                }
                (Ok(Taken::Refused(why)), PlatformEvent::Message(message)) => {
                    let text = format!("Your message was not taken: {why}.");
                    return drop(self.answer(message, &text).await);
                }
                (Ok(_), _) => return,
                (Err(error), _) if !matches!(error, SwarmError::Store(_)) => {
                    tracing::warn!(error = chain(error), "a message from a platform was not taken");
                    return;
                }
                (Err(error), _) => self.wait_for_database(error).await,
            }
        }
    }

    /// Deletes the copies of a deleted message in the other channels of this platform that it crossed to. A copy that
    /// can't be deleted stays: the notice of the deletion is there too.
    async fn delete_copies(&self, external: &str, message: &str) {
        let copies = self.swarm.store().links().copies(&self.bridge.name, external, message).await;
        for (external, copy) in copies.unwrap_or_default() {
            if let Err(error) = self.platform.delete(&external, &copy).await {
                tracing::warn!(bridge = self.bridge.name, %error, "a copy of a deleted message stays");
            }
        }
    }

    /// Tells somebody once that nobody hears them here.
    async fn refuse(&self, link: &Link, message: &IncomingMessage) {
        let (store, account) = (self.swarm.store(), &message.sender.account);
        // Recorded before it is sent: after a kill in between, silence is better than an answer to each message.
        match store.links().tell_once(link.id.clone(), account.clone()).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(error = chain(&error), "failed to record who was told that nobody hears them");
                return;
            }
        }
        tracing::info!(bridge = self.bridge.name, account, "somebody is not heard");
        let text = format!(
            "{}: the agents do not see your messages. Who owns this flock can let you in with `flock bridge allow`.",
            message.sender.username
        );
        // What is refused now is refused again.
        if let Err(PlatformError::RateLimited(_) | PlatformError::Unavailable(_)) =
            self.answer(message, &text).await
            && let Err(error) = store.links().forget_told(link.id.clone(), account.clone()).await
        {
            tracing::warn!(
                error = chain(&error),
                account,
                "somebody may never be told that nobody hears them"
            );
        }
    }

    /// Answers a message apart from the channel. A failure is also logged.
    async fn answer(&self, to: &IncomingMessage, markdown: &str) -> Result<(), PlatformError> {
        let answered = self.platform.answer_apart(to, &text::neutralise(markdown, &[])).await;
        if let Err(error) = &answered {
            tracing::warn!(bridge = self.bridge.name, %error, "failed to answer a message");
        }
        answered
    }

    /// Sends the posts that wait, and then waits for more.
    async fn send(&self) {
        let wake = &self.shared.wake;
        let report = |entry: &OutboxEntry, attempt: &Attempt| self.report(entry, attempt);
        loop {
            let sent = self.outbound().send_due(wake, report).await;
            self.wait_for_more(sent, wake).await;
        }
    }

    /// Sends the answers to direct messages that wait, and then waits for more.
    async fn answer_direct(&self) {
        let wake = &self.shared.wake_answers;
        loop {
            let sent = self.outbound().answer_direct(wake).await;
            self.wait_for_more(sent, wake).await;
        }
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound { swarm: &self.swarm, bridge: &self.bridge, platform: &*self.platform }
    }

    /// Waits until something is due, at the time that was found, or after `wake`.
    async fn wait_for_more(&self, found: Result<Option<i64>, StoreError>, wake: &Notify) {
        match found {
            Ok(due) => tokio::select! {
                () = until(due) => {}
                () = wake.notified() => {}
            },
            Err(error) => self.wait_for_database(&error).await,
        }
    }

    /// Drops what waits too long or is too much.
    async fn trim(&self) {
        loop {
            if let Err(error) = self.drop_old().await {
                tracing::error!(error = chain(&error), "failed to drop what waited too long");
            }
            tokio::time::sleep(TRIM_INTERVAL).await;
        }
    }

    fn report(&self, entry: &OutboxEntry, attempt: &Attempt) {
        match attempt {
            Attempt::Sent => self.note(|status| {
                status.last_sent = Some(unix_ms());
                status.limited_until = None;
            }),
            Attempt::Later(PlatformError::RateLimited(wait)) => {
                let until = unix_ms().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
                self.note(|status| status.limited_until = Some(until));
            }
            Attempt::Later(error) => {
                tracing::warn!(bridge = self.bridge.name, link = entry.link, %error, "failed to send a message");
                self.note(|status| status.last_error = Some(error.to_string()));
            }
            Attempt::Dropped(error) => {
                tracing::error!(bridge = self.bridge.name, link = entry.link, %error, "a message can't be sent");
                if let OutboxContent::Post(post) = &entry.content
                    && is_told_of_drops(&post.author)
                {
                    let text = format!("Message {} was not sent to {}: {error}.", post.seq, self.bridge.name);
                    self.post_later(entry.channel.clone(), text);
                }
            }
        }
    }

    /// Drops what waited too long or is too much, and says so in the channel.
    async fn drop_old(&self) -> Result<(), StoreError> {
        let oldest = unix_ms().saturating_sub(i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX));
        let store = self.swarm.store();
        for link in store.links().list(Some(&self.bridge.name)).await? {
            let dropped = store.outbox().trim(link.id, oldest, MAX_WAITING).await?;
            if dropped > 0 {
                let text = format!(
                    "{dropped} messages were not sent to {} ({}): it could not be reached for too long.",
                    self.bridge.name, link.title
                );
                self.post_later(link.channel, text);
            }
        }
        Ok(())
    }

    fn post_later(&self, channel: ChannelId, text: String) {
        let swarm = self.swarm.clone();
        tokio::spawn(async move {
            if let Err(error) = swarm.post_as_system(&channel, text, false).await {
                tracing::error!(error = chain(&error), %channel, "failed to say what was not sent");
            }
        });
    }

    async fn wait_for_database(&self, error: &(dyn std::error::Error + Sync)) {
        tracing::warn!(bridge = self.bridge.name, error = chain(error), "a bridge waits for the database");
        tokio::time::sleep(DATABASE_WAIT).await;
    }
}

/// Returns `true` if the channel is told that a message of this author was not sent. A message of flock itself about a
/// message of flock itself would never end.
pub(super) fn is_told_of_drops(author: &Party) -> bool {
    *author != Party::System
}
