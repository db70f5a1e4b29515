//! Channels: creation, posts, and membership. Every change is committed together with its audit row. After that, the
//! members that it wakes are notified.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::loop_guard::StopNotice;
use super::scheduler::{Priority, SchedulerEvent};
use super::{Actor, Notifier, Swarm, SwarmError, mention};
use crate::clean;
use crate::clock::unix_ms;
use crate::config::ChannelReaders;
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind, TurnId};
use crate::store::{
    Channel, ChannelState, CommittedPost, IdempotencyKey, Level, Member, MemberChange, NewChannel, NewPost,
    Page, Post, PostMentions, PostOutcome, WakeUrgency,
};
use crate::sync::lock;

/// Maximum size of a message in bytes.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// Maximum number of characters of a topic.
pub(crate) const MAX_TOPIC: usize = 500;
/// Maximum number of members of a channel.
pub(crate) const MAX_MEMBERS: usize = 200;
/// Maximum number of messages that one read returns.
pub(crate) const MAX_PAGE: u32 = 200;

/// A request for a new channel.
#[derive(Clone, Debug)]
pub struct ChannelSpec {
    pub id: ChannelId,
    pub topic: String,
    pub members: Vec<Party>,
    /// The first message, if there is one.
    pub message: Option<String>,
}

/// The result of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostReceipt {
    /// The channel's id in the case it was created with.
    pub channel: ChannelId,
    /// The message's number in the channel.
    pub seq: u64,
    /// Unset if the message was posted before.
    pub is_new: bool,
}

impl Swarm {
    /// Creates a channel and notifies its members. The creator is a member only if it is named.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::ChannelExists`] if the id is taken, [`SwarmError::Invalid`] if the topic, members or
    /// message are not acceptable, and [`SwarmError::NoAgent`] if a member does not exist.
    pub async fn create_channel(&self, by: &Actor, wanted: ChannelSpec) -> Result<Channel, SwarmError> {
        let now = unix_ms();
        // Everything is checked before the transaction, so that nothing is written for an invalid request.
        let topic = topic(&wanted.topic)?;
        let members = self.members(&wanted.members)?;
        let first = match &wanted.message {
            Some(text) => self.message(by, &wanted.id, text.clone(), WakeUrgency::AtOnce, now)?,
            // Becoming a member is worth a notification, even if nothing was said yet.
            None => {
                let names: Vec<String> = members.iter().map(Party::to_string).collect();
                let text = format!("{} created this channel; members: {}", by.party, names.join(", "));
                NewPost { wake: WakeUrgency::AtOnce, ..NewPost::of_system(&wanted.id, text, now) }
            }
        };
        let detail = format!("{} members", members.len());
        let entry = by.entry("channel.create", wanted.id.as_str(), Level::Green, detail);
        let new = NewChannel { id: wanted.id.clone(), topic, created_by: by.party.clone(), members, now };
        let span = self.begin_post(&first);
        let made = self.store.channels().create(new, Some(first.clone()), entry).await?;
        let (channel, posted) = made.ok_or(SwarmError::ChannelExists(wanted.id))?;
        self.notifier.publish("channel.created", &json!({"channel": channel.id, "by": by.party}));
        if let Some(posted) = posted {
            self.end_post(span, &posted);
            self.announce(&first, &posted);
        }
        Ok(channel)
    }

    /// Posts a message. With `notify` set to `false` it wakes nobody.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] or [`SwarmError::Archived`] if the channel can't take messages, and
    /// [`SwarmError::Invalid`] if the text is empty or too long.
    pub async fn post(
        &self,
        by: &Actor,
        channel: &ChannelId,
        text: String,
        notify: bool,
    ) -> Result<PostReceipt, SwarmError> {
        self.post_keyed(by, channel, text, notify, None).await
    }

