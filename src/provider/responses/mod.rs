//! Client for OpenAI's Responses API and Codex's variant of it, with streamed answers. Nothing is stored at the
//! provider: each request contains the whole conversation, with the reasoning encrypted.

mod codex;
pub(super) mod decode;
mod encode;
mod item;
mod relay;
mod wire;

use std::sync::Arc;

use encode::Variant;
pub(crate) use item::strip_item_id;
use reqwest::Url;

use super::http::{Endpoint, HttpClients};
use super::key::ApiKey;
use super::passthrough::{ForwardKind, Forwarder, nowhere};
use super::wire_format::{ConversationRules, WireFormat};
use super::{BoxFuture, Provider, ProviderError, Request, Response, Sink, stream};

/// The descriptor of the Responses API.
pub(crate) static FORMAT: WireFormat = WireFormat {
    client: Ok(|http, provider, base, key, _| Arc::new(Responses::new(http, provider, base, key))),
    uses_aws: false,
    conversation: ConversationRules::Responses,
    relay: Some(&relay::RELAY),
};

/// The descriptor of Codex's variant.
pub(crate) static CODEX: WireFormat = WireFormat {
    client: Ok(|http, provider, base, key, _| Arc::new(Responses::codex(http, provider, base, key))),
    uses_aws: false,
    conversation: ConversationRules::CodexResponses,
    relay: Some(&relay::RELAY),
};

/// A client for an API that speaks Responses.
pub struct Responses {
    endpoint: Endpoint,
    http: Arc<HttpClients>,
    form: Variant,
}

impl Responses {
    /// Returns a client for the API at `base`, which includes `/v1`. For Azure the resource's address is sufficient;
    /// behind another address Azure is recognised by `azure` in the provider's id.
    #[must_use]
    pub fn new(http: Arc<HttpClients>, provider: &str, base: &Url, key: Option<&ApiKey>) -> Self {
        let azure = is_azure(provider, base);
        let root = match base.path().trim_end_matches('/') {
            // The address of an Azure resource has no path.
            "" if azure => "/openai/v1",
            root => root,
        };
        let mut endpoint = Endpoint::new(provider, with_path(base, root), key.cloned());
        match key {
            // Azure expects the key in a header of its own.
            Some(key) if azure => endpoint.header("api-key", key.expose()),
            _ => endpoint.bearer(),
        }
        Self { endpoint, http, form: Variant::PUBLIC }
    }

    /// Returns a client for Codex's API at `base`. For ChatGPT the address may end with or without `/codex`.
    #[must_use]
    pub fn codex(http: Arc<HttpClients>, provider: &str, base: &Url, key: Option<&ApiKey>) -> Self {
        let root = base.path().trim_end_matches('/');
        let root = if root.ends_with("/backend-api") { format!("{root}/codex") } else { root.to_owned() };
        let mut endpoint = Endpoint::new(provider, with_path(base, &root), key.cloned());
        endpoint.header("originator", "flock");
        endpoint.header("openai-beta", "responses=experimental");
        endpoint.bearer();
        if let Some(account) = key.and_then(|key| codex::account(key.expose())) {
            endpoint.header("chatgpt-account-id", &account);
        }
        Self { endpoint, http, form: Variant::CODEX }
    }
}

impl Provider for Responses {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        encode::request(request, self.form).map_err(|error| self.endpoint.failed(error.to_string()))
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let body = self.body(request)?;
            let mut endpoint = self.endpoint.clone();
            // Codex's servers find the session's cached prompt by this header, not by the body alone.
            if let Some(key) = request.cache_key.as_deref().filter(|_| !self.form.ids) {
                endpoint.header("session_id", key);
            }
            let mut decoder = decode::ResponsesDecoder::new(sink, self.http.limits().answer);
            stream::run(&endpoint, &self.http, body, &mut decoder).await?;
            Ok(decoder.finish(request))
        })
    }

    fn passage(&self, _model: &str, want: ForwardKind) -> Option<Forwarder> {
        let decoder = Box::new(decode::ResponsesDecoder::new(nowhere(), self.http.limits().answer));
        (want != ForwardKind::Count).then(|| Forwarder::new(self.endpoint.clone(), &self.http, decoder))
    }
}

fn is_azure(provider: &str, base: &Url) -> bool {
    let host = base.host_str().unwrap_or_default();
    let public = [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"];
    provider.contains("azure") || public.iter().any(|end| host.ends_with(end))
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
}
