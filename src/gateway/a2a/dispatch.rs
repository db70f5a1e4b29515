//! Carries out a call. The credential of the caller decides which tasks it may see and stop.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use super::follow::{self, TaskFollower, TaskObservation};
use super::request::{self, IncomingMessage};
use super::rpc::{RpcCall, RpcFault, RpcMethod, answer};
use super::stream::{StreamEnd, TaskStreamOptions};
use super::{ProtocolVersion, stream, view};
use crate::clock::unix_ms;
use crate::error::{Explain as _, chain};
use crate::gateway::state::Gateway;
use crate::id::AgentId;
use crate::store::{IdempotencyKey, StoreError, Task, TaskFilter, TaskKind, TaskState, text_digest};
use crate::swarm::SwarmError;
use crate::swarm::task::a2a_requester;

/// Longest time for which a client waits for the outcome of its message. After that it gets the task in its current
/// state.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// A caller and the agent that it talks to.
pub(crate) struct A2aClient<'a> {
    pub gateway: &'a Arc<Gateway>,
    /// The caller's name, from its credential.
    pub name: &'a str,
    pub agent: &'a AgentId,
}

/// Returns the response to a call.
pub(crate) async fn answer_to(client: &A2aClient<'_>, call: RpcCall) -> Response<Body> {
    let (id, version) = (call.id.clone(), call.version);
    match execute(client, call).await {
        Ok(CallReply::Value(value)) => axum::Json(answer(&id, Ok(value))).into_response(),
        Ok(CallReply::Stream(follower, options)) => stream::respond(*follower, version, id, options),
        Err(fault) => axum::Json(answer(&id, Err(fault))).into_response(),
    }
}

enum CallReply {
    Value(Value),
    Stream(Box<TaskFollower>, TaskStreamOptions),
}

async fn execute(client: &A2aClient<'_>, call: RpcCall) -> Result<CallReply, RpcFault> {
    let version = call.version;
    Ok(match call.method {
        RpcMethod::Send => {
            let incoming = request::incoming(version, &call.params)?;
            let task = client.accept(&incoming).await?;
            let task = if incoming.waits { client.settled(task).await? } else { task };
            CallReply::Value(view::given(
                version,
                client.shown(version, &task, incoming.history, true).await?,
            ))
        }
        RpcMethod::Stream => {
            let incoming = request::incoming(version, &call.params)?;
            let task = client.accept(&incoming).await?;
            let options = TaskStreamOptions { history: incoming.history, until: StreamEnd::Settled };
            CallReply::Stream(Box::new(client.follow(&task.id).await?), options)
        }
        RpcMethod::Get => {
            let (id, history) = request::task(&call.params)?;
            CallReply::Value(client.shown(version, &client.own(&id).await?, history, true).await?)
        }
        RpcMethod::Cancel => {
            let (id, history) = request::task(&call.params)?;
            CallReply::Value(client.shown(version, &client.cancel(&id).await?, history, true).await?)
        }
        RpcMethod::Subscribe => {
            let (id, history) = request::task(&call.params)?;
            let task = client.own(&id).await?;
            // A task that waits for its client can still change, so only one that has ended is refused.
            if task.state.is_final() {
                return Err(RpcFault::unsupported(format!(
                    "the task is {}: nothing more will be sent",
                    task.state.as_str()
                )));
            }
            CallReply::Stream(
                Box::new(client.follow(&id).await?),
                TaskStreamOptions { history, until: StreamEnd::Final },
            )
        }
        RpcMethod::List => CallReply::Value(client.list(version, &request::listing(&call.params)?).await?),
        RpcMethod::Push => return Err(RpcFault::push()),
        RpcMethod::ExtendedCard => return Err(RpcFault::no_extended_card()),
    })
}

