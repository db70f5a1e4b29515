//! The way out of a sandbox that has no network: through the helper and the gateway's proxy, or not at all.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};

use axum::body::Body;
use axum::http::{Request, Response};
use flock::config::Network;
use flock::id::AgentId;
use flock::provider::BoxFuture;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::egress::{
    ConnectionOutcome, ConnectionRecord, Dialer, EgressPolicy, EgressRule, SandboxApi,
};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::sandbox::{id, output};
use crate::support::docker::{self, Team};

/// A resolver and a network that lead every public address to a server of this test. What is judged between
/// the two is judged as ever.
pub struct Elsewhere {
    pub server: SocketAddr,
    pub connected: Mutex<Vec<SocketAddr>>,
}

impl Dialer for Elsewhere {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let addresses: &[&str] = match name {
            "files.example" => &["93.184.215.14"],
            "mixed.example" => &["127.0.0.1", "10.1.2.3", "93.184.215.14", "::1"],
            "inside.example" => &["192.168.1.1", "169.254.169.254", "::ffff:93.184.215.14", "fd00:ec2::254"],
            _ => &[],
        };
        let found: Vec<SocketAddr> =
            addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect();
        Box::pin(
            async move { if found.is_empty() { Err(io::Error::other("no such name")) } else { Ok(found) } },
        )
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        self.connected.lock().unwrap().push(address);
        Box::pin(TcpStream::connect(self.server))
    }
}

/// A list that can be changed, and what was noted.
#[derive(Default)]
struct List {
    rules: Mutex<Vec<EgressRule>>,
    noted: Mutex<Vec<ConnectionRecord>>,
}

impl List {
    fn allow(&self, rules: &[&str]) {
        *self.rules.lock().unwrap() = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    }
}

impl EgressPolicy for List {
    fn rules<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        assert_eq!(agent.as_str(), "coder");
        let rules = self.rules.lock().unwrap().clone();
        Box::pin(async { rules })
    }

    fn note(&self, _agent: &AgentId, connection: &ConnectionRecord) {
        self.noted.lock().unwrap().push(connection.clone());
    }
}

/// Answers a request with its first line, its Host and its body, and what is no request with itself.
pub async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move { drop(serve(stream).await) });
        }
    });
    address
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut seen = Vec::new();
    while !seen.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut seen).await? == 0 {
            return Ok(());
        }
        if seen.starts_with(b"raw ") {
            let (mut reader, mut writer) = stream.split();
            writer.write_all(&seen).await?;
            tokio::io::copy(&mut reader, &mut writer).await?;
            return writer.shutdown().await;
        }
    }
    let end = seen.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&seen[..end]).into_owned();
    let field = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.map_or("", |line| line[name.len()..].trim()).to_owned()
    };
    let length: usize = field("content-length:").parse().unwrap_or(0);
    let mut body = seen.split_off(end);
    while body.len() < length {
        stream.read_buf(&mut body).await?;
    }
    let text = format!("{} | {} | ", head.lines().next().unwrap(), field("host:"));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", text.len() + body.len());
    stream.write_all(&[head.as_bytes(), text.as_bytes(), &body].concat()).await?;
    stream.shutdown().await
}

struct Setting {
    sandbox: DockerSandbox,
    list: Arc<List>,
    dial: Arc<Elsewhere>,
}

impl Setting {
    async fn new(team: &Team, network: Network) -> Self {
        team.configure(|config| config.agents[0].network = network);
        let dial = Arc::new(Elsewhere { server: server().await, connected: Mutex::default() });
        let list = Arc::new(List::default());
        let sandbox = team.sandbox().with_egress(list.clone()).with_dial(dial.clone());
        Self { sandbox, list, dial }
    }

    /// Runs Python with `get(url)`, which gives the status and the body.
    async fn python(&self, program: &str) -> String {
        let text = format!("python3 - <<'END'\n{GET}\n{program}\nEND");
        output(&self.sandbox, "coder", &text).await
    }
}

