//! Encodes a request body with the target's provider, for its judge. Nothing is sent.

use std::sync::Arc;

use serde_json::{Value, json};

use flock::agent::transcript::hygiene::Target;
use flock::home::Home;
use flock::provider::{Catalog, Message, Provider, Request, ToolSpec};

pub struct RequestEncoder {
    catalog: Catalog,
    home: Home,
}

impl RequestEncoder {
    pub fn new() -> Self {
        // The folder is never read, because no key is looked up.
        let home = Home::new("/nonexistent".into(), None);
        Self { catalog: Catalog::new(home.clone()), home }
    }

    /// Returns the request body for the target's provider, or `None` if flock has no encoder for its API.
    pub fn body(&self, target: &Target, messages: Vec<Arc<Message>>) -> Option<Value> {
        let body = self.provider(target)?.body(&request(target, messages)).unwrap();
        Some(serde_json::from_slice(&body).unwrap())
    }

    pub fn provider(&self, target: &Target) -> Option<Arc<dyn Provider>> {
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "models": {"providers": {target.route.provider(): {
                "baseUrl": "http://127.0.0.1:9", "api": target.route.api,
            }}},
        });
        let config = flock::config::parse::config(&document, &self.home).unwrap();
        Some(self.catalog.resolve_without_key(&target.route.model, &config).ok()?.provider)
    }
}

/// Returns the request for a target.
pub fn request(target: &Target, messages: Vec<Arc<Message>>) -> Request {
    Request {
        model: target.route.model().to_owned(),
        system: "You are a test.".to_owned(),
        messages,
        tools: vec![ToolSpec {
            name: "exec".to_owned(),
            description: "Runs a command.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}).into(),
        }],
        max_tokens: 1000,
        ..Request::default()
    }
}
