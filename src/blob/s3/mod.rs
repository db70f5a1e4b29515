//! A store of blobs in a bucket with the API of S3, by five of its operations: put with a condition, get with a range,
//! head, list and delete.

mod answer;
mod xml;

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};

use self::answer::{Answer, Verdict};
use super::{BlobError, BlobFacts, BlobKey, BlobPage, BlobStore, Condition, MAX_BLOB, PAGE, Put};
use crate::clock;
use crate::config::S3Settings;
use crate::error::chain;
use crate::home::Home;
use crate::provider::BoxFuture;
use crate::provider::http::{HttpClients, HttpLimits, retry_after};
use crate::provider::key::{self, ApiKey};
use crate::provider::sigv4::{self, AccessKey, SigningScope, UnsignedRequest};

/// Time limit for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time limit for one attempt, without the time for its bytes.
const ATTEMPT: Duration = Duration::from_secs(30);
/// The slowest transfer that is waited for, in bytes per second.
const SLOWEST: u64 = 64 << 10;
/// Number of attempts for one operation.
const ATTEMPTS: u32 = 5;
/// Pause after the first attempt. It doubles with each one.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest pause that a server may ask for.
const MAX_PAUSE: Duration = Duration::from_secs(20);
/// The most bytes of a list or an error.
const MAX_TEXT: u64 = 4 << 20;

/// A bucket, or the part of one below a prefix.
pub(super) struct Bucket {
    home: Home,
    settings: S3Settings,
    place: String,
    http: HttpClients,
    /// Milliseconds by which the server's clock was ahead, or [`UNKNOWN`].
    ahead: AtomicI64,
}

const UNKNOWN: i64 = i64::MIN;

/// A request before it is signed.
struct Operation<'a> {
    method: Method,
    /// The key of the blob, or `None` for the bucket itself.
    key: Option<&'a BlobKey>,
    query: Vec<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    /// The most bytes of the answer.
    most: u64,
}

impl<'a> Operation<'a> {
    fn on(method: Method, key: &'a BlobKey) -> Self {
        Self {
            method,
            key: Some(key),
            query: Vec::new(),
            headers: Vec::new(),
            body: Bytes::new(),
            most: MAX_TEXT,
        }
    }
}

/// The answer to an operation, after as many attempts as it took.
struct Outcome {
    answer: Answer,
    /// `true` if an earlier attempt may have been carried out.
    is_repeated: bool,
}

impl Bucket {
    pub(super) fn new(home: &Home, settings: &S3Settings, place: String) -> Self {
        let limits = HttpLimits { connect: CONNECT, ..HttpLimits::default() };
        Self {
            home: home.clone(),
            settings: settings.clone(),
            place,
            http: HttpClients::new(limits),
            ahead: AtomicI64::new(UNKNOWN),
        }
    }

