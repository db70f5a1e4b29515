//! The accept loop. flock runs each connection with hyper itself, so that every limit applies and every connection can
//! be ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::limits::ServerLimits;
use super::middleware::Middleware;
use super::write_timeout::WriteTimeoutStream;

/// Accepts and serves connections until `stop` is cancelled, then gives busy ones `limits.grace` to finish.
pub async fn serve(
    listener: TcpListener,
    middleware: Arc<Middleware>,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let door = ConnectionSlots::new(limits.connections);
    let connections = TaskTracker::new();
    let end = CancellationToken::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // The most likely cause is a lack of file descriptors, and retrying at once would not free one.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let end = end.child_token();
        match door.enter(end.clone()) {
            Some(slot) => {
                let connection = serve_one(stream, middleware.clone(), limits, (stop.clone(), end), slot);
                connections.spawn(connection);
            }
            None => drop(connections.spawn(respond_overloaded(stream))),
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

async fn serve_one(
    stream: TcpStream,
    middleware: Arc<Middleware>,
    limits: ServerLimits,
    (stop, end): (CancellationToken, CancellationToken),
    slot: Arc<ConnectionSlot>,
) {
    // Without this, small pieces of a stream would wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    let service = service_fn(move |mut request: Request<Incoming>| {
        let middleware = middleware.clone();
        request.extensions_mut().insert(slot.clone());
        async move { Ok::<_, Infallible>(middleware.answer(request).await) }
    });
    let stream = TokioIo::new(WriteTimeoutStream::new(stream, limits.write_timeout));
    let connection = http(&limits).serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return log_result(result),
        // The current request is finished, and the connection then takes no other.
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        () = end.cancelled() => return,
    }
    tokio::select! {
        result = connection => log_result(result),
        () = end.cancelled() => {}
    }
}

/// Returns hyper's settings for connections with these limits.
pub(super) fn http(limits: &ServerLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.header_bytes)
        .max_headers(limits.headers)
        // hyper's buffer must have room for the largest allowed header, and hyper accepts no size below 8 KiB.
        .max_buf_size(limits.header_bytes.max(8192) * 2);
    http
}

fn log_result(result: Result<(), hyper::Error>) {
    if let Err(error) = result {
        // Every client that disconnects ends up here, so this is not a warning.
        tracing::debug!(error = crate::error::chain(&error), "a connection ended early");
    }
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
