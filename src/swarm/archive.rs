//! The archive protocol of a channel: active → archiving → archived. The agents among the members are asked to review
//! the channel and to report that they are ready. The members at each moment count, also if they change meanwhile. A
//! deadline or an authorized caller ends the wait early. Archiving can be cancelled, and an archived channel can be
//! reopened.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::channel::session;
use super::scheduler::SchedulerEvent;
use super::{Actor, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::{AgentId, ChannelId, Party};
use crate::store::{ArchiveStep, Channel, ChannelState, Level, NewPost, WakeUrgency};

/// Time that the members have to get ready, in milliseconds.
pub(crate) const DEADLINE: i64 = 60 * 60 * 1000;

/// The progress of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchiveProgress {
    pub state: ChannelState,
    pub ready: Vec<AgentId>,
    pub waiting: Vec<AgentId>,
}

impl ArchiveProgress {
    fn of(channel: &Channel) -> Self {
        let agents = |ready: bool| {
            let members = channel.members.iter().filter(move |member| member.ready_at.is_some() == ready);
            members.filter_map(|member| member.party.agent().cloned()).collect()
        };
        Self { state: channel.state, ready: agents(true), waiting: agents(false) }
    }
}

/// A step of the archive protocol that a caller can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ArchiveAction {
    /// Begins archiving, or only reports the progress if it has begun.
    Begin,
    /// Finishes now, even if members are not ready.
    Force,
    /// Cancels the archiving.
    Cancel,
    /// Reopens an archived channel.
    Reopen,
}

impl Swarm {
    /// Does one step of the protocol. A step that was already done changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] if there is no such channel, and [`SwarmError::Refused`] if the channel is not
    /// in the state that the step needs.
    pub(crate) async fn archive(
        &self,
        by: &Actor,
        id: &ChannelId,
        what: ArchiveAction,
    ) -> Result<ArchiveProgress, SwarmError> {
        let channel = self.channel(id).await?;
        let now = unix_ms();
        match (what, channel.state) {
            (ArchiveAction::Begin, ChannelState::Active) => {
                let text = "This channel is going to be archived. Each agent here: read what was said (flock_channel_read), \
                     save what you will need in your MEMORY.md or a vault, update your card if you have new \
                     skills, then call flock_archive_ready.";
                // The deadline is stored, so that it holds over a restart.
                let step = ArchiveStep::Begin { by: by.party.clone(), due_at: now + DEADLINE };
                let post = NewPost {
                    wake: WakeUrgency::AtOnce,
                    ..NewPost::of_system(&channel.id, text.to_owned(), now)
                };
                self.step(by, &channel, step, post).await?;
            }
            (ArchiveAction::Force, ChannelState::Active | ChannelState::Archiving) => {
                self.finish(by, &channel, "forced", true, now).await?;
            }
            (ArchiveAction::Cancel, ChannelState::Archiving) => {
                let text = format!("{} cancelled the archiving; the channel stays open.", by.party);
                self.step(by, &channel, ArchiveStep::Cancel, NewPost::of_system(&channel.id, text, now))
                    .await?;
            }
            (ArchiveAction::Reopen, ChannelState::Archived) => {
                let text = format!("{} reopened this channel.", by.party);
                // Opening a channel gives nobody a task, so nobody is woken.
                let post = NewPost::of_system(&channel.id, text, now);
                if self.step(by, &channel, ArchiveStep::Reopen, post).await? {
                    self.remove_missing_members(&channel).await?;
                }
            }
            (ArchiveAction::Cancel, _) => {
                return Err(SwarmError::Refused(format!("channel {} is not being archived", channel.id)));
            }
            (ArchiveAction::Reopen, _) => {
                return Err(SwarmError::Refused(format!("channel {} is not archived", channel.id)));
            }
            (ArchiveAction::Begin | ArchiveAction::Force, _) => {}
        }
        // A channel without agents is archived at once, because nobody has to get ready.
        self.finish_ready_archive(&channel.id).await?;
        Ok(ArchiveProgress::of(&self.channel(&channel.id).await?))
    }

