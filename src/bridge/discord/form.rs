//! A message with files, as a form.

use serde_json::Value;

use super::rest::Body;
use crate::bridge::message::OutgoingFile;

/// Returns the body of a message: JSON, or a form if there are files.
pub(super) fn body(message: Value, files: &[OutgoingFile]) -> Body {
    if files.is_empty() {
        return Body::Json(message);
    }
    // No file contains a random boundary.
    let boundary = format!("flock-{}", uuid::Uuid::new_v4());
    let size: usize = files.iter().map(|file| file.content.len() + 512).sum();
    let mut content = Vec::with_capacity(size + 4096);
    let mut part = |head: &str, body: &[u8]| {
        content.extend_from_slice(
            format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(),
        );
        content.extend_from_slice(body);
        content.extend_from_slice(b"\r\n");
    };
    part("name=\"payload_json\"\r\nContent-Type: application/json", message.to_string().as_bytes());
    for (number, file) in files.iter().enumerate() {
        let head = format!(
            "name=\"files[{number}]\"; filename=\"{}\"\r\nContent-Type: application/octet-stream",
            quoted(&file.name)
        );
        part(&head, &file.content);
    }
    content.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Body::Form { kind: format!("multipart/form-data; boundary={boundary}"), content }
}

/// Returns a file's name as it can stand in quotes.
fn quoted(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control())
        .map(|c| if matches!(c, '"' | '\\') { '_' } else { c })
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_without_files_is_json() {
        assert!(matches!(body(json!({"content": "a"}), &[]), Body::Json(_)));
    }

    #[test]
    fn a_file_stands_in_a_part_of_its_own() {
        let file = OutgoingFile { name: "a\"\r\nb.txt".to_owned(), content: b"\xff\x00".to_vec() };
        let Body::Form { kind, content } = body(json!({"content": "a"}), &[file]) else { panic!() };
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let text = String::from_utf8_lossy(&content);
        assert!(
            text.starts_with(&format!("--{boundary}\r\n")) && text.ends_with(&format!("--{boundary}--\r\n"))
        );
        assert!(text.contains("name=\"files[0]\"; filename=\"a_b.txt\"\r\n"));
        assert!(content.windows(4).any(|part| part == b"\xff\x00\r\n"));
    }
}