    /// Carries out an operation, and repeats it as long as another attempt can help.
    async fn run(&self, operation: &Operation<'_>) -> Result<Outcome, BlobError> {
        let keys = Keys::read(&self.home, &self.settings)
            .map_err(|problem| BlobError::Key { place: self.place.clone(), problem })?;
        let mut is_repeated = false;
        let mut attempt = 1;
        loop {
            let (problem, after) = match self.attempt(operation, &keys).await {
                Ok(answer) => match answer.verdict() {
                    Verdict::Final => return Ok(Outcome { answer, is_repeated }),
                    Verdict::Again => (answer.problem(), retry_after(&answer.headers, SystemTime::now())),
                },
                Err(problem) => (problem, None),
            };
            // A server that failed may have carried it out all the same.
            is_repeated = true;
            let problem = keys.scrub(&problem);
            if attempt == ATTEMPTS {
                return Err(BlobError::Unreachable { place: self.place.clone(), problem });
            }
            let pause = PAUSE * 2_u32.pow(attempt - 1);
            // Several gateways that failed at the same moment must not come back at the same moment.
            let pause = after.unwrap_or(pause).min(MAX_PAUSE).mul_f64(rand::random_range(1.0..1.5));
            tracing::debug!(
                place = self.place,
                problem,
                attempt,
                ?pause,
                "an operation on a blob is repeated"
            );
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// Sends the request once. Returns the reason if there is no complete answer.
    async fn attempt(&self, operation: &Operation<'_>, keys: &Keys) -> Result<Answer, String> {
        let bytes = operation.body.len() as u64 + operation.most;
        let limit = ATTEMPT + Duration::from_secs(bytes / SLOWEST);
        match tokio::time::timeout(limit, self.exchange(operation, keys)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no complete answer within {} seconds", limit.as_secs())),
        }
    }

    async fn exchange(&self, operation: &Operation<'_>, keys: &Keys) -> Result<Answer, String> {
        let url = self.url(operation)?;
        let headers = self.signed(operation, keys, &url)?;
        let client = self.http.client(&url).await?;
        let request = client.request(operation.method.clone(), url).headers(headers);
        // The head of an answer comes soon after the last byte of the request.
        let limit = ATTEMPT + Duration::from_secs(operation.body.len() as u64 / SLOWEST);
        let sent = tokio::time::timeout(limit, request.body(operation.body.clone()).send()).await;
        let sent = sent.map_err(|_| format!("no answer within {} seconds", limit.as_secs()))?;
        // The address is in the settings, and the chain of causes says what is wrong with it.
        let mut received = sent.map_err(|error| chain(&error.without_url()))?;
        let (status, headers) = (received.status(), received.headers().clone());
        self.note_clock(&headers);
        let announced = received.content_length();
        let most = if status.is_success() { operation.most } else { MAX_TEXT };
        let mut body = Vec::new();
        loop {
            match tokio::time::timeout(ATTEMPT, received.chunk()).await {
                Ok(Ok(Some(piece))) => body.extend_from_slice(&piece),
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return Err(chain(&error.without_url())),
                Err(_) => return Err(format!("nothing further within {} seconds", ATTEMPT.as_secs())),
            }
            if body.len() as u64 > most {
                return Err(format!("its answer has more than {most} bytes"));
            }
        }
        // An answer to HEAD announces a length and has no body.
        let is_whole =
            operation.method == Method::HEAD || announced.is_none_or(|length| length == body.len() as u64);
        if !is_whole {
            return Err("its answer broke off".to_owned());
        }
        Ok(Answer { status, headers, body: body.into() })
    }

    fn url(&self, operation: &Operation<'_>) -> Result<Url, String> {
        let mut url: Url =
            self.settings.endpoint.parse().map_err(|_| format!("{:?} is no URL", self.settings.endpoint))?;
        let mut path = url.path().trim_end_matches('/').to_owned();
        let whole = operation.key.map(|key| self.whole_key(key.as_str())).unwrap_or_default();
        // The key has only characters that need no encoding, but the bucket may be written otherwise.
        for part in self.settings.bucket.as_deref().into_iter().chain(whole.split('/')) {
            if !part.is_empty() {
                path.push('/');
                path.push_str(&sigv4::encode(part));
            }
        }
        if path.is_empty() {
            path.push('/');
        }
        url.set_path(&path);
        let query = query(&operation.query);
        url.set_query((!query.is_empty()).then_some(query.as_str()));
        Ok(url)
    }

    /// Returns the key in the bucket of a key of this store.
    fn whole_key(&self, key: &str) -> String {
        match self.settings.prefix.as_str() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        }
    }

    /// Returns the headers of a request, with the one that signs them.
    fn signed(&self, operation: &Operation<'_>, keys: &Keys, url: &Url) -> Result<HeaderMap, String> {
        let at = sigv4::timestamp(clock::unix_ms());
        let host = url.host_str().unwrap_or_default();
        // A `host` header contains the port only if it is not the default one, and the signature has to match it.
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        // The server compares the body with its digest, so a body that was changed on its way is refused.
        let body_digest = sigv4::digest(&operation.body);
        let mut headers: Vec<(&str, &str)> =
            operation.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend([
            ("host", host.as_str()),
            ("x-amz-content-sha256", body_digest.as_str()),
            ("x-amz-date", at.as_str()),
        ]);
        headers.extend(keys.token.as_ref().map(|token| ("x-amz-security-token", token.expose())));
        headers.sort_unstable();
        let request = UnsignedRequest {
            method: operation.method.as_str(),
            path: url.path(),
            query: url.query().unwrap_or_default(),
            headers: &headers,
            body_digest: &body_digest,
        };
        let scope = SigningScope { region: &self.settings.region, service: "s3" };
        let key = AccessKey { id: keys.id.expose(), secret: keys.secret.expose() };
        let authorization = sigv4::authorization(&request, key, scope, &at);
        headers.push(("authorization", authorization.as_str()));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            // The HTTP client writes this one itself.
            if name == "host" {
                continue;
            }
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            let mut value =
                HeaderValue::from_str(value).map_err(|_| format!("the value of {name} is no header"))?;
            // Sensitive values are hidden in the debug output of the HTTP library.
            value.set_sensitive(name == "authorization" || name == "x-amz-security-token");
            map.insert(name, value);
        }
        Ok(map)
    }

