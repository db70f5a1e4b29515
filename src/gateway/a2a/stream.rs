//! Streams a task as server-sent events: its current state, its changes, the tools that it calls, and its answer. A
//! client that disconnects stops nothing, and it can subscribe again for the rest.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::Response;
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

use super::ProtocolVersion;
use super::follow::{TaskFollower, TaskObservation};
use super::rpc::{RpcFault, answer};
use super::view;
use crate::error::chain;
use crate::gateway::stream::event_stream;
use crate::store::TaskState;

struct TaskStream {
    follower: TaskFollower,
    version: ProtocolVersion,
    id: Value,
    options: TaskStreamOptions,
    begun: bool,
    over: bool,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The stream ends when the task no longer changes by itself. A client that sent a message has to reply if it is
    /// asked something.
    Settled,
    /// The stream ends with the task. A subscriber need not be the client that replies.
    Final,
}

/// The options of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskStreamOptions {
    /// Number of messages of the conversation that the first event carries. `None` stands for all.
    pub history: Option<usize>,
    /// The end of the stream.
    pub until: StreamEnd,
}

/// Returns the response to the call with this id: a stream about the followed task.
#[must_use]
pub(crate) fn respond(
    follower: TaskFollower,
    version: ProtocolVersion,
    id: Value,
    options: TaskStreamOptions,
) -> Response<Body> {
    let teller = TaskStream { follower, version, id, options, begun: false, over: false };
    let body = stream::unfold(teller, async |mut teller| {
        let piece = teller.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), teller))
    });
    event_stream(Body::from_stream(body))
}

impl TaskStream {
    async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        if !self.begun {
            self.begun = true;
            return Some(self.begin().await);
        }
        match self.follower.next().await {
            Ok(TaskObservation::Changed) => Some(self.change()),
            Ok(TaskObservation::Tool(tool)) => {
                let note = format!("calls {tool}");
                Some(self.data(view::status_update(self.version, self.follower.task(), Some(&note), false)))
            }
            // A comment keeps proxies from closing a silent connection.
            Ok(TaskObservation::Nothing) => Some(": still working\n\n".to_owned()),
            Ok(TaskObservation::Stopping) => None,
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to follow a task");
                self.over = true;
                Some(format!("data: {}\n\n", answer(&self.id, Err(RpcFault::internal()))))
            }
        }
    }

    async fn begin(&mut self) -> String {
        let task = self.follower.task();
        let said = match self.follower.said().await {
            Ok(said) => said,
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to read what was said in a task");
                // The task itself is known, so the stream begins without its messages.
                Vec::new()
            }
        };
        let shown = view::task(self.version, task, &said, self.options.history, true);
        let shown = view::noted(self.version, task, self.follower.held().as_deref(), shown);
        let mut out = self.data(view::given(self.version, shown));
        self.over = self.is_last(task.state);
        if self.over {
            // The task came to this state while it was accepted. Its end is reported all the same.
            out.push_str(&self.data(view::status_update(self.version, task, None, true)));
        }
        out
    }

    const fn is_last(&self, state: TaskState) -> bool {
        match self.options.until {
            StreamEnd::Settled => view::settles(state),
            StreamEnd::Final => state.is_final(),
        }
    }

    fn change(&mut self) -> String {
        let task = self.follower.task();
        let mut out = String::new();
        // The answer goes out before the status, because the status ends the stream.
        if task.state == TaskState::Completed {
            out.push_str(&self.data(view::artifact_update(self.version, task)));
        }
        self.over = self.is_last(task.state);
        let held = self.follower.held();
        out.push_str(&self.data(view::status_update(self.version, task, held.as_deref(), self.over)));
        out
    }

    fn data(&self, result: Value) -> String {
        format!("data: {}\n\n", answer(&self.id, Ok(result)))
    }
}