    /// Records that an agent is ready, and finishes the archive if it was the last one.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] if there is no such channel, and [`SwarmError::Refused`] if it is not being
    /// archived or the agent is not a member.
    pub(crate) async fn mark_archive_ready(
        &self,
        by: &Actor,
        agent: &AgentId,
        id: &ChannelId,
    ) -> Result<ArchiveProgress, SwarmError> {
        // Held from the count to its commit. Otherwise two agents that report at the same time would be counted as one.
        let counting = self.counting.lock().await;
        let channel = self.channel(id).await?;
        // A late report is not an error: the agent has done what it was asked for.
        if channel.state == ChannelState::Archived {
            return Ok(ArchiveProgress::of(&channel));
        }
        if channel.state != ChannelState::Archiving {
            return Err(SwarmError::Refused(format!("channel {} is not being archived", channel.id)));
        }
        if !channel.agents().any(|member| member == agent) {
            return Err(SwarmError::Refused(format!("you are not in channel {}", channel.id)));
        }
        let before = ArchiveProgress::of(&channel);
        if !before.ready.contains(agent) {
            let text = format!(
                "{agent} is ready to archive ({} of {})",
                before.ready.len() + 1,
                before.ready.len() + before.waiting.len()
            );
            let step = ArchiveStep::Ready(agent.clone());
            self.step(by, &channel, step, NewPost::of_system(&channel.id, text, unix_ms())).await?;
        }
        // Released first: finishing needs no count and must not make other agents wait.
        drop(counting);
        self.finish_ready_archive(&channel.id).await?;
        Ok(ArchiveProgress::of(&self.channel(&channel.id).await?))
    }

    /// Finishes the archives whose deadline has passed, and returns the next deadline in Unix milliseconds.
    pub(crate) async fn finish_due_archives(&self, now: i64) -> Result<Option<i64>, SwarmError> {
        let mut next: Option<i64> = None;
        for (id, due_at) in self.store.channels().pending_archives().await? {
            if due_at <= now {
                self.finish(&Actor::system(), &self.channel(&id).await?, "its time is over", false, now)
                    .await?;
            } else {
                next = Some(next.map_or(due_at, |at| at.min(due_at)));
            }
        }
        Ok(next)
    }

    /// Finishes an archive if every agent that is a member now is ready, also if no agent is left.
    pub(super) async fn finish_ready_archive(&self, id: &ChannelId) -> Result<(), SwarmError> {
        let channel = self.channel(id).await?;
        if channel.state == ChannelState::Archiving && ArchiveProgress::of(&channel).waiting.is_empty() {
            self.finish(&Actor::system(), &channel, "all are ready", false, unix_ms()).await?;
        }
        Ok(())
    }

    /// Removes the members whose agents were deleted while the channel was archived.
    async fn remove_missing_members(&self, channel: &Channel) -> Result<(), SwarmError> {
        let config = self.config();
        let gone = channel.agents().filter(|agent| config.agent(agent).is_none());
        let gone: Vec<Party> = gone.cloned().map(Party::Agent).collect();
        if !gone.is_empty() {
            self.assign_members(&Actor::system(), &channel.id, &[], &gone).await?;
        }
        Ok(())
    }

    /// Finishes an archive, unless the channel has changed since it was read in a way that no longer allows it.
    async fn finish(
        &self,
        by: &Actor,
        channel: &Channel,
        why: &str,
        forced: bool,
        now: i64,
    ) -> Result<(), SwarmError> {
        let text = format!("This channel is archived ({why}); it can only be read.");
        let step = ArchiveStep::Finish { forced };
        if self.step(by, channel, step, NewPost::of_system(&channel.id, text, now)).await? {
            // Nothing can wake a member in this channel any more, so its sessions stop waiting.
            for agent in self.channel(&channel.id).await?.agents() {
                self.notifier.tell(SchedulerEvent::Seen(session(agent, &channel.id)));
            }
        }
        Ok(())
    }

    /// Commits a step, then publishes it. Returns `false` if the channel is not in the state that the step needs.
    async fn step(
        &self,
        by: &Actor,
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
        let posted =
            self.store.channels().archive_step(channel.id.clone(), step, post.clone(), entry).await?;
        if let Some(posted) = &posted {
            self.notifier.publish("channel.changed", &json!({"channel": channel.id, "action": action}));
            self.announce(&post, posted);
        }
        Ok(posted.is_some())
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
