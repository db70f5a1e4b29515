//! Git's protocol over HTTP: the references by GET, a pack by POST. Each answer is read as it arrives.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, header};
use tokio::runtime::Runtime;

use super::super::repository_address;
use super::subprocess::check_read_only;

/// A conversation with one server.
#[derive(Debug, Default)]
pub(crate) struct HttpTransport {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    client: Option<Arc<Connection>>,
    /// The address to which the server redirected the request for references.
    moved: Option<String>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    runtime: Runtime,
}

impl Connection {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // An error only means that a provider was installed before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The client needs the runtime's context when it is built.
        let inside = runtime.enter();
        let client = Client::builder()
            // Servers recognise git clients by this prefix.
            .user_agent(concat!("git/2.0 (flock ", env!("CARGO_PKG_VERSION"), ")"))
            .redirect(Policy::custom(|attempt| {
                // A redirect must not lower the protection: the caller checked only the first address.
                let from = attempt.previous().last();
                let is_open = attempt.url().scheme() != "https";
                if attempt.previous().len() > 5 {
                    attempt.error("too many redirects")
                } else if is_open && from.is_some_and(|from| from.scheme() == "https") {
                    attempt.error("a redirect away from https")
                } else if is_open && from.is_some_and(is_this_machine) && !is_this_machine(attempt.url()) {
                    attempt.error("a redirect away from this machine to an address that is not encrypted")
                } else {
                    attempt.follow()
                }
            }))
            .connect_timeout(Duration::from_secs(30))
            .read_timeout(READ_TIMEOUT)
            .tcp_nodelay(true)
            .build()
            .map_err(io::Error::other)?;
        drop(inside);
        Ok(Self { client, runtime })
    }
}

impl SmartSubtransport for HttpTransport {
    fn action(&self, url: &str, action: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        check_read_only(action)?;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match &shared.client {
            Some(connection) => Arc::clone(connection),
            None => {
                let made = Connection::new().map_err(|error| git2::Error::from_str(&error.to_string()))?;
                Arc::clone(shared.client.insert(Arc::new(made)))
            }
        };
        let base = shared.moved.clone().unwrap_or_else(|| url.trim_end_matches('/').to_owned());
        drop(shared);
        Ok(Box::new(Stream {
            action,
            base,
            connection,
            shared: Arc::clone(&self.shared),
            request: Vec::new(),
            response: None,
            piece: Bytes::new(),
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// A request and its answer. Writing fills the request, and the first read sends it.
struct Stream {
    action: Service,
    base: String,
    connection: Arc<Connection>,
    shared: Arc<Mutex<Shared>>,
    request: Vec<u8>,
    response: Option<Response>,
    piece: Bytes,
}

impl Stream {
    fn send(&mut self) -> io::Result<Response> {
        let Connection { client, runtime } = &*self.connection;
        let lists_references = matches!(self.action, Service::UploadPackLs);
        let request = if lists_references {
            client.get(format!("{}{REFERENCES_PATH}", self.base))
        } else {
            client
                .post(format!("{}/{GIT_SERVICE}", self.base))
                .header(header::CONTENT_TYPE, format!("application/x-{GIT_SERVICE}-request"))
                .header(header::ACCEPT, format!("application/x-{GIT_SERVICE}-result"))
                .body(std::mem::take(&mut self.request))
        };
        // Created inside the runtime, because its timers belong to the runtime.
        let response =
            runtime.block_on(async { request.send().await }).map_err(|error| to_io_error(&error))?;
        let status = response.status();
        if !status.is_success() {
            let more = match status.as_u16() {
                401 | 403 => ": it wants a login, or there is no such repository",
                404 => ": there is no such repository",
                _ => "",
            };
            return Err(io::Error::other(format!("the server answered {}{more}", status.as_u16())));
        }
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // A web page with status 200 is a common answer to a wrong address.
        if !kind.is_some_and(|kind| kind.starts_with("application/x-git-upload-pack-")) {
            return Err(io::Error::other("what answers there is no git server"));
        }
        if lists_references && let Some(base) = response.url().as_str().strip_suffix(REFERENCES_PATH) {
            // The pack must be requested from the address that served the references.
            self.shared.lock().unwrap_or_else(PoisonError::into_inner).moved = Some(base.to_owned());
        }
        Ok(response)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.response.is_none() {
            self.response = Some(self.send()?);
        }
        while self.piece.is_empty() {
            // An empty chunk is not the end of the answer.
            let Some(response) = self.response.as_mut() else { return Ok(0) };
            let next = self.connection.runtime.block_on(async { response.chunk().await });
            match next.map_err(|error| to_io_error(&error))? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.request.extend_from_slice(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_this_machine(url: &reqwest::Url) -> bool {
    repository_address::is_this_machine(url.host_str().unwrap_or_default())
}

/// Makes an error with all causes in one line, because libgit2 keeps only one line.
fn to_io_error(error: &reqwest::Error) -> io::Error {
    io::Error::other(crate::error::chain(error))
}

const GIT_SERVICE: &str = "git-upload-pack";
const REFERENCES_PATH: &str = "/info/refs?service=git-upload-pack";

/// Longest silence of a server. Counting the objects of a large repository takes it a while.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
