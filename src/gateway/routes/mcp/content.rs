//! The result of a call as the protocol has it: its texts and pictures, and what is attached to them.

use serde_json::{Map, Value, json};

use crate::agent::delegated::ToolCallResponse;
use crate::gateway::routes::plugin;
use crate::tool::{AttachedContent, ResourceBody, ResourceLink};

/// The first version whose results can have sounds and links. An older client would refuse the whole result.
const SOUNDS_AND_LINKS: &str = "2025-06-18";

/// Returns the result for a client that speaks this version.
pub(super) fn call_result(answered: ToolCallResponse, version: &str) -> Value {
    let ToolCallResponse { content: blocks, attachments, is_error, .. } = answered;
    let mut attachments = attachments.into_iter().peekable();
    let mut content = Vec::with_capacity(blocks.len() + attachments.len());
    for (at, block) in blocks.iter().enumerate() {
        match attachments.next_if(|attached| attached.block == at) {
            Some(attached) if is_known(&attached.content, version) => {
                content.push(json!({"type": "text", "text": attached.label}));
                content.push(part(attached.content));
            }
            _ => content.extend(plugin::shown(block)),
        }
    }
    json!({"content": content, "isError": is_error})
}

fn is_known(content: &AttachedContent, version: &str) -> bool {
    match content {
        AttachedContent::Resource { .. } => true,
        // Versions are dates, so they are ordered as texts.
        AttachedContent::Sound { .. } | AttachedContent::Link(_) => version >= SOUNDS_AND_LINKS,
    }
}

fn part(content: AttachedContent) -> Value {
    match content {
        // Moved, because a sound may have megabytes.
        AttachedContent::Sound { media_type, data } => object([
            ("type", Some("audio".into())),
            ("data", Some(data.into())),
            ("mimeType", Some(media_type.into())),
        ]),
        AttachedContent::Resource { uri, media_type, body } => {
            let (name, body) = match body {
                ResourceBody::Text(text) => ("text", text),
                ResourceBody::Blob(data) => ("blob", data),
            };
            let resource = object([
                ("uri", Some(uri.into())),
                ("mimeType", media_type.map(Value::from)),
                (name, Some(body.into())),
            ]);
            object([("type", Some("resource".into())), ("resource", Some(resource))])
        }
        AttachedContent::Link(ResourceLink { uri, name, title, description, media_type, size }) => object([
            ("type", Some("resource_link".into())),
            ("uri", Some(uri.into())),
            ("name", Some(name.into())),
            ("title", title.map(Value::from)),
            ("description", description.map(Value::from)),
            ("mimeType", media_type.map(Value::from)),
            ("size", size.map(Value::from)),
        ]),
    }
}

fn object<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    let entries = entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(entries.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Block;
    use crate::tool::Attachment;

    fn answered() -> ToolCallResponse {
        let attached = |block, content| Attachment { block, label: format!("[part {block}]"), content };
        let resource = |body| AttachedContent::Resource { uri: "a:b".to_owned(), media_type: None, body };
        let link = ResourceLink {
            uri: "file:///a".to_owned(),
            name: "a".to_owned(),
            title: None,
            description: Some("about".to_owned()),
            media_type: Some("text/plain".to_owned()),
            size: Some(7),
        };
        let sound = AttachedContent::Sound { media_type: "audio/wav".to_owned(), data: "AAAA".to_owned() };
        ToolCallResponse {
            content: ["mark", "sound", "text", "resource", "file", "link", "note"].map(Block::text).into(),
            attachments: vec![
                attached(1, sound),
                attached(3, resource(ResourceBody::Text("inside".to_owned()))),
                attached(4, resource(ResourceBody::Blob("BBBB".to_owned()))),
                attached(5, AttachedContent::Link(link)),
            ],
            is_error: false,
            is_lost: false,
        }
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn attached_parts_take_the_place_of_their_blocks() {
        for version in ["2025-06-18", "2025-11-25"] {
            let result = call_result(answered(), version);
            let expected = [
                text("mark"),
                text("[part 1]"),
                json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
                text("text"),
                text("[part 3]"),
                json!({"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}),
                text("[part 4]"),
                json!({"type": "resource", "resource": {"uri": "a:b", "blob": "BBBB"}}),
                text("[part 5]"),
                json!({"type": "resource_link", "uri": "file:///a", "name": "a", "description": "about",
                    "mimeType": "text/plain", "size": 7}),
                text("note"),
            ];
            assert_eq!(result, json!({"content": expected, "isError": false}), "{version}");
        }
    }

    #[test]
    fn a_client_of_an_older_version_gets_only_kinds_that_it_knows() {
        for version in ["2024-11-05", "2025-03-26"] {
            let result = call_result(answered(), version);
            let kinds: Vec<&str> = result["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part["type"].as_str().unwrap())
                .collect();
            let expected = ["text", "text", "text", "text", "resource", "text", "resource", "text", "text"];
            assert_eq!(kinds, expected);
            assert_eq!(result["content"][1], text("sound"));
            assert_eq!(result["content"][7], text("link"));
        }
    }
}
