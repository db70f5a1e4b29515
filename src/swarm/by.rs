//! Who does something in the team.

use crate::id::{Party, SessionKey, TurnId};
use crate::store::{AuditEntry, Level};
use crate::tool::CallContext;

/// Who does something, and from where. Made from a credential or a turn's session, never from anything that
/// was sent along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// Who.
    pub party: Party,
    /// An agent's session.
    pub session: Option<SessionKey>,
    /// An agent's turn.
    pub turn: Option<TurnId>,
}

impl By {
    /// The agent that calls a tool.
    #[must_use]
    pub fn call(context: &CallContext) -> Self {
        Self {
            party: Party::Agent(context.agent.clone()),
            session: Some(context.session.clone()),
            turn: Some(context.turn),
        }
    }

    /// A person with the owner's credential.
    #[must_use]
    pub fn human(name: &str) -> Self {
        Self { party: Party::human(name), session: None, turn: None }
    }

    /// A person or a client, from no session.
    #[must_use]
    pub const fn party(party: Party) -> Self {
        Self { party, session: None, turn: None }
    }

    /// flock itself.
    #[must_use]
    pub const fn system() -> Self {
        Self { party: Party::System, session: None, turn: None }
    }

    /// A row for the audit of what they do.
    #[must_use]
    pub fn entry(&self, action: &'static str, subject: &str, level: Level, detail: String) -> AuditEntry {
        AuditEntry {
            actor: self.party.to_string(),
            action,
            subject: subject.to_owned(),
            level,
            detail,
            session: self.session.clone(),
            turn: self.turn,
        }
    }
}
