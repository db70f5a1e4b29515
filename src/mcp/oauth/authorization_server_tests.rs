//! An MCP server with an authorization server, for tests. It refuses what real ones refuse: a wrong proof key, a code that
//! was used, another redirect, another resource, another client, a token that has ended or was revoked. The second use of a
//! refresh token ends everything that came from it. A test plays the browser.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Response, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock::unix_ms;
use crate::sync::lock;

/// The habits of the servers. The default is a good server that lets clients register themselves.
#[derive(Clone)]
pub(super) struct Habits {
    /// The server's document. `None` if it has none.
    pub resource: Option<Value>,
    /// The rest of the server's refusal.
    pub challenge: String,
    /// Changes of the authorization server's document. `Null` removes a part.
    pub metadata: Value,
    /// `true` if there is a document of the authorization server.
    pub is_described: bool,
    /// Fixed answers by path: status, location, body.
    pub fixed: HashMap<&'static str, (u16, String, String)>,
    /// The issuer in the answer to the browser.
    pub iss: Option<String>,
    /// The seconds that an access token lasts, and whether the client is told.
    pub lifetime: i64,
    pub tells_lifetime: bool,
    /// `true` if each renewal gives another refresh token, `None` if none gives any.
    pub rotates: Option<bool>,
    /// The time that a renewal takes.
    pub renewal_time: Duration,
    /// The status of renewals, if it is none of success.
    pub renewal_status: Option<u16>,
    /// The scope that a call needs.
    pub call_scope: Option<&'static str>,
    /// How clients prove who they are.
    pub auth: &'static str,
    /// `true` if only what follows the beginning of a connection needs a token.
    pub is_open_at_first: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            resource: Some(json!({})),
            challenge: String::new(),
            metadata: json!({}),
            is_described: true,
            fixed: HashMap::new(),
            iss: None,
            lifetime: 3_600,
            tells_lifetime: true,
            rotates: Some(true),
            renewal_time: Duration::ZERO,
            renewal_status: None,
            call_scope: None,
            auth: "none",
            is_open_at_first: false,
        }
    }
}

/// The use of a code or a token.
#[derive(Clone)]
struct Given {
    client: String,
    resource: String,
    scope: String,
    redirect: String,
    challenge: String,
    ends: i64,
    is_used: bool,
    /// The tokens of the same sign-in.
    family: usize,
}

/// A request that came in.
#[derive(Clone)]
pub(super) struct Request {
    pub path: String,
    pub authorization: Option<String>,
    pub body: String,
}

#[derive(Default)]
struct Record {
    clients: HashMap<String, (String, Vec<String>)>,
    codes: HashMap<String, Given>,
    access: HashMap<String, Given>,
    refresh: HashMap<String, Given>,
    requests: Vec<Request>,
    count: usize,
}

struct Shared {
    base: String,
    habits: Mutex<Habits>,
    record: Mutex<Record>,
}

pub(super) struct Server {
    pub url: String,
    pub base: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(habits: Habits) -> Self {
        // For the clients of the tests. An error only means that a provider is already installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let shared =
            Arc::new(Shared { base: base.clone(), habits: Mutex::new(habits), record: Mutex::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url: format!("{base}/mcp"), base, shared, task }
    }

    /// Changes the habits.
    pub fn set(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut lock(&self.shared.habits));
    }

