//! Client for Anthropic's Messages API, with streamed answers.

pub(super) mod decode;
mod encode;
pub mod relay;
pub(super) mod thinking;
mod wire;

use std::sync::Arc;

use super::http::{Endpoint, HttpClients};
use super::key::ApiKey;
use super::passthrough::{ForwardKind, Forwarder, nowhere};
use super::wire_format::{ConversationRules, WireFormat};
use super::{BoxFuture, Provider, ProviderError, Request, Response, Sink, stream};

/// The descriptor of the Messages API.
pub(crate) static FORMAT: WireFormat = WireFormat {
    client: Ok(|http, provider, base, key, _| Arc::new(Anthropic::new(http, provider, base, key))),
    uses_aws: false,
    conversation: ConversationRules::Messages,
    relay: Some(&relay::RELAY),
};

/// The version of the API that this client speaks.
const VERSION: &str = "2023-06-01";

/// A client for an API that speaks Anthropic's Messages format.
pub struct Anthropic {
    endpoint: Endpoint,
    http: Arc<HttpClients>,
}

impl Anthropic {
    /// Returns a client for the API at `base`: its root, with or without `/v1`.
    #[must_use]
    pub fn new(http: Arc<HttpClients>, provider: &str, base: &reqwest::Url, key: Option<&ApiKey>) -> Self {
        let mut url = base.clone();
        let root = base.path().trim_end_matches('/');
        url.set_path(&format!("{}/v1/messages", root.strip_suffix("/v1").unwrap_or(root)));
        let mut endpoint = Endpoint::new(provider, url, key.cloned());
        endpoint.header("anthropic-version", VERSION);
        if let Some(key) = key {
            endpoint.header("x-api-key", key.expose());
        }
        Self { endpoint, http }
    }
}

impl Provider for Anthropic {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        encode::request(request).map_err(|error| self.endpoint.failed(error.to_string()))
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let body = self.body(request)?;
            let mut decoder = decode::MessagesDecoder::new(sink, self.http.limits().answer);
            let mut endpoint = self.endpoint.clone();
            // Per request, because it depends on the tools and the effort.
            if thinking::uses_interleaved_thinking(request) {
                endpoint.header("anthropic-beta", thinking::INTERLEAVED_BETA);
            }
            stream::run(&endpoint, &self.http, body, &mut decoder).await?;
            Ok(decoder.finish(request))
        })
    }

    fn passage(&self, _model: &str, want: ForwardKind) -> Option<Forwarder> {
        let mut url = self.endpoint.url().clone();
        if want == ForwardKind::Count {
            url.path_segments_mut().ok()?.push("count_tokens");
        }
        let decoder = decode::MessagesDecoder::new(nowhere(), self.http.limits().answer);
        Some(Forwarder::new(self.endpoint.at(url), &self.http, Box::new(decoder)))
    }
}

/// Returns the number of thinking tokens for this effort, out of at most `max_tokens` of an answer.
///
/// Returns `None` if the model is told in another way or not at all. A `max_tokens` of 0 means that answers have no
/// limit.
#[must_use]
pub(crate) fn thinking_budget(model: &str, effort: crate::config::Effort, max_tokens: u64) -> Option<u32> {
    // Without a limit the budget is not reduced.
    let most = if max_tokens == 0 { u32::MAX } else { u32::try_from(max_tokens).unwrap_or(u32::MAX) };
    match thinking::of(model, Some(effort), most)? {
        (thinking::Thinking::Enabled { budget_tokens }, _) => Some(budget_tokens),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_url_may_hold_the_version() {
        for (base, expected) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            ("https://x.org/anthropic", "https://x.org/anthropic/v1/messages"),
        ] {
            let api = Anthropic::new(Arc::default(), "x", &base.parse().unwrap(), None);
            assert_eq!(api.endpoint.url().as_str(), expected);
        }
    }
}
