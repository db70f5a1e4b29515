//! A stand-in for a push service (RFC 8030 and 8292), and the keys of a browser that reads what it gets (RFC 8291).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use flock::clock::unix_ms;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use ring::{aead, agreement, hkdf};
use serde_json::Value;

/// A message as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub ttl: u64,
    pub urgency: String,
    pub topic: String,
    pub body: Vec<u8>,
    headers: BTreeMap<String, String>,
    /// The origin that it was sent to, if it is not the service's own.
    origin: Option<String>,
}

impl Received {
    pub fn without(mut self, header: &str) -> Self {
        self.headers.remove(header);
        self
    }

    pub fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.insert(header.to_owned(), value.to_owned());
        self
    }

    pub fn with_body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    pub fn for_other_origin(mut self) -> Self {
        self.origin = Some("https://elsewhere.example".to_owned());
        self
    }

    pub fn with_broken_signature(self) -> Self {
        let value = self.headers["authorization"].clone();
        let (token, key) = value.split_once(", k=").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let mut bytes = BASE64.decode(signature).unwrap();
        bytes[5] ^= 1;
        self.with("authorization", &format!("{signed}.{}, k={key}", BASE64.encode(bytes)))
    }

    pub fn with_claims(self, claims: Value) -> Self {
        let value = self.headers["authorization"].clone();
        let parts: Vec<&str> = value.splitn(3, '.').collect();
        let claims = BASE64.encode(claims.to_string());
        self.with("authorization", &format!("{}.{claims}.{}", parts[0], parts[2]))
    }
}

#[derive(Default)]
struct Log {
    received: Vec<Received>,
    refusals: Vec<String>,
    /// The key that the subscriptions are for.
    key: String,
}

/// A running service. The first part of a path says how it answers: `ok`, `gone`, `busy` (twice, then it takes the
/// message) or `down`.
#[derive(Clone)]
pub struct PushService {
    origin: String,
    log: Arc<Mutex<Log>>,
}

impl PushService {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let service = Self { origin, log: Arc::default() };
        let router = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    pub fn address(&self, path: &str) -> String {
        format!("{}/{path}", self.origin)
    }

    pub fn expect_key(&self, key: &str) {
        key.clone_into(&mut self.log.lock().unwrap().key);
    }

    pub fn received(&self) -> Vec<Received> {
        self.log.lock().unwrap().received.clone()
    }

    pub fn refusals(&self) -> Vec<String> {
        self.log.lock().unwrap().refusals.clone()
    }

    /// Decides about a message. The error names what is wrong.
    pub fn judge(&self, message: &Received) -> Result<(), String> {
        let header = |name: &str| message.headers.get(name).map(String::as_str);
        let check = |is_good: bool, what: &str| if is_good { Ok(()) } else { Err(what.to_owned()) };
        check(header("ttl").is_some_and(|ttl| ttl.parse::<u64>().is_ok()), "ttl")?;
        check(header("content-encoding") == Some("aes128gcm"), "content-encoding")?;
        check(matches!(header("urgency"), None | Some("very-low" | "low" | "normal" | "high")), "urgency")?;
        let is_topic = |topic: &str| {
            topic.len() <= 32 && topic.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
        };
        check(header("topic").is_none_or(is_topic), "topic")?;
        check(message.body.len() <= 4_096 && message.body.len() > 103, "length")?;
        let wrong = || "authorization".to_owned();
        let value =
            header("authorization").and_then(|value| value.strip_prefix("vapid t=")).ok_or_else(wrong)?;
        let (token, key) = value.split_once(", k=").ok_or_else(wrong)?;
        check(key == self.log.lock().unwrap().key, "key")?;
        let (signed, signature) = token.rsplit_once('.').ok_or_else(wrong)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, BASE64.decode(key).map_err(|_| wrong())?)
            .verify(signed.as_bytes(), &BASE64.decode(signature).map_err(|_| wrong())?)
            .map_err(|_| "signature".to_owned())?;
        let (head, claims) = signed.split_once('.').ok_or_else(wrong)?;
        let read = |part: &str| serde_json::from_slice::<Value>(&BASE64.decode(part).unwrap()).unwrap();
        check(read(head)["alg"] == "ES256", "alg")?;
        let claims = read(claims);
        check(claims["aud"] == *message.origin.as_ref().unwrap_or(&self.origin), "aud")?;
        let left = claims["exp"].as_i64().unwrap_or_default() - unix_ms() / 1_000;
        check((1..=24 * 3_600).contains(&left), "exp")
    }
}

