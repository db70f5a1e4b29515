//! Handles the end of a team's turn: delivers its final text, concludes its deliveries, and arranges a retry.

use super::Team;
use super::turn::TeamTurn;
use crate::agent::TurnError;
use crate::clock::unix_ms;
use crate::error::{Explain as _, chain};
use crate::fault_point::{self, FaultPoint};
use crate::id::SessionKey;
use crate::provider::BoxFuture;
use crate::runtime::RuntimeError;
use crate::store::{Page, StoreError};
use crate::swarm::scheduler::TurnEnd;
use crate::swarm::{Actor, SwarmError, TaskEnd, write_retry};

/// The log's message about a turn that could not be concluded.
const NOT_ENDED: &str = "failed to end a turn's deliveries";
/// The reason given to a turn that continues after its model's provider failed.
const NO_ANSWER_REASON: &str = "the model's provider did not answer";

/// The reason given to a turn that continues after a quota could be used again.
const QUOTA_REASON: &str = "the quota of the model's provider was used up";

/// Number of times that a turn which broke off is taken up again.
pub(super) const MAX_RESUMES: u32 = 1;

impl Team {
    /// Concludes a turn that ended well.
    pub(super) async fn done(&self, work: &TeamTurn, text: &str) -> TurnEnd {
        // If the agent was frozen meanwhile, the answer waits until it is thawed. A stop leaves it to the next start.
        let thawed = self.swarm.thawed(work.session.agent());
        if self.gateway.stop.run_until_cancelled(thawed).await.is_none() {
            return TurnEnd::Cancelled;
        }
        let result = self.insist(move || {
            Box::pin(async move {
                // The text goes out before the items are concluded. After a crash between the two, the start hands it
                // over again, which has no second effect.
                self.deliver_text(work, text).await?;
                fault_point::reach(FaultPoint::Replied);
                self.conclude(work, true).await?;
                fault_point::reach(FaultPoint::Concluded);
                Ok(())
            })
        });
        match log_failure(result.await, work, "failed to hand over an outcome") {
            true => TurnEnd::Done,
            false => TurnEnd::Failed,
        }
    }

    /// Gives the final text to everybody who waits for it. Each receiver takes it once, even if this is called
    /// repeatedly.
    async fn deliver_text(&self, work: &TeamTurn, text: &str) -> Result<(), StoreError> {
        if let Some(task) = work.task() {
            self.swarm.end_task(task, &work.session, work.turn, TaskEnd::Done(text.to_owned())).await?;
        }
        self.swarm.deliver_sysadmin_answer(&work.session, text).await?;
        let (Some(channel), Some(inbox)) = (work.session.channel(), &work.inbox) else { return Ok(()) };
        // An agent that has posted in the channel with the tool has answered already.
        if text.trim().is_empty()
            || !inbox.wants_answer()
            || self.swarm.store().posts().has_posted(&channel, work.turn).await?
        {
            return Ok(());
        }
        let by = Actor::agent(&work.session, Some(work.turn));
        match self.swarm.post_final(&by, &channel, text.to_owned()).await {
            Ok(_) => {}
            Err(SwarmError::Store(error)) if error.is_fault() => return Err(error),
            Err(error) => {
                // The channel may have been archived meanwhile. The text is still in the transcript.
                tracing::warn!(error = chain(&error), session = %work.session, "a final text was not posted");
            }
        }
        Ok(())
    }

