//! Supervises the team's turns: freezing, budgets, the audit of tool calls, and questions to a person about tool calls.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::budget::{self, Day};
use super::pause::Pause;
use super::scheduler::SchedulerEvent;
use super::{Actor, Swarm};
use crate::agent::quota::{CallPermit, QuotaParked, QuotaRefusal};
use crate::agent::{CallUsage, ModelCall, Oversight, Reservation, TokenEstimate, ToolCallRecord};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::{AgentId, ChannelId, ModelRef};
use crate::provider::{BoxFuture, Credential, Usage, price};
use crate::runtime::PauseReason;
use crate::store::{
    CallSettlement, Charges, ExceededLimit, Level, NewUsage, Person, RacePlace, Store, StoreError,
    TokenCounts, UsageAmount, UsageLimit, UsageScope,
};
use crate::sync::lock;
use crate::tool::CallContext;
use crate::tool::policy::Decision;

/// Asks a person about a tool call that the policy does not allow without confirmation.
pub trait AskPerson: Send + Sync {
    /// Stores the question. Returns the text for the model, for example that a request waits.
    ///
    /// # Errors
    ///
    /// Returns the reason why nobody can be asked, as text for the model.
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// The [`Oversight`] of a team's turns.
pub struct TeamOversight {
    swarm: Arc<Swarm>,
    ask: Arc<dyn AskPerson>,
    zone: TimeZone,
    last_id: AtomicI64,
    /// What distinguishes the ids of this gateway's calls from those of others that use the same database.
    id_place: Option<i64>,
    calls: Mutex<HashMap<i64, PendingCall>>,
    paused: Arc<Mutex<HashMap<AgentId, RefusedCall>>>,
    /// The pauses of each agent that were written to the audit, and their day.
    recorded: Mutex<HashMap<AgentId, (String, HashSet<String>)>>,
}

/// A model call that is in progress.
struct PendingCall {
    model: ModelRef,
    /// The reserved tokens.
    most: TokenCounts,
}

/// A call that a paused agent was not allowed to make.
#[derive(Clone, PartialEq, Eq)]
struct RefusedCall {
    day: String,
    need: UsageAmount,
}

/// Minimum difference in tokens before a provider's count is doubted. For a short text the estimate is too inexact.
const MIN_DISCREPANCY: u64 = 4_000;

/// Interval at which the configuration is checked while an agent is paused.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The number of gateways whose ids can be told apart. The rest of the epoch's division by it is the end of their ids.
const ID_PLACES: i64 = 1000;

/// Returns the id of a call after the one with the id `last`. `now` is the time in Unix milliseconds.
fn id_after(last: i64, now: i64, place: Option<i64>) -> i64 {
    // Microseconds of the current time: an earlier process can't have used them, if the clock was not set back.
    let now = now.saturating_mul(ID_PLACES);
    match place {
        None => now.max(last + 1),
        // Two gateways make calls in the same millisecond. So each has one of its microseconds, in every millisecond.
        Some(place) => (now + place).max(last + ID_PLACES),
    }
}

impl TeamOversight {
    #[must_use]
    pub fn new(swarm: Arc<Swarm>, ask: Arc<dyn AskPerson>) -> Self {
        Self {
            id_place: swarm.store().epoch().map(|epoch| epoch.0.rem_euclid(ID_PLACES)),
            swarm,
            ask,
            zone: TimeZone::system(),
            last_id: AtomicI64::new(0),
            calls: Mutex::default(),
            paused: Arc::default(),
            recorded: Mutex::default(),
        }
    }

    /// Returns an id that no other call has, of this process, of an earlier one or of another gateway.
    fn next_id(&self) -> i64 {
        let now = unix_ms();
        let next = |last: i64| id_after(last, now, self.id_place);
        self.last_id
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
            .map_or_else(next, next)
    }

