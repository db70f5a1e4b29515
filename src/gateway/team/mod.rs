//! Runs the team: takes the decisions of the scheduler, runs the turns, and hands their outcomes back to the swarm. One
//! task owns the scheduler. Each turn is a task of its own.

mod compose;
mod drift;
mod inbox;
mod lost_writes;
mod outcome;
mod recover;
mod storage_probe;
mod takeover;
mod turn;
mod watchdog;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use self::inbox::ChannelInbox;
use super::agent_changes::AgentChanges;
use super::state::Gateway;
use crate::agent::Engine;
use crate::clock::unix_ms;
use crate::config::Config;
use crate::error::chain;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::store::{FaultSubscription, LeaseSubject, NoticeKind};
use crate::swarm::Swarm;
use crate::swarm::scheduler::{Effect, Priority, Scheduler, SchedulerEvent, Settings};
use crate::sync::lock;

/// The team of a running gateway.
pub(crate) struct Team {
    swarm: Arc<Swarm>,
    engine: Arc<Engine>,
    /// Runs the turns. When it stops, running turns are left as they are, and the next start takes them up.
    gateway: Arc<Gateway>,
    /// The inboxes of the channels' running turns. They take in messages that arrive meanwhile.
    inboxes: Mutex<HashMap<SessionKey, Arc<ChannelInbox>>>,
    /// Turns that are being prepared, run or concluded.
    held: Mutex<HashSet<TurnId>>,
    /// Held while work that is under way only in the database is being settled.
    settling: tokio::sync::Mutex<()>,
    /// Notified when everything that waits has to be looked up once more.
    look: Arc<Notify>,
}

/// Longest interval between two looks at the configuration. Each HTTP request looks at it as well.
const CONFIG_INTERVAL: Duration = Duration::from_secs(2);
/// Interval in milliseconds between two looks for work that nobody announced. The command line writes into the database
/// directly if it finds no gateway, and a gateway may start at that moment.
const RESCAN_INTERVAL_MS: i64 = 10_000;

/// The configuration and the agents that the scheduler knows.
struct KnownAgents {
    config: Arc<Config>,
    /// The agents of this gateway; `None` for all.
    owned: Option<BTreeSet<AgentId>>,
}

/// A guard that marks a turn as being worked on.
struct TurnGuard {
    team: Arc<Team>,
    turn: TurnId,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        lock(&self.team.held).remove(&self.turn);
    }
}

impl Team {
    /// Creates the team of this gateway. Nothing runs yet.
    #[must_use]
    pub(crate) fn new(gateway: Arc<Gateway>) -> Arc<Self> {
        Arc::new(Self {
            swarm: gateway.swarm.clone(),
            engine: gateway.engine.clone(),
            gateway,
            inboxes: Mutex::default(),
            held: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
            look: Arc::default(),
        })
    }

    /// Records that something works on this turn, until the returned guard is dropped.
    fn hold(self: &Arc<Self>, turn: TurnId) -> TurnGuard {
        lock(&self.held).insert(turn);
        TurnGuard { team: Arc::clone(self), turn }
    }

    fn held(&self) -> HashSet<TurnId> {
        lock(&self.held).clone()
    }

    /// Finds out after each of these faults whether the database can be used again, until the gateway stops. Without it, what
    /// waits for the database after a fault waits for ever.
    pub(crate) fn probe_storage(&self, faults: FaultSubscription) -> impl Future<Output = ()> + use<> {
        let store = Arc::clone(self.swarm.store());
        storage_probe::run(store, faults, Arc::clone(&self.look), self.gateway.stop.clone())
    }

