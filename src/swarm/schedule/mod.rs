//! Schedules: texts that are given to a channel or an agent at certain times or after an event.
//!
//! | file | subject |
//! |---|---|
//! | [`wish`] | what somebody wants is checked |
//! | [`pattern`], [`times`] | the times, as moments |
//! | [`event`] | the events after which a schedule can run |
//! | [`plan`] | what becomes of the times that have passed |
//! | [`advance`] | a schedule is brought up to the present time |
//! | [`allowance`] | the budget of a schedule |
//! | [`by_agent`], [`distance`] | what agents may ask for, and how far their runs are from each other |
//! | [`view`] | what is shown of a schedule |
//!
//! Each time is one row that is committed together with the message or the task that it causes. So a process that is
//! killed at any moment leaves nothing that the next one runs twice or forgets.

mod advance;
pub(crate) mod allowance;
pub(crate) mod by_agent;
mod distance;
pub(crate) mod event;
mod pattern;
pub(crate) mod plan;
pub(crate) mod times;
pub(crate) mod view;
pub(crate) mod wish;

#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

pub(crate) use wish::ScheduleWish;

use super::person::{self, Payer};
use super::{Actor, Swarm, SwarmError, budget};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::id::{AgentId, ChannelId, Party, ScheduleName};
use crate::store::{
    ChannelState, Level, MissedPolicy, NewSchedule, Schedule, ScheduleAdded, ScheduleBudget, ScheduleSlot,
    ScheduleState, ScheduleTarget,
};

/// The most schedules of a home.
pub(crate) const MOST: u32 = 200;
/// The most rows of a history in one answer.
pub(crate) const MOST_HISTORY: u32 = 200;

impl Swarm {
    /// Adds a schedule.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if a part of it is not acceptable, also a budget that can't bind the recipient,
    /// [`SwarmError::NoChannel`], [`SwarmError::Archived`] or [`SwarmError::NoAgent`] if its recipient can't take anything, and
    /// [`SwarmError::ScheduleExists`] if the name is taken.
    pub(crate) async fn add_schedule(&self, by: &Actor, wish: &ScheduleWish) -> Result<Schedule, SwarmError> {
        let now = unix_ms();
        let target = self.schedule_target(&wish.to).await?;
        wish::text(&wish.text).map_err(SwarmError::Invalid)?;
        let timing = wish::timing(wish, now).map_err(SwarmError::Invalid)?;
        let name: Option<ScheduleName> = match &wish.name {
            Some(name) => Some(name.parse().map_err(|error| SwarmError::Invalid(format!("{error}")))?),
            None => None,
        };
        let budget = ScheduleBudget { tokens: wish.tokens, cost: wish.cost_micros };
        self.check_schedule_budget(&target, budget).await?;
        let detail = format!("{}, {}", view::target_text(&target), view::timing_text(&timing));
        let new = NewSchedule {
            name,
            target,
            text: wish.text.clone(),
            missed: wish.missed.unwrap_or(MissedPolicy::Once),
            tokens: budget.tokens,
            cost: budget.cost,
            created_by: by.party.to_string(),
            begins: if matches!(by.party, Party::Agent(_)) { self.agent_begin(&timing, now) } else { now },
            timing,
            now,
        };
        let entry = by.entry("schedule.add", "", Level::Yellow, detail);
        match self.store.schedules().add(new, MOST, entry).await? {
            ScheduleAdded::New(schedule) => {
                self.publish_schedule(&schedule.name, "added");
                Ok(*schedule)
            }
            ScheduleAdded::NameTaken(name) => Err(SwarmError::ScheduleExists(name)),
            ScheduleAdded::TooMany => {
                Err(SwarmError::Invalid(format!("there are {MOST} schedules, and no more are possible")))
            }
        }
    }

    /// Returns the recipient of this name: `#dev` is a channel, `@coder` an agent, and `dev` whatever exists.
    async fn schedule_target(&self, to: &str) -> Result<ScheduleTarget, SwarmError> {
        let config = self.config();
        let agent = |name: &str| known_agent(&config, name);
        let channel = match (to.strip_prefix('#'), to.strip_prefix('@')) {
            (_, Some(name)) => {
                let Some(agent) = agent(name) else {
                    let id = name.parse().map_err(|error| SwarmError::Invalid(format!("{error}")))?;
                    return Err(SwarmError::NoAgent(id));
                };
                return Ok(ScheduleTarget::Agent(agent));
            }
            (Some(name), None) => name,
            (None, None) => to,
        };
        let id: Result<ChannelId, _> = channel.parse();
        let found = match &id {
            Ok(id) => self.store.channels().find(id).await?,
            Err(_) => None,
        };
        let agent = if to.starts_with('#') { None } else { agent(to) };
        match (found, agent) {
            (Some(_), Some(_)) => {
                Err(SwarmError::Invalid(format!("{to} is an agent and a channel: write @{to} or #{to}")))
            }
            (Some(found), None) if found.state == ChannelState::Archived => {
                Err(SwarmError::Archived(found.id))
            }
            (Some(found), None) => Ok(ScheduleTarget::Channel(found.id)),
            (None, Some(agent)) => Ok(ScheduleTarget::Agent(agent)),
            (None, None) => match id {
                Ok(id) if to.starts_with('#') => Err(SwarmError::NoChannel(id)),
                _ => Err(SwarmError::Invalid(format!(
                    "there is no channel and no agent {:?}: write the name of one, as in dev or @coder",
                    crate::clean::summary(to, 80)
                ))),
            },
        }
    }

