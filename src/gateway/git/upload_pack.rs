//! Answers `git fetch` and `git clone`: finds out what the client has, and sends a pack with the rest.
//!
//! Each request is complete: the client repeats what was agreed before. A clone in a sandbox shares the project's objects,
//! so it rarely needs a pack at all.

use std::io::{self, Read};

use bytes::Bytes;
use git2::ObjectType;

use super::packet::{self, Band, Packet};
use crate::project::{ObjectId, ProjectError, ProjectRepository};

/// The request of a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FetchRequest {
    wants: Vec<ObjectId>,
    haves: Vec<ObjectId>,
    /// `true` if the client has nothing more to say and waits for the pack.
    is_done: bool,
    has_sideband: bool,
    has_detailed_ack: bool,
}

impl FetchRequest {
    /// Reads a request. Returns `None` if it asks for nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if it breaks off or is no request.
    pub fn read(body: &mut dyn Read) -> io::Result<Option<Self>> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let mut request = Self::default();
        let mut capabilities = None;
        let mut is_in_wants = true;
        while let Some(packet) = packet::read(body)? {
            let content = match &packet {
                Packet::Flush => {
                    is_in_wants = false;
                    continue;
                }
                Packet::Data(content) => packet::line(content),
            };
            let text = std::str::from_utf8(content).map_err(|_| bad("it is not text"))?;
            if text == "done" {
                request.is_done = true;
                break;
            }
            let (word, rest) = text.split_once(' ').ok_or_else(|| bad("it has an unknown line"))?;
            let id =
                rest.get(..40).and_then(|id| id.parse().ok()).ok_or_else(|| bad("it has no usable id"))?;
            match word {
                "want" if is_in_wants && request.wants.len() < MAX_WANTS => {
                    if capabilities.is_none() {
                        capabilities = Some(rest[40..].to_owned());
                    }
                    request.wants.push(id);
                }
                "have" if request.haves.len() < MAX_HAVES => request.haves.push(id),
                "want" | "have" => return Err(bad("it has too many lines")),
                // Shallow clones are not offered.
                _ => return Err(bad("it has an unknown line")),
            }
        }
        let Some(capabilities) = capabilities else { return Ok(None) };
        let has = |name| capabilities.split(' ').any(|capability| capability == name);
        request.has_sideband = has("side-band-64k");
        request.has_detailed_ack = has("multi_ack_detailed");
        Ok(Some(request))
    }
}

/// The reason why no pack is sent.
pub(super) enum FetchError {
    /// The request is not one, or asks for something that is not there. The text is shown to the user.
    Refused(String),
    Own(ProjectError),
}

impl From<ProjectError> for FetchError {
    fn from(error: ProjectError) -> Self {
        Self::Own(error)
    }
}

/// Answers a request. `send` gets the answer piece by piece, and returns `false` if nobody reads it any more.
///
/// # Errors
///
/// Returns an error if the request is refused or the repository can't be read. Then nothing was sent.
pub(super) fn answer(
    repository: &ProjectRepository,
    request: &FetchRequest,
    send: &mut dyn FnMut(Bytes) -> bool,
) -> Result<(), FetchError> {
    let git = repository.git();
    for want in &request.wants {
        // Every object can be read through the sandbox's mount anyway, so any commit may be asked for.
        if git.find_commit(*want).is_err() {
            return Err(FetchError::Refused(format!("not our ref {want}")));
        }
    }
    let (acknowledged, common) = negotiate(repository, request);
    send(Bytes::from(acknowledged));
    if request.is_done {
        send_pack(repository, request, &common, send)?;
    }
    Ok(())
}

/// Returns the answer to what the client has, and the commits that both sides have.
fn negotiate(repository: &ProjectRepository, request: &FetchRequest) -> (Vec<u8>, Vec<ObjectId>) {
    let git = repository.git();
    let mut answer = Vec::new();
    let mut common: Vec<ObjectId> = Vec::new();
    let mut is_ready = false;
    for have in &request.haves {
        let is_ours = git.find_object(*have, Some(ObjectType::Commit)).is_ok();
        if is_ours {
            common.push(*have);
            if request.has_detailed_ack {
                packet::push_line(&mut answer, &format!("ACK {have} common"));
            } else if common.len() == 1 {
                packet::push_line(&mut answer, &format!("ACK {have}"));
            }
        }
        // The client may stop searching as soon as each wanted commit builds on one that it has.
        if request.has_detailed_ack
            && !is_ready
            && !common.is_empty()
            && is_enough(repository, request, &common)
        {
            is_ready = true;
            packet::push_line(&mut answer, &format!("ACK {have} ready"));
        }
    }
    match (request.is_done, common.last()) {
        (true, Some(last)) if request.has_detailed_ack => {
            packet::push_line(&mut answer, &format!("ACK {last}"));
        }
        (true, Some(_)) => {}
        (true, None) => packet::push_line(&mut answer, "NAK"),
        (false, Some(_)) if !request.has_detailed_ack => {}
        (false, _) => packet::push_line(&mut answer, "NAK"),
    }
    (answer, common)
}

fn is_enough(repository: &ProjectRepository, request: &FetchRequest, common: &[ObjectId]) -> bool {
    // Looking at the last few is enough: each of them is looked at when it is the newest.
    let newest = &common[common.len().saturating_sub(1)..];
    common.len() >= MANY_COMMON
        || request
            .wants
            .iter()
            .all(|want| newest.iter().any(|have| repository.contains(*want, *have).unwrap_or(false)))
}

fn send_pack(
    repository: &ProjectRepository,
    request: &FetchRequest,
    common: &[ObjectId],
    send: &mut dyn FnMut(Bytes) -> bool,
) -> Result<(), FetchError> {
    let failed = ProjectError::git("pack objects of", repository.folder());
    let git = repository.git();
    let mut builder = git.packbuilder().map_err(&failed)?;
    // Other agents need the processor, too.
    builder.set_threads(1);
    let mut walk = git.revwalk().map_err(&failed)?;
    for want in &request.wants {
        walk.push(*want).map_err(&failed)?;
    }
    for have in common {
        walk.hide(*have).map_err(&failed)?;
    }
    builder.insert_walk(&mut walk).map_err(&failed)?;
    let mut piece = Vec::with_capacity(PIECE + 5);
    let mut is_read = true;
    let sent = builder.foreach(|bytes| {
        if request.has_sideband {
            packet::push_band(&mut piece, Band::Data, bytes);
        } else {
            piece.extend_from_slice(bytes);
        }
        if piece.len() >= PIECE {
            is_read = send(Bytes::from(std::mem::take(&mut piece)));
        }
        is_read
    });
    if !is_read {
        return Ok(());
    }
    if let Err(error) = sent {
        // The answer has begun, so the error can only be told within it.
        tracing::warn!(error = error.message(), "a pack could not be sent");
        if request.has_sideband {
            packet::push_band(&mut piece, Band::Error, b"the project's objects can't be read\n");
        }
    }
    if request.has_sideband {
        packet::flush(&mut piece);
    }
    send(Bytes::from(piece));
    Ok(())
}

/// Limit on the number of commits that are asked for at once.
const MAX_WANTS: usize = 4_096;
/// Limit on the number of commits that a client says it has.
const MAX_HAVES: usize = 65_536;
/// Number of common commits after which the client is told to stop searching.
const MANY_COMMON: usize = 256;
/// Size of a piece of the answer.
const PIECE: usize = 32 << 10;
