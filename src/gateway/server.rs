//! The accept loop. flock runs each connection with hyper itself, so that every limit applies and every connection can
//! be ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::limits::ServerLimits;
use super::middleware::Middleware;
use super::write_timeout::WriteTimeoutStream;

/// Name of a connection in the log.
const CONNECTION: &str = "a connection";

/// Accepts and serves connections until `stop` is cancelled, then gives busy ones `limits.grace` to finish.
pub async fn serve(
    listener: TcpListener,
    middleware: Arc<Middleware>,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let serve = |stream, slot| serve_one(stream, Arc::clone(&middleware), limits, stop.clone(), slot);
    accept((listener, CONNECTION), &limits, &stop, serve, respond_overloaded).await;
}

/// Accepts connections until `stop` is cancelled, each with its name in the log. Those that have a slot are served, and get
/// `limits.grace` to finish at the end. The others are refused.
pub(super) async fn accept<S, R>(
    (listener, name): (TcpListener, &'static str),
    limits: &ServerLimits,
    stop: &CancellationToken,
    serve: impl Fn(TcpStream, Arc<ConnectionSlot>) -> S,
    refuse: impl Fn(TcpStream) -> R,
) where
    S: Future<Output = ()> + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let door = ConnectionSlots::new(limits.connections);
    let connections = TaskTracker::new();
    let end = CancellationToken::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // The most likely cause is a lack of file descriptors, and retrying at once would not free one.
                    tracing::warn!(%error, "failed to accept {name}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let end = end.child_token();
        match door.enter(end.clone()) {
            Some(slot) => {
                let served = serve(stream, slot);
                connections.spawn(async move {
                    end.run_until_cancelled(served).await;
                });
            }
            None => drop(connections.spawn(refuse(stream))),
        }
    }
    // New clients are refused from here on, while the open connections finish.
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits.grace, connections.wait()).await.is_err() {
        end.cancel();
        connections.wait().await;
    }
}

/// Returns an accepted connection as it is read and written.
pub(super) fn prepared(stream: TcpStream, limits: &ServerLimits) -> WriteTimeoutStream {
    // Without this, small pieces of a stream would wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    WriteTimeoutStream::new(stream, limits.write_timeout)
}

async fn serve_one(
    stream: TcpStream,
    middleware: Arc<Middleware>,
    limits: ServerLimits,
    stop: CancellationToken,
    slot: Arc<ConnectionSlot>,
) {
    let answer = |mut request: Request<Incoming>| {
        let middleware = Arc::clone(&middleware);
        request.extensions_mut().insert(Arc::clone(&slot));
        async move { middleware.answer(request).await }
    };
    serve_http((prepared(stream, &limits), CONNECTION), &limits, &stop, answer).await;
}

/// Answers the requests of a connection, which has this name in the log, until it ends. Once `stop` is cancelled, the current
/// request is finished, and the connection then takes no other.
pub(super) async fn serve_http<A: Future<Output = Response<Body>>>(
    (stream, name): (impl AsyncRead + AsyncWrite + Unpin, &'static str),
    limits: &ServerLimits,
    stop: &CancellationToken,
    answer: impl Fn(Request<Incoming>) -> A,
) {
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http(limits).serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        // Every client that disconnects ends up here, so this is not a warning.
        tracing::debug!(error = crate::error::chain(&error), "{name} ended early");
    }
}

/// Returns hyper's settings for connections with these limits.
fn http(limits: &ServerLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.header_bytes)
        .max_headers(limits.headers)
        // hyper's buffer must have room for the largest allowed header, and hyper accepts no size below 8 KiB.
        .max_buf_size(limits.header_bytes.max(8192) * 2);
    http
}

async fn respond_overloaded(mut stream: TcpStream) {
    let body =
        r#"{"error":{"code":"too_many_connections","message":"too many connections are open","hint":null}}"#;
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let write = async {
        stream.write_all(head.as_bytes()).await?;
        stream.shutdown().await?;
        // If the connection were closed while a request is unread, the kernel would reset it, and the response would be
        // lost.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    drop(tokio::time::timeout(Duration::from_secs(1), write).await);
}
