//! The actor of a change in the team.

use crate::id::{Party, SessionKey, TurnId};
use crate::store::{AuditEntry, Level};
use crate::tool::CallContext;

/// An actor and where it acts from. It is made from a credential or a turn's session, never from data in the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub party: Party,
    /// The session of an agent that acts in a turn.
    pub session: Option<SessionKey>,
    /// The turn of an agent that acts.
    pub turn: Option<TurnId>,
}

impl Actor {
    /// Returns the agent that calls a tool.
    #[must_use]
    pub(crate) fn call(context: &CallContext) -> Self {
        Self {
            party: Party::Agent(context.agent.clone()),
            session: Some(context.session.clone()),
            turn: Some(context.turn),
        }
    }

    /// Returns the agent that acts in a session of its own, in this turn if it is known.
    #[must_use]
    pub(crate) fn agent(session: &SessionKey, turn: Option<TurnId>) -> Self {
        Self { party: Party::Agent(session.agent().clone()), session: Some(session.clone()), turn }
    }

    /// Returns a person who has the owner's credential.
    #[must_use]
    pub fn human(name: &str) -> Self {
        Self { party: Party::human(name), session: None, turn: None }
    }

    /// Returns a person or a client that acts outside of a session.
    #[must_use]
    pub(crate) const fn party(party: Party) -> Self {
        Self { party, session: None, turn: None }
    }

    /// Returns flock itself.
    #[must_use]
    pub(crate) const fn system() -> Self {
        Self { party: Party::System, session: None, turn: None }
    }

    /// Returns an audit row for an action of this actor.
    #[must_use]
    pub fn entry(&self, action: &'static str, subject: &str, level: Level, detail: String) -> AuditEntry {
        let entry = AuditEntry::new(&self.party.to_string(), action, subject, level, detail);
        AuditEntry { session: self.session.clone(), turn: self.turn, ..entry }
    }
}
