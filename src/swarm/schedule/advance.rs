//! Brings a schedule up to the present time: plans what becomes of the times that have passed, and does it step by step.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;

use super::event;
use super::plan::{self, Plan, SlotState, Step};
use super::times::Times;
use super::{view, wish};
use crate::clean;
use crate::clock::{self, unix_ms};
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::id::{AgentId, Party, ScheduleName, SessionKey, SessionKind};
use crate::store::{
    ChannelState, InboxItemKind, Level, MissedSlots, NewInboxItem, NewPost, NewTask, Person, PostMentions,
    Schedule, ScheduleState, ScheduleTarget, SlotCause, SlotDelivery, SlotOutcome, SlotResult, SlotRun,
    StoreError, TaskKind, Timing, WakeUrgency,
};
use crate::swarm::person::{self, Payer};
use crate::swarm::task::MAX_SUMMARY;
use crate::swarm::{Actor, Swarm, SwarmError, budget, mention};

/// Time after which a schedule that could not be advanced is tried again.
const RETRY_MS: i64 = 5_000;
/// The least time between two runs after events.
const EVENT_DISTANCE_MS: i64 = 60_000;

/// The readiness of a recipient to be given something.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// Not before this time, if it is known, or before something changes.
    Wait {
        until: Option<i64>,
        why: String,
    },
    /// Not before a person does something about it.
    Gone(String),
}