    /// Returns the requests for a path.
    pub fn requests(&self, path: &str) -> Vec<Request> {
        lock(&self.shared.record).requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Returns the requests for tokens of this kind.
    pub fn grants(&self, kind: &str) -> usize {
        self.requests("/token")
            .iter()
            .filter(|request| request.body.contains(&format!("grant_type={kind}")))
            .count()
    }

    /// Ends the access tokens, as a person does who takes them back there.
    pub fn end_access(&self) {
        lock(&self.shared.record).access.clear();
    }

    /// Ends all tokens.
    pub fn end_all(&self) {
        let mut record = lock(&self.shared.record);
        record.access.clear();
        record.refresh.clear();
    }

    pub fn has_tokens(&self) -> bool {
        let record = lock(&self.shared.record);
        !record.access.is_empty() || !record.refresh.is_empty()
    }

    /// Registers a client beforehand.
    pub fn register(&self, id: &str, secret: &str, redirect: &str) {
        let client = (secret.to_owned(), vec![redirect.to_owned()]);
        lock(&self.shared.record).clients.insert(id.to_owned(), client);
    }

    /// Does what a browser and a person do: opens the address, agrees, and returns the address that it is led back to.
    pub async fn agree(&self, address: &str) -> String {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let answer = client.get(address).send().await.unwrap();
        assert_eq!(answer.status(), 302, "{address}");
        answer.headers()["location"].to_str().unwrap().to_owned()
    }

    /// Sends a form to the token endpoint, as a program does that has got hold of something.
    pub async fn ask(&self, form: &[(&str, &str)]) -> (u16, Value) {
        let client = reqwest::Client::new();
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let asked = client
            .post(format!("{}/token", self.base))
            .header("content-type", "application/x-www-form-urlencoded");
        let answer = asked.body(body).send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
    }
}

fn response(status: u16, value: &Value) -> Response<Body> {
    let builder = Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    builder.body(Body::from(value.to_string())).unwrap()
}

fn refused(error: &str, description: &str) -> Response<Body> {
    response(400, &json!({"error": error, "error_description": description}))
}

fn now() -> i64 {
    unix_ms() / 1_000
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    (method, uri): (Method, Uri),
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let habits = lock(&shared.habits).clone();
    let body = String::from_utf8_lossy(&body).into_owned();
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    lock(&shared.record).requests.push(Request {
        path: uri.path().to_owned(),
        authorization: authorization.clone(),
        body: body.clone(),
    });
    if let Some((status, location, text)) = habits.fixed.get(uri.path()) {
        let builder = Response::builder().status(*status).header(header::LOCATION, location);
        return builder
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(text.clone()))
            .unwrap();
    }
    let form: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    match uri.path() {
        "/mcp" => mcp(&shared, &habits, (&method, authorization.as_deref()), &body),
        "/.well-known/oauth-protected-resource/mcp" if habits.resource.is_some() => {
            let document =
                json!({"resource": format!("{}/mcp", shared.base), "authorization_servers": [shared.base]});
            response(200, &merged(document, habits.resource.as_ref().unwrap()))
        }
        "/.well-known/oauth-authorization-server" if habits.is_described => {
            let base = &shared.base;
            let document = json!({
                "issuer": base, "authorization_endpoint": format!("{base}/authorize?tenant=1"),
                "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
                "revocation_endpoint": format!("{base}/revoke"), "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": [habits.auth],
            });
            response(200, &merged(document, &habits.metadata))
        }
        "/register" => register(&shared, &habits, &body),
        "/authorize" => authorize(&shared, &habits, &uri),
        "/token" => {
            if form.get("grant_type").is_some_and(|kind| kind == "refresh_token") {
                tokio::time::sleep(habits.renewal_time).await;
                if let Some(status) = habits.renewal_status {
                    return response(status, &Value::Null);
                }
            }
            token(&shared, &habits, &form, authorization.as_deref())
        }
        "/revoke" => {
            let mut record = lock(&shared.record);
            record.access.remove(&form["token"]);
            record.refresh.remove(&form["token"]);
            response(200, &Value::Null)
        }
        _ => response(404, &Value::Null),
    }
}

/// Returns a document with changes.
fn merged(mut document: Value, changes: &Value) -> Value {
    let parts = document.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => parts.remove(name),
            value => parts.insert(name.clone(), value.clone()),
        };
    }
    document
}

