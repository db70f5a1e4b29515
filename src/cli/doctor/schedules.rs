//! Checks of the schedules: recipients that are gone, time zones that this machine does not know, and those that flock has
//! paused.

use super::check::Check;
use crate::cli::database;
use crate::config::Config;
use crate::home::Home;
use crate::store::{Channel, ChannelState, Schedule, ScheduleState, ScheduleTarget, StoreError};
use crate::swarm::schedule::times::Times;

const NAME: &str = "schedules";

/// Reports schedules that can't run.
pub(crate) fn all(home: &Home, config: &Config) -> Vec<Check> {
    let read = database::read(home, async |reader| {
        Ok::<_, StoreError>((reader.schedules().list().await?, reader.channels().list(None, None).await?))
    });
    let (schedules, channels) = match read {
        Ok(found) => found.unwrap_or_default(),
        Err(error) => return vec![Check::failed(NAME, error.into())],
    };
    schedules.iter().filter_map(|schedule| check(schedule, config, &channels)).collect()
}

fn check(schedule: &Schedule, config: &Config, channels: &[Channel]) -> Option<Check> {
    if schedule.state == ScheduleState::Done {
        return None;
    }
    let name = &schedule.name;
    let remove = || format!("flock schedule remove {name}");
    if let Err(why) = Times::of(&schedule.timing) {
        return Some(Check::warn(NAME, format!("schedule {name} can't run: {why}"), remove()));
    }
    let gone = match &schedule.target {
        ScheduleTarget::Agent(agent) if config.agent(agent).is_none() => {
            Some(format!("there is no agent {agent}"))
        }
        ScheduleTarget::Agent(_) => None,
        ScheduleTarget::Channel(id) => match channels.iter().find(|channel| channel.id == *id) {
            None => Some(format!("there is no channel {id}")),
            Some(channel) if channel.state == ChannelState::Archived => Some(format!("#{id} is archived")),
            Some(_) => None,
        },
    };
    if let Some(why) = gone {
        return Some(Check::warn(NAME, format!("schedule {name} can't run: {why}"), remove()));
    }
    let is_paused = schedule.state == ScheduleState::Paused && !schedule.why.is_empty();
    is_paused.then(|| {
        let text = format!("schedule {name} was paused: {}", schedule.why);
        Check::warn(NAME, text, format!("flock schedule resume {name}"))
    })
}