pub const GET: &str = "
import socket, threading, urllib.error, urllib.request
def get(url, data=None):
    try:
        with urllib.request.urlopen(url, data=data, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
def tunnel(target):
    s = socket.create_connection(('127.0.0.1', 3128), 60)
    s.sendall(f'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'.encode())
    head = b''
    while b'\\r\\n\\r\\n' not in head:
        more = s.recv(1)
        if not more: break
        head += more
    return int(head.split()[1]), s
";

#[test]
fn what_is_allowed_passes_and_nothing_else() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let setting = Setting::new(&team, Network::Proxy).await;
        let (list, dial) = (&setting.list, &setting.dial);
        let fetch = "print(*get('http://files.example/a?b'))";
        let refused = setting.python(fetch).await;
        assert!(
            refused.starts_with("403 ") && refused.contains("files.example:80 is not allowed"),
            "{refused}"
        );
        assert!(refused.contains("flock_sysadmin_request"), "{refused}");
        assert_eq!(setting.python("print(tunnel('files.example:443')[0])").await, "403");
        assert_eq!(dial.connected.lock().unwrap().len(), 0, "nothing was connected to");
        let before = setting.sandbox.containers().await.unwrap().remove(0).id;

        list.allow(&["files.example", "mixed.example", "inside.example", "gone.example", "93.184.215.14"]);
        assert_eq!(setting.python(fetch).await, "200 b'GET /a?b HTTP/1.1 | files.example | '");
        assert_eq!(
            dial.connected.lock().unwrap().drain(..).collect::<Vec<_>>(),
            ["93.184.215.14:80".parse().unwrap()]
        );
        let said = "
status, s = tunnel('files.example:443')
s.sendall(b'raw hello'); s.shutdown(socket.SHUT_WR)
back = b''
while (more := s.recv(100)): back += more
print(status, back)";
        assert_eq!(setting.python(said).await, "200 b'raw hello'");
        // Of several addresses only the public ones are tried, and an address passes as itself.
        assert_eq!(setting.python("print(tunnel('mixed.example:443')[0])").await, "200");
        assert_eq!(setting.python("print(tunnel('93.184.215.14:443')[0])").await, "200");
        let connected: Vec<SocketAddr> = dial.connected.lock().unwrap().drain(..).collect();
        assert_eq!(connected, ["93.184.215.14:443".parse().unwrap(); 3]);
        for (program, status) in [
            ("print(get('http://inside.example/')[0])", "403"),
            ("print(tunnel('inside.example:443')[0])", "403"),
            ("print(tunnel('files.example:22')[0])", "403"),
            ("print(tunnel('127.0.0.1:443')[0])", "403"),
            ("print(tunnel('[::1]:443')[0])", "403"),
            ("print(tunnel('2130706433:443')[0])", "400"),
            ("print(tunnel('files.example')[0])", "400"),
            ("print(get('http://gone.example/')[0])", "502"),
        ] {
            assert_eq!(setting.python(program).await, status, "{program}");
        }
        assert_eq!(dial.connected.lock().unwrap().len(), 0);
        // It is the same container all the time, and as confined as ever.
        assert_eq!(setting.sandbox.containers().await.unwrap().remove(0).id, before);
        assert!(setting.sandbox.probe(&id("coder")).await.unwrap().is_confined());
        for target in ["('93.184.215.14', 443)", "('8.8.8.8', 53)", "('172.17.0.1', 2375)"] {
            let program = format!("s = socket.socket(); s.settimeout(5); print(s.connect_ex({target}) != 0)");
            assert_eq!(setting.python(&program).await, "True");
        }
        assert_eq!(output(&setting.sandbox, "coder", "ls /sys/class/net").await, "lo");
        let noted = list.noted.lock().unwrap().clone();
        let fates = |fate| noted.iter().filter(|one| one.fate == fate).count();
        assert!(
            fates(ConnectionOutcome::NotAllowed) >= 5
                && fates(ConnectionOutcome::NotPublic) == 2
                && fates(ConnectionOutcome::Failed) == 1,
            "{noted:?}"
        );
        let raw =
            noted.iter().find(|one| one.port == 443 && one.fate == ConnectionOutcome::Connected).unwrap();
        assert_eq!((raw.host.to_string().as_str(), raw.sent, raw.received), ("files.example", 9, 9));
    });
}

