//! Applies the brake to messages that agents post or send directly.

use std::time::Duration;

use super::loop_detector::{self, LoopLimits, LoopVerdict, MARK, RecentMessage};
use super::{Actor, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::{AgentId, Party};
use crate::store::{Level, NewExchange, NewPost, OUTLINE_CHARS, PostMentions, WakeUrgency};

/// The effect of the brake on a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WakeRestriction {
    /// Delay before the message wakes its recipients.
    pub(super) after: Duration,
    /// Set if the message wakes nobody. It holds the notice unless the channel was already told.
    pub(super) stop: Option<Option<StopNotice>>,
}

/// The notice to a channel whose messages the brake stops.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StopNotice {
    pub(super) text: String,
    /// The time of the message with which the loop begins, mostly a person's, in Unix milliseconds. Messages that are
    /// stopped at the same moment have the same one.
    pub(super) since: i64,
}

impl Swarm {
    /// Returns the effect of the brake on a message that is about to be posted.
    pub(super) async fn braked(&self, new: &NewPost) -> Result<WakeRestriction, SwarmError> {
        let free = WakeRestriction { after: Duration::ZERO, stop: None };
        if new.author.agent().is_none() || new.wake == WakeUrgency::Nobody {
            return Ok(free);
        }
        let limits = self.loop_limits();
        // Read more rows than the limit, because flock's own messages stand between those of agents.
        let posts = self.store.posts().since_human(&new.channel, limits.turns_without_human * 2 + 50).await?;
        let is_said = posts.iter().any(|post| post.author == Party::System && post.start.starts_with(MARK));
        let since = posts.last().map_or(new.now, |post| post.at);
        let mut recent: Vec<RecentMessage> = posts.iter().rev().map(RecentMessage::from).collect();
        recent.push(outlined(new.author.clone(), &new.content, new.mentions.clone(), new.now));
        Ok(match loop_detector::verdict(&recent, &limits, new.now) {
            LoopVerdict::Go => free,
            LoopVerdict::Slow(wait) => WakeRestriction { after: Duration::from_millis(wait), stop: None },
            LoopVerdict::Stop(why) => {
                let why = why.channel_text();
                tracing::warn!(channel = %new.channel, agent = %new.author, why, "a message wakes nobody");
                WakeRestriction {
                    after: Duration::ZERO,
                    stop: Some((!is_said).then(|| StopNotice { text: format!("{MARK}{why}"), since })),
                }
            }
        })
    }

    /// Decides if an agent may send another one something directly. Returns the delay before it wakes the recipient,
    /// and the record that must be stored with the message so that it is counted. Both directions between two agents
    /// count together, whatever carries the text: a message, a question, an answer, or a request to the sysadmin.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Refused`] if the brake stops the message, or a store error.
    pub(super) async fn check_direct_message(
        &self,
        by: &Actor,
        from: &AgentId,
        to: &AgentId,
        text: &str,
    ) -> Result<(Duration, NewExchange), SwarmError> {
        let now = unix_ms();
        let limits = self.loop_limits();
        let sent = self
            .store
            .exchanges()
            .since_human(from, to, limits.turns_without_human.saturating_add(50))
            .await?;
        let mut recent: Vec<RecentMessage> = sent.iter().rev().map(RecentMessage::from).collect();
        // A direct message calls its recipient, just as a mention does in a channel.
        let mentions = PostMentions { agents: vec![to.clone()], all: false };
        recent.push(outlined(Party::Agent(from.clone()), text, mentions, now));
        let after = match loop_detector::verdict(&recent, &limits, now) {
            LoopVerdict::Go => Duration::ZERO,
            LoopVerdict::Slow(wait) => Duration::from_millis(wait),
            LoopVerdict::Stop(why) => {
                tracing::warn!(agent = %from, %to, %why, "a direct message is not sent");
                let entry = by.entry("task.brake", to.as_str(), Level::Yellow, why.to_string());
                self.store.audit().append(entry, now).await?;
                return Err(SwarmError::Refused(why.refusal(to)));
            }
        };
        Ok((after, NewExchange::new(from.clone(), to.clone(), text, now)))
    }

    fn loop_limits(&self) -> LoopLimits {
        let turns = self.config().budgets.turns_without_human;
        LoopLimits { turns_without_human: usize::try_from(turns).unwrap_or(1), ..LoopLimits::default() }
    }
}

/// Returns the record of a new message. The store returns only the start of each stored message, so the new one is cut
/// to the same length for the comparison.
fn outlined(author: Party, text: &str, mentions: PostMentions, at: i64) -> RecentMessage {
    let end = text.char_indices().nth(OUTLINE_CHARS).map_or(text.len(), |(at, _)| at);
    RecentMessage::new(author, &text[..end], text.len(), mentions, at)
}

#[cfg(test)]
#[path = "loop_guard_tests.rs"]
mod tests;
