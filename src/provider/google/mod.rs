//! Client for Google's generateContent API as the Gemini API offers it, with streamed answers.

pub(super) mod decode;
mod encode;
mod family;
mod relay;
mod schema;
pub mod signature;
mod wire;

use std::sync::Arc;

use family::Family;
use reqwest::Url;

use super::http::{Endpoint, HttpClients};
use super::key::ApiKey;
use super::passthrough::{ForwardKind, Forwarder, nowhere};
use super::wire_format::{ConversationRules, UnsupportedFormat, WireFormat};
use super::{BoxFuture, Provider, ProviderError, Request, Response, Sink, stream};
use crate::config::Api;

/// The descriptor of generateContent.
pub(crate) static FORMAT: WireFormat = WireFormat {
    client: Ok(|http, provider, base, key, _| Arc::new(Google::new(http, provider, base, key))),
    uses_aws: false,
    conversation: ConversationRules::Google,
    relay: Some(&relay::RELAY),
};

/// The descriptor of the API in the form that Gemini CLI uses.
pub(crate) static GEMINI_CLI: WireFormat = WireFormat {
    client: Err(UnsupportedFormat {
        reason: "google-gemini-cli is not spoken: it takes a sign-in with Google, which flock does not do. \
                 With a key of the Gemini API its models answer as google-generative-ai",
        instead: Api::GoogleGenerativeAi,
    }),
    uses_aws: false,
    conversation: ConversationRules::Google,
    relay: None,
};

/// The API version for an address that names none.
const VERSION: &str = "v1beta";

/// A client for an API that speaks generateContent.
pub struct Google {
    endpoint: Endpoint,
    http: Arc<HttpClients>,
}

impl Google {
    /// Returns a client for the API at `base`: its root, with or without the version.
    #[must_use]
    pub fn new(http: Arc<HttpClients>, provider: &str, base: &Url, key: Option<&ApiKey>) -> Self {
        let mut endpoint = Endpoint::new(provider, root(base), key.cloned());
        // The key is never sent in the address, because addresses end up in logs.
        if let Some(key) = key {
            endpoint.header("x-goog-api-key", key.expose());
        }
        Self { endpoint, http }
    }
}

impl Provider for Google {
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        let family = Family::of(&request.model);
        encode::request(request, family).map_err(|error| self.endpoint.failed(error.to_string()))
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let body = self.body(request)?;
            let mut url = method(self.endpoint.url(), &request.model, ForwardKind::Stream);
            url.query_pairs_mut().append_pair("alt", "sse");
            let endpoint = self.endpoint.at(url);
            let mut decoder = decode::GoogleDecoder::new(sink, self.http.limits().answer);
            stream::run(&endpoint, &self.http, body, &mut decoder).await?;
            Ok(decoder.finish(request))
        })
    }

    fn passage(&self, model: &str, want: ForwardKind) -> Option<Forwarder> {
        let endpoint = self.endpoint.at(method(self.endpoint.url(), model, want));
        let decoder = decode::GoogleDecoder::new(nowhere(), self.http.limits().answer);
        Some(Forwarder::new(endpoint, &self.http, Box::new(decoder)))
    }
}

/// Returns the address up to the version. A key in its query is removed.
fn root(base: &Url) -> Url {
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/');
    let has_version = path.rsplit('/').next().is_some_and(is_version);
    let path = if has_version { path.to_owned() } else { format!("{path}/{VERSION}") };
    url.set_path(&path);
    // A key in the address would end up in logs, and each request sets `alt` itself.
    let rest: Vec<(String, String)> = base
        .query_pairs()
        .filter(|(name, _)| name != "key" && name != "alt")
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_query(None);
    // `query_pairs_mut` would add a `?` even without any pair.
    if !rest.is_empty() {
        url.query_pairs_mut().extend_pairs(rest);
    }
    url
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the address of a method for a model. The model's name is encoded as part of the path, whatever it contains.
fn method(root: &Url, model: &str, want: ForwardKind) -> Url {
    let method = match want {
        ForwardKind::Answer => "generateContent",
        ForwardKind::Stream => "streamGenerateContent",
        ForwardKind::Count => "countTokens",
    };
    let mut url = root.clone();
    // A model's name may begin with its collection.
    let (collection, name) = match model.split_once('/') {
        Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
        _ => ("models", model),
    };
    if let Ok(mut path) = url.path_segments_mut() {
        path.push(collection).push(&format!("{name}:{method}"));
    }
    url
}

/// Returns the `thinkingConfig` of a model for this effort, or `None` if the model knows none.
#[must_use]
pub fn thinking(model: &str, effort: crate::config::Effort) -> Option<serde_json::Value> {
    Family::of(model).thinking(effort).and_then(|thinking| serde_json::to_value(thinking).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_contains_the_model_and_never_the_key() {
        let host = "https://generativelanguage.googleapis.com";
        for (base, model, expected) in [
            ("", "gemini-3-pro", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
            ("/v1beta/", "gemini-3-pro", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
            ("/v1?key=planted", "m", "/v1/models/m:streamGenerateContent?alt=sse"),
            ("", "tunedModels/mine", "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse"),
            ("", "../x?y", "/v1beta/models/..%2Fx%3Fy:streamGenerateContent?alt=sse"),
            ("/a?b=c", "m", "/a/v1beta/models/m:streamGenerateContent?b=c&alt=sse"),
        ] {
            let mut url =
                method(&root(&format!("{host}{base}").parse().unwrap()), model, ForwardKind::Stream);
            url.query_pairs_mut().append_pair("alt", "sse");
            assert_eq!(url.as_str(), format!("{host}{expected}"));
        }
    }
}
