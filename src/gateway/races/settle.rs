//! Does everything that the state of a race asks for: the winner goes on, the others stop. Each step can be repeated, and
//! the race is marked as settled after the last one.

use super::{Races, RacesError};
use crate::config::{self, agents};
use crate::generation::Origin;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::id::AgentId;
use crate::store::{ChannelState, Freeze, Race, RaceCopy, RaceState, Settled, Submission, SubmissionState};
use crate::swarm::archive::ArchiveAction;
use crate::swarm::{Actor, SwarmError};

/// The beginning of the reason for each freeze by a race.
const PREFIX: &str = "race ";

impl Races {
    /// Brings about everything that the state of a race asks for.
    ///
    /// # Errors
    ///
    /// Returns an error if a step fails. The next look tries again.
    pub(super) async fn settle(&self, race: &Race) -> Result<(), RacesError> {
        let _one = self.settling.lock().await;
        // Without a gateway, this process has not read yet who is frozen.
        self.swarm.reload_frozen().await?;
        // The state may have changed while another call held the lock.
        let race = &self.find(race.id).await?;
        let mut settled = Settled::Yes;
        match race.state {
            RaceState::Running => return Ok(()),
            RaceState::Person => {
                for copy in &race.copies {
                    self.hold_copy(race, copy, "it waits for a person").await?;
                }
            }
            RaceState::Decided => {
                let is_merged = self.settle_winner(race).await?;
                if is_merged {
                    settled = Settled::Finally;
                }
                // Until the winner's work is merged, a person can choose another one.
                self.park_losers(race, is_merged, "another copy has won").await?;
            }
            RaceState::Over | RaceState::Stopped => {
                self.park_losers(race, false, "the race is over").await?;
            }
        }
        if race.dropped_at.is_some() {
            self.remove_losers(race).await?;
            settled = Settled::Finally;
        }
        if self.swarm.store().races().settle(race, settled).await? {
            self.publish(race);
        }
        Ok(())
    }

    fn is_loser(race: &Race, copy: &RaceCopy) -> bool {
        race.state != RaceState::Decided || race.winner != Some(copy.number)
    }

    /// Lets the winner's team and its submission go on. Returns `true` once the submission is merged.
    async fn settle_winner(&self, race: &Race) -> Result<bool, RacesError> {
        let Some(copy) = race.winner.and_then(|number| race.copy(number)) else { return Ok(false) };
        let found = match copy.submission {
            Some(number) => self.swarm.store().submissions().find(number).await?,
            None => None,
        };
        if found.as_ref().is_some_and(|found| found.state == SubmissionState::Merged)
            && race.settled >= Settled::Yes
        {
            return Ok(true);
        }
        if race.settled == Settled::No {
            let channel = self.swarm.channel(&copy.channel).await?;
            if channel.state == ChannelState::Archived {
                let done = self.swarm.archive(&Actor::system(), &copy.channel, ArchiveAction::Reopen).await;
                unless_refused(done.map(drop))?;
            }
            for (agent, _) in &copy.agents {
                if self.is_held_by(race, agent) {
                    unless_gone(self.swarm.thaw(&Actor::system(), agent).await.map(drop))?;
                }
            }
            let text =
                format!("This copy has won race {}: {}. It goes on as a team of its own.", race.id, race.why);
            self.say_once(copy, text).await?;
        }
        let Some(found) = found else { return Ok(false) };
        if found.state == SubmissionState::Proven {
            self.projects.release_winner(race.id, &found).await?;
        }
        Ok(found.state == SubmissionState::Merged)
    }

    /// Stops the copies that did not win. With `all`, what they delivered is withdrawn, too.
    async fn park_losers(&self, race: &Race, all: bool, why: &str) -> Result<(), RacesError> {
        let text = format!("race {}: {why}", race.id);
        let has_project = self.projects.find(&race.project).is_ok();
        for copy in race.copies.iter().filter(|copy| Self::is_loser(race, copy)) {
            self.hold_copy(race, copy, why).await?;
            for (agent, _) in copy.agents.iter().filter(|_| has_project) {
                self.projects.withdraw_racer(&race.project, agent, (all, &text)).await?;
            }
            let Ok(channel) = self.swarm.channel(&copy.channel).await else { continue };
            if channel.state != ChannelState::Archived {
                let done = self.swarm.archive(&Actor::system(), &copy.channel, ArchiveAction::Force).await;
                unless_refused(done.map(drop))?;
            }
        }
        Ok(())
    }

