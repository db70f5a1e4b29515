//! A call to Podman's service over its socket.

use std::io;

use bollard::errors::Error as EngineError;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::sandbox::engine::Engine;

/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 8 << 20;

/// Calls the service by its socket on this machine.
pub(super) async fn call(
    engine: &Engine,
    method: Method,
    path: &str,
    sent: Option<&Value>,
) -> Result<Value, EngineError> {
    let Some(socket) = engine.socket() else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "Podman is used by a socket only").into());
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(UnixStream::connect(socket).await?)).await?;
    // It ends with the sender.
    tokio::spawn(connection);
    let text = sent.map(Value::to_string).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "podman")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(text)))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body =
        Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(io::Error::other)?.to_bytes();
    if status.is_success() {
        return Ok(serde_json::from_slice(&body)?);
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = said["message"].as_str().unwrap_or("it gives no reason").to_owned();
    // It has one status for most errors, and tells them apart by a text.
    let status = match said["cause"].as_str() {
        Some("that name is already in use") => 409,
        Some("image not known") => 404,
        _ => status.as_u16(),
    };
    Err(refused(status, message))
}

/// Returns a refusal with a status of Docker's interface.
pub(super) fn refused(status_code: u16, message: String) -> EngineError {
    EngineError::DockerResponseServerError { status_code, message }
}
