//! Schedules that agents ask for. There is a least distance between two runs of all schedules of an agent, and each is for the
//! agent itself or a channel that it is a member of.

use super::distance::{self, Runs};
use super::times::Times;
use super::{ScheduleWish, view, wish};
use crate::clock::{self, unix_ms};
use crate::error::chain;
use crate::id::{AgentId, Party, ScheduleName};
use crate::store::{Schedule, ScheduleState, ScheduleTarget, Timing};
use crate::swarm::triage::{FiledRequest, Request};
use crate::swarm::{Actor, Swarm, SwarmError};

/// The most schedules of one agent.
const MOST_OF_AGENT: usize = 10;

impl Swarm {
    /// Checks what an agent asks for.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if a part of it is not acceptable, and [`SwarmError::Refused`] if it is not for this
    /// agent to ask for.
    pub(crate) async fn check_agent_schedule(
        &self,
        agent: &AgentId,
        wish: &ScheduleWish,
    ) -> Result<(), SwarmError> {
        let now = unix_ms();
        let party = Party::Agent(agent.clone());
        match self.schedule_target(&wish.to).await? {
            ScheduleTarget::Agent(other) if other == *agent => {}
            ScheduleTarget::Agent(_) => {
                return Err(SwarmError::Refused(
                    "a schedule of yours is for yourself or a channel of yours".to_owned(),
                ));
            }
            ScheduleTarget::Channel(channel) => {
                if !self.channel(&channel).await?.has(&party) {
                    return Err(SwarmError::Refused(format!("you are not a member of #{channel}")));
                }
            }
        }
        wish::text(&wish.text).map_err(SwarmError::Invalid)?;
        let timing = wish::timing(wish, now).map_err(SwarmError::Invalid)?;
        let own = self.schedules_of(agent).await?;
        if own.len() >= MOST_OF_AGENT {
            return Err(SwarmError::Refused(format!(
                "you have {MOST_OF_AGENT} schedules: remove one that you don't need"
            )));
        }
        self.check_distance(&timing, &own, now)
    }

    /// Checks that the times of a new schedule are far enough from now, from each other and from those of the agent's others.
    fn check_distance(&self, timing: &Timing, own: &[Schedule], now: i64) -> Result<(), SwarmError> {
        let least = self.agent_distance();
        let minutes = least / wish::MINUTE_MS;
        // The agent works now, so a time that is close to now would have it work again without a pause.
        if matches!(timing, Timing::At(at) if at - now < least) {
            return Err(SwarmError::Refused(format!(
                "a single time must be at least {minutes} minutes ahead"
            )));
        }
        let times = Times::of(timing).map_err(SwarmError::Invalid)?;
        let new = Runs { times: &times, from: self.agent_begin(timing, now) };
        if distance::is_closer(new, least) {
            return Err(SwarmError::Refused(format!(
                "there must be at least {minutes} minutes between two runs"
            )));
        }
        for other in own.iter().filter(|other| other.state == ScheduleState::Active) {
            // A schedule whose time zone is gone has no times.
            let Ok(times) = Times::of(&other.timing) else { continue };
            if distance::are_closer(new, Runs { times: &times, from: now.max(other.pruned_until) }, least) {
                return Err(SwarmError::Refused(format!(
                    "there must be at least {minutes} minutes between two runs of all your schedules, and {} ({}) has a run \
                     that would be closer",
                    other.name,
                    view::timing_text(&other.timing)
                )));
            }
        }
        Ok(())
    }

    /// Returns the least time between two runs of all schedules of an agent, in milliseconds.
    pub(super) fn agent_distance(&self) -> i64 {
        i64::try_from(self.config().schedule_distance.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the time up to which no time of a new schedule of an agent runs.
    pub(super) fn agent_begin(&self, timing: &Timing, now: i64) -> i64 {
        match timing {
            // The next time of a pattern can be close to now. The pattern begins with the first one that is not.
            Timing::Cron { .. } => now.saturating_add(self.agent_distance()) - 1,
            Timing::Every { .. } | Timing::At(_) | Timing::After(_) => now,
        }
    }

    /// Returns the time before which a schedule does not run because another run of the agent that asked for it was shortly
    /// before, if there is such a time.
    pub(super) async fn too_soon(&self, schedule: &Schedule, now: i64) -> Result<Option<i64>, SwarmError> {
        let Some(agent) = schedule.creator() else { return Ok(None) };
        let last = self.store.schedules().last_run_of(&agent).await?;
        Ok(distance::wait_until(last, now, self.agent_distance()))
    }

    /// Returns the schedules that an agent asked for.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Store`] if the database can't be read.
    pub(crate) async fn schedules_of(&self, agent: &AgentId) -> Result<Vec<Schedule>, SwarmError> {
        let mut all = self.store.schedules().list().await?;
        all.retain(|schedule| schedule.created_by == agent.as_str());
        Ok(all)
    }

    /// Returns the schedules that an agent asked for, as lines for a model.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Store`] if the database can't be read.
    pub(crate) async fn agent_schedules_text(&self, agent: &AgentId) -> Result<String, SwarmError> {
        let now = unix_ms();
        let lines = self.schedules_of(agent).await?.into_iter().map(|schedule| {
            let next = view::next_at(&schedule, now).map(|next| format!(", next {}", clock::utc(next)));
            format!(
                "{} ({}): {} {}{}: {}",
                schedule.name,
                schedule.state.as_str(),
                view::target_text(&schedule.target),
                view::timing_text(&schedule.timing),
                next.unwrap_or_default(),
                crate::clean::summary(&schedule.text, 100)
            )
        });
        let lines: Vec<String> = lines.collect();
        Ok(if lines.is_empty() { "you have no schedules".to_owned() } else { lines.join("\n") })
    }

    /// Removes a schedule that an agent asked for.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if the agent has none of this name.
    pub(crate) async fn remove_agent_schedule(
        &self,
        by: &Actor,
        agent: &AgentId,
        name: &ScheduleName,
    ) -> Result<(), SwarmError> {
        // The name of another's schedule is not told from one that does not exist.
        if !self.schedules_of(agent).await?.iter().any(|schedule| schedule.name == *name) {
            return Err(SwarmError::NoSchedule(name.clone()));
        }
        self.remove_schedule(by, name).await
    }

    /// Carries out the request of an agent. Returns the text for it, or why it failed.
    pub(crate) async fn add_agent_schedule(&self, asked: &FiledRequest) -> Result<String, String> {
        let Some(wish) = wish_of(&asked.request) else { return Err("it is no schedule".to_owned()) };
        // The team may have changed since the request was filed.
        self.check_agent_schedule(&asked.agent, &wish).await.map_err(|error| chain(&error))?;
        let by = Actor::party(Party::Agent(asked.agent.clone()));
        let added = self.add_schedule(&by, &wish).await.map_err(|error| chain(&error))?;
        let next = view::next_at(&added, unix_ms()).map(|next| format!(", next at {}", clock::utc(next)));
        Ok(format!("schedule {} is added{}", added.name, next.unwrap_or_default()))
    }
}

/// Returns the wish of a request, if it is for a schedule.
pub(crate) fn wish_of(request: &Request) -> Option<ScheduleWish> {
    let Request::Schedule { to, text, cron, every, at, tz } = request else { return None };
    Some(ScheduleWish {
        to: to.clone(),
        text: text.clone(),
        cron: cron.clone(),
        every: every.clone(),
        at: at.clone(),
        tz: tz.clone(),
        ..ScheduleWish::default()
    })
}
