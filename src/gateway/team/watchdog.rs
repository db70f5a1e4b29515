//! Compares the work that the database lists as under way with the work that really runs, and settles the difference.
//! It looks every minute and after each fault of the storage, so a write that failed leaves nothing open until a
//! restart.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::Team;
use super::drift::{self, Drift, InProgress};
use super::recover;
use super::storage_probe::{RETRY_DELAY, after};
use crate::agent::TurnError;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::{AgentId, TurnId};
use crate::store::{FaultSubscription, Level, Store, StoreError};
use crate::swarm::lease::{LeaseUse, Ownership};
use crate::swarm::{Actor, SwarmError};

/// The reason that is recorded for a task that nothing could end any more.
const LOST_REASON: &str = "its answer could not be kept: the database could not be written";

/// The reason why the difference could not be settled.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettleError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Turn(#[from] TurnError),
    #[error(transparent)]
    Swarm(#[from] SwarmError),
}

/// Watches until the gateway stops. `faults` are those since the start began, after which it looks at once. `is_behind` is `true`
/// if the start could not settle everything for another reason.
pub(super) async fn watch(team: Arc<Team>, mut faults: FaultSubscription, is_behind: bool) {
    let store = Arc::clone(team.swarm.store());
    // Turns that ran when something failed. Only after they have ended does it show if one of their writes failed too.
    let mut concerned = HashSet::new();
    let mut failures = u32::from(is_behind);
    loop {
        let wait = if concerned.is_empty() { after(failures) } else { RETRY_DELAY };
        let has_failed = tokio::select! {
            () = team.gateway.stop.cancelled() => return,
            () = faults.next() => true,
            () = tokio::time::sleep(wait) => false,
        };
        // Until then nothing can be settled, and turns that wait for the database do not end.
        if team.gateway.stop.run_until_cancelled(store.until_usable()).await.is_none() {
            return;
        }
        let running = running(&team);
        if has_failed {
            concerned.clone_from(&running);
        }
        // Turns that have ended no longer delay the look at the full interval.
        concerned.retain(|turn| running.contains(turn));
        let settled = settle(&team).await;
        if let Err(error) = &settled {
            tracing::error!(
                error = chain(error),
                "failed to settle work that only the database still has as running"
            );
        }
        if settled.is_ok_and(|settled| settled.is_complete) && store.trouble().is_none() {
            failures = 0;
            continue;
        }
        failures = failures.saturating_add(1);
        // On a disk that can't be read, this look is or causes a fault itself. Without the pause the next look would
        // follow at once.
        if team.gateway.stop.run_until_cancelled(tokio::time::sleep(RETRY_DELAY)).await.is_none() {
            return;
        }
    }
}

/// The agents whose work is looked at, with the guards that keep them here meanwhile.
struct KeptAgents<'o> {
    ownership: &'o Arc<Ownership>,
    leases: BTreeMap<AgentId, LeaseUse>,
    /// Those with work that is not settled here: another gateway has them, or may have taken them.
    refused: BTreeSet<AgentId>,
}

impl<'o> KeptAgents<'o> {
    const fn new(ownership: &'o Arc<Ownership>) -> Self {
        Self { ownership, leases: BTreeMap::new(), refused: BTreeSet::new() }
    }

    /// Keeps an agent here. Returns `false` if this gateway may not begin anything for it now.
    ///
    /// To be asked after its work was read, and anew each time: this gateway may have been silent since the last time, and what
    /// was read is then the work of the one that has replaced it.
    fn keep(&mut self, agent: &AgentId) -> bool {
        match self.ownership.enter_agent(agent) {
            Some(lease) => {
                self.leases.insert(agent.clone(), lease);
                true
            }
            None => {
                self.refused.insert(agent.clone());
                false
            }
        }
    }
}

/// The result of [`settle`].
#[derive(Debug)]
pub(super) struct Settled {
    /// The agents with work that was left alone, because another gateway has them or may have taken them.
    pub(super) refused: BTreeSet<AgentId>,
    /// Not set if a turn was left alone because its transcript can't be read. The log names it.
    pub(super) is_complete: bool,
}