    /// Posts a message as [`Self::post`] does, but only once for each idempotency key.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::post`], and [`SwarmError::KeyReused`] if another message was posted with the same
    /// key.
    pub(crate) async fn post_keyed(
        &self,
        by: &Actor,
        channel: &ChannelId,
        text: String,
        notify: bool,
        key: Option<IdempotencyKey>,
    ) -> Result<PostReceipt, SwarmError> {
        let wake = match &by.party {
            // People wake every agent at once. A post of an agent waits for the next tick of the others.
            _ if !notify => WakeUrgency::Nobody,
            Party::Human(_) => WakeUrgency::AtOnce,
            Party::Agent(_) => WakeUrgency::InTime,
            Party::System => WakeUrgency::Nobody,
        };
        // The key comes from the client, so a request that is sent again is not posted twice.
        let mut new = NewPost { key, ..self.message(by, channel, text, wake, unix_ms())? };
        let braked = self.braked(&new).await?;
        // A stopped message is still stored: members read it with the next message that wakes them.
        if braked.stop.is_some() {
            new.wake = WakeUrgency::Nobody;
        }
        let said = self.post_delayed(new, braked.after).await?;
        if said.is_new
            && let Some(Some(notice)) = braked.stop
            && let Err(error) = self.report_loop_stop(channel, notice).await
        {
            // The message itself is committed, so a failure here must not be reported as a failed post.
            tracing::error!(error = chain(&error), %channel, "failed to say that a channel was braked");
        }
        Ok(said)
    }

    /// Tells a channel that the brake stops its messages, once for each loop: agents may post at the same moment, and none
    /// of them finds the notice of another one yet.
    pub(super) async fn report_loop_stop(
        &self,
        channel: &ChannelId,
        notice: StopNotice,
    ) -> Result<(), SwarmError> {
        let StopNotice { text, since } = notice;
        // No client has such a name. The digest is always the same, because the reasons of two stopped messages may differ.
        let key = IdempotencyKey {
            caller: "flock's brake".to_owned(),
            name: format!("{channel}@{since}"),
            digest: "brake".to_owned(),
        };
        let new = NewPost { key: Some(key), ..NewPost::of_system(channel, text.clone(), unix_ms()) };
        if self.say(new).await?.is_new {
            let entry = Actor::system().entry("channel.brake", channel.as_str(), Level::Yellow, text);
            self.store.audit().append(entry, unix_ms()).await?;
        }
        Ok(())
    }

    /// Posts the final text of an agent's turn. It is stored once for each turn and wakes nobody.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] or [`SwarmError::Archived`] if the channel can't take messages, and
    /// [`SwarmError::Invalid`] if the text is empty or too long.
    pub(crate) async fn post_final(
        &self,
        by: &Actor,
        channel: &ChannelId,
        text: String,
    ) -> Result<PostReceipt, SwarmError> {
        // A final text that woke others would keep two agents answering each other for ever.
        let new = self.message(by, channel, text, WakeUrgency::Nobody, unix_ms())?;
        self.say(NewPost { is_final: true, ..new }).await
    }

    /// Posts a message of flock itself. With `at_once` it wakes all members. Otherwise they get it with the next
    /// message that wakes them.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] or [`SwarmError::Archived`] if the channel can't take messages.
    pub(crate) async fn post_as_system(
        &self,
        channel: &ChannelId,
        text: String,
        at_once: bool,
    ) -> Result<PostReceipt, SwarmError> {
        let wake = if at_once { WakeUrgency::AtOnce } else { WakeUrgency::Nobody };
        self.say(NewPost { wake, ..NewPost::of_system(channel, text, unix_ms()) }).await
    }

    pub(super) async fn say(&self, new: NewPost) -> Result<PostReceipt, SwarmError> {
        self.post_delayed(new, Duration::ZERO).await
    }

