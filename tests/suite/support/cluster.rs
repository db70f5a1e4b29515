//! A stand-in for the API server of a Kubernetes cluster and for its one node. It takes objects that are valid by the published
//! definitions only, and pods that follow the profile *restricted*. It adds what a cluster adds to them, runs pods as containers of
//! the machine's own engine, and speaks `v5.channel.k8s.io` for their streams.
//!
//! It listens on this machine with TLS, and asks for a token or a certificate. [`Cluster::start_plain`] has one without TLS, as
//! `kubectl proxy` is.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use base64::Engine as _;
use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::{ContainerCreateBody, ExecConfig, HostConfig};
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder};
use flock::sandbox::engine::Engine;
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_websockets::{Message, ServerBuilder};

const DEFINITIONS: &str = include_str!("../../fixtures/kubernetes/definitions.json");
const PROTOCOL: &str = "v5.channel.k8s.io";
const TOKEN: &str = "stand-in-token";
/// Certificates of the stand-in's own. `authority.pem` has signed that of the server, for 127.0.0.1, and that of the client.
const AUTHORITY: &str = include_str!("../../fixtures/kubernetes/tls/authority.pem");
const SERVER: &str = include_str!("../../fixtures/kubernetes/tls/server.pem");
const SERVER_KEY: &str = include_str!("../../fixtures/kubernetes/tls/server.key");
const CLIENT: &str = include_str!("../../fixtures/kubernetes/tls/client.pem");
const CLIENT_KEY: &str = include_str!("../../fixtures/kubernetes/tls/client.key");
/// An authority that has signed nothing here.
const ANOTHER: &str = include_str!("../../fixtures/kubernetes/tls/another.pem");

/// The cluster. It ends with its containers and volumes when it is dropped.
pub struct Cluster {
    state: Arc<State>,
    runtime: Option<tokio::runtime::Runtime>,
    address: SocketAddr,
    has_tls: bool,
}

struct State {
    client: bollard::Docker,
    /// Begins the names of everything that it makes in the engine.
    prefix: String,
    folder: tempfile::TempDir,
    objects: Mutex<Objects>,
    /// Changes each pod when it is made, as an admission controller does.
    admission: Mutex<fn(&mut Value)>,
    /// The rights that the access does not have, as in `create pods/attach`.
    denied: Mutex<Vec<String>>,
    /// Ends all connections.
    cut: Mutex<CancellationToken>,
    is_gone: Mutex<bool>,
    /// The number of connections that were refused because it is gone.
    refused: AtomicUsize,
}

impl Cluster {
    pub fn start() -> Self {
        Self::listen(Some(acceptor()))
    }

    /// One without TLS.
    pub fn start_plain() -> Self {
        Self::listen(None)
    }

    fn listen(acceptor: Option<TlsAcceptor>) -> Self {
        let has_tls = acceptor.is_some();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let state = Arc::new(State {
            client: Engine::from_env().client().unwrap(),
            prefix: format!("flock-stand-in-{:08x}", rand::random::<u32>()),
            folder: tempfile::Builder::new().prefix("flock-cluster-").tempdir().unwrap(),
            objects: Mutex::default(),
            admission: Mutex::new(|_| ()),
            denied: Mutex::default(),
            cut: Mutex::default(),
            is_gone: Mutex::default(),
            refused: AtomicUsize::default(),
        });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(accept(listener, Arc::clone(&state), acceptor));
        Self { state, runtime: Some(runtime), address, has_tls }
    }

