//! Client for the chat completions API, with streamed answers, as OpenAI, Ollama, vLLM, llama.cpp, OpenRouter, Mistral
//! and others speak it.

mod chunk;
pub(super) mod decode;
mod dialect;
pub(super) mod effort;
mod encode;
mod reasoning_details;
pub(super) mod relay;
mod wire;

use std::sync::Arc;

use dialect::Dialect;
pub(crate) use dialect::wants_thinking_back;

use super::http::{Endpoint, HttpClients};
use super::key::ApiKey;
use super::passthrough::{ForwardKind, Forwarder, nowhere};
use super::wire_format::{ConversationRules, WireFormat};
use super::{BoxFuture, Provider, ProviderError, Request, Response, Sink, stream};

/// The descriptor of chat completions.
pub(crate) static FORMAT: WireFormat = WireFormat {
    client: Ok(|http, provider, base, key, _| Arc::new(OpenAi::new(http, provider, base, key))),
    uses_aws: false,
    conversation: ConversationRules::Completions,
    relay: Some(&relay::RELAY),
};

/// A client for an API that speaks chat completions.
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    http: Arc<HttpClients>,
    dialect: Dialect,
}

impl OpenAi {
    /// Returns a client for the API at `base`, which includes `/v1`. Private servers need no key.
    #[must_use]
    pub fn new(http: Arc<HttpClients>, provider: &str, base: &reqwest::Url, key: Option<&ApiKey>) -> Self {
        let mut url = base.clone();
        let root = base.path().trim_end_matches('/');
        url.set_path(&format!("{}/chat/completions", root.strip_suffix("/chat/completions").unwrap_or(root)));
        let dialect = Dialect::of(provider, base.host_str().unwrap_or_default());
        let mut endpoint = Endpoint::new(provider, url, key.cloned());
        endpoint.bearer();
        Self { endpoint, http, dialect }
    }
}

impl Provider for OpenAi {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        encode::request(request, self.dialect).map_err(|error| self.endpoint.failed(error.to_string()))
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let body = self.body(request)?;
            let decoder = decode::CompletionDecoder::new(sink, self.http.limits().answer);
            let mut decoder = decoder.priced(self.dialect.routes);
            stream::run(&self.endpoint, &self.http, body, &mut decoder).await?;
            Ok(decoder.finish(request))
        })
    }

    fn passage(&self, _model: &str, want: ForwardKind) -> Option<Forwarder> {
        let decoder = decode::CompletionDecoder::new(nowhere(), self.http.limits().answer);
        let decoder = Box::new(decoder.priced(self.dialect.routes));
        (want != ForwardKind::Count).then(|| Forwarder::new(self.endpoint.clone(), &self.http, decoder))
    }
}

/// Sends a finished request to a server that speaks chat completions but is no model API, and reads its answer. Such a
/// server runs a whole turn behind this interface.
///
/// # Errors
///
/// Returns [`ProviderError`] if the request fails, or if the answer breaks off or cannot be read.
pub async fn complete(
    endpoint: &Endpoint,
    http: &HttpClients,
    body: Vec<u8>,
    sink: Sink<'_>,
) -> Result<Response, ProviderError> {
    let mut decoder = decode::CompletionDecoder::new(sink, http.limits().answer);
    stream::run(endpoint, http, body, &mut decoder).await?;
    Ok(decoder.finish(&Request::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_appended_once() {
        for (base, expected) in [
            ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions"),
            ("http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1/chat/completions"),
            ("http://x/v1/chat/completions", "http://x/v1/chat/completions"),
            ("https://x/openai?api-version=1", "https://x/openai/chat/completions?api-version=1"),
        ] {
            let api = OpenAi::new(Arc::default(), "x", &base.parse().unwrap(), None);
            assert_eq!(api.endpoint.url().as_str(), expected);
        }
    }
}