    /// Posts a message and wakes its recipients after a delay. A restart during the delay wakes them at once.
    async fn post_delayed(&self, new: NewPost, after: Duration) -> Result<PostReceipt, SwarmError> {
        fault_point::reach(FaultPoint::Accepted);
        let span = self.begin_post(&new);
        match self.store.posts().add(new.clone()).await? {
            PostOutcome::Posted(posted) => {
                fault_point::reach(FaultPoint::Committed);
                self.end_post(span, &posted);
                let receipt = PostReceipt { channel: posted.channel.clone(), seq: posted.seq, is_new: true };
                if after.is_zero() {
                    self.announce_committed(&new, &posted).await;
                } else {
                    self.wake_and_report(&new, &posted).await;
                    publish(&self.notifier, &new, &posted);
                    let notifier = self.notifier.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(after).await;
                        call(&notifier, &new, &posted);
                    });
                }
                fault_point::reach(FaultPoint::Queued);
                Ok(receipt)
            }
            PostOutcome::Repeated { channel, seq } => Ok(PostReceipt { channel, seq, is_new: false }),
            PostOutcome::KeyReused => Err(SwarmError::KeyReused),
            PostOutcome::NoChannel => Err(SwarmError::NoChannel(new.channel)),
            PostOutcome::Archived => Err(SwarmError::Archived(new.channel)),
        }
    }

    /// Wakes the sleeping agents that a committed message calls, then tells everybody who is concerned.
    pub(super) async fn announce_committed(&self, new: &NewPost, posted: &CommittedPost) {
        self.wake_and_report(new, posted).await;
        self.announce(new, posted);
    }

    async fn wake_and_report(&self, new: &NewPost, posted: &CommittedPost) {
        // The message is committed. A caller that got an error now would post it again.
        if let Err(error) = self.wake_mentioned(new, posted).await {
            tracing::error!(error = chain(&error), "failed to wake whom a message calls");
        }
        self.report_pauses(new, posted).await;
    }

    /// Wakes sleeping agents that the message mentions, and the author if it sleeps.
    async fn wake_mentioned(&self, new: &NewPost, posted: &CommittedPost) -> Result<(), SwarmError> {
        // The common case needs no query.
        if lock(&self.asleep).is_empty() {
            return Ok(());
        }
        let by = Actor { party: new.author.clone(), session: new.session.clone(), turn: new.turn };
        if let Some(agent) = new.author.agent().filter(|agent| !self.fell_asleep_in(agent, new.turn)) {
            self.wake(&by, agent, "it posted").await?;
        }
        if new.wake > WakeUrgency::Nobody {
            // A plain message does not wake a sleeping agent. It waits for the next tick.
            for agent in posted.recipients.iter().filter(|agent| new.mentions.has(agent)) {
                self.wake(&by, agent, "it was mentioned").await?;
            }
        }
        Ok(())
    }

    /// Returns `true` if an agent went to sleep in this turn. Its sleep begins at the end of the turn, so posts of the
    /// same turn do not wake it.
    fn fell_asleep_in(&self, agent: &AgentId, turn: Option<TurnId>) -> bool {
        turn.is_some() && lock(&self.asleep).get(agent).is_some_and(|slept_in| *slept_in == turn)
    }

    /// Posts the reason why an agent could not answer, unless the channel's last message says the same.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] or [`SwarmError::Archived`] if the channel can't take messages.
    pub(crate) async fn complain(
        &self,
        channel: &ChannelId,
        agent: &AgentId,
        text: String,
    ) -> Result<(), SwarmError> {
        // An agent that fails repeatedly must not fill the channel with the same complaint.
        let last = self.store.posts().page(channel, Page::Last, 1).await?;
        let is_said = last.first().is_some_and(|post| post.author == Party::System && post.content == text);
        if !is_said {
            tracing::warn!(%channel, %agent, text, "an agent could not answer");
            self.post_as_system(channel, text, false).await?;
        }
        Ok(())
    }

    /// Adds and removes members and notifies the new ones. Returns who joined and who left. If the change leaves only
    /// ready members in an archive under way, the archive is finished.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] or [`SwarmError::Archived`] if the channel can't be changed,
    /// [`SwarmError::NoAgent`] if a new member does not exist, and [`SwarmError::Invalid`] if nothing is to be changed
    /// or there would be too many members.
    pub(crate) async fn assign_members(
        &self,
        by: &Actor,
        channel: &ChannelId,
        add: &[Party],
        remove: &[Party],
    ) -> Result<(Vec<Party>, Vec<Party>), SwarmError> {
        if add.is_empty() && remove.is_empty() {
            return Err(SwarmError::Invalid("name at least one member to add or to remove".to_owned()));
        }
        let known = self
            .store
            .channels()
            .find(channel)
            .await?
            .ok_or_else(|| SwarmError::NoChannel(channel.clone()))?;
        if known.state == ChannelState::Archived {
            return Err(SwarmError::Archived(channel.clone()));
        }
        // Only added members are checked: an agent that was deleted must still be removable.
        let add = self.members(add)?;
        if exceeds_member_limit(&known.members, &add, remove) {
            return Err(SwarmError::Invalid(format!("a channel has at most {MAX_MEMBERS} members")));
        }
        let now = unix_ms();
        let (id, who) = (known.id.clone(), by.party.clone());
        let notice = move |joined: &[Party], left: &[Party]| {
            let text = membership_text(&who, joined, left);
            NewPost::of_system(&id, text, now)
        };
        let names = |parties: &[Party]| parties.iter().map(Party::to_string).collect::<Vec<_>>().join(" ");
        let detail = format!("add: {}; remove: {}", names(&add), names(remove));
        let entry = by.entry("channel.members", known.id.as_str(), Level::Green, detail);
        let change = MemberChange { channel: known.id.clone(), add, remove: remove.to_vec(), now };
        let changed = self.store.channels().change_members(change, notice, entry).await?;
        // The channel was read before the change, so it may have been archived in between.
        let changed = changed.ok_or_else(|| SwarmError::Archived(known.id.clone()))?;
        if let Some(posted) = &changed.posted {
            self.notifier.publish("channel.changed", &json!({"channel": known.id, "action": "members"}));
            self.notifier.publish("channel.message", &json!({"channel": known.id, "seq": posted.seq}));
        }
        for agent in changed.joined.iter().filter_map(Party::agent) {
            // Existing members hear of it with the next message. A new member has something to read now.
            self.notifier.ring(session(agent, &known.id), Priority::Mention);
        }
        for agent in changed.left.iter().filter_map(Party::agent) {
            // A member that left has nothing to read here any more.
            self.notifier.tell(SchedulerEvent::Seen(session(agent, &known.id)));
        }
        // The last member that was not ready may just have left.
        self.finish_ready_archive(&known.id).await?;
        Ok((changed.joined, changed.left))
    }

    /// Removes all agents that are no longer in the configuration from channels, tasks and cards. It does not matter
    /// who removed them or if a gateway ran then.
    pub(crate) async fn remove_missing_agents(&self) -> Result<(), SwarmError> {
        let config = self.config();
        let mut known: BTreeSet<AgentId> = self.store.channels().member_agents().await?.into_iter().collect();
        known.extend(self.store.tasks().assignees().await?);
        known.extend(self.store.cards().list().await?.into_iter().map(|card| card.agent));
        for agent in known.iter().filter(|agent| config.agent(agent).is_none()) {
            self.forget_agent(agent).await?;
        }
        Ok(())
    }

    /// Removes a deleted agent from all its channels and ends its tasks.
    pub(crate) async fn forget_agent(&self, agent: &AgentId) -> Result<(), SwarmError> {
        let party = Party::Agent(agent.clone());
        for channel in self.store.channels().list(Some(&party), None).await? {
            // An archived channel can't be changed. Its members are checked when it is reopened.
            if channel.state != ChannelState::Archived {
                self.assign_members(&Actor::system(), &channel.id, &[], std::slice::from_ref(&party)).await?;
            }
        }
        self.end_agent_tasks(agent).await
    }

    /// Returns the channel with this id.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] if there is none.
    pub async fn channel(&self, id: &ChannelId) -> Result<Channel, SwarmError> {
        self.store.channels().find(id).await?.ok_or_else(|| SwarmError::NoChannel(id.clone()))
    }

    /// Returns `true` if a reader may read a channel. Only agents can be excluded.
    #[must_use]
    pub(crate) fn may_read(&self, reader: &Party, channel: &Channel) -> bool {
        reader.agent().is_none()
            // People and flock itself read everything.
            || self.config().channel_readers == ChannelReaders::All
            || channel.has(reader)
    }

    /// Returns the channel with this id for a reader.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] if there is none, and [`SwarmError::Refused`] if the reader may not read it.
    pub(crate) async fn readable(&self, reader: &Party, id: &ChannelId) -> Result<Channel, SwarmError> {
        let channel = self.channel(id).await?;
        if self.may_read(reader, &channel) {
            return Ok(channel);
        }
        Err(SwarmError::Refused(format!(
            "you are not a member of #{}, and only members may read channels: ask the orchestrator to add you",
            channel.id
        )))
    }

    /// Returns messages of a channel, oldest first.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::readable`].
    pub(crate) async fn read(
        &self,
        reader: &Party,
        id: &ChannelId,
        page: Page,
        limit: u32,
    ) -> Result<(Channel, Vec<Post>), SwarmError> {
        let channel = self.readable(reader, id).await?;
        let messages = self.store.posts().page(&channel.id, page, limit.clamp(1, MAX_PAGE)).await?;
        Ok((channel, messages))
    }

    /// Returns the messages of a channel that contain all these words, oldest first.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::readable`].
    pub(crate) async fn search(
        &self,
        reader: &Party,
        id: &ChannelId,
        words: &str,
        limit: u32,
    ) -> Result<(Channel, Vec<Post>), SwarmError> {
        let channel = self.readable(reader, id).await?;
        let mut found = self.store.posts().search(Some(&channel.id), words, limit.clamp(1, MAX_PAGE)).await?;
        // The store returns the newest matches first, so that the limit cuts off the oldest.
        found.reverse();
        Ok((channel, found))
    }

    /// Returns the channels that a reader may read. With `member`, only those with this member.
    pub(crate) async fn readable_channels(
        &self,
        reader: &Party,
        member: Option<&Party>,
    ) -> Result<Vec<Channel>, SwarmError> {
        let mut found = self.store.channels().list(member, None).await?;
        found.retain(|channel| self.may_read(reader, channel));
        Ok(found)
    }

    /// Notifies watchers and the scheduler of copies of channels that were made, and of the messages in them.
    pub(crate) fn announce_copies(&self, by: &Party, posts: &[(NewPost, CommittedPost)]) {
        let mut last = None;
        for (new, posted) in posts {
            if last != Some(&posted.channel) {
                self.notifier.publish("channel.created", &json!({"channel": posted.channel, "by": by}));
                last = Some(&posted.channel);
            }
            self.announce(new, posted);
        }
    }

    /// Notifies watchers and the scheduler of a committed message.
    pub(super) fn announce(&self, new: &NewPost, posted: &CommittedPost) {
        publish(&self.notifier, new, posted);
        call(&self.notifier, new, posted);
    }

    pub(super) fn message(
        &self,
        by: &Actor,
        channel: &ChannelId,
        text: String,
        wake: WakeUrgency,
        now: i64,
    ) -> Result<NewPost, SwarmError> {
        if text.trim().is_empty() {
            return Err(SwarmError::Invalid("the message is empty".to_owned()));
        }
        if text.len() > MAX_MESSAGE {
            return Err(SwarmError::Invalid(format!(
                "the message has {} bytes, at most {MAX_MESSAGE} are possible: write a file and name it",
                text.len()
            )));
        }
        let config = self.config();
        // Mentions are stored with the message, so that a later change of the agents does not change whom it calls.
        let mentions = mention::mentions(&text, config.agents.iter().map(|agent| &agent.id));
        Ok(NewPost {
            channel: channel.clone(),
            author: by.party.clone(),
            content: text,
            wake,
            mentions: PostMentions { agents: mentions.agents, all: mentions.all },
            session: by.session.clone(),
            turn: by.turn,
            is_final: false,
            key: None,
            origin: None,
            charged: None,
            now,
        })
    }

    /// Checks the named members and removes duplicates. Agents must exist.
    fn members(&self, named: &[Party]) -> Result<Vec<Party>, SwarmError> {
        let mut members: Vec<Party> = Vec::new();
        for party in named {
            match party {
                Party::System => {
                    return Err(SwarmError::Invalid("system is flock itself, not a member".to_owned()));
                }
                Party::Agent(agent) => self.require_agent(agent)?,
                // Anybody may be named as a person: people have no list in flock.
                Party::Human(_) => {}
            }
            if !members.contains(party) {
                members.push(party.clone());
            }
        }
        if members.len() > MAX_MEMBERS {
            return Err(SwarmError::Invalid(format!("a channel has at most {MAX_MEMBERS} members")));
        }
        Ok(members)
    }
}

