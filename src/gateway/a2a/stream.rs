//! A task told as it goes, as server-sent events: the task as it is, what changes, what is being done, and the
//! answer. A client that goes away stops nothing; it can come back and be told the rest.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;

use super::Version;
use super::follow::{Follower, Seen};
use super::rpc::{Fault, answer};
use super::view;
use crate::error::chain;
use crate::store::TaskState;

struct Teller {
    follower: Follower,
    version: Version,
    id: Value,
    telling: Telling,
    begun: bool,
    over: bool,
}

/// Until when a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until nothing more comes by itself: the client that sent a message has the next word where it is asked something.
    Settled,
    /// Until the task has come to its end: a subscriber need not be the one that replies.
    Final,
}

/// How a task is told of.
#[derive(Clone, Copy, Debug)]
pub struct Telling {
    /// How many messages of its conversation go along at first; all without it.
    pub history: Option<usize>,
    /// Until when.
    pub until: Until,
}

/// The answer to the call with this id: everything about the followed task.
#[must_use]
pub fn tell(follower: Follower, version: Version, id: Value, telling: Telling) -> Response<Body> {
    let teller = Teller { follower, version, id, telling, begun: false, over: false };
    let body = stream::unfold(teller, async |mut teller| {
        let piece = teller.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), teller))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

impl Teller {
    async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        if !self.begun {
            self.begun = true;
            return Some(self.begin());
        }
        match self.follower.next().await {
            Ok(Seen::Changed) => Some(self.change()),
            Ok(Seen::Tool(tool)) => {
                let note = format!("calls {tool}");
                Some(self.data(view::status_update(self.version, self.follower.task(), Some(&note), false)))
            }
            Ok(Seen::Nothing) => Some(": still working\n\n".to_owned()),
            Ok(Seen::Stopping) => None,
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to follow a task");
                self.over = true;
                Some(format!("data: {}\n\n", answer(&self.id, Err(Fault::internal()))))
            }
        }
    }

    fn begin(&mut self) -> String {
        let task = self.follower.task();
        let said = match self.follower.said() {
            Ok(said) => said,
            Err(error) => {
                tracing::error!(error = chain(&error), "failed to read what was said in a task");
                Vec::new()
            }
        };
        let shown = view::task(self.version, task, &said, self.telling.history, true);
        let shown = view::noted(self.version, task, self.follower.held().as_deref(), shown);
        let mut out = self.data(view::given(self.version, shown));
        self.over = self.is_last(task.state);
        if self.over {
            // It has come to this while it was taken on: the end is told all the same.
            out.push_str(&self.data(view::status_update(self.version, task, None, true)));
        }
        out
    }

    const fn is_last(&self, state: TaskState) -> bool {
        match self.telling.until {
            Until::Settled => view::settles(state),
            Until::Final => state.is_final(),
        }
    }

    fn change(&mut self) -> String {
        let task = self.follower.task();
        let mut out = String::new();
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
