//! Checks a request against earlier ones of the same agent. An open request is not recorded twice, and asking again
//! does not get around a denial or a revocation.

use super::request::FiledRequest;
use super::{DAY_MS, MAX_HOSTS, MAX_OPEN, MAX_ROWS, Request, Triage, view};
use crate::id::AgentId;
use crate::store::RequestRow;
use crate::swarm::SwarmError;

impl Triage {
    /// Returns the answer to a request that is already open.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Refused`] if the request was denied in the last day or was revoked, or if the agent has
    /// too many open requests or granted hosts.
    pub(super) async fn known(
        &self,
        agent: &AgentId,
        asked: &FiledRequest,
        now: i64,
    ) -> Result<Option<String>, SwarmError> {
        let store = self.swarm.store();
        let open = store.requests().list(true, MAX_ROWS).await?;
        // Another agent may ask for the same: grants belong to one agent.
        let own: Vec<&RequestRow> = open.iter().filter(|row| row.agent == *agent).collect();
        if let Some(row) = own.iter().find(|row| row_matches(row, |other| other.is_repeat_of(&asked.request)))
        {
            return Ok(Some(format!("{}: you asked for that already; it is {}", row.id, row.state.as_str())));
        }
        if own.len() >= MAX_OPEN {
            return Err(SwarmError::Refused(format!(
                "you have {MAX_OPEN} open requests, which is the limit; wait for one of them"
            )));
        }
        self.refuse_denied(agent, asked, now).await?;
        self.refuse_revoked(agent, asked).await?;
        if let Request::Egress { .. } = asked.request {
            // Waiting requests count too. Otherwise approving all of them could exceed the limit.
            let waiting = own.iter().filter(|row| row.kind == "egress").count();
            if store.grants().bodies(agent, "egress").await?.len() + waiting >= MAX_HOSTS {
                return Err(SwarmError::Refused(format!(
                    "you have {MAX_HOSTS} granted or requested hosts, the limit; a person can take one back: flock \
                     approvals revoke"
                )));
            }
        }
        Ok(None)
    }

    async fn refuse_denied(&self, agent: &AgentId, asked: &FiledRequest, now: i64) -> Result<(), SwarmError> {
        let denied = self.swarm.store().requests().denied(agent, asked.request.kind(), now - DAY_MS).await?;
        // A wider request is refused too: otherwise it would get around the denial of a part.
        let Some(row) = denied.iter().find(|row| row_matches(row, |other| asked.request.includes(other)))
        else {
            return Ok(());
        };
        let hours = (now - row.decided_at.unwrap_or(now)).max(0) / 3_600_000;
        let by = row.decided_by.as_deref().unwrap_or("a person");
        let said = row.result.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
        let what = match row_matches(row, |other| other.is_repeat_of(&asked.request)) {
            true => "exactly this".to_owned(),
            false => format!("a part of this, to {},", view::brief_row(row)),
        };
        Err(SwarmError::Refused(format!(
            "{by} denied {what} {hours} h ago ({}{said}); you can ask again a day after that",
            row.id
        )))
    }

    /// Refuses a request that overlaps with a revoked one, until a person grants that one again.
    async fn refuse_revoked(&self, agent: &AgentId, asked: &FiledRequest) -> Result<(), SwarmError> {
        let revoked = self.swarm.store().grants().revoked(agent, asked.request.kind()).await?;
        let meets = |other: &Request| asked.request.includes(other) || other.includes(&asked.request);
        let Some(row) = revoked.iter().find(|row| row_matches(row, meets)) else { return Ok(()) };
        Err(SwarmError::Refused(format!(
            "{} took back {} ({}), and only a person can grant it again: flock approvals approve {}",
            row.revoked_by.as_deref().unwrap_or("a person"),
            row.id,
            view::brief_row(row),
            row.id
        )))
    }
}

fn row_matches(row: &RequestRow, holds: impl Fn(&Request) -> bool) -> bool {
    FiledRequest::read(&row.body).is_some_and(|asked| holds(&asked.request))
}
