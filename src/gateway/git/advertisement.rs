//! The list of branches with which a fetch or a push begins.

use super::packet;
use crate::project::reference::BRANCHES;
use crate::project::{ObjectId, ProjectError, ProjectRepository, overview};

/// One of the two services of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    UploadPack,
    ReceivePack,
}

impl Service {
    /// Reads git's name of a service.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.name() == name)
    }

    /// Returns git's name of the service.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    /// Returns what the service can do, in git's words. `thin-pack` and `no-thin` are about packs that need objects of
    /// the other side; a push may bring one.
    fn capabilities(self, head: Option<&str>) -> String {
        match self {
            Self::UploadPack => {
                let head = head.map(|head| format!(" symref=HEAD:{head}")).unwrap_or_default();
                format!("multi_ack_detailed side-band-64k ofs-delta no-progress{head} {AGENT}")
            }
            Self::ReceivePack => {
                format!("report-status delete-refs side-band-64k quiet atomic ofs-delta {AGENT}")
            }
        }
    }
}

/// Returns the list of branches of a project. `branch` is the one that work is joined on.
///
/// # Errors
///
/// Returns an error if the repository can't be read.
pub(super) fn advertisement(
    repository: &ProjectRepository,
    branch: &str,
    service: Service,
) -> Result<Vec<u8>, ProjectError> {
    let mut lines: Vec<(String, ObjectId)> = Vec::new();
    let head = format!("{BRANCHES}{branch}");
    let branches = overview::branches(repository)?;
    let tip = branches.iter().find(|(name, _)| *name == head).map(|(_, id)| *id);
    if service == Service::UploadPack
        && let Some(tip) = tip
    {
        lines.push(("HEAD".to_owned(), tip));
    }
    lines.extend(branches);
    if lines.is_empty() {
        // A repository without branches still says what it can do.
        lines.push(("capabilities^{}".to_owned(), ObjectId::ZERO_SHA1));
    }
    let mut capabilities = Some(service.capabilities(tip.map(|_| head.as_str())));
    let mut answer = header(service);
    for (name, id) in lines {
        match capabilities.take() {
            Some(capabilities) => packet::push_line(&mut answer, &format!("{id} {name}\0{capabilities}")),
            None => packet::push_line(&mut answer, &format!("{id} {name}")),
        }
    }
    packet::flush(&mut answer);
    Ok(answer)
}

/// Returns an answer with an error that git shows to its user.
pub(super) fn refusal(service: Service, why: &str) -> Vec<u8> {
    let mut answer = header(service);
    packet::push(&mut answer, format!("ERR {why}").as_bytes());
    answer
}

fn header(service: Service) -> Vec<u8> {
    let mut answer = Vec::new();
    packet::push_line(&mut answer, &format!("# service={}", service.name()));
    packet::flush(&mut answer);
    answer
}

const AGENT: &str = concat!("object-format=sha1 agent=flock/", env!("CARGO_PKG_VERSION"));
