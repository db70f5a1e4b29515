//! Takes a request of git from a sandbox: finds the project, checks that the agent is assigned to it, and has the request
//! answered in a blocking thread.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::advertisement::{self, Service};
use super::receive_pack::PushAnswer;
use super::request_body::{self, BodyStream};
use super::upload_pack::{FetchError, FetchRequest};
use super::{PREFIX, receive_pack, upload_pack};
use crate::gateway::draining_body::DrainingBody;
use crate::home::Home;
use crate::id::{AgentId, ProjectName};
use crate::project::{ProjectError, ProjectRepository, Push, PushLimits, PushReport};
use crate::sandbox::docker::ConfigSource;
use crate::sync::lock;

/// A function that is told of each push after its branches have moved. It must not block.
pub type PushListener = Arc<dyn Fn(&ProjectName, &Push, &PushReport) + Send + Sync>;

/// Serves the projects' repositories to the agents.
pub struct GitService {
    home: Home,
    config: ConfigSource,
    limits: PushLimits,
    listener: Mutex<Option<PushListener>>,
    /// The slots of each agent, so that one agent can't keep the others waiting.
    slots: Mutex<HashMap<AgentId, Arc<Semaphore>>>,
}

/// A request that was admitted.
struct Admitted {
    agent: AgentId,
    project: ProjectName,
    /// The branch that work is joined on.
    branch: String,
    folder: PathBuf,
    _slot: OwnedSemaphorePermit,
}

impl GitService {
    /// Creates the service for the projects of a configuration.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource) -> Self {
        Self {
            home,
            config,
            limits: PushLimits::default(),
            listener: Mutex::default(),
            slots: Mutex::default(),
        }
    }

    /// Sets the function that is told of each push.
    pub fn on_push(&self, listener: PushListener) {
        *lock(&self.listener) = Some(listener);
    }

    /// Returns `true` for a path that this serves.
    #[must_use]
    pub fn serves(path: &str) -> bool {
        path.starts_with(PREFIX)
    }

    /// Completes what a killed process left in the repositories of all projects. To be called before the first request.
    pub fn repair(&self) {
        for project in &(self.config)().projects {
            let folder = self.home.project_repository(&project.name);
            if !folder.exists() {
                continue;
            }
            let repaired = ProjectRepository::open(&folder).and_then(|repository| repository.repair());
            if let Err(error) = repaired {
                tracing::error!(
                    project = %project.name,
                    error = crate::error::chain(&error),
                    "a project's repository could not be repaired"
                );
            }
        }
    }

    /// Answers a request from this agent's sandbox.
    pub async fn answer(&self, agent: &AgentId, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = DrainingBody::new(body, &parts.headers);
        let ended = body.ended();
        let mut response = self.route(agent, &parts, body).await;
        if !ended.is_ended() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn route(
        &self,
        agent: &AgentId,
        parts: &axum::http::request::Parts,
        body: DrainingBody,
    ) -> Response<Body> {
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
        let Some((name, rest)) = path.split_once('/') else { return plain(StatusCode::NOT_FOUND, NO_PATH) };
        let query = parts.uri.query().unwrap_or_default();
        let named = query.split('&').find_map(|pair| pair.strip_prefix("service=")).and_then(Service::of);
        let is_gzip = parts.headers.get(header::CONTENT_ENCODING).is_some_and(|value| value == "gzip");
        match (rest, named, Service::of(rest)) {
            ("info/refs", Some(service), _) if parts.method == Method::GET => {
                match self.admit(agent, name).await {
                    Ok(admitted) => advertise(admitted, service).await,
                    Err(why) => git_response(service, "advertisement", advertisement::refusal(service, &why)),
                }
            }
            ("info/refs", None, _) => plain(StatusCode::FORBIDDEN, "this needs a git of this century"),
            (_, _, Some(service)) if parts.method == Method::POST => match self.admit(agent, name).await {
                Ok(admitted) if service == Service::UploadPack => {
                    upload(admitted, request_body::stream(body, MAX_FETCH, is_gzip)).await
                }
                Ok(admitted) => {
                    // The limit of the pack itself is told within git's protocol, so this one is a little larger.
                    let limit = self.limits.pack + MAX_FETCH;
                    self.take(admitted, request_body::stream(body, limit, is_gzip)).await
                }
                Err(why) => plain(StatusCode::FORBIDDEN, &why),
            },
            _ => plain(StatusCode::NOT_FOUND, NO_PATH),
        }
    }

    /// Checks that the agent is assigned to the project, and waits for a slot.
    ///
    /// # Errors
    ///
    /// Returns the reason, which git shows. It is the same for a project that does not exist.
    async fn admit(&self, agent: &AgentId, name: &str) -> Result<Admitted, String> {
        let config = (self.config)();
        // The name is only compared, so it needs no other check.
        let found = config.projects.iter().find(|project| project.name.as_str() == name);
        let Some(project) = found.filter(|project| project.has_agent(agent)) else {
            let name = crate::clean::summary(name, 64);
            return Err(format!("{agent} is assigned to no project {name}"));
        };
        let slots = {
            let mut all = lock(&self.slots);
            Arc::clone(all.entry(agent.clone()).or_insert_with(|| Arc::new(Semaphore::new(CONCURRENT))))
        };
        let slot = slots.acquire_owned().await.map_err(|_| "the gateway is stopping".to_owned())?;
        Ok(Admitted {
            agent: agent.clone(),
            project: project.name.clone(),
            branch: project.branch.clone(),
            folder: self.home.project_repository(&project.name),
            _slot: slot,
        })
    }

    /// Answers a push. It is carried out even if the client goes away once its pack has arrived.
    async fn take(&self, admitted: Admitted, body: BodyStream) -> Response<Body> {
        let (limits, listener) = (self.limits, lock(&self.listener).clone());
        let taken = tokio::task::spawn_blocking(move || {
            let Admitted { agent, project, folder, .. } = &admitted;
            let mut body = body.reader();
            let answered = receive_pack::answer(folder, agent, &mut *body, &limits);
            // What a refusal left unread is read, or git could not read the answer. The body has its own limits.
            let _ = std::io::copy(&mut *body, &mut std::io::sink());
            match answered {
                Ok(PushAnswer { bytes, report }) => {
                    if let Some((push, report)) = report {
                        note(project, agent, &report);
                        if let Some(listener) = listener {
                            listener(project, &push, &report);
                        }
                    }
                    bytes
                }
                Err(error) => {
                    failed(&admitted, &error);
                    receive_pack::error_answer("the project's repository can't be written")
                }
            }
        });
        match taken.await {
            Ok(answer) => git_response(Service::ReceivePack, "result", answer),
            Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the push failed"),
        }
    }
}

