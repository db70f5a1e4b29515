//! What the agents were granted.

use super::request::{self, FiledRequest, Request};
use super::view;
use crate::clock::unix_ms;
use crate::id::AgentId;
use crate::sandbox::mount::ApprovedMount;
use crate::store::{Database, Level, RequestRow, StoreError};
use crate::swarm::{Actor, Swarm};

/// Largest number of earlier grants that are shown with a request.
const MAX_GRANTED: usize = 100;

impl Swarm {
    /// Revokes the grants of agents that are no longer configured, so that a later agent with the same id does not get
    /// them.
    pub(crate) async fn revoke_missing_agents(&self) -> Result<(), StoreError> {
        for agent in self.store().grants().agents().await? {
            if self.config().agent(&agent).is_none() {
                self.revoke_grants(&agent).await?;
            }
        }
        Ok(())
    }

    /// Revokes the grants of an agent that is not configured any more.
    pub(crate) async fn revoke_grants(&self, agent: &AgentId) -> Result<(), StoreError> {
        let entry = Actor::system().entry(
            "request.revoke",
            agent.as_str(),
            Level::Yellow,
            "it is not configured any more".to_owned(),
        );
        self.store().grants().revoke(agent.clone(), None, entry, unix_ms()).await.map(drop)
    }

    /// Returns the hosts that an agent may reach, each as `HOST[:PORT]`: those from the configuration and those that
    /// were granted.
    pub(crate) async fn egress_rules(&self, agent: &AgentId) -> Result<Vec<String>, StoreError> {
        let configured = self.config().agent(agent).map(|agent| agent.egress.clone()).unwrap_or_default();
        let granted = self.store().grants().bodies(agent, "egress").await?;
        let granted = granted.iter().filter_map(|body| match FiledRequest::read(body)?.request {
            Request::Egress { host, port } => Some(request::rule(&host, port)),
            _ => None,
        });
        Ok(configured.into_iter().chain(granted).collect())
    }

    /// Returns the host folders that an agent was granted to read, with symbolic links resolved, and their names in the
    /// sandbox.
    pub(crate) async fn granted_mounts(&self, agent: &AgentId) -> Result<Vec<ApprovedMount>, StoreError> {
        Ok(self
            .store()
            .grants()
            .bodies(agent, "mount")
            .await?
            .iter()
            .filter_map(|body| mount_of_body(body))
            .collect())
    }
}

/// Returns what an agent was granted before of the kind of an open request, each on a line as [`Request::describe`]
/// writes it, newest first. A person sees by it what is new in the request.
///
/// `covers` returns `true` for a request that the person may see. What was granted to another one stays hidden, because
/// it says what the agent did for somebody else.
pub(crate) async fn granted_before<A>(
    database: &Database<A>,
    row: &RequestRow,
    covers: impl Fn(&RequestRow) -> bool,
) -> Result<Option<Vec<String>>, StoreError> {
    if !row.state.is_open() {
        return Ok(None);
    }
    let mut earlier = database.grants().carried_out(&row.agent, &row.kind).await?;
    earlier.retain(covers);
    let mut lines: Vec<String> = earlier.iter().map(view::summary).collect();
    // The same may have been granted, used and granted again.
    let mut seen = std::collections::HashSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines.truncate(MAX_GRANTED);
    Ok(Some(lines))
}

/// Returns the mount that a request body grants, or `None` for another kind of request.
#[must_use]
pub(crate) fn mount_of_body(body: &str) -> Option<ApprovedMount> {
    let Request::Mount { path, target } = FiledRequest::read(body)?.request else { return None };
    let target = target.unwrap_or_else(|| request::mounted_at(&path));
    let name = target.strip_prefix("/mnt/")?.to_owned();
    Some(ApprovedMount { source: path.into(), name })
}
