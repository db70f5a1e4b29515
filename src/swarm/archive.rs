//! The archive protocol: active → archiving → archived. The agents among the members are asked to review
//! and to say that they are ready; who is asked is who is a member now, whenever that changes. A deadline,
//! or whoever may, ends it early; it can be called off, and an archived channel can be opened again.

use serde_json::json;

use super::channel::{session, system};
use super::scheduler::Event;
use super::{By, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::{AgentId, ChannelId, Party};
use crate::store::{ArchiveStep, Channel, ChannelState, Level, NewPost, Wake};

/// How long the members have to get ready, in milliseconds.
pub const DEADLINE: i64 = 60 * 60 * 1000;

/// Where an archive stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Where the channel is.
    pub state: ChannelState,
    /// Agents that said they are ready.
    pub ready: Vec<AgentId>,
    /// Agents that have not.
    pub waiting: Vec<AgentId>,
}

impl Progress {
    fn of(channel: &Channel) -> Self {
        let agents = |ready: bool| {
            let members = channel.members.iter().filter(move |member| member.ready_at.is_some() == ready);
            members.filter_map(|member| member.party.agent().cloned()).collect()
        };
        Self { state: channel.state, ready: agents(true), waiting: agents(false) }
    }
}

/// What one asks of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// Begin it, or say how it stands.
    Begin,
    /// End it now, whoever is ready.
    Force,
    /// Call it off.
    Cancel,
    /// Open the archived channel again.
    Reopen,
}

