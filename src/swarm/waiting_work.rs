//! The work that waits in the database, as events for the scheduler: messages and items that a session has not been
//! given. A step of the scheduler's owner waits for these reads, so each is one or two statements.

use std::collections::BTreeSet;

use super::scheduler::SchedulerEvent;
use super::{Swarm, channel};
use crate::error::chain;
use crate::id::{AgentId, SessionKey};
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

    /// Returns what is still undelivered for these agents, as events for the scheduler. No messages of other agents are read.
    pub(crate) async fn waiting_work_of(
        &self,
        agents: &BTreeSet<AgentId>,
    ) -> Result<Vec<SchedulerEvent>, StoreError> {
        let unseen = self.store.deliveries().unseen_of(agents).await?;
        let sessions = self.store.inbox().sessions().await?;
        let items = sessions.into_iter().filter(|session| agents.contains(session.agent()));
        let items = items.map(|session| SchedulerEvent::messages(session, false, true));
        Ok(unseen.iter().map(event).chain(items).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{InboxItemKind, NewInboxItem};
    use crate::swarm::Actor;
    use crate::swarm::channel::ChannelSpec;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn the_work_of_some_agents_is_found_without_that_of_others() {
        let team = Team::new();
        let members = vec!["coder".parse().unwrap(), "tester".parse().unwrap()];
        let wanted =
            ChannelSpec { id: "dev".parse().unwrap(), topic: "work".to_owned(), members, message: None };
        team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
        for agent in ["coder", "sysadmin"] {
            let item = NewInboxItem {
                session: format!("agent:{agent}:flock:main:me").parse().unwrap(),
                kind: InboxItemKind::Notice,
                sender: "system".to_owned(),
                text: "x".to_owned(),
                task: None,
                now: 1,
            };
            team.store.inbox().add(item).await.unwrap();
        }
        let sessions = |events: Vec<SchedulerEvent>| {
            let session = |event| match event {
                SchedulerEvent::Unseen { session, .. } => session.to_string(),
                other => panic!("{other:?}"),
            };
            events.into_iter().map(session).collect::<Vec<_>>()
        };
        assert_eq!(sessions(team.swarm.waiting_work(&mut None).await).len(), 4);
        let agents = BTreeSet::from(["coder".parse().unwrap(), "orchestrator".parse().unwrap()]);
        let found = team.swarm.waiting_work_of(&agents).await.unwrap();
        assert_eq!(sessions(found), ["agent:coder:flock:channel:dev", "agent:coder:flock:main:me"]);
    }
}
