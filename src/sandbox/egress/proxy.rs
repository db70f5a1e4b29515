//! The proxy: one connection of a program at a time, each request of it judged by itself.

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
use super::dial::Dial;
use super::inside::{Inside, is_inside};
use super::policy::{Connection, EgressPolicy, Fate};
use super::request;
use super::rule::Host;
use super::traffic::{Counted, Traffic};
use crate::id::AgentId;

/// The proxy of one agent.
pub struct Proxy {
    /// Whose connections come here.
    pub agent: AgentId,
    /// What they may reach.
    pub policy: Arc<dyn EgressPolicy>,
    /// How they get there.
    pub dial: Arc<dyn Dial>,
    /// Whether they may reach anything at all.
    pub has_network: bool,
    /// What of flock they may ask for; `None` where there is nothing.
    pub inside: Option<Arc<dyn Inside>>,
}

type Answer = Response<Body>;

impl Proxy {
    /// Serves one connection of a program to its end. What it says wrong ends it, or is answered; nothing is
    /// an error of flock's.
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
            .header_read_timeout(HEAD)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            tracing::debug!(agent = %self.agent, %error, "a connection of its sandbox broke off");
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        if let Some(inside) = self.inside.as_ref().filter(|_| is_for_flock(&request)) {
            return inside.answer(&self.agent, request).await;
        }
        let (mut parts, body) = request.into_parts();
        if !self.has_network {
            return plain(StatusCode::FORBIDDEN, "this sandbox has no network");
        }
        let (host, port) = match request::target(&parts) {
            Ok(target) => target,
            Err(why) => return plain(StatusCode::BAD_REQUEST, &why),
        };
        let mut visit = Visit::new(Arc::clone(&self), host, port);
        let stream = match self.dial(&visit.host, port).await {
            Ok(stream) => Counted::new(stream, Arc::clone(&visit.traffic)),
            Err(refusal) => {
                visit.fate = refusal.fate();
                return refusal.answer(&visit.host, port);
            }
        };
        visit.fate = Fate::Connected;
        if parts.method == Method::CONNECT {
            if let Some(upgrade) = parts.extensions.remove::<OnUpgrade>() {
                tokio::spawn(tunnel(upgrade, stream, visit));
            }
            return Response::new(Body::empty());
        }
        if let Err(why) = request::forwarded(&mut parts) {
            return plain(StatusCode::BAD_REQUEST, &why);
        }
        let (host, answer) = (visit.host.clone(), exchange(Request::from_parts(parts, body), stream, visit));
        match answer.await {
            Ok(answer) => answer,
            Err(error) => {
                plain(StatusCode::BAD_GATEWAY, &format!("{host}:{port} gave no usable answer: {error}"))
            }
        }
    }

    fn allows(&self, host: &Host, port: u16) -> bool {
        self.policy.rules(&self.agent).iter().any(|rule| rule.allows(host, port))
    }

    /// A connection to where the policy lets it go, at an address that was judged.
    async fn dial(&self, host: &Host, port: u16) -> Result<tokio::net::TcpStream, Refusal> {
        if !self.allows(host, port) {
            return Err(Refusal::NotAllowed);
        }
        let found = match host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => self.dial.resolve(name, port).await.map_err(Refusal::Failed)?,
        };
        let mut public =
            found.into_iter().filter(|address| is_public(address.ip())).take(MAX_TRIES).peekable();
        if public.peek().is_none() {
            return Err(Refusal::NotPublic);
        }
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for address in public {
            match self.dial.connect(SocketAddr::new(address.ip(), port)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(Refusal::Failed(last))
    }
}

/// A request's way out. What became of it is noted when it is dropped.
struct Visit {
    proxy: Arc<Proxy>,
    host: Host,
    port: u16,
    fate: Fate,
    traffic: Arc<Traffic>,
    began: Instant,
}

impl Visit {
    fn new(proxy: Arc<Proxy>, host: Host, port: u16) -> Self {
        let (fate, traffic, began) = (Fate::Failed, Arc::default(), Instant::now());
        Self { proxy, host, port, fate, traffic, began }
    }
}