/// Ends or takes up again the work that is under way in the database and nowhere else, of the agents that this gateway takes
/// care of.
///
/// # Errors
///
/// Returns an error if the database fails, or if this gateway may have been replaced.
pub(super) async fn settle(team: &Arc<Team>) -> Result<Settled, SettleError> {
    // One call at a time, because the next one must not settle the same work again.
    let _settling = team.settling.lock().await;
    let store = team.swarm.store();
    // Until the end, so that no other gateway gets an agent in the middle.
    let mut kept = KeptAgents::new(team.swarm.ownership());
    // The order of these three reads is what `drift::compare` relies on.
    let before = work_in_progress(store, &mut kept).await?;
    let running = running(team);
    let after = work_in_progress(store, &mut kept).await?;
    let drift = drift::compare(&before, &running, &after);
    if drift.is_empty() {
        return Ok(Settled { refused: kept.refused, is_complete: true });
    }
    let found = describe(&drift);
    tracing::warn!(found, "the database has work as running that is not; flock settles it");
    let mut is_complete = true;
    // All four are tried, because a failure of one must not keep the others from being settled.
    let parts: [Result<(), SettleError>; 4] = [
        team.engine.end_lost(&drift.turns).await.map(drop).map_err(Into::into),
        store.usage().settle_reserved(drift.calls).await.map(drop).map_err(Into::into),
        match recover::take_up(team, &drift.given.into_iter().collect()).await {
            Err(error) if recover::is_of_one_transcript(&error) => {
                is_complete = false;
                Ok(())
            }
            taken => taken.map_err(Into::into),
        },
        team.swarm.fail_tasks(&drift.tasks, LOST_REASON).await.map_err(Into::into),
    ];
    team.look.notify_one();
    parts.into_iter().collect::<Result<(), SettleError>>()?;
    // It is tried again until it is complete, and recorded then.
    if is_complete {
        let entry = Actor::system().entry("state.settle", "turns", Level::Yellow, found);
        store.audit().append(entry, unix_ms()).await?;
    }
    Ok(Settled { refused: kept.refused, is_complete })
}

/// Returns the work of the agents that can be kept here. What another gateway works on is under way there.
async fn work_in_progress(store: &Store, kept: &mut KeptAgents<'_>) -> Result<InProgress, StoreError> {
    let mut turns = store.turns().running().await?;
    let mut given = store.deliveries().in_flight().await?;
    let mut items = store.inbox().in_flight().await?;
    let mut calls = store.usage().reserved().await?;
    let mut tasks = store.tasks().stranded().await?;
    turns.retain(|turn| kept.keep(turn.session.agent()));
    given.retain(|delivery| kept.keep(&delivery.agent));
    items.retain(|item| kept.keep(item.session.agent()));
    calls.retain(|(.., agent)| kept.keep(agent));
    tasks.retain(|(_, assignee)| kept.keep(assignee));
    let items = items.into_iter().filter_map(|item| item.turn);
    Ok(InProgress {
        turns: turns.into_iter().map(|turn| turn.id).collect(),
        given: given.into_iter().map(|delivery| delivery.turn).chain(items).collect(),
        calls: calls.into_iter().map(|(id, turn, _)| (id, turn)).collect(),
        tasks: tasks.into_iter().map(|(id, _)| id).collect(),
    })
}

/// Returns the turns that something in this process still works on.
fn running(team: &Team) -> HashSet<TurnId> {
    let mut running = team.held();
    running.extend(team.gateway.driver.list().into_iter().map(|(turn, _)| turn));
    running
}

/// Returns a text like `2 turns, 1 task`.
fn describe(drift: &Drift) -> String {
    let Drift { turns, given, calls, tasks } = drift;
    let parts = [
        (turns.len(), "turn"),
        (given.len(), "delivery"),
        (calls.len(), "model call"),
        (tasks.len(), "task"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| match (count, what) {
        (1, what) => format!("1 {what}"),
        (count, "delivery") => format!("{count} deliveries"),
        (count, what) => format!("{count} {what}s"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::LeaseSubject;
    use crate::store::testing::begin_turn;
    use crate::swarm::testing;

    #[tokio::test]
    async fn the_turns_of_a_gateway_that_has_taken_over_are_not_settled() {
        let team = testing::Team::new();
        let (own, _) = (begin_turn(&team.store, "coder").await, begin_turn(&team.store, "tester").await);
        let ownership = Ownership::for_test(&["coder"], &["tester"]);
        let coder: AgentId = "coder".parse().unwrap();
        let is_kept = || ownership.is_in_use(&LeaseSubject::agent(&coder));
        let mut kept = KeptAgents::new(&ownership);
        let found = work_in_progress(&team.store, &mut kept).await.unwrap();
        assert_eq!(found.turns, BTreeSet::from([own]));
        assert_eq!(kept.refused, BTreeSet::from(["tester".parse().unwrap()]));
        assert!(is_kept(), "no other gateway gets it until its work is settled");
        // The database is away for long in the middle of it, and so is each look afterwards too late.
        ownership.lapse();
        let nothing = InProgress::default();
        assert_eq!(work_in_progress(&team.store, &mut kept).await.unwrap(), nothing);
        drop(kept);
        assert!(!is_kept());
        let mut kept = KeptAgents::new(&ownership);
        assert_eq!(work_in_progress(&team.store, &mut kept).await.unwrap(), nothing);
        assert!(kept.refused.contains(&coder) && ownership.holds_agent(&coder));
    }
}
