//! A person's decision about a request: who may make it, and that it is about exactly what they were shown.
//! Works on the database alone, so that the command line can do it where no gateway runs.

use std::time::Duration;

use super::notice;
use crate::config::Config;
use crate::error::{Explain, Kind};
use crate::id::Party;
use crate::store::{Along, AuditEntry, Level, Moved, RequestRow, Step, Store, StoreError};

/// Who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decider {
    /// Whoever has the owner's token, or the owner's files; the name is only for the record.
    Owner(Party),
    /// A person that another platform has made sure of: decides only if the owner lists them.
    Person(Party),
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be done, exactly as the body with this SHA-256 says.
    Approve {
        /// In hex.
        sha256: String,
    },
    /// It may not.
    Deny {
        /// Why, for the agent.
        reason: Option<String>,
    },
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such request.
    #[error("there is no request {0}")]
    Unknown(String),
    /// It does not wait for one.
    #[error("request {id} is {state} already")]
    Over {
        /// Which.
        id: String,
        /// How it stands.
        state: &'static str,
    },
    /// Nobody decided in time.
    #[error("request {0} has expired: the agent has to ask again")]
    Expired(String),
    /// It is not what the person was shown.
    #[error("request {0} is not what you were shown: nothing was approved")]
    Changed(String),
    /// There is nothing of it that could be taken back.
    #[error("request {0} grants nothing that could be taken back")]
    NoGrant(String),
    /// Not one of those who decide.
    #[error("{0} is not among those who approve (approvers)")]
    NotApprover(Party),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Explain for DecideError {
    fn kind(&self) -> Kind {
        match self {
            Self::NotApprover(_) => Kind::NeedsApproval,
            Self::Store(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) | Self::Expired(_) => Some("flock approvals list".to_owned()),
            Self::NoGrant(_) => Some("flock approvals list --all".to_owned()),
            Self::Over { id, .. } | Self::Changed(id) => Some(format!("flock approvals show {id}")),
            Self::NotApprover(_) => {
                Some("flock config set plugins.entries.flock.config.approvers '[\"human:NAME\"]'".to_owned())
            }
            Self::Store(error) => error.hint(),
        }
    }
}

/// Writes a decision down; what was approved still has to be begun.
///
/// # Errors
///
/// As [`DecideError`] says; nothing has changed then.
pub async fn decide(
    store: &Store,
    config: &Config,
    id: &str,
    decision: Decision,
    decider: &Decider,
    now: i64,
) -> Result<RequestRow, DecideError> {
    let party = admit(config, decider)?;
    let row = store.request(id)?.ok_or_else(|| DecideError::Unknown(id.to_owned()))?;
    let moved = match decision {
        Decision::Approve { sha256 } => {
            let along = Along {
                entry: entry(party, "request.approve", &row, format!("sha256 {sha256}")),
                items: Vec::new(),
                post: notice::post(&row, &format!("{id} was approved by {party}."), now),
            };
            let until = now.saturating_add(millis(config.approval_time));
            store.approve_request(row.id.clone(), sha256, until, along, now).await?
        }
        Decision::Deny { reason } => {
            let reason: Option<String> = reason.map(|reason| super::request::shown(&reason));
            let said = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let text = format!("{id} was denied by {party}{said}.");
            let along = Along {
                entry: entry(party, "request.deny", &row, said),
                items: vec![notice::result(&row, &format!("Your request {text}"), now)],
                post: notice::post(&row, &text, now),
            };
            store.step_request(row.id.clone(), Step::Deny, reason, along, now).await?
        }
    };
    match moved {
        Moved::Done(row) => {
            // An approval is on the disk before anybody acts on it.
            store.sync().await?;
            Ok(row)
        }
        Moved::Not(row) => Err(DecideError::Over { id: row.id, state: row.state.as_str() }),
        Moved::Expired(row) => Err(DecideError::Expired(row.id)),
        Moved::Changed(row) => Err(DecideError::Changed(row.id)),
        Moved::Unknown => Err(DecideError::Unknown(id.to_owned())),
    }
}

/// Takes back what a request granted.
///
/// # Errors
///
/// As [`DecideError`] says; nothing has changed then.
pub async fn revoke(store: &Store, id: &str, party: &Party, now: i64) -> Result<RequestRow, DecideError> {
    let row = store.request(id)?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))?;
    let entry = entry(party, "request.revoke", &row, super::view::summary(&row));
    if store.revoke_grants(row.agent.clone(), Some(row.id.clone()), entry, now).await? == 0 {
        return Err(DecideError::NoGrant(row.id));
    }
    store.sync().await?;
    store.request(id)?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))
}

/// Who it is that decides, if they may.
fn admit<'d>(config: &Config, decider: &'d Decider) -> Result<&'d Party, DecideError> {
    match decider {
        // No agent and not flock itself, whatever credential they came by.
        Decider::Owner(party) | Decider::Person(party) if !party.is_human() => {
            Err(DecideError::NotApprover(party.clone()))
        }
        Decider::Person(party) if !config.approvers.contains(party) => {
            Err(DecideError::NotApprover(party.clone()))
        }
        Decider::Owner(party) | Decider::Person(party) => Ok(party),
    }
}

fn entry(party: &Party, action: &'static str, row: &RequestRow, detail: String) -> AuditEntry {
    AuditEntry {
        actor: party.to_string(),
        action,
        subject: row.id.clone(),
        level: row.level.max(Level::Yellow),
        detail,
        session: None,
        turn: None,
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