    /// Makes a write of a turn's outcome, as [`write_retry::insist`] does.
    async fn insist<'w>(
        &self,
        work: impl Fn() -> BoxFuture<'w, Result<(), StoreError>> + Send + Sync,
    ) -> Result<(), StoreError> {
        write_retry::insist(self.swarm.store(), &self.gateway.stop, work).await
    }

    /// Concludes a turn that ended with an error. `began` is `true` if the turn had written its input to the
    /// transcript.
    pub(super) async fn failed(&self, work: &TeamTurn, error: &TurnError, began: bool) -> TurnEnd {
        if let TurnError::Paused(reason) = error
            && reason.is_for_good()
        {
            // If it waited again, the session would try it for ever and never come to what others have asked there.
            log_failure(self.end(work, TaskEnd::Failed(reason.to_string())).await, work, NOT_ENDED);
            return TurnEnd::Cancelled;
        }
        if !began && !matches!(error, TurnError::Cancelled) {
            // The agent has not seen anything of the input, so all of it waits again as before.
            self.give_back(work).await;
            if matches!(error, TurnError::Parked(_)) {
                self.say_parked(work).await;
                return TurnEnd::Parked;
            }
            self.complain(work, error).await;
            return match error {
                // A budget belongs to the channel or to the day, so the agent's other sessions continue.
                TurnError::Paused(_) => TurnEnd::Refused,
                // A fault of the storage says nothing about the agent.
                error if error.may_pass() => TurnEnd::Refused,
                error if is_provider_down(error) => TurnEnd::Unavailable,
                _ => TurnEnd::Failed,
            };
        }
        let (how, reason, attempts) = match error {
            TurnError::Provider(problem) if problem.is_passing() => {
                (TurnEnd::Unavailable, NO_ANSWER_REASON, 0)
            }
            TurnError::Runtime(RuntimeError::NoAnswer { .. } | RuntimeError::Unanswered { .. }) => {
                (TurnEnd::Unavailable, NO_ANSWER_REASON, 0)
            }
            // This is a problem of the machine and not of the provider.
            TurnError::Runtime(RuntimeError::NotBegun { .. }) => {
                (TurnEnd::Failed, "the program that runs the turn could not begin", 0)
            }
            TurnError::Runtime(problem) if problem.is_passing() => {
                (TurnEnd::Unavailable, "the program that runs the turn did not answer", 0)
            }
            // This is like a kill of flock itself: nobody knows what the program had done until then, so it is resumed
            // only once.
            TurnError::Runtime(RuntimeError::Interrupted { .. }) if work.attempts() < MAX_RESUMES => {
                (TurnEnd::Failed, "the program that ran the turn broke off", work.attempts() + 1)
            }
            TurnError::Parked(_) => {
                self.say_parked(work).await;
                (TurnEnd::Parked, QUOTA_REASON, 0)
            }
            TurnError::Paused(reason) => {
                log_failure(self.later(work, &reason.to_string(), 0).await, work, NOT_ENDED);
                return TurnEnd::Done;
            }
            TurnError::Cancelled => {
                log_failure(self.end(work, TaskEnd::Cancelled).await, work, NOT_ENDED);
                return TurnEnd::Cancelled;
            }
            error => {
                self.complain(work, error).await;
                // The input is in the transcript, and the same input would fail in the same way again.
                log_failure(self.end(work, TaskEnd::Failed(error.to_string())).await, work, NOT_ENDED);
                return TurnEnd::Done;
            }
        };
        log_failure(self.later(work, reason, attempts).await, work, NOT_ENDED);
        how
    }

    /// Concludes a turn whose task ended without a result.
    pub(super) async fn broke_off(&self, work: &TeamTurn, began: bool) -> TurnEnd {
        if !began {
            self.give_back(work).await;
            return TurnEnd::Failed;
        }
        let attempts = work.attempts();
        let ended = if attempts >= MAX_RESUMES {
            self.end(work, TaskEnd::Failed("its turn broke off twice".to_owned())).await
        } else {
            self.later(work, "it broke off because of a defect", attempts + 1).await
        };
        log_failure(ended, work, NOT_ENDED);
        TurnEnd::Failed
    }

    /// Concludes a turn whose process died in the middle of it. The turn is taken up once.
    pub(super) async fn interrupted(&self, work: &TeamTurn) -> Result<(), StoreError> {
        self.later(work, "flock was ended in the middle of it", work.attempts() + 1).await
    }

    /// Concludes a turn whose process died after it had ended because a quota was used up. It goes on as if the process had
    /// lived.
    pub(super) async fn conclude_recorded_park(&self, work: &TeamTurn) -> Result<(), StoreError> {
        self.later(work, QUOTA_REASON, 0).await
    }

    /// Says once in the turn's channel that a quota is used up.
    async fn say_parked(&self, work: &TeamTurn) {
        let Some(channel) = work.session.channel() else { return };
        if let Err(error) = self.swarm.post_park(&channel, work.session.agent()).await {
            tracing::error!(error = chain(&error), %channel, "failed to say that a quota is used up");
        }
    }

    /// Concludes a turn that had failed before its process died, without that being recorded.
    pub(super) async fn conclude_recorded_failure(&self, work: &TeamTurn) -> Result<(), StoreError> {
        self.end(work, TaskEnd::Failed("its turn failed".to_owned())).await
    }

    /// Makes everything that the turn was given wait again.
    pub(super) async fn give_back(&self, work: &TeamTurn) {
        let store = self.swarm.store();
        let result = self.insist(move || {
            Box::pin(async move {
                store.inbox().requeue(work.turn).await?;
                if let Some(channel) = work.session.channel() {
                    // Without a position nothing counts as delivered.
                    store.deliveries().end(work.session.agent().clone(), channel, work.turn, None).await?;
                }
                Ok(())
            })
        });
        log_failure(result.await, work, "failed to give back what a turn took");
    }

    /// Arranges that the turn continues later. Its input is in the transcript, and a note asks the agent to go on.
    async fn later(&self, work: &TeamTurn, reason: &str, attempts: u32) -> Result<(), StoreError> {
        let store = self.swarm.store();
        let attempts = attempts.max(work.attempts());
        // This is separate from the next step, because a repeated call could notify the session twice.
        self.insist(move || {
            let (session, reason) = (work.session.clone(), reason.to_owned());
            Box::pin(store.inbox().queue_resume(session, work.turn, reason, attempts, unix_ms()))
        })
        .await?;
        self.insist(move || Box::pin(self.conclude(work, false))).await
    }

    async fn end(&self, work: &TeamTurn, end: TaskEnd) -> Result<(), StoreError> {
        let end = &end;
        self.insist(move || {
            Box::pin(async move {
                if let Some(task) = work.task() {
                    self.swarm.end_task(task, &work.session, work.turn, end.clone()).await?;
                }
                self.conclude(work, true).await
            })
        })
        .await
    }

    /// Marks what is in the transcript as delivered. With `items`, the items that waited for the session are done as
    /// well.
    async fn conclude(&self, work: &TeamTurn, items: bool) -> Result<(), StoreError> {
        let store = self.swarm.store();
        if items {
            store.inbox().delete(work.turn).await?;
        }
        if let (Some(channel), Some(inbox)) = (work.session.channel(), &work.inbox) {
            let agent = work.session.agent().clone();
            store.deliveries().end(agent, channel, work.turn, inbox.delivered()).await?;
        }
        Ok(())
    }

    /// Posts in the channel why there is no answer, if somebody waits for one.
    async fn complain(&self, work: &TeamTurn, error: &TurnError) {
        let (Some(channel), Some(inbox)) = (work.session.channel(), &work.inbox) else { return };
        if !inbox.wants_answer() {
            return;
        }
        let text = format!("{} could not answer: {error}", work.session.agent());
        let said = self.swarm.complain(&channel, work.session.agent(), text).await;
        if let Err(error) = said {
            tracing::warn!(error = chain(&error), %channel, "failed to say that a turn failed");
        }
    }

    /// Returns `true` if somebody in the channel waits for this agent: a person wrote, or somebody mentioned the agent,
    /// after its last post. Only the newest 50 messages are considered.
    pub(super) async fn is_awaited(&self, session: &SessionKey) -> Result<bool, StoreError> {
        let Some(channel) = session.channel() else { return Ok(false) };
        let agent = session.agent();
        let recent = self.swarm.store().posts().page(&channel, Page::Last, 50).await?;
        let since = recent.iter().rev().take_while(|post| post.author.agent() != Some(agent));
        Ok(since.into_iter().any(|post| post.author.is_human() || post.mentions.has(agent)))
    }
}

/// Returns `true` if `result` is a success. An error is written to the log.
fn log_failure(result: Result<(), StoreError>, work: &TeamTurn, failed: &'static str) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(error = chain(&error), session = %work.session, "{failed}");
            false
        }
    }
}

/// Returns `true` if the provider caused the error and not the agent.
const fn is_provider_down(error: &TurnError) -> bool {
    match error {
        TurnError::Provider(problem) => problem.is_passing(),
        // This is a problem of the machine.
        TurnError::Runtime(RuntimeError::NotBegun { .. }) => false,
        // OpenClaw takes a while to start, and it restarts.
        TurnError::Runtime(problem) => problem.is_passing(),
        _ => false,
    }
}
