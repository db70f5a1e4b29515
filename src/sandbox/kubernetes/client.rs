//! Calls to the API server of a cluster. flock needs five verbs on four kinds, and one upgrade for streams, so it makes the
//! calls by the HTTP client that it has. The client of the crate `kube` would add 42 crates, of which k8s-openapi alone takes 88 s of
//! processor time to build.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::access::{ClusterAccess, is_loopback};
use super::stream::{self, PodStreams};
use crate::clean;
use crate::config::ClusterAddress;
use crate::config::secret;
use crate::error::chain;
use crate::home::Home;
use crate::id::EngineName;
use crate::sandbox::SandboxError;
use crate::sync::lock;

/// Longest time for a connection to the API server.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time for a call.
const CALL: Duration = Duration::from_secs(30);
/// Longest time for a call that only asks if the cluster answers.
const PING: Duration = Duration::from_secs(5);
/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 8 << 20;
/// Longest text of a cluster that is shown, in characters.
const MAX_TEXT: usize = 300;

/// The kinds of objects that flock makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Pod,
    Claim,
    Identity,
    Policy,
}

impl ObjectKind {
    /// Returns the group of the API, which is empty for the first one, and the name in an address.
    #[must_use]
    pub const fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("", "pods"),
            Self::Claim => ("", "persistentvolumeclaims"),
            Self::Identity => ("", "configmaps"),
            Self::Policy => ("networking.k8s.io", "networkpolicies"),
        }
    }

    const fn place(self) -> &'static str {
        match self {
            Self::Policy => "apis/networking.k8s.io/v1",
            _ => "api/v1",
        }
    }
}

/// A cluster that is used as an engine. Creating this value does no I/O.
pub struct ClusterClient {
    home: Home,
    name: EngineName,
    address: ClusterAddress,
    /// The text of an access that is tried before the home keeps it.
    given: Option<String>,
    /// The client that was made from the text of the secret, so that a new access is used at once.
    made: Mutex<Option<(String, Connected)>>,
}

#[derive(Clone)]
struct Connected {
    http: Client,
    server: Url,
    authorization: Option<HeaderValue>,
}

/// An error of a call to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no usable access among the secrets.
    #[error("{0}")]
    Access(String),
    /// The cluster does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The cluster refuses the call.
    #[error("{message} (HTTP {status})")]
    Refused {
        status: u16,
        /// The cluster's own words.
        message: String,
    },
    /// The answer is not one of such a cluster.
    #[error("{0}")]
    Broken(String),
}

impl ClusterError {
    /// Returns the HTTP status if the cluster refused the call.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl ClusterClient {
    /// Returns the cluster that the configuration of `home` has under this name.
    #[must_use]
    pub fn new(home: Home, name: EngineName, address: ClusterAddress) -> Self {
        Self { home, name, address, given: None, made: Mutex::default() }
    }

    /// Returns the cluster as it is reached with this access instead of that of the home.
    #[must_use]
    pub(crate) fn with_access(
        home: Home,
        name: EngineName,
        address: ClusterAddress,
        access: &ClusterAccess,
    ) -> Self {
        Self { given: Some(access.to_text()), ..Self::new(home, name, address) }
    }

    #[must_use]
    pub const fn name(&self) -> &EngineName {
        &self.name
    }

    #[must_use]
    pub const fn address(&self) -> &ClusterAddress {
        &self.address
    }

    /// Converts an error. `what` completes the sentence "the cluster NAME failed to …".
    #[must_use]
    pub fn error(&self, what: &str, error: ClusterError) -> SandboxError {
        match error {
            ClusterError::Access(_) | ClusterError::Unreachable(_) => SandboxError::Unavailable {
                engine: Some(self.name.clone()),
                endpoint: self.address.to_string(),
                source: Box::new(error),
            },
            _ => SandboxError::Cluster {
                engine: self.name.clone(),
                what: what.to_owned(),
                source: Box::new(error),
            },
        }
    }

    /// Asks if the cluster answers, and returns its version.
    ///
    /// # Errors
    ///
    /// Returns the reason if it does not answer within five seconds.
    pub async fn ping(&self) -> Result<String, SandboxError> {
        let asked = async {
            let answer = self.call(Method::GET, "version", None).await?;
            Ok(clean::summary(answer["gitVersion"].as_str().unwrap_or("unknown"), 60))
        };
        let answer = match tokio::time::timeout(PING, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(ClusterError::Unreachable(format!("no answer within {} seconds", PING.as_secs()))),
        };
        answer.map_err(|error| self.error("tell its version", error))
    }

