//! A question of an MCP server to a person, during a call. It is a request like others: a person answers exactly what was
//! shown, or denies it. Unlike others it is over with the call that it belongs to, and its answer goes to the server alone.
//!
//! The gateway that makes the call waits for the answer. If there are several, an answer is passed on to it, since the values are in
//! no record. A denial and an end are in the database, which tells it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::request::{FiledRequest, Request};
use super::{
    ApprovalDecision, DecideError, Decider, MAX_OPEN, MAX_ROWS, Triage, event, messages, new_id, view,
};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::error::chain;
use crate::id::{AgentId, McpServerName};
use crate::mcp::{PersonAnswer, Question, answer_content};
use crate::store::{
    Along, LeaseSubject, Level, NewRequest, RequestRow, RequestState, RequestStep, RequestTransition,
    StoreError,
};
use crate::swarm::Actor;
use crate::swarm::lease::Owner;
use crate::sync::lock;
use crate::tool::CallContext;

/// The kind of these requests.
pub(crate) const KIND: &str = "mcp-question";

/// The remark for the person who answers.
const WHY: &str =
    "an MCP server asks, and gets the answer as it is: never type a password, a key or anything private";

/// A question that somebody waits for.
pub(super) struct OpenQuestion {
    reply: oneshot::Sender<PersonAnswer>,
    /// The checked values, once a person has given them.
    content: Option<Map<String, Value>>,
}

