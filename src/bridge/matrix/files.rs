//! Files: their upload, their messages, and their download.

use ruma::api::client::authenticated_media::get_content as get_own_content;
use ruma::api::client::authenticated_media::get_media_config as get_own_config;
use ruma::api::client::media::{create_content, get_content, get_media_config};
use ruma::{MxcUri, OwnedMxcUri};
use serde_json::{Value, json};

use super::client::{Client, Version};
use super::failure::{Failure, Reason};
use crate::bridge::message::OutgoingFile;
use crate::bridge::platform::PlatformError;

/// Largest answer about the settings of a homeserver.
const MAX_SETTINGS: usize = 64 << 10;

/// Returns the largest size of a file that the homeserver takes, if it says one.
pub(super) async fn largest(client: &Client) -> Result<Option<usize>, PlatformError> {
    let answer = match client.bytes(get_own_config::v1::Request::new(), Version::Recent, MAX_SETTINGS).await {
        Err(failure) if failure.reason == Reason::Unsupported => {
            #[expect(deprecated, reason = "homeservers from before version 1.11 know no other request")]
            let request = get_media_config::v3::Request::new();
            client.bytes(request, Version::Old, MAX_SETTINGS).await
        }
        answer => answer,
    };
    match answer {
        Ok(body) => {
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            Ok(said["m.upload.size"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()))
        }
        // A homeserver without files at all is still good for talking.
        Err(Failure { error: PlatformError::Refused(_), .. }) => Ok(None),
        Err(failure) => Err(failure.error),
    }
}

/// Uploads a file, and returns its address.
pub(super) async fn upload(client: &Client, file: &OutgoingFile) -> Result<OwnedMxcUri, PlatformError> {
    let mut request = create_content::v3::Request::new(file.content.clone());
    request.filename = Some(file.name.clone());
    request.content_type = Some(kind(&file.name).1.to_owned());
    let sent = client.send(request).await;
    Ok(sent.map_err(|failure| refused(&file.name, failure))?.content_uri)
}

/// Returns the content of the message that shows a file.
pub(super) fn content(file: &OutgoingFile, address: &MxcUri) -> Value {
    let (message, media) = kind(&file.name);
    json!({
        "msgtype": message,
        "body": file.name,
        "filename": file.name,
        "url": address,
        "info": {"mimetype": media, "size": file.content.len()},
        "m.mentions": {},
    })
}

/// Returns the type of the message and that of the content, by the name of a file.
fn kind(name: &str) -> (&'static str, &'static str) {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    // An SVG is a program of its own, so it is not shown as a picture.
    match extension.as_deref().unwrap_or_default() {
        "png" => ("m.image", "image/png"),
        "jpg" | "jpeg" => ("m.image", "image/jpeg"),
        "gif" => ("m.image", "image/gif"),
        "webp" => ("m.image", "image/webp"),
        "mp4" => ("m.video", "video/mp4"),
        "webm" => ("m.video", "video/webm"),
        "mp3" => ("m.audio", "audio/mpeg"),
        "ogg" => ("m.audio", "audio/ogg"),
        "wav" => ("m.audio", "audio/wav"),
        "txt" | "md" | "log" => ("m.file", "text/plain"),
        "json" => ("m.file", "application/json"),
        "pdf" => ("m.file", "application/pdf"),
        _ => ("m.file", "application/octet-stream"),
    }
}

/// Downloads a file of at most `most` bytes.
pub(super) async fn download(client: &Client, id: &str, most: usize) -> Result<Vec<u8>, PlatformError> {
    let address = <&MxcUri>::from(id);
    let wrong = |_| PlatformError::Refused(format!("{id:?} is no address of a file"));
    let request = get_own_content::v1::Request::from_uri(address).map_err(wrong)?;
    let content = match client.bytes(request, Version::Recent, most).await {
        Err(failure) if failure.reason == Reason::Unsupported => {
            // It goes without the token, because these homeservers show their files to everybody.
            #[expect(deprecated, reason = "homeservers from before version 1.11 know no other request")]
            let request = get_content::v3::Request::from_url(address).map_err(wrong)?;
            client.bytes(request, Version::Old, most).await
        }
        content => content,
    };
    content.map_err(|failure| refused("the file", failure))
}

fn refused(name: &str, failure: Failure) -> PlatformError {
    match (failure.reason, failure.error) {
        (Reason::TooLarge, PlatformError::Refused(text)) => {
            PlatformError::Refused(format!("{name} is too large: {text}"))
        }
        (_, error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_by_what_its_name_says() {
        let shown = |name: &str| {
            let file = OutgoingFile { name: name.to_owned(), content: vec![0; 3] };
            content(&file, <&MxcUri>::from("mxc://h/1"))
        };
        let picture = shown("a.PNG");
        assert_eq!((&picture["msgtype"], &picture["body"]), (&json!("m.image"), &json!("a.PNG")));
        assert_eq!(picture["info"], json!({"mimetype": "image/png", "size": 3}));
        assert_eq!(picture["m.mentions"], json!({}));
        for name in ["a.svg", "png", "a.", "a.html", ""] {
            let file = shown(name);
            assert_eq!(
                (&file["msgtype"], &file["info"]["mimetype"]),
                (&json!("m.file"), &json!("application/octet-stream")),
                "{name:?}"
            );
        }
    }
}
