//! Checks of the second place for checkpoints, conversations and vaults.

use std::path::PathBuf;
use std::time::Duration;

use super::super::storage::{NO_CONDITIONS, clock_warning};
use super::check::Check;
use crate::agent::transcript::away;
use crate::blob::{self, BlobStore, owner};
use crate::checkpoint::remote::progress::{CHECK, CopyKind, CopyProblem, CopyProgress};
use crate::config::Config;
use crate::error::Explain as _;
use crate::home::{Home, scratch};
use crate::id::AgentId;

const NAME: &str = "storage";
/// The longest wait for the place. `flock storage check` waits longer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Tries the place, and reports what could not be copied there or brought back. If none is set, only the latter is checked.
pub(super) async fn all(home: &Home, config: &Config) -> Vec<Check> {
    let mut checks: Vec<Check> = config.agents.iter().flat_map(|agent| lost(home, &agent.id)).collect();
    let Some(settings) = config.blobs.as_deref() else { return checks };
    let store = blob::open(home, settings);
    let place = store.place().to_owned();
    let found = match tokio::time::timeout(TIMEOUT, probe(home, &*store)).await {
        Ok(checks) => checks,
        Err(_) => {
            let text = format!("{place} does not answer within {} seconds", TIMEOUT.as_secs());
            vec![Check::warn(NAME, text, CHECK)]
        }
    };
    checks.extend(found);
    for kind in CopyKind::ALL {
        match CopyProgress::read(home, kind) {
            Ok(Some(progress)) if progress.place == place => {
                let check = |problem: CopyProblem| Check::warn(NAME, problem.message, problem.hint);
                checks.extend(progress.problems(kind).into_iter().map(check));
            }
            Ok(_) => {}
            Err(error) => checks.push(Check::failed(NAME, error.into())),
        }
    }
    checks
}

/// Reports conversations that are lost here and could not be brought back.
fn lost(home: &Home, agent: &AgentId) -> Vec<Check> {
    let folder = home.sessions(agent);
    let names = scratch::names(&folder).into_iter();
    let lost = names.filter_map(|name| Some(folder.join(name.strip_suffix(".away")?)));
    let check = |path: PathBuf| match away::reason(&path) {
        Ok(reason) => {
            let reason = reason.unwrap_or_default();
            Check::bad(NAME, format!("{} is lost here: {reason}", path.display()), CHECK)
        }
        Err(error) => Check::failed(NAME, error.into()),
    };
    lost.map(check).collect()
}

async fn probe(home: &Home, store: &dyn BlobStore) -> Vec<Check> {
    let place = store.place();
    let report = match blob::probe(store).await {
        Ok(report) => report,
        Err(error) => return vec![Check::failed(NAME, error.into())],
    };
    let mut checks = Vec::new();
    checks.extend(
        clock_warning(report.clock_ahead).map(|text| {
            Check::warn(NAME, text, "set the clock of this machine, for example with timedatectl")
        }),
    );
    if !report.keeps_conditions {
        checks.push(Check::warn(NAME, NO_CONDITIONS.to_owned(), CHECK));
    }
    match owner::read(store).await {
        Ok(Some(owner)) if !owner.is(home).unwrap_or(false) => {
            let error = blob::BlobError::Foreign { place: place.to_owned() };
            checks.push(Check::warn(NAME, error.to_string(), error.hint().unwrap_or_default()));
        }
        Ok(_) => checks.push(Check::ok(NAME, format!("{place} takes checkpoints"))),
        Err(error) => checks.push(Check::failed(NAME, error.into())),
    }
    checks
}
