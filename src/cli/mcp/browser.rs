//! The visits of a browser at a port of this machine, at the end of a sign-in. Everything on this machine, and every web page
//! in the browser, can make such a visit, so each is bounded and proves nothing by itself.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The path that the browser is led back to.
pub(super) const BACK: &str = "/callback";
/// The most bytes of a request, and the time that a visitor has for it.
const MAX_REQUEST: u64 = 32 << 10;
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The most visitors at once. Browsers open connections that they may need.
const MAX_VISITORS: usize = 32;

/// A port that waits for a browser, until this is dropped.
pub(super) struct Browser {
    visits: mpsc::Receiver<Visit>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Browser {
    /// Begins to wait at this port.
    pub fn wait_at(listener: TcpListener) -> Self {
        let (sender, visits) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut visitors = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Without this, an exhausted table of files would keep a core busy.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                if visitors.len() >= MAX_VISITORS {
                    drop(visitors.join_next().await);
                }
                let sender = sender.clone();
                visitors.spawn(async move {
                    if let Ok(Some(visit)) = tokio::time::timeout(REQUEST_TIME, Visit::read(stream)).await {
                        drop(sender.send(visit).await);
                    }
                });
            }
        });
        Self { visits, task }
    }

    /// Waits for the next visit.
    pub async fn next(&mut self) -> Visit {
        match self.visits.recv().await {
            Some(visit) => visit,
            // The task ends only with this value.
            None => std::future::pending().await,
        }
    }
}

/// The page that a visitor is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisitEnd {
    SignedIn,
    /// The sign-in was refused.
    Refused,
    /// The visit has nothing to do with the sign-in.
    Foreign,
}

/// A request for the path of the end of a sign-in.
pub(super) struct Visit {
    stream: TcpStream,
    query: String,
}

impl Visit {
    /// Reads a request. Answers others than for the path at once, and returns `None`.
    async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut line = String::new();
        let mut reader = BufReader::new((&mut stream).take(MAX_REQUEST));
        reader.read_line(&mut line).await.ok()?;
        let target = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).map(str::to_owned);
        // The rest of the request is read, or the browser may not see the answer.
        loop {
            line.clear();
            if reader.read_line(&mut line).await.ok()? == 0 || line.trim().is_empty() {
                break;
            }
        }
        let query = target.as_deref().and_then(|target| target.strip_prefix(BACK)?.strip_prefix('?'));
        let query = query.map(str::to_owned);
        let mut visit = Self { stream, query: query.clone().unwrap_or_default() };
        if query.is_some() {
            return Some(visit);
        }
        visit.respond("404 Not Found", "There is nothing here.").await;
        None
    }

    /// Returns what the browser brings.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Tells the visitor how it ended.
    pub async fn answer(mut self, end: VisitEnd) {
        let (status, text) = match end {
            VisitEnd::SignedIn => ("200 OK", "You can close this page and return to flock."),
            VisitEnd::Refused => ("200 OK", "The sign-in did not succeed. flock says why."),
            VisitEnd::Foreign => {
                ("400 Bad Request", "This is not the answer to a sign-in that flock waits for.")
            }
        };
        // A visitor that does not read must not hold up the sign-in.
        drop(tokio::time::timeout(REQUEST_TIME, self.respond(status, text)).await);
    }

    async fn respond(&mut self, status: &str, text: &str) {
        let page = format!("<!doctype html><meta charset=utf-8><title>flock</title><p>{text}");
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
             referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n{page}",
            page.len()
        );
        if self.stream.write_all(answer.as_bytes()).await.is_ok() {
            drop(self.stream.shutdown().await);
        }
    }
}