/// Returns `true` if a change would leave a channel with too many members. Naming an existing member, or removing
/// somebody who is not a member, makes no difference.
fn exceeds_member_limit(members: &[Member], add: &[Party], remove: &[Party]) -> bool {
    let stay: Vec<&Party> =
        members.iter().map(|member| &member.party).filter(|party| !remove.contains(party)).collect();
    let new = add.iter().filter(|party| !stay.contains(party)).count();
    // A channel that is over the limit may still lose members.
    new > 0 && stay.len() + new > MAX_MEMBERS
}

/// Publishes a message to watchers.
fn publish(notifier: &Notifier, new: &NewPost, posted: &CommittedPost) {
    let data = json!({"channel": posted.channel, "seq": posted.seq, "author": new.author});
    notifier.publish("channel.message", &data);
}

/// Tells the scheduler which agents a message wakes.
fn call(notifier: &Notifier, new: &NewPost, posted: &CommittedPost) {
    if new.wake == WakeUrgency::Nobody {
        return;
    }
    for agent in &posted.recipients {
        // A mention makes the message urgent for the mentioned agent only.
        let at_once = new.mentions.has(agent) || new.wake == WakeUrgency::AtOnce;
        notifier.tell(SchedulerEvent::messages(
            session(agent, &posted.channel),
            new.author.is_human(),
            at_once,
        ));
    }
}

