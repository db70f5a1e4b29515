//! A server that takes a request's body and answers nothing else: what its judge says comes after.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::agent::transcript::hygiene::Target;
use crate::home::Home;
use crate::provider::{Catalog, Message, Request, ToolSpec};

pub(super) struct Server {
    address: String,
    bodies: Mutex<Receiver<Vec<u8>>>,
    catalog: Catalog,
    home: Home,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (send, bodies) = channel();
        // Ends with the process: nothing waits for it.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
                        break;
                    }
                    if let Some((name, value)) = line.split_once(':')
                        && name.eq_ignore_ascii_case("content-length")
                    {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                if send.send(body).is_err() {
                    return;
                }
                let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().canonicalize().unwrap(), None);
        std::fs::create_dir(home.secrets()).unwrap();
        Self {
            address,
            bodies: Mutex::new(bodies),
            catalog: Catalog::new(home.clone()),
            home,
            _folder: folder,
        }
    }

    /// What the target's provider would be sent; `None` where flock does not write its wire.
    pub(super) async fn body(&self, target: &Target, messages: Vec<Arc<Message>>) -> Option<Value> {
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "models": {"providers": {target.route.provider(): {
                "baseUrl": self.address, "apiKey": "key", "api": target.route.api,
            }}},
        });
        let config = crate::config::parse::config(&document, &self.home).unwrap();
        let resolved = self.catalog.resolve(&target.route.model, &config).ok()?;
        let request = Request {
            model: target.route.model().to_owned(),
            system: "You are a test.".to_owned(),
            messages,
            tools: vec![ToolSpec {
                name: "exec".to_owned(),
                description: "Runs a command.".to_owned(),
                parameters: json!({"type": "object", "properties": {}}),
            }],
            max_tokens: 1000,
            ..Request::default()
        };
        resolved.provider.call(&request, &mut |_| {}).await.unwrap_err();
        // A provider may ask a second time with less; what counts is what it asked first.
        let bodies = self.bodies.lock().unwrap();
        let first = bodies.try_iter().collect::<Vec<_>>().into_iter().next().unwrap();
        Some(serde_json::from_slice(&first).unwrap())
    }
}
