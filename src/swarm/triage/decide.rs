//! A person's decision about a request: it checks who decides, and that the decision is about exactly what the person
//! was shown. It works on the database alone, so that the command line can use it when no gateway runs.

use std::time::Duration;

use super::messages;
use super::request::{FiledRequest, PackageAction, Request};
use crate::config::Config;
use crate::error::{Explain, Kind};
use crate::id::{AgentId, Party, SessionKey, SessionKind};
use crate::nix_store::Attribute;
use crate::store::{
    Along, AuditEntry, Level, NewRequest, RequestRow, RequestState, RequestStep, RequestTransition, Store,
    StoreError,
};
use crate::tool::safe_text;

/// The person who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    /// A person with the owner's token or access to the owner's files. The name is only for the record.
    Owner(Party),
    /// A person whom another platform has authenticated. The person may decide only if the owner lists them as an
    /// approver.
    Person(BridgePerson),
}

/// A person who decides over a bridge, from an account that the owner bound to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BridgePerson {
    pub(crate) person: Party,
    /// The name of the bridge.
    pub(crate) bridge: String,
    /// The platform's id of the account.
    pub(crate) account: String,
}

/// Maximum number of bytes that the audit keeps of an account's id. Matrix, which has the longest ones, allows 255.
const MAX_ACCOUNT: usize = 256;

impl Decider {
    /// Returns what the audit says about the way of the decision, as a continuation of a sentence.
    fn origin(&self) -> String {
        match self {
            Self::Owner(_) => String::new(),
            Self::Person(BridgePerson { bridge, account, .. }) => {
                // A platform chose the account's id.
                let account = super::request::shown(safe_text::start(account, MAX_ACCOUNT));
                format!("; over bridge {bridge}, account {account}")
            }
        }
    }
}

/// A decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// Permission to do exactly what the body with this digest says.
    Approve {
        /// SHA-256 of the body in hexadecimal.
        sha256: String,
    },
    /// Refusal.
    Deny {
        /// The reason that the agent is told.
        reason: Option<String>,
    },
}

/// An error from making or revoking a decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecideError {
    /// There is no request with this id. Holds the id as [`super::view::id`] shows it, because somebody typed it.
    #[error("there is no request {0}")]
    Unknown(String),
    /// The request waits for no decision.
    #[error("request {id} is {state} already")]
    Over {
        id: String,
        /// The request's state.
        state: &'static str,
    },
    /// Nobody decided in time.
    #[error("request {0} has expired: the agent has to ask again")]
    Expired(String),
    /// The request differs from what the person was shown.
    #[error("request {0} is not what you were shown: nothing was approved")]
    Changed(String),
    /// The request comes from an older version of flock and does not say how its command runs.
    #[error(
        "request {0} was asked for under an older flock and does not say how it runs: the agent has to ask again"
    )]
    Outdated(String),
    /// The request grants nothing that could be revoked.
    #[error("request {0} grants nothing that could be taken back")]
    NoGrant(String),
    /// A question was approved without the values that it asks for.
    #[error(
        "request {0} asks for values: a person answers it with flock approvals answer, or on the dashboard"
    )]
    Unanswered(String),
    /// A value of an answer does not fit.
    #[error("{id} was not answered: {why}")]
    Values {
        id: String,
        /// The reason for the person.
        why: String,
    },
    /// The request asks for no values.
    #[error("request {0} is no question")]
    NoQuestion(String),
    /// The call that a question belongs to has ended.
    #[error("nobody waits for an answer to {0} any more: the call has ended")]
    NobodyWaits(String),
    /// The grant is revoked, but its effect could not be undone.
    #[error("{id} is taken back, but what it did could not be undone: {why}")]
    Left {
        id: String,
        /// The reason of the failure.
        why: String,
    },
    /// The person is not one of the approvers.
    #[error("{0} is not among those who approve (approvers)")]
    NotApprover(Party),
    /// A database operation failed.
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
            Self::Unanswered(id) => Some(format!("flock approvals answer {id}")),
            Self::Outdated(id) => Some(format!("flock approvals deny {id}")),
            Self::Unknown(_) | Self::Expired(_) | Self::NobodyWaits(_) => {
                Some("flock approvals list".to_owned())
            }
            Self::NoGrant(_) => Some("flock approvals list --all".to_owned()),
            Self::Over { id, .. } | Self::Changed(id) | Self::Values { id, .. } | Self::NoQuestion(id) => {
                Some(format!("flock approvals show {id}"))
            }
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