    /// Returns an object, or `None` if there is none of this name.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster.
    pub async fn get(&self, kind: ObjectKind, name: &str) -> Result<Option<Value>, SandboxError> {
        match self.call(Method::GET, &self.path(kind, Some(name)), None).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(self.error(&format!("show {} {name}", kind.resource().1), error)),
        }
    }

    /// Returns the objects of a kind that have a label.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster.
    pub async fn list(&self, kind: ObjectKind, label: (&str, &str)) -> Result<Vec<Value>, SandboxError> {
        let listed = self.items(&self.path(kind, None), label).await;
        listed.map_err(|error| self.error(&format!("list {}", kind.resource().1), error))
    }

    async fn items(&self, path: &str, label: (&str, &str)) -> Result<Vec<Value>, ClusterError> {
        let selector = format!("{}={}", label.0, label.1);
        let selector: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        let mut answer = self.call(Method::GET, &format!("{path}?labelSelector={selector}"), None).await?;
        match answer["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(ClusterError::Broken("its answer has no list".to_owned())),
        }
    }

    /// Returns what the pods with a label use, as the cluster has measured it last.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster. One without a metrics server refuses it, and one whose access has no right to read it.
    pub(crate) async fn usage(&self, label: (&str, &str)) -> Result<Vec<Value>, SandboxError> {
        let namespace = &self.address.namespace;
        let path = format!("apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        self.items(&path, label).await.map_err(|error| self.error("tell what its pods use", error))
    }

    /// Makes an object. Returns `None` if there is one of this name already.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster.
    pub async fn create(&self, kind: ObjectKind, object: &Value) -> Result<Option<Value>, SandboxError> {
        // An older cluster leaves out what it does not know, unless it is asked to refuse it.
        let path = format!("{}?fieldValidation=Strict", self.path(kind, None));
        match self.call(Method::POST, &path, Some(object)).await {
            Ok(made) => Ok(Some(made)),
            Err(error) if error.status() == Some(409) => Ok(None),
            Err(error) => Err(self.error(&format!("make {}", kind.resource().1), error)),
        }
    }

    /// Puts an object in the place of one with the same name.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster.
    pub async fn replace(&self, kind: ObjectKind, name: &str, object: &Value) -> Result<Value, SandboxError> {
        let path = format!("{}?fieldValidation=Strict", self.path(kind, Some(name)));
        let answer = self.call(Method::PUT, &path, Some(object)).await;
        answer.map_err(|error| self.error(&format!("change {} {name}", kind.resource().1), error))
    }

    /// Removes an object. It is not an error if there is none. With `uid`, one of the same name that is another is left alone.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster.
    pub async fn delete(&self, kind: ObjectKind, name: &str, uid: Option<&str>) -> Result<(), SandboxError> {
        let mut options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if let Some(uid) = uid {
            options["preconditions"] = json!({"uid": uid});
        }
        match self.call(Method::DELETE, &self.path(kind, Some(name)), Some(&options)).await {
            Ok(_) => Ok(()),
            // Another one is there by now.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(()),
            Err(error) => Err(self.error(&format!("remove {} {name}", kind.resource().1), error)),
        }
    }

    /// Asks if this access may do something.
    ///
    /// # Errors
    ///
    /// Returns the refusal of the cluster.
    pub async fn may(&self, verb: &str, group: &str, resource: &str) -> Result<bool, SandboxError> {
        let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": self.address.namespace,
                "verb": verb,
                "group": group,
                "resource": resource,
                "subresource": sub,
            }},
        });
        let path = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.call(Method::POST, path, Some(&question)).await;
        let answer = answer.map_err(|error| self.error("tell what this access may do", error))?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// Returns the address of the API server, which no pod may reach. `None` if it is one of this machine only.
    pub async fn server_address(&self) -> Option<SocketAddr> {
        let server = self.connected().ok()?.server;
        if is_loopback(&server) {
            return None;
        }
        let (host, port) =
            (server.host_str()?.trim_matches(['[', ']']).to_owned(), server.port_or_known_default()?);
        let mut found = tokio::time::timeout(PING, tokio::net::lookup_host((host, port))).await.ok()?.ok()?;
        found.next()
    }

    /// Attaches to the standard streams of a pod's container.
    ///
    /// # Errors
    ///
    /// Returns the reason if the streams are not opened.
    pub async fn attach(&self, pod: &str, container: &str) -> Result<PodStreams, SandboxError> {
        let path = format!(
            "{}/attach?container={container}&stdin=true&stdout=true&stderr=false&tty=false",
            self.path(ObjectKind::Pod, Some(pod))
        );
        self.open(&path).await.map_err(|error| self.error(&format!("attach to {pod}"), error))
    }

    /// Starts a program in a pod's container, with its standard streams.
    ///
    /// # Errors
    ///
    /// Returns the reason if it is not started.
    pub async fn exec(
        &self,
        pod: &str,
        container: &str,
        command: &[&str],
    ) -> Result<PodStreams, SandboxError> {
        let mut path = format!(
            "{}/exec?container={container}&stdin=true&stdout=true&stderr=false&tty=false",
            self.path(ObjectKind::Pod, Some(pod))
        );
        for word in command {
            path.push_str("&command=");
            path.extend(form_urlencoded::byte_serialize(word.as_bytes()));
        }
        self.open(&path).await.map_err(|error| self.error(&format!("start a program in {pod}"), error))
    }

    async fn open(&self, path: &str) -> Result<PodStreams, ClusterError> {
        let request = stream::upgrade(self.request(Method::GET, path)?);
        let opened = async {
            let answer = request.send().await.map_err(unreachable)?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                let status = answer.status();
                return Err(refused(status, &body(answer).await.unwrap_or_default()));
            }
            stream::take_over(answer).await
        };
        match tokio::time::timeout(CALL, opened).await {
            Ok(opened) => opened,
            Err(_) => Err(ClusterError::Unreachable(format!("no stream within {} seconds", CALL.as_secs()))),
        }
    }

    fn path(&self, kind: ObjectKind, name: Option<&str>) -> String {
        let (_, resource) = kind.resource();
        let mut path = format!("{}/namespaces/{}/{resource}", kind.place(), self.address.namespace);
        if let Some(name) = name {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    async fn call(&self, method: Method, path: &str, object: Option<&Value>) -> Result<Value, ClusterError> {
        let mut request = self.request(method, path)?.header(ACCEPT, "application/json").timeout(CALL);
        if let Some(object) = object {
            request = request.header(CONTENT_TYPE, "application/json").body(object.to_string());
        }
        let answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let body = body(answer).await?;
        if !status.is_success() {
            return Err(refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| ClusterError::Broken("its answer is no JSON".to_owned()))
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, ClusterError> {
        let Connected { http, server, authorization } = self.connected()?;
        let base = server.as_str().trim_end_matches('/');
        let url: Url = format!("{base}/{path}")
            .parse()
            .map_err(|_| ClusterError::Access("the address of the server can't be used".to_owned()))?;
        let request = http.request(method, url);
        Ok(match authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        })
    }

    /// Returns the text of the access that is among the secrets now.
    fn kept(&self) -> Result<String, ClusterError> {
        let name = ClusterAccess::secret(&self.name);
        let text = secret::get(&self.home, &name).map_err(|error| ClusterError::Access(chain(&error)))?;
        text.ok_or_else(|| {
            ClusterError::Access(format!(
                "its access is missing: {}",
                self.home.secrets().join(&name).display()
            ))
        })
    }

    /// Returns the client for the access that is to be used now.
    fn connected(&self) -> Result<Connected, ClusterError> {
        let text = match &self.given {
            Some(given) => given.clone(),
            None => self.kept()?,
        };
        let mut made = lock(&self.made);
        if let Some((from, connected)) = &*made
            && *from == text
        {
            return Ok(connected.clone());
        }
        let connected = connect(&ClusterAccess::parse(&text).map_err(ClusterError::Access)?)?;
        *made = Some((text, connected.clone()));
        Ok(connected)
    }
}

fn connect(access: &ClusterAccess) -> Result<Connected, ClusterError> {
    // An error only means that a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = access.url().map_err(ClusterError::Access)?;
    let mut client = Client::builder()
        .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
        // What is secret must not be sent to another address.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // Streams are upgrades, which HTTP/2 does not have.
        .http1_only()
        .connect_timeout(CONNECT)
        .tcp_keepalive(Duration::from_secs(15));
    if is_loopback(&server) {
        client = client.no_proxy();
    }
    if let Some(authorities) = access.authorities().map_err(ClusterError::Access)? {
        client = client.tls_certs_only(authorities);
    } else if server.scheme() == "http" {
        client = client.tls_certs_only([]);
    }
    if let Some(identity) = access.identity().map_err(ClusterError::Access)? {
        client = client.identity(identity);
    }
    let http = client.build().map_err(|error| ClusterError::Access(chain(&error.without_url())))?;
    let authorization = access.access_token.as_ref().map(|token| {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| ClusterError::Access("the token can't be sent".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    });
    Ok(Connected { http, server, authorization: authorization.transpose()? })
}

/// Reads an answer of a bounded length.
async fn body(mut answer: Response) -> Result<Vec<u8>, ClusterError> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(unreachable)? {
        if body.len() + part.len() > MAX_ANSWER {
            return Err(ClusterError::Broken("its answer is too large".to_owned()));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

fn unreachable(error: reqwest::Error) -> ClusterError {
    ClusterError::Unreachable(clean::summary(&chain(&error.without_url()), MAX_TEXT))
}

/// Reads a refusal. A cluster sends an object of the kind Status, and a proxy before it anything.
fn refused(status: StatusCode, body: &[u8]) -> ClusterError {
    let said: Option<Value> = serde_json::from_slice(body).ok();
    let message = said.as_ref().and_then(|said| said["message"].as_str());
    let message = message.filter(|message| !message.is_empty()).unwrap_or("it gives no reason");
    ClusterError::Refused { status: status.as_u16(), message: clean::summary(message, MAX_TEXT) }
}
