//! The brakes put on what agents post.

use std::time::Duration;

use super::brake::{self, Limits, MARK, Recent, Verdict};
use super::{Swarm, SwarmError};
use crate::id::Party;
use crate::store::{NewPost, OUTLINE, Wake};

/// What the brakes make of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Braked {
    /// How much later it wakes.
    pub(super) after: Duration,
    /// It wakes nobody; the reason is said where it was not said yet.
    pub(super) stop: Option<Option<String>>,
}

impl Swarm {
    /// What the brakes make of a message that is to be posted.
    pub(super) fn braked(&self, new: &NewPost) -> Result<Braked, SwarmError> {
        let free = Braked { after: Duration::ZERO, stop: None };
        if new.author.agent().is_none() || new.wake == Wake::Nobody {
            return Ok(free);
        }
        let turns = self.config().budgets.turns_without_human;
        let limits = Limits { turns_without_human: usize::try_from(turns).unwrap_or(1), ..Limits::default() };
        // flock's own messages stand between those of agents.
        let posts = self.store.since_human(&new.channel, limits.turns_without_human * 2 + 50)?;
        let is_said = posts.iter().any(|post| post.author == Party::System && post.start.starts_with(MARK));
        let mut recent: Vec<Recent> = posts.iter().rev().map(Recent::from).collect();
        let end = new.content.char_indices().nth(OUTLINE).map_or(new.content.len(), |(at, _)| at);
        let (start, length) = (&new.content[..end], new.content.len());
        recent.push(Recent::new(new.author.clone(), start, length, new.mentions.clone(), new.now));
        Ok(match brake::verdict(&recent, &limits, new.now) {
            Verdict::Go => free,
            Verdict::Slow(wait) => Braked { after: Duration::from_millis(wait), stop: None },
            Verdict::Stop(why) => {
                tracing::warn!(channel = %new.channel, agent = %new.author, why, "a message wakes nobody");
                Braked { after: Duration::ZERO, stop: Some((!is_said).then(|| format!("{MARK}{why}"))) }
            }
        })
    }
}

#[cfg(test)]
#[path = "braking_tests.rs"]
mod tests;