    /// A kubeconfig with these contexts, as JSON: `stand-in`; `certificate`, which has a certificate instead of a token; `stranger`,
    /// which has a wrong token; `misled`, which trusts another authority; and `public`, which trusts those of the machine.
    pub fn kubeconfig(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        let server = format!("{scheme}://{}", self.address);
        let coded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let of = |authority: &str| json!({"server": server, "certificate-authority-data": coded(authority)});
        let own = if self.has_tls { of(AUTHORITY) } else { json!({"server": server}) };
        let certificate =
            json!({"client-certificate-data": coded(CLIENT), "client-key-data": coded(CLIENT_KEY)});
        let contexts = [
            ("stand-in", "own", "token"),
            ("certificate", "own", "certificate"),
            ("stranger", "own", "wrong"),
            ("misled", "another", "token"),
            ("public", "public", "token"),
        ];
        let context = |(name, cluster, user): (&str, &str, &str)| json!({"name": name, "context": {"cluster": cluster, "user": user}});
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "contexts": contexts.map(context),
            "clusters": [
                {"name": "own", "cluster": own},
                {"name": "another", "cluster": of(ANOTHER)},
                {"name": "public", "cluster": {"server": server}},
            ],
            "users": [
                {"name": "token", "user": {"token": TOKEN}},
                {"name": "certificate", "user": certificate},
                {"name": "wrong", "user": {"token": "wrong"}},
            ],
        })
        .to_string()
    }

    /// The container of the only pod.
    pub fn container(&self) -> String {
        self.state.own(&self.objects("pods")[0])
    }

    /// The objects of a resource, such as `pods`.
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        of(&self.state.objects.lock().unwrap(), resource)
    }

    /// Changes an object behind flock's back.
    pub fn change(&self, resource: &str, change: impl Fn(&mut Value)) {
        let mut objects = self.state.objects.lock().unwrap();
        objects.iter_mut().filter(|((found, _), _)| found == resource).for_each(|(_, object)| change(object));
    }

    /// Removes all objects of a resource behind flock's back, and what they stand for.
    pub fn lose(&self, resource: &str) {
        let mut objects = self.state.objects.lock().unwrap();
        objects.retain(|(found, _), object| {
            if found == resource {
                self.state.end(resource, object);
            }
            found != resource
        });
    }

    /// Evicts all pods, as a node does that has too little memory.
    pub fn evict(&self) {
        self.change("pods", |pod| {
            self.state.end("pods", pod);
            pod["status"] =
                json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
        });
    }

    /// Ends all connections, as a proxy does that is restarted.
    pub fn cut(&self) {
        std::mem::take(&mut *self.state.cut.lock().unwrap()).cancel();
    }

    /// Has the API server vanish, or come back.
    pub fn set_gone(&self, is_gone: bool) {
        *self.state.is_gone.lock().unwrap() = is_gone;
        self.cut();
    }

    /// The number of connections that were refused while it was gone.
    pub fn refused(&self) -> usize {
        self.state.refused.load(Ordering::Relaxed)
    }

    pub fn set_admission(&self, change: fn(&mut Value)) {
        *self.state.admission.lock().unwrap() = change;
    }

    pub fn deny(&self, rights: &[&str]) {
        *self.state.denied.lock().unwrap() = rights.iter().map(|right| (*right).to_owned()).collect();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        for ((resource, _), object) in &*self.state.objects.lock().unwrap() {
            self.state.end(resource, object);
        }
        for (resource, object) in
            self.state.objects.lock().unwrap().iter().map(|((name, _), object)| (name, object))
        {
            // A volume can't be removed before the containers that have it.
            self.state.end(resource, object);
        }
    }
}

/// The server's side of TLS. A client may have a certificate.
fn acceptor() -> TlsAcceptor {
    let certificates =
        |text: &str| CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut authorities = RootCertStore::empty();
    let authority: Vec<CertificateDer<'static>> = certificates(AUTHORITY);
    authorities.add_parsable_certificates(authority);
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities.into(), Arc::clone(&provider));
    let verifier = verifier.allow_unauthenticated().build().unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY.as_bytes()).unwrap();
    let config = config.with_client_cert_verifier(verifier).with_single_cert(certificates(SERVER), key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

async fn accept(listener: tokio::net::TcpListener, state: Arc<State>, acceptor: Option<TlsAcceptor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        if *state.is_gone.lock().unwrap() {
            state.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let (state, cut) = (Arc::clone(&state), state.cut.lock().unwrap().clone());
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let served = async {
                match acceptor {
                    None => serve(state, stream, false).await,
                    Some(acceptor) => {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let is_known = stream.get_ref().1.peer_certificates().is_some();
                        serve(state, stream, is_known).await;
                    }
                }
            };
            tokio::select! {
                () = served => {}
                () = cut.cancelled() => {}
            }
        });
    }
}

