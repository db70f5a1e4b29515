//! Reads the content of a message.
//!
//! The content is JSON that a stranger wrote, and is read field by field: what is missing or has an unexpected form is
//! passed over.

use serde_json::Value;

use super::mentioned;
use crate::bridge::message::IncomingFile;

/// Longest name of a file, in characters.
const MAX_NAME: usize = 200;

/// The content of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) files: Vec<IncomingFile>,
    /// The first message of the thread that this one is in.
    pub(super) root: Option<String>,
    pub(super) reply_to: Option<String>,
    pub(super) is_to_bot: bool,
    /// Set for a notice, which programs write so that other programs do not answer it.
    pub(super) is_notice: bool,
}

/// Reads the content of a message. `own` is flock's account, whose mention is taken out of the text. `None` for a
/// content without a text, such as that of a deleted message.
pub(super) fn read(content: &Value, own: &str) -> Option<Content> {
    let kind = content["msgtype"].as_str().unwrap_or("m.text");
    let body = content["body"].as_str()?;
    let relation = &content["m.relates_to"];
    let answered = relation["m.in_reply_to"]["event_id"].as_str();
    let is_in_thread = relation["rel_type"] == "m.thread";
    // Programs that know no threads show each message of one as an answer to the one before.
    let is_fallback = is_in_thread && relation["is_falling_back"] == true;
    let reply_to = answered.filter(|_| !is_fallback);
    let (file, body) = match kind {
        "m.file" | "m.image" | "m.audio" | "m.video" => attached(content, body),
        _ => (None, body),
    };
    let body = if answered.is_some() { without_quote(body) } else { body };
    let (text, is_to_bot) = mentioned::read(body, content, own);
    Some(Content {
        text: if kind == "m.emote" { format!("* {text}") } else { text },
        files: file.into_iter().collect(),
        root: relation["event_id"].as_str().filter(|_| is_in_thread).map(str::to_owned),
        reply_to: reply_to.map(str::to_owned),
        is_to_bot,
        is_notice: kind == "m.notice",
    })
}

/// Returns the file of a message, and the text that is beside it.
fn attached<'c>(content: &'c Value, body: &'c str) -> (Option<IncomingFile>, &'c str) {
    // A file that is encrypted has its address elsewhere, with the key. flock can't read it, and shows its name.
    let Some(id) = content["url"].as_str().filter(|url| url.starts_with("mxc://")) else {
        return (None, body);
    };
    let (name, caption) = match content["filename"].as_str() {
        Some(name) if name != body => (name, body),
        // Without a caption the text is the name of the file.
        _ => (body, ""),
    };
    let file = IncomingFile {
        id: id.to_owned(),
        name: name.chars().take(MAX_NAME).collect(),
        bytes: content["info"]["size"].as_u64().unwrap_or_default(),
    };
    (Some(file), caption)
}

/// Removes the quote of the answered message that older programs put before an answer.
fn without_quote(text: &str) -> &str {
    if !text.starts_with("> <") {
        return text;
    }
    let mut rest = text;
    while rest.starts_with("> ") || rest.starts_with(">\n") || rest == ">" {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.trim_start_matches('\n')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(content: &Value) -> Content {
        read(content, "@flock:h").unwrap()
    }

    #[test]
    fn a_reply_names_what_it_answers_and_loses_the_quote() {
        let read = content(&json!({
            "msgtype": "m.text", "body": "> <@a:h> old\n> more\n\nnew\n> kept",
            "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}},
        }));
        assert_eq!((read.text.as_str(), read.reply_to.as_deref()), ("new\n> kept", Some("$0")));
        assert_eq!(content(&json!({"body": "> <@a:h> a quote"})).text, "> <@a:h> a quote");
    }

    #[test]
    fn a_message_of_a_thread_names_its_first_message() {
        let relation = |is_falling_back| {
            json!({"rel_type": "m.thread", "event_id": "$root", "is_falling_back": is_falling_back,
                   "m.in_reply_to": {"event_id": "$last"}})
        };
        let read = content(&json!({"body": "x", "m.relates_to": relation(true)}));
        assert_eq!((read.root.as_deref(), read.reply_to), (Some("$root"), None));
        let read = content(&json!({"body": "x", "m.relates_to": relation(false)}));
        assert_eq!((read.root.as_deref(), read.reply_to.as_deref()), (Some("$root"), Some("$last")));
    }

    #[test]
    fn a_file_has_a_name_and_maybe_a_caption() {
        let file = |extra: Value| {
            let mut message =
                json!({"msgtype": "m.image", "body": "a cat", "url": "mxc://h/1", "info": {"size": 7}});
            message.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            content(&message)
        };
        let with_caption = file(json!({"filename": "cat.png"}));
        let wanted =
            |name: &str| IncomingFile { id: "mxc://h/1".to_owned(), name: name.to_owned(), bytes: 7 };
        assert_eq!((with_caption.text.as_str(), with_caption.files), ("a cat", vec![wanted("cat.png")]));
        for same in [json!({}), json!({"filename": "a cat"}), json!({"filename": 3})] {
            let read = file(same);
            assert_eq!((read.text.as_str(), read.files), ("", vec![wanted("a cat")]));
        }
        let encrypted = file(json!({"url": null, "file": {"url": "mxc://h/1"}}));
        assert_eq!((encrypted.text.as_str(), encrypted.files), ("a cat", Vec::new()));
        assert_eq!(
            file(json!({"info": {"size": "large"}, "filename": "x".repeat(999)})).files[0].name.len(),
            200
        );
        assert!(file(json!({"url": "https://e.org/cat.png"})).files.is_empty());
    }

    #[test]
    fn what_has_an_unexpected_form_is_passed_over() {
        assert_eq!(read(&json!({}), "@flock:h"), None);
        assert_eq!(read(&json!([1]), "@flock:h"), None);
        assert_eq!(read(&json!({"body": 1}), "@flock:h"), None);
        let odd =
            json!({"body": "x", "msgtype": 5, "m.relates_to": "no", "m.mentions": [], "formatted_body": {}});
        assert_eq!(content(&odd), Content { text: "x".to_owned(), ..Content::default() });
        assert!(content(&json!({"body": "x", "msgtype": "m.notice"})).is_notice);
        assert_eq!(content(&json!({"body": "waves", "msgtype": "m.emote"})).text, "* waves");
    }
}