    /// Notes how far the server's clock is ahead.
    fn note_clock(&self, headers: &HeaderMap) {
        let date = headers.get("date").and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) {
            self.ahead.store(date.timestamp().as_millisecond() - clock::unix_ms(), Ordering::Relaxed);
        }
    }

    /// Returns the error of an answer that refuses an operation.
    fn refusal(&self, answer: &Answer, key: Option<&BlobKey>) -> BlobError {
        let place = self.place.clone();
        let code = answer.code();
        let mut problem = answer.problem();
        // Keys are read again: an error must not show one that the server repeats.
        if let Ok(keys) = Keys::read(&self.home, &self.settings) {
            problem = keys.scrub(&problem);
        }
        match (answer.status.as_u16(), code.as_deref(), key) {
            (_, Some("RequestTimeTooSkewed"), _) => BlobError::Clock { place, problem },
            // A bucket that does not exist is an error of the settings.
            (404, Some("NoSuchBucket"), _) => BlobError::Refused { place, problem },
            (404, _, Some(key)) => BlobError::Missing { place, key: key.clone() },
            (401 | 403, ..) => BlobError::Denied { place, problem },
            _ => BlobError::Refused { place, problem },
        }
    }

    fn damaged(&self, key: &BlobKey, reason: String) -> BlobError {
        BlobError::Damaged { place: self.place.clone(), key: key.clone(), reason }
    }
}

impl BlobStore for Bucket {
    fn place(&self) -> &str {
        &self.place
    }

    fn put<'a>(
        &'a self,
        key: &'a BlobKey,
        bytes: Bytes,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Put, BlobError>> {
        Box::pin(async move {
            let mut operation = Operation::on(Method::PUT, key);
            operation.headers.push(("content-type", "application/octet-stream".to_owned()));
            if condition == Condition::Absent {
                operation.headers.push(("if-none-match", "*".to_owned()));
            }
            operation.body = bytes.clone();
            let Outcome { answer, is_repeated } = self.run(&operation).await?;
            if answer.status.is_success() {
                return Ok(Put::Written);
            }
            if answer.status != StatusCode::PRECONDITION_FAILED || condition == Condition::Any {
                return Err(self.refusal(&answer, None));
            }
            // The answer to an attempt that wrote the blob may have been lost.
            let is_own = is_repeated && self.get(key, None).await.is_ok_and(|found| found == bytes);
            Ok(if is_own { Put::Written } else { Put::Exists })
        })
    }

