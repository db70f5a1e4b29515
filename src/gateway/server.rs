//! The accept loop: our own connections under hyper, so that every limit holds and every connection can be
//! ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::limits::Limits;
use super::places::{Door, Place};
use super::stall::Stall;

/// Answers one request. It never fails: errors are answers too.
pub trait Answer: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Accepts and serves connections until `stop`, then lets those that are busy finish for `limits.grace`.
pub async fn serve<A: Answer>(
    listener: TcpListener,
    answer: Arc<A>,
    limits: Limits,
    stop: CancellationToken,
) {
    let door = Door::new(limits.connections);
    let connections = TaskTracker::new();
    let end = CancellationToken::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: spinning would not free one.
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = stop.cancelled() => break,
        };
        let end = end.child_token();
        match door.enter(end.clone()) {
            Some(place) => {
                let connection = serve_one(stream, answer.clone(), limits, (stop.clone(), end), place);
                connections.spawn(connection);
            }
            None => drop(connections.spawn(refuse(stream))),
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(limits.grace, connections.wait()).await.is_err() {
        end.cancel();
        connections.wait().await;
    }
}

async fn serve_one<A: Answer>(
    stream: TcpStream,
    answer: Arc<A>,
    limits: Limits,
    (stop, end): (CancellationToken, CancellationToken),
    place: Place,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "failed to set TCP_NODELAY");
    }
    let standing = place.standing();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answer = answer.clone();
        request.extensions_mut().insert(standing.clone());
        async move { Ok::<_, Infallible>(answer.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.header_bytes)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(8192) * 2)
        .serve_connection(TokioIo::new(Stall::new(stream, limits.write_timeout)), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return note(result),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        () = end.cancelled() => return,
    }
    tokio::select! {
        result = connection => note(result),
        () = end.cancelled() => {}
    }
}

fn note(result: Result<(), hyper::Error>) {
    if let Err(error) = result {
        // Every client that goes away ends up here, so this is no warning.
        tracing::debug!(error = crate::error::chain(&error), "a connection ended early");
    }
}

async fn refuse(mut stream: TcpStream) {
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
        // Closed with a request unread, the connection would be reset, and the answer lost with it.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    drop(tokio::time::timeout(Duration::from_secs(1), write).await);
}