/// Answers the requests of a connection. With `is_known`, its client has shown a certificate.
async fn serve(
    state: Arc<State>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_known: bool,
) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.answer(request, is_known).await) }
    });
    let http = hyper::server::conn::http1::Builder::new();
    let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

fn status(code: StatusCode, message: &str) -> Response<Body> {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason});
    respond(code, &body)
}

fn respond(code: StatusCode, body: &Value) -> Response<Body> {
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}

/// The parts of an address.
struct Asked {
    resource: String,
    name: Option<String>,
    stream: Option<String>,
    query: Vec<(String, String)>,
}

impl Asked {
    fn of(request: &Request<Incoming>) -> Option<Self> {
        let path = request.uri().path();
        let rest =
            path.strip_prefix("/api/v1/").or_else(|| path.strip_prefix("/apis/networking.k8s.io/v1/"))?;
        let mut parts = rest.strip_prefix("namespaces/flock/")?.split('/').map(str::to_owned);
        let query = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        Some(Self {
            resource: parts.next()?,
            name: parts.next(),
            stream: parts.next(),
            query: query.into_owned().collect(),
        })
    }

    /// The right that a request needs, as in `create pods/attach`.
    fn right(&self, method: &Method) -> String {
        let verb = match (method, &self.name, &self.stream) {
            (_, _, Some(stream)) => return format!("create {}/{stream}", self.resource),
            (&Method::GET, Some(_), None) => "get",
            (&Method::GET, None, None) => "list",
            (&Method::POST, ..) => "create",
            (&Method::PUT, ..) => "update",
            _ => "delete",
        };
        format!("{verb} {}", self.resource)
    }

    /// Refuses what a client has to ask for: without it, an API server leaves out fields that it does not know.
    fn is_strict(&self) -> bool {
        self.all("fieldValidation") == ["Strict"]
    }

    fn all(&self, key: &str) -> Vec<String> {
        self.query.iter().filter(|(found, _)| found == key).map(|(_, value)| value.clone()).collect()
    }
}

