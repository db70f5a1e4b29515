//! A session that the editor has open, and the one prompt that may run in it.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::host::AgentView;
use crate::cli::Failure;
use crate::error::Kind;
use crate::id::{ChannelId, SessionKey};
use crate::sync::lock;

/// The conversation of flock that a session shows.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A session of one agent.
    Agent { key: SessionKey, agent: AgentView },
    /// A channel.
    Channel(ChannelId),
}

/// A session of the editor.
pub(super) struct OpenSession {
    pub(super) id: String,
    pub(super) place: Place,
    prompt: Mutex<Option<Arc<CancellationToken>>>,
    /// Held while a prompt runs, so that the next one begins after its end.
    pub(super) turn: tokio::sync::Mutex<Seen>,
}

/// The part of the conversation that the editor has been shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The last turn of the agent's session, whose ids sort by time.
    pub(super) turn: Option<String>,
    /// The number of the channel's last message.
    pub(super) message: u64,
}

/// The prompt that runs in a session. Its end makes room for the next one.
pub(super) struct RunningPrompt {
    session: Arc<OpenSession>,
    /// Cancelled by the editor, or by its end.
    pub(super) cancel: Arc<CancellationToken>,
}

impl OpenSession {
    /// Creates a session of which the editor was shown `seen`.
    pub(super) fn new(id: String, place: Place, seen: Seen) -> Self {
        Self { id, place, prompt: Mutex::new(None), turn: tokio::sync::Mutex::new(seen) }
    }

    /// Begins a prompt. One that was cancelled may still be ending; the new one then waits for it.
    ///
    /// # Errors
    ///
    /// Returns an error if a prompt runs that was not cancelled.
    pub(super) fn begin(self: &Arc<Self>, over: &CancellationToken) -> Result<RunningPrompt, Failure> {
        let mut prompt = lock(&self.prompt);
        if prompt.as_ref().is_some_and(|cancel| !cancel.is_cancelled()) {
            let text = "a prompt runs in this session; wait for its end, or cancel it with `session/cancel`";
            return Err(Failure::new(Kind::Usage, text));
        }
        let cancel = Arc::new(over.child_token());
        *prompt = Some(Arc::clone(&cancel));
        Ok(RunningPrompt { session: Arc::clone(self), cancel })
    }

    /// Cancels the prompt that runs. Without one, nothing happens.
    pub(super) fn cancel(&self) {
        if let Some(cancel) = &*lock(&self.prompt) {
            cancel.cancel();
        }
    }
}

impl Drop for RunningPrompt {
    fn drop(&mut self) {
        let mut prompt = lock(&self.session.prompt);
        // After a cancellation, the next prompt may already be in this place.
        if prompt.as_ref().is_some_and(|current| Arc::ptr_eq(current, &self.cancel)) {
            *prompt = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<OpenSession> {
        let place = Place::Channel("dev".parse().unwrap());
        Arc::new(OpenSession::new("channel:dev".to_owned(), place, Seen::default()))
    }

    #[test]
    fn a_second_prompt_is_refused_until_the_first_one_ends_or_is_cancelled() {
        let (session, over) = (session(), CancellationToken::new());
        session.cancel();
        let first = session.begin(&over).unwrap();
        assert!(!first.cancel.is_cancelled(), "what was cancelled before it began does not count");
        assert!(session.begin(&over).is_err());
        session.cancel();
        let second = session.begin(&over).unwrap();
        assert!(first.cancel.is_cancelled() && !second.cancel.is_cancelled());
        assert!(session.begin(&over).is_err());
        drop(first);
        assert!(session.begin(&over).is_err(), "the end of the first one makes no room beside the second");
        drop(second);
        let third = session.begin(&over).unwrap();
        over.cancel();
        assert!(third.cancel.is_cancelled(), "the end of stdin ends every prompt");
    }
}
