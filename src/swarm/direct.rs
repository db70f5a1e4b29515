//! Direct messages of people on other platforms. Each is a task in the session that the agent has with the person.

use super::task::{TaskRecords, check_text};
use super::{Actor, Swarm, SwarmError};
use crate::clean;
use crate::clock::unix_ms;
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::store::{IdempotencyKey, Level, NewTask, Task, TaskKind};
use crate::swarm::task::MAX_SUMMARY;

impl Swarm {
    /// Gives an agent a direct message of a person. It is accepted once for each key. The answer is the task's.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the text is empty or too long, [`SwarmError::NoAgent`] if the agent does not
    /// exist, and [`SwarmError::KeyReused`] if the key was used for another message.
    pub(crate) async fn send_direct(
        &self,
        by: &Actor,
        to: &AgentId,
        text: &str,
        key: IdempotencyKey,
    ) -> Result<Task, SwarmError> {
        check_text(text)?;
        self.require_agent(to)?;
        let requester = by.party.to_string();
        let session = SessionKey::new(to, SessionKind::Dm, &requester);
        let new = NewTask {
            context: session.to_string(),
            kind: TaskKind::Message,
            requester,
            // The bridge sends the answer. No session of flock gets it.
            origin: None,
            charged: None,
            person: None,
            session,
            summary: clean::summary(text, MAX_SUMMARY),
            request: text.to_owned(),
            project: None,
            exchange: None,
            key: Some(key),
            now: unix_ms(),
        };
        let entry = by.entry("task.send", "", Level::Green, format!("to {to}"));
        self.accept(new, entry, std::time::Duration::ZERO).await
    }

    /// Gives a person's reply to the question of a task.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the text is empty or too long, or the task is not this person's, and
    /// [`SwarmError::Refused`] if the task waits for no reply.
    pub(crate) async fn reply_direct(
        &self,
        by: &Actor,
        id: &str,
        text: &str,
        key: IdempotencyKey,
    ) -> Result<Task, SwarmError> {
        check_text(text)?;
        let detail = format!("{} bytes", text.len());
        let entry = by.entry("task.reply", id, Level::Green, detail);
        let kept = TaskRecords { entry: Some(entry), exchange: None, key: Some(key) };
        self.reply_as(&by.party.to_string(), id, text, kept).await
    }
}
