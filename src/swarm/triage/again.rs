//! What an agent has asked for before: the same is not taken down twice, and what was denied or taken back is not had
//! by asking again.

use super::request::Asked;
use super::{DAY, MANY, MAX_HOSTS, MAX_OPEN, Request, Triage, view};
use crate::id::AgentId;
use crate::store::RequestRow;
use crate::swarm::SwarmError;

impl Triage {
    /// The answer to a request that is open already.
    ///
    /// # Errors
    ///
    /// Where somebody denied it in the last day or took it back, or the agent has too much already.
    pub(super) fn known(
        &self,
        agent: &AgentId,
        asked: &Asked,
        now: i64,
    ) -> Result<Option<String>, SwarmError> {
        let store = self.swarm.store();
        let open = store.requests(true, MANY)?;
        let own: Vec<&RequestRow> = open.iter().filter(|row| row.agent == *agent).collect();
        if let Some(row) = own.iter().find(|row| is(row, |other| other.repeats(&asked.request))) {
            return Ok(Some(format!("{}: you asked for that already; it is {}", row.id, row.state.as_str())));
        }
        if own.len() >= MAX_OPEN {
            return Err(SwarmError::Refused(format!(
                "{MAX_OPEN} requests of yours are open already, the most that may be; wait for one of them"
            )));
        }
        self.refuse_denied(agent, asked, now)?;
        self.refuse_revoked(agent, asked)?;
        if let Request::Egress { .. } = asked.request {
            let waiting = own.iter().filter(|row| row.kind == "egress").count();
            if store.grants(agent, "egress")?.len() + waiting >= MAX_HOSTS {
                return Err(SwarmError::Refused(format!(
                    "you were granted {MAX_HOSTS} hosts, the most that may be; a person can take one back: flock \
                     approvals revoke"
                )));
            }
        }
        Ok(None)
    }

    fn refuse_denied(&self, agent: &AgentId, asked: &Asked, now: i64) -> Result<(), SwarmError> {
        let denied = self.swarm.store().denied_requests(agent, asked.request.kind(), now - DAY)?;
        let Some(row) = denied.iter().find(|row| is(row, |other| asked.request.includes(other))) else {
            return Ok(());
        };
        let hours = (now - row.decided_at.unwrap_or(now)).max(0) / 3_600_000;
        let by = row.decided_by.as_deref().unwrap_or("a person");
        let said = row.result.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
        let what = match is(row, |other| other.repeats(&asked.request)) {
            true => "exactly this".to_owned(),
            false => format!("a part of this, to {},", view::brief_row(row)),
        };
        Err(SwarmError::Refused(format!(
            "{by} denied {what} {hours} h ago ({}{said}); it can be asked again a day after that",
            row.id
        )))
    }

    /// What was taken back stays so, in whole and in part, until a person gives it back.
    fn refuse_revoked(&self, agent: &AgentId, asked: &Asked) -> Result<(), SwarmError> {
        let revoked = self.swarm.store().revoked_requests(agent, asked.request.kind())?;
        let meets = |other: &Request| asked.request.includes(other) || other.includes(&asked.request);
        let Some(row) = revoked.iter().find(|row| is(row, meets)) else { return Ok(()) };
        Err(SwarmError::Refused(format!(
            "{} took back {} ({}), and it is not granted again until a person says otherwise: flock approvals approve \
             {}",
            row.revoked_by.as_deref().unwrap_or("a person"),
            row.id,
            view::brief_row(row),
            row.id
        )))
    }
}

fn is(row: &RequestRow, holds: impl Fn(&Request) -> bool) -> bool {
    Asked::read(&row.body).is_some_and(|asked| holds(&asked.request))
}
