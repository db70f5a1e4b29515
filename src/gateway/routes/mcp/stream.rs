//! The answer to a call as a stream of events: the progress and the log messages of the call first, its result at the end.
//!
//! A client that accepts a stream and wants to hear of the progress gets one at once. Any other that accepts one gets one as
//! soon as there is a log message to send, and otherwise its answer as JSON.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::reply::Reply;
use crate::gateway::relay::mcp_sessions::McpSession;
use crate::tool::{CallNews, CallProgress, LogLevel, LogMessage, ProgressSink};

/// The number of reports and log messages that wait to be sent. Others are left out, because a newer report says more.
const MAX_WAITING: usize = 128;

/// Most log messages of one call.
const MAX_LOGS: usize = 100;

/// The level of flock's own message about those that are left out.
const LEFT_OUT: LogLevel = LogLevel::Warning;

/// The news of a call that its client takes.
#[derive(Debug, PartialEq)]
pub(super) struct WantedNews {
    /// The token under which the client wants to hear of the progress.
    token: Option<Value>,
}

/// Returns the news that a client takes of this request. `None` if it takes no stream as the answer, or if it is no call.
pub(super) fn wanted(headers: &HeaderMap, message: &Value) -> Option<WantedNews> {
    let is_call = takes_stream(headers) && message["method"] == "tools/call" && message.get("id").is_some();
    let token = &message["params"]["_meta"]["progressToken"];
    let is_token = matches!(token, Value::String(_) | Value::Number(_));
    is_call.then(|| WantedNews { token: is_token.then(|| token.clone()) })
}

/// Returns `true` if a client accepts a stream as the answer.
pub(super) fn takes_stream(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}

/// Returns a sink for the news of a call in this session, and the receiver of what is reported there.
pub(super) fn channel(session: &Arc<McpSession>) -> (ProgressSink, mpsc::Receiver<CallNews>) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let (session, logged) = (Arc::clone(session), AtomicUsize::new(0));
    let sink = ProgressSink::new(move |news| {
        let news = match news {
            // The level may be set while the call runs.
            CallNews::Log(message) if message.level < session.level() => return,
            CallNews::Log(message) => match logged.fetch_add(1, Ordering::Relaxed) {
                before if before < MAX_LOGS => CallNews::Log(message),
                MAX_LOGS if LEFT_OUT >= session.level() => CallNews::Log(left_out()),
                _ => return,
            },
            progress @ CallNews::Progress(_) => progress,
        };
        // A client that reads slowly misses some, and its call goes on.
        drop(sender.try_send(news));
    });
    (sink, receiver)
}

/// Returns flock's own message about those that are not passed on.
fn left_out() -> LogMessage {
    let data = json!(format!("a call has {MAX_LOGS} log messages; further ones are left out"));
    LogMessage { level: LEFT_OUT, logger: "flock".to_owned(), data }
}

/// A call whose answer is awaited.
struct StreamedCall {
    answer: Pin<Box<dyn Future<Output = Reply> + Send>>,
    news: mpsc::Receiver<CallNews>,
    wanted: WantedNews,
    is_over: bool,
}

impl StreamedCall {
    /// Waits for something to send. The second value is the answer, which comes after it.
    async fn next(&mut self) -> (String, Option<Reply>) {
        loop {
            tokio::select! {
                // Everything that was reported before the end is sent before it.
                biased;
                Some(news) = self.news.recv() => {
                    let text = self.wanted.written(&news);
                    if !text.is_empty() {
                        return (text, None);
                    }
                }
                reply = &mut self.answer => {
                    let mut last = String::new();
                    while let Ok(news) = self.news.try_recv() {
                        last.push_str(&self.wanted.written(&news));
                    }
                    self.is_over = true;
                    return (last, Some(reply));
                }
            }
        }
    }
}