impl Visit {
    /// Resolves when the agent may not go on with it: what let it pass was taken back.
    async fn revoked(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            if !self.proxy.allows(&self.host, self.port) {
                return;
            }
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let (sent, received) = self.traffic.so_far();
        let (host, port, fate, took) = (self.host.clone(), self.port, self.fate, self.began.elapsed());
        let connection = Connection { host, port, fate, sent, received, took };
        self.proxy.policy.note(&self.proxy.agent, &connection);
    }
}

/// Why a connection is not made.
enum Refusal {
    NotAllowed,
    NotPublic,
    Failed(io::Error),
}

impl Refusal {
    const fn fate(&self) -> Fate {
        match self {
            Self::NotAllowed => Fate::NotAllowed,
            Self::NotPublic => Fate::NotPublic,
            Self::Failed(_) => Fate::Failed,
        }
    }

    fn answer(&self, host: &Host, port: u16) -> Answer {
        match self {
            Self::NotAllowed => plain(
                StatusCode::FORBIDDEN,
                &format!("{host}:{port} is not allowed. It can be asked for with flock_sysadmin_request."),
            ),
            Self::NotPublic => plain(
                StatusCode::FORBIDDEN,
                &format!("{host} is allowed, but leads to no address of the public internet."),
            ),
            Self::Failed(error) => {
                plain(StatusCode::BAD_GATEWAY, &format!("failed to connect to {host}:{port}: {error}"))
            }
        }
    }
}

/// Passes bytes on both ways until both ends have ended or nothing has passed for long.
async fn tunnel(upgrade: OnUpgrade, mut outside: Counted, visit: Visit) {
    let Ok(inside) = upgrade.await else { return };
    let mut inside = TokioIo::new(inside);
    let idle = async {
        let mut before = visit.traffic.so_far();
        loop {
            tokio::time::sleep(IDLE).await;
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

/// One request and its answer over a connection of their own.
async fn exchange(
    request: Request<Incoming>,
    outside: Counted,
    visit: Visit,
) -> Result<Answer, hyper::Error> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Incoming>(TokioIo::new(outside)).await?;
    // It ends with the answer's body, or with whoever was to read it.
    tokio::spawn(async move {
        tokio::select! {
            _ = connection => {}
            () = visit.revoked() => {}
        }
    });
    let (mut parts, body) = sender.send_request(request).await?.into_parts();
    request::strip(&mut parts.headers);
    Ok(Response::from_parts(parts, Body::new(body)))
}

/// Whether a request names a path and no server: a proxy is asked for whole addresses.
fn is_for_flock(request: &Request<Incoming>) -> bool {
    let uri = request.uri();
    request.method() != Method::CONNECT && uri.authority().is_none() && is_inside(uri.path())
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Body::from(format!("flock: {text}\n")));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// How long the head of a request may take, and how long a program may wait before its next one.
const HEAD: Duration = Duration::from_secs(60);
/// Bytes of a request's head.
const MAX_HEAD: usize = 64 * 1024;
/// Addresses of one name that are tried.
const MAX_TRIES: usize = 4;
/// How often is looked whether a connection that stands may still stand.
const LOOK: Duration = Duration::from_secs(1);
/// How long a tunnel may stand without a byte.
const IDLE: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::provider::BoxFuture;
    use crate::sandbox::egress::EgressRule;

    /// Allows one name until it does not.
    struct Grant(AtomicBool);

    impl EgressPolicy for Grant {
        fn rules(&self, _agent: &AgentId) -> Vec<EgressRule> {
            if self.0.load(Ordering::SeqCst) { vec!["host.example:443".parse().unwrap()] } else { Vec::new() }
        }

        fn note(&self, _agent: &AgentId, _connection: &Connection) {}
    }

    /// Leads every name to one listener here, under an address of the internet.
    struct Here(SocketAddr);

    impl Dial for Here {
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
        let grant = Arc::new(Grant(AtomicBool::new(true)));
        let proxy = Arc::new(Proxy {
            agent: "coder".parse().unwrap(),
            policy: grant.clone(),
            dial: Arc::new(Here(listener.local_addr().unwrap())),
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