    /// Takes up what an earlier run left unfinished, then works until the gateway stops. `faults` are those of the storage since
    /// the start began: what failed because of one is done as soon as the storage can be used.
    pub(crate) async fn run(
        self: Arc<Self>,
        mut events: mpsc::UnboundedReceiver<SchedulerEvent>,
        settings: Settings,
        faults: FaultSubscription,
    ) {
        let mut scheduler = Scheduler::new(settings);
        let mut known = None;
        let mut effects = self.meet(&mut scheduler, &mut known).await;
        // One of several gateways takes up the work of an agent when it gets its lease.
        let is_settled = self.swarm.ownership().is_shared() || self.take_up_everything().await;
        // The watchdog looks soon if not everything could be settled here.
        tokio::spawn(watchdog::watch(Arc::clone(&self), faults, !is_settled));
        tokio::spawn(takeover::run(Arc::clone(&self)));
        let mut mark = None;
        effects.extend(self.scan_for_work(&mut scheduler, &mut mark).await);
        let mut looked_at = unix_ms();
        let mut archive_at = self.end_archives().await;
        let mut notices = self.swarm.store().notices();
        let mut owners = self.swarm.ownership().changes();
        // Without others, this gateway has announced all work itself.
        let kinds: &[NoticeKind] = if self.swarm.ownership().is_shared() {
            &[NoticeKind::Freeze, NoticeKind::Work, NoticeKind::Quota]
        } else {
            &[NoticeKind::Freeze]
        };
        loop {
            self.carry_out(effects);
            // Published for status queries, which must not wait for this task.
            self.swarm.set_provider_outages(scheduler.breakers());
            self.swarm.set_quota_waiters(scheduler.awaited_parks());
            let now = unix_ms();
            let next = [scheduler.next_deadline(), archive_at].into_iter().flatten().min();
            let wait = next.map_or(CONFIG_INTERVAL, |at| {
                CONFIG_INTERVAL.min(Duration::from_millis(u64::try_from(at - now).unwrap_or(0)))
            });
            let (mut is_news, mut are_quotas_news) = (false, false);
            let first = tokio::select! {
                () = self.gateway.stop.cancelled() => return,
                event = events.recv() => event,
                () = self.look.notified() => {
                    // Start from the beginning: something that could not be looked up at that time does not come after
                    // the mark now.
                    (mark, looked_at) = (None, i64::MIN);
                    None
                }
                // Another process froze or thawed an agent, or something waits for a session.
                notice = notices.next_of(kinds) => {
                    if notice.concerns(NoticeKind::Freeze) {
                        looked_at = i64::MIN;
                    }
                    are_quotas_news = notice.concerns(NoticeKind::Quota);
                    is_news = notice.concerns(NoticeKind::Freeze) || notice.concerns(NoticeKind::Work);
                    None
                }
                // The sender lives as long as the swarm. `meet` below looks at the agents. The right to try a quota may
                // have come or gone, too.
                _ = owners.changed() => {
                    are_quotas_news = true;
                    None
                }
                () = tokio::time::sleep(wait) => None,
            };
            effects = self.meet(&mut scheduler, &mut known).await;
            let now = unix_ms();
            // All events that are queued are taken in before any effect, so one round of decisions sees them together.
            let mut next = first;
            while let Some(event) = next {
                effects.extend(self.handle_event(&mut scheduler, event, now).await);
                next = events.try_recv().ok();
            }
            effects.extend(scheduler.due(now));
            // The range also covers a clock that was set back.
            if !(0..RESCAN_INTERVAL_MS).contains(&now.saturating_sub(looked_at)) {
                looked_at = now;
                if let Err(error) = self.swarm.reload_frozen().await {
                    tracing::error!(error = chain(&error), "failed to check which agents are frozen");
                }
                // A key may have been changed, which ends its park.
                are_quotas_news = true;
                effects.extend(self.scan_for_work(&mut scheduler, &mut mark).await);
                // An archive that was begun or cancelled meanwhile changes the time at which the next one is due.
                archive_at = self.end_archives().await;
            } else if is_news {
                effects.extend(self.scan_for_work(&mut scheduler, &mut mark).await);
            } else if archive_at.is_some_and(|at| now >= at) {
                archive_at = self.end_archives().await;
            }
            if are_quotas_news {
                if let Err(error) = self.swarm.share_quotas().await {
                    tracing::error!(error = chain(&error), "failed to check which quotas are used up");
                }
                let quotas = self.swarm.quota_events();
                effects.extend(quotas.into_iter().flat_map(|event| scheduler.on(event, now)));
            }
        }
    }

    /// Takes up what an earlier run of this gateway left unfinished. Returns `true` if all of it could be.
    async fn take_up_everything(self: &Arc<Self>) -> bool {
        // Positions that point past what exists are repaired before `recover` works with them.
        if let Err(error) = lost_writes::settle(self, None).await {
            tracing::error!(error = chain(&error), "failed to check if the disk lost writes");
        }
        let recovered = recover::recover(self).await;
        if let Err(error) = &recovered {
            tracing::error!(error = chain(error), "failed to take up what an earlier run left");
        }
        let settled = self.swarm.fail_stranded_tasks().await;
        if let Err(error) = &settled {
            tracing::error!(error = chain(error), "failed to end the tasks that an earlier run left");
        }
        recovered.is_ok() && settled.is_ok()
    }

    /// Passes an event to the scheduler.
    ///
    /// This function looks up what is left for a session, and not the place where a turn ends. Anything committed after
    /// the look is announced after it, so nothing new is taken for seen.
    async fn handle_event(&self, scheduler: &mut Scheduler, event: SchedulerEvent, now: i64) -> Vec<Effect> {
        match event {
            SchedulerEvent::Seen(session) => scheduler.on(self.swarm.remaining_work(&session).await, now),
            SchedulerEvent::Ended { session, how } => {
                // The remaining work comes first: the scheduler has to know it when it hears that the session is free.
                let mut effects = scheduler.on(self.swarm.remaining_work(&session).await, now);
                effects.extend(scheduler.on(SchedulerEvent::Ended { session, how }, now));
                effects
            }
            event => scheduler.on(event, now),
        }
    }