/// Returns the response to a call. If it is a stream, its body ends with the answer. Dropping the body drops the future.
pub(super) async fn response(
    answer: impl Future<Output = Reply> + Send + 'static,
    news: mpsc::Receiver<CallNews>,
    wanted: WantedNews,
) -> Response<Body> {
    let mut call = StreamedCall { answer: Box::pin(answer), news, wanted, is_over: false };
    let mut first = None;
    if call.wanted.token.is_none() {
        match call.next().await {
            (said, Some(reply)) if said.is_empty() => return reply.into_response(),
            piece => first = Some(piece),
        }
    }
    let pieces = stream::unfold((call, first), |(mut call, first)| async move {
        let (mut text, reply) = match first {
            Some(piece) => piece,
            None if call.is_over => return None,
            None => call.next().await,
        };
        // A cancelled call has no answer.
        if let Some(answer) = reply.and_then(|reply| reply.body) {
            text.push_str(&event(&answer));
        }
        Some((Ok::<_, Infallible>(Bytes::from(text)), (call, None)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl WantedNews {
    /// Returns the event for a piece of news. It is empty if the client does not want it.
    fn written(&self, news: &CallNews) -> String {
        match (news, &self.token) {
            (CallNews::Progress(progress), Some(token)) => event(&progress_notification(token, progress)),
            (CallNews::Progress(_), None) => String::new(),
            (CallNews::Log(message), _) => event(&log_notification(message)),
        }
    }
}

fn progress_notification(token: &Value, progress: &CallProgress) -> Value {
    let mut params = json!({"progressToken": token, "progress": progress.done});
    if let Some(total) = progress.total {
        params["total"] = json!(total);
    }
    if let Some(message) = &progress.message {
        params["message"] = json!(message);
    }
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

fn log_notification(LogMessage { level, logger, data }: &LogMessage) -> Value {
    let params = json!({"level": level.as_str(), "logger": logger, "data": data});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}

/// Returns an event with a message.
pub(super) fn event(message: &Value) -> String {
    // JSON has no line breaks outside of its texts, where they are escaped.
    format!("event: message\ndata: {message}\n\n")
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::gateway::relay::mcp_sessions::McpSessions;

    fn headers(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())])
    }

    fn session() -> Arc<McpSession> {
        McpSessions::new(&CancellationToken::new()).begin("2025-11-25")
    }

    fn log(level: LogLevel, text: &str) -> LogMessage {
        LogMessage { level, logger: "mcp:notes".to_owned(), data: json!(text) }
    }

    fn done() -> Reply {
        Reply::message(json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
    }

    /// The type of a response, and the messages in it.
    async fn read(response: Response<Body>) -> (String, Vec<Value>) {
        let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let text = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let data = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: ").or(line.strip_prefix("{").map(|_| line)));
        (kind, data.map(|data| serde_json::from_str(data).unwrap()).collect())
    }

    #[test]
    fn news_are_sent_only_to_who_takes_a_stream_and_progress_only_to_who_asks_for_it() {
        let call = |token: Value| json!({"id": 1, "method": "tools/call", "params": {"name": "x", "_meta": {"progressToken": token}}});
        let with = |token| Some(WantedNews { token });
        let both = headers("application/json, text/event-stream");
        assert_eq!(wanted(&both, &call(json!(7))), with(Some(json!(7))));
        assert_eq!(wanted(&headers("Text/Event-Stream;q=0.5"), &call(json!("a"))), with(Some(json!("a"))));
        assert_eq!(wanted(&both, &call(json!([]))), with(None));
        assert_eq!(wanted(&both, &call(Value::Null)), with(None));
        assert_eq!(wanted(&both, &json!({"id": 1, "method": "tools/call", "params": {}})), with(None));
        for (headers, message) in [
            (headers("application/json"), call(json!(7))),
            (headers("text/event-streams"), call(json!(7))),
            (HeaderMap::new(), call(json!(7))),
            (both.clone(), json!({"method": "tools/call", "params": {}})),
            (both, json!({"id": 1, "method": "tools/list", "params": {"_meta": {"progressToken": 1}}})),
        ] {
            assert_eq!(wanted(&headers, &message), None, "{message}");
        }
    }

    #[tokio::test]
    async fn the_reports_come_before_the_answer() {
        let (sink, news) = channel(&session());
        let report = |done| CallProgress { done, total: Some(9.0), message: Some("a\nb".to_owned()) };
        sink.report(report(1.0));
        let late = sink.clone();
        let answer = async move {
            late.report(CallProgress { total: None, message: None, ..report(2.0) });
            late.log(log(LogLevel::Notice, "c\nd"));
            done()
        };
        let wanted = WantedNews { token: Some(json!("t")) };
        let (kind, messages) = read(response(answer, news, wanted).await).await;
        assert_eq!((kind.as_str(), messages.len()), ("text/event-stream", 4), "{messages:?}");
        let params: Vec<&Value> = messages.iter().map(|message| &message["params"]).collect();
        assert_eq!(
            *params[0],
            json!({"progressToken": "t", "progress": 1.0, "total": 9.0, "message": "a\nb"})
        );
        assert_eq!(*params[1], json!({"progressToken": "t", "progress": 2.0}));
        assert_eq!(*params[2], json!({"level": "notice", "logger": "mcp:notes", "data": "c\nd"}));
        assert_eq!(messages[2]["method"], "notifications/message");
        assert_eq!(messages[3]["id"], 1);
    }

    #[tokio::test]
    async fn who_asks_for_no_progress_gets_a_stream_only_if_something_is_logged() {
        for (text, expected) in [(None, "application/json"), (Some("x"), "text/event-stream")] {
            let (sink, news) = channel(&session());
            let answer = async move {
                sink.report(CallProgress { done: 1.0, total: None, message: None });
                if let Some(text) = text {
                    sink.log(log(LogLevel::Info, text));
                }
                done()
            };
            let (kind, messages) = read(response(answer, news, WantedNews { token: None }).await).await;
            assert_eq!((kind.as_str(), messages.len()), (expected, 1 + usize::from(text.is_some())));
            assert_eq!(messages.last().unwrap()["result"], json!({}));
        }
    }

    #[tokio::test]
    async fn log_messages_below_the_sessions_level_and_after_the_limit_are_left_out() {
        let session = session();
        let (sink, mut news) = channel(&session);
        sink.log(log(LogLevel::Debug, "too low at the beginning"));
        session.set_level(LogLevel::Debug);
        sink.log(log(LogLevel::Debug, "one"));
        session.set_level(LogLevel::Warning);
        sink.log(log(LogLevel::Notice, "too low now"));
        for number in 0..2 * MAX_LOGS {
            sink.log(log(LogLevel::Emergency, &number.to_string()));
        }
        let mut heard = Vec::new();
        while let Ok(CallNews::Log(message)) = news.try_recv() {
            heard.push(message);
        }
        let said = |at: usize| heard[at].data.as_str().unwrap();
        assert_eq!((heard.len(), said(0), said(1)), (MAX_LOGS + 1, "one", "0"));
        let last = heard.last().unwrap();
        assert!(last.logger == "flock" && said(MAX_LOGS).contains("left out"), "{last:?}");
    }
}
