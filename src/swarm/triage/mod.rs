//! Triage of agents' requests for things that they may not do themselves. The mechanical floor gives each request its
//! level, and the sysadmin can only raise it. A RED request waits for a person. A request runs only after it was
//! checked against its row in the transaction that marks it as running.

mod ask;
mod command_paths;
pub(crate) mod decide;
mod duplicates;
pub(crate) mod execution;
pub(crate) mod executor;
pub(crate) mod floor;
mod grants;
pub(crate) mod host_command;
pub(crate) mod messages;
mod orphans;
pub mod place;
pub(crate) mod question;
pub(crate) mod request;
mod restart;
mod review;
mod run;
mod submit;
mod sweep;
mod sysadmin_decisions;
pub(crate) mod view;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use ask::TriageApproval;
pub use decide::ApprovalDecision;
pub(crate) use decide::{BridgePerson, DecideError, Decider};
pub use execution::Execution;
pub use executor::Executor;
pub(crate) use executor::{ChannelLinker, HostExecutor, ToolDefinitions};
pub(crate) use floor::{LevelContext, PathClass};
pub(crate) use grants::{granted_before, mount_of_body};
pub(crate) use request::MAX_LINK_HEARS;
pub use request::{FiledRequest, Request};

use super::Swarm;
use super::scheduler::Priority;
use crate::clock::unix_ms;
use crate::config::{Agent, Config, Role};
use crate::id::AgentId;
use crate::store::{Level, NewInboxItem, RequestRow, RequestState, StoreError};

/// Maximum number of open requests of one agent.
const MAX_OPEN: usize = 16;
/// Maximum number of hosts that an agent can be granted, including those that it waits for.
const MAX_HOSTS: usize = 32;
/// Milliseconds for which a denied request can't be repeated, and over which installs are counted.
const DAY_MS: i64 = 24 * 3_600_000;
/// Maximum size of a reason in bytes.
const MAX_REASON: usize = 2000;
/// Maximum size of a stored result in bytes.
const MAX_RESULT: usize = 32 * 1024;
/// Maximum number of rows that are read at once.
const MAX_ROWS: u32 = 10_000;
/// Interval of the sweep, which expires old requests and begins those that the command line granted.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Accepts requests, stores them, and has them carried out.
pub struct Triage {
    swarm: Arc<Swarm>,
    executor: Arc<dyn Executor>,
    tasks: TaskTracker,
    /// Ids of requests that wait for their beginning or run in this process.
    underway: Mutex<HashSet<String>>,
    /// The time at which this process saw each open request first.
    seen: Mutex<HashMap<String, Instant>>,
    stop: CancellationToken,
    restarting: AtomicBool,
    /// Held from the check of an agent's earlier requests until the new one is stored. Otherwise an agent that makes
    /// several requests at once could exceed the limits.
    asking: tokio::sync::Mutex<()>,
    /// The questions of MCP servers whose calls wait for the answer, by the ids of their requests.
    questions: Mutex<HashMap<String, question::OpenQuestion>>,
    /// Held while requests are given to the sysadmin for review, so that none is given twice.
    reviewing: tokio::sync::Mutex<()>,
}

impl Triage {
    #[must_use]
    pub fn new(swarm: Arc<Swarm>, executor: Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            swarm,
            executor,
            tasks: TaskTracker::new(),
            underway: Mutex::default(),
            seen: Mutex::default(),
            stop: CancellationToken::new(),
            restarting: AtomicBool::new(false),
            asking: tokio::sync::Mutex::default(),
            questions: Mutex::default(),
            reviewing: tokio::sync::Mutex::default(),
        })
    }

    #[must_use]
    pub(crate) const fn swarm(&self) -> &Arc<Swarm> {
        &self.swarm
    }

    /// Records a person's decision. An approved request begins at once.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`decide::decide`].
    pub(crate) async fn decide(
        self: &Arc<Self>,
        id: &str,
        decision: ApprovalDecision,
        decider: &Decider,
    ) -> Result<RequestRow, DecideError> {
        let config = self.swarm.config();
        if matches!(decision, ApprovalDecision::Approve { .. }) && self.lacks_values(id) {
            let found = self.swarm.store().requests().find(id).await?;
            if found.is_some_and(|row| row.kind == question::KIND && row.state == RequestState::Waiting) {
                return Err(DecideError::Unanswered(view::id(id)));
            }
        }
        let decided = decide::decide(self.swarm.store(), &config, id, decision, decider, unix_ms()).await;
        // The decision came before the sweep, which would have told the agent.
        if matches!(decided, Err(DecideError::Expired(_)))
            && let Some(row) = self.swarm.store().requests().find(id).await?
        {
            self.tell(&row, &messages::expired(&row.id)).await?;
        }
        let row = decided?;
        self.publish("approval.decided", &row);
        if row.state == RequestState::Approved {
            self.begin(row.id.clone(), None);
        } else if row.kind == question::KIND {
            self.decline(&row.id);
        } else {
            self.swarm.notifier().ring(row.session.clone(), Priority::Mention);
        }
        Ok(row)
    }

    /// Stops beginning requests, and ends the commands that run.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until everything that was begun has ended. Nothing new is begun.
    pub(crate) async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn tell(&self, row: &RequestRow, text: &str) -> Result<(), StoreError> {
        let news = messages::results(row, text, unix_ms());
        for item in &news {
            self.swarm.store().inbox().add(item.clone()).await?;
        }
        self.ring(&news);
        Ok(())
    }

    fn ring(&self, items: &[NewInboxItem]) {
        for item in items {
            self.swarm.notifier().ring(item.session.clone(), Priority::Mention);
        }
    }

    fn publish(&self, name: &str, row: &RequestRow) {
        let what = event(&row.id, &row.kind, &row.agent, row.level, row.state);
        self.swarm.notifier().publish(name, &what);
    }
}

/// Returns the data of an event about a request.
fn event(id: &str, kind: &str, agent: &AgentId, level: Level, state: RequestState) -> Value {
    json!({"id": id, "kind": kind, "agent": agent, "level": level.as_str(), "state": state.as_str()})
}

/// The digits of an id: letters and digits without those that look alike.
const ID_DIGITS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// Their number in an id.
const ID_LENGTH: usize = 8;

/// Returns a short random id that is easy to type: `r-` and eight digits.
fn new_id() -> String {
    let mut id = "r-".to_owned();
    for byte in rand::random::<[u8; ID_LENGTH]>() {
        id.push(char::from(ID_DIGITS[usize::from(byte % 32)]));
    }
    id
}

/// Returns the words of a text that have the form of an id. There may be no request with it.
pub(crate) fn ids_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
    words.map(|word| word.trim_end_matches('-')).filter(|word| {
        word.strip_prefix("r-").is_some_and(|digits| {
            digits.len() == ID_LENGTH && digits.bytes().all(|digit| ID_DIGITS.contains(&digit))
        })
    })
}

fn sysadmin(config: &Config) -> Option<&Agent> {
    config.agents.iter().find(|agent| agent.role == Role::Sysadmin)
}

#[cfg(test)]
mod tests;