/// Records a decision. If it is an approval, the caller still has to begin the request.
///
/// # Errors
///
/// Returns [`DecideError::NotApprover`] if the person may not decide, and other variants if the request does not exist,
/// waits for no decision, has expired, or is not what the person was shown. Nothing has changed then.
pub(crate) async fn decide(
    store: &Store,
    config: &Config,
    id: &str,
    decision: ApprovalDecision,
    decider: &Decider,
    now: i64,
) -> Result<RequestRow, DecideError> {
    let party = authorize(config, decider)?;
    let origin = decider.origin();
    let row = store.requests().find(id).await?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))?;
    let moved = match decision {
        // A person can't approve what they are not shown.
        ApprovalDecision::Approve { .. } if row.state.is_open() && super::view::is_outdated(&row) => {
            return Err(DecideError::Outdated(row.id));
        }
        // Approving a revoked request restores its grant.
        ApprovalDecision::Approve { sha256 } if row.revoked_by.is_some() => {
            let text = format!("{id} was given back by {party}.");
            let along = Along {
                entry: entry(party, "request.restore", &row, format!("sha256 {sha256}{origin}")),
                items: messages::results(&row, &format!("Your request {text}{}", ask_again_hint(&row)), now),
                post: messages::post(row.channel.as_ref(), &text, now),
            };
            store.grants().restore(row.id.clone(), sha256, along, now).await?
        }
        ApprovalDecision::Approve { sha256 } => {
            let along = Along {
                entry: entry(party, "request.approve", &row, format!("sha256 {sha256}{origin}")),
                items: Vec::new(),
                post: messages::post(row.channel.as_ref(), &format!("{id} was approved by {party}."), now),
            };
            // An approval expires too, if the request can't begin for long, for example while its agent is frozen. The call that
            // an answer is for waits no longer than for the answer.
            let until = match row.kind == super::question::KIND {
                true => row.expires_at,
                false => now.saturating_add(to_millis(config.approval_time)),
            };
            store.requests().approve(row.id.clone(), sha256, until, along, now).await?
        }
        ApprovalDecision::Deny { reason } => {
            let reason: Option<String> = reason.map(|reason| super::request::shown(&reason));
            let said = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let text = format!("{id} was denied by {party}{said}.");
            let along = Along {
                entry: entry(party, "request.deny", &row, format!("{said}{origin}")),
                items: messages::results(&row, &format!("Your request {text}"), now),
                post: messages::post(row.channel.as_ref(), &text, now),
            };
            store.requests().step(row.id.clone(), RequestStep::Deny, reason, along, now).await?
        }
    };
    match moved {
        RequestTransition::Done(row) => {
            // The approval must be on disk before anybody acts on it.
            store.sync().await?;
            Ok(row)
        }
        RequestTransition::Not(row) => Err(DecideError::Over { id: row.id, state: row.state.as_str() }),
        RequestTransition::Expired(row) => Err(DecideError::Expired(row.id)),
        RequestTransition::Changed(row) => Err(DecideError::Changed(row.id)),
        RequestTransition::Unknown => Err(DecideError::Unknown(super::view::id(id))),
    }
}

/// Returns a hint for the agent if a restored grant alone does not bring back what it had.
fn ask_again_hint(row: &RequestRow) -> &'static str {
    if matches!(row.kind.as_str(), "package" | "agent-create") { " You can ask for it again." } else { "" }
}

/// Returns the request that undoes the effect of another one, if that left an effect.
#[must_use]
pub(crate) fn undo_request(row: &RequestRow) -> Option<FiledRequest> {
    let FiledRequest { agent, request } = FiledRequest::read(&row.body)?;
    match request {
        Request::Package { action: PackageAction::Install, package, .. } => {
            // In a profile, a package of another flake has the name after the `#` of its reference.
            let package = package.rsplit('#').next().unwrap_or_default().to_owned();
            Some(FiledRequest {
                agent,
                request: Request::Package { action: PackageAction::Remove, package, runs: None },
            })
        }
        _ => None,
    }
}