async fn advertise(admitted: Admitted, service: Service) -> Response<Body> {
    let listed = tokio::task::spawn_blocking(move || {
        let listed = ProjectRepository::open(&admitted.folder)
            .and_then(|repository| advertisement::advertisement(&repository, &admitted.branch, service));
        listed.unwrap_or_else(|error| {
            failed(&admitted, &error);
            advertisement::refusal(service, "the project's repository can't be read")
        })
    });
    match listed.await {
        Ok(answer) => git_response(service, "advertisement", answer),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the request failed"),
    }
}

/// Answers a fetch while the pack is made.
async fn upload(admitted: Admitted, body: BodyStream) -> Response<Body> {
    // The whole request comes first: a client reads the answer only when it has sent everything.
    let request = match tokio::task::spawn_blocking(move || FetchRequest::read(&mut *body.reader())).await {
        Ok(Ok(Some(request))) => request,
        // Git sends an empty request to see if a larger one would be accepted.
        Ok(Ok(None)) => return git_response(Service::UploadPack, "result", Body::empty()),
        Ok(Err(error)) => return refused_fetch(&format!("the request can't be read: {error}")),
        Err(_) => return plain(StatusCode::INTERNAL_SERVER_ERROR, "the request failed"),
    };
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut send = |piece: Bytes| piece.is_empty() || sender.blocking_send(Ok(piece)).is_ok();
        let answered = ProjectRepository::open(&admitted.folder)
            .map_err(FetchError::Own)
            .and_then(|repository| upload_pack::answer(&repository, &request, &mut send));
        let why = match answered {
            Ok(()) => return,
            Err(FetchError::Refused(why)) => why,
            Err(FetchError::Own(error)) => {
                failed(&admitted, &error);
                "the project's repository can't be read".to_owned()
            }
        };
        send(Bytes::from(error_packet(&why)));
    });
    let pieces = futures_util::stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    git_response(Service::UploadPack, "result", Body::from_stream(pieces))
}

fn refused_fetch(why: &str) -> Response<Body> {
    git_response(Service::UploadPack, "result", error_packet(why))
}

fn error_packet(why: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    super::packet::push(&mut answer, format!("ERR {}", crate::clean::summary(why, 300)).as_bytes());
    answer
}

fn note(project: &ProjectName, agent: &AgentId, report: &PushReport) {
    for (name, result) in &report.references {
        let name = crate::clean::summary(name, 200);
        match result {
            Ok(()) => tracing::info!(%project, %agent, branch = name, "an agent pushed"),
            Err(why) => tracing::info!(%project, %agent, branch = name, why, "an agent's push was refused"),
        }
    }
    if let Err(why) = &report.pack {
        tracing::warn!(%project, %agent, why, "the pack of an agent was refused");
    }
}

fn failed(admitted: &Admitted, error: &ProjectError) {
    let (project, agent) = (&admitted.project, &admitted.agent);
    tracing::error!(%project, %agent, error = crate::error::chain(error), "a request of git failed");
}

fn git_response(service: Service, kind: &str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    let kind = format!("application/x-{}-{kind}", service.name());
    if let Ok(kind) = HeaderValue::from_str(&kind) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("flock: {text}\n")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

const NO_PATH: &str = "git asks for http://127.0.0.1:3128/git/PROJECT";
/// Number of requests of one agent that are answered at the same time.
const CONCURRENT: usize = 2;
/// Most bytes of a request for a pack.
const MAX_FETCH: u64 = 16 << 20;
/// Number of pieces of an answer that wait for the client.
const PIECES: usize = 4;

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