    /// Tells the scheduler about agents that were added, changed or removed since the last look, or that this gateway takes
    /// care of since then, with the work that waits for them, or no more.
    async fn meet(&self, scheduler: &mut Scheduler, known: &mut Option<KnownAgents>) -> Vec<Effect> {
        // This also ends the turns of removed agents, if no request did it before.
        let config = self.gateway.config();
        let owned = self.swarm.ownership().settled_agents();
        let is_known = |known: &KnownAgents| Arc::ptr_eq(&known.config, &config) && known.owned == owned;
        if known.as_ref().is_some_and(is_known) {
            return Vec::new();
        }
        let now = unix_ms();
        let mut effects = Vec::new();
        let removed: Vec<AgentId> =
            known.iter().flat_map(|known| AgentChanges::between(&known.config, &config).removed).collect();
        let away = known.iter().filter_map(|known| known.owned.as_ref()).flatten();
        let away = away.filter(|agent| owned.as_ref().is_some_and(|owned| !owned.contains(*agent)));
        let gone: Vec<AgentId> = removed.iter().chain(away).cloned().collect();
        for agent in gone {
            effects.extend(scheduler.on(SchedulerEvent::Gone(agent), now));
        }
        let is_here = |event: &SchedulerEvent| match (event, &owned) {
            (SchedulerEvent::Agent { agent, .. }, Some(owned)) => owned.contains(agent),
            _ => true,
        };
        match self.swarm.agent_events().await {
            Ok(events) => {
                let events = events.into_iter().filter(is_here);
                effects.extend(events.flat_map(|event| scheduler.on(event, now)));
            }
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to read the agents' states");
                // The states are unknown, so `known` stays as it is and the next look tries again.
                return effects;
            }
        }
        let had = known.as_ref().and_then(|known| known.owned.as_ref());
        let taken = owned.iter().flatten().filter(|agent| had.is_none_or(|had| !had.contains(*agent)));
        let taken: BTreeSet<AgentId> = taken.cloned().collect();
        if !taken.is_empty() {
            // Read only now: the scheduler has ignored what it was told about agents that it did not know, and from now on
            // it takes all of it. So nothing is missed in between.
            match self.swarm.waiting_work_of(&taken).await {
                Ok(events) => effects.extend(events.into_iter().flat_map(|event| scheduler.on(event, now))),
                Err(error) => {
                    tracing::error!(
                        error = chain(&error),
                        "failed to look for new messages of agents that were taken over"
                    );
                    // The next look tries again, as above.
                    return effects;
                }
            }
        }
        let is_of_group = owned.is_some();
        let before = known.replace(KnownAgents { config: Arc::clone(&config), owned });
        if is_of_group {
            // The configuration here may be older than that of the gateway that has added an agent.
            self.release(removed);
            return effects;
        }
        if before.is_some_and(|before| Arc::ptr_eq(&before.config, &config)) {
            return effects;
        }
        let swarm = Arc::clone(&self.swarm);
        // These only write to the database, and the scheduler must not wait for them.
        tokio::spawn(async move {
            if let Err(error) = swarm.remove_missing_agents().await {
                tracing::error!(error = chain(&error), "failed to release agents that were removed");
            }
            if let Err(error) = swarm.revoke_missing_agents().await {
                tracing::error!(error = chain(&error), "failed to revoke the grants of removed agents");
            }
        });
        effects
    }

    /// Releases agents that were removed from the configuration, without waiting for it.
    fn release(&self, removed: Vec<AgentId>) {
        let swarm = Arc::clone(&self.swarm);
        tokio::spawn(async move {
            for agent in removed {
                if let Err(error) = swarm.forget_agent(&agent).await {
                    tracing::error!(%agent, error = chain(&error), "failed to release an agent that was removed");
                }
                if let Err(error) = swarm.revoke_grants(&agent).await {
                    tracing::error!(%agent, error = chain(&error), "failed to revoke the grants of a removed agent");
                }
            }
        });
    }

    /// Tells the scheduler about all that waits, or, with a `mark`, about what came after it. Work that the swarm has
    /// announced already changes nothing.
    async fn scan_for_work(&self, scheduler: &mut Scheduler, mark: &mut Option<i64>) -> Vec<Effect> {
        let now = unix_ms();
        let events = self.swarm.waiting_work(mark).await;
        events.into_iter().flat_map(|event| scheduler.on(event, now)).collect()
    }

    fn carry_out(self: &Arc<Self>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { session, priority } => {
                    if priority == Priority::Message {
                        self.swarm.store().agents().record_turn(session.agent().clone(), unix_ms());
                    }
                    let team = Arc::clone(self);
                    tokio::spawn(async move { team.work(session).await });
                }
                Effect::Steer { session } => {
                    // The turn may have ended meanwhile. What is left is then found when the scheduler hears of its
                    // end.
                    let inboxes = lock(&self.inboxes);
                    if let Some(inbox) = inboxes.get(&session) {
                        inbox.look();
                    }
                }
            }
        }
    }

    /// Ends the archives that are due, if this gateway does what happens at certain times. Returns the time of the next one.
    async fn end_archives(&self) -> Option<i64> {
        if !self.swarm.ownership().holds(&LeaseSubject::clock()) {
            return None;
        }
        match self.swarm.finish_due_archives(unix_ms()).await {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to end archives that are due");
                None
            }
        }
    }
}