/// Returns `true` if this party can revoke a request's effect. A person removes an agent with `flock remove` instead.
fn can_revoke(party: &Party, row: &RequestRow) -> bool {
    FiledRequest::read(&row.body).is_none_or(|asked| match asked.request {
        Request::Package { action: PackageAction::Remove, .. } => false,
        // A person removes it with `flock schedule remove`, and the agent itself with its tool.
        Request::Schedule { .. } => false,
        // A person takes a tool back with `flock mcp revoke`.
        Request::McpTool { .. } => false,
        Request::McpQuestion { .. } => false,
        Request::AgentCreate { .. } => !party.is_human(),
        _ => true,
    })
}

/// Revokes what a request granted.
///
/// # Errors
///
/// Returns [`DecideError::Unknown`] if there is no such request, and [`DecideError::NoGrant`] if it grants nothing that
/// this party could revoke. Nothing has changed then.
pub(crate) async fn revoke(
    store: &Store,
    id: &str,
    party: &Party,
    now: i64,
) -> Result<RequestRow, DecideError> {
    let row = store.requests().find(id).await?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))?;
    let entry = entry(party, "request.revoke", &row, super::view::brief_row(&row));
    if !can_revoke(party, &row) {
        return Err(DecideError::NoGrant(row.id));
    }
    // Nothing is left to revoke, for example after a second call.
    if store.grants().revoke(row.agent.clone(), Some(row.id.clone()), entry, now).await? == 0 {
        return Err(DecideError::NoGrant(row.id));
    }
    store.sync().await?;
    store.requests().find(id).await?.ok_or_else(|| DecideError::Unknown(super::view::id(id)))
}

/// Revokes packages that a person removes from an agent, however the agent got them. The agent does not get them again
/// by asking.
///
/// # Errors
///
/// Returns [`DecideError::Store`] if the database fails.
pub(crate) async fn take_back(
    store: &Store,
    agent: &AgentId,
    packages: &[Attribute],
    party: &Party,
    now: i64,
) -> Result<(), DecideError> {
    for package in packages {
        let is_of = |row: &RequestRow| installed_package(row).is_some_and(|name| name == package.as_str());
        // The same package may have been granted by several requests.
        let granted: Vec<RequestRow> =
            store.grants().carried_out(agent, "package").await?.into_iter().filter(is_of).collect();
        for row in &granted {
            revoke(store, &row.id, party, now).await?;
        }
        // Without a request to revoke, nothing would keep the agent from getting the package again.
        if granted.is_empty() && !store.grants().revoked(agent, "package").await?.iter().any(is_of) {
            record_denied_package(store, agent, package, party, now).await?;
        }
    }
    Ok(())
}

/// Returns the profile name of the package that a request installs. A package of another flake has the name after the
/// `#` of its reference.
fn installed_package(row: &RequestRow) -> Option<String> {
    match FiledRequest::read(&row.body)?.request {
        Request::Package { action: PackageAction::Install, package, .. } => {
            Some(package.rsplit('#').next().unwrap_or_default().to_owned())
        }
        _ => None,
    }
}

/// Records that a person removed a package that no request had installed. The record is a revoked request, which a
/// person can restore like any other.
async fn record_denied_package(
    store: &Store,
    agent: &AgentId,
    package: &Attribute,
    party: &Party,
    now: i64,
) -> Result<(), DecideError> {
    let package = package.as_str().to_owned();
    let request = Request::Package { action: PackageAction::Install, package: package.clone(), runs: None };
    let asked = FiledRequest { agent: agent.clone(), request };
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
    let by = party.to_string();
    let entry =
        |id: &str| AuditEntry::new(&by, "package.remove", id, Level::Yellow, format!("{package} of {agent}"));
    // An id is random and short, so it may be taken already.
    while !store.requests().add(new.clone(), Along::audit(entry(&new.id))).await? {
        new.id = super::new_id();
    }
    revoke(store, &new.id, party, now).await.map(drop)
}

/// Returns the party that decides, if it may decide.
fn authorize<'d>(config: &Config, decider: &'d Decider) -> Result<&'d Party, DecideError> {
    let (party, is_listed) = match decider {
        Decider::Owner(party) => (party, true),
        // The other platform says who the person is. Only the owner says who may decide.
        Decider::Person(by) => (&by.person, config.approvers.contains(&by.person)),
    };
    // Agents and flock itself never decide, whatever credential they present.
    if is_listed && party.is_human() { Ok(party) } else { Err(DecideError::NotApprover(party.clone())) }
}

fn entry(party: &Party, action: &'static str, row: &RequestRow, detail: String) -> AuditEntry {
    AuditEntry::new(&party.to_string(), action, &row.id, row.level.max(Level::Yellow), detail)
}

fn to_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
