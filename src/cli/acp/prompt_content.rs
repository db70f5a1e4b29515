//! The contents that a person sends from an editor: text, pictures, and parts of files. Pure.

use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::tool_view::fenced;
use crate::cli::Failure;
use crate::error::Kind;

/// A message to an agent or a channel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PromptContent {
    pub(super) text: String,
    /// The pictures, each with its media type and its base64.
    pub(super) pictures: Vec<(String, String)>,
}

impl PromptContent {
    /// Reads the blocks of a prompt.
    ///
    /// # Errors
    ///
    /// Returns an error for sound and for files that are no text, and if nothing was said.
    pub(super) fn of(blocks: &[ContentBlock]) -> Result<Self, Failure> {
        let refused = |what: &str| {
            let text = format!("{what} can't be sent to an agent; put the file into the agent's workspace");
            Failure::new(Kind::Usage, text)
        };
        let mut content = Self::default();
        for block in blocks {
            match block {
                ContentBlock::Text(text) => content.text.push_str(&text.text),
                ContentBlock::Image(image) => {
                    content.pictures.push((image.mime_type.clone(), image.data.clone()));
                }
                ContentBlock::ResourceLink(link) => content.text.push_str(&link.uri),
                ContentBlock::Resource(embedded) => match &embedded.resource {
                    EmbeddedResourceResource::TextResourceContents(file) => {
                        // What follows is another part of the message, whether or not the editor ends the line.
                        let part = ["\n", &file.uri, "\n", &fenced(&file.text), "\n"].concat();
                        content.text.push_str(&part);
                    }
                    _ => return Err(refused("a file that is no text")),
                },
                ContentBlock::Audio(_) => return Err(refused("sound")),
                _ => return Err(refused("this kind of content")),
            }
        }
        if content.text.trim().is_empty() && content.pictures.is_empty() {
            return Err(Failure::new(Kind::Usage, "the prompt is empty"));
        }
        Ok(content)
    }

    /// Returns the message's content for `/v1/chat/completions`.
    pub(super) fn chat(&self) -> Value {
        if self.pictures.is_empty() {
            return json!(self.text);
        }
        let text = json!({"type": "text", "text": self.text});
        let text = (!self.text.trim().is_empty()).then_some(text);
        let pictures = self.pictures.iter().map(|(media, data)| {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media};base64,{data}")}})
        });
        text.into_iter().chain(pictures).collect()
    }

    /// Returns the pictures as files with names.
    ///
    /// # Errors
    ///
    /// Returns an error if one is not base64.
    pub(super) fn files(&self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let file = |(number, (media, data)): (usize, &(String, String))| {
            let wrong = |error| Failure::with_cause("a picture of the prompt is not base64", &error);
            let end: String = media.rsplit('/').next().unwrap_or_default().chars().take(8).collect();
            let end = if end.chars().all(|c| c.is_ascii_alphanumeric()) { end } else { String::new() };
            Ok((format!("picture-{}.{end}", number + 1), STANDARD.decode(data).map_err(wrong)?))
        };
        self.pictures.iter().enumerate().map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(blocks: Value) -> Vec<ContentBlock> {
        serde_json::from_value(blocks).unwrap()
    }

    #[test]
    fn text_pictures_and_parts_of_files_become_one_message() {
        let sent = blocks(json!([
            {"type": "text", "text": "look at "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///p/a.rs"},
            {"type": "resource", "resource": {"uri": "file:///p/b.md", "text": "x ``` y", "mimeType": "text/plain"}},
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
        ]));
        let content = PromptContent::of(&sent).unwrap();
        assert_eq!(content.text, "look at file:///p/a.rs\nfile:///p/b.md\n````\nx ``` y\n````\n");
        let chat = content.chat();
        assert_eq!(chat[1]["image_url"]["url"], "data:image/png;base64,aGk=");
        assert_eq!(content.files().unwrap(), [("picture-1.png".to_owned(), b"hi".to_vec())]);
        let text = blocks(json!([{"type": "text", "text": "hello"}]));
        assert_eq!(PromptContent::of(&text).unwrap().chat(), json!("hello"));
    }

    #[test]
    fn what_an_agent_can_not_get_is_refused_by_name() {
        let sound = blocks(json!([{"type": "audio", "mimeType": "audio/wav", "data": "aGk="}]));
        assert!(PromptContent::of(&sound).unwrap_err().text().contains("sound"));
        let blob = blocks(json!([{"type": "resource", "resource": {"uri": "file:///x", "blob": "aGk="}}]));
        assert!(PromptContent::of(&blob).is_err());
        assert!(PromptContent::of(&[]).is_err());
        assert!(PromptContent::of(&blocks(json!([{"type": "text", "text": " \n"}]))).is_err());
        let bad = blocks(json!([{"type": "image", "mimeType": "image/png", "data": "?"}]));
        assert!(PromptContent::of(&bad).unwrap().files().is_err());
    }
}
