//! What a program has of a session: written down as soon as it has it, so that the next turn tells it what it lacks and
//! nothing twice, also where this one is cut off.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use super::ear::Note;
use super::state::Replaced;
use crate::clock;
use crate::config::Agent;
use crate::id::{SessionKey, TurnId, hex};
use crate::runtime::Order;
use crate::store::{Begun, ProgramConversation, Store, StoreError};

/// With what a conversation is begun in this turn; `relayed` where its model is asked through flock.
pub fn begun(order: &Order, agent: &Agent, relayed: bool) -> Begun {
    let place = match (agent.runs_on_host(), relayed) {
        (false, _) => "sandbox".to_owned(),
        (true, true) => format!("host {}", agent.workspace.display()),
        (true, false) => format!("host with its own login {}", agent.workspace.display()),
    };
    let prompt = hex(&Sha256::digest(order.system.as_bytes()));
    Begun { conversation: order.conversation.clone(), place, prompt }
}

/// Whether a conversation that was begun like `known` is one that a turn goes on with which would begin one like `begun`.
/// `renews_prompt` as in [`super::program::Habits`].
pub fn goes_on(known: &Begun, begun: &Begun, renews_prompt: bool) -> bool {
    known.conversation == begun.conversation
        && known.place == begun.place
        && (renews_prompt || known.prompt == begun.prompt)
}

/// What becomes of a conversation in one run.
pub struct Memory {
    /// Where it is written down.
    pub store: Arc<Store>,
    /// Whose conversation it is.
    pub session: SessionKey,
    /// The program.
    pub program: &'static str,
    /// The turn that runs.
    pub turn: TurnId,
    /// What the conversation was begun with.
    pub begun: Begun,
    /// The program's name for it, as far as that is known.
    pub name: Option<String>,
    /// Whether the program has the turn.
    pub has_turn: bool,
    /// What a new conversation replaces.
    pub replaced: Option<Replaced>,
    /// What is being written.
    pub writing: Option<JoinHandle<Result<(), StoreError>>>,
}

impl Memory {
    /// Takes note. A conversation counts from when the program has a turn of it: before that there is nothing to go on
    /// with.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Named(name) if self.name.as_ref() == Some(&name) => return,
            Note::Named(name) => self.name = Some(name),
            Note::Begun if self.has_turn => return,
            Note::Begun => {
                self.has_turn = true;
                self.replaced.take().into_iter().for_each(Replaced::let_go);
            }
        }
        let Some(name) = self.name.clone().filter(|_| self.has_turn) else { return };
        let kept = ProgramConversation { name, turn: self.turn, begun: self.begun.clone() };
        let (store, session, program) = (Arc::clone(&self.store), self.session.clone(), self.program);
        let before = self.writing.take();
        // In a task of its own: the turn may be given up at any moment.
        self.writing = Some(tokio::spawn(async move {
            if let Some(before) = before {
                drop(before.await);
            }
            store.keep_program_conversation(session, program, kept, clock::unix_ms()).await
        }));
    }

    /// Waits until all of it is written.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn settled(self) -> Result<(), StoreError> {
        match self.writing {
            Some(writing) => writing.await.unwrap_or(Ok(())),
            None => Ok(()),
        }
    }
}
