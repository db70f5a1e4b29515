//! Files: sent in the three steps that Slack wants, and downloaded with the bot token.

use std::time::Duration;

use serde_json::{Value, json};

use super::api::Api;
use super::event::{self, Own, text};
use super::ts::Ts;
use crate::bridge::message::{IncomingFile, OutgoingFile};
use crate::bridge::platform::PlatformError;

/// The number of times that Slack is asked for the message that has the files, and the time between.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(500);

/// Sends files in one message, and returns its id.
pub(super) async fn send(
    api: &Api,
    channel: &str,
    thread: Option<Ts>,
    comment: &str,
    files: &[OutgoingFile],
) -> Result<String, PlatformError> {
    let mut sent = Vec::with_capacity(files.len());
    for file in files {
        let length = file.content.len().to_string();
        let place =
            api.read("files.getUploadURLExternal", &[("filename", &file.name), ("length", &length)]).await?;
        api.upload(text(&place, "upload_url"), file.content.clone()).await?;
        sent.push(json!({"id": text(&place, "file_id"), "title": file.name}));
    }
    let first = sent.first().map(|file| text(file, "id").to_owned()).unwrap_or_default();
    let mut body = json!({"files": sent, "channel_id": channel});
    if !comment.is_empty() {
        body["initial_comment"] = comment.into();
    }
    if let Some(thread) = thread {
        body["thread_ts"] = thread.to_string().into();
    }
    api.write("files.completeUploadExternal", &body).await?;
    // The answer does not name the message, and Slack posts it a little later.
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        let known = api.read("files.info", &[("file", &first)]).await?;
        if let Some(ts) = shared(&known["file"]["shares"], channel) {
            return Ok(ts.to_string());
        }
    }
    Err(PlatformError::Unavailable("Slack took a file and does not show it yet".to_owned()))
}

/// Returns the message of a channel in which a file is.
fn shared(shares: &Value, channel: &str) -> Option<Ts> {
    ["public", "private"].into_iter().find_map(|kind| text(&shares[kind][channel][0], "ts").parse().ok())
}

/// Returns `true` for a message of flock's own with these files and this text. Such a message can have no key.
pub(super) fn has_files(found: &Value, files: &[OutgoingFile], comment: &str, own: &Own) -> bool {
    let names = found["files"].as_array().into_iter().flatten().map(|file| text(file, "name"));
    event::is_own(found, own)
        && names.eq(files.iter().map(|file| file.name.as_str()))
        && text(found, "text").trim() == comment.trim()
}

/// Downloads a file.
pub(super) async fn download(api: &Api, file: &IncomingFile, most: usize) -> Result<Vec<u8>, PlatformError> {
    // The address is asked for now, because a message tells it only of files of its own workspace.
    let known = api.read("files.info", &[("file", &file.id)]).await?;
    let known = &known["file"];
    if known["is_external"] == true {
        return Err(PlatformError::Refused("the file is not at Slack but only linked there".to_owned()));
    }
    let addresses = [text(known, "url_private_download"), text(known, "url_private")];
    let address = addresses.into_iter().find(|address| !address.is_empty()).unwrap_or_default();
    api.download(address, most).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_file_is_found() {
        let shares = json!({"private": {"C1": [{"ts": "1.000001"}]}, "public": {"C2": [{"ts": "2.000001"}]}});
        assert_eq!(shared(&shares, "C1").map(|ts| ts.to_string()).as_deref(), Some("1.000001"));
        assert_eq!(shared(&shares, "C2").map(|ts| ts.to_string()).as_deref(), Some("2.000001"));
        assert_eq!(shared(&shares, "C3"), None);
        assert_eq!(shared(&Value::Null, "C1"), None);
    }

    #[test]
    fn a_message_with_the_same_files_is_the_same() {
        let own = Own { bot: "B1".to_owned(), ..Own::default() };
        let files = ["a", "b"].map(|name| OutgoingFile { name: name.to_owned(), content: Vec::new() });
        let found = json!({"bot_id": "B1", "text": "look", "files": [{"name": "a"}, {"name": "b"}]});
        assert!(has_files(&found, &files, "look", &own));
        assert!(!has_files(&found, &files[..1], "look", &own));
        assert!(!has_files(&found, &files, "other", &own));
        assert!(!has_files(&found, &files, "look", &Own::default()));
    }
}