impl A2aClient<'_> {
    /// Creates a task for the message, or continues the task that it replies to.
    async fn accept(&self, incoming: &IncomingMessage) -> Result<Task, RpcFault> {
        let swarm = &self.gateway.swarm;
        let Some(id) = &incoming.task else {
            let context = match &incoming.context {
                Some(context) => context.clone(),
                None => uuid::Uuid::now_v7().to_string(),
            };
            let sent =
                swarm.send_a2a(self.name, self.agent, &context, &incoming.text, Some(self.key(incoming)));
            return Ok(sent.await?);
        };
        // A repeated reply is answered before the state is checked, because the first one has changed the state.
        if let Some(task) = self.replied(id, incoming).await? {
            return Ok(task);
        }
        let task = self.own(id).await?;
        if incoming.context.as_ref().is_some_and(|context| *context != task.context) {
            return Err(RpcFault::params("`message.contextId` is not the one of this task"));
        }
        if task.state != TaskState::InputRequired {
            return Err(RpcFault::unsupported(format!(
                "the task is {} and waits for no answer: send without `taskId`, with the same `contextId`",
                task.state.as_str()
            )));
        }
        let sent = swarm.reply_a2a(self.name, id, &incoming.text, Some(self.key(incoming))).await;
        if let Err(SwarmError::Refused(_)) = &sent
            && let Some(task) = self.replied(id, incoming).await?
        {
            // The same reply came twice at the same time, and the other one was first.
            return Ok(task);
        }
        Ok(sent?)
    }

    /// Returns the idempotency key of a message, which is its id. A client that repeats a message gets the outcome of
    /// the first one.
    fn key(&self, incoming: &IncomingMessage) -> IdempotencyKey {
        // The digest covers everything that the message says, so another text under the same id is an error.
        let said = json!([incoming.text, incoming.context, incoming.task]);
        IdempotencyKey {
            // Ids are chosen by clients, so they count for one client and one agent only.
            caller: format!("{}@{}", a2a_requester(self.name), self.agent),
            name: incoming.name.clone(),
            digest: text_digest(&said.to_string()),
        }
    }

    /// Returns the task if it has received this reply before.
    async fn replied(&self, id: &str, incoming: &IncomingMessage) -> Result<Option<Task>, RpcFault> {
        let key = self.key(incoming);
        let first = self.gateway.swarm.store().idempotency_keys().find(&key, unix_ms()).await;
        match first? {
            None => Ok(None),
            Some(first) if first.digest == key.digest => self.own(id).await.map(Some),
            Some(_) => Err(SwarmError::KeyReused.into()),
        }
    }

    async fn shown(
        &self,
        version: ProtocolVersion,
        task: &Task,
        history: Option<usize>,
        artifacts: bool,
    ) -> Result<Value, RpcFault> {
        let said = self.gateway.swarm.store().tasks().messages(&task.id).await?;
        let shown = view::task(version, task, &said, history, artifacts);
        Ok(view::noted(version, task, follow::held(self.gateway, task).as_deref(), shown))
    }

    /// Waits until the task no longer changes by itself.
    ///
    /// It returns earlier if that takes too long or if the agent is frozen. A frozen task ends only after a thaw, and
    /// nobody knows when that is.
    async fn settled(&self, task: Task) -> Result<Task, RpcFault> {
        let mut follower = self.follow(&task.id).await?;
        let agents = std::slice::from_ref(self.agent);
        let settle = async {
            while !view::settles(follower.task().state) {
                let seen = tokio::select! {
                    seen = follower.next() => seen?,
                    () = self.gateway.swarm.wait_any_frozen(agents) => break,
                };
                if seen == TaskObservation::Stopping {
                    break;
                }
            }
            Ok::<_, StoreError>(())
        };
        // A timeout is no error: the task is returned as it was last seen.
        if let Ok(Err(error)) = tokio::time::timeout(MAX_WAIT, settle).await {
            return Err(error.into());
        }
        Ok(follower.task().clone())
    }

    async fn cancel(&self, id: &str) -> Result<Task, RpcFault> {
        let task = self.own(id).await?;
        match self.gateway.stop_task(&a2a_requester(self.name), &task.id).await {
            Ok(task) => Ok(task),
            // The task may have ended since it was read, so its state is read again.
            Err(SwarmError::Refused(_)) => {
                let state = self.own(id).await?.state;
                Err(RpcFault::not_cancelable(format!("the task is {}", state.as_str())))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn list(
        &self,
        version: ProtocolVersion,
        asked: &request::TaskListParams,
    ) -> Result<Value, RpcFault> {
        let filter = TaskFilter {
            requester: Some(a2a_requester(self.name)),
            assignee: Some(self.agent.clone()),
            kind: Some(TaskKind::A2a),
            context: asked.context.clone(),
            state: asked.state,
            since: asked.since,
            ..TaskFilter::default()
        };
        let store = self.gateway.swarm.store();
        let total = store.tasks().count(&filter).await?;
        // The total covers all pages, so the position is added only after the count.
        let page = TaskFilter { before: asked.after.clone(), ..filter };
        // One more task than asked for shows if there is a further page.
        let mut tasks = store.tasks().list(&page, asked.limit + 1).await?;
        let limit = asked.limit as usize;
        let has_more = tasks.len() > limit;
        tasks.truncate(limit);
        let token = tasks.last().filter(|_| has_more).map(|task| task.id.clone()).unwrap_or_default();
        let mut shown = Vec::new();
        for task in &tasks {
            shown.push(self.shown(version, task, asked.history, asked.artifacts).await?);
        }
        Ok(json!({"tasks": shown, "nextPageToken": token, "pageSize": tasks.len(), "totalSize": total}))
    }

    /// Returns a task of this caller with this agent. A foreign task gets the same error as a missing one, so a caller
    /// can't probe for ids.
    async fn own(&self, id: &str) -> Result<Task, RpcFault> {
        let task = self.gateway.swarm.store().tasks().find(id).await?;
        let is_own = |task: &Task| {
            task.kind == TaskKind::A2a
                && task.requester == a2a_requester(self.name)
                && task.assignee() == self.agent
        };
        task.filter(is_own).ok_or_else(RpcFault::no_task)
    }

    async fn follow(&self, id: &str) -> Result<TaskFollower, RpcFault> {
        TaskFollower::new(self.gateway, id).await?.ok_or_else(RpcFault::no_task)
    }
}

impl From<SwarmError> for RpcFault {
    fn from(error: SwarmError) -> Self {
        match error {
            SwarmError::Store(error) => error.into(),
            SwarmError::Invalid(reason) => Self::params(reason),
            SwarmError::KeyReused => {
                Self::params("`message.messageId` was used for another message in the last 24 hours")
            }
            other => Self::unsupported(other.to_string()),
        }
    }
}

impl From<StoreError> for RpcFault {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = chain(&error), "a call of A2A failed");
        if error.may_pass() { Self::storage() } else { Self::internal() }
    }
}
