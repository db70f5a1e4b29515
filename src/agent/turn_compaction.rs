//! Compaction within a turn: read what the agent wrote down, decide what to keep, commit that, and only then use the
//! shorter conversation.

use super::compaction::findings;
use super::context::{ConversationContext, Wanted};
use super::model_chain::{ModelChain, PromptSpec};
use super::summary_request::SummaryRequest;
use super::turn::{TurnError, TurnEvent};
use super::turn_loop::TurnLoop;
use super::turn_recorder::TurnRecorder;
use crate::clock;
use crate::provider::Request;

impl TurnLoop<'_> {
    /// Makes room for the next request if the conversation is nearly too long.
    ///
    /// A compaction rebuilds the prompt as well: the provider's cache is invalid anyway, and the prompt should include
    /// what the agent wrote down since. For a fallback model with a smaller context window, only its own requests
    /// become shorter and nothing is committed.
    pub(super) async fn make_room(
        &self,
        line: &mut ModelChain,
        context: &mut ConversationContext,
        running: &mut TurnRecorder,
        asked: &mut Request,
    ) -> Result<(), TurnError> {
        if context.is_near_full() {
            // A cached beginning can only be sent as it is. To shorten the conversation, its messages have to be read.
            self.unfold(line, context, running)?;
            self.compact(line, context, running, asked).await?;
        }
        context.fit();
        Ok(())
    }

    async fn compact(
        &self,
        line: &mut ModelChain,
        context: &mut ConversationContext,
        running: &mut TurnRecorder,
        asked: &mut Request,
    ) -> Result<(), TurnError> {
        let config = self.engine.parts.config.current();
        let Some(agent) = config.agent(&self.context.agent) else { return Ok(()) };
        let mission = findings::mission(&self.context.session);
        let found = findings::read(&agent.workspace, &mission);
        let wanted = Wanted {
            findings: &found,
            most_staged: config.compaction.most_staged,
            turn: Some(running.turn),
            at: clock::unix_ms(),
        };
        let Some(mut draft) = context.draft(&wanted, false) else { return Ok(()) };
        let (before, after) = (draft.record.tokens_before, draft.record.tokens_after);
        // A fallback with a smaller context: nothing is committed, because the agent's own model needs no compaction.
        if line.is_smaller_fallback() {
            context.shorten(draft);
            self.events.tell(TurnEvent::Notice(format!(
                "{} is shown a shorter conversation, of about {after} tokens in the place of {before}; nothing was \
                 compacted for other models",
                line.told.label
            )));
            return Ok(());
        }
        if config.compaction.summary {
            let request = SummaryRequest {
                engine: self.engine,
                halt: self.halt,
                resolved: &line.resolved,
                session: &self.context.session,
                turn: running.turn,
                step: running.steps + 1,
            };
            running.usage += request.add_to(context, &mut draft).await?;
        }
        // Committed before it is applied: a crash in between must not leave an answer to a conversation that the
        // transcript does not show.
        running.compacted(&draft.record)?;
        let (before, after) = (draft.record.tokens_before, draft.record.tokens_after);
        let at = draft.record.at;
        context.apply(draft);
        line.began = at;
        let PromptSpec { label, tools, calls } = &line.told;
        // The new prompt is stored with the session, so that later turns send the same one and the provider's cache
        // holds.
        let prompt = self.engine.prompt(agent, label, tools, *calls, at)?;
        asked.system = prompt.text.to_string();
        self.engine.parts.store.renew_session(self.context.session.clone(), Some(prompt), at).await?;
        self.events.tell(TurnEvent::Notice(format!(
            "the conversation was compacted from about {before} to {after} tokens; the transcript has all of it"
        )));
        Ok(())
    }
}
