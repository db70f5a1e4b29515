//! One model call with fallback: if a model fails before any of its answer was shown, the next model is asked within
//! the same turn, with a reservation of its own.

use super::context::ConversationContext;
use super::failover::{self, FailoverDecision};
use super::model_chain::{ModelChain, instead};
use super::reservation::CallReservation;
use super::turn::{TurnError, TurnEvent};
use super::turn_loop::TurnLoop;
use super::turn_recorder::TurnRecorder;
use crate::clock;
use crate::error::chain;
use crate::provider::{Request, Response};

impl TurnLoop<'_> {
    /// Asks the turn's model, and if it fails the models behind it.
    pub(super) async fn ask_with_fallback(
        &self,
        line: &mut ModelChain,
        asked: &mut Request,
        context: &mut ConversationContext,
        running: &mut TurnRecorder,
        mut reserved: CallReservation,
    ) -> Result<Response, TurnError> {
        loop {
            let error = match self.ask_adapting(line, asked, context, running, &reserved).await {
                Ok(response) => {
                    // An answer ends the model's cooldown at once, however often it failed before.
                    self.engine.cooldowns.answered(&line.resolved.route.model);
                    return Ok(response);
                }
                Err(error) => error,
            };
            let shown = reserved.shown();
            // The failed call's reservation is settled before the next one is made, so that the budget counts each
            // alone.
            drop(reserved);
            let Some(trouble) = failover::trouble(&error) else { return Err(error) };
            let failed = line.resolved.route.model.clone();
            self.engine.cooldowns.failed(&failed, trouble, clock::unix_ms());
            // A cached prefix is encoded for one model's API and is of no use to the next one.
            self.unfold(line, context, running)?;
            let decision = line.others.failed(Some(trouble), line.resolved.context_window, shown);
            if decision == FailoverDecision::GiveUp
                || !self.advance_to_fitting(line, asked, context, running).await?
            {
                return Err(error);
            }
            // The failed call may have taken long: the agent may have been frozen or the deadline passed meanwhile.
            self.halt.thawed().await?;
            self.halt.now()?;
            reserved = self.reserve(asked, context, running).await?;
            // The notice comes after the reservation, so that it is sent only if the model is really asked.
            self.events.tell(TurnEvent::Notice(instead(&line.resolved.label, &failed, &chain(&error))));
        }
    }

    /// Switches to the next model that the conversation fits into after room was made in it. Returns `false` if none is
    /// left.
    async fn advance_to_fitting(
        &self,
        line: &mut ModelChain,
        asked: &mut Request,
        context: &mut ConversationContext,
        running: &mut TurnRecorder,
    ) -> Result<bool, TurnError> {
        while line.step(self.engine, asked, context) {
            running.route = line.resolved.route.clone();
            self.make_room(line, context, running, asked).await?;
            if context.cost() <= context.room() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