    async fn set_aside(&self, call: &ModelCall) -> Result<Reservation, PauseReason> {
        let config = self.swarm.config();
        let now = unix_ms();
        // The call counts for the day on which it begins, even if it ends after midnight.
        let day = budget::day(now, &self.zone);
        let usage = self.swarm.store().usage();
        let charges = usage.charges(&call.agent, &call.session, call.turn).await;
        let Charges { channel, person, race } = charges.map_err(|error| unknown(&error))?;
        // A channel belongs to all who are on it, so its agents go on, within the budget of the person who wrote there last.
        // All other work was begun for that person alone, also in a session of two agents, and ends with them.
        let is_gone = |person: &&Person| !person.is_active() && call.session.channel().is_none();
        if let Some(removed) = person.as_ref().filter(is_gone) {
            return Err(PauseReason::PersonRemoved(removed.name.clone()));
        }
        let price = price::of(&config, &call.model);
        let mut limits = budget::limits(&config.budgets, &call.agent, channel.as_ref());
        limits.extend(race.as_ref().and_then(race_limit));
        limits.extend(person.as_ref().and_then(budget::person_limit));
        // A limit in dollars can't bind a model without a price, so such a model would get around it.
        if price.is_none()
            && !config.budgets.allow_unpriced
            && let Some(limit) = budget::unbound(&limits)
        {
            let text = budget::unpriced(&call.agent, &call.model, limit);
            self.announce(call, &text, &format!("unpriced {}", call.model), &day, channel.as_ref()).await;
            return Err(PauseReason::Budget(text));
        }
        // The maximum is reserved, so that calls that run at the same time can't exceed the budget together.
        let most =
            TokenCounts { input: call.input_estimate, output: call.max_output, ..TokenCounts::default() };
        let new = NewUsage {
            id: self.next_id(),
            at: now,
            day: day.name.clone(),
            agent: call.agent.clone(),
            session: call.session.clone(),
            channel: channel.clone(),
            turn: call.turn,
            model: call.model.clone(),
            server: call.server.clone(),
            person: person.map(|person| person.name),
            tokens: most,
            cost: price.map(|price| price::most(&price, call.input_estimate, call.max_output)),
        };
        let id = new.id;
        let need = UsageAmount {
            tokens: call.input_estimate.saturating_add(call.max_output),
            cost: new.cost.unwrap_or(0),
        };
        // This future may be dropped while the reservation is being written. The guard then takes it back.
        let mut unclaimed = ReservationGuard { store: self.swarm.store(), id: Some(id) };
        let outcome = self.swarm.store().usage().reserve(new, limits).await;
        match outcome {
            Ok(Ok(())) => {
                unclaimed.id = None;
                let known = PendingCall { model: call.model.clone(), most };
                lock(&self.calls).insert(id, known);
                Ok(Reservation::new(id.unsigned_abs()))
            }
            Ok(Err(exceeded)) => {
                unclaimed.id = None;
                let text = budget::refusal(&call.agent, &exceeded, &day);
                self.pause(call, &exceeded, &day, (need, channel.as_ref()), &text).await;
                Err(PauseReason::Budget(text))
            }
            Err(error) => Err(unknown(&error)),
        }
    }

    async fn pause(
        &self,
        call: &ModelCall,
        exceeded: &ExceededLimit,
        day: &Day,
        (need, channel): (UsageAmount, Option<&ChannelId>),
        text: &str,
    ) {
        // The budget of a channel or a person does not keep the agent from working elsewhere or for others.
        let holds_agent = !matches!(exceeded.limit.scope, UsageScope::Channel(_) | UsageScope::Person(_));
        // The budget of a race does not come back at midnight.
        let is_race = matches!(exceeded.limit.scope, UsageScope::Race(_));
        let until = if is_race { None } else { day.ends_at };
        if is_race {
            self.note_spent_race(exceeded, day, need).await;
        }
        if holds_agent {
            self.swarm.notifier().tell(SchedulerEvent::Paused { agent: call.agent.clone(), until });
            let refused = RefusedCall { day: day.name.clone(), need };
            // One task watches for all paused agents. It ends with the last of them.
            if hold(&self.paused, &call.agent, refused) {
                let paused = Arc::downgrade(&self.paused);
                tokio::spawn(resume(paused, Arc::downgrade(&self.swarm), self.zone.clone()));
            }
        }
        let name = budget::name(&exceeded.limit, &call.agent);
        self.announce(call, text, &name, day, channel).await;
        if holds_agent {
            let pause = Pause {
                since: unix_ms(),
                until,
                reason: text.to_owned(),
                day: day.name.clone(),
                budget: name,
            };
            if let Err(error) = self.swarm.pause(&call.agent, pause).await {
                tracing::error!(error = chain(&error), "failed to say that a budget is used up");
            }
        }
    }

