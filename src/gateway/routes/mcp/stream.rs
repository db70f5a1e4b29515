//! The answer to a call as a stream of events: the progress of the call first, its result at the end.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::tool::{CallProgress, ProgressSink};

/// The number of reports that wait to be sent. Others are left out, because a newer one says more.
const MAX_WAITING: usize = 32;

/// Returns the token under which a client wants to hear of the progress of this request, if it takes a stream as the answer.
pub(super) fn wanted(headers: &HeaderMap, message: &Value) -> Option<Value> {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let takes_stream = accepts.flat_map(|value| value.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    });
    let token = &message["params"]["_meta"]["progressToken"];
    let is_token = matches!(token, Value::String(_) | Value::Number(_));
    (takes_stream && is_token && message["method"] == "tools/call").then(|| token.clone())
}

/// Returns a sink, and the receiver of what is reported there.
pub(super) fn channel() -> (ProgressSink, mpsc::Receiver<CallProgress>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let sink = ProgressSink::new(move |progress| {
        // A client that reads slowly misses reports, and its call goes on.
        drop(sender.try_send(progress));
    });
    (sink, receiver)
}

/// The state of a stream.
struct Progressing {
    answer: Pin<Box<dyn Future<Output = (StatusCode, Option<Value>)> + Send>>,
    reports: mpsc::Receiver<CallProgress>,
    token: Value,
    is_over: bool,
}

/// Returns the response whose body ends with the answer. Dropping the body drops the future.
pub(super) fn response(
    answer: impl Future<Output = (StatusCode, Option<Value>)> + Send + 'static,
    reports: mpsc::Receiver<CallProgress>,
    token: Value,
) -> Response<Body> {
    let state = Progressing { answer: Box::pin(answer), reports, token, is_over: false };
    let pieces = stream::unfold(state, |mut state| async move {
        if state.is_over {
            return None;
        }
        let piece = tokio::select! {
            // Everything that was reported before the end is sent before it.
            biased;
            Some(progress) = state.reports.recv() => event(&notification(&state.token, &progress)),
            (_, answer) = &mut state.answer => {
                state.is_over = true;
                let mut last = String::new();
                while let Ok(progress) = state.reports.try_recv() {
                    last.push_str(&event(&notification(&state.token, &progress)));
                }
                // A cancelled call has no answer.
                last + &answer.as_ref().map(event).unwrap_or_default()
            }
        };
        Some((Ok::<_, Infallible>(Bytes::from(piece)), state))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn notification(token: &Value, progress: &CallProgress) -> Value {
    let mut params = json!({"progressToken": token, "progress": progress.done});
    if let Some(total) = progress.total {
        params["total"] = json!(total);
    }
    if let Some(message) = &progress.message {
        params["message"] = json!(message);
    }
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn event(message: &Value) -> String {
    // JSON has no line breaks outside of its texts, where they are escaped.
    format!("event: message\ndata: {message}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())])
    }

    #[test]
    fn progress_is_sent_only_to_who_asks_for_it_and_takes_a_stream() {
        let call = |token: Value| json!({"method": "tools/call", "params": {"name": "x", "_meta": {"progressToken": token}}});
        let both = headers("application/json, text/event-stream");
        assert_eq!(wanted(&both, &call(json!(7))), Some(json!(7)));
        assert_eq!(wanted(&headers("Text/Event-Stream;q=0.5"), &call(json!("a"))), Some(json!("a")));
        for (headers, message) in [
            (headers("application/json"), call(json!(7))),
            (headers("text/event-streams"), call(json!(7))),
            (HeaderMap::new(), call(json!(7))),
            (both.clone(), call(json!([]))),
            (both.clone(), call(Value::Null)),
            (both.clone(), json!({"method": "tools/call", "params": {}})),
            (both, json!({"method": "tools/list", "params": {"_meta": {"progressToken": 1}}})),
        ] {
            assert_eq!(wanted(&headers, &message), None, "{message}");
        }
    }

    #[tokio::test]
    async fn the_reports_come_before_the_answer() {
        let (sink, reports) = channel();
        let report = |done| CallProgress { done, total: Some(9.0), message: Some("a\nb".to_owned()) };
        sink.report(report(1.0));
        let late = sink.clone();
        let answer = async move {
            late.report(CallProgress { total: None, message: None, ..report(2.0) });
            (StatusCode::OK, Some(json!({"jsonrpc": "2.0", "id": 1, "result": {}})))
        };
        let body = response(answer, reports, json!("t")).into_body();
        let text = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let messages: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let params: Vec<&Value> = messages.iter().map(|message| &message["params"]).collect();
        assert_eq!(
            *params[0],
            json!({"progressToken": "t", "progress": 1.0, "total": 9.0, "message": "a\nb"})
        );
        assert_eq!(*params[1], json!({"progressToken": "t", "progress": 2.0}));
        assert_eq!(messages[2]["id"], 1);
        assert_eq!(messages.len(), 3);
    }
}