    fn get<'a>(
        &'a self,
        key: &'a BlobKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Bytes, BlobError>> {
        Box::pin(async move {
            let mut operation = Operation::on(Method::GET, key);
            operation.most = MAX_BLOB;
            let Some(range) = range else {
                let answer = self.run(&operation).await?.answer;
                return if answer.status.is_success() {
                    Ok(answer.body)
                } else {
                    Err(self.refusal(&answer, Some(key)))
                };
            };
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            operation.headers.push(("range", format!("bytes={}-{}", range.start, range.end - 1)));
            let answer = self.run(&operation).await?.answer;
            if answer.status == StatusCode::RANGE_NOT_SATISFIABLE {
                return Err(self.damaged(key, format!("it has fewer than {} bytes", range.end)));
            }
            if !answer.status.is_success() {
                return Err(self.refusal(&answer, Some(key)));
            }
            answer.range(&range).map_err(|reason| self.damaged(key, reason))
        })
    }

    fn head<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<Option<BlobFacts>, BlobError>> {
        Box::pin(async move {
            let answer = self.run(&Operation::on(Method::HEAD, key)).await?.answer;
            if answer.status == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            if !answer.status.is_success() {
                return Err(self.refusal(&answer, Some(key)));
            }
            answer.facts().map(Some).ok_or_else(|| self.damaged(key, "its size is not told".to_owned()))
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BlobPage, BlobError>> {
        Box::pin(async move {
            let own = self.whole_key("");
            let mut query = vec![
                ("list-type", "2".to_owned()),
                ("max-keys", PAGE.to_string()),
                ("prefix", format!("{own}{prefix}")),
            ];
            // The last key, and not a token of the server: a list can go on after a failure, and in another process.
            query.extend(after.map(|after| ("start-after", format!("{own}{after}"))));
            let operation = Operation {
                method: Method::GET,
                key: None,
                query,
                headers: Vec::new(),
                body: Bytes::new(),
                most: MAX_TEXT,
            };
            let answer = self.run(&operation).await?.answer;
            if !answer.status.is_success() {
                return Err(self.refusal(&answer, None));
            }
            answer.page(&own, clock::unix_ms()).ok_or_else(|| {
                let problem = "its answer to a list is none of S3".to_owned();
                BlobError::Refused { place: self.place.clone(), problem }
            })
        })
    }

    fn delete<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<(), BlobError>> {
        Box::pin(async move {
            let answer = self.run(&Operation::on(Method::DELETE, key)).await?.answer;
            let is_gone =
                answer.status == StatusCode::NOT_FOUND && answer.code().as_deref() != Some("NoSuchBucket");
            if answer.status.is_success() || is_gone { Ok(()) } else { Err(self.refusal(&answer, None)) }
        })
    }

    fn clock_ahead(&self) -> Option<i64> {
        Some(self.ahead.load(Ordering::Relaxed)).filter(|ahead| *ahead != UNKNOWN)
    }
}

/// Returns a query as it is sent and signed. The names are given in their order.
fn query(parts: &[(&'static str, String)]) -> String {
    let encoded = parts.iter().map(|(name, value)| format!("{name}={}", sigv4::encode(value)));
    encoded.collect::<Vec<_>>().join("&")
}

/// The access key. It is read for each operation, so that a new one counts at once.
struct Keys {
    id: ApiKey,
    secret: ApiKey,
    token: Option<ApiKey>,
}

impl Keys {
    fn read(home: &Home, settings: &S3Settings) -> Result<Self, String> {
        Ok(Self {
            id: key::named(home, &settings.key_id)?,
            secret: key::named(home, &settings.secret)?,
            token: settings.token.as_deref().map(|token| key::named(home, token)).transpose()?,
        })
    }

    /// Returns a text without the secrets, because a server may repeat what it refuses.
    fn scrub(&self, text: &str) -> String {
        let text = self.secret.scrub(text);
        match &self.token {
            Some(token) => token.scrub(&text),
            None => text,
        }
    }
}
