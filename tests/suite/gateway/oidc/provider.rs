//! A provider of OpenID Connect on this machine. It signs with real keys, and refuses what a real one refuses: a client or an
//! address that it does not know, a code that was used, and a proof key that is not the one of the code.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flock::clock::unix_ms;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

pub const CLIENT: &str = "flock-of-the-test";
pub const SECRET: &str = "client-secret-of-the-test";

/// Changes the header and the claims of the next tokens.
pub type Twist = Box<dyn Fn(&mut Value, &mut Value) + Send>;

/// Signs a message.
pub type Signer = Box<dyn Fn(&str) -> String + Send>;

pub struct Provider {
    pub port: u16,
    state: Arc<Mutex<Shared>>,
}

pub struct Shared {
    issuer: String,
    /// The addresses to which browsers may be led back.
    pub redirects: Vec<String>,
    /// The account of the person who sits at the browser.
    pub subject: String,
    pub email: Value,
    pub email_verified: Value,
    keys: Vec<(String, EcdsaKeyPair)>,
    codes: BTreeMap<String, Code>,
    made: usize,
    pub twist: Option<Twist>,
    /// Replaces the signature of the next tokens.
    pub signature: Option<Signer>,
    /// Values of the document that replace its own.
    pub document: Value,
    /// The answer at a path, in place of the right one.
    pub instead: Option<(&'static str, StatusCode, String)>,
    /// The requests that came, as in `POST /token`.
    pub log: Vec<String>,
}

struct Code {
    redirect: String,
    challenge: String,
    nonce: String,
    is_used: bool,
}

impl Provider {
    /// A provider that leads browsers back to these addresses.
    pub async fn new(redirects: Vec<String>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(Shared {
            issuer: format!("http://127.0.0.1:{port}"),
            redirects,
            subject: "4711".to_owned(),
            email: Value::Null,
            email_verified: Value::Null,
            keys: vec![("k1".to_owned(), new_key())],
            codes: BTreeMap::new(),
            made: 0,
            twist: None,
            signature: None,
            document: json!({}),
            instead: None,
            log: Vec::new(),
        }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, state }
    }

    pub fn issuer(&self) -> String {
        self.lock().issuer.clone()
    }

    /// Sets the address of the account, and whether it is verified.
    pub fn set_email(&self, email: Value, is_verified: Value) {
        let mut state = self.lock();
        (state.email, state.email_verified) = (email, is_verified);
    }

    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().unwrap()
    }

    /// Replaces the key with which tokens are signed. The old one is gone from the document.
    pub fn rotate(&self) {
        let mut state = self.lock();
        let id = format!("k{}", state.made + 100);
        state.made += 1;
        state.keys = vec![(id, new_key())];
    }

    /// The public point of the key, as bytes.
    pub fn point(&self) -> Vec<u8> {
        self.lock().keys[0].1.public_key().as_ref().to_vec()
    }

    /// The number of requests to a path.
    pub fn count(&self, request: &str) -> usize {
        self.lock().log.iter().filter(|one| *one == request).count()
    }
}

fn new_key() -> EcdsaKeyPair {
    let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let made = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).unwrap()
}