impl Triage {
    /// Asks a person, and waits for the answer, at most for this time. A call that ends takes the question back.
    ///
    /// # Errors
    ///
    /// Returns the reason why nobody was asked.
    pub(crate) async fn ask_person(
        self: &Arc<Self>,
        context: &CallContext,
        request: Request,
        limit: Duration,
    ) -> Result<PersonAnswer, String> {
        let failed = |error: StoreError| {
            tracing::error!(error = chain(&error), "a question of an MCP server could not be stored");
            "the question could not be stored".to_owned()
        };
        let (asked, by) = (FiledRequest { agent: context.agent.clone(), request }, Actor::call(context));
        // What can't be read back could not be answered.
        if FiledRequest::read(&asked.body()).is_none() {
            return Err("the question can't be stored as it is".to_owned());
        }
        let asking = self.asking.lock().await;
        let open = self.swarm.store().requests().list(true, MAX_ROWS).await.map_err(failed)?;
        if open.iter().filter(|row| row.agent == context.agent).count() >= MAX_OPEN {
            return Err(format!("{MAX_OPEN} requests of the agent wait already"));
        }
        let now = unix_ms();
        let mut new = NewRequest {
            id: new_id(),
            kind: asked.request.kind(),
            agent: context.agent.clone(),
            session: context.session.clone(),
            channel: context.session.channel(),
            body: asked.body(),
            reason: "a program that the agent called asks a person".to_owned(),
            floor: Level::Red,
            why: vec![WHY.to_owned()],
            state: RequestState::Waiting,
            scope: asked.request.scope(),
            asks_sysadmin: false,
            expires_at: now.saturating_add(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)),
            exchange: None,
            now,
        };
        loop {
            let entry = by.entry("request.ask", &new.id, Level::Red, view::brief(&asked.request, &new.id));
            let text = format!(
                "{} of {} waits for a person: {}. To answer: flock approvals answer {}",
                new.id,
                new.agent,
                asked.request.describe(),
                new.id
            );
            let post = messages::post(new.channel.as_ref(), &text, now);
            let along = Along { post, ..Along::audit(entry) };
            if self.swarm.store().requests().add(new.clone(), along).await.map_err(failed)? {
                break;
            }
            new.id = new_id();
        }
        let (reply, mut answer) = oneshot::channel();
        lock(&self.questions).insert(new.id.clone(), OpenQuestion { reply, content: None });
        // Whatever ends this future, the question is over with it.
        let _over = TakenBack { triage: Arc::clone(self), id: new.id.clone() };
        drop(asking);
        let what = event(&new.id, new.kind, &new.agent, Level::Red, RequestState::Waiting);
        self.swarm.notifier().publish("approval.waiting", &what);
        tokio::select! {
            answered = &mut answer => Ok(answered.unwrap_or(PersonAnswer::Cancelled)),
            () = tokio::time::sleep(limit) => Ok(PersonAnswer::Cancelled),
            () = context.cancel.cancelled() => Ok(PersonAnswer::Cancelled),
            () = self.stop.cancelled() => Ok(PersonAnswer::Cancelled),
        }
    }

    /// Records a person's answer. The values must fit the fields of exactly the question with this digest.
    ///
    /// # Errors
    ///
    /// Returns [`DecideError::Values`] if a value does not fit, [`DecideError::NoQuestion`] if the request asks for no
    /// values, [`DecideError::NobodyWaits`] if the call has ended, and the errors of a decision.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        id: &str,
        (sha256, values): (String, &Map<String, Value>),
        decider: &Decider,
    ) -> Result<RequestRow, DecideError> {
        let row = self.swarm.store().requests().find(id).await?;
        let row = row.ok_or_else(|| DecideError::Unknown(view::id(id)))?;
        let Some(FiledRequest { request: Request::McpQuestion { fields, .. }, .. }) =
            FiledRequest::read(&row.body)
        else {
            return Err(DecideError::NoQuestion(row.id));
        };
        if row.state != RequestState::Waiting {
            return Err(DecideError::Over { id: row.id, state: row.state.as_str() });
        }
        let content =
            answer_content(&fields, values).map_err(|why| DecideError::Values { id: row.id.clone(), why })?;
        if !self.set_content(&row.id, Some(content)) {
            return Err(DecideError::NobodyWaits(row.id));
        }
        let decided = self.decide(&row.id, ApprovalDecision::Approve { sha256 }, decider).await;
        if decided.is_err() {
            // Values that were refused are not those of a later approval.
            self.set_content(&row.id, None);
        }
        decided
    }

    /// Keeps the values of an answer until they are passed on. Returns `false` if nobody waits for them.
    fn set_content(&self, id: &str, content: Option<Map<String, Value>>) -> bool {
        let mut questions = lock(&self.questions);
        // The first answer counts, if two people give one in the same moment.
        let question = questions.get_mut(id).filter(|known| content.is_none() || known.content.is_none());
        question.map(|question| question.content = content).is_some()
    }

    /// Returns `true` if the call that waits for the answer is made here.
    pub(super) fn is_asked(&self, id: &str) -> bool {
        lock(&self.questions).contains_key(id)
    }

    /// Returns `true` if an approval needs values that a person has not given.
    pub(super) fn lacks_values(&self, id: &str) -> bool {
        lock(&self.questions).get(id).is_none_or(|question| question.content.is_none())
    }

    /// Passes the answer on to the server. Returns the text for the record.
    pub(super) fn deliver(&self, id: &str) -> Result<String, String> {
        let question = lock(&self.questions).remove(id);
        let gone = || "not passed on: the call of the server has ended".to_owned();
        let OpenQuestion { reply, content } = question.ok_or_else(gone)?;
        let content = content.ok_or_else(gone)?;
        reply.send(PersonAnswer::Accepted(content)).map_err(|_| gone())?;
        Ok("answered".to_owned())
    }

    /// Tells the server that the person declined.
    pub(super) fn decline(&self, id: &str) {
        if let Some(OpenQuestion { reply, .. }) = lock(&self.questions).remove(id) {
            drop(reply.send(PersonAnswer::Declined));
        }
    }

    /// Tells the servers whose questions were denied or ended at another gateway.
    pub(super) async fn take_up_ended(&self) -> Result<(), StoreError> {
        let asked: Vec<String> = lock(&self.questions).keys().cloned().collect();
        for id in asked {
            if let Some(row) = self.swarm.store().requests().find(&id).await? {
                self.take_up_end(&id, row.state);
            }
        }
        Ok(())
    }

    /// Tells the call that waits here, if any, that its question is over in this state.
    pub(super) fn take_up_end(&self, id: &str, state: RequestState) {
        match state {
            RequestState::Denied => self.decline(id),
            // Nobody can answer it any more. The call is told by the end of the channel.
            RequestState::Expired => drop(lock(&self.questions).remove(id)),
            _ => {}
        }
    }

    /// Returns `true` if the call that an open question belongs to is gone, and this gateway is the one that ends the question.
    pub(super) async fn is_lost(&self, row: &RequestRow) -> bool {
        let ownership = self.swarm.ownership();
        let server = local_server(&self.swarm.config(), row);
        let ends_here = match server.map(|server| ownership.of_subject(&LeaseSubject::server(&server))) {
            Some(Owner::Here) => true,
            Some(Owner::Elsewhere(_)) => false,
            Some(Owner::Nobody) | None => ownership.has_agent(&row.agent),
        };
        if !ends_here {
            return false;
        }
        // Whoever asks holds this from the row of the question until its call waits.
        drop(self.asking.lock().await);
        !self.is_asked(&row.id)
    }

    /// Ends the questions of agents whose turns broke off at another gateway, and the calls of these turns with them.
    pub(crate) async fn end_old_questions(
        &self,
        is_wanted: impl Fn(&AgentId) -> bool,
    ) -> Result<(), StoreError> {
        let open = self.swarm.store().requests().list(true, MAX_ROWS).await?;
        let is_old = |row: &&RequestRow| {
            row.kind == KIND && row.state != RequestState::Running && is_wanted(&row.agent)
        };
        for row in open.iter().filter(is_old) {
            self.end_question(&row.id, row.level).await?;
        }
        Ok(())
    }

    pub(super) async fn end_question(&self, id: &str, level: Level) -> Result<(), StoreError> {
        let why = "the call has ended".to_owned();
        let entry = Actor::system().entry("request.expire", id, level, why.clone());
        let requests = self.swarm.store().requests();
        let ended =
            requests.step(id.to_owned(), RequestStep::Expire, Some(why), Along::audit(entry), unix_ms());
        if let RequestTransition::Done(row) = ended.await? {
            self.publish("approval.ended", &row);
        }
        Ok(())
    }
}