impl State {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>, is_known: bool) -> Response<Body> {
        let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if !is_known && token != Some(&format!("Bearer {TOKEN}")) {
            return status(StatusCode::UNAUTHORIZED, "Unauthorized");
        }
        match request.uri().path() {
            "/version" => {
                return respond(
                    StatusCode::OK,
                    &json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0"}),
                );
            }
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => return self.review(request).await,
            "/apis/metrics.k8s.io/v1beta1/namespaces/flock/pods" => {
                let measured = |pod: Value| {
                    json!({
                        "metadata": {"name": pod["metadata"]["name"]},
                        "containers": [{"name": "sandbox", "usage": {"cpu": "20m", "memory": "8Mi"}}],
                    })
                };
                let items: Vec<Value> =
                    of(&self.objects.lock().unwrap(), "pods").into_iter().map(measured).collect();
                return respond(StatusCode::OK, &json!({"kind": "PodMetricsList", "items": items}));
            }
            _ => {}
        }
        let Some(asked) = Asked::of(&request) else {
            return status(StatusCode::NOT_FOUND, "the server could not find the requested resource");
        };
        let right = asked.right(request.method());
        if self.denied.lock().unwrap().contains(&right) {
            return status(
                StatusCode::FORBIDDEN,
                &format!("User \"flock\" cannot {right} in the namespace \"flock\""),
            );
        }
        match (request.method().clone(), asked.name.clone(), asked.stream.clone()) {
            (Method::GET, Some(name), Some(stream)) => self.stream(request, &asked, &name, &stream),
            (Method::GET, Some(name), None) => {
                self.with(&asked.resource, &name, |object| respond(StatusCode::OK, object))
            }
            (Method::GET, None, _) => self.list(&asked),
            (Method::POST, None, _) => self.create(&asked, &body(request).await),
            (Method::PUT, Some(name), None) => self.replace(&asked, &name, &body(request).await),
            (Method::DELETE, Some(name), None) => self.delete(&asked, &name, &body(request).await).await,
            _ => status(StatusCode::METHOD_NOT_ALLOWED, "the server does not allow this method"),
        }
    }

    async fn review(&self, request: Request<Incoming>) -> Response<Body> {
        let mut asked = body(request).await;
        let attributes = &asked["spec"]["resourceAttributes"];
        let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_owned();
        let mut right = format!("{} {}", text("verb"), text("resource"));
        if !text("subresource").is_empty() {
            right = format!("{right}/{}", text("subresource"));
        }
        let is_allowed = !self.denied.lock().unwrap().contains(&right);
        asked["status"] = json!({"allowed": is_allowed});
        respond(StatusCode::CREATED, &asked)
    }

    fn with(
        &self,
        resource: &str,
        name: &str,
        then: impl FnOnce(&mut Value) -> Response<Body>,
    ) -> Response<Body> {
        match self.objects.lock().unwrap().get_mut(&(resource.to_owned(), name.to_owned())) {
            Some(object) => then(object),
            None => status(StatusCode::NOT_FOUND, &format!("{resource} \"{name}\" not found")),
        }
    }

    fn list(&self, asked: &Asked) -> Response<Body> {
        let selector = asked.all("labelSelector").pop().unwrap_or_default();
        let (key, value) = selector.split_once('=').unwrap_or_default();
        let objects = self.objects.lock().unwrap();
        let is_wanted = |object: &&Value| key.is_empty() || object["metadata"]["labels"][key] == value;
        let items: Vec<&Value> = objects
            .iter()
            .filter(|((resource, _), _)| *resource == asked.resource)
            .map(|(_, object)| object)
            .filter(is_wanted)
            .collect();
        respond(StatusCode::OK, &json!({"kind": "List", "items": items}))
    }

    fn create(self: &Arc<Self>, asked: &Asked, object: &Value) -> Response<Body> {
        if let Err(refusal) = valid(&asked.resource, object) {
            return status(StatusCode::UNPROCESSABLE_ENTITY, &refusal);
        }
        if !asked.is_strict() {
            return status(StatusCode::BAD_REQUEST, "the stand-in expects fieldValidation=Strict");
        }
        let refusals = if asked.resource == "pods" { unrestricted(object) } else { Vec::new() };
        if !refusals.is_empty() {
            let text = format!("violates PodSecurity \"restricted:latest\": {}", refusals.join(", "));
            return status(StatusCode::FORBIDDEN, &text);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = (asked.resource.clone(), name.clone());
        let mut objects = self.objects.lock().unwrap();
        if objects.contains_key(&key) {
            return status(StatusCode::CONFLICT, &format!("{} \"{name}\" already exists", asked.resource));
        }
        let mut object = object.clone();
        object["metadata"]["uid"] = json!(format!("{:032x}", rand::random::<u128>()));
        object["metadata"]["namespace"] = json!("flock");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        add_defaults(&asked.resource, &mut object);
        if asked.resource == "pods" {
            self.admission.lock().unwrap()(&mut object);
            object["status"] = json!({"phase": "Pending"});
            let (state, pod) = (Arc::clone(self), object.clone());
            tokio::task::spawn_blocking(move || state.run(&pod));
        }
        objects.insert(key, object.clone());
        respond(StatusCode::CREATED, &object)
    }

    fn replace(&self, asked: &Asked, name: &str, object: &Value) -> Response<Body> {
        if let Err(refusal) = valid(&asked.resource, object) {
            return status(StatusCode::UNPROCESSABLE_ENTITY, &refusal);
        }
        if !asked.is_strict() {
            return status(StatusCode::BAD_REQUEST, "the stand-in expects fieldValidation=Strict");
        }
        if matches!(asked.resource.as_str(), "pods" | "persistentvolumeclaims") {
            return status(StatusCode::UNPROCESSABLE_ENTITY, "the spec is immutable after creation");
        }
        self.with(&asked.resource, name, |found| {
            let metadata = found["metadata"].take();
            *found = object.clone();
            for key in ["uid", "namespace", "creationTimestamp"] {
                found["metadata"][key] = metadata[key].clone();
            }
            respond(StatusCode::OK, found)
        })
    }

    async fn delete(self: &Arc<Self>, asked: &Asked, name: &str, options: &Value) -> Response<Body> {
        if let Err(refusal) = valid("deleteoptions", options) {
            return status(StatusCode::UNPROCESSABLE_ENTITY, &refusal);
        }
        let wanted = &options["preconditions"]["uid"];
        let mut doomed = None;
        let answer = self.with(&asked.resource, name, |object| {
            if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                return status(StatusCode::CONFLICT, "the UID in the precondition does not match");
            }
            // It is there until its node has ended it.
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            doomed = Some(object.clone());
            respond(StatusCode::OK, object)
        });
        if let Some(object) = doomed {
            let (state, key) = (Arc::clone(self), (asked.resource.clone(), name.to_owned()));
            tokio::task::spawn_blocking(move || {
                // A claim stays until no pod has it any more.
                if key.0 != "persistentvolumeclaims" {
                    state.end(&key.0, &object);
                    state.objects.lock().unwrap().remove(&key);
                }
                state.end_claims();
            });
        }
        answer
    }

    /// Removes the claims that are to be removed and that no pod has.
    fn end_claims(&self) {
        let mut objects = self.objects.lock().unwrap();
        let pods: Vec<Value> = of(&objects, "pods");
        let is_used = |name: &str| pods.iter().any(|pod| claims_of(pod).any(|claim| claim == name));
        objects.retain(|(resource, name), object| {
            let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
            let goes = resource == "persistentvolumeclaims" && is_leaving && !is_used(name);
            if goes {
                self.end(resource, object);
            }
            !goes
        });
    }

    /// The name of a container or a volume in the engine.
    fn own(&self, object: &Value) -> String {
        format!("{}-{}", self.prefix, object["metadata"]["uid"].as_str().unwrap_or_default())
    }

    fn end(&self, resource: &str, object: &Value) {
        let name = self.own(object);
        let arguments: &[&str] = match resource {
            "pods" => &["rm", "--force", &name],
            "persistentvolumeclaims" => &["volume", "rm", "--force", &name],
            _ => return,
        };
        let _ = std::process::Command::new("docker").args(arguments).output();
    }

    /// Runs a pod as a container, as a node does.
    fn run(&self, pod: &Value) {
        let made = tokio::runtime::Handle::current().block_on(self.make(pod));
        let mut objects = self.objects.lock().unwrap();
        let key = ("pods".to_owned(), pod["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        let Some(found) =
            objects.get_mut(&key).filter(|found| found["metadata"]["uid"] == pod["metadata"]["uid"])
        else {
            return self.end("pods", pod);
        };
        found["spec"]["nodeName"] = json!("node-1");
        found["status"] = match made {
            Ok(()) => json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}),
            Err(MakeError::Image(why)) => json!({"phase": "Pending", "containerStatuses": [
                {"state": {"waiting": {"reason": "ErrImagePull", "message": why}}},
            ]}),
            Err(MakeError::NotScheduled(why)) => json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why},
            ]}),
        };
    }

    async fn make(&self, pod: &Value) -> Result<(), MakeError> {
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let image = text(&container["image"]);
        let group = spec["securityContext"]["fsGroup"].to_string();
        let mut binds = Vec::new();
        let mut tmpfs = HashMap::new();
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = spec["volumes"].as_array().into_iter().flatten();
            let volume = volumes.clone().find(|volume| volume["name"] == mount["name"]);
            let volume = volume.ok_or_else(|| MakeError::Image("no such volume".to_owned()))?;
            let target = text(&mount["mountPath"]);
            if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                let name = self.claimed(claim).map_err(MakeError::NotScheduled)?;
                let place = format!("{name}:/w");
                // The node gives the volume to the group of the pod.
                let script = format!("chown root:{group} /w && chmod 2775 /w");
                let run =
                    ["run", "--rm", "--pull", "never", "--user", "0:0", "--entrypoint", "/bin/sh", "-v"];
                let run = std::process::Command::new("docker")
                    .args(run)
                    .args([&place, &image, "-c", &script])
                    .output()
                    .map_err(|error| MakeError::Image(error.to_string()))?;
                if !run.status.success() {
                    return Err(MakeError::Image(String::from_utf8_lossy(&run.stderr).into_owned()));
                }
                // As in a cluster, nothing of the image is copied into an empty volume.
                binds.push(format!("{name}:{target}:nocopy"));
            } else if volume.get("configMap").is_some() {
                let name = text(&volume["configMap"]["name"]);
                let key = text(&mount["subPath"]);
                let found = self.objects.lock().unwrap().get(&("configmaps".to_owned(), name)).cloned();
                let data = found.ok_or_else(|| MakeError::NotScheduled("no such configmap".to_owned()))?;
                let file = self.folder.path().join(format!("{}-{key}", text(&pod["metadata"]["uid"])));
                std::fs::write(&file, text(&data["data"][&key])).unwrap();
                binds.push(format!("{}:{target}:ro", file.display()));
            } else {
                tmpfs.insert(target, "rw,exec,nosuid,nodev,size=64m,mode=1777".to_owned());
            }
        }
        let context = &spec["securityContext"];
        let body = ContainerCreateBody {
            image: Some(image),
            user: Some(format!("{}:{}", context["runAsUser"], context["runAsGroup"])),
            entrypoint: Some(container["command"].as_array().into_iter().flatten().map(text).collect()),
            cmd: Some(Vec::new()),
            working_dir: Some(text(&container["workingDir"])),
            open_stdin: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            host_config: Some(HostConfig {
                binds: Some(binds),
                tmpfs: Some(tmpfs),
                // What a policy that denies all traffic comes to.
                network_mode: Some("none".to_owned()),
                readonly_rootfs: container["securityContext"]["readOnlyRootFilesystem"].as_bool(),
                cap_drop: Some(vec!["ALL".to_owned()]),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                pids_limit: Some(256),
                memory: Some(256 << 20),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        let name = self.own(pod);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let failed = |error: bollard::errors::Error| MakeError::Image(error.to_string());
        self.client.create_container(Some(options), body).await.map_err(failed)?;
        self.client.start_container(&name, None).await.map_err(failed)
    }

    /// The volume of a claim.
    fn claimed(&self, claim: &str) -> Result<String, String> {
        let objects = self.objects.lock().unwrap();
        let found = objects.get(&("persistentvolumeclaims".to_owned(), claim.to_owned()));
        match found {
            None => Err(format!("persistentvolumeclaim \"{claim}\" not found")),
            Some(found) if !found["metadata"]["deletionTimestamp"].is_null() => {
                Err(format!("persistentvolumeclaim \"{claim}\" is being deleted"))
            }
            Some(found) => Ok(self.own(found)),
        }
    }

    /// Opens the streams of a pod.
    fn stream(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
        asked: &Asked,
        pod: &str,
        kind: &str,
    ) -> Response<Body> {
        let headers = request.headers();
        if headers.get(header::UPGRADE).is_none_or(|value| value != "websocket")
            || headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|value| value != "13")
        {
            return status(StatusCode::BAD_REQUEST, "you must specify the upgrade to a websocket");
        }
        if headers.get(header::SEC_WEBSOCKET_PROTOCOL).is_none_or(|value| value != PROTOCOL) {
            return status(StatusCode::FORBIDDEN, "unsupported protocol");
        }
        let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY).cloned() else {
            return status(StatusCode::BAD_REQUEST, "no key");
        };
        let key = (asked.resource.clone(), pod.to_owned(), key);
        let Some(found) = self.objects.lock().unwrap().get(&(key.0, key.1)).cloned() else {
            return status(StatusCode::NOT_FOUND, &format!("pods \"{pod}\" not found"));
        };
        let wanted = asked.all("container");
        if found["spec"]["containers"][0]["name"] != json!(wanted.first()) {
            return status(
                StatusCode::BAD_REQUEST,
                &format!("container {wanted:?} is not valid for pod {pod}"),
            );
        }
        if found["status"]["phase"] != "Running" {
            return status(StatusCode::BAD_REQUEST, "the pod does not run");
        }
        let text = [key.2.as_bytes(), b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
        let accept = base64::engine::general_purpose::STANDARD.encode(digest.as_ref());
        let (state, name, command) = (Arc::clone(self), self.own(&found), asked.all("command"));
        let is_exec = kind == "exec";
        let upgrade = hyper::upgrade::on(&mut request);
        let cut = self.cut.lock().unwrap().clone();
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            tokio::select! {
                () = state.carry(TokioIo::new(upgraded), &name, is_exec.then_some(command)) => {}
                () = cut.cancelled() => {}
            }
        });
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, accept)
            .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
            .body(Body::empty())
            .unwrap()
    }

    async fn carry(
        &self,
        io: TokioIo<hyper::upgrade::Upgraded>,
        container: &str,
        command: Option<Vec<String>>,
    ) {
        let (mut to, mut from) = ServerBuilder::new().serve(io).split();
        let (mut output, mut input, exec) = match self.open(container, command).await {
            Ok(streams) => streams,
            Err(why) => {
                let _ = to.send(ended(&json!({"status": "Failure", "message": why}))).await;
                return;
            }
        };
        let receiving = async {
            while let Some(Ok(message)) = from.next().await {
                let payload = message.into_payload();
                match payload.split_first() {
                    Some((0, bytes)) => drop(input.write_all(bytes).await),
                    Some((255, [0])) if exec.is_some() => drop(input.shutdown().await),
                    _ => {}
                }
            }
        };
        let sending = async {
            while let Some(Ok(piece)) = output.next().await {
                if let LogOutput::StdOut { message } = piece {
                    let message = Message::binary([&[1], &message[..]].concat());
                    if to.send(message).await.is_err() {
                        return;
                    }
                }
            }
            let code = match &exec {
                Some(exec) => {
                    self.client.inspect_exec(exec).await.ok().and_then(|found| found.exit_code).unwrap_or(-1)
                }
                None => 0,
            };
            let outcome = match code {
                0 => json!({"status": "Success"}),
                code => json!({
                    "status": "Failure",
                    "reason": "NonZeroExitCode",
                    "message": format!("command terminated with exit code {code}"),
                    "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
                }),
            };
            let _ = to.send(ended(&outcome)).await;
        };
        tokio::select! {
            () = receiving => {}
            () = sending => {}
        }
    }

    async fn open(&self, container: &str, command: Option<Vec<String>>) -> Result<Streams, String> {
        let failed = |error: bollard::errors::Error| error.to_string();
        let Some(command) = command else {
            let options = AttachContainerOptionsBuilder::default()
                .stream(true)
                .stdin(true)
                .stdout(true)
                .stderr(false)
                .build();
            let attached = self.client.attach_container(container, Some(options)).await.map_err(failed)?;
            return Ok((Box::pin(attached.output), Box::pin(attached.input), None));
        };
        let config = ExecConfig {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(false),
            cmd: Some(command),
            ..ExecConfig::default()
        };
        let exec = self.client.create_exec(container, config).await.map_err(failed)?.id;
        match self.client.start_exec(&exec, None).await.map_err(failed)? {
            StartExecResults::Attached { output, input } => Ok((output, input, Some(exec))),
            StartExecResults::Detached => Err("it is detached".to_owned()),
        }
    }
}

