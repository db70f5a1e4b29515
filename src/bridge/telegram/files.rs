//! Files in messages.

use serde_json::Value;

use crate::bridge::message::IncomingFile;

/// Longest name of a file, in characters.
const MAX_NAME: usize = 200;
/// The kinds of files, and the end of the name of one without a name. An animation is a document too.
const KINDS: [(&str, &str); 5] =
    [("document", ""), ("audio", ".mp3"), ("video", ".mp4"), ("voice", ".ogg"), ("video_note", ".mp4")];

/// Returns the files of a message. Of a photo it is the largest of its sizes.
pub(super) fn files(message: &Value) -> Vec<IncomingFile> {
    let number = message["message_id"].as_i64().unwrap_or_default();
    let sizes = message["photo"].as_array().into_iter().flatten();
    let photo = sizes.max_by_key(|size| {
        let side = |key: &str| size[key].as_u64().unwrap_or_default();
        side("width").saturating_mul(side("height"))
    });
    let photo = photo.and_then(|photo| file(photo, format!("photo-{number}.jpg")));
    let others = KINDS.iter().filter_map(|(kind, end)| file(&message[kind], format!("{kind}-{number}{end}")));
    photo.into_iter().chain(others).collect()
}

fn file(value: &Value, name: String) -> Option<IncomingFile> {
    let id = value["file_id"].as_str().filter(|id| !id.is_empty() && id.len() <= 1000)?;
    let given = value["file_name"].as_str().filter(|name| !name.trim().is_empty());
    Some(IncomingFile {
        id: id.to_owned(),
        name: given.map_or(name, |given| given.chars().take(MAX_NAME).collect()),
        bytes: value["file_size"].as_u64().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(message: Value) -> Vec<(String, String, u64)> {
        files(&message).into_iter().map(|file| (file.id, file.name, file.bytes)).collect()
    }

    #[test]
    fn files_have_the_name_that_they_were_given_or_one_of_their_kind() {
        let message =
            json!({"message_id": 3, "document": {"file_id": "A", "file_name": "a.txt", "file_size": 5}});
        assert_eq!(found(message), [("A".to_owned(), "a.txt".to_owned(), 5)]);
        let message = json!({"message_id": 3, "voice": {"file_id": "A"}});
        assert_eq!(found(message), [("A".to_owned(), "voice-3.ogg".to_owned(), 0)]);
    }

    #[test]
    fn of_a_photo_the_largest_size_is_taken() {
        let size = |id: &str, side: u64| json!({"file_id": id, "width": side, "height": side});
        let message = json!({"message_id": 3, "photo": [size("s", 90), size("l", 900), size("m", 320)]});
        assert_eq!(found(message), [("l".to_owned(), "photo-3.jpg".to_owned(), 0)]);
    }

    #[test]
    fn what_makes_no_sense_is_passed_over() {
        for message in [
            json!({}),
            json!({"photo": []}),
            json!({"photo": [1], "document": {"file_id": ""}, "audio": "x"}),
        ] {
            assert_eq!(found(message), []);
        }
    }
}
