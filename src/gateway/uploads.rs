//! Files that a client has sent and not yet named in a message. Each is one file of the home, with a line about it in
//! front of its content. What no message names is removed after an hour.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use axum::http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::error::ApiError;
use crate::clean;
use crate::config::Agent;
use crate::error::chain;
use crate::home::{Home, HomeError, atomic};
use crate::id::hex;
use crate::picture;
use crate::sandbox::workspace_files::Workspaces;
use crate::swarm::attachment::{self, MAX_FILE, MAX_FILES};

/// Time for which a file is kept.
const LIFETIME: Duration = Duration::from_secs(3600);
/// Interval between two looks for files that are too old.
const INTERVAL: Duration = Duration::from_secs(600);
/// Time that a file may take to arrive.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);
/// Most bytes of all files together.
const MAX_TOTAL: u64 = 400 << 20;
/// Longest name of a file, in characters.
const MAX_NAME: usize = 200;
/// Most bytes of the line in front of the content.
const MAX_HEAD: usize = 4 << 10;

/// The line in front of the content.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// The client that sent the file. Nobody else can name it.
    by: String,
    name: String,
}

/// A file that a client has sent.
pub(crate) struct Upload {
    id: String,
    name: String,
    content: Vec<u8>,
}

/// Returns `true` for the request that sends a file. Its body may be larger than others.
#[must_use]
pub(super) fn is_upload(method: &Method, path: &str) -> bool {
    *method == Method::PUT && path == "/api/files"
}

/// Keeps a file of a client. Returns what the client needs to name it.
///
/// # Errors
///
/// Returns 422 for a file that no message can take, and 503 if it can't be kept.
pub(crate) async fn keep(home: &Home, by: &str, name: &str, content: Vec<u8>) -> Result<Value, ApiError> {
    let name = clean::label(name, MAX_NAME);
    let name = if name.is_empty() { "file".to_owned() } else { name };
    if let Err(why) = attachment::check(&content) {
        let message = format!("{name} is not taken: {why}");
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "file_not_taken", message));
    }
    let id = hex(&rand::random::<[u8; 16]>());
    let answer = json!({
        "id": id,
        "name": name,
        "bytes": content.len(),
        "mediaType": picture::sniff(&content).map(|header| header.media_type),
    });
    let folder = home.uploads();
    let head = Head { by: by.to_owned(), name };
    let written = tokio::task::spawn_blocking(move || write(&folder, &id, &head, &content));
    written.await.map_err(ApiError::internal)??;
    Ok(answer)
}

fn write(folder: &Path, id: &str, head: &Head, content: &[u8]) -> Result<(), ApiError> {
    let failed = |error: HomeError| {
        // The cause says that a disk is full, which the person at the page has to know.
        let message = format!("{} can't be kept: {}", head.name, chain(&error));
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "file_not_kept", message).with_cause(error)
    };
    sweep(folder, SystemTime::now());
    if total(folder) + content.len() as u64 > MAX_TOTAL {
        let message = format!("{} can't be kept: too many files wait for their messages", head.name);
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "file_not_kept", message)
            .with_hint("try again in an hour"));
    }
    fs_err::create_dir_all(folder).map_err(HomeError::io("make", folder)).map_err(failed)?;
    let mut bytes = serde_json::to_vec(head).map_err(ApiError::internal)?;
    bytes.reserve(content.len() + 1);
    bytes.push(b'\n');
    bytes.extend_from_slice(content);
    atomic::write_unsynced(&folder.join(id), &bytes, 0o600).map_err(failed)
}

/// Reads files that this client has sent.
///
/// # Errors
///
/// Returns 400 for too many files, and 404 if one of them is not there (any more).
pub(crate) async fn read(home: &Home, by: &str, ids: &[String]) -> Result<Vec<Upload>, ApiError> {
    if ids.len() > MAX_FILES {
        return Err(ApiError::invalid("usage", format!("a message has at most {MAX_FILES} files")));
    }
    let (folder, by, ids) = (home.uploads(), by.to_owned(), ids.to_vec());
    let read = tokio::task::spawn_blocking(move || {
        ids.iter().map(|id| read_one(&folder, &by, id).ok_or_else(|| gone(id))).collect()
    });
    read.await.map_err(ApiError::internal)?
}

fn gone(id: &str) -> ApiError {
    let message = format!("the file {} is not here (any more)", clean::summary(id, 40));
    ApiError::not_found("file_not_found", message).with_hint("send the file again")
}

fn read_one(folder: &Path, by: &str, id: &str) -> Option<Upload> {
    let bytes = atomic::read(&path(folder, id)?, (MAX_FILE + MAX_HEAD) as u64).ok()??;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&bytes[..end]).ok()?;
    let content = bytes[end + 1..].to_vec();
    (head.by == by).then(|| Upload { id: id.to_owned(), name: head.name, content })
}