    /// Ends a race whose budget has no room for this call, even if all calls that run used nothing of what is reserved for
    /// them.
    async fn note_spent_race(&self, exceeded: &ExceededLimit, day: &Day, need: UsageAmount) {
        let UsageScope::Race(race) = &exceeded.limit.scope else { return };
        let id: i64 = race.parse().unwrap_or_default();
        let usage = self.swarm.store().usage();
        let noted = async {
            let in_use = usage.limits_in_use(day.name.clone(), vec![exceeded.limit.clone()]).await?;
            let has_room = in_use.first().is_some_and(|found| {
                let fits = |limit: Option<u64>, used: u64, reserved: u64, need: u64| {
                    limit.is_none_or(|limit| used.saturating_sub(reserved).saturating_add(need) <= limit)
                };
                let (used, reserved) = (found.used, found.reserved);
                fits(found.limit.tokens, used.tokens, reserved.tokens, need.tokens)
                    && fits(found.limit.cost, used.cost, reserved.cost, need.cost)
            });
            if has_room {
                return Ok(false);
            }
            self.swarm.store().races().mark_spent(id, unix_ms()).await
        };
        match noted.await {
            Ok(true) => {
                let data = json!({"race": id, "state": "running", "winner": null});
                self.swarm.notifier().publish("race.changed", &data);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to note that the budget of a race is used up");
            }
        }
    }

    /// Reports once a day, in the charged channel and in the audit, that a call was not made and why.
    async fn announce(
        &self,
        call: &ModelCall,
        text: &str,
        name: &str,
        day: &Day,
        channel: Option<&ChannelId>,
    ) {
        tracing::warn!(agent = %call.agent, text, "a model is not asked");
        // The audit also gets pauses of calls that belong to no channel.
        self.record_pause(call, text, &format!("{name} {channel:?}"), &day.name).await;
        let Some(channel) = channel else { return };
        if let Err(error) = self.swarm.post_budget_notice(channel, &day.name, name, text).await {
            tracing::error!(error = chain(&error), "failed to note that a budget is used up");
        }
    }

    /// Writes a pause to the audit once for each budget, agent and day. A repeated attempt adds no information.
    async fn record_pause(&self, call: &ModelCall, text: &str, scope: &str, day: &str) {
        let is_new = {
            let mut recorded = lock(&self.recorded);
            let (of, scopes) = recorded.entry(call.agent.clone()).or_default();
            if of.as_str() != day {
                day.clone_into(of);
                scopes.clear();
            }
            scopes.insert(scope.to_owned())
        };
        if !is_new {
            return;
        }
        let by = Actor { session: Some(call.session.clone()), turn: Some(call.turn), ..Actor::system() };
        let entry = by.entry("budget.pause", call.agent.as_str(), Level::Yellow, text.to_owned());
        if let Err(error) = self.swarm.store().audit().append(entry, unix_ms()).await {
            tracing::error!(error = chain(&error), "failed to write a pause into the audit");
        }
    }

    /// Ends a call that is in progress. Returns what is to be written, or `None` if it was settled before.
    fn end_call(&self, reservation: &Reservation, taken: CallUsage) -> Option<CallSettlement> {
        let id = i64::try_from(reservation.id()).ok()?;
        // An id that is not in the table was settled before, so a second call changes nothing.
        let call = lock(&self.calls).remove(&id)?;
        Some(CallSettlement { id, used: self.settled(&call, taken, reservation.seen()) })
    }

