//! Races: copies of a channel's team get the same task under one budget, and the checks choose the one whose work is merged.
//!
//! | file | subject |
//! |---|---|
//! | [`begin`] | a race is begun |
//! | [`decide`] | a race ends by itself or by a person |
//! | [`settle`] | everything is done that the state of a race asks for |
//! | [`look`] | what is shown of a race |
//! | [`rule`] | the decisions, without effects |
//!
//! The state of a race is in the database. What follows from it can be done any number of times, so a process that is
//! killed at any moment leaves nothing that the next one does not complete.

mod begin;
mod decide;
mod error;
mod look;
pub(crate) mod rule;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use begin::RaceRequest;
pub(crate) use error::RacesError;

use super::projects::Projects;
use crate::checkpoint::Checkpoints;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::AgentId;
use crate::store::{FreezeState, Race, RaceState, Settled, SubmissionState};
use crate::swarm::Swarm;

/// Pause between two looks at the races.
const INTERVAL: Duration = Duration::from_secs(1);

/// Ends the turns of an agent.
type EndTurns = Box<dyn Fn(&AgentId) + Send + Sync>;

/// The races of a home.
pub struct Races {
    swarm: Arc<Swarm>,
    projects: Arc<Projects>,
    checkpoints: Arc<Checkpoints>,
    end_turns: OnceLock<EndTurns>,
    /// Held while a race is begun, so that each has its own number.
    beginning: tokio::sync::Mutex<()>,
    /// Held while the effects of a state are brought about.
    settling: tokio::sync::Mutex<()>,
}

impl Races {
    /// Creates the service of a team. It reads and writes nothing yet.
    #[must_use]
    pub(crate) fn new(swarm: Arc<Swarm>, projects: Arc<Projects>, checkpoints: Arc<Checkpoints>) -> Self {
        Self {
            swarm,
            projects,
            checkpoints,
            end_turns: OnceLock::new(),
            beginning: tokio::sync::Mutex::default(),
            settling: tokio::sync::Mutex::default(),
        }
    }

    /// Sets how turns of an agent are ended. Without it, no turn runs in this process. Only the first call has an effect.
    pub(crate) fn end_turns_by(&self, end: impl Fn(&AgentId) + Send + Sync + 'static) {
        // A second one would be the same, because a process has one gateway.
        drop(self.end_turns.set(Box::new(end)));
    }

    /// Looks at all races again and again until `stop` is cancelled.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            if stop.run_until_cancelled(self.look(unix_ms())).await.is_none()
                || stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none()
            {
                return;
            }
        }
    }

    /// Ends the turns here of each agent that a race freezes, at whichever gateway, until `stop` is cancelled. The gateway that
    /// settles a race has only its own turns.
    pub(crate) async fn follow_freezes(self: Arc<Self>, stop: CancellationToken) {
        let mut frozen = self.swarm.watch_frozen();
        let mut known = BTreeSet::new();
        loop {
            let held = self.held_by_races(&frozen.borrow_and_update());
            for (agent, _) in held.difference(&known) {
                if let Some(end) = self.end_turns.get() {
                    end(agent);
                }
            }
            known = held;
            let Some(Ok(())) = stop.run_until_cancelled(frozen.changed()).await else { return };
        }
    }

    /// Returns the agents that races have frozen, with the times of that: each may be thawed and frozen again.
    fn held_by_races(&self, frozen: &FreezeState) -> BTreeSet<(AgentId, i64)> {
        let config = self.swarm.config();
        let agents = config.agents.iter().map(|agent| &agent.id);
        let held = agents.filter_map(|agent| Some((agent, frozen.of(agent)?)));
        held.filter(|(_, freeze)| settle::is_of_race(freeze))
            .map(|(agent, freeze)| (agent.clone(), freeze.at))
            .collect()
    }

    /// Decides the races that have ended, and does what their states ask for. A failure is tried again at the next look.
    pub(crate) async fn look(&self, now: i64) {
        let open = match self.swarm.store().races().open().await {
            Ok(open) => open,
            Err(error) => return tracing::error!(error = chain(&error), "failed to look at the races"),
        };
        for race in open {
            let number = race.id;
            if let Err(error) = self.advance(race, now).await {
                tracing::error!(race = number, error = chain(&error), "failed to take a race one step on");
            }
        }
    }

    async fn advance(&self, race: Race, now: i64) -> Result<(), RacesError> {
        let race = match race.state {
            RaceState::Running => match self.decide(&race, now).await? {
                Some(decided) => decided,
                None => return Ok(()),
            },
            // Only the winner's work is still on its way.
            RaceState::Decided if race.settled == Settled::Yes && !self.is_winner_ready(&race).await? => {
                return Ok(());
            }
            RaceState::Decided => race,
            _ if race.settled == Settled::No => race,
            _ => return Ok(()),
        };
        Box::pin(self.settle(&race)).await
    }

    /// Returns `true` if the winner's submission is merged, or still waits as if nothing were decided.
    async fn is_winner_ready(&self, race: &Race) -> Result<bool, RacesError> {
        let chosen = race.winner.and_then(|number| race.copy(number)).and_then(|copy| copy.submission);
        let Some(number) = chosen else { return Ok(false) };
        let found = self.swarm.store().submissions().find(number).await?;
        let state = found.map(|found| found.state);
        Ok(matches!(state, Some(SubmissionState::Merged | SubmissionState::Proven)))
    }

    /// Returns the race with this number.
    ///
    /// # Errors
    ///
    /// Returns [`RacesError::Unknown`] if there is none.
    pub(crate) async fn find(&self, number: i64) -> Result<Race, RacesError> {
        self.swarm.store().races().find(number).await?.ok_or(RacesError::Unknown(number))
    }

    /// Tells watchers that a race changed.
    fn publish(&self, race: &Race) {
        let data = json!({"race": race.id, "state": race.state, "winner": race.winner});
        self.swarm.notifier().publish("race.changed", &data);
    }
}
