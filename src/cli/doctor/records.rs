//! Checks of records about flock itself: interrupted operations, a clock that jumped, leftovers of killed processes,
//! and tokens that have ended.

use std::path::PathBuf;

use super::check::Check;
use super::fix::Fix;
use crate::checkpoint::Checkpoints;
use crate::cli::database;
use crate::clock::{self, unix_ms};
use crate::config::Config;
use crate::error::chain;
use crate::gateway::clock_check;
use crate::generation::{self, pending_rollback};
use crate::home::lock::Lock;
use crate::home::{Home, pending, temp_files};
use crate::id::AgentId;
use crate::install::self_update::pending_change::PendingProgramChange;
use crate::store::{RaceState, StoreError};
use crate::supervise::unit::NAMES;
use crate::supervise::{SUPERVISOR, pid_file};

/// Reports an interrupted update of flock's own program.
pub(crate) fn update(home: &Home) -> Option<Check> {
    // It is read from the record that an update writes before it replaces the program.
    let change = PendingProgramChange::interrupted(home)?;
    let text =
        format!("an update from flock {} to {} was interrupted", change.from.version, change.to.version);
    Some(Check::warn("update", text, "flock update --self"))
}

/// Reports a rollback that was interrupted, and generations that can't be read.
pub(crate) fn generations(home: &Home) -> Vec<Check> {
    const NAME: &str = "rollback";
    let mut checks = Vec::new();
    match pending_rollback::read(home) {
        Ok(None) => {}
        // The lock tells a rollback in progress from one that was killed.
        Ok(Some(_)) if matches!(Lock::is_held(&home.rollback_lock()), Ok(true)) => {}
        Ok(Some(pending)) => {
            let text = format!("the rollback to generation {} was interrupted", pending.to);
            checks.push(Check::warn(NAME, text, "flock generations"));
        }
        Err(error) => checks.push(Check::failed(NAME, error.into())),
    }
    match generation::log::all(home) {
        Ok(all) => checks.extend(all.into_iter().filter_map(Result::err).map(|(number, error)| {
            let text = format!("generation {number} can't be read: {}", chain(&error));
            Check::warn(
                NAME,
                text,
                format!("rm {}", home.generations().join(format!("{number}.json")).display()),
            )
        })),
        Err(error) => checks.push(Check::failed(NAME, error.into())),
    }
    checks
}

/// Reports interrupted operations on agents. A running gateway completes them without help.
pub(crate) fn unfinished(home: &Home) -> Vec<Check> {
    const NAME: &str = "agents";
    match pending::all(home) {
        Ok(all) => {
            // A rename or removal is named by its own title, with the command that completes it.
            let check = |pending: pending::PendingOperation| {
                let text = format!("{} was interrupted and is not finished", pending.title());
                Check::warn(NAME, text, pending.command()).with_fix(Fix::Operation(pending.agent))
            };
            all.into_iter().map(check).collect()
        }
        Err(error) => vec![Check::failed(NAME, error.into())],
    }
}

/// Reports interrupted rewinds, and files of lost engines that are not back yet. A running gateway completes both before the
/// next turn.
pub(crate) fn rewinds(home: &Home, config: &Config) -> Vec<Check> {
    const NAME: &str = "agents";
    let check = |agent: AgentId| match Checkpoints::missing_files(home, &agent) {
        Some(missing) => Check::warn(NAME, missing.message, missing.hint),
        None => {
            let text = format!("a rewind of {agent} was interrupted and is not finished");
            Check::warn(NAME, text, format!("flock checkpoint {agent}"))
        }
    };
    Checkpoints::interrupted(home, config).into_iter().map(check).collect()
}

/// Reports an interrupted fork of a channel's team. A gateway completes or undoes it when it starts.
pub(crate) fn team_fork(home: &Home) -> Option<Check> {
    let text = "a fork of a channel was interrupted, and is completed or undone at the next start";
    Checkpoints::is_team_fork_open(home).then(|| Check::warn("agents", text, "flock restart"))
}

/// Reports races whose copies can't work, and those that wait for a person.
pub(crate) fn races(home: &Home, config: &Config) -> Vec<Check> {
    const NAME: &str = "races";
    let read = database::read(home, async |reader| {
        Ok::<_, StoreError>((reader.races().open().await?, reader.freezes().state().await?))
    });
    let (open, frozen) = match read {
        Ok(found) => found.unwrap_or_default(),
        Err(error) => return vec![Check::failed(NAME, error.into())],
    };
    let mut checks = Vec::new();
    for race in open {
        let show = format!("flock race show {}", race.id);
        let works = |agent: &AgentId| config.agent(agent).is_some() && !frozen.holds(agent);
        let can_work = race.copies.iter().flat_map(|copy| &copy.agents).any(|(agent, _)| works(agent));
        match race.state {
            RaceState::Running if !can_work => {
                let text = format!("race {} runs, and none of its agents can work", race.id);
                checks.push(Check::warn(NAME, text, show));
            }
            RaceState::Person if race.dropped_at.is_none() => {
                checks.push(Check::warn(
                    NAME,
                    format!("race {} waits for you to choose a copy", race.id),
                    show,
                ));
            }
            _ => {}
        }
    }
    checks
}

