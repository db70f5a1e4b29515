//! Agents that a used-up budget keeps from asking their models, and the word that channels get of it.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use super::scheduler::Mode;
use super::{Swarm, standing};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::{AgentId, ChannelId};
use crate::store::{NewPost, Posted, StoreError, Wake};

/// A pause of an agent. Its channels are told of it once a day each.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Pause {
    /// When it began, in Unix milliseconds.
    pub since: i64,
    /// When the day of the budget ends, in Unix milliseconds; `None` where that is beyond all calendars.
    pub until: Option<i64>,
    /// The budget that is used up, and how far.
    pub reason: String,
    /// The day of the budget.
    #[serde(skip)]
    pub day: String,
    /// A name for the budget as it is now, for [`crate::store::Store::note_budget`].
    #[serde(skip)]
    pub budget: String,
}

/// All pauses of now.
pub(super) type Pauses = std::sync::Mutex<BTreeMap<AgentId, Pause>>;

impl Swarm {
    /// Takes note that an agent pauses, and says so in every channel where something waits for it. A pause that
    /// goes on keeps its beginning.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says, where the channels can't be told.
    pub async fn pause(&self, agent: &AgentId, mut pause: Pause) -> Result<(), StoreError> {
        {
            let mut paused = self.pauses();
            if let Some(before) = paused.get(agent).filter(|before| before.budget == pause.budget) {
                pause.since = before.since;
            }
            paused.insert(agent.clone(), pause.clone());
        }
        for unseen in self.store.all_unseen()?.into_iter().filter(|unseen| unseen.agent == *agent) {
            self.say_pause(&unseen.channel, &pause).await?;
        }
        Ok(())
    }

    /// Takes note that an agent may ask its model again.
    pub fn resume(&self, agent: &AgentId) {
        self.pauses().remove(agent);
    }

    /// Agents that pause now.
    #[must_use]
    pub fn paused(&self) -> BTreeMap<AgentId, Pause> {
        let now = unix_ms();
        let mut paused = self.pauses();
        paused.retain(|_, pause| pause.until.is_none_or(|until| until > now));
        paused.clone()
    }

    /// Says in a channel which of those that a message calls pause, and why.
    pub(super) async fn tell_of_pauses(&self, new: &NewPost, posted: &Posted) {
        if new.wake == Wake::Nobody {
            return;
        }
        let paused = self.paused();
        if paused.is_empty() {
            return;
        }
        let config = self.config();
        for agent in &posted.recipients {
            let looks_by_itself =
                config.agent(agent).is_some_and(|agent| standing::mode(agent.role) == Mode::Active);
            let is_called = new.wake == Wake::AtOnce || new.mentions.has(agent) || looks_by_itself;
            let Some(pause) = paused.get(agent).filter(|_| is_called) else { continue };
            if let Err(error) = self.say_pause(&posted.channel, pause).await {
                tracing::error!(error = chain(&error), %agent, "failed to say that an agent pauses");
            }
        }
    }

    /// Says that an agent pauses, once a day in each channel for each budget.
    pub(super) async fn say_pause(&self, channel: &ChannelId, pause: &Pause) -> Result<(), StoreError> {
        let is_new = self.store.note_budget(pause.day.clone(), channel.clone(), pause.budget.clone()).await?;
        if is_new {
            // In a box: a post leads here.
            let said = Box::pin(self.say_as_system(channel, pause.reason.clone(), false)).await;
            if let Err(error) = said {
                tracing::warn!(error = chain(&error), %channel, "failed to say that a budget is used up");
            }
        }
        Ok(())
    }

    fn pauses(&self) -> MutexGuard<'_, BTreeMap<AgentId, Pause>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