/// Returns the path of a file, or `None` if the id can't be one of [`keep`].
fn path(folder: &Path, id: &str) -> Option<PathBuf> {
    let is_id = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| folder.join(id))
}

/// Writes files into `inbox/FOLDER/` of these agents' workspaces. Returns a line for each file, which names its place or
/// the reason why it was not taken, and the lines of the second kind once more.
pub(crate) async fn deliver(
    ways: &Workspaces,
    agents: &[Agent],
    folder: &str,
    uploads: Vec<Upload>,
) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut refused) = (Vec::new(), Vec::new());
    for upload in uploads {
        let place = attachment::place(folder, ["upload", &upload.id, ""], &upload.name);
        match attachment::deliver(ways, agents, place.clone(), upload.content).await {
            Ok(()) => lines.push(attachment::marker(&place)),
            Err(why) => {
                let line = attachment::refusal(&upload.name, &why);
                lines.push(line.clone());
                refused.push(line);
            }
        }
    }
    (lines, refused)
}

/// Removes files that a message has named.
pub(crate) fn remove(home: &Home, ids: &[String]) {
    for path in ids.iter().filter_map(|id| path(&home.uploads(), id)) {
        // What stays is removed after an hour.
        drop(fs_err::remove_file(path));
    }
}

/// Removes files that are too old, until `stop` is cancelled.
pub(crate) async fn watch(home: Home, stop: CancellationToken) {
    loop {
        let folder = home.uploads();
        drop(tokio::task::spawn_blocking(move || sweep(&folder, SystemTime::now())).await);
        if stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
            return;
        }
    }
}

fn sweep(folder: &Path, now: SystemTime) {
    for (path, metadata) in entries(folder) {
        let is_old =
            metadata.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > LIFETIME));
        if is_old && let Err(error) = fs_err::remove_file(path) {
            tracing::warn!(error = chain(&error), "a file that no message names could not be removed");
        }
    }
}

fn total(folder: &Path) -> u64 {
    entries(folder).map(|(_, metadata)| metadata.len()).sum()
}

fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, std::fs::Metadata)> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        (folder, home)
    }

    #[tokio::test]
    async fn a_file_is_kept_for_its_client_alone_and_not_for_ever() {
        let (_folder, home) = home();
        let kept = keep(&home, "ci", "a\u{202e}b\n.txt", b"one\ntwo".to_vec()).await.unwrap();
        assert_eq!((&kept["name"], &kept["bytes"]), (&"ab .txt".into(), &7.into()));
        let ids = vec![kept["id"].as_str().unwrap().to_owned()];
        let read_back = read(&home, "ci", &ids).await.unwrap();
        assert_eq!((read_back[0].name.as_str(), &*read_back[0].content), ("ab .txt", &b"one\ntwo"[..]));
        for (by, id) in [("other", ids[0].as_str()), ("ci", "../../config.json"), ("ci", "")] {
            let error = read(&home, by, &[id.to_owned()]).await.err().unwrap();
            assert_eq!(error.code, "file_not_found", "{by} {id}");
        }
        sweep(&home.uploads(), SystemTime::now() + LIFETIME / 2);
        assert!(read(&home, "ci", &ids).await.is_ok());
        sweep(&home.uploads(), SystemTime::now() + LIFETIME * 2);
        assert!(read(&home, "ci", &ids).await.is_err());
        let again = keep(&home, "ci", "", b"x".to_vec()).await.unwrap();
        let ids = [again["id"].as_str().unwrap().to_owned()];
        remove(&home, &ids);
        assert_eq!(total(&home.uploads()), 0);
    }

    #[tokio::test]
    async fn programs_and_more_than_the_disk_takes_are_refused_by_name() {
        let (_folder, home) = home();
        let refused = keep(&home, "ci", "run.sh", b"#!/bin/sh\n".to_vec()).await.unwrap_err();
        assert_eq!(
            (&*refused.code, &*refused.message),
            ("file_not_taken", "run.sh is not taken: it is a program")
        );
        assert_eq!(total(&home.uploads()), 0);
        fs_err::create_dir_all(home.uploads()).unwrap();
        let full = fs_err::File::create(home.uploads().join("x")).unwrap();
        full.set_len(MAX_TOTAL).unwrap();
        let refused = keep(&home, "ci", "a", b"a".to_vec()).await.unwrap_err();
        assert_eq!(refused.code, "file_not_kept");
        // A folder that can't be made stands for a disk that takes nothing.
        fs_err::remove_dir_all(home.run()).unwrap();
        fs_err::write(home.run(), "").unwrap();
        let refused = keep(&home, "ci", "a", b"a".to_vec()).await.unwrap_err();
        assert!(refused.message.starts_with("a can't be kept: failed to make"), "{}", refused.message);
    }
}
