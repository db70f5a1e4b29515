//! A race is begun: the team of a channel is copied, and each copy gets the task.

use super::{Races, RacesError};
use crate::checkpoint::team_fork::{CopyName, TeamForkRequest};
use crate::clock::unix_ms;
use crate::id::{ChannelId, Party, ProjectName};
use crate::store::{ChannelState, NewRace, Race};
use crate::swarm::SwarmError;
use crate::swarm::channel::MAX_MESSAGE;
use crate::swarm::mention;

/// The least and the most copies of a race.
const MIN_COPIES: u32 = 2;
const MAX_COPIES: u32 = 8;
/// The longest time of a race, in minutes.
const MAX_MINUTES: u64 = 7 * 24 * 60;

/// A race that a person wants.
#[derive(Clone, Debug)]
pub(crate) struct RaceRequest {
    /// The channel whose team is copied.
    pub(crate) channel: ChannelId,
    /// The number of copies.
    pub(crate) copies: u32,
    pub(crate) project: ProjectName,
    pub(crate) task: String,
    /// The budget of all copies together.
    pub(crate) tokens: Option<u64>,
    /// Millionths of a dollar.
    pub(crate) cost: Option<u64>,
    pub(crate) minutes: Option<u64>,
    pub(crate) by: Party,
}

impl Races {
    /// Makes the copies of a channel's team and gives each the task, all of it or nothing. Returns the race, and what the
    /// copies do not have.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is not valid, if the project has no checks or none of the agents works on it, or if
    /// the team can't be copied.
    pub(crate) async fn begin(&self, request: RaceRequest) -> Result<(Race, Vec<String>), RacesError> {
        let RaceRequest { channel, copies, project, task, tokens, cost, minutes, by } = request;
        check(copies, &task, tokens, cost, minutes)?;
        let channel = self.swarm.channel(&channel).await?;
        if channel.state != ChannelState::Active {
            return Err(SwarmError::Archived(channel.id).into());
        }
        let project = self.projects.find(&project)?;
        if project.checks.is_empty() {
            let text = format!("{} has no checks, so nothing could choose a winner", project.name);
            return Err(RacesError::Invalid(text));
        }
        if !channel.agents().any(|agent| project.has_agent(agent)) {
            let text = format!("no agent in #{} works on {}", channel.id, project.name);
            return Err(RacesError::Invalid(text));
        }
        let base = self.projects.tip(&project).await?;
        let _one = self.beginning.lock().await;
        // A race that was killed after its agents were made gets its row now, and with it its number.
        self.checkpoints.finish_team_fork().await?;
        let id = self.swarm.store().races().next_id().await?;
        let mut names = Vec::new();
        for number in 1..=copies {
            let suffix = format!("r{id}-{number}");
            let name = format!("{}-{suffix}", channel.id);
            let name = name
                .parse()
                .map_err(|error| RacesError::Invalid(format!("a copy can't be named: {error}")))?;
            names.push(CopyName { channel: name, suffix });
        }
        let now = unix_ms();
        let race = NewRace {
            id,
            project: project.name.clone(),
            channel: channel.id.clone(),
            task: task.clone(),
            base,
            created_by: by.to_string(),
            tokens,
            cost,
            ends_at: minutes
                .map(|minutes| now + i64::try_from(minutes).unwrap_or(i64::MAX / 60_000) * 60_000),
        };
        let config = self.swarm.config();
        let mentioned = mention::mentions(&task, config.agents.iter().map(|agent| &agent.id));
        let from = channel.id.clone();
        let request = TeamForkRequest {
            channel,
            copies: names,
            by: by.clone(),
            race: Some(race),
            mentions: mentioned.agents,
        };
        let made = self.checkpoints.fork_team(request).await?;
        self.swarm.announce_copies(&by, &made.posts);
        let text = format!(
            "{by} began race {id}: {copies} copies of this team work on the same task for {}. This channel's own agents \
             have no part in it.",
            project.name
        );
        if let Err(error) = self.swarm.post_as_system(&from, text, false).await {
            tracing::warn!(
                error = crate::error::chain(&error),
                "failed to say in a channel that a race began"
            );
        }
        let race = self.find(id).await?;
        self.publish(&race);
        Ok((race, made.warnings))
    }
}

fn check(
    copies: u32,
    task: &str,
    tokens: Option<u64>,
    cost: Option<u64>,
    minutes: Option<u64>,
) -> Result<(), RacesError> {
    let wrong = |text: String| Err(RacesError::Invalid(text));
    if !(MIN_COPIES..=MAX_COPIES).contains(&copies) {
        return wrong(format!("a race has {MIN_COPIES} to {MAX_COPIES} copies"));
    }
    if task.trim().is_empty() || task.len() > MAX_MESSAGE {
        return wrong(format!("the task is empty or has more than {MAX_MESSAGE} bytes"));
    }
    if tokens == Some(0) || cost == Some(0) {
        return wrong("a budget of nothing leaves no room for a call".to_owned());
    }
    if minutes.is_some_and(|minutes| !(1..=MAX_MINUTES).contains(&minutes)) {
        return wrong(format!("a race has 1 to {MAX_MINUTES} minutes"));
    }
    Ok(())
}
