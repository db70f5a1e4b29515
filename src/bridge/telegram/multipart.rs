//! A form with a file, as browsers send it.

use std::io::Write as _;

/// Longest name of a file, in bytes.
const MAX_NAME: usize = 120;

/// A form that is being written.
pub(super) struct Form {
    boundary: String,
    body: Vec<u8>,
}

impl Form {
    pub(super) fn new() -> Self {
        Self { boundary: format!("flock-{}", uuid::Uuid::new_v4().simple()), body: Vec::new() }
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.part(&format!("name=\"{name}\""), "text/plain; charset=utf-8", value.as_bytes());
    }

    pub(super) fn file(&mut self, name: &str, file_name: &str, content: &[u8]) {
        let head = format!("name=\"{name}\"; filename=\"{}\"", safe_name(file_name));
        self.part(&head, "application/octet-stream", content);
    }

    fn part(&mut self, disposition: &str, kind: &str, content: &[u8]) {
        // Writing to memory never fails.
        let _ = write!(
            self.body,
            "--{}\r\nContent-Disposition: form-data; {disposition}\r\nContent-Type: {kind}\r\n\r\n",
            self.boundary
        );
        self.body.extend_from_slice(content);
        self.body.extend_from_slice(b"\r\n");
    }

    /// Returns the type and the body.
    pub(super) fn finish(mut self) -> (String, Vec<u8>) {
        let _ = write!(self.body, "--{}--\r\n", self.boundary);
        (format!("multipart/form-data; boundary={}", self.boundary), self.body)
    }
}

/// Returns the name without what would end it in the form's header.
fn safe_name(name: &str) -> String {
    let mut safe: String =
        name.chars().map(|c| if c.is_control() || "\"\\;/".contains(c) { '_' } else { c }).collect();
    safe.truncate(safe.floor_char_boundary(MAX_NAME));
    let safe = safe.trim();
    if safe.is_empty() { "file".to_owned() } else { safe.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_its_parts_between_boundaries() {
        let mut form = Form::new();
        form.text("chat_id", "-1");
        form.file("document", "a.txt", b"one\r\ntwo");
        let (kind, body) = form.finish();
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let text = String::from_utf8(body).unwrap();
        assert_eq!(text.matches(boundary).count(), 3);
        assert!(text.ends_with(&format!("\r\n\r\none\r\ntwo\r\n--{boundary}--\r\n")), "{text}");
        assert!(text.contains("name=\"document\"; filename=\"a.txt\"\r\n"), "{text}");
    }

    #[test]
    fn a_name_can_not_end_the_header() {
        assert_eq!(safe_name("a\"; name=\"chat_id\r\n\r\n1"), "a__ name=_chat_id____1");
        assert_eq!(safe_name(" \u{7f} "), "_");
        assert_eq!(safe_name(""), "file");
        assert!(safe_name(&"가".repeat(200)).len() <= MAX_NAME);
    }
}