    /// Returns the tokens and cost to record for a call, or `None` if it used nothing. If the real usage is unknown,
    /// the maximum that it can have been is recorded. `seen` is flock's own observation of the call.
    fn settled(
        &self,
        call: &PendingCall,
        taken: CallUsage,
        seen: TokenEstimate,
    ) -> Option<(TokenCounts, Option<u64>)> {
        let price = price::of(&self.swarm.config(), &call.model);
        let TokenCounts { input, output, .. } = call.most;
        match taken {
            CallUsage::Nothing => None,
            // Nobody knows how long the answer was, so the whole reservation counts.
            CallUsage::Begun => Some((call.most, price.map(|price| price::most(&price, input, output)))),
            CallUsage::Sent | CallUsage::Told(_) => {
                let told = taken.told().unwrap_or(Usage { input, ..Usage::default() });
                let usage = plausible_usage(told, seen);
                if usage != told {
                    tracing::warn!(model = %call.model, ?told, ?seen, "a provider's count is too small to be true");
                }
                let Usage { input, output, cache_read, cache_write, .. } = usage;
                let tokens = TokenCounts { input, output, cache_read, cache_write };
                // The larger one, so that a correction never lowers the cost that the provider's own numbers give.
                let cost = price::charged(price.as_ref(), &told).max(price::charged(price.as_ref(), &usage));
                Some((tokens, cost))
            }
        }
    }
}

/// Returns the usage that counts for budgets. If a provider reports less than half of what flock observed, the
/// observation counts. The tolerance is wide because an estimate is inexact for honest counts too, and a cached token
/// costs a tenth.
fn plausible_usage(told: Usage, seen: TokenEstimate) -> Usage {
    let mut usage = told;
    let read = told.input.saturating_add(told.cache_read).saturating_add(told.cache_write);
    let is_short = |told: u64, seen: u64| told < seen / 2 && seen - told >= MIN_DISCREPANCY;
    if is_short(read, seen.input) {
        usage.input = told.input.saturating_add(seen.input - read);
    }
    if is_short(told.output, seen.output) {
        usage.output = seen.output;
    }
    if usage != told {
        // The provider's price does not cover the tokens that it did not report.
        usage.cost = None;
    }
    usage
}

/// Returns the budget of the race that an agent has this place in, if the race is not decided.
fn race_limit(place: &RacePlace) -> Option<UsageLimit> {
    let has_limit = place.tokens.is_some() || place.cost.is_some();
    (place.is_running() && has_limit).then(|| UsageLimit {
        scope: UsageScope::Race(place.race.to_string()),
        tokens: place.tokens,
        cost: place.cost,
    })
}

/// Refuses a call because the remaining budget is unknown. Without the database nothing is spent.
fn unknown(error: &StoreError) -> PauseReason {
    tracing::error!(error = chain(error), "failed to look at the budgets");
    PauseReason::UnknownBudget
}

/// Adds an agent to the paused ones. Returns `true` if none was paused before, so that nothing watches for them yet.
fn hold(paused: &Mutex<HashMap<AgentId, RefusedCall>>, agent: &AgentId, refused: RefusedCall) -> bool {
    let mut paused = lock(paused);
    let is_first = paused.is_empty();
    paused.insert(agent.clone(), refused);
    is_first
}

/// A guard that takes back a reservation if its call is abandoned before anybody knows of it.
struct ReservationGuard<'s> {
    store: &'s Arc<Store>,
    id: Option<i64>,
}

impl Drop for ReservationGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.store.usage().settle(CallSettlement { id, used: None });
        }
    }
}

