//! Agents that can't call their models because a budget is used up, and the messages about it in channels.

use std::collections::BTreeMap;

use super::scheduler::Mode;
use super::{Swarm, agent_state};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::{AgentId, ChannelId};
use crate::store::{CommittedPost, NewPost, StoreError, WakeUrgency};
use crate::sync::lock;

/// A pause of an agent. Each of its channels is told once a day.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Pause {
    /// Start of the pause in Unix milliseconds.
    pub since: i64,
    /// End of the budget's day in Unix milliseconds. `None` if that is beyond the supported calendar.
    pub until: Option<i64>,
    /// The budget that is used up, with the amounts.
    pub reason: String,
    /// The day of the budget, for example `2026-02-28`.
    #[serde(skip)]
    pub day: String,
    /// Key of the budget with its current limits, for the record of its notice in the database.
    #[serde(skip)]
    pub budget: String,
}

/// The current pauses by agent.
pub(super) type Pauses = std::sync::Mutex<BTreeMap<AgentId, Pause>>;

impl Swarm {
    /// Records that an agent is paused, and reports it in every channel with unread messages for the agent. A pause
    /// that continues keeps its start time.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the pause can't be reported in a channel. It is recorded all the same.
    pub(crate) async fn pause(&self, agent: &AgentId, mut pause: Pause) -> Result<(), StoreError> {
        let is_new = {
            let mut paused = lock(&self.pauses);
            let before = paused.get(agent).filter(|before| before.budget == pause.budget);
            let is_new = before.is_none_or(|before| before.day != pause.day);
            if let Some(before) = before {
                pause.since = before.since;
            }
            paused.insert(agent.clone(), pause.clone());
            is_new
        };
        if is_new {
            let what = serde_json::json!({"agent": agent, "until": pause.until});
            self.notifier.publish("agent.paused", &what);
        }
        for unseen in self.store.deliveries().unseen_of([agent]).await? {
            self.post_pause(&unseen.channel, &pause).await?;
        }
        Ok(())
    }

    /// Records that an agent may call its model again.
    pub(crate) fn resume(&self, agent: &AgentId) {
        lock(&self.pauses).remove(agent);
    }

    /// Returns the agents that are paused now.
    #[must_use]
    pub(crate) fn paused(&self) -> BTreeMap<AgentId, Pause> {
        let now = unix_ms();
        let mut paused = lock(&self.pauses);
        // The end of the day ends a pause without an event.
        paused.retain(|_, pause| pause.until.is_none_or(|until| until > now));
        paused.clone()
    }

    /// Reports in a channel which of the agents that a message calls are paused, and why.
    pub(super) async fn report_pauses(&self, new: &NewPost, posted: &CommittedPost) {
        if new.wake == WakeUrgency::Nobody {
            return;
        }
        let paused = self.paused();
        if paused.is_empty() && !posted.recipients.iter().any(|agent| self.is_parked(agent)) {
            return;
        }
        let config = self.config();
        for agent in &posted.recipients {
            // Active agents start turns on plain messages too, so every message calls them.
            let looks_by_itself =
                config.agent(agent).is_some_and(|agent| agent_state::mode(agent.role) == Mode::Active);
            let is_called = new.wake == WakeUrgency::AtOnce || new.mentions.has(agent) || looks_by_itself;
            if !is_called {
                continue;
            }
            let said = match paused.get(agent) {
                Some(pause) => self.post_pause(&posted.channel, pause).await,
                None => self.post_park(&posted.channel, agent).await,
            };
            if let Err(error) = said {
                tracing::error!(error = chain(&error), %agent, "failed to say that an agent pauses");
            }
        }
    }

    /// Reports a pause in a channel, once a day for each budget.
    async fn post_pause(&self, channel: &ChannelId, pause: &Pause) -> Result<(), StoreError> {
        self.post_budget_notice(channel, &pause.day, &pause.budget, &pause.reason).await
    }

    /// Posts the message about a budget that is used up, once a day for each budget. `budget` is its key.
    pub(super) async fn post_budget_notice(
        &self,
        channel: &ChannelId,
        day: &str,
        budget: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        let is_new = self
            .store
            .usage()
            .record_budget_notice(day.to_owned(), channel.clone(), budget.to_owned())
            .await?;
        if is_new {
            // Boxed, because posting leads back to this function and the future would have infinite size.
            let said = Box::pin(self.post_as_system(channel, text.to_owned(), false)).await;
            if let Err(error) = said {
                tracing::warn!(error = chain(&error), %channel, "failed to say that a budget is used up");
            }
        }
        Ok(())
    }
}
