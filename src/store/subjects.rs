//! The handles of the subjects, one for each.

use super::Database;
use super::agent_state::Agents;
use super::audit::AuditLog;
use super::card::Cards;
use super::channel::Channels;
use super::delivery::Deliveries;
use super::exchange::Exchanges;
use super::freeze::Freezes;
use super::idempotency::IdempotencyKeys;
use super::inbox::InboxItems;
use super::post::Posts;
use super::program_conversation::ProgramConversations;
use super::request::{Grants, Requests};
use super::session::Sessions;
use super::task::Tasks;
use super::token::Tokens;
use super::turn::Turns;
use super::usage::UsageRecords;

impl<A> Database<A> {
    /// Returns the handle of the agents.
    pub fn agents(&self) -> Agents<&Self> {
        Agents(self)
    }

    /// Returns the handle of the audit.
    pub fn audit(&self) -> AuditLog<&Self> {
        AuditLog(self)
    }

    /// Returns the handle of the agents' cards.
    pub fn cards(&self) -> Cards<&Self> {
        Cards(self)
    }

    /// Returns the handle of the channels and their members.
    pub fn channels(&self) -> Channels<&Self> {
        Channels(self)
    }

    /// Returns the handle of the delivery positions.
    pub fn deliveries(&self) -> Deliveries<&Self> {
        Deliveries(self)
    }

    /// Returns the handle of the direct messages between agents.
    pub(crate) fn exchanges(&self) -> Exchanges<&Self> {
        Exchanges(self)
    }

    /// Returns the handle of the freezes.
    pub fn freezes(&self) -> Freezes<&Self> {
        Freezes(self)
    }

    /// Returns the handle of the grants.
    pub fn grants(&self) -> Grants<&Self> {
        Grants(self)
    }

    /// Returns the handle of the idempotency keys.
    pub(crate) fn idempotency_keys(&self) -> IdempotencyKeys<&Self> {
        IdempotencyKeys(self)
    }

    /// Returns the handle of the inboxes.
    pub fn inbox(&self) -> InboxItems<&Self> {
        InboxItems(self)
    }

    /// Returns the handle of the messages in channels.
    pub fn posts(&self) -> Posts<&Self> {
        Posts(self)
    }

    /// Returns the handle of the conversations in agent programs.
    pub(crate) fn program_conversations(&self) -> ProgramConversations<&Self> {
        ProgramConversations(self)
    }

    /// Returns the handle of the requests.
    pub fn requests(&self) -> Requests<&Self> {
        Requests(self)
    }

    /// Returns the handle of the sessions.
    pub fn sessions(&self) -> Sessions<&Self> {
        Sessions(self)
    }

    /// Returns the handle of the tasks.
    pub fn tasks(&self) -> Tasks<&Self> {
        Tasks(self)
    }

    /// Returns the handle of the client tokens.
    pub fn tokens(&self) -> Tokens<&Self> {
        Tokens(self)
    }

    /// Returns the handle of the turns.
    pub fn turns(&self) -> Turns<&Self> {
        Turns(self)
    }

    /// Returns the handle of the usage of models.
    pub fn usage(&self) -> UsageRecords<&Self> {
        UsageRecords(self)
    }
}