async fn answer(State(state): State<Arc<Mutex<Shared>>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let mut state = state.lock().unwrap();
    let path = head.uri.path().to_owned();
    state.log.push(format!("{} {path}", head.method));
    if let Some((at, status, text)) = &state.instead
        && *at == path
    {
        let mut response = Response::new(Body::from(text.clone()));
        *response.status_mut() = *status;
        if status.is_redirection() {
            response.headers_mut().insert(header::LOCATION, text.parse().unwrap());
        }
        return response;
    }
    match (head.method.as_str(), path.as_str()) {
        ("GET", "/.well-known/openid-configuration") => reply(StatusCode::OK, &state.described()),
        ("GET", "/keys") => reply(StatusCode::OK, &state.jwks()),
        ("GET", "/authorize") => state.authorize(head.uri.query().unwrap_or_default()),
        ("POST", "/token") => {
            let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            match state.exchange(authorization.unwrap_or_default(), &body) {
                Ok(answer) => reply(StatusCode::OK, &answer),
                Err(error) => reply(StatusCode::BAD_REQUEST, &json!({"error": error})),
            }
        }
        _ => reply(StatusCode::NOT_FOUND, &json!({})),
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    response
}

fn pairs(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

impl Shared {
    fn described(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut document = json!({
            "issuer": self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "jwks_uri": at("/keys"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        for (name, value) in self.document.as_object().unwrap() {
            document[name] = value.clone();
        }
        document
    }

    fn jwks(&self) -> Value {
        let keys = self.keys.iter().map(|(id, key)| {
            let point = key.public_key().as_ref();
            let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
            json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": id, "x": x, "y": y})
        });
        json!({"keys": keys.collect::<Vec<_>>()})
    }

    /// Lets the person sign in, and leads the browser back with a code.
    fn authorize(&mut self, query: &str) -> Response<Body> {
        let asked = pairs(query.as_bytes());
        let part = |name: &str| asked.get(name).cloned().unwrap_or_default();
        let redirect = part("redirect_uri");
        let is_right = part("client_id") == CLIENT
            && self.redirects.contains(&redirect)
            && part("response_type") == "code"
            && part("scope").split(' ').any(|scope| scope == "openid")
            && part("code_challenge_method") == "S256"
            && part("code_challenge").len() == 43
            && ["state", "nonce"].iter().all(|name| part(name).len() >= 32);
        if !is_right {
            // A real provider leads nobody to an address that it does not know.
            return reply(StatusCode::BAD_REQUEST, &json!({"error": "invalid_request"}));
        }
        self.made += 1;
        let code = format!("code-{}-{}", self.made, part("nonce"));
        let known = Code {
            redirect: redirect.clone(),
            challenge: part("code_challenge"),
            nonce: part("nonce"),
            is_used: false,
        };
        self.codes.insert(code.clone(), known);
        let mut answer = form_urlencoded::Serializer::new(String::new());
        answer.append_pair("code", &code).append_pair("state", &part("state"));
        answer.append_pair("iss", &self.issuer);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::FOUND;
        let address = format!("{redirect}?{}", answer.finish());
        response.headers_mut().insert(header::LOCATION, address.parse().unwrap());
        response
    }

    fn exchange(&mut self, authorization: &str, body: &[u8]) -> Result<Value, &'static str> {
        let sent = pairs(body);
        let part = |name: &str| sent.get(name).cloned().unwrap_or_default();
        let expected = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{SECRET}")));
        if authorization != expected {
            return Err("invalid_client");
        }
        if part("grant_type") != "authorization_code" {
            return Err("unsupported_grant_type");
        }
        let code = self.codes.get_mut(&part("code")).ok_or("invalid_grant")?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(part("code_verifier")));
        // A code is spent by its first use, also by a wrong one.
        let is_right = !code.is_used && code.redirect == part("redirect_uri") && code.challenge == challenge;
        code.is_used = true;
        let nonce = code.nonce.clone();
        if !is_right {
            return Err("invalid_grant");
        }
        Ok(
            json!({"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": self.token(&nonce)}),
        )
    }

    fn token(&self, nonce: &str) -> String {
        let now = unix_ms() / 1000;
        let (id, key) = &self.keys[0];
        let mut head = json!({"alg": "ES256", "kid": id, "typ": "JWT"});
        let mut claims = json!({"iss": self.issuer, "sub": self.subject, "aud": CLIENT, "iat": now, "exp": now + 300,
            "nonce": nonce, "email": self.email, "email_verified": self.email_verified});
        if let Some(twist) = &self.twist {
            twist(&mut head, &mut claims);
        }
        let message = format!("{}.{}", encoded(&head), encoded(&claims));
        let signature = match &self.signature {
            Some(signature) => signature(&message),
            None => {
                let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
                URL_SAFE_NO_PAD.encode(signature.as_ref())
            }
        };
        format!("{message}.{signature}")
    }
}