#[test]
fn one_request_after_the_other_is_judged_by_itself() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let setting = Setting::new(&team, Network::Proxy).await;
        setting.list.allow(&["files.example"]);
        // Two requests over one connection to the proxy: the second is for another host.
        let program = "
import http.client
c = http.client.HTTPConnection('127.0.0.1', 3128, timeout=60)
for url in ['http://files.example/1', 'http://other.example/2', 'http://files.example/3']:
    c.request('GET', url, headers={'Host': 'internal.example'})
    answer = c.getresponse()
    print(answer.status, answer.read().decode().strip()[:60])";
        let said = setting.python(program).await;
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "200 GET /1 HTTP/1.1 | files.example |");
        assert!(lines[1].starts_with("403 flock: other.example:80 is not allowed"), "{said}");
        assert_eq!(lines[2], "200 GET /3 HTTP/1.1 | files.example |");
        // What is no request of a proxy ends its connection or is answered, and the next one works.
        let program = "
for junk in [b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', b'\\x16\\x03\\x01' * 100, b'A' * 200000, b'\\r\\n' * 50000, b'CONNECT']:
    s = socket.create_connection(('127.0.0.1', 3128), 60)
    try:
        s.sendall(junk); s.shutdown(socket.SHUT_WR); s.recv(100)
    except OSError: pass
    s.close()
print(get('http://files.example/')[0])";
        assert_eq!(setting.python(program).await, "200");
    });
}

#[test]
fn a_sandbox_without_a_proxy_has_no_listener() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let setting = Setting::new(&team, Network::None).await;
        setting.list.allow(&["files.example"]);
        let look = "s = socket.socket(); print(s.connect_ex(('127.0.0.1', 3128)) == 0)";
        assert_eq!(setting.python(look).await, "False");
        assert_eq!(output(&setting.sandbox, "coder", "env | grep -ci proxy || true").await, "0");
        let before = setting.sandbox.containers().await.unwrap().remove(0).id;
        team.configure(|config| config.agents[0].network = Network::Proxy);
        assert_eq!(setting.python(look).await, "True");
        assert_eq!(setting.python("print(get('http://files.example/')[0])").await, "200");
        assert_eq!(output(&setting.sandbox, "coder", "echo $https_proxy").await, "http://127.0.0.1:3128");
        team.configure(|config| config.agents[0].network = Network::None);
        assert_eq!(setting.python(look).await, "False");
        assert_eq!(setting.sandbox.containers().await.unwrap().remove(0).id, before);
    });
}

#[test]
fn fifty_at_once_carry_megabytes_and_a_stuck_one_holds_up_nobody() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let setting = Setting::new(&team, Network::Proxy).await;
        setting.list.allow(&["files.example"]);
        let program = "
stuck = []
for n in range(5):
    status, s = tunnel('files.example:443')
    s.sendall(b'raw ' + b'x' * 60000); s.setblocking(False)
    try:
        while True: s.send(b'x' * 65536)
    except BlockingIOError: pass
    stuck.append(s)
