//! The registry as a resolver in a sandbox sees it. The sandbox has no network: flock answers these requests, asks the real
//! registry, and lets through nothing but questions about packages.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;

use super::artifacts::Artifacts;
use super::error::PackageError;
use super::lock::LockedPackage;
use super::npm;
use super::pypi::{self, Wheel};
use super::registry::{MAX_ANSWER, MAX_ARCHIVE, Registry};
use crate::config::PackageSource;
use crate::error::chain;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::SandboxApi;
use crate::sync::lock;

/// The addresses of the registries inside the sandbox.
pub(super) const NPM: &str = "http://127.0.0.1:3128/relay/npm/";
pub(super) const PYPI: &str = "http://127.0.0.1:3128/relay/pypi/";
/// The most requests of one resolution.
const MAX_REQUESTS: u32 = 20_000;

/// Answers the requests of one resolver.
pub(super) struct Relay {
    registry: std::sync::Arc<Registry>,
    artifacts: Artifacts,
    /// The wheels that were listed, by their file names.
    wheels: Mutex<BTreeMap<String, Wheel>>,
    /// The first failure that is the registry's and not the resolver's.
    failure: Mutex<Option<PackageError>>,
    requests: AtomicU32,
}

impl Relay {
    pub fn new(registry: std::sync::Arc<Registry>, artifacts: Artifacts) -> Self {
        let (wheels, failure) = (Mutex::default(), Mutex::default());
        Self { registry, artifacts, wheels, failure, requests: AtomicU32::new(0) }
    }

    /// Returns the wheels that were listed.
    pub fn wheels(&self) -> BTreeMap<String, Wheel> {
        lock(&self.wheels).clone()
    }

    /// Returns the first failure of the registry. It says more than what the resolver makes of it.
    pub fn failure(&self) -> Option<PackageError> {
        lock(&self.failure).take()
    }

    async fn respond(&self, path: &str) -> Result<Option<(Vec<u8>, String)>, PackageError> {
        if let Some(rest) = path.strip_prefix("/relay/npm/") {
            return self.npm(rest).await;
        }
        let Some(rest) = path.strip_prefix("/relay/pypi/") else { return Ok(None) };
        if let Some(name) = rest.strip_prefix("simple/") {
            return self.project(name.trim_end_matches('/')).await;
        }
        match rest.strip_prefix("file/") {
            Some(file) => self.wheel(file).await,
            None => Ok(None),
        }
    }

    /// Answers what npm asks: about a package, or for an archive of one. Nothing of a person's account is below these.
    async fn npm(&self, rest: &str) -> Result<Option<(Vec<u8>, String)>, PackageError> {
        let plain = percent_decode_str(rest).decode_utf8_lossy().into_owned();
        let (name, archive) = match plain.split_once("/-/") {
            Some((name, archive)) => (name, Some(archive)),
            None => (plain.as_str(), None),
        };
        let is_archive_name = |text: &str| {
            text.ends_with(".tgz")
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+'))
        };
        let source = PackageSource::Npm;
        if !source.is_name(name) || !archive.is_none_or(is_archive_name) {
            return Ok(None);
        }
        let base = self.registry.base(source);
        let (text, accept, cap) = match archive {
            Some(archive) => (format!("{base}{name}/-/{archive}"), "*/*", MAX_ARCHIVE),
            None => (format!("{base}{}", name.replace('/', "%2f")), npm::ACCEPT, MAX_ANSWER),
        };
        let Ok(url) = text.parse() else { return Ok(None) };
        let Some(response) = self.registry.get(source, &url, accept).await? else { return Ok(None) };
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("application/json").to_owned();
        Ok(Some((self.registry.bytes(source, response, cap).await?, kind)))
    }

    async fn project(&self, name: &str) -> Result<Option<(Vec<u8>, String)>, PackageError> {
        if !PackageSource::Pypi.is_name(name) {
            return Ok(None);
        }
        let Some(project) = pypi::project(&self.registry, name, PYPI).await? else { return Ok(None) };
        lock(&self.wheels).extend(project.wheels);
        Ok(Some((project.shown.to_string().into_bytes(), pypi::ACCEPT.to_owned())))
    }

    /// Answers with a wheel, or with its metadata.
    async fn wheel(&self, file: &str) -> Result<Option<(Vec<u8>, String)>, PackageError> {
        let source = PackageSource::Pypi;
        let plain = percent_decode_str(file).decode_utf8_lossy().into_owned();
        let name = plain.strip_suffix(".metadata").unwrap_or(&plain);
        let Some(wheel) = lock(&self.wheels).get(name).cloned() else { return Ok(None) };
        if name != plain {
            let url = self.registry.archive(source, name, &format!("{}.metadata", wheel.url))?;
            let Some(response) = self.registry.get(source, &url, "*/*").await? else { return Ok(None) };
            let bytes = self.registry.bytes(source, response, MAX_ANSWER).await?;
            return Ok(Some((bytes, "application/octet-stream".to_owned())));
        }
        // Kept by its hash, so that it is not fetched twice.
        let mut parts = name.split('-');
        let package = LockedPackage {
            name: parts.next().unwrap_or_default().to_owned(),
            version: parts.next().unwrap_or_default().to_owned(),
            url: wheel.url,
            integrity: wheel.integrity,
            folder: String::new(),
            install_script: false,
        };
        let path = self.artifacts.get(&self.registry, source, &package).await?;
        let bytes = tokio::fs::read(&path).await.map_err(PackageError::host(&path))?;
        Ok(Some((bytes, "application/octet-stream".to_owned())))
    }
}

impl SandboxApi for Relay {
    fn answer<'a>(&'a self, _: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let count = self.requests.fetch_add(1, Ordering::Relaxed);
            if count >= MAX_REQUESTS || !matches!(*request.method(), Method::GET | Method::HEAD) {
                return plain(StatusCode::FORBIDDEN, "only packages can be asked for here");
            }
            match self.respond(request.uri().path()).await {
                Ok(Some((bytes, kind))) => {
                    let mut response = Response::new(Body::from(bytes));
                    if let Ok(kind) = kind.parse() {
                        response.headers_mut().insert(header::CONTENT_TYPE, kind);
                    }
                    response
                }
                Ok(None) => plain(StatusCode::NOT_FOUND, "there is no such package"),
                Err(error) => {
                    let text = chain(&error);
                    lock(&self.failure).get_or_insert(error);
                    plain(StatusCode::BAD_GATEWAY, &text)
                }
            }
        })
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response
}