async fn answer(State(service): State<PushService>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let headers: BTreeMap<String, String> =
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let message = Received {
        path: uri.path().to_owned(),
        ttl: header("ttl").parse().unwrap_or_default(),
        urgency: header("urgency"),
        topic: header("topic"),
        body: body.to_vec(),
        headers,
        origin: None,
    };
    let judged = service.judge(&message);
    let mut log = service.log.lock().unwrap();
    if let Err(wrong) = judged {
        log.refusals.push(wrong);
        return StatusCode::BAD_REQUEST.into_response();
    }
    let earlier = log.received.iter().filter(|other| other.path == message.path).count();
    log.received.push(message);
    match uri.path().split('/').nth(1) {
        Some("ok") => StatusCode::CREATED.into_response(),
        Some("gone") => StatusCode::GONE.into_response(),
        Some("busy") if earlier < 2 => {
            (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")]).into_response()
        }
        Some("busy") => StatusCode::CREATED.into_response(),
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The keys of a browser. They read one message, because the library gives a private key away with its use.
pub struct TestKeys {
    private: agreement::EphemeralPrivateKey,
    public: Vec<u8>,
    auth: [u8; 16],
}

impl TestKeys {
    pub fn new() -> Self {
        let private =
            agreement::EphemeralPrivateKey::generate(&agreement::ECDH_P256, &SystemRandom::new()).unwrap();
        let public = private.compute_public_key().unwrap().as_ref().to_vec();
        Self { private, public, auth: *b"sixteen bytes it" }
    }

    pub fn public(&self) -> String {
        BASE64.encode(&self.public)
    }

    pub fn auth(&self) -> String {
        BASE64.encode(self.auth)
    }

    /// Reads a message as a browser does.
    pub fn open(self, body: &[u8]) -> String {
        let (salt, rest) = body.split_at(16);
        let (size, rest) = rest.split_at(4);
        assert!(u32::from_be_bytes(size.try_into().unwrap()) >= 18);
        let (sender, record) = rest[1..].split_at(usize::from(rest[0]));
        let theirs = agreement::UnparsedPublicKey::new(&agreement::ECDH_P256, sender);
        let shared = agreement::agree_ephemeral(self.private, &theirs, <[u8]>::to_vec).unwrap();
        let info = [b"WebPush: info\0", &self.public[..], sender].concat();
        let input = derive(&self.auth, &shared, &info, 32);
        let key = derive(salt, &input, b"Content-Encoding: aes128gcm\0", 16);
        let nonce = derive(salt, &input, b"Content-Encoding: nonce\0", 12);
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key).unwrap());
        let nonce = aead::Nonce::try_assume_unique_for_key(&nonce).unwrap();
        let mut record = record.to_vec();
        let opened = key.open_in_place(nonce, aead::Aad::empty(), &mut record).unwrap();
        let end = opened.iter().rposition(|byte| *byte != 0).unwrap();
        assert_eq!(opened[end], 2, "it is the last record");
        String::from_utf8(opened[..end].to_vec()).unwrap()
    }
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive(salt: &[u8], secret: &[u8], info: &[u8], length: usize) -> Vec<u8> {
    let mut derived = vec![0; length];
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    prk.expand(&[info], Length(length)).unwrap().fill(&mut derived).unwrap();
    derived
}
