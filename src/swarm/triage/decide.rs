//! A person's decision about a request: who may make it, and that it is about exactly what they were shown.
//! Works on the database alone, so that the command line can do it where no gateway runs.

use std::time::Duration;

use super::notice;
use super::request::{Asked, Change, Request};
use crate::config::Config;
use crate::error::{Explain, Kind};
use crate::id::{AgentId, Party, SessionKey, SessionKind};
use crate::nix::Attribute;
use crate::store::{
    Along, AuditEntry, Level, Moved, NewRequest, RequestRow, RequestState, Step, Store, StoreError,
};

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
    /// An older flock kept it, and it does not say how it runs.
    #[error(
        "request {0} was asked for under an older flock and does not say how it runs: the agent has to ask again"
    )]
    Outdated(String),
    /// There is nothing of it that could be taken back.
    #[error("request {0} grants nothing that could be taken back")]
    NoGrant(String),
    /// It is taken back, and what it did is still there.
    #[error("{id} is taken back, but what it did could not be undone: {why}")]
    Left {
        /// Which.
        id: String,
        /// Why.
        why: String,
    },
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
            Self::Left { .. } => Some("flock nix list".to_owned()),
            Self::Outdated(id) => Some(format!("flock approvals deny {id}")),
            Self::Unknown(_) | Self::Expired(_) => Some("flock approvals list".to_owned()),
            Self::NoGrant(_) => Some("flock approvals list --all".to_owned()),
            Self::Over { id, .. } | Self::Changed(id) => Some(format!("flock approvals show {id}")),
            Self::NotApprover(_) => {
                Some("flock config set plugins.entries.flock.config.approvers '[\"human:NAME\"]'".to_owned())
            }
            Self::Store(error) => error.hint(),
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
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
        Decision::Approve { .. } if row.state.is_open() && super::view::is_outdated(&row) => {
            return Err(DecideError::Outdated(row.id));
        }
        Decision::Approve { sha256 } if row.revoked_by.is_some() => {
            let text = format!("{id} was given back by {party}.");
            let along = Along {
                entry: entry(party, "request.restore", &row, format!("sha256 {sha256}")),
                items: vec![notice::result(&row, &format!("Your request {text}{}", again(&row)), now)],
                post: notice::post(&row, &text, now),
            };
            store.restore_grant(row.id.clone(), sha256, along, now).await?
        }
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

/// What an agent has to do itself after it was given back.
fn again(row: &RequestRow) -> &'static str {
    if matches!(row.kind.as_str(), "package" | "agent-create") { " You can ask for it again." } else { "" }
}

/// The request that undoes what another one did, where that leaves something behind.
#[must_use]
pub fn undoing(row: &RequestRow) -> Option<Asked> {
    let Asked { agent, request } = Asked::read(&row.body)?;
    match request {
        Request::Package { action: Change::Install, package, .. } => {
            // In a profile a package of another flake has the name behind its reference.
            let package = package.rsplit('#').next().unwrap_or_default().to_owned();
            Some(Asked { agent, request: Request::Package { action: Change::Remove, package, runs: None } })
        }
        _ => None,
    }
}

/// Whether somebody can take back what a request did. A person removes an agent with `flock remove`.
fn can_revoke(party: &Party, row: &RequestRow) -> bool {
    Asked::read(&row.body).is_none_or(|asked| match asked.request {
        Request::Package { action: Change::Remove, .. } => false,
        Request::AgentCreate { .. } => !party.is_human(),
        _ => true,
    })
}

/// Takes back what a request granted.
///
/// # Errors
///
/// As [`DecideError`] says; nothing has changed then.
pub async fn revoke(store: &Store, id: &str, party: &Party, now: i64) -> Result<RequestRow, DecideError> {
    let row = store.request(id)?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))?;
    let entry = entry(party, "request.revoke", &row, super::view::brief_row(&row));
    if !can_revoke(party, &row) {
        return Err(DecideError::NoGrant(row.id));
    }
    if store.revoke_grants(row.agent.clone(), Some(row.id.clone()), entry, now).await? == 0 {
        return Err(DecideError::NoGrant(row.id));
    }
    store.sync().await?;
    store.request(id)?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))
}

/// Takes packages back that a person removes from an agent: it does not have them again by asking, whoever it had them
/// from.
///
/// # Errors
///
/// As [`DecideError`] says.
pub async fn take_back(
    store: &Store,
    agent: &AgentId,
    packages: &[Attribute],
    party: &Party,
    now: i64,
) -> Result<(), DecideError> {
    for package in packages {
        let is_of = |row: &RequestRow| installs(row).is_some_and(|name| name == package.as_str());
        let granted: Vec<RequestRow> =
            store.granted_requests(agent, "package")?.into_iter().filter(is_of).collect();
        for row in &granted {
            revoke(store, &row.id, party, now).await?;
        }
        if granted.is_empty() && !store.revoked_requests(agent, "package")?.iter().any(is_of) {
            deny_package(store, agent, package, party, now).await?;
        }
    }
    Ok(())
}

/// The name in a profile of the package that a request installs. One of another flake has the name behind its reference.
fn installs(row: &RequestRow) -> Option<String> {
    match Asked::read(&row.body)?.request {
        Request::Package { action: Change::Install, package, .. } => {
            Some(package.rsplit('#').next().unwrap_or_default().to_owned())
        }
        _ => None,
    }
}

/// Keeps that a person took a package back which nobody had asked for: as a request that was taken back, which a person
/// gives back like any other.
async fn deny_package(
    store: &Store,
    agent: &AgentId,
    package: &Attribute,
    party: &Party,
    now: i64,
) -> Result<(), DecideError> {
    let package = package.as_str().to_owned();
    let request = Request::Package { action: Change::Install, package: package.clone(), runs: None };
    let asked = Asked { agent: agent.clone(), request };
    let mut new = NewRequest {
        id: super::new_id(),
        kind: asked.request.kind(),
        agent: agent.clone(),
        session: SessionKey::new(agent, SessionKind::Main, "owner"),
        channel: None,
        body: asked.body(),
        reason: format!("{party} removed it; the agent had not asked for it"),
        floor: Level::Green,
        why: Vec::new(),
        state: RequestState::Done,
        scope: asked.request.scope(),
        asks_sysadmin: false,
        expires_at: now,
        exchange: None,
        now,
    };
    let entry = |id: &str| AuditEntry {
        actor: party.to_string(),
        action: "package.remove",
        subject: id.to_owned(),
        level: Level::Yellow,
        detail: format!("{package} of {agent}"),
        session: None,
        turn: None,
    };
    while !store.open_request(new.clone(), Along::audit(entry(&new.id))).await? {
        new.id = super::new_id();
    }
    revoke(store, &new.id, party, now).await.map(drop)
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
