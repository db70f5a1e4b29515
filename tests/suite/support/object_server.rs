//! A stand-in for object storage with the API of S3. It checks every signature and digest, knows conditions, ranges and
//! pages, and fails as a test says.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use super::served_router::ServedRouter;

pub const BUCKET: &str = "team";
pub const REGION: &str = "eu-test-1";
pub const KEY_ID: &str = "AKIDSTANDIN";
/// It has the form of a key that must be in no log and no error.
pub const SECRET: &str = "planted/Secret+of-the-bucket-7Qx";

/// A failure of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers with a status and a code, and does nothing.
    Status(u16, &'static str),
    /// Answers so many milliseconds late.
    Slow(u64),
    /// Does what is asked, and breaks the connection off before the answer is complete.
    Lost,
    /// Sends half of a blob and breaks the connection off.
    Truncated,
    /// Changes a byte of a blob on its way to the client.
    Flipped,
    /// Takes a body as if a byte of it had been changed on its way.
    Garbled,
}

#[derive(Default)]
struct Known {
    blobs: Mutex<BTreeMap<String, (Bytes, i64)>>,
    faults: Mutex<VecDeque<Fault>>,
    always: Mutex<Option<Fault>>,
    requests: Mutex<Vec<String>>,
    /// Milliseconds by which the server's clock is ahead.
    ahead: AtomicI64,
    ignores_conditions: AtomicBool,
    ignores_ranges: AtomicBool,
}

/// A server on a port of its own, which ends with the test.
pub struct ObjectServer {
    served: ServedRouter,
    known: Arc<Known>,
}

impl ObjectServer {
    pub fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    /// Starts an empty one at an address that another one had.
    pub fn start_at(address: SocketAddr) -> Self {
        let known = Arc::new(Known::default());
        let router = Router::new()
            .fallback(answer)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(known.clone());
        Self { served: ServedRouter::start_at(address, router), known }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.served.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.served.address
    }

    /// Fails the next request in this way.
    pub fn fail(&self, fault: Fault) -> &Self {
        self.known.faults.lock().unwrap().push_back(fault);
        self
    }

    /// Fails every further request in this way, or none.
    pub fn always(&self, fault: Option<Fault>) -> &Self {
        *self.known.always.lock().unwrap() = fault;
        self
    }

    pub fn set_clock_ahead(&self, milliseconds: i64) {
        self.known.ahead.store(milliseconds, Ordering::SeqCst);
    }

    pub fn ignore_conditions(&self) {
        self.known.ignores_conditions.store(true, Ordering::SeqCst);
    }

    pub fn ignore_ranges(&self) {
        self.known.ignores_ranges.store(true, Ordering::SeqCst);
    }

    /// The keys of all blobs that begin so.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let blobs = self.known.blobs.lock().unwrap();
        blobs.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    pub fn blob(&self, key: &str) -> Option<Bytes> {
        self.known.blobs.lock().unwrap().get(key).map(|(bytes, _)| bytes.clone())
    }

    /// Puts a blob there behind flock's back, or removes it.
    pub fn set_blob(&self, key: &str, bytes: Option<Bytes>) {
        let mut blobs = self.known.blobs.lock().unwrap();
        match bytes {
            Some(bytes) => drop(blobs.insert(key.to_owned(), (bytes, now()))),
            None => drop(blobs.remove(key)),
        }
    }

    /// Sets the time at which all blobs were written.
    pub fn set_age(&self, age: Duration) {
        let at = now() - i64::try_from(age.as_millis()).unwrap();
        self.known.blobs.lock().unwrap().values_mut().for_each(|(_, written)| *written = at);
    }

