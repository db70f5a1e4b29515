//! Compaction in a turn: what the agent wrote down is looked at, what is to be kept is decided, that is
//! committed, and only then the conversation is the shorter one.

use super::compaction::findings;
use super::context::{Context, Wanted};
use super::line::Told;
use super::running::Running;
use super::steps::Course;
use super::turn::{TurnError, TurnEvent};
use crate::clock;
use crate::provider::Request;

impl Course<'_> {
    /// Makes room for the next request where there is too little of it. The prompt is made anew with it: the
    /// provider's cache is void anyway, and what the agent has written down since belongs into it.
    pub(super) async fn make_room(
        &self,
        told: &Told,
        context: &mut Context,
        running: &mut Running,
        asked: &mut Request,
    ) -> Result<(), TurnError> {
        if context.is_near_full() {
            self.compact(told, context, running, asked).await?;
        }
        context.fit();
        Ok(())
    }

    async fn compact(
        &self,
        told: &Told,
        context: &mut Context,
        running: &mut Running,
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
        let Some(draft) = context.draft(&wanted, false) else { return Ok(()) };
        running.compacted(&draft.record)?;
        let (before, after) = (draft.record.tokens_before, draft.record.tokens_after);
        let at = draft.record.at;
        context.apply(draft);
        let Told { label, tools, calls } = told;
        let prompt = self.engine.prompt(agent, label, tools, *calls, at)?;
        asked.system = prompt.text.to_string();
        self.engine.parts.store.renew_session(self.context.session.clone(), Some(prompt), at).await?;
        self.events.tell(TurnEvent::Notice(format!(
            "the conversation was compacted from about {before} to {after} tokens; the transcript has all of it"
        )));
        Ok(())
    }
}