    /// Freezes the agents of a copy, and ends their turns.
    pub(super) async fn hold_copy(&self, race: &Race, copy: &RaceCopy, why: &str) -> Result<(), RacesError> {
        for (agent, _) in &copy.agents {
            if self.swarm.config().agent(agent).is_none() || self.swarm.is_frozen(agent) {
                continue;
            }
            let reason = format!("{}{why}", prefix(race));
            unless_gone(self.swarm.freeze(&Actor::system(), agent, Some(reason)).await.map(drop))?;
            // A frozen turn would keep its place until it is thawed.
            if let Some(end) = self.end_turns.get() {
                end(agent);
            }
        }
        Ok(())
    }

    /// Returns `true` if the race has frozen this agent, and not a person.
    fn is_held_by(&self, race: &Race, agent: &AgentId) -> bool {
        let frozen = self.swarm.watch_frozen();
        let frozen = frozen.borrow();
        let own = frozen.of(agent).filter(|freeze| freeze.by == "system");
        own.and_then(|freeze| freeze.reason.as_ref()).is_some_and(|reason| reason.starts_with(&prefix(race)))
    }

    async fn say_once(&self, copy: &RaceCopy, text: String) -> Result<(), RacesError> {
        let last = self.swarm.store().posts().page(&copy.channel, crate::store::Page::Last, 20).await?;
        if last.iter().any(|post| post.content == text) {
            return Ok(());
        }
        unless_refused(self.swarm.post_as_system(&copy.channel, text, false).await.map(drop))
    }

    /// Removes the copies that did not win. Their agents' removals are written down, and whoever finds them completes them.
    async fn remove_losers(&self, race: &Race) -> Result<(), RacesError> {
        let has_project = self.projects.find(&race.project).is_ok();
        let why = format!("race {}: its copy is dropped", race.id);
        for copy in race.copies.iter().filter(|copy| Self::is_loser(race, copy)) {
            for (agent, _) in &copy.agents {
                if has_project {
                    self.projects.withdraw_racer(&race.project, agent, (true, &why)).await?;
                    self.projects.remove_branches(&race.project, agent).await?;
                }
                self.write_removal(race, agent).await?;
            }
            let (home, channel, by) =
                (self.swarm.home().clone(), copy.channel.clone(), race.created_by.clone());
            let edit = move || {
                let budgets = |document: &mut _| -> Result<(), config::ConfigError> {
                    agents::remove_channel_budget(document, &channel);
                    Ok(())
                };
                config::edit(&home, budgets)
            };
            let has_budget = self
                .swarm
                .config()
                .budgets
                .channels
                .contains_key(&copy.channel.as_str().to_ascii_lowercase());
            if has_budget {
                let origin = Origin::new(by, format!("race.drop {}", race.id));
                tokio::task::spawn_blocking(move || origin.run(edit)).await??;
            }
        }
        Ok(())
    }

    async fn write_removal(&self, race: &Race, agent: &AgentId) -> Result<(), RacesError> {
        let config = self.swarm.config();
        let Some(known) = config.agent(agent) else { return Ok(()) };
        let removal = PendingOperation {
            agent: agent.clone(),
            operation: AgentOperation::Remove { purge: true, workspace: known.workspace.clone() },
            by: "system".to_owned(),
            begun_at: race.dropped_at.unwrap_or(race.created_at),
            configured: false,
        };
        let home = self.swarm.home().clone();
        let written = tokio::task::spawn_blocking(move || {
            let _lock = pending::lock(&home)?;
            // What was begun before goes on as it was.
            match pending::read(&home, &removal.agent)? {
                Some(_) => Ok(()),
                None => pending::write(&home, &removal),
            }
        });
        Ok(written.await??)
    }
}

/// Returns the beginning of the reason for which a race freezes agents.
fn prefix(race: &Race) -> String {
    format!("{PREFIX}{}: ", race.id)
}

/// Returns `true` if a race froze an agent, and not a person.
pub(super) fn is_of_race(freeze: &Freeze) -> bool {
    freeze.by == "system" && freeze.reason.as_ref().is_some_and(|reason| reason.starts_with(PREFIX))
}

/// Passes over an agent that was removed meanwhile.
fn unless_gone(done: Result<(), SwarmError>) -> Result<(), RacesError> {
    match done {
        Err(SwarmError::NoAgent(_)) => Ok(()),
        done => Ok(done?),
    }
}

/// Passes over a channel that is in the wanted state already.
fn unless_refused(done: Result<(), SwarmError>) -> Result<(), RacesError> {
    match done {
        Err(SwarmError::Refused(_) | SwarmError::Archived(_)) => Ok(()),
        done => Ok(done?),
    }
}

/// Returns `true` if a submission can still be chosen.
#[must_use]
pub(super) fn is_choosable(found: &Submission) -> bool {
    found.state == SubmissionState::Proven
}