fn mcp(
    shared: &Shared,
    habits: &Habits,
    (method, authorization): (&Method, Option<&str>),
    body: &str,
) -> Response<Body> {
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let kind = message["method"].as_str().unwrap_or_default();
    let place = format!("{}/mcp", shared.base);
    let record = lock(&shared.record);
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    let given = token.and_then(|token| record.access.get(token));
    let given = given.filter(|given| given.ends > now() && given.resource == place);
    let is_first = kind == "initialize" || kind.starts_with("notifications/");
    if given.is_none() && !(habits.is_open_at_first && is_first) {
        let text = format!("Bearer error=\"invalid_token\"{}", habits.challenge);
        return Response::builder()
            .status(401)
            .header(header::WWW_AUTHENTICATE, text)
            .body(Body::empty())
            .unwrap();
    }
    if method != Method::POST {
        return response(405, &Value::Null);
    }
    let result = match kind {
        "initialize" => {
            json!({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "2"}})
        }
        "tools/list" => json!({"tools": [{"name": "echo", "description": "Returns the text.",
            "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let has =
                |scope: &str| given.is_some_and(|given| given.scope.split(' ').any(|part| part == scope));
            if let Some(scope) = habits.call_scope.filter(|scope| !has(scope)) {
                let text = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
                let builder = Response::builder().status(403).header(header::WWW_AUTHENTICATE, text);
                return builder.body(Body::empty()).unwrap();
            }
            json!({"content": [{"type": "text", "text": "said"}]})
        }
        _ => return Response::builder().status(202).body(Body::empty()).unwrap(),
    };
    response(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

fn register(shared: &Shared, habits: &Habits, body: &str) -> Response<Body> {
    let asked: Value = serde_json::from_str(body).unwrap();
    let redirects = asked["redirect_uris"]
        .as_array()
        .unwrap()
        .iter()
        .map(|uri| uri.as_str().unwrap().to_owned())
        .collect();
    let mut record = lock(&shared.record);
    record.count += 1;
    let id = format!("client {}:%", record.count);
    let secret = if habits.auth == "none" { String::new() } else { "client-secret-4711:%".to_owned() };
    record.clients.insert(id.clone(), (secret.clone(), redirects));
    let mut answer = json!({"client_id": id, "redirect_uris": asked["redirect_uris"]});
    if !secret.is_empty() {
        answer["client_secret"] = secret.into();
    }
    response(201, &answer)
}

fn authorize(shared: &Shared, habits: &Habits, uri: &Uri) -> Response<Body> {
    let query: HashMap<String, String> =
        form_urlencoded::parse(uri.query().unwrap().as_bytes()).into_owned().collect();
    let part = |name: &str| query.get(name).cloned().unwrap_or_default();
    let mut record = lock(&shared.record);
    let is_known = record
        .clients
        .get(&part("client_id"))
        .is_some_and(|(_, redirects)| redirects.contains(&part("redirect_uri")));
    let is_asked =
        part("response_type") == "code" && part("code_challenge_method") == "S256" && part("tenant") == "1";
    if !is_known || (!is_asked && habits.is_described) || part("code_challenge").len() != 43 {
        return response(400, &Value::Null);
    }
    record.count += 1;
    let code = format!("code-{}", record.count);
    let given = Given {
        client: part("client_id"),
        resource: part("resource"),
        scope: part("scope"),
        redirect: part("redirect_uri"),
        challenge: part("code_challenge"),
        ends: now() + 60,
        is_used: false,
        family: record.count,
    };
    record.codes.insert(code.clone(), given);
    let mut back: Url = part("redirect_uri").parse().unwrap();
    back.query_pairs_mut().append_pair("code", &code).append_pair("state", &part("state"));
    if let Some(issuer) = &habits.iss {
        back.query_pairs_mut().append_pair("iss", issuer);
    }
    Response::builder().status(302).header(header::LOCATION, back.as_str()).body(Body::empty()).unwrap()
}

fn token(
    shared: &Shared,
    habits: &Habits,
    form: &HashMap<String, String>,
    authorization: Option<&str>,
) -> Response<Body> {
    let part = |name: &str| form.get(name).cloned().unwrap_or_default();
    let mut record = lock(&shared.record);
    let (client, secret) = match authorization.and_then(|value| value.strip_prefix("Basic ")) {
        Some(pair) => {
            let pair = String::from_utf8(STANDARD.decode(pair).unwrap()).unwrap();
            let (client, secret) = pair.split_once(':').unwrap();
            let decoded = |text: &str| {
                form_urlencoded::parse(format!("x={text}").as_bytes()).next().unwrap().1.into_owned()
            };
            (decoded(client), decoded(secret))
        }
        None => (part("client_id"), part("client_secret")),
    };
    let way = if authorization.is_some() { "client_secret_basic" } else { "client_secret_post" };
    let is_client = record.clients.get(&client).is_some_and(|(known, _)| *known == secret);
    if !is_client || !secret.is_empty() && habits.auth != way {
        return response(401, &json!({"error": "invalid_client"}));
    }
    let is_renewal = part("grant_type") == "refresh_token";
    let given = if is_renewal {
        record.refresh.get_mut(&part("refresh_token"))
    } else {
        record.codes.get_mut(&part("code"))
    };
    let Some(given) = given else {
        return refused("invalid_grant", &format!("{} is not known", part("refresh_token")));
    };
    if std::mem::replace(&mut given.is_used, !is_renewal || habits.rotates == Some(true)) {
        let family = given.family;
        record.access.retain(|_, given| given.family != family);
        record.refresh.retain(|_, given| given.family != family);
        return refused("invalid_grant", "it was used before");
    }
    let given = given.clone();
    let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(part("code_verifier")));
    if given.client != client || given.ends < now() || given.resource != part("resource") {
        return refused(
            "invalid_grant",
            "it was given to somebody else, for something else, or too long ago",
        );
    }
    if !is_renewal && (given.redirect != part("redirect_uri") || given.challenge != proof) {
        return refused("invalid_grant", "it belongs to another sign-in");
    }
    record.count += 1;
    let (access, refresh) = (format!("access-{}", record.count), format!("refresh-{}", record.count));
    let lasting = Given { ends: now() + 86_400, is_used: false, ..given.clone() };
    let mut answer = json!({"access_token": access, "token_type": "bearer"});
    if !given.scope.is_empty() {
        answer["scope"] = given.scope.into();
    }
    if habits.tells_lifetime {
        answer["expires_in"] = habits.lifetime.into();
    }
    record.access.insert(access, Given { ends: now() + habits.lifetime, ..lasting.clone() });
    match habits.rotates {
        Some(rotates) if rotates || !is_renewal => {
            answer["refresh_token"] = refresh.clone().into();
            record.refresh.insert(refresh, lasting);
        }
        _ => {}
    }
    response(200, &answer)
}
