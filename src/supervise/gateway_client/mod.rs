//! A small HTTP/1.1 client for the gateway on 127.0.0.1.
//!
//! It opens one connection for each request and has no pool, TLS, redirects or proxy settings. So it is ready in well
//! under a millisecond, which a general client is not. It never connects to another machine.

mod error;
mod events;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub use error::GatewayClientError;
pub use events::{ServerSentEvent, ServerSentEvents};

/// A client for one address, with an optional token.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    token: Option<String>,
}

/// A request.
#[derive(Clone)]
pub struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    /// Builds `GET path`. The path begins with `/` and may contain a query.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// Builds `DELETE path`.
    #[must_use]
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Builds `POST path` without a body.
    #[must_use]
    pub fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// Builds `PUT path` without a body.
    #[must_use]
    pub fn put(path: &str) -> Self {
        Self::new(Method::PUT, path)
    }

    fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// Sets a JSON body.
    ///
    /// # Errors
    /// Returns [`GatewayClientError::Encode`] if the value can't be written as JSON.
    pub fn json(mut self, body: &impl Serialize) -> Result<Self, GatewayClientError> {
        self.body = serde_json::to_vec(body).map_err(GatewayClientError::Encode)?.into();
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(self)
    }

    /// Sets a body of bytes.
    #[must_use]
    pub fn bytes(mut self, body: &[u8]) -> Self {
        self.body = Bytes::copy_from_slice(body);
        self
    }

    /// Adds a header. A value that is not valid in a header is left out.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Returns the HTTP request.
    ///
    /// # Errors
    /// Returns [`GatewayClientError::Path`] if the path is not valid in a URI.
    pub fn request(self) -> Result<hyper::Request<Bytes>, GatewayClientError> {
        let mut request = hyper::Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() =
            self.path.parse().map_err(|source| GatewayClientError::Path { path: self.path, source })?;
        *request.headers_mut() = self.headers;
        Ok(request)
    }
}

impl Client {
    /// Creates a client for a port of 127.0.0.1, without a token.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), token: None }
    }

    /// Sends `Authorization: Bearer` with each request.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Returns the address that requests go to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request and returns once the head of the answer has arrived, whatever its status.
    ///
    /// # Errors
    /// Returns a [`GatewayClientError`] if nothing listens, if no answer comes within `limit`, or if the answer is not HTTP.
    pub async fn send(&self, call: Call, limit: Duration) -> Result<Answer, GatewayClientError> {
        let address = self.address;
        let timeout = |_| GatewayClientError::Timeout { address, limit };
        tokio::time::timeout(limit, self.exchange(call)).await.map_err(timeout)?
    }

    /// Sends a request. An answer outside 2xx is an error with the gateway's own message.
    ///
    /// # Errors
    /// Returns the errors of [`Client::send`], and [`GatewayClientError::Status`] for any status outside 2xx.
    pub async fn ask(&self, call: Call, limit: Duration) -> Result<Answer, GatewayClientError> {
        let answer = self.send(call, limit).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        // The status alone is an error, so a body that can't be read is ignored.
        let body = answer.bytes(MAX_ERROR_BODY, limit).await.unwrap_or_default();
        Err(GatewayClientError::status(self.address, status, &body))
    }

    /// Sends `GET path` and reads the answer as JSON. The limit applies to the head and again to the body.
    ///
    /// # Errors
    /// Returns the errors of [`Client::ask`], and [`GatewayClientError::Decode`] if the body is not the expected JSON.
    pub async fn get_json<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: Duration,
    ) -> Result<T, GatewayClientError> {
        self.ask(Call::get(path), limit).await?.json(limit).await
    }

    /// Sends `POST path` with a JSON body and reads the answer as JSON.
    ///
    /// # Errors
    /// Returns the errors of [`Client::get_json`], and [`GatewayClientError::Encode`] if `body` can't be written as JSON.
    pub(crate) async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, GatewayClientError> {
        self.ask(Call::post(path).json(body)?, limit).await?.json(limit).await
    }

    async fn exchange(&self, call: Call) -> Result<Answer, GatewayClientError> {
        let address = self.address;
        let broken = |source| GatewayClientError::Broken { address, source };
        let stream = TcpStream::connect(address)
            .await
            .map_err(|source| GatewayClientError::Unreachable { address, source })?;
        // A request is one small write, and Nagle's algorithm would only delay it.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // hyper needs a task that drives the connection.
        let driver = ConnectionTask(tokio::spawn(async move {
            // The caller learns of a connection error through the request or the body.
            let _ = connection.await;
        }));

        let mut request = call.request()?.map(Full::new);
        // HTTP/1.1 requires this header, and hyper does not add it to requests of this kind.
        let host = format!("127.0.0.1:{}", address.port());
        for (name, value) in
            [(HOST, Some(host)), (AUTHORIZATION, self.token.as_ref().map(|token| format!("Bearer {token}")))]
        {
            let Some(value) = value else { continue };
            let mut value = HeaderValue::from_str(&value).map_err(|_| GatewayClientError::Token)?;
            // Sensitive values are left out of debug output.
            value.set_sensitive(name == AUTHORIZATION);
            request.headers_mut().insert(name, value);
        }

        let response = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        Ok(Answer { address, status: head.status, headers: head.headers, body, _driver: driver })
    }
}

