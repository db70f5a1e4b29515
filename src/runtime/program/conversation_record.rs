//! Records which turns of a session a program has received. The record is written as soon as the program has a turn, so
//! that the next turn gives it what it lacks and nothing twice, even if this turn is cut off.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use super::output_reader::ConversationEvent;
use super::state::StateBackup;
use crate::clock;
use crate::config::Agent;
use crate::id::{SessionKey, TurnId, hex};
use crate::runtime::RuntimeRequest;
use crate::store::{ConversationOrigin, ProgramConversation, Store, StoreError};

/// Returns the conditions under which this turn begins a conversation. `relayed` is `true` if the model is asked
/// through flock.
pub fn origin(order: &RuntimeRequest, agent: &Agent, relayed: bool) -> ConversationOrigin {
    let place = match (agent.runs_on_host(), relayed) {
        (false, _) => "sandbox".to_owned(),
        (true, true) => format!("host {}", agent.workspace.display()),
        (true, false) => format!("host with its own login {}", agent.workspace.display()),
    };
    let prompt = hex(&Sha256::digest(order.system.as_bytes()));
    ConversationOrigin { conversation: order.conversation.clone(), place, prompt }
}

/// Returns `true` if a turn that would begin a conversation like `begun` can continue the one that was begun like
/// `known`. `renews_prompt` is that of [`super::interface::ProgramFacts`].
pub fn can_resume(known: &ConversationOrigin, begun: &ConversationOrigin, renews_prompt: bool) -> bool {
    known.conversation == begun.conversation
        && known.place == begun.place
        && (renews_prompt || known.prompt == begun.prompt)
}

/// The record of a conversation during one run.
pub struct ConversationRecorder {
    pub store: Arc<Store>,
    pub session: SessionKey,
    pub program: String,
    /// The running turn.
    pub turn: TurnId,
    /// The conditions under which the conversation began.
    pub begun: ConversationOrigin,
    /// The program's name for the conversation, once it is known.
    pub name: Option<String>,
    /// Set once the program has received the turn.
    pub has_turn: bool,
    /// The folder contents that a new conversation replaces.
    pub replaced: Option<StateBackup>,
    /// The write in progress.
    pub writing: Option<JoinHandle<Result<(), StoreError>>>,
}

impl ConversationRecorder {
    /// Records a fact. A conversation counts only once the program has received a turn in it, because before that there
    /// is nothing to continue.
    pub fn note(&mut self, note: ConversationEvent) {
        match note {
            ConversationEvent::Named(name) if self.name.as_ref() == Some(&name) => return,
            ConversationEvent::Named(name) => self.name = Some(name),
            ConversationEvent::Begun if self.has_turn => return,
            ConversationEvent::Begun => {
                self.has_turn = true;
                self.replaced.take().into_iter().for_each(StateBackup::discard);
            }
        }
        // Both are needed: the name, and the proof that the program has the turn.
        let Some(name) = self.name.clone().filter(|_| self.has_turn) else { return };
        let kept = ProgramConversation { name, turn: self.turn, begun: self.begun.clone() };
        let (store, session) = (Arc::clone(&self.store), self.session.clone());
        let program = self.program.clone();
        let before = self.writing.take();
        // In a separate task, because the turn may be dropped at any moment.
        // The writes stay in order, because each waits for the one before.
        self.writing = Some(tokio::spawn(async move {
            if let Some(before) = before {
                drop(before.await);
            }
            store.program_conversations().set(session, program, kept, clock::unix_ms()).await
        }));
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    ///
    /// Returns the error of the last write, and [`StoreError::Stopped`] if that write broke off.
    pub async fn settled(self) -> Result<(), StoreError> {
        match self.writing {
            // A write of which nobody knows the end must not count as done: the next turn relies on it.
            Some(writing) => writing.await.unwrap_or(Err(StoreError::Stopped)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    #[tokio::test]
    async fn a_write_that_broke_off_does_not_count_as_done() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let writing = tokio::spawn(std::future::pending());
        writing.abort();
        let memory = ConversationRecorder {
            store: Arc::new(Store::open(&home).unwrap()),
            session: "agent:coder:flock:main:ann".parse().unwrap(),
            program: "scripted".to_owned(),
            turn: TurnId::new(),
            begun: ConversationOrigin {
                conversation: String::new(),
                place: String::new(),
                prompt: String::new(),
            },
            name: None,
            has_turn: false,
            replaced: None,
            writing: Some(writing),
        };
        assert!(matches!(memory.settled().await, Err(StoreError::Stopped)));
    }
}
