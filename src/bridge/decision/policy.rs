//! The rule who may decide about a request from a platform. It is a pure function of what was said, of what the database
//! and the configuration hold, and of the time.

use super::answer::Verb;
use crate::config::ApprovalSettings;
use crate::id::Party;
use crate::store::{AccountBinding, DecisionMessage, LinkState, RequestRow, RequestState, body_digest};
use crate::swarm::triage::{FiledRequest, Request};

/// Milliseconds after which a typed approval is too old. Somebody who wrote it while flock was away may have changed
/// their mind since.
pub(super) const MAX_APPROVAL_AGE: i64 = 10 * 60_000;

/// The action of a person.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt<'a> {
    pub(super) is_bot: bool,
    pub(super) is_forwarded: bool,
    pub(super) verb: Verb,
    pub(super) place: Place<'a>,
    /// Unix milliseconds by the platform's clock. `None` if the platform does not say it.
    pub(super) at: Option<i64>,
}

/// The place where somebody decides.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// On a message of flock's: by its button, by a reaction to it, or by a reply to it.
    Message {
        /// The platform's id of the channel.
        external: &'a str,
        message: &'a str,
    },
    /// By a code in a channel, or in a thread in `channel`.
    Channel { external: &'a str, channel: &'a str },
    /// By a code in a message to flock's account alone.
    Direct,
}

/// The facts about it in the database and the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// The name of the bridge.
    pub(super) bridge: &'a str,
    /// The message that shows the request.
    pub(super) shown: Option<&'a DecisionMessage>,
    pub(super) request: Option<&'a RequestRow>,
    /// The person behind the account.
    pub(super) account: Option<&'a AccountBinding>,
    pub(super) approvers: &'a [Party],
    pub(super) settings: &'a ApprovalSettings,
}

/// Permission for one decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permission<'a> {
    pub(super) person: &'a Party,
    /// The request's id.
    pub(super) request: &'a str,
    /// The digest of the body that was shown.
    pub(super) sha256: &'a str,
}

/// The reason for which something decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("programs decide nothing")]
    Program,
    #[error("requests are not decided over this bridge: flock approvals list")]
    Off,
    #[error("the owner of this flock has bound your account to nobody: flock person link")]
    NotBound,
    #[error("{0} is not among those who approve (approvers)")]
    NotApprover(Party),
    #[error("a forwarded message decides nothing")]
    Forwarded,
    #[error("no request has this code")]
    UnknownCode,
    #[error("{0} is decided only in its own channel, by its own message or code")]
    WrongPlace(String),
    #[error("the link over which {0} was shown is paused: flock approvals show {0}")]
    LinkStopped(String),
    #[error("{0} could not be shown whole here: flock approvals show {0}")]
    NotWhole(String),
    #[error("commands on the host are not decided over bridges: flock approvals show {0}")]
    HostCommand(String),
    #[error("{id} is {state} already")]
    Over {
        id: String,
        /// The request's state.
        state: &'static str,
    },
    #[error("{0} is not what you were shown: flock approvals show {0}")]
    Changed(String),
    #[error("your approval of {0} came more than ten minutes late: repeat it if it still holds")]
    Late(String),
}

impl Refusal {
    /// Returns `true` for an answer that a stranger can have without end, or of somebody who may be guessing.
    pub(super) const fn is_wrong_answer(&self) -> bool {
        matches!(
            self,
            Self::Off
                | Self::NotBound
                | Self::NotApprover(_)
                | Self::Forwarded
                | Self::UnknownCode
                | Self::WrongPlace(_)
        )
    }
}

/// Decides if somebody may decide. Who may not learns nothing about requests.
///
/// # Errors
///
/// Returns the first reason why it decides nothing.
pub(super) fn may_decide<'a>(
    attempt: &Attempt<'_>,
    facts: &Facts<'a>,
    now: i64,
) -> Result<Permission<'a>, Refusal> {
    if attempt.is_bot {
        return Err(Refusal::Program);
    }
    if !facts.settings.bridges.has(facts.bridge) {
        return Err(Refusal::Off);
    }
    // A person that a first message made may have any name. Only the owner says who is behind an account.
    let person = facts.account.filter(|account| account.bound_by.is_some()).map(|account| &account.person);
    let person = person.ok_or(Refusal::NotBound)?;
    if !person.is_human() || !facts.approvers.contains(person) {
        return Err(Refusal::NotApprover(person.clone()));
    }
    if attempt.is_forwarded {
        return Err(Refusal::Forwarded);
    }
    let shown = facts.shown.filter(|shown| shown.bridge == facts.bridge).ok_or(Refusal::UnknownCode)?;
    let id = || shown.request.clone();
    if !is_place_of(attempt.place, shown) {
        return Err(Refusal::WrongPlace(id()));
    }
    if shown.link_state != LinkState::Active {
        return Err(Refusal::LinkStopped(id()));
    }
    if shown.code.is_none() {
        return Err(Refusal::NotWhole(id()));
    }
    let request = facts.request.filter(|request| request.id == shown.request);
    let request = request.ok_or_else(|| Refusal::Over { id: id(), state: "removed" })?;
    if is_host_command(request) && !facts.settings.bridge_host_commands {
        return Err(Refusal::HostCommand(id()));
    }
    // The end of its time is by the clock of another gateway, so only the state says if it is over.
    if !waits(request) {
        return Err(Refusal::Over { id: id(), state: request.state.as_str() });
    }
    if !is_as_shown(request, &shown.sha256) {
        return Err(Refusal::Changed(id()));
    }
    // A denial is safe however late it comes.
    let is_late = attempt.at.is_some_and(|at| now.saturating_sub(at) > MAX_APPROVAL_AGE);
    if attempt.verb == Verb::Approve && is_late {
        return Err(Refusal::Late(id()));
    }
    Ok(Permission { person, request: &shown.request, sha256: &shown.sha256 })
}

/// Returns `true` if a request waits for a person for the first time. A revoked grant is given back on the command line
/// only.
pub(super) fn waits(request: &RequestRow) -> bool {
    request.state == RequestState::Waiting
}

/// Returns `true` if the body is the one with this digest.
pub(super) fn is_as_shown(request: &RequestRow, sha256: &str) -> bool {
    request.sha256 == sha256 && body_digest(&request.body) == sha256
}

/// Returns `true` for a command on the host, and for a body that can't be read.
pub(super) fn is_host_command(request: &RequestRow) -> bool {
    // The column and the body agree unless somebody changed the database.
    request.kind == "command"
        || FiledRequest::read(&request.body)
            .is_none_or(|asked| matches!(asked.request, Request::Command { .. }))
}

fn is_place_of(place: Place<'_>, shown: &DecisionMessage) -> bool {
    match place {
        Place::Message { external, message } => {
            shown.external == external && shown.message.as_deref() == Some(message)
        }
        Place::Channel { external, channel } => shown.external == external || shown.external == channel,
        Place::Direct => true,
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
