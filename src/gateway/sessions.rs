//! What the session tools reach: an agent's other sessions, through the same queues as everybody's turns.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use super::driver::{Driver, Failure, Origin, Refused};
use crate::agent::{Engine, TurnError, TurnRequest};
use crate::clock;
use crate::error::chain;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{BoxFuture, Message, Role};
use crate::store::Accepted;
use crate::tool::sessions::{HistoryEntry, SessionInfo, Sessions, SessionsError};

/// How many sessions an agent is shown.
const LISTED: u32 = 100;

/// The sessions of one gateway. It is made before the engine, because the engine's tools hold it, and
/// learns of both the engine and the driver with [`Self::connect`].
#[derive(Default)]
pub struct GatewaySessions {
    parts: OnceLock<(Arc<Engine>, Arc<Driver>)>,
}

impl GatewaySessions {
    /// What knows the sessions and what runs their turns. Only the first call counts.
    pub fn connect(&self, engine: Arc<Engine>, driver: Arc<Driver>) {
        drop(self.parts.set((engine, driver)));
    }

    fn parts(&self) -> Result<&(Arc<Engine>, Arc<Driver>), SessionsError> {
        self.parts.get().ok_or_else(|| SessionsError::Refused("the gateway is not ready yet".to_owned()))
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> SessionsError {
    SessionsError::Failed(Box::new(error))
}

fn order(turn: TurnId, session: &SessionKey, text: String, context: Vec<String>) -> TurnRequest {
    TurnRequest {
        agent: session.agent().clone(),
        session: session.clone(),
        turn,
        input: vec![Message::text(Role::User, text)],
        context,
        provenance: None,
        inbox: None,
    }
}

/// Takes on the turn of a message that is kept, and forgets the message when that has ended.
fn deliver(engine: &Arc<Engine>, driver: &Arc<Driver>, message: Accepted) -> Result<(), Refused> {
    let id = message.turn;
    let order = order(id, &message.session, message.text, vec![message.context]);
    let mut turn = driver.start(order, Origin::Message, CancellationToken::new(), |_| {})?;
    let engine = Arc::clone(engine);
    tokio::spawn(async move {
        let store = engine.store();
        let forgotten = match turn.end().await {
            // A stop: what only waited for its turn waits for the next start.
            Err(Failure::Turn(TurnError::Cancelled) | Failure::Lost) => store.forget_begun_message(id).await,
            _ => store.forget_message(id).await,
        };
        if let Err(error) = forgotten {
            tracing::error!(error = chain(&error), "failed to forget a delivered message");
        }
    });
    Ok(())
}

/// Takes on what an earlier run had accepted and not ended.
pub async fn resume(engine: &Arc<Engine>, driver: &Arc<Driver>) {
    let left = match engine.store().left_messages().await {
        Ok(left) => left,
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to read the kept messages");
            return;
        }
    };
    for message in left {
        let session = message.session.clone();
        if let Err(refused) = deliver(engine, driver, message) {
            // It is still kept; the next start tries again.
            tracing::warn!(%session, %refused, "a kept message was not taken on");
        }
    }
}

impl Sessions for GatewaySessions {
    fn list<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionsError>> {
        Box::pin(async move { self.parts()?.0.sessions(Some(agent), LISTED).map_err(failed) })
    }

    fn status<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionsError>> {
        Box::pin(async move {
            let session = self.parts()?.0.session(key).map_err(failed)?;
            session.ok_or_else(|| SessionsError::NotFound(key.clone()))
        })
    }

    fn history<'a>(
        &'a self,
        key: &'a SessionKey,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionsError>> {
        Box::pin(async move {
            let entries = self.parts()?.0.history(key, limit).map_err(failed)?;
            entries.ok_or_else(|| SessionsError::NotFound(key.clone()))
        })
    }

    fn send<'a>(
        &'a self,
        from: &'a SessionKey,
        to: &'a SessionKey,
        message: String,
    ) -> BoxFuture<'a, Result<(), SessionsError>> {
        Box::pin(async move {
            let (engine, driver) = self.parts()?;
            if driver.origin(from) == Some(Origin::Message) {
                return Err(SessionsError::Refused(
                    "this turn was itself started by another session's message: answer with text instead"
                        .to_owned(),
                ));
            }
            if engine.session(to).map_err(failed)?.is_none() {
                return Err(SessionsError::NotFound(to.clone()));
            }
            let accepted = Accepted {
                turn: TurnId::new(),
                session: to.clone(),
                text: message,
                context: format!("The message comes from your own session {from}."),
                at: clock::unix_ms(),
            };
            // Kept before it is taken on: what the sender is told to be accepted survives a crash.
            let turn = accepted.turn;
            engine.store().keep_message(accepted.clone()).await.map_err(failed)?;
            if let Err(refused) = deliver(engine, driver, accepted) {
                engine.store().forget_message(turn).await.map_err(failed)?;
                return Err(SessionsError::Refused(refused.to_string()));
            }
            Ok(())
        })
    }

    fn spawn<'a>(
        &'a self,
        parent: &'a SessionKey,
        child: SessionKey,
        task: String,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionsError>> {
        Box::pin(async move {
            let (_, driver) = self.parts()?;
            let context = vec![format!("The task comes from your own session {parent}.")];
            let order = order(TurnId::new(), &child, task, context);
            let mut turn = driver
                .start(order, Origin::Task, cancel.child_token(), |_| {})
                .map_err(|refused| SessionsError::Refused(refused.to_string()))?;
            match turn.end().await {
                Ok(outcome) => Ok(outcome.text),
                Err(failure) => Err(failed(failure)),
            }
        })
    }
}