/// Ends a question when nobody waits for its answer any more.
struct TakenBack {
    triage: Arc<Triage>,
    id: String,
}

impl Drop for TakenBack {
    fn drop(&mut self) {
        // An answer that is being passed on has taken it already, and its row has gone on.
        if lock(&self.triage.questions).remove(&self.id).is_none() {
            return;
        }
        let (triage, id) = (Arc::clone(&self.triage), self.id.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = triage.end_question(&id, Level::Red).await {
                tracing::error!(request = id, error = chain(&error), "a question could not be ended");
            }
        });
    }
}

/// Returns the question of a request for programs, or `None` for another request.
#[must_use]
pub(crate) fn json(row: &RequestRow) -> Option<Value> {
    let Request::McpQuestion { server, message, fields } = FiledRequest::read(&row.body)?.request else {
        return None;
    };
    Some(serde_json::json!({"server": server, "message": message, "fields": fields}))
}

/// Returns the MCP server of a question whose gateway waits for the answer. `None` if that is the gateway of the agent, because
/// each gateway calls a server at a URL itself.
#[must_use]
pub(crate) fn local_server(config: &Config, row: &RequestRow) -> Option<McpServerName> {
    let Request::McpQuestion { server, .. } = FiledRequest::read(&row.body)?.request else { return None };
    config.mcp_server(&server)?.remote.is_none().then_some(server)
}

/// Returns the request for a question.
#[must_use]
pub(crate) fn request(server: &McpServerName, question: Question) -> Request {
    let Question { message, fields } = question;
    Request::McpQuestion { server: server.clone(), message, fields }
}
