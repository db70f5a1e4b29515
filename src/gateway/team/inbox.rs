//! Takes in the messages that arrive in a channel while a turn of it runs. They are taken between two steps, as whole
//! messages, and count as delivered once they are in the transcript.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::compose;
use crate::agent::{Command, Delivery, Inbox, Provenance};
use crate::error::chain;
use crate::id::{AgentId, ChannelId, TurnId};
use crate::provider::BoxFuture;
use crate::store::{Batch, BatchLimits, Given, Store};

/// Largest number of messages in one delivery.
pub(crate) const MESSAGES: u32 = 50;
/// Most bytes of text in one delivery. A longer message is only named by its number.
pub(crate) const BYTES: usize = 32 << 10;

/// The inbox of a channel for one turn.
pub(crate) struct ChannelInbox {
    store: Arc<Store>,
    agent: AgentId,
    channel: ChannelId,
    turn: TurnId,
    may_have_more: AtomicBool,
    delivered: AtomicU64,
    wants_answer: AtomicBool,
}

impl ChannelInbox {
    /// Creates the inbox of a turn that has not been given anything yet.
    pub(crate) fn new(store: Arc<Store>, agent: AgentId, channel: ChannelId, turn: TurnId) -> Self {
        Self {
            store,
            agent,
            channel,
            turn,
            may_have_more: AtomicBool::new(false),
            delivered: AtomicU64::new(0),
            wants_answer: AtomicBool::new(false),
        }
    }

    /// Notes that something may have come, so the inbox looks before the next step.
    pub(crate) fn look(&self) {
        self.may_have_more.store(true, Ordering::Release);
    }

    /// Returns the sequence number up to which the transcript holds the channel, or `None` if the turn was given
    /// nothing of it.
    pub(crate) fn delivered(&self) -> Option<u64> {
        Some(self.delivered.load(Ordering::Acquire)).filter(|seq| *seq > 0)
    }

    /// Returns `true` if a person, or somebody who mentioned this agent, waits for its answer.
    pub(crate) fn wants_answer(&self) -> bool {
        self.wants_answer.load(Ordering::Acquire)
    }

    /// Notes that somebody waits for an answer.
    pub(crate) fn expect_answer(&self) {
        self.wants_answer.store(true, Ordering::Release);
    }

    /// Takes what is new now, with at most `bytes` bytes of text.
    ///
    /// A person's command comes in a batch of its own. If `commands` is `false`, it is not taken and keeps waiting.
    pub(crate) async fn batch(
        &self,
        bytes: usize,
        commands: bool,
    ) -> Result<Option<Batch>, crate::store::StoreError> {
        let is_command = |given: &Given| command_of(given).is_some();
        let limits = BatchLimits { messages: MESSAGES, bytes, alone: is_command, may_be_alone: commands };
        let batch = self
            .store
            .deliveries()
            .take_batch(self.agent.clone(), self.channel.clone(), self.turn, limits)
            .await?;
        if let Some(batch) = &batch
            && batch.messages.iter().any(|post| post.author.is_human() || post.mentions.has(&self.agent))
        {
            self.expect_answer();
        }
        Ok(batch)
    }
}

/// Returns the command that a person sends to the agents that the message mentions, if it is one. A post of an agent is
/// never a command.
pub(crate) fn command_of(given: &Given) -> Option<Command> {
    let calls = given.mentions.all || !given.mentions.agents.is_empty();
    let text = given.content.as_deref().filter(|_| calls && given.author.is_human())?;
    Command::parse_post(text)
}

/// Returns the range of messages that a batch consists of.
pub(crate) fn provenance(batch: &Batch) -> Provenance {
    let number = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
    let from = batch.messages.first().map_or(batch.up_to, |post| post.seq);
    Provenance::Channel { channel: batch.channel.id.clone(), from: number(from), to: number(batch.up_to) }
}

impl Inbox for ChannelInbox {
    fn take(&self, room: u64) -> BoxFuture<'_, Option<Delivery>> {
        Box::pin(async move {
            // In what people write a token has at least two bytes, and the frame around the messages takes some as
            // well. The flag stays as it is, so the messages are taken when there is more room.
            let bytes = usize::try_from(room).unwrap_or(usize::MAX).min(BYTES);
            if bytes < 512 {
                return None;
            }
            // The flag keeps a turn without new messages away from the database.
            if !self.may_have_more.swap(false, Ordering::AcqRel) {
                return None;
            }
            match self.batch(bytes, false).await {
                Ok(Some(batch)) => {
                    // The batch may not have been all of it, so the next step looks again.
                    self.look();
                    Some(Delivery { text: compose::batch(&batch, bytes), provenance: provenance(&batch) })
                }
                Ok(None) => None,
                Err(error) => {
                    tracing::error!(error = chain(&error), "failed to take new messages into a turn");
                    // They are still there, so the next step tries again.
                    self.look();
                    None
                }
            }
        })
    }

    fn committed<'a>(&'a self, provenance: &'a Provenance) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Provenance::Channel { to, .. } = provenance else { return };
            let to = to.unsigned_abs();
            // Deliveries may be noted in any order, so the position never goes back.
            self.delivered.fetch_max(to, Ordering::AcqRel);
            let noted =
                self.store.deliveries().record(self.agent.clone(), self.channel.clone(), self.turn, to).await;
            if let Err(error) = noted {
                // The transcript holds the messages, and the next start takes the position from there.
                tracing::error!(error = chain(&error), "failed to note a delivery");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::PostMentions;

    #[test]
    fn only_a_person_who_calls_an_agent_commands() {
        let given = |author: &str, text: &str, agents: &[&str], all| Given {
            seq: 1,
            author: author.parse().unwrap(),
            mentions: PostMentions { agents: agents.iter().map(|id| id.parse().unwrap()).collect(), all },
            size: text.len(),
            content: Some(text.to_owned()),
        };
        assert_eq!(command_of(&given("human:ann", "@ada /new", &["ada"], false)), Some(Command::New));
        assert_eq!(command_of(&given("human:ann", "@all /new", &[], true)), Some(Command::New));
        for (author, text, agents) in [
            ("bob", "@ada /new", &["ada"][..]),
            ("system", "@ada /new", &["ada"]),
            ("human:ann", "@nobody /new", &[]),
            ("human:ann", "/new", &[]),
            ("human:ann", "@ada please /new", &["ada"]),
        ] {
            assert_eq!(command_of(&given(author, text, agents, false)), None, "{author}: {text}");
        }
        let long = Given { content: None, ..given("human:ann", "", &["ada"], false) };
        assert_eq!(command_of(&long), None);
    }
}