    /// Returns the schedule with this name.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if there is none.
    pub(crate) async fn schedule(&self, name: &ScheduleName) -> Result<Schedule, SwarmError> {
        let found = self.store.schedules().find(name).await?;
        found.ok_or_else(|| SwarmError::NoSchedule(name.clone()))
    }

    /// Pauses a schedule or lets it go on. Times that pass meanwhile have no effect. Whoever lets one go on whose person is gone
    /// takes it over, or it would pause again.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if there is none, and [`SwarmError::Refused`] if its only time has passed.
    pub(crate) async fn pause_schedule(
        &self,
        by: &Actor,
        name: &ScheduleName,
        paused: bool,
    ) -> Result<Schedule, SwarmError> {
        let found = self.schedule(name).await?;
        if found.state == ScheduleState::Done {
            return Err(SwarmError::Refused(format!("the only time of schedule {name} has passed")));
        }
        let (party, at) = (&found.created_by, found.created_at);
        if !paused
            && let Payer::Gone(_) = person::payer(&self.store, party, at, person::SCHEDULE_ROLES).await?
        {
            let entry = by.entry("schedule.take", name.as_str(), Level::Yellow, format!("was of {party}"));
            self.store.schedules().take_over(found.id, by.party.to_string(), entry, unix_ms()).await?;
        }
        let action = if paused { "schedule.pause" } else { "schedule.resume" };
        let entry = by.entry(action, name.as_str(), Level::Green, String::new());
        let why = paused.then(String::new);
        if self.store.schedules().set_paused(found.id, why, entry, unix_ms()).await? {
            self.publish_schedule(name, if paused { "paused" } else { "resumed" });
        }
        self.schedule(name).await
    }

    /// Removes a schedule with its history.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if there is none.
    pub(crate) async fn remove_schedule(&self, by: &Actor, name: &ScheduleName) -> Result<(), SwarmError> {
        let found = self.schedule(name).await?;
        let detail = format!("{}, {}", view::target_text(&found.target), view::timing_text(&found.timing));
        let entry = by.entry("schedule.remove", name.as_str(), Level::Yellow, detail);
        if self.store.schedules().remove(found.id, entry, unix_ms()).await? {
            self.publish_schedule(name, "removed");
        }
        Ok(())
    }

    /// Returns what became of a schedule's times, the newest first.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if there is none.
    pub(crate) async fn schedule_history(
        &self,
        name: &ScheduleName,
        limit: u32,
    ) -> Result<Vec<ScheduleSlot>, SwarmError> {
        let found = self.schedule(name).await?;
        Ok(self.store.schedules().history(found.id, limit.clamp(1, MOST_HISTORY)).await?)
    }

    /// Returns a schedule as JSON.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Store`] if its history can't be read.
    pub(crate) async fn shown_schedule(&self, schedule: &Schedule, now: i64) -> Result<Value, SwarmError> {
        let last = self.store.schedules().history(schedule.id, 1).await?;
        let day = budget::day(now, &TimeZone::system());
        let used = self.store.schedules().used(schedule.id, &day.name).await?;
        Ok(view::shown(schedule, last.first(), used, now))
    }

    /// Returns all schedules as JSON, by name.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Store`] if the database can't be read.
    pub(crate) async fn shown_schedules(&self, now: i64) -> Result<Vec<Value>, SwarmError> {
        let mut shown = Vec::new();
        for schedule in self.store.schedules().list().await? {
            shown.push(self.shown_schedule(&schedule, now).await?);
        }
        Ok(shown)
    }

    /// Returns the number of schedules, those that fail, and the next time of all of them, as JSON.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Store`] if the database can't be read.
    pub(crate) async fn schedule_summary(&self, now: i64) -> Result<Value, SwarmError> {
        let (mut active, mut paused, mut failing) = (0_u32, 0_u32, Vec::new());
        let mut next: Option<(i64, ScheduleName)> = None;
        for schedule in self.store.schedules().list().await? {
            let last = self.store.schedules().history(schedule.id, 1).await?;
            match schedule.state {
                ScheduleState::Active => active += 1,
                ScheduleState::Paused => paused += 1,
                ScheduleState::Done => {}
            }
            if view::is_failing(&schedule, last.first()) {
                failing.push(schedule.name.clone());
            }
            let own = view::next_at(&schedule, now).map(|at| (at, schedule.name));
            next = next.into_iter().chain(own).min();
        }
        let (next_at, next) = next.unzip();
        Ok(json!({"active": active, "paused": paused, "failing": failing, "next": next, "nextAt": next_at}))
    }

    /// Tells watchers, and the timer, that something about a schedule changed.
    pub(super) fn publish_schedule(&self, name: &ScheduleName, action: &str) {
        self.notifier.publish("schedule.changed", &json!({"schedule": name, "action": action}));
        self.schedule_changes.notify_one();
    }

    /// Waits until a schedule was added or changed since the last look.
    pub(crate) async fn schedule_changed(&self) {
        self.schedule_changes.notified().await;
    }
}

/// Returns the agent of this name, if the configuration has it.
fn known_agent(config: &Config, name: &str) -> Option<AgentId> {
    let id: AgentId = name.parse().ok()?;
    config.agent(&id).map(|agent| agent.id.clone())
}