/// Reports a clock that has jumped ahead. Nothing is deleted by age while it is not confirmed.
pub(crate) fn clock(home: &Home) -> Option<Check> {
    const NAME: &str = "clock";
    let jump = clock_check::read(home).ok()?.jump?;
    let days = (jump.found_at - jump.from) / clock_check::DAY;
    let text =
        format!("the clock is {days} days ahead of the newest record, so nothing is deleted for its age");
    Some(Check::warn(NAME, text, "date; if it is right: flock doctor --confirm-clock"))
}

/// Reports drafts of files that killed processes left. The next start removes them too.
pub(crate) fn drafts(home: &Home) -> Option<Check> {
    let count = temp_files::list_abandoned(home).len();
    let text = format!("{count} drafts of files were left by processes that were killed");
    (count > 0).then(|| Check::warn("drafts", text, "flock doctor --fix").with_fix(Fix::Drafts))
}

/// Reports PID files of processes that have ended. It reports nothing while the home's supervisor runs.
pub(crate) fn processes(home: &Home) -> Vec<Check> {
    // An unreadable lock counts as held: with a running supervisor the PID files are in use.
    if Lock::is_held(&home.supervisor_lock()).unwrap_or(true) {
        return Vec::new();
    }
    let names = NAMES.into_iter().chain([SUPERVISOR]).map(|name| home.pid_file(name));
    let stale = names.filter(|path| path.exists() && pid_file::read(path).is_none());
    let check = |path: PathBuf| {
        let text = format!("{} names a process that is gone", path.display());
        Check::warn("processes", text, format!("rm {}", path.display())).with_fix(Fix::Pid(path))
    };
    stale.map(check).collect()
}

/// Reports tokens of clients that have expired, or whose agents are all removed.
pub(crate) fn tokens(home: &Home) -> Vec<Check> {
    const NAME: &str = "tokens";
    // An unreadable database is reported by its own check.
    let Ok(Some(tokens)) = database::read(home, async |reader| reader.tokens().list().await) else {
        return Vec::new();
    };
    let now = unix_ms();
    let ended = tokens.into_iter().filter(|token| token.revoked_at.is_none()).filter_map(|token| {
        let name = &token.name;
        let text = match token.expires_at {
            Some(end) if end <= now => format!("token {name} expired on {}", clock::local(end)),
            // A token for certain agents outlives them, but opens nothing any more.
            _ if token.agents.as_ref().is_some_and(Vec::is_empty) => {
                format!("the agents of token {name} were removed, so it gives no access")
            }
            _ => return None,
        };
        Some(Check::warn(
            NAME,
            text,
            format!("flock token revoke {name}, or make it anew: flock token add {name}"),
        ))
    });
    ended.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::agents::{self, NewAgent};
    use crate::config::{Role, parse, starter};

    #[test]
    fn files_that_are_not_back_are_named_with_their_engine_and_the_command_that_mends() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let mut document = starter::document(&home, None, "token", 3779);
        let mut write = |id: &str, lost: &str| {
            let agent: AgentId = id.parse().unwrap();
            agents::add(&mut document, &home, &NewAgent::new(agent.clone(), Role::Worker)).unwrap();
            std::fs::create_dir_all(home.checkpoints(&agent)).unwrap();
            let journal = format!(
                r#"{{"id": "ab12", "at": 7, "by": "human:ann", "to": 3, "files": null, "conversations": []{lost}}}"#
            );
            std::fs::write(home.checkpoints(&agent).join("rewind.json"), journal).unwrap();
        };
        write("coder", "");
        write("tester", r#", "lost": "far""#);
        let checks = rewinds(&home, &parse::config(&document, &home).unwrap());
        let told = checks.iter().map(|check| (check.message.as_str(), check.mend.as_deref().unwrap()));
        let coder = ("a rewind of coder was interrupted and is not finished", "flock checkpoint coder");
        let tester = (
            "the files of tester, which were in the engine far, are not back yet",
            "flock checkpoint tester",
        );
        assert_eq!(told.collect::<Vec<_>>(), [coder, tester]);
    }
}