/// Tells the scheduler about paused agents that have room again because a budget was raised. The scheduler knows the
/// end of the day by itself. Ends when no agent is paused.
async fn resume(paused: Weak<Mutex<HashMap<AgentId, RefusedCall>>>, swarm: Weak<Swarm>, zone: TimeZone) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        // Weak references, so that this task does not keep a stopped team alive.
        let (Some(paused), Some(swarm)) = (paused.upgrade(), swarm.upgrade()) else { return };
        let config = swarm.config();
        let today = budget::day(unix_ms(), &zone).name;
        let looked_at = lock(&paused).clone();
        for (agent, refused) in looked_at {
            let mut limits = budget::limits(&config.budgets, &agent, None);
            let race = swarm.store().races().place(&agent).await.unwrap_or_default();
            limits.extend(race.as_ref().and_then(race_limit));
            let has_room = match swarm.store().usage().exceeded_limit(&today, &limits, refused.need).await {
                Ok(exceeded) => exceeded.is_none(),
                Err(error) => {
                    tracing::error!(error = chain(&error), "failed to look at the budgets");
                    false
                }
            };
            // On a new day the scheduler ends the pause by itself.
            if !has_room && refused.day == today {
                continue;
            }
            let mut paused = lock(&paused);
            // Another call of the agent may have been refused meanwhile, which the next look judges.
            if paused.get(&agent) != Some(&refused) {
                continue;
            }
            paused.remove(&agent);
            if has_room {
                swarm.resume(&agent);
                swarm.notifier().tell(SchedulerEvent::Resumed(agent));
            }
        }
        if lock(&paused).is_empty() {
            return;
        }
    }
}

impl Oversight for TeamOversight {
    fn thawed<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(self.swarm.thawed(agent))
    }

    fn reserve<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, PauseReason>> {
        Box::pin(self.set_aside(call))
    }

    fn admit_call(&self, credential: &Credential, model: &ModelRef) -> Result<CallPermit, QuotaParked> {
        self.swarm.admit_call(credential, model)
    }

    fn parked(&self, credential: &Credential, model: &ModelRef) -> Option<QuotaParked> {
        self.swarm.parked_call(credential, model)
    }

    fn quota_refused(&self, refused: QuotaRefusal) -> BoxFuture<'_, ()> {
        Box::pin(self.swarm.quota_refused(refused))
    }

    fn settle(&self, reservation: Reservation, taken: CallUsage) {
        if let Some(settlement) = self.end_call(&reservation, taken) {
            self.swarm.store().usage().settle(settlement);
        }
    }

    fn settle_with_turn(&self, reservation: Reservation, taken: CallUsage) -> Option<CallSettlement> {
        self.end_call(&reservation, taken)
    }

    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        self.ask.ask(context, tool, arguments, reason)
    }

    fn called<'a>(&'a self, context: &'a CallContext, call: &'a ToolCallRecord) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // A reported call ran in another program's own tool, so flock did not decide about it.
            let (level, decision) = match (&call.decision, &call.reported) {
                (_, Some(reported)) => (Level::Green, format!("reported by {}", reported.by)),
                _ if call.is_handed_out => (Level::Green, "handed to the client".to_owned()),
                (Decision::Allow, None) => (Level::Green, "allowed".to_owned()),
                (Decision::Ask(_), None) => (Level::Yellow, "asked".to_owned()),
                (Decision::Deny(_), None) => (Level::Yellow, "denied".to_owned()),
            };
            let ended = match &call.reported {
                Some(reported) if !reported.ended => "end not reported",
                None if call.is_handed_out => "no result yet",
                _ if call.is_error => "error",
                _ => "ok",
            };
            // The digest identifies the arguments without copying secrets or long texts to the audit.
            let detail = format!(
                "{decision}, {ended}, {} ms, arguments sha256:{}",
                call.took.as_millis(),
                call.arguments_sha256
            );
            let entry = Actor::call(context).entry("tool.call", &call.name, level, detail);
            if let Err(error) = self.swarm.store().audit().append(entry, unix_ms()).await {
                tracing::error!(error = chain(&error), "failed to write a tool call into the audit");
            }
        })
    }
}

#[cfg(test)]
#[path = "oversight_tests.rs"]
mod tests;
