//! Client for Amazon Bedrock's Converse API: the request is signed JSON, the answer is a stream of binary frames.

mod credentials;
pub(super) mod decode;
mod effort;
mod encode;
mod family;
mod frame;
mod region;
mod wire;

use std::sync::Arc;

pub(crate) use credentials::from_environment;
use credentials::{Credentials, KeyPair};
use decode::ConverseDecoder;
use frame::FrameParser;
pub(crate) use region::public_address;
use reqwest::Url;

use super::decoder::{EventError, Progress, explain};
use super::http::{Endpoint, HttpClients};
use super::key::ApiKey;
use super::sigv4::{self, AccessKey, SigningScope, UnsignedRequest};
use super::wire_format::{ConversationRules, WireFormat};
use super::{BoxFuture, Provider, ProviderError, Request, Response, Sink};
use crate::clock;

/// The descriptor of the Converse API.
pub(crate) static FORMAT: WireFormat = WireFormat {
    client: Ok(|http, provider, base, key, region| Arc::new(Bedrock::new(http, provider, base, key, region))),
    uses_aws: true,
    conversation: ConversationRules::Converse,
    // Each request is signed.
    relay: None,
};

const SERVICE: &str = "bedrock";

/// A client for Bedrock, or for a server with the same API.
pub struct Bedrock {
    base: Url,
    endpoint: Endpoint,
    http: Arc<HttpClients>,
    credentials: Option<Credentials>,
    region: String,
}

impl Bedrock {
    /// Returns a client for the API at `base`.
    ///
    /// The key is an API key of Bedrock, or a pair of AWS keys, `ID:SECRET` or `ID:SECRET:TOKEN`. Requests are signed
    /// for `region` if `base` does not contain a region.
    #[must_use]
    pub fn new(
        http: Arc<HttpClients>,
        provider: &str,
        base: &Url,
        key: Option<&ApiKey>,
        region: Option<&str>,
    ) -> Self {
        let mut endpoint = Endpoint::new(provider, base.clone(), key.cloned());
        endpoint.header("accept", "application/vnd.amazon.eventstream");
        let credentials = key.map(Credentials::read);
        if let Some(Credentials::Bearer(key)) = &credentials {
            endpoint.header("authorization", &format!("Bearer {}", key.expose()));
        }
        Self { region: region::of(base, region), base: base.clone(), endpoint, http, credentials }
    }

    /// Returns the address for this model.
    fn url(&self, model: &str) -> Url {
        let mut url = self.base.clone();
        let root = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{root}/model/{}/converse-stream", sigv4::encode(model)));
        // The signature is computed for an empty query.
        url.set_query(None);
        url
    }

    /// Returns the endpoint with the headers that sign this request at this time (Unix milliseconds).
    fn signed(&self, url: &Url, body: &[u8], now: i64) -> Endpoint {
        let mut endpoint = self.endpoint.at(url.clone());
        let Some(Credentials::Pair(pair)) = &self.credentials else { return endpoint };
        let at = sigv4::timestamp(now);
        endpoint.header("x-amz-date", &at);
        if let Some(token) = pair.token() {
            endpoint.header("x-amz-security-token", token);
        }
        endpoint.header("authorization", &self.authorization(pair, url, body, &at));
        endpoint
    }

    fn authorization(&self, pair: &KeyPair, url: &Url, body: &[u8], at: &str) -> String {
        let host = url.host_str().unwrap_or_default();
        // A `host` header contains the port only if it is not the default one, and the signature has to match it.
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        // Sorted by name, as the signature requires. The token's header sorts last.
        let mut headers = vec![("content-type", "application/json"), ("host", &host), ("x-amz-date", at)];
        headers.extend(pair.token().map(|token| ("x-amz-security-token", token)));
        let body_digest = sigv4::digest(body);
        let request = UnsignedRequest {
            method: "POST",
            path: url.path(),
            // The address has no query.
            query: "",
            headers: &headers,
            body_digest: &body_digest,
        };
        let scope = SigningScope { region: &self.region, service: SERVICE };
        let key = AccessKey { id: pair.id(), secret: pair.secret() };
        sigv4::authorization(&request, key, scope, at)
    }

    async fn run(
        &self,
        endpoint: &Endpoint,
        body: Vec<u8>,
        answer: &mut ConverseDecoder<'_>,
    ) -> Result<(), ProviderError> {
        let mut received = endpoint.post(&self.http, body).await?;
        // A frame contains more than the answer's text, so it may be larger than the answer's limit.
        let mut frames = FrameParser::new(self.http.limits().answer.saturating_mul(2));
        let mut progress = None;
        loop {
            let chunk = match received.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The answer is complete, so a later failure of the connection does not matter.
                Err(_) if progress == Some(Progress::Stopped) => return Ok(()),
                Err(error) => return Err(error),
            };
            let fed = frames.feed(&chunk, |frame| {
                progress = Some(answer.frame(frame)?);
                Ok::<(), EventError>(())
            });
            match (fed, progress) {
                (_, Some(Progress::Done)) => {
                    received.finish();
                    return Ok(());
                }
                // The answer is complete. Only token counts are lost.
                (Err(_), Some(Progress::Stopped)) => return Ok(()),
                (Err(error), _) => return Err(explain(endpoint, error)),
                (Ok(()), Some(Progress::Stopped)) => received.settle(),
                (Ok(()), _) => {}
            }
        }
        match progress {
            Some(Progress::Stopped | Progress::Done) => Ok(()),
            Some(Progress::Running) => Err(endpoint.failed("it broke off in the middle of its answer")),
            None if frames.is_pending() => Err(endpoint.garbled("there is no whole event in it")),
            None => Err(endpoint.failed("it closed the connection without an answer")),
        }
    }
}

impl Provider for Bedrock {
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
            let endpoint = self.signed(&self.url(&request.model), &body, clock::unix_ms());
            let mut answer = ConverseDecoder::new(sink, self.http.limits().answer);
            self.run(&endpoint, body, &mut answer).await?;
            Ok(answer.finish(request))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bedrock(base: &str) -> Bedrock {
        let key = ApiKey::new("AKID:secret:token");
        Bedrock::new(Arc::default(), "x", &base.parse().unwrap(), key.as_ref(), None)
    }

    #[test]
    fn the_models_id_stays_one_part_of_the_path() {
        let api = bedrock("https://bedrock-runtime.eu-west-1.amazonaws.com/");
        assert_eq!(api.region, "eu-west-1");
        assert_eq!(
            api.url("anthropic.claude-v1:0").as_str(),
            "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-v1%3A0/converse-stream"
        );
        assert_eq!(api.url("a/../b").path(), "/model/a%2F..%2Fb/converse-stream");
    }

    #[test]
    fn timestamps_have_the_format_of_signatures() {
        assert_eq!(sigv4::timestamp(1_440_938_160_000), "20150830T123600Z");
    }
}
