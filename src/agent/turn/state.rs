//! What all steps of a turn share: its fixed surroundings, and the state between two steps.

use std::sync::Mutex;

use super::{TurnError, TurnEvent, TurnStop};
use crate::agent::context::ConversationContext;
use crate::agent::deadline::Deadline;
use crate::agent::engine::Engine;
use crate::agent::model_chain::ModelChain;
use crate::agent::turn_recorder::TurnRecorder;
use crate::agent::turn_watch::WatchedTurn;
use crate::provider::{Request, StopReason};
use crate::sync::lock;
use crate::tool::CallContext;

/// The sink for a turn's events. A mutex guards it because both the answer's stream and the retry callback report here.
pub(in crate::agent) struct EventSink<'a>(Mutex<&'a mut (dyn FnMut(TurnEvent) + Send)>);

impl<'a> EventSink<'a> {
    pub(in crate::agent) fn new(on_event: &'a mut (dyn FnMut(TurnEvent) + Send)) -> Self {
        Self(Mutex::new(on_event))
    }

    pub(in crate::agent) fn tell(&self, event: TurnEvent) {
        (lock(&self.0))(event);
    }

    /// Returns the turn's stop reason from that of its last answer, and sends a person the matching notice. `nothing`
    /// is the notice for an answer without text.
    pub(in crate::agent) fn ended(&self, stop: StopReason, nothing: Option<&str>) -> TurnStop {
        let notice = |text: &str| self.tell(TurnEvent::Notice(text.to_owned()));
        match stop {
            StopReason::Length => {
                notice("the answer reached the model's limit and is cut");
                TurnStop::Length
            }
            StopReason::Refusal => {
                notice("the provider withheld the answer");
                TurnStop::Refusal
            }
            // No provider returns an answer that ended with one of the last two as complete.
            StopReason::End | StopReason::ToolUse | StopReason::Error | StopReason::Aborted => {
                nothing.into_iter().for_each(notice);
                TurnStop::End
            }
        }
    }
}

/// The fixed surroundings of a turn.
pub(in crate::agent) struct TurnScope<'a> {
    pub(in crate::agent) engine: &'a Engine,
    pub(in crate::agent) deadline: &'a Deadline,
    pub(in crate::agent) events: &'a EventSink<'a>,
    pub(in crate::agent) context: CallContext,
    /// The report of this turn to the observer of workspaces.
    pub(in crate::agent) watched: Option<Box<dyn WatchedTurn>>,
}

impl TurnScope<'_> {
    /// Waits while the agent is frozen, and sends a notice to the client if it has to wait.
    pub(super) async fn thawed(&self) -> Result<(), TurnError> {
        if self.deadline.is_frozen() {
            let agent = &self.context.agent;
            let text = format!("{agent} is frozen; it goes on after: flock thaw {agent}");
            self.events.tell(TurnEvent::Notice(text));
        }
        self.deadline.thawed().await
    }

    /// Waits until a tool may change the workspace: the checkpoint of the turn's beginning has to be complete.
    pub(in crate::agent) async fn may_change(&self) -> Result<(), TurnError> {
        match &self.watched {
            Some(watched) => self.deadline.uncounted(watched.may_change()).await,
            None => Ok(()),
        }
    }
}

/// The state of a turn between two steps.
pub(super) struct TurnState<'r> {
    /// The model that is asked, and its fallbacks.
    pub(super) model_chain: ModelChain,
    /// The next request, without its messages.
    pub(super) model_request: Request,
    pub(super) context: ConversationContext,
    pub(super) recorder: &'r mut TurnRecorder,
}
