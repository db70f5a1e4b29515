//! OpenAI's Responses, streamed, and as Codex speaks it. Nothing is stored there: each request holds the whole
//! conversation, and reasoning travels in it encrypted.

mod codex;
pub(super) mod decode;
mod encode;
mod item;

use std::sync::Arc;

use encode::Form;
use reqwest::Url;

use super::http::{Endpoint, Http};
use super::key::ApiKey;
use super::{Block, BoxFuture, Delta, Provider, ProviderError, Request, Response, Sink, stream};

/// An API that speaks Responses.
pub struct Responses {
    endpoint: Endpoint,
    http: Arc<Http>,
    form: Form,
}

impl Responses {
    /// The API at `base`, which includes `/v1`. Of Azure the resource's address is enough.
    #[must_use]
    pub fn new(http: Arc<Http>, provider: &str, base: &Url, key: Option<&ApiKey>) -> Self {
        let azure = is_azure(base);
        let root = match base.path().trim_end_matches('/') {
            "" if azure => "/openai/v1",
            root => root,
        };
        let mut endpoint = Endpoint::new(provider, with_path(base, root), key.cloned());
        match key {
            Some(key) if azure => endpoint.header("api-key", key.expose()),
            Some(key) => endpoint.header("authorization", &format!("Bearer {}", key.expose())),
            None => {}
        }
        Self { endpoint, http, form: Form::PUBLIC }
    }

    /// Codex's API at `base`; of ChatGPT's the address with or without `/codex`.
    #[must_use]
    pub fn codex(http: Arc<Http>, provider: &str, base: &Url, key: Option<&ApiKey>) -> Self {
        let root = base.path().trim_end_matches('/');
        let root = if root.ends_with("/backend-api") { format!("{root}/codex") } else { root.to_owned() };
        let mut endpoint = Endpoint::new(provider, with_path(base, &root), key.cloned());
        endpoint.header("originator", "flock");
        endpoint.header("openai-beta", "responses=experimental");
        if let Some(key) = key {
            endpoint.header("authorization", &format!("Bearer {}", key.expose()));
            if let Some(account) = codex::account(key.expose()) {
                endpoint.header("chatgpt-account-id", &account);
            }
        }
        Self { endpoint, http, form: Form::CODEX }
    }

    fn body_as(&self, request: &Request, form: Form) -> Result<Vec<u8>, ProviderError> {
        encode::request(request, form).map_err(|error| self.endpoint.failed(error.to_string()))
    }

    async fn ask(&self, request: &Request, form: Form, sink: Sink<'_>) -> Result<Response, ProviderError> {
        let body = self.body_as(request, form)?;
        let mut decoder = decode::Events::new(sink, self.http.limits().answer);
        match &request.cache_key {
            // Codex's servers find the session's prompt by the header, not by the body alone.
            Some(key) if !form.ids => {
                let mut endpoint = self.endpoint.clone();
                endpoint.header("session_id", key);
                stream::run(&endpoint, &self.http, body, &mut decoder).await?;
            }
            _ => stream::run(&self.endpoint, &self.http, body, &mut decoder).await?,
        }
        Ok(decoder.finish(request))
    }
}

impl Provider for Responses {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        self.body_as(request, self.form)
    }

    /// Reasoning that the API can't read any more, or of which it misses a part, is left out once: without it
    /// the conversation can go on.
    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let mut passed = false;
            let mut watch = |delta: Delta| {
                passed = true;
                sink(delta);
            };
            let error = match self.ask(request, self.form, &mut watch).await {
                Err(error) if !passed && refuses_reasoning(&error) && has_reasoning(request) => error,
                other => return other,
            };
            tracing::warn!(%error, "asking again without the reasoning of earlier answers");
            self.ask(request, self.form.without_reasoning(), sink).await
        })
    }
}

/// Whether it is the reasoning in a request that was refused, or what hangs on it.
fn refuses_reasoning(error: &ProviderError) -> bool {
    let ProviderError::Rejected { message, status: 400 | 404, .. } = error else { return false };
    let said = message.to_ascii_lowercase();
    ["encrypted content", "encrypted_content", "'reasoning'", "'rs_", "'fc_", "'msg_"]
        .iter()
        .any(|word| said.contains(word))
}

fn has_reasoning(request: &Request) -> bool {
    let mut blocks = request.messages.iter().flat_map(|message| &message.content);
    blocks.any(|block| match block {
        Block::Thinking { signature, .. } => signature.is_some(),
        Block::ToolCall { id, .. } => id.contains('|'),
        _ => false,
    })
}

fn is_azure(base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default();
    [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"]
        .iter()
        .any(|end| host.ends_with(end))
}

fn with_path(base: &Url, root: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/responses", root.strip_suffix("/responses").unwrap_or(root)));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_appended_once() {
        for (base, expected) in [
            ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
            ("https://api.openai.com/v1/responses", "https://api.openai.com/v1/responses"),
            ("https://x.openai.azure.com", "https://x.openai.azure.com/openai/v1/responses"),
            (
                "https://x.openai.azure.com/openai?api-version=preview",
                "https://x.openai.azure.com/openai/responses?api-version=preview",
            ),
        ] {
            let api = Responses::new(Arc::default(), "x", &base.parse().unwrap(), None);
            assert_eq!(api.endpoint.url().as_str(), expected);
        }
        for base in ["https://chatgpt.com/backend-api", "https://chatgpt.com/backend-api/codex/"] {
            let api = Responses::codex(Arc::default(), "x", &base.parse().unwrap(), None);
            assert_eq!(api.endpoint.url().as_str(), "https://chatgpt.com/backend-api/codex/responses");
        }
    }

    #[test]
    fn only_refused_reasoning_is_left_out() {
        let refused = |status, message: &str| {
            refuses_reasoning(&ProviderError::from_status("x", status, message, None))
        };
        assert!(refused(400, "The encrypted content gAAA could not be verified."));
        assert!(refused(
            400,
            "Item 'rs_1' of type 'reasoning' was provided without its required following item"
        ));
        assert!(refused(404, "Item with id 'rs_1' not found."));
        assert!(!refused(400, "Your input exceeds the context window of this model."));
        assert!(!refused(500, "The encrypted content could not be verified."));
    }
}