/// Returns the key of an agent's session in a channel.
#[must_use]
pub(crate) fn session(agent: &AgentId, channel: &ChannelId) -> SessionKey {
    SessionKey::new(agent, SessionKind::Channel, channel.as_str())
}

/// Checks and cleans a topic.
pub(super) fn topic(text: &str) -> Result<String, SwarmError> {
    checked_label(text, MAX_TOPIC, "the topic", "a topic")
}

/// Cleans a text of one line. Returns an error that calls it `this` if it is empty, and `every` if it is too long.
pub(super) fn checked_label(text: &str, most: usize, this: &str, every: &str) -> Result<String, SwarmError> {
    // One character more than allowed is kept, so that a text that is too long is noticed and not cut silently.
    let text = clean::label(text, most + 1);
    match text.chars().count() {
        0 => Err(SwarmError::Invalid(format!("{this} is empty"))),
        length if length > most => Err(SwarmError::Invalid(format!("{every} has at most {most} characters"))),
        _ => Ok(text),
    }
}

fn membership_text(by: &Party, joined: &[Party], left: &[Party]) -> String {
    let names = |parties: &[Party]| parties.iter().map(Party::to_string).collect::<Vec<_>>().join(", ");
    let parts = [
        (!joined.is_empty()).then(|| format!("{} joined", names(joined))),
        (!left.is_empty()).then(|| format!("{} left", names(left))),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    // Who comes or goes by themselves need not be named twice.
    if joined.iter().chain(left).all(|party| party == by) { text } else { format!("{text} (by {by})") }
}