    /// Method, path and query of the requests so far, with the first word of the outcome.
    pub fn requests(&self) -> Vec<String> {
        self.known.requests.lock().unwrap().clone()
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn refuse(status: u16, code: &str) -> Response {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{code} &amp; no more</Message></Error>"
    );
    (StatusCode::from_u16(status).unwrap(), [("content-type", "application/xml")], body).into_response()
}

async fn answer(
    State(known): State<Arc<Known>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let always = *known.always.lock().unwrap();
    let fault = always.or_else(|| known.faults.lock().unwrap().pop_front());
    let mut response = match fault {
        Some(Fault::Status(status, code)) => refuse(status, code),
        _ => {
            if let Some(Fault::Slow(milliseconds)) = fault {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            }
            let body = if fault == Some(Fault::Garbled) { Bytes::from_static(b"garbled") } else { body };
            match check(&known, &method, &uri, &headers, &body) {
                Err(refused) => *refused,
                Ok(()) => carry_out(&known, &method, &uri, &headers, body),
            }
        }
    };
    known.requests.lock().unwrap().push(format!("{method} {uri} {}", response.status().as_u16()));
    let at = jiff::Timestamp::from_millisecond(now() + known.ahead.load(Ordering::SeqCst)).unwrap();
    let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    response.headers_mut().insert("date", date.parse().unwrap());
    match fault {
        Some(Fault::Lost) => broken(&response, Bytes::new(), 7),
        Some(Fault::Truncated | Fault::Flipped)
            if method == Method::GET && response.status().is_success() =>
        {
            let head = response.headers().clone();
            let status = response.status();
            let whole = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            if fault == Some(Fault::Truncated) {
                let half = whole.slice(..whole.len() / 2);
                broken(&(status, head).into_response(), half, whole.len())
            } else {
                let mut bytes = whole.to_vec();
                if let Some(last) = bytes.last_mut() {
                    *last ^= 1;
                }
                (status, head, bytes).into_response()
            }
        }
        _ => response,
    }
}

/// An answer that announces more bytes than it has.
fn broken(of: &Response, bytes: Bytes, announced: usize) -> Response {
    let pieces = [Ok(bytes), Err(std::io::Error::other("broken off"))];
    let mut response = Response::new(Body::from_stream(futures_util::stream::iter(pieces)));
    *response.status_mut() = of.status();
    response.headers_mut().clone_from(of.headers());
    response.headers_mut().insert("content-length", announced.into());
    response
}

/// Checks the signature and the digest of a request, as AWS's documentation says, by code of its own.
fn check(
    known: &Known,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<(), Box<Response>> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let fields = header("authorization")
        .strip_prefix("AWS4-HMAC-SHA256 ")
        .ok_or_else(|| Box::new(refuse(403, "AccessDenied")))?;
    let field = |name: &str| -> String {
        let mut found = fields.split(", ").filter_map(|field| field.split_once('='));
        found.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let at = header("x-amz-date");
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", at)
        .and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC))
        .map_err(|_| Box::new(refuse(403, "AccessDenied")))?;
    let own = now() + known.ahead.load(Ordering::SeqCst);
    if (time.timestamp().as_millisecond() - own).abs() > 15 * 60 * 1000 {
        return Err(Box::new(refuse(403, "RequestTimeTooSkewed")));
    }
    let day = &at[..8];
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let Some((id, signed_scope)) =
        field("Credential").split_once('/').map(|(id, rest)| (id.to_owned(), rest.to_owned()))
    else {
        return Err(Box::new(refuse(403, "AccessDenied")));
    };
    if id != KEY_ID {
        return Err(Box::new(refuse(403, "InvalidAccessKeyId")));
    }
    if signed_scope != scope {
        return Err(Box::new(refuse(400, "AuthorizationHeaderMalformed")));
    }
    let digest = header("x-amz-content-sha256");
    let names = field("SignedHeaders");
    for needed in ["host", "x-amz-content-sha256", "x-amz-date"] {
        assert!(names.split(';').any(|name| name == needed), "{needed} is not signed: {names}");
    }
    let mut query: Vec<String> = uri.query().unwrap_or_default().split('&').map(str::to_owned).collect();
    query.sort();
    let mut canonical = format!("{method}\n{}\n{}\n", uri.path(), query.join("&"));
    for name in names.split(';') {
        writeln!(canonical, "{name}:{}", header(name).trim()).unwrap();
    }
    write!(canonical, "\n{names}\n{digest}").unwrap();
    let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in [day, REGION, "s3", "aws4_request"] {
        key = mac(&key, part);
    }
    if hex(&mac(&key, &to_sign)) != field("Signature") {
        return Err(Box::new(refuse(403, "SignatureDoesNotMatch")));
    }
    if hex(&Sha256::digest(body)) != digest {
        return Err(Box::new(refuse(400, "XAmzContentSHA256Mismatch")));
    }
    Ok(())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn carry_out(known: &Known, method: &Method, uri: &Uri, headers: &HeaderMap, body: Bytes) -> Response {
    let path = percent_encoding::percent_decode_str(uri.path()).decode_utf8().unwrap().into_owned();
    let Some(rest) = path.strip_prefix(&format!("/{BUCKET}")) else { return refuse(404, "NoSuchBucket") };
    let key = rest.trim_start_matches('/');
    let mut blobs = known.blobs.lock().unwrap();
    if key.is_empty() {
        assert_eq!(method, Method::GET);
        return list(&blobs, uri.query().unwrap_or_default());
    }
    let found = blobs.get(key).cloned();
    match (method.as_str(), found) {
        ("PUT", Some(_))
            if headers.contains_key("if-none-match") && !known.ignores_conditions.load(Ordering::SeqCst) =>
        {
            refuse(412, "PreconditionFailed")
        }
        ("PUT", _) => {
            blobs.insert(key.to_owned(), (body, now()));
            StatusCode::OK.into_response()
        }
        ("DELETE", _) => {
            blobs.remove(key);
            StatusCode::NO_CONTENT.into_response()
        }
        ("HEAD", None) => StatusCode::NOT_FOUND.into_response(),
        (_, None) => refuse(404, "NoSuchKey"),
        ("HEAD" | "GET", Some((bytes, at))) => {
            let modified = jiff::Timestamp::from_millisecond(at).unwrap();
            let modified = modified.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            let range = headers.get("range").filter(|_| !known.ignores_ranges.load(Ordering::SeqCst));
            let Some(range) = range else {
                return ([("last-modified", modified)], bytes).into_response();
            };
            let (from, to) = range.to_str().unwrap().strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
            if from >= bytes.len() {
                return refuse(416, "InvalidRange");
            }
            let to = to.min(bytes.len() - 1);
            let told = format!("bytes {from}-{to}/{}", bytes.len());
            (StatusCode::PARTIAL_CONTENT, [("content-range", told)], bytes.slice(from..=to)).into_response()
        }
        _ => refuse(405, "MethodNotAllowed"),
    }
}

fn list(blobs: &BTreeMap<String, (Bytes, i64)>, query: &str) -> Response {
    let query: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    assert_eq!(query.get("list-type").map(String::as_str), Some("2"));
    let text = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let most: usize = text("max-keys").parse().unwrap();
    let (prefix, after) = (text("prefix"), text("start-after"));
    let fitting: Vec<_> =
        blobs.iter().filter(|(key, _)| key.starts_with(prefix) && key.as_str() > after).collect();
    let mut body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Name>{BUCKET}</Name><Prefix/><IsTruncated>{}</IsTruncated>",
        fitting.len() > most
    );
    for (key, (bytes, at)) in fitting.iter().take(most) {
        let at = jiff::Timestamp::from_millisecond(*at).unwrap();
        let (key, size) = (key.replace('&', "&amp;").replace('<', "&lt;"), bytes.len());
        write!(body, "<Contents><Key>{key}</Key><LastModified>{at}</LastModified><ETag>&quot;x&quot;</ETag><Size>{size}</Size></Contents>").unwrap();
    }
    body.push_str("</ListBucketResult>");
    ([("content-type", "application/xml")], body).into_response()
}