type Output = std::pin::Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;
type Streams = (Output, std::pin::Pin<Box<dyn AsyncWrite + Send>>, Option<String>);

fn ended(outcome: &Value) -> Message {
    Message::binary([&[3], outcome.to_string().as_bytes()].concat())
}

async fn body(request: Request<Incoming>) -> Value {
    let bytes = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// The reason why a pod does not run.
enum MakeError {
    Image(String),
    NotScheduled(String),
}

type Objects = BTreeMap<(String, String), Value>;

/// The objects of a resource.
fn of(objects: &Objects, resource: &str) -> Vec<Value> {
    objects.iter().filter(|((found, _), _)| found == resource).map(|(_, object)| object.clone()).collect()
}

/// The claims whose volumes a pod has.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// Adds what an API server and its controllers add to a new object, and leaves out what is off.
fn add_defaults(resource: &str, object: &mut Value) {
    match resource {
        "persistentvolumeclaims" => {
            object["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
            object["spec"]["volumeMode"] = json!("Filesystem");
            object["status"] = json!({"phase": "Pending"});
        }
        "pods" => {
            let spec = &mut object["spec"];
            for (key, value) in [
                ("schedulerName", json!("default-scheduler")),
                ("serviceAccount", json!("default")),
                ("serviceAccountName", json!("default")),
                ("preemptionPolicy", json!("PreemptLowerPriority")),
                ("priority", json!(0)),
                (
                    "tolerations",
                    json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]),
                ),
            ] {
                spec[key] = value;
            }
            let has_token = spec["automountServiceAccountToken"] != false;
            if has_token && let Some(volumes) = spec["volumes"].as_array_mut() {
                volumes.push(json!({"name": "kube-api-access", "projected": {}}));
            }
            for container in spec["containers"].as_array_mut().into_iter().flatten() {
                container["terminationMessagePath"] = json!("/dev/termination-log");
                container["terminationMessagePolicy"] = json!("File");
                let container = container.as_object_mut().unwrap();
                container
                    .retain(|key, value| !(["tty", "stdinOnce"].contains(&key.as_str()) && *value == false));
            }
        }
        _ => {}
    }
}