impl Swarm {
    /// Brings all schedules up to `now`. Returns the time of the next look, and `None` if only a change can make one
    /// necessary.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the schedules can't be listed. A schedule that fails is tried again later, and the others
    /// go on.
    pub(crate) async fn look_at_schedules(&self, now: i64) -> Result<Option<i64>, StoreError> {
        let mut wake_at: Option<i64> = None;
        let mut schedules = self.store.schedules().list().await?;
        // If two of an agent are due at once, only one runs. A single time has no later one.
        schedules.sort_by_key(|schedule| !matches!(schedule.timing, Timing::At(_)));
        for mut schedule in schedules {
            // A single time that is ahead again, because the clock was set back.
            if schedule.state == ScheduleState::Done
                && matches!(schedule.timing, Timing::At(at) if at > now)
                && self.store.schedules().reopen(schedule.id, now).await?
            {
                tracing::warn!(schedule = %schedule.name, "the clock was set back");
                schedule.state = ScheduleState::Active;
                schedule.covered_at = schedule.pruned_until.max(now);
                let data = serde_json::json!({"schedule": schedule.name, "action": "resumed"});
                self.notifier.publish("schedule.changed", &data);
            }
            if schedule.state != ScheduleState::Active {
                continue;
            }
            let next = match self.advance(&schedule, now).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(schedule = %schedule.name, error = chain(&error), "failed to advance a schedule");
                    Some(now + RETRY_MS)
                }
            };
            wake_at = wake_at.into_iter().chain(next).min();
        }
        Ok(wake_at)
    }

    /// Brings a schedule up to `now`. Returns the time of its next look.
    async fn advance(&self, schedule: &Schedule, now: i64) -> Result<Option<i64>, SwarmError> {
        if let Some(creator) = schedule.creator().filter(|creator| self.require_agent(creator).is_err()) {
            return self.pause_by_itself(schedule, format!("there is no agent {creator}"), now).await;
        }
        if let Payer::Gone(why) = self.schedule_payer(schedule).await? {
            return self.pause_by_itself(schedule, why, now).await;
        }
        match self.readiness(&schedule.target, now).await? {
            Readiness::Ready => {}
            // Its times are dealt with when the recipient can be given something again, by the policy for missed ones.
            Readiness::Wait { until, .. } => return Ok(until),
            Readiness::Gone(why) => return self.pause_by_itself(schedule, why, now).await,
        }
        // The machine may have lost a time zone.
        if let Err(why) = Times::of(&schedule.timing) {
            return self.pause_by_itself(schedule, why, now).await;
        }
        if matches!(schedule.timing, Timing::After(_)) {
            return self.follow_event(schedule, now).await;
        }
        if matches!(schedule.timing, Timing::At(at) if at <= now)
            && let Some(free_at) = self.too_soon(schedule, now).await?
        {
            return Ok(Some(free_at));
        }
        let plan = self.schedule_plan(schedule, now).await?;
        for step in plan.steps {
            fault_point::reach(FaultPoint::Scheduling);
            if !self.take_step(schedule, step, now).await? {
                // A person changed it meanwhile, and the change has its own look.
                return Ok(None);
            }
            fault_point::reach(FaultPoint::Scheduling);
        }
        Ok(plan.wake_at)
    }

    /// Pauses a schedule that can't run before a person does something about it.
    async fn pause_by_itself(
        &self,
        schedule: &Schedule,
        why: String,
        now: i64,
    ) -> Result<Option<i64>, SwarmError> {
        tracing::warn!(schedule = %schedule.name, why, "a schedule is paused");
        let entry =
            Actor::system().entry("schedule.pause", schedule.name.as_str(), Level::Yellow, why.clone());
        if self.store.schedules().set_paused(schedule.id, Some(why), entry, now).await? {
            self.publish_schedule(&schedule.name, "paused");
        }
        Ok(None)
    }

    /// Returns what is to be done for a schedule.
    pub(super) async fn schedule_plan(&self, schedule: &Schedule, now: i64) -> Result<Plan, SwarmError> {
        let times = Times::of(&schedule.timing).map_err(SwarmError::Invalid)?;
        let ran = self.store.schedules().ran_after(schedule.id, schedule.covered_at.min(now)).await?;
        let ran: BTreeSet<i64> = ran.into_iter().collect();
        let (covered, pruned_until) = (schedule.covered_at, schedule.pruned_until);
        let clock_difference = self.ownership().clock_difference();
        let state = SlotState { covered, pruned_until, ran: &ran, clock_difference };
        Ok(plan::plan(&times, schedule.missed, state, now))
    }

    /// Takes one step, which is one transaction. Returns `false` if the schedule can't be advanced now.
    pub(super) async fn take_step(
        &self,
        schedule: &Schedule,
        step: Step,
        now: i64,
    ) -> Result<bool, SwarmError> {
        match step {
            Step::SetBack => {
                tracing::warn!(schedule = %schedule.name, "the clock was set back");
                self.set_back(schedule, now).await?;
                Ok(true)
            }
            Step::Miss(missed) => self.miss(schedule, missed, now).await,
            Step::Run { slot, for_others } => {
                if let Some(why) = self.reason_to_skip(schedule, now).await? {
                    let skipped =
                        MissedSlots { first: slot, last: slot, count: 1, outcome: SlotOutcome::Skipped, why };
                    return self.miss(schedule, skipped, now).await;
                }
                let late = (now - slot > plan::GRACE_MS).then(|| match for_others {
                    0 => "it was missed".to_owned(),
                    others => format!("it was missed, with {others} times before it"),
                });
                let run = self.slot_run(schedule, SlotCause::Time, slot, late.unwrap_or_default(), now);
                let charged = self.charged_by_schedule(schedule).await?;
                self.deliver(schedule, run, charged).await
            }
        }
    }

    /// Lets the times after `now` come again, except those that ran.
    async fn set_back(&self, schedule: &Schedule, now: i64) -> Result<(), SwarmError> {
        let times = Times::of(&schedule.timing).map_err(SwarmError::Invalid)?;
        let mut cut = Vec::new();
        for first in self.store.schedules().missed_across(schedule.id, now).await? {
            let ran = self.store.schedules().ran_after(schedule.id, first).await?;
            cut.push(plan::missed_until(&times, first, now, &ran.into_iter().collect()));
        }
        Ok(self.store.schedules().set_back(schedule.id, cut, now).await?)
    }

    /// Returns why a time that has come is left out, if it is.
    async fn reason_to_skip(&self, schedule: &Schedule, now: i64) -> Result<Option<String>, SwarmError> {
        if self.too_soon(schedule, now).await?.is_some() {
            let minutes = self.agent_distance() / wish::MINUTE_MS;
            let agent = &schedule.created_by;
            return Ok(Some(format!(
                "less than {minutes} minutes after the last run of a schedule of {agent}"
            )));
        }
        self.over_budget(schedule, now).await
    }

    async fn miss(&self, schedule: &Schedule, missed: MissedSlots, now: i64) -> Result<bool, SwarmError> {
        let outcome = missed.outcome;
        let is_active = self.store.schedules().record_missed(schedule.id, vec![missed], now).await?;
        if is_active {
            self.publish_slot(&schedule.name, outcome);
        }
        Ok(is_active)
    }

    /// Runs a schedule after the event that it waits with.
    async fn follow_event(&self, schedule: &Schedule, now: i64) -> Result<Option<i64>, SwarmError> {
        let Some((event, at)) = &schedule.event else { return Ok(None) };
        let last = self.store.schedules().last_run(schedule.id).await?;
        // A clock that was set back must not make it wait for days.
        let last = last.filter(|last| *last <= now);
        // The gateway that noted it may have a clock that is ahead.
        let at = (*at).min(now);
        let due = last.map_or(at, |last| last + EVENT_DISTANCE_MS).max(at);
        if due > now {
            return Ok(Some(due));
        }
        let why = match self.over_budget(schedule, now).await? {
            None => {
                let mut run = self.slot_run(schedule, SlotCause::Event, now, String::new(), now);
                run.event = Some(event.clone());
                let charged = self.charged_by_schedule(schedule).await?;
                self.deliver(schedule, run, charged).await?;
                return Ok(None);
            }
            Some(why) => why,
        };
        self.store.schedules().skip_event(schedule.id, event.clone(), why, now).await?;
        self.publish_slot(&schedule.name, SlotOutcome::Skipped);
        Ok(None)
    }

    /// Runs a schedule now, whatever its times are. Whoever has it run pays for it.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if there is none, and [`SwarmError::Refused`] if its recipient can't be given
    /// anything now.
    pub(crate) async fn run_schedule(&self, by: &Actor, name: &ScheduleName) -> Result<(), SwarmError> {
        let now = unix_ms();
        let schedule = self.schedule(name).await?;
        match self.readiness(&schedule.target, now).await? {
            Readiness::Ready => {}
            Readiness::Wait { why, .. } | Readiness::Gone(why) => return Err(SwarmError::Refused(why)),
        }
        let mut run = self.slot_run(&schedule, SlotCause::Person, now, String::new(), now);
        run.entry = by.entry("schedule.run", name.as_str(), Level::Green, "now".to_owned());
        let charged = by.party.to_string().strip_prefix("human:").map(str::to_owned);
        if self.deliver(&schedule, run, charged).await? {
            return Ok(());
        }
        Err(SwarmError::Refused(format!("{} takes no messages now", view::target_text(&schedule.target))))
    }

    /// Notes an event of the gateway for the schedules that run after it. `id` is the event's own.
    pub(crate) async fn note_schedule_event(
        &self,
        id: &str,
        name: &'static str,
        now: i64,
    ) -> Result<bool, StoreError> {
        let mut noted = false;
        for schedule in self.store.schedules().list().await? {
            if matches!(&schedule.timing, Timing::After(after) if after == name) {
                noted |= self.store.schedules().note_event(schedule.id, id.to_owned(), now).await?;
            }
        }
        if noted {
            self.schedule_changes.notify_one();
        }
        Ok(noted)
    }

    async fn readiness(&self, target: &ScheduleTarget, now: i64) -> Result<Readiness, SwarmError> {
        Ok(match target {
            ScheduleTarget::Agent(agent) => self.agent_readiness(agent, now),
            ScheduleTarget::Channel(id) => match self.store.channels().find(id).await? {
                None => Readiness::Gone(format!("there is no channel {id}")),
                Some(channel) if channel.state == ChannelState::Archived => {
                    Readiness::Gone(format!("#{id} is archived"))
                }
                Some(channel) if channel.state == ChannelState::Archiving => {
                    Readiness::Wait { until: None, why: format!("#{id} is being archived") }
                }
                Some(channel) => {
                    // A message that nobody can read now is a missed one.
                    let mut all: Vec<Readiness> =
                        channel.agents().map(|agent| self.agent_readiness(agent, now)).collect();
                    all.retain(|agent| !matches!(agent, Readiness::Gone(_)));
                    if all.is_empty() || all.contains(&Readiness::Ready) {
                        return Ok(Readiness::Ready);
                    }
                    all.into_iter()
                        .min_by_key(|agent| match agent {
                            Readiness::Wait { until, .. } => until.unwrap_or(i64::MAX),
                            Readiness::Ready | Readiness::Gone(_) => i64::MAX,
                        })
                        .unwrap_or(Readiness::Ready)
                }
            },
        })
    }

    fn agent_readiness(&self, agent: &AgentId, now: i64) -> Readiness {
        if self.require_agent(agent).is_err() {
            return Readiness::Gone(format!("there is no agent {agent}"));
        }
        if let Some(why) = self.frozen_text(agent) {
            return Readiness::Wait { until: None, why };
        }
        match self.paused().remove(agent) {
            // A pause without an end, or one that should be over, is looked at from time to time.
            Some(pause) => {
                let until = pause.until.filter(|until| *until > now).unwrap_or(now + 10 * 60_000);
                Readiness::Wait { until: Some(until), why: pause.reason }
            }
            None => Readiness::Ready,
        }
    }

    /// Returns who pays for the runs of a schedule.
    async fn schedule_payer(&self, schedule: &Schedule) -> Result<Payer, StoreError> {
        person::payer(&self.store, &schedule.created_by, schedule.created_at, person::SCHEDULE_ROLES).await
    }

    /// Returns the name that the calls of a schedule's runs are counted for.
    async fn charged_by_schedule(&self, schedule: &Schedule) -> Result<Option<String>, StoreError> {
        Ok(person::charged_name(&schedule.created_by, &self.schedule_payer(schedule).await?))
    }

    /// Returns why the budget of the person who pays for a schedule leaves no room for a run.
    async fn over_payers_budget(&self, schedule: &Schedule, now: i64) -> Result<Option<String>, SwarmError> {
        let Payer::Person(payer) = self.schedule_payer(schedule).await? else { return Ok(None) };
        let Some(limit) = budget::person_limit(&payer) else { return Ok(None) };
        let day = budget::day(now, &TimeZone::system());
        let found = self.store.usage().limits_in_use(day.name, vec![limit]).await?;
        let is_used_up = found.iter().any(budget::is_used_up);
        Ok(is_used_up.then(|| format!("the budget of {} for the day is used up", payer.name)))
    }

    /// Returns why a schedule's budget, or that of the person who pays for it, leaves no room for a run. What the schedule's own
    /// has used up is said once a day in its channel.
    async fn over_budget(&self, schedule: &Schedule, now: i64) -> Result<Option<String>, SwarmError> {
        if let Some(why) = self.over_payers_budget(schedule, now).await? {
            return Ok(Some(why));
        }
        if schedule.tokens.is_none() && schedule.cost.is_none() {
            return Ok(None);
        }
        let day = budget::day(now, &TimeZone::system());
        let used = self.store.schedules().used(schedule.id, &day.name).await?;
        // Models and members may have changed since the budget was set, and other agents may have been woken.
        let unbound = match self.unbound_recipient(&schedule.target, schedule.budget()).await? {
            None if used.unpriced > 0 && self.depends_on_prices(schedule.budget()) => {
                Some("the cost of its calls today is not known".to_owned())
            }
            unbound => unbound,
        };
        let unbound = unbound.map(|why| format!("schedule {} does not run: {why}", schedule.name));
        let Some(text) = view::over_budget(schedule, used).or(unbound) else { return Ok(None) };
        if let ScheduleTarget::Channel(channel) = &schedule.target {
            let key = format!("schedule {} {:?} {:?}", schedule.name, schedule.tokens, schedule.cost);
            self.post_budget_notice(channel, &day.name, &key, &text).await?;
        }
        Ok(Some(text))
    }

    /// Returns the run of a slot.
    pub(super) fn slot_run(
        &self,
        schedule: &Schedule,
        cause: SlotCause,
        slot: i64,
        why: String,
        now: i64,
    ) -> SlotRun {
        let late = (!why.is_empty()).then(|| clock::utc(slot));
        let text = view::message(schedule, late.as_deref());
        let delivery = match &schedule.target {
            ScheduleTarget::Channel(channel) => {
                let config = self.config();
                let found = mention::mentions(&schedule.text, config.agents.iter().map(|agent| &agent.id));
                // Like a person's message: if nobody is called by name, everybody is, and answers. What an agent asked for is
                // like an agent's message.
                let is_person = schedule.creator().is_none();
                let all = found.all || (is_person && found.agents.is_empty());
                let mentions = PostMentions { agents: found.agents, all };
                let wake = if is_person { WakeUrgency::AtOnce } else { WakeUrgency::InTime };
                SlotDelivery::Post(Box::new(NewPost {
                    wake,
                    mentions,
                    ..NewPost::of_system(channel, text, now)
                }))
            }
            ScheduleTarget::Agent(agent) => SlotDelivery::Task(Box::new(task(schedule, agent, text, now))),
        };
        let entry =
            Actor::system().entry("schedule.run", schedule.name.as_str(), Level::Green, clock::utc(slot));
        SlotRun { schedule: schedule.id, cause, slot, why, event: None, delivery, entry, now }
    }

    /// Commits a run, whose calls are counted for the person `charged`, and tells everybody who is concerned. Returns `false`
    /// if nothing was given to the recipient.
    async fn deliver(
        &self,
        schedule: &Schedule,
        mut run: SlotRun,
        charged: Option<String>,
    ) -> Result<bool, SwarmError> {
        if let Some(name) = charged {
            match &mut run.delivery {
                SlotDelivery::Post(new) => new.charged = Some(name),
                SlotDelivery::Task(parts) => {
                    let person = self.store.people().find(&name).await?.filter(Person::is_active);
                    parts.0.person = person.map(|person| person.name);
                }
            }
        }
        match self.store.schedules().run(run).await? {
            SlotResult::Posted(parts) => {
                let (new, posted) = *parts;
                self.announce_committed(&new, &posted).await;
            }
            SlotResult::Accepted(task) => self.announce_task(&task).await?,
            // It ran in an earlier process, or before the clock was set back.
            SlotResult::Before => return Ok(true),
            SlotResult::Inactive | SlotResult::Closed => return Ok(false),
        }
        self.publish_slot(&schedule.name, SlotOutcome::Ran);
        Ok(true)
    }

    /// Tells watchers what became of a slot. The timer is the one who did it, so it is not told.
    fn publish_slot(&self, name: &ScheduleName, outcome: SlotOutcome) {
        let data = serde_json::json!({"schedule": name, "action": outcome.as_str()});
        self.notifier.publish("schedule.changed", &data);
    }
}

/// Returns the task by which an agent is given a text, with its inbox item and its audit row.
fn task(
    schedule: &Schedule,
    agent: &AgentId,
    text: String,
    now: i64,
) -> (NewTask, NewInboxItem, crate::store::AuditEntry) {
    let requester = format!("{}{}", event::REQUESTER, schedule.name);
    let session = SessionKey::new(agent, SessionKind::Dm, &requester);
    let item = NewInboxItem {
        session: session.clone(),
        kind: InboxItemKind::Dm,
        sender: requester.clone(),
        text: text.clone(),
        task: None,
        now,
    };
    let new = NewTask {
        context: session.to_string(),
        kind: TaskKind::Message,
        requester,
        // The answer stays in the task and in the session.
        origin: None,
        charged: None,
        person: None,
        session,
        summary: clean::summary(&schedule.text, MAX_SUMMARY),
        request: text,
        project: None,
        exchange: None,
        key: None,
        now,
    };
    let entry = Actor::party(Party::System).entry("task.send", "", Level::Green, format!("to {agent}"));
    (new, item, entry)
}
