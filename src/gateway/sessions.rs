//! The backend of the session tools: they reach an agent's other sessions through the same queues as every other turn.

use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use super::driver::{TurnOrigin, TurnRefused};
use super::state::Gateway;
use crate::agent::{Provenance, TurnRequest};
use crate::clock;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{BoxFuture, Message, Role};
use crate::store::{InboxItemKind, Level, NewInboxItem, text_digest};
use crate::swarm::Actor;
use crate::swarm::scheduler::Priority;
use crate::telemetry::Cause;
use crate::tool::sessions::{HistoryEntry, SessionInfo, SessionService, SessionServiceError};

/// Largest number of sessions that an agent is shown.
const MAX_LISTED: u32 = 100;

/// The sessions of one gateway. The reference is weak, because the gateway's engine owns the tools that hold it.
pub(crate) struct GatewaySessions(pub Weak<Gateway>);

impl GatewaySessions {
    fn gateway(&self) -> Result<Arc<Gateway>, SessionServiceError> {
        self.0.upgrade().ok_or_else(|| SessionServiceError::Refused(TurnRefused::Stopping.to_string()))
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> SessionServiceError {
    SessionServiceError::Failed(Box::new(error))
}

impl SessionService for GatewaySessions {
    fn list<'a>(
        &'a self,
        agent: &'a AgentId,
    ) -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionServiceError>> {
        Box::pin(
            async move { self.gateway()?.engine.sessions(Some(agent), MAX_LISTED).await.map_err(failed) },
        )
    }

    fn status<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionServiceError>> {
        Box::pin(async move {
            let session = self.gateway()?.engine.session(key).await.map_err(failed)?;
            session.ok_or_else(|| SessionServiceError::NotFound(key.clone()))
        })
    }

    fn history<'a>(
        &'a self,
        key: &'a SessionKey,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionServiceError>> {
        Box::pin(async move {
            let entries = self.gateway()?.engine.history(key, limit).await.map_err(failed)?;
            entries.ok_or_else(|| SessionServiceError::NotFound(key.clone()))
        })
    }

    fn send<'a>(
        &'a self,
        from: &'a SessionKey,
        to: &'a SessionKey,
        message: String,
    ) -> BoxFuture<'a, Result<(), SessionServiceError>> {
        Box::pin(async move {
            let gateway = self.gateway()?;
            let store = gateway.swarm.store();
            // A turn that a message started may not send messages itself, or two sessions could keep each other
            // running.
            if gateway.driver.origin(from) == Some(TurnOrigin::Message) {
                return Err(SessionServiceError::Refused(
                    "this turn was itself started by another session's message: answer with text instead"
                        .to_owned(),
                ));
            }
            // The rest works with the stored spelling of the session key.
            let to = &store.sessions().canonical_key(to).await.map_err(failed)?;
            if gateway.engine.session(to).await.map_err(failed)?.is_none() {
                return Err(SessionServiceError::NotFound(to.clone()));
            }
            let item = NewInboxItem {
                session: to.clone(),
                kind: InboxItemKind::Session,
                sender: from.to_string(),
                text: message,
                task: None,
                now: clock::unix_ms(),
            };
            // The message is stored before the sender is told that it was accepted, so it survives a crash.
            let detail = format!("{} bytes, sha256 {}", item.text.len(), text_digest(&item.text));
            let entry = Actor::agent(from, None).entry("session.send", to.as_str(), Level::Green, detail);
            let item = store.inbox().add_audited(item, entry).await.map_err(failed)?;
            gateway.swarm.note_cause(Cause::Item(item));
            gateway.swarm.notifier().ring(to.clone(), Priority::Mention);
            Ok(())
        })
    }

    fn spawn<'a>(
        &'a self,
        parent: &'a SessionKey,
        child: SessionKey,
        task: String,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionServiceError>> {
        Box::pin(async move {
            let gateway = self.gateway()?;
            let swarm = &gateway.swarm;
            // The child's costs are charged to the channel that the parent's are charged to.
            if let Some(channel) = swarm.charged(parent, None).await.map_err(failed)? {
                swarm.store().usage().charge_session(child.clone(), channel).await.map_err(failed)?;
            }
            if let Some(person) = swarm.charged_person(parent, None).await.map_err(failed)? {
                swarm.store().people().charge_session(child.clone(), person).await.map_err(failed)?;
            }
            let guidance = vec![format!("The task comes from your own session {parent}.")];
            let tool = Some(Provenance::SPAWN_TOOL.to_owned());
            let by = Provenance::InterSession { session: parent.clone(), tool, item: None };
            let input = vec![Message::text(Role::User, task)];
            let order = TurnRequest {
                guidance,
                provenance: Some(by),
                ..TurnRequest::new(child, TurnId::new(), input)
            };
            let mut turn = gateway
                .driver
                // A child token: the task ends with its parent turn, and its own end does not cancel the parent.
                .start(order, TurnOrigin::Task, cancel.child_token(), |_| {})
                .map_err(|refused| SessionServiceError::Refused(refused.to_string()))?;
            match turn.end().await {
                Ok(outcome) => Ok(outcome.text),
                Err(failure) => Err(failed(failure)),
            }
        })
    }
}