/// The findings in a pod that go against the profile *restricted* of the Pod Security Standards.
fn unrestricted(pod: &Value) -> Vec<&'static str> {
    let (spec, mut found) = (&pod["spec"], Vec::new());
    let mut check = |is_good: bool, what: &'static str| {
        if !is_good {
            found.push(what);
        }
    };
    for (key, what) in
        [("hostNetwork", "host namespaces"), ("hostPID", "host namespaces"), ("hostIPC", "host namespaces")]
    {
        check(matches!(spec[key], Value::Null | Value::Bool(false)), what);
    }
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        let allowed = [
            "name",
            "configMap",
            "emptyDir",
            "persistentVolumeClaim",
            "projected",
            "secret",
            "downwardAPI",
            "ephemeral",
            "csi",
        ];
        check(
            volume.as_object().unwrap().keys().all(|key| allowed.contains(&key.as_str())),
            "restricted volume types",
        );
    }
    let context = &spec["securityContext"];
    for container in spec["containers"].as_array().into_iter().flatten() {
        let own = &container["securityContext"];
        check(own["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation != false");
        check(own["privileged"] != true, "privileged");
        check(own["capabilities"]["drop"] == json!(["ALL"]), "unrestricted capabilities");
        check(own["capabilities"]["add"].is_null(), "unrestricted capabilities");
        check(
            own["runAsNonRoot"] == true || (own["runAsNonRoot"].is_null() && context["runAsNonRoot"] == true),
            "runAsNonRoot != true",
        );
        check(own["runAsUser"] != 0 && context["runAsUser"] != 0, "runAsUser=0");
        let profile = [&own["seccompProfile"]["type"], &context["seccompProfile"]["type"]];
        check(
            profile.iter().any(|kind| **kind == "RuntimeDefault" || **kind == "Localhost"),
            "seccompProfile",
        );
    }
    found
}