wrong = []
def one(n, size):
    body = bytes((i * 7 + n) % 256 for i in range(1000)) * (size // 1000)
    status, back = get('http://files.example/' + str(n), body)
    if status != 200 or not back.endswith(b'| ' + body): wrong.append((n, status, len(back)))
all = [threading.Thread(target=one, args=(n, 200_000)) for n in range(50)]
all.append(threading.Thread(target=one, args=(99, 10_000_000)))
[t.start() for t in all]; [t.join() for t in all]
print(wrong)";
        assert_eq!(setting.python(program).await, "[]");
        let noted = setting.list.noted.lock().unwrap().clone();
        let large = noted.iter().find(|one| one.sent > 10_000_000).unwrap();
        assert!(large.received > 10_000_000 && large.fate == ConnectionOutcome::Connected, "{large:?}");
    });
}

/// Answers `/relay/slow` in two pieces, the second one once `/relay/go` was asked for, and all else with who asked.
#[derive(Default)]
struct Flock(Arc<tokio::sync::Notify>);

impl SandboxApi for Flock {
    fn answer<'a>(&'a self, agent: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>> {
        let path = request.uri().path().to_owned();
        let body = match path.as_str() {
            "/relay/slow" => {
                let pieces = futures_util::stream::unfold((0, self.0.clone()), |(at, go)| async move {
                    match at {
                        0 => {}
                        1 => go.notified().await,
                        _ => return None,
                    }
                    Some((Ok::<_, io::Error>("piece"), (at + 1, go)))
                });
                Body::from_stream(pieces)
            }
            _ => {
                if path == "/relay/go" {
                    self.0.notify_one();
                }
                Body::from(format!("{agent} {} {path}", request.method()))
            }
        };
        Box::pin(std::future::ready(Response::new(body)))
    }
}

#[test]
fn an_agent_programs_sandbox_reaches_flock_and_without_a_network_nothing_else() {
    let Some(team) = Team::new(&["coder"]) else { return };
    docker::block_on(async {
        let dial = Arc::new(Elsewhere { server: server().await, connected: Mutex::default() });
        let list = Arc::new(List::default());
        list.allow(&["files.example"]);
        let sandbox = team.sandbox().with_egress(list.clone()).with_dial(dial.clone());
        let flock = Arc::new(Flock::default());
        let inside: Weak<Flock> = Arc::downgrade(&flock);
        let sandbox = sandbox.with_sandbox_api(inside);
        let setting = Setting { sandbox, list, dial };
        let closed = "try: print(get('http://127.0.0.1:3128/relay/x'))\nexcept OSError: print('closed')";
        assert_eq!(setting.python(closed).await, "closed", "a native agent has no way to flock");
        team.configure(|config| config.agents[0].runtime = "claude".to_owned());
        let flock = "http://127.0.0.1:3128";
        for (program, expected) in [
            (format!("print(get('{flock}/relay/x'))"), "(200, b'coder GET /relay/x')"),
            (format!("print(get('{flock}/mcp', b'{{}}'))"), "(200, b'coder POST /mcp')"),
            (format!("print(get('{flock}/api/agents')[0])"), "403"),
            ("print(tunnel('files.example:443')[0])".to_owned(), "403"),
            ("import os; print([name for name in os.environ if 'PROXY' in name.upper()])".to_owned(), "[]"),
            (
                format!(
                    "a = urllib.request.urlopen('{flock}/relay/slow', timeout=60); print(a.read(5), get('{flock}/relay/go')[0], a.read())"
                ),
                "b'piece' 200 b'piece'",
            ),
        ] {
            assert_eq!(setting.python(&program).await, expected, "{program}");
        }
        assert!(setting.sandbox.probe(&id("coder")).await.unwrap().is_confined());
        assert_eq!(setting.dial.connected.lock().unwrap().len(), 0);
        // With a proxy it has both, by the same entrance.
        team.configure(|config| config.agents[0].network = Network::Proxy);
        let both = format!("print(get('{flock}/relay/x')[0], get('http://files.example/a')[0])");
        assert_eq!(setting.python(&both).await, "200 200");
        // On the host there is nobody inside who would ask.
        team.configure(|config| (config.agents[0].on_host, config.agents[0].network) = (true, Network::None));
        assert_eq!(setting.python(closed).await, "closed");
    });
}
