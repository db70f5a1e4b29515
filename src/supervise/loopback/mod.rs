//! A small HTTP/1.1 client for what answers on 127.0.0.1: the gateway.
//!
//! One connection a request, no pool, no TLS, no redirects, no proxy settings: it is up in well under a
//! millisecond, which a general client is not. It never speaks to another machine.

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

pub use error::LoopbackError;
pub use events::{Event, Events};

/// Who is asked, and as whom.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    token: Option<String>,
}

/// A request to be sent.
pub struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    /// `GET path`; the path may carry a query and begins with `/`.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// `DELETE path`.
    #[must_use]
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// `POST path` without a body.
    #[must_use]
    pub fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// `PUT path` without a body.
    #[must_use]
    pub fn put(path: &str) -> Self {
        Self::new(Method::PUT, path)
    }

    fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// With a JSON body.
    ///
    /// # Errors
    /// If the value has no JSON form.
    pub fn json(mut self, body: &impl Serialize) -> Result<Self, LoopbackError> {
        self.body = serde_json::to_vec(body).map_err(LoopbackError::Encode)?.into();
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(self)
    }

    /// With these bytes as its body.
    #[must_use]
    pub fn bytes(mut self, body: &[u8]) -> Self {
        self.body = Bytes::copy_from_slice(body);
        self
    }

    /// With a header; a value that can't be one is left out.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }
}

impl Client {
    /// A client of what listens on this port of 127.0.0.1, without a token.
    #[must_use]
    pub fn new(port: u16) -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), token: None }
    }

    /// The same, with `Authorization: Bearer` on each request.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Where it sends to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request and returns when the answer's head is there, whatever its status is.
    ///
    /// # Errors
    /// If nothing listens, it does not answer within `limit`, or what comes is no HTTP.
    pub async fn send(&self, call: Call, limit: Duration) -> Result<Answer, LoopbackError> {
        let address = self.address;
        match tokio::time::timeout(limit, self.exchange(call)).await {
            Ok(answer) => answer,
            Err(_) => Err(LoopbackError::Timeout { address, limit }),
        }
    }

    /// Sends a request; an answer outside 2xx is an error that carries the gateway's own words.
    ///
    /// # Errors
    /// Like [`Client::send`], and for every status outside 2xx.
    pub async fn ask(&self, call: Call, limit: Duration) -> Result<Answer, LoopbackError> {
        let answer = self.send(call, limit).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let body = answer.bytes(MAX_ERROR, limit).await.unwrap_or_default();
        Err(LoopbackError::status(self.address, status, &body))
    }

    /// `GET path` as JSON, in all within `limit` for the head and again for the body.
    ///
    /// # Errors
    /// Like [`Client::ask`], and if the body is not the JSON that was expected.
    pub async fn get_json<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: Duration,
    ) -> Result<T, LoopbackError> {
        self.ask(Call::get(path), limit).await?.json(limit).await
    }

    /// `POST path` with a JSON body, the answer as JSON.
    ///
    /// # Errors
    /// Like [`Client::get_json`].
    pub async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, LoopbackError> {
        self.ask(Call::post(path).json(body)?, limit).await?.json(limit).await
    }

    async fn exchange(&self, call: Call) -> Result<Answer, LoopbackError> {
        let address = self.address;
        let broken = |source| LoopbackError::Broken { address, source };
        let stream = TcpStream::connect(address)
            .await
            .map_err(|source| LoopbackError::Unreachable { address, source })?;
        // A request is one small write; waiting to fill a packet would only delay it.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = Driver(tokio::spawn(async move {
            // An error of the connection reaches the caller through the request or the body.
            let _ = connection.await;
        }));

        let mut request = hyper::Request::new(Full::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() =
            call.path.parse().map_err(|source| LoopbackError::Path { path: call.path, source })?;
        *request.headers_mut() = call.headers;
        let host = format!("127.0.0.1:{}", address.port());
        for (name, value) in
            [(HOST, Some(host)), (AUTHORIZATION, self.token.as_ref().map(|token| format!("Bearer {token}")))]
        {
            let Some(value) = value else { continue };
            let mut value = HeaderValue::from_str(&value).map_err(|_| LoopbackError::Token)?;
            value.set_sensitive(name == AUTHORIZATION);
            request.headers_mut().insert(name, value);
        }

        let response = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        Ok(Answer { address, status: head.status, headers: head.headers, body, _driver: driver })
    }
}

/// The answer to a request: its head is there, its body comes as it is read. Dropping it closes the
/// connection, so that the gateway knows that nobody listens any more.
pub struct Answer {
    address: SocketAddr,
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    _driver: Driver,
}

impl Answer {
    /// The status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// A header's value, if it is there and text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// If the connection breaks, or nothing comes within `idle`.
    pub async fn chunk(&mut self, idle: Duration) -> Result<Option<Bytes>, LoopbackError> {
        let address = self.address;
        loop {
            let frame = tokio::time::timeout(idle, self.body.frame())
                .await
                .map_err(|_| LoopbackError::Timeout { address, limit: idle })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|source| LoopbackError::Broken { address, source })?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The whole body, at most `cap` bytes of it, within `limit`.
    ///
    /// # Errors
    /// If the connection breaks, the body is longer, or takes longer.
    pub async fn bytes(mut self, cap: usize, limit: Duration) -> Result<Vec<u8>, LoopbackError> {
        let address = self.address;
        let read = async {
            let mut whole = Vec::new();
            while let Some(chunk) = self.chunk(limit).await? {
                if whole.len() + chunk.len() > cap {
                    return Err(LoopbackError::TooLong { address, cap });
                }
                whole.extend_from_slice(&chunk);
            }
            Ok(whole)
        };
        tokio::time::timeout(limit, read).await.map_err(|_| LoopbackError::Timeout { address, limit })?
    }

    /// The whole body as JSON.
    ///
    /// # Errors
    /// Like [`Answer::bytes`], and if it is not the JSON that was expected.
    pub async fn json<T: DeserializeOwned>(self, limit: Duration) -> Result<T, LoopbackError> {
        let address = self.address;
        let body = self.bytes(MAX_BODY, limit).await?;
        serde_json::from_slice(&body).map_err(|source| LoopbackError::Decode { address, source })
    }

    /// The body as server-sent events.
    #[must_use]
    pub const fn events(self) -> Events {
        Events::new(self)
    }
}

/// Ends the connection with the answer that it belongs to.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The longest body that is read whole.
const MAX_BODY: usize = 64 << 20;
/// The longest error that is read.
const MAX_ERROR: usize = 64 << 10;

#[cfg(test)]
mod tests;
