//! Channels: made, posted to, joined and left. Every change is committed with its row of the audit; then
//! those whom it wakes are told.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::scheduler::{Event, Priority};
use super::{Bell, By, Swarm, SwarmError, mention};
use crate::checkpoint::{self, Checkpoint};
use crate::clean;
use crate::clock::unix_ms;
use crate::config::ChannelReaders;
use crate::error::chain;
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind, TurnId};
use crate::store::{
    Channel, ChannelState, IdempotencyKey, Level, Member, MemberChange, Mentioned, NewChannel, NewPost, Page,
    Post, PostOutcome, Posted, Wake,
};

/// The most bytes of a message.
pub const MAX_MESSAGE: usize = 1 << 20;
/// The most characters of a topic.
pub const MAX_TOPIC: usize = 500;
/// The most members of a channel.
pub const MAX_MEMBERS: usize = 200;
/// The most messages of one reading.
pub const MAX_PAGE: u32 = 200;

/// A channel that somebody wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its id.
    pub id: ChannelId,
    /// What it is about.
    pub topic: String,
    /// Who takes part.
    pub members: Vec<Party>,
    /// What is said first.
    pub message: Option<String>,
}

/// What a post came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is there under this number.
    New(u64),
    /// It was there already, under this number.
    Before(u64),
}

impl Said {
    /// The message's number.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        match self {
            Self::New(seq) | Self::Before(seq) => *seq,
        }
    }
}

