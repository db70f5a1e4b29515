//! A server for tests, which answers each request as the test says.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use axum::response::IntoResponse as _;
use serde_json::{Value, json};

use super::Discord;
use super::tests::discord_at;

/// A bot that is connected to the server, and the requests that it made.
pub(super) struct Served {
    pub(super) discord: Discord,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Starts a server. `answer` gets the method and the path without the version, and gives the status and the body.
    /// The account of the bot is 1, its app 2.
    pub(super) async fn start(answer: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let noted = seen.clone();
        let serve = move |method: Method, uri: Uri, body: Bytes| {
            let path = uri.path_and_query().map_or("", |path| path.as_str());
            let asked = format!("{method} {}", path.strip_prefix("/api/v10").unwrap_or(path));
            noted.lock().unwrap().push((asked.clone(), serde_json::from_slice(&body).unwrap_or_default()));
            let (status, body) = match asked.as_str() {
                "GET /users/@me" => (200, json!({"id": "1", "username": "flock"})),
                "GET /applications/@me" => (200, json!({"id": "2", "flags": 1 << 19})),
                _ => answer(&asked),
            };
            async move { (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response() }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (discord, folder) = discord_at(&address);
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(serve)).await });
        fs_err::create_dir_all(folder.path().join("secrets")).unwrap();
        Self { discord, seen, _folder: folder }
    }

    /// Returns the requests but for those that ask for the account.
    pub(super) fn asked(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let account = ["GET /users/@me", "GET /applications/@me"];
        seen.iter()
            .map(|(asked, _)| asked.clone())
            .filter(|asked| !account.contains(&asked.as_str()))
            .collect()
    }

    /// Returns the body of the last request that begins so.
    pub(super) fn body(&self, asked: &str) -> Value {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .rev()
            .find(|(one, _)| one.starts_with(asked))
            .map(|(_, body)| body.clone())
            .unwrap_or_default()
    }
}
