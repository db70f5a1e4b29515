//! The work that waits in the database, as events for the scheduler: messages and items that a session has not been
//! given. A step of the scheduler's owner waits for these reads, so each is one or two statements.

use super::scheduler::SchedulerEvent;
use super::{Swarm, channel};
use crate::error::chain;
use crate::id::SessionKey;
use crate::store::{StoreError, UnseenSummary, WakeUrgency};

impl Swarm {
    /// Returns an event for everything that waits, or, with a `mark`, for what came after it. The mark is moved to the
    /// newest message. Work that was announced already changes nothing in the scheduler.
    ///
    /// An error is logged. The next call with the same mark finds what this one could not read.
    pub async fn waiting_work(&self, mark: &mut Option<i64>) -> Vec<SchedulerEvent> {
        let mut events = Vec::new();
        let found = match *mark {
            Some(mark) => self.store.deliveries().unseen_since(mark).await,
            // The newest message is read first. A message that comes between the two reads is then seen twice rather
            // than never.
            None => match self.store.deliveries().newest_message().await {
                Ok(newest) => self.store.deliveries().all_unseen().await.map(|unseen| (newest, unseen)),
                Err(error) => Err(error),
            },
        };
        match found {
            Ok((newest, unseen)) => {
                *mark = Some(newest);
                events.extend(unseen.iter().map(event));
            }
            Err(error) => tracing::error!(error = chain(&error), "failed to look for new messages"),
        }
        match self.store.inbox().sessions().await {
            Ok(sessions) => {
                let items = sessions.into_iter();
                events.extend(items.map(|session| SchedulerEvent::messages(session, false, true)));
            }
            Err(error) => tracing::error!(error = chain(&error), "failed to look for waiting input"),
        }
        events
    }

    /// Returns what is still undelivered for a session, as an event for the scheduler.
    pub async fn remaining_work(&self, session: &SessionKey) -> SchedulerEvent {
        let found = async {
            if self.store.inbox().has_items(session).await? {
                return Ok(Some(SchedulerEvent::messages(session.clone(), false, true)));
            }
            let Some(channel) = session.channel() else { return Ok(None) };
            let unseen = self.store.deliveries().unseen(session.agent(), &channel).await?;
            Ok::<_, StoreError>(unseen.as_ref().map(event))
        };
        match found.await {
            Ok(event) => event.unwrap_or_else(|| SchedulerEvent::Seen(session.clone())),
            Err(error) => {
                tracing::error!(error = chain(&error), %session, "failed to look for new messages");
                // The next turn of the session looks again.
                SchedulerEvent::messages(session.clone(), false, false)
            }
        }
    }
}

fn event(unseen: &UnseenSummary) -> SchedulerEvent {
    let at_once = unseen.mention || unseen.wake == WakeUrgency::AtOnce;
    SchedulerEvent::messages(channel::session(&unseen.agent, &unseen.channel), unseen.human, at_once)
}