impl Swarm {
    /// Makes a channel and tells its members. Whoever makes it is no member unless named.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn create_channel(&self, by: &By, wanted: Wanted) -> Result<Channel, SwarmError> {
        let now = unix_ms();
        let topic = topic(&wanted.topic)?;
        let members = self.members(&wanted.members)?;
        let first = match &wanted.message {
            Some(text) => self.message(by, &wanted.id, text.clone(), Wake::AtOnce, now)?,
            // Being made a member is something to be told of, also where nothing was said yet.
            None => {
                let names: Vec<String> = members.iter().map(Party::to_string).collect();
                let text = format!("{} made this channel; members: {}", by.party, names.join(", "));
                NewPost { wake: Wake::AtOnce, ..system(&wanted.id, text, now) }
            }
        };
        let detail = format!("{} members", members.len());
        let entry = by.entry("channel.create", wanted.id.as_str(), Level::Green, detail);
        let new = NewChannel { id: wanted.id.clone(), topic, created_by: by.party.clone(), members, now };
        let made = self.store.create_channel(new, Some(first.clone()), entry).await?;
        let (channel, posted) = made.ok_or(SwarmError::ChannelExists(wanted.id))?;
        self.bell.publish("channel.created", &json!({"channel": channel.id, "by": by.party}));
        if let Some(posted) = posted {
            self.announce(&first, &posted);
        }
        Ok(channel)
    }

    /// Posts a message. `notify` false wakes nobody by it.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn post(
        &self,
        by: &By,
        channel: &ChannelId,
        text: String,
        notify: bool,
    ) -> Result<Said, SwarmError> {
        self.post_keyed(by, channel, text, notify, None).await
    }

    /// Posts as [`Self::post`] does, once for each key.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says; [`SwarmError::KeyReused`] where another message was posted under the key.
    pub async fn post_keyed(
        &self,
        by: &By,
        channel: &ChannelId,
        text: String,
        notify: bool,
        key: Option<IdempotencyKey>,
    ) -> Result<Said, SwarmError> {
        let wake = match &by.party {
            _ if !notify => Wake::Nobody,
            Party::Human(_) => Wake::AtOnce,
            Party::Agent(_) => Wake::InTime,
            Party::System => Wake::Nobody,
        };
        let mut new = NewPost { key, ..self.message(by, channel, text, wake, unix_ms())? };
        let braked = self.braked(&new)?;
        if braked.stop.is_some() {
            new.wake = Wake::Nobody;
        }
        let said = self.say_later(new, braked.after).await?;
        if let (Said::New(_), Some(Some(why))) = (&said, braked.stop)
            && let Err(error) = self.note_brake(channel, why).await
        {
            tracing::error!(error = chain(&error), %channel, "failed to say that a channel was braked");
        }
        Ok(said)
    }

    async fn note_brake(&self, channel: &ChannelId, why: String) -> Result<(), SwarmError> {
        let entry = By::system().entry("channel.brake", channel.as_str(), Level::Yellow, why.clone());
        self.store.audit(entry, unix_ms()).await?;
        self.say_as_system(channel, why, false).await.map(drop)
    }

    /// Posts what an agent's turn ended with: once for each turn, and waking nobody.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn post_final(&self, by: &By, channel: &ChannelId, text: String) -> Result<Said, SwarmError> {
        let new = self.message(by, channel, text, Wake::Nobody, unix_ms())?;
        self.say(NewPost { is_final: true, ..new }).await
    }

    /// Says something as flock itself. It is given along with the next message that wakes a member, or, with
    /// `at_once`, wakes all of them.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn say_as_system(
        &self,
        channel: &ChannelId,
        text: String,
        at_once: bool,
    ) -> Result<Said, SwarmError> {
        let wake = if at_once { Wake::AtOnce } else { Wake::Nobody };
        self.say(NewPost { wake, ..system(channel, text, unix_ms()) }).await
    }

    async fn say(&self, new: NewPost) -> Result<Said, SwarmError> {
        self.say_later(new, Duration::ZERO).await
    }

    /// Says something that wakes whom it wakes only after a while. A restart meanwhile wakes them at once.
    async fn say_later(&self, new: NewPost, after: Duration) -> Result<Said, SwarmError> {
        checkpoint::reach(Checkpoint::Accepted);
        match self.store.post(new.clone()).await? {
            PostOutcome::Posted(posted) => {
                checkpoint::reach(Checkpoint::Committed);
                // It is posted: whoever is told of a failure would post it once more.
                if let Err(error) = self.wake_by(&new, &posted).await {
                    tracing::error!(error = chain(&error), "failed to wake whom a message calls");
                }
                let seq = posted.seq;
                self.tell_of_pauses(&new, &posted).await;
                if after.is_zero() {
                    self.announce(&new, &posted);
                } else {
                    publish(&self.bell, &new, &posted);
                    let bell = self.bell.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(after).await;
                        call(&bell, &new, &posted);
                    });
                }
                checkpoint::reach(Checkpoint::Queued);
                Ok(Said::New(seq))
            }
            PostOutcome::Repeated(seq) => Ok(Said::Before(seq)),
            PostOutcome::KeyReused => Err(SwarmError::KeyReused),
            PostOutcome::NoChannel => Err(SwarmError::NoChannel(new.channel)),
            PostOutcome::Archived => Err(SwarmError::Archived(new.channel)),
        }
    }

    /// Wakes who sleeps and is called, and who speaks in its sleep.
    async fn wake_by(&self, new: &NewPost, posted: &Posted) -> Result<(), SwarmError> {
        if self.asleep().is_empty() {
            return Ok(());
        }
        let by = By { party: new.author.clone(), session: new.session.clone(), turn: new.turn };
        if let Some(agent) = new.author.agent().filter(|agent| !self.fell_asleep_in(agent, new.turn)) {
            self.wake(&by, agent, "it posted").await?;
        }
        if new.wake > Wake::Nobody {
            for agent in posted.recipients.iter().filter(|agent| new.mentions.has(agent)) {
                self.wake(&by, agent, "it was mentioned").await?;
            }
        }
        Ok(())
    }

    /// Whether an agent went to sleep in this turn: it sleeps from the turn's end on, whatever the turn still posts.
    fn fell_asleep_in(&self, agent: &AgentId, turn: Option<TurnId>) -> bool {
        turn.is_some() && self.asleep().get(agent).is_some_and(|slept_in| *slept_in == turn)
    }

    /// Says in a channel why an agent could not answer, unless that is the last that was said.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn complain(
        &self,
        channel: &ChannelId,
        agent: &AgentId,
        text: String,
    ) -> Result<(), SwarmError> {
        let last = self.store.messages(channel, Page::Last, 1)?;
        let is_said = last.first().is_some_and(|post| post.author == Party::System && post.content == text);
        if !is_said {
            tracing::warn!(%channel, %agent, text, "an agent could not answer");
            self.say_as_system(channel, text, false).await?;
        }
        Ok(())
    }

    /// Changes who is a member and tells those who are new. Where that leaves an archive under way with
    /// everybody ready, it ends.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn assign_members(
        &self,
        by: &By,
        channel: &ChannelId,
        add: &[Party],
        remove: &[Party],
    ) -> Result<(Vec<Party>, Vec<Party>), SwarmError> {
        if add.is_empty() && remove.is_empty() {
            return Err(SwarmError::Invalid("name at least one member to add or to remove".to_owned()));
        }
        let known = self.store.channel(channel)?.ok_or_else(|| SwarmError::NoChannel(channel.clone()))?;
        if known.state == ChannelState::Archived {
            return Err(SwarmError::Archived(channel.clone()));
        }
        let add = self.members(add)?;
        if too_many(&known.members, &add, remove) {
            return Err(SwarmError::Invalid(format!("a channel has at most {MAX_MEMBERS} members")));
        }
        let now = unix_ms();
        let (id, who) = (known.id.clone(), by.party.clone());
        let notice = move |joined: &[Party], left: &[Party]| {
            let text = membership(&who, joined, left);
            NewPost { wake: Wake::Nobody, ..system(&id, text, now) }
        };
        let names = |parties: &[Party]| parties.iter().map(Party::to_string).collect::<Vec<_>>().join(" ");
        let detail = format!("add: {}; remove: {}", names(&add), names(remove));
        let entry = by.entry("channel.members", known.id.as_str(), Level::Green, detail);
        let change = MemberChange { channel: known.id.clone(), add, remove: remove.to_vec(), now };
        let changed = self.store.change_members(change, notice, entry).await?;
        let changed = changed.ok_or_else(|| SwarmError::Archived(known.id.clone()))?;
        if let Some(posted) = &changed.posted {
            self.bell.publish("channel.message", &json!({"channel": known.id, "seq": posted.seq}));
        }
        for agent in changed.joined.iter().filter_map(Party::agent) {
            // The members who were there hear of it in time; who is new has something to read now.
            self.bell.ring(session(agent, &known.id), Priority::Mention);
        }
        for agent in changed.left.iter().filter_map(Party::agent) {
            self.bell.tell(Event::Seen(session(agent, &known.id)));
        }
        self.settle_archive(&known.id).await?;
        Ok((changed.joined, changed.left))
    }

    /// Lets go of all agents that the configuration does not hold any more, whoever removed them and whether
    /// a gateway ran or not: of those too that only have a task or a card.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn forget_missing_agents(&self) -> Result<(), SwarmError> {
        let config = self.config();
        let mut known: BTreeSet<AgentId> = self.store.member_agents()?.into_iter().collect();
        known.extend(self.store.assignees()?);
        known.extend(self.store.cards()?.into_iter().map(|card| card.agent));
        for agent in known.iter().filter(|agent| config.agent(agent).is_none()) {
            self.forget_agent(agent).await?;
        }
        Ok(())
    }

    /// Takes an agent that was removed out of all its channels.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn forget_agent(&self, agent: &AgentId) -> Result<(), SwarmError> {
        let party = Party::Agent(agent.clone());
        for channel in self.store.channels(Some(&party), None)? {
            if channel.state != ChannelState::Archived {
                self.assign_members(&By::system(), &channel.id, &[], std::slice::from_ref(&party)).await?;
            }
        }
        self.forget_tasks(agent).await
    }

    /// The channel with this id.
    ///
    /// # Errors
    ///
    /// [`SwarmError::NoChannel`] and those of the database.
    pub fn channel(&self, id: &ChannelId) -> Result<Channel, SwarmError> {
        self.store.channel(id)?.ok_or_else(|| SwarmError::NoChannel(id.clone()))
    }

    /// Whether somebody may read a channel. Only agents can be kept from one.
    #[must_use]
    pub fn may_read(&self, reader: &Party, channel: &Channel) -> bool {
        reader.agent().is_none()
            || self.config().channel_readers == ChannelReaders::All
            || channel.has(reader)
    }

    /// The channel with this id, for somebody who wants to read it.
    ///
    /// # Errors
    ///
    /// As [`Self::channel`]; [`SwarmError::Refused`] where it is not theirs to read.
    pub fn readable(&self, reader: &Party, id: &ChannelId) -> Result<Channel, SwarmError> {
        let channel = self.channel(id)?;
        if self.may_read(reader, &channel) {
            return Ok(channel);
        }
        Err(SwarmError::Refused(format!(
            "you are no member of #{}, and here only members read a channel: ask the orchestrator to assign you",
            channel.id
        )))
    }

    /// Messages of a channel, the oldest first.
    ///
    /// # Errors
    ///
    /// As [`Self::readable`].
    pub fn read(
        &self,
        reader: &Party,
        id: &ChannelId,
        page: Page,
        limit: u32,
    ) -> Result<(Channel, Vec<Post>), SwarmError> {
        let channel = self.readable(reader, id)?;
        let messages = self.store.messages(&channel.id, page, limit.clamp(1, MAX_PAGE))?;
        Ok((channel, messages))
    }

    /// Messages of a channel with all these words, the oldest first.
    ///
    /// # Errors
    ///
    /// As [`Self::readable`].
    pub fn search(
        &self,
        reader: &Party,
        id: &ChannelId,
        words: &str,
        limit: u32,
    ) -> Result<(Channel, Vec<Post>), SwarmError> {
        let channel = self.readable(reader, id)?;
        let mut found = self.store.search_messages(Some(&channel.id), words, limit.clamp(1, MAX_PAGE))?;
        found.reverse();
        Ok((channel, found))
    }

    /// The channels that somebody may read: all, or those of a member.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub fn readable_channels(
        &self,
        reader: &Party,
        member: Option<&Party>,
    ) -> Result<Vec<Channel>, SwarmError> {
        let mut found = self.store.channels(member, None)?;
        found.retain(|channel| self.may_read(reader, channel));
        Ok(found)
    }

    /// Tells everybody of a message that is committed.
    pub(super) fn announce(&self, new: &NewPost, posted: &Posted) {
        publish(&self.bell, new, posted);
        call(&self.bell, new, posted);
    }

    fn message(
        &self,
        by: &By,
        channel: &ChannelId,
        text: String,
        wake: Wake,
        now: i64,
    ) -> Result<NewPost, SwarmError> {
        if text.trim().is_empty() {
            return Err(SwarmError::Invalid("the message is empty".to_owned()));
        }
        if text.len() > MAX_MESSAGE {
            return Err(SwarmError::Invalid(format!(
                "the message has {} bytes, and at most {MAX_MESSAGE} are taken: write a file and name it",
                text.len()
            )));
        }
        let config = self.config();
        let mentions = mention::mentions(&text, config.agents.iter().map(|agent| &agent.id));
        Ok(NewPost {
            channel: channel.clone(),
            author: by.party.clone(),
            content: text,
            wake,
            mentions: Mentioned { agents: mentions.agents, all: mentions.all },
            session: by.session.clone(),
            turn: by.turn,
            is_final: false,
            key: None,
            now,
        })
    }

    /// Members as they were named, each once; agents must exist.
    fn members(&self, named: &[Party]) -> Result<Vec<Party>, SwarmError> {
        let mut members: Vec<Party> = Vec::new();
        for party in named {
            match party {
                Party::System => {
                    return Err(SwarmError::Invalid("system is flock itself and no member".to_owned()));
                }
                Party::Agent(agent) => self.require_agent(agent)?,
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

/// Whether a channel of these members has more than it may after a change. Naming who is there already, or
/// removing who is not, makes no difference.
fn too_many(members: &[Member], add: &[Party], remove: &[Party]) -> bool {
    let stay: Vec<&Party> =
        members.iter().map(|member| &member.party).filter(|party| !remove.contains(party)).collect();
    let new = add.iter().filter(|party| !stay.contains(party)).count();
    new > 0 && stay.len() + new > MAX_MEMBERS
}

/// Tells who watches of a message.
fn publish(bell: &Bell, new: &NewPost, posted: &Posted) {
    let data = json!({"channel": posted.channel, "seq": posted.seq, "author": new.author});
    bell.publish("channel.message", &data);
}

/// Tells the scheduler whom a message wakes.
fn call(bell: &Bell, new: &NewPost, posted: &Posted) {
    if new.wake == Wake::Nobody {
        return;
    }
    for agent in &posted.recipients {
        let at_once = new.mentions.has(agent) || new.wake == Wake::AtOnce;
        bell.tell(Event::messages(session(agent, &posted.channel), new.author.is_human(), at_once));
    }
}

/// The session of an agent in a channel.
#[must_use]
pub fn session(agent: &AgentId, channel: &ChannelId) -> SessionKey {
    SessionKey::new(agent, SessionKind::Channel, channel.as_str())
}

/// A message of flock's own, which wakes nobody.
pub(super) fn system(channel: &ChannelId, content: String, now: i64) -> NewPost {
    NewPost {
        channel: channel.clone(),
        author: Party::System,
        content,
        wake: Wake::Nobody,
        mentions: Mentioned::default(),
        session: None,
        turn: None,
        is_final: false,
        key: None,
        now,
    }
}

/// A topic as it is kept.
pub(super) fn topic(text: &str) -> Result<String, SwarmError> {
    let text = clean::label(text, MAX_TOPIC + 1);
    if text.is_empty() {
        return Err(SwarmError::Invalid("the topic is empty".to_owned()));
    }
    if text.chars().count() > MAX_TOPIC {
        return Err(SwarmError::Invalid(format!("a topic has at most {MAX_TOPIC} characters")));
    }
    Ok(text)
}

fn membership(by: &Party, joined: &[Party], left: &[Party]) -> String {
    let names = |parties: &[Party]| parties.iter().map(Party::to_string).collect::<Vec<_>>().join(", ");
    let parts = [
        (!joined.is_empty()).then(|| format!("{} joined", names(joined))),
        (!left.is_empty()).then(|| format!("{} left", names(left))),
    ];
    let text: Vec<String> = parts.into_iter().flatten().collect();
    format!("{} (by {by})", text.join("; "))
}
