//! The HTTP proxy. It serves one connection of a program, and checks each request on it separately.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::address::is_public;
use super::dial::Dialer;
use super::policy::{ConnectionOutcome, ConnectionRecord, EgressPolicy};
use super::request;
use super::rule::Host;
use super::sandbox_api::{SandboxApi, is_inside};
use super::traffic::{CountingStream, Traffic};
use crate::id::AgentId;

/// The proxy of one agent.
pub struct Proxy {
    /// The agent whose connections it serves.
    pub agent: AgentId,
    /// The rules on what the agent may reach.
    pub policy: Arc<dyn EgressPolicy>,
    /// The way to the internet.
    pub dial: Arc<dyn Dialer>,
    /// `true` if the agent may reach the internet at all.
    pub has_network: bool,
    /// The part of flock that programs in the sandbox may call. `None` if they may call nothing.
    pub inside: Option<Arc<dyn SandboxApi>>,
}

type ProxyResponse = Response<Body>;

impl Proxy {
    /// Serves one connection of a program until it ends. A protocol error of the program ends the connection or gets an
    /// error response. It is never an error of flock.
    pub async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service = hyper::service::service_fn(|request| {
            let proxy = Arc::clone(&self);
            async move { Ok::<_, Infallible>(proxy.answer(request).await) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            tracing::debug!(agent = %self.agent, %error, "a connection of its sandbox broke off");
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> ProxyResponse {
        // Before the network check, because the relay and the tools work without a network, too.
        if let Some(inside) = self.inside.as_ref().filter(|_| is_for_flock(&request)) {
            return inside.answer(&self.agent, request).await;
        }
        let (mut parts, body) = request.into_parts();
        if !self.has_network {
            return text_response(StatusCode::FORBIDDEN, "this sandbox has no network");
        }
        let (host, port) = match request::target(&parts) {
            Ok(target) => target,
            Err(why) => return text_response(StatusCode::BAD_REQUEST, &why),
        };
        // From here on the outcome is recorded when `visit` is dropped, whatever happens.
        let mut visit = OutboundRequest::new(Arc::clone(&self), host, port);
        let stream = match self.dial(&visit.host, port).await {
            Ok(stream) => CountingStream::new(stream, Arc::clone(&visit.traffic)),
            Err(refusal) => {
                visit.fate = refusal.fate();
                return refusal.answer(&visit.host, port);
            }
        };
        visit.fate = ConnectionOutcome::Connected;
        if parts.method == Method::CONNECT {
            // The tunnel starts after the response has been sent.
            if let Some(upgrade) = parts.extensions.remove::<OnUpgrade>() {
                tokio::spawn(tunnel(upgrade, stream, visit));
            }
            return Response::new(Body::empty());
        }
        if let Err(why) = request::rewrite_for_server(&mut parts) {
            return text_response(StatusCode::BAD_REQUEST, &why);
        }
        let (host, answer) =
            (visit.host.clone(), forward_request(Request::from_parts(parts, body), stream, visit));
        match answer.await {
            Ok(answer) => answer,
            Err(error) => text_response(
                StatusCode::BAD_GATEWAY,
                &format!("{host}:{port} gave no usable answer: {error}"),
            ),
        }
    }

    async fn allows(&self, host: &Host, port: u16) -> bool {
        self.policy.rules(&self.agent).await.iter().any(|rule| rule.allows(host, port))
    }

    /// Connects to a host that the policy allows, at an address that was checked.
    async fn dial(&self, host: &Host, port: u16) -> Result<tokio::net::TcpStream, ConnectError> {
        if !self.allows(host, port).await {
            return Err(ConnectError::NotAllowed);
        }
        let found = match host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => self.dial.resolve(name, port).await.map_err(ConnectError::Failed)?,
        };
        let mut public =
            found.into_iter().filter(|address| is_public(address.ip())).take(MAX_TRIES).peekable();
        if public.peek().is_none() {
            return Err(ConnectError::NotPublic);
        }
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for address in public {
            // The port is always the requested one, whatever the resolver returned.
            match self.dial.connect(SocketAddr::new(address.ip(), port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(ConnectError::Failed(last))
    }
}

/// A request on its way out. Dropping it records the outcome.
struct OutboundRequest {
    proxy: Arc<Proxy>,
    host: Host,
    port: u16,
    fate: ConnectionOutcome,
    traffic: Arc<Traffic>,
    began: Instant,
}

impl OutboundRequest {
    fn new(proxy: Arc<Proxy>, host: Host, port: u16) -> Self {
        let (fate, traffic, began) = (ConnectionOutcome::Failed, Arc::default(), Instant::now());
        Self { proxy, host, port, fate, traffic, began }
    }

    /// Waits until no rule allows the connection any more.
    async fn revoked(&self) {
        loop {
            tokio::time::sleep(RULE_CHECK_INTERVAL).await;
            if !self.proxy.allows(&self.host, self.port).await {
                return;
            }
        }
    }
}

impl Drop for OutboundRequest {
    fn drop(&mut self) {
        let (sent, received) = self.traffic.so_far();
        let (host, port, fate, took) = (self.host.clone(), self.port, self.fate, self.began.elapsed());
        let connection = ConnectionRecord { host, port, fate, sent, received, took };
        self.proxy.policy.note(&self.proxy.agent, &connection);
    }
}

/// The reason why a connection is not made.
enum ConnectError {
    NotAllowed,
    NotPublic,
    Failed(io::Error),
}

impl ConnectError {
    const fn fate(&self) -> ConnectionOutcome {
        match self {
            Self::NotAllowed => ConnectionOutcome::NotAllowed,
            Self::NotPublic => ConnectionOutcome::NotPublic,
            Self::Failed(_) => ConnectionOutcome::Failed,
        }
    }

    fn answer(&self, host: &Host, port: u16) -> ProxyResponse {
        let (status, text) = match self {
            Self::NotAllowed => (
                StatusCode::FORBIDDEN,
                format!("{host}:{port} is not allowed. It can be asked for with flock_sysadmin_request."),
            ),
            Self::NotPublic => (
                StatusCode::FORBIDDEN,
                format!("{host} is allowed, but leads to no address of the public internet."),
            ),
            Self::Failed(error) => {
                (StatusCode::BAD_GATEWAY, format!("failed to connect to {host}:{port}: {error}"))
            }
        };
        text_response(status, &text)
    }
}

/// Copies bytes in both directions until both ends are closed, nothing has passed for [`IDLE_TIMEOUT`], or the permission is
/// withdrawn.
async fn tunnel(upgrade: OnUpgrade, mut outside: CountingStream, visit: OutboundRequest) {
    let Ok(inside) = upgrade.await else { return };
    let mut inside = TokioIo::new(inside);
    let idle = async {
        let mut before = visit.traffic.so_far();
        loop {
            tokio::time::sleep(IDLE_TIMEOUT).await;
            let now = visit.traffic.so_far();
            if now == before {
                return;
            }
            before = now;
        }
    };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut inside, &mut outside) => {}
        () = idle => {}
        () = visit.revoked() => {}
    }
}

/// Sends one request over a separate connection and returns the response.
async fn forward_request(
    request: Request<Incoming>,
    outside: CountingStream,
    visit: OutboundRequest,
) -> Result<ProxyResponse, hyper::Error> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Incoming>(TokioIo::new(outside)).await?;
    // The connection ends with the response's body, when its reader goes away, or when the permission is withdrawn.
    tokio::spawn(async move {
        tokio::select! {
            _ = connection => {}
            () = visit.revoked() => {}
        }
    });
    let (mut parts, body) = sender.send_request(request).await?.into_parts();
    request::strip_hop_headers(&mut parts.headers);
    Ok(Response::from_parts(parts, Body::new(body)))
}

/// Returns `true` if a request is for flock. Such a request names a path and no server, while a proxy is asked for
/// whole addresses.
fn is_for_flock(request: &Request<Incoming>) -> bool {
    let uri = request.uri();
    request.method() != Method::CONNECT && uri.authority().is_none() && is_inside(uri.path())
}

fn text_response(status: StatusCode, text: &str) -> ProxyResponse {
    let mut answer = Response::new(Body::from(format!("flock: {text}\n")));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Time limit for the head of a request, and for the pause of a program between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit on the size of a request's head, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Number of addresses of one name that are tried.
const MAX_TRIES: usize = 4;
/// Interval at which open connections are checked against the rules.
const RULE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time without a byte after which a tunnel is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::provider::BoxFuture;
    use crate::sandbox::egress::EgressRule;

    /// Allows one name until the flag is cleared.
    struct OneName(AtomicBool);

    impl EgressPolicy for OneName {
        fn rules<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
            let is_allowed = self.0.load(Ordering::SeqCst);
            let rules = if is_allowed { vec!["host.example:443".parse().unwrap()] } else { Vec::new() };
            Box::pin(async { rules })
        }

        fn note(&self, _agent: &AgentId, _connection: &ConnectionRecord) {}
    }

    /// Resolves every name to one public address, and connects to a local listener instead.
    struct LocalDialer(SocketAddr);

    impl Dialer for LocalDialer {
        fn resolve<'a>(&'a self, _name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
            Box::pin(async move { Ok(vec![SocketAddr::new([93, 184, 215, 14].into(), port)]) })
        }

        fn connect(&self, _address: SocketAddr) -> BoxFuture<'_, io::Result<tokio::net::TcpStream>> {
            Box::pin(tokio::net::TcpStream::connect(self.0))
        }
    }

    #[tokio::test]
    async fn an_open_tunnel_ends_when_its_grant_is_taken_back() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let grant = Arc::new(OneName(AtomicBool::new(true)));
        let proxy = Arc::new(Proxy {
            agent: "coder".parse().unwrap(),
            policy: grant.clone(),
            dial: Arc::new(LocalDialer(listener.local_addr().unwrap())),
            has_network: true,
            inside: None,
        });
        let (mut inside, theirs) = tokio::io::duplex(4096);
        tokio::spawn(proxy.serve(theirs));
        inside.write_all(b"CONNECT host.example:443 HTTP/1.1\r\nHost: host.example\r\n\r\n").await.unwrap();
        let (mut outside, _) = listener.accept().await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(inside.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        inside.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        outside.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
        grant.0.store(false, Ordering::SeqCst);
        let ended = tokio::time::timeout(Duration::from_secs(20), async {
            (inside.read(&mut [0; 1]).await, outside.read(&mut [0; 1]).await)
        });
        let (inside, outside) = ended.await.expect("it ends");
        assert!(!matches!(inside, Ok(1..)) && !matches!(outside, Ok(1..)), "{inside:?} {outside:?}");
    }
}