impl Swarm {
    /// Does one step of the protocol; one that is done already changes nothing.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn archive(&self, by: &By, id: &ChannelId, what: Archive) -> Result<Progress, SwarmError> {
        let channel = self.channel(id)?;
        let now = unix_ms();
        match (what, channel.state) {
            (Archive::Begin, ChannelState::Active) => {
                let text = "This channel is going to be archived. Each agent here: read what was said (flock_channel_read), \
                     keep what you will need again in your MEMORY.md or a vault, update your card if you can do \
                     something new, then call flock_archive_ready.";
                let step = ArchiveStep::Begin { by: by.party.clone(), due_at: now + DEADLINE };
                let post = NewPost { wake: Wake::AtOnce, ..system(&channel.id, text.to_owned(), now) };
                self.step(by, &channel, step, post).await?;
            }
            (Archive::Force, ChannelState::Active | ChannelState::Archiving) => {
                self.finish(by, &channel, "forced", true, now).await?;
            }
            (Archive::Cancel, ChannelState::Archiving) => {
                let text = format!("{} called the archiving off; the channel goes on.", by.party);
                self.step(by, &channel, ArchiveStep::Cancel, system(&channel.id, text, now)).await?;
            }
            (Archive::Reopen, ChannelState::Archived) => {
                let text = format!("{} opened this channel again.", by.party);
                let post = NewPost { wake: Wake::Nobody, ..system(&channel.id, text, now) };
                if self.step(by, &channel, ArchiveStep::Reopen, post).await? {
                    self.drop_missing_members(&channel).await?;
                }
            }
            (Archive::Cancel, _) => {
                return Err(SwarmError::Refused(format!("channel {} is not being archived", channel.id)));
            }
            (Archive::Reopen, _) => {
                return Err(SwarmError::Refused(format!("channel {} is not archived", channel.id)));
            }
            (Archive::Begin | Archive::Force, _) => {}
        }
        self.settle_archive(&channel.id).await?;
        Ok(Progress::of(&self.channel(&channel.id)?))
    }

    /// An agent says that it is ready.
    ///
    /// # Errors
    ///
    /// [`SwarmError::Refused`] where the channel is not being archived or the agent is no member, and others.
    pub async fn archive_ready(
        &self,
        by: &By,
        agent: &AgentId,
        id: &ChannelId,
    ) -> Result<Progress, SwarmError> {
        // Held from the count to its commit: two who are ready at once are two.
        let counting = self.counting.lock().await;
        let channel = self.channel(id)?;
        if channel.state == ChannelState::Archived {
            return Ok(Progress::of(&channel));
        }
        if channel.state != ChannelState::Archiving {
            return Err(SwarmError::Refused(format!("channel {} is not being archived", channel.id)));
        }
        if !channel.agents().any(|member| member == agent) {
            return Err(SwarmError::Refused(format!("you are no member of channel {}", channel.id)));
        }
        let before = Progress::of(&channel);
        if !before.ready.contains(agent) {
            let text = format!(
                "{agent} is ready to archive ({} of {})",
                before.ready.len() + 1,
                before.ready.len() + before.waiting.len()
            );
            let step = ArchiveStep::Ready(agent.clone());
            self.step(by, &channel, step, system(&channel.id, text, unix_ms())).await?;
        }
        drop(counting);
        self.settle_archive(&channel.id).await?;
        Ok(Progress::of(&self.channel(&channel.id)?))
    }

    /// Ends archives whose time is over; gives when the next one's is.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn end_due_archives(&self, now: i64) -> Result<Option<i64>, SwarmError> {
        let mut next: Option<i64> = None;
        for (id, due_at) in self.store.archives_under_way()? {
            if due_at <= now {
                self.finish(&By::system(), &self.channel(&id)?, "its time was over", false, now).await?;
            } else {
                next = Some(next.map_or(due_at, |at| at.min(due_at)));
            }
        }
        Ok(next)
    }

    /// Ends an archive under way if every agent that is a member now is ready; also where none is left.
    pub(super) async fn settle_archive(&self, id: &ChannelId) -> Result<(), SwarmError> {
        let channel = self.channel(id)?;
        if channel.state == ChannelState::Archiving && Progress::of(&channel).waiting.is_empty() {
            self.finish(&By::system(), &channel, "all are ready", false, unix_ms()).await?;
        }
        Ok(())
    }

    /// Takes out the members whose agents were removed while the channel was archived.
    async fn drop_missing_members(&self, channel: &Channel) -> Result<(), SwarmError> {
        let config = self.config();
        let gone = channel.agents().filter(|agent| config.agent(agent).is_none());
        let gone: Vec<Party> = gone.cloned().map(Party::Agent).collect();
        if !gone.is_empty() {
            self.assign_members(&By::system(), &channel.id, &[], &gone).await?;
        }
        Ok(())
    }

    /// Ends it, unless what `channel` says has changed since it was read so that it has to go on.
    async fn finish(
        &self,
        by: &By,
        channel: &Channel,
        why: &str,
        forced: bool,
        now: i64,
    ) -> Result<(), SwarmError> {
        let text = format!("This channel is archived ({why}); it can be read, and nothing can be added.");
        let step = ArchiveStep::Finish { forced };
        if self.step(by, channel, step, system(&channel.id, text, now)).await? {
            for agent in self.channel(&channel.id)?.agents() {
                self.bell.tell(Event::Seen(session(agent, &channel.id)));
            }
        }
        Ok(())
    }

    /// Does a step and tells of it; false where the channel is not as the step needs it.
    async fn step(
        &self,
        by: &By,
        channel: &Channel,
        step: ArchiveStep,
        post: NewPost,
    ) -> Result<bool, SwarmError> {
        let (action, level) = match step {
            ArchiveStep::Begin { .. } => ("channel.archive", Level::Green),
            ArchiveStep::Ready(_) => ("channel.ready", Level::Green),
            ArchiveStep::Finish { .. } => ("channel.archived", Level::Green),
            ArchiveStep::Cancel => ("channel.archive_cancel", Level::Green),
            ArchiveStep::Reopen => ("channel.reopen", Level::Yellow),
        };
        let entry = by.entry(action, channel.id.as_str(), level, String::new());
        let posted = self.store.archive_step(channel.id.clone(), step, post.clone(), entry).await?;
        if let Some(posted) = &posted {
            self.bell.publish("channel.changed", &json!({"channel": channel.id, "action": action}));
            self.announce(&post, posted);
        }
        Ok(posted.is_some())
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
