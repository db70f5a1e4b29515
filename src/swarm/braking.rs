//! Applies the brake to messages that agents post or send directly.

use std::time::Duration;

use super::brake::{self, Limits, MARK, Recent, Verdict};
use super::{By, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::{AgentId, Party};
use crate::store::{Level, Mentioned, NewExchange, NewPost, OUTLINE, Wake};

/// The effect of the brake on a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Braked {
    /// Delay before the message wakes its recipients.
    pub(super) after: Duration,
    /// Set if the message wakes nobody. It holds the reason unless the channel was already told.
    pub(super) stop: Option<Option<String>>,
}

impl Swarm {
    /// Returns the effect of the brake on a message that is about to be posted.
    pub(super) fn braked(&self, new: &NewPost) -> Result<Braked, SwarmError> {
        let free = Braked { after: Duration::ZERO, stop: None };
        if new.author.agent().is_none() || new.wake == Wake::Nobody {
            return Ok(free);
        }
        let limits = self.brake_limits();
        // Read more rows than the limit, because flock's own messages stand between those of agents.
        let posts = self.store.since_human(&new.channel, limits.turns_without_human * 2 + 50)?;
        let is_said = posts.iter().any(|post| post.author == Party::System && post.start.starts_with(MARK));
        let mut recent: Vec<Recent> = posts.iter().rev().map(Recent::from).collect();
        // The store returns only the start of each stored message, so the new one is cut to the same length for the
        // comparison.
        let end = new.content.char_indices().nth(OUTLINE).map_or(new.content.len(), |(at, _)| at);
        let (start, length) = (&new.content[..end], new.content.len());
        recent.push(Recent::new(new.author.clone(), start, length, new.mentions.clone(), new.now));
        Ok(match brake::verdict(&recent, &limits, new.now) {
            Verdict::Go => free,
            Verdict::Slow(wait) => Braked { after: Duration::from_millis(wait), stop: None },
            Verdict::Stop(why) => {
                let why = why.in_channel();
                tracing::warn!(channel = %new.channel, agent = %new.author, why, "a message wakes nobody");
                Braked { after: Duration::ZERO, stop: Some((!is_said).then(|| format!("{MARK}{why}"))) }
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
    pub(super) async fn brake_direct(
        &self,
        by: &By,
        from: &AgentId,
        to: &AgentId,
        text: &str,
    ) -> Result<(Duration, NewExchange), SwarmError> {
        let now = unix_ms();
        let limits = self.brake_limits();
        let sent = self.store.exchanges(from, to, limits.turns_without_human.saturating_add(50))?;
        let mut recent: Vec<Recent> = sent.iter().rev().map(Recent::from).collect();
        let end = text.char_indices().nth(OUTLINE).map_or(text.len(), |(at, _)| at);
        // A direct message calls its recipient, just as a mention does in a channel.
        let mentions = Mentioned { agents: vec![to.clone()], all: false };
        recent.push(Recent::new(Party::Agent(from.clone()), &text[..end], text.len(), mentions, now));
        let after = match brake::verdict(&recent, &limits, now) {
            Verdict::Go => Duration::ZERO,
            Verdict::Slow(wait) => Duration::from_millis(wait),
            Verdict::Stop(why) => {
                tracing::warn!(agent = %from, %to, %why, "a direct message is not sent");
                let entry = by.entry("task.brake", to.as_str(), Level::Yellow, why.to_string());
                self.store.audit(entry, now).await?;
                return Err(SwarmError::Refused(why.refusal(to)));
            }
        };
        Ok((after, NewExchange::new(from.clone(), to.clone(), text, now)))
    }

    fn brake_limits(&self) -> Limits {
        let turns = self.config().budgets.turns_without_human;
        Limits { turns_without_human: usize::try_from(turns).unwrap_or(1), ..Limits::default() }
    }
}

#[cfg(test)]
#[path = "braking_tests.rs"]
mod tests;