/// Returns `true` for the name of an object: lower-case letters, digits, dashes and dots.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|c| plain(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Returns `true` for the value of a label, and for a key without a prefix if it is not empty.
fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(plain)
            && text.ends_with(plain)
            && text.chars().all(|c| plain(c) || "-_.".contains(c)))
}

/// Checks what the definitions leave to an API server: names and labels.
fn is_well_named(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let keys = ["labels", "annotations"].map(|key| metadata[key].as_object());
    let keys = keys.into_iter().flatten().flat_map(serde_json::Map::keys);
    let labels = metadata["labels"].as_object().into_iter().flat_map(serde_json::Map::values);
    let selected = object["spec"]["podSelector"]["matchLabels"].as_object();
    let selected = selected.into_iter().flat_map(serde_json::Map::values);
    metadata["name"].as_str().is_some_and(is_name)
        && keys.into_iter().all(|key| !key.is_empty() && is_label(key))
        && labels.chain(selected).all(|value| value.as_str().is_some_and(is_label))
}

/// Validates an object as an API server does that refuses fields it does not know.
fn valid(resource: &str, object: &Value) -> Result<(), String> {
    let kind = match resource {
        "pods" => "Pod",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "configmaps" => "ConfigMap",
        "networkpolicies" => "NetworkPolicy",
        "deleteoptions" => "DeleteOptions",
        other => return Err(format!("there are no {other}")),
    };
    let mut schema: Value = serde_json::from_str(DEFINITIONS).unwrap();
    schema["$ref"] = json!(format!("#/$defs/{kind}"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect();
    if !errors.is_empty() {
        return Err(errors.join("; "));
    }
    match resource == "deleteoptions" || is_well_named(object) {
        true => Ok(()),
        false => Err("metadata.name or a label is invalid".to_owned()),
    }
}