/// The answer to a request: the head, and a body that is read as it arrives.
///
/// Dropping it closes the connection, which tells the gateway that nobody listens any more.
pub struct Answer {
    address: SocketAddr,
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    _driver: ConnectionTask,
}

impl Answer {
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// Returns a header's value, if it is present and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the next chunk of the body, or `None` at its end.
    ///
    /// # Errors
    /// Returns a [`GatewayClientError`] if the connection breaks or nothing arrives within `idle`.
    pub async fn chunk(&mut self, idle: Duration) -> Result<Option<Bytes>, GatewayClientError> {
        let address = self.address;
        loop {
            let frame = tokio::time::timeout(idle, self.body.frame())
                .await
                .map_err(|_| GatewayClientError::Timeout { address, limit: idle })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|source| GatewayClientError::Broken { address, source })?;
            // A frame without data carries trailers, which are not needed.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the whole body, at most `cap` bytes, within `limit`.
    ///
    /// # Errors
    /// Returns a [`GatewayClientError`] if the connection breaks, or if the body is longer than `cap` or takes longer than
    /// `limit`.
    pub async fn bytes(mut self, cap: usize, limit: Duration) -> Result<Vec<u8>, GatewayClientError> {
        let address = self.address;
        let read = async {
            let mut whole = Vec::new();
            while let Some(chunk) = self.chunk(limit).await? {
                if whole.len() + chunk.len() > cap {
                    return Err(GatewayClientError::TooLong { address, cap });
                }
                whole.extend_from_slice(&chunk);
            }
            Ok(whole)
        };
        // `chunk` limits the wait for each chunk. This limits the sum of the waits.
        tokio::time::timeout(limit, read).await.map_err(|_| GatewayClientError::Timeout { address, limit })?
    }

    /// Reads the whole body as JSON.
    ///
    /// # Errors
    /// Returns the errors of [`Answer::bytes`], and [`GatewayClientError::Decode`] if the body is not the expected JSON.
    pub async fn json<T: DeserializeOwned>(self, limit: Duration) -> Result<T, GatewayClientError> {
        let address = self.address;
        let body = self.bytes(MAX_BODY, limit).await?;
        serde_json::from_slice(&body).map_err(|source| GatewayClientError::Decode { address, source })
    }

    /// Reads the body as server-sent events.
    #[must_use]
    pub fn events(self) -> ServerSentEvents {
        ServerSentEvents::new(self)
    }
}

/// A guard that closes the connection when its answer is dropped.
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The longest body that is read as a whole, in bytes.
const MAX_BODY: usize = 64 << 20;
/// The longest error body that is read, in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;

#[cfg(test)]
mod tests;
