//! Writes the contents of events.

use ruma::RoomId;
use serde_json::{Value, json};

use super::place::Place;
use crate::bridge::message::Mention;
use crate::bridge::text;

/// Largest size of a message's two bodies together, as they are written in JSON. An event may have 65,536 bytes with
/// everything around them.
const MAX_BODIES: usize = 52 << 10;
/// Largest size of a message's bodies with the links to the people that it mentions.
const MAX_LINKED: usize = 56 << 10;
/// Largest size of the text for programs that know no edits.
const MAX_FALLBACK: usize = 512;
/// Largest number of people whom a message mentions.
const MAX_MENTIONS: usize = 50;

/// The two bodies of a message, and whom it mentions.
pub(super) struct Bodies {
    plain: String,
    html: String,
    mentioned: Vec<String>,
}

/// Returns `true` if a text of this author is short enough for one message.
pub(super) fn fits(author: &str, markdown: &str) -> bool {
    size(&Bodies::new(author, markdown, &[])) <= MAX_BODIES
}

fn size(bodies: &Bodies) -> usize {
    json_size(&bodies.plain) + json_size(&bodies.html)
}

/// Returns the size of a text in JSON, without quotation marks.
fn json_size(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

impl Bodies {
    /// Renders a text. A mention becomes a link to the person.
    pub(super) fn new(author: &str, markdown: &str, mentions: &[Mention]) -> Self {
        let mentions = &mentions[..mentions.len().min(MAX_MENTIONS)];
        let addresses: Vec<_> =
            mentions.iter().map(|mention| (mention.name.as_str(), address(&mention.account))).collect();
        let (html, found) = text::html_with_people(markdown, &addresses);
        let mentioned = found.into_iter().map(|at| mentions[at].account.clone()).collect();
        let linked = Self::with_author(author, markdown, &html, mentioned);
        if mentions.is_empty() || size(&linked) <= MAX_LINKED {
            return linked;
        }
        // The same name many times. Who is mentioned is told in the list; the links are only for the eye.
        Self::with_author(author, markdown, &text::html(markdown), linked.mentioned)
    }

    fn with_author(author: &str, markdown: &str, html: &str, mentioned: Vec<String>) -> Self {
        if author.is_empty() {
            return Self { plain: markdown.to_owned(), html: html.to_owned(), mentioned };
        }
        // The author stands in the first line, so that a list or code behind it keeps its form.
        let html = match html.strip_prefix("<p>") {
            Some(rest) => format!("<p><strong>[{author}]</strong> {rest}"),
            None => format!("<p><strong>[{author}]</strong></p>\n{html}"),
        };
        Self { plain: format!("[{author}] {markdown}"), html, mentioned }
    }

    /// Returns the content of a message.
    pub(super) fn content(self) -> Value {
        json!({
            "msgtype": "m.text",
            "body": self.plain,
            "format": "org.matrix.custom.html",
            "formatted_body": self.html,
            // An empty list says that nobody is mentioned. Without one, some programs search the text for names.
            "m.mentions": mentions(&self.mentioned),
        })
    }

    /// Returns the content of the event that replaces the text of a message.
    pub(super) fn edit(self, of: &str) -> Value {
        let fallback = &self.plain[..self.plain.floor_char_boundary(MAX_FALLBACK)];
        json!({
            "msgtype": "m.text",
            "body": format!("* {fallback}"),
            // The message told them before, so the edit does not tell them again.
            "m.mentions": {},
            "m.relates_to": {"rel_type": "m.replace", "event_id": of},
            "m.new_content": self.content(),
        })
    }
}

fn mentions(accounts: &[String]) -> Value {
    if accounts.is_empty() { json!({}) } else { json!({"user_ids": accounts}) }
}

/// Returns the address by which programs know a person.
fn address(account: &str) -> String {
    let encode = |byte: u8| match byte {
        b'@' | b':' | b'.' | b'-' | b'_' | b'=' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    format!("https://matrix.to/#/{}", account.bytes().map(encode).collect::<String>())
}

/// Adds to a content what it answers, and the thread that it is in.
pub(super) fn relate(content: &mut Value, place: &Place, reply_to: Option<&str>) {
    match (&place.root, reply_to) {
        (None, None) => {}
        (None, Some(answered)) => {
            content["m.relates_to"] = json!({"m.in_reply_to": {"event_id": answered}});
        }
        (Some(root), answered) => {
            content["m.relates_to"] = json!({
                "rel_type": "m.thread",
                "event_id": root,
                // Programs that know no threads show an answer to the first message.
                "is_falling_back": answered.is_none(),
                "m.in_reply_to": {"event_id": answered.unwrap_or(root.as_str())},
            });
        }
    }
}

/// Returns the reaction to a message.
pub(super) fn reaction(to: &str, emoji: &str) -> Value {
    json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": to, "key": emoji}})
}

/// Returns the error for a text in an encrypted room.
pub(super) fn encrypted(room: &RoomId) -> String {
    format!(
        "the room {room} is end-to-end encrypted, and flock has no encryption; link a room without encryption"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(author: &str, markdown: &str) -> (String, String) {
        let bodies = Bodies::new(author, markdown, &[]);
        (bodies.plain, bodies.html)
    }

    #[test]
    fn the_author_stands_before_the_text() {
        assert_eq!(
            bodies("coder", "a **b**"),
            ("[coder] a **b**".to_owned(), "<p><strong>[coder]</strong> a <strong>b</strong></p>".to_owned())
        );
        assert_eq!(bodies("coder", "- a").1, "<p><strong>[coder]</strong></p>\n<ul>\n<li>a</li>\n</ul>");
        assert_eq!(bodies("", "a"), ("a".to_owned(), "<p>a</p>".to_owned()));
    }

    #[test]
    fn a_message_that_fits_is_no_larger_than_an_event() {
        for piece in ["word ", "\\", "\"", "<&>", "\n\n- x", "\u{1}", "한", "`a` **b** "] {
            let mut text = piece.to_owned();
            while fits("coder", &format!("{text}{text}")) {
                text = format!("{text}{text}");
            }
            let content = Bodies::new("coder", &text, &[]).content();
            assert!(content.to_string().len() < 60_000, "{piece:?}");
            assert!(text.len() > 1_000, "{piece:?}: {}", text.len());
            let edit = Bodies::new("coder", &text, &[]).edit("$1");
            assert!(edit.to_string().len() < 64_000, "{piece:?}");
        }
    }

    #[test]
    fn a_mention_is_a_link_and_is_listed() {
        let ann = Mention { name: "ann".to_owned(), account: "@Ann/x:h".to_owned() };
        let content = Bodies::new("", "hi @ann, not `@ann` or @anna", std::slice::from_ref(&ann)).content();
        assert_eq!(content["m.mentions"], json!({"user_ids": ["@Ann/x:h"]}));
        assert_eq!(
            content["formatted_body"],
            "<p>hi <a href=\"https://matrix.to/#/@Ann%2Fx:h\">@ann</a>, not <code>@ann</code> or @anna</p>"
        );
        assert_eq!(content["body"], "hi @ann, not `@ann` or @anna");
        let nobody = Bodies::new("", "hi `@ann`", std::slice::from_ref(&ann)).content();
        assert_eq!(nobody["m.mentions"], json!({}));
        let often = Bodies::new("", &"@ann ".repeat(5_000), std::slice::from_ref(&ann)).content();
        assert!(often.to_string().len() < 60_000);
        assert_eq!(often["m.mentions"], json!({"user_ids": ["@Ann/x:h"]}));
    }

    #[test]
    fn an_edit_replaces_and_mentions_nobody_again() {
        let ann = Mention { name: "ann".to_owned(), account: "@ann:h".to_owned() };
        let edit = Bodies::new("coder", "done, @ann", &[ann]).edit("$1");
        assert_eq!(edit["m.relates_to"], json!({"rel_type": "m.replace", "event_id": "$1"}));
        assert_eq!(edit["m.mentions"], json!({}));
        assert_eq!(edit["body"], "* [coder] done, @ann");
        assert_eq!(edit["m.new_content"]["m.mentions"], json!({"user_ids": ["@ann:h"]}));
    }

    #[test]
    fn answers_and_threads_are_related() {
        let related = |place: &str, reply_to| {
            let mut content = json!({});
            relate(&mut content, &Place::parse(place).unwrap(), reply_to);
            content["m.relates_to"].clone()
        };
        assert_eq!(related("!r:h", None), Value::Null);
        assert_eq!(related("!r:h", Some("$1")), json!({"m.in_reply_to": {"event_id": "$1"}}));
        let thread = related("!r:h/$0", None);
        assert_eq!(
            thread,
            json!({"rel_type": "m.thread", "event_id": "$0", "is_falling_back": true,
                   "m.in_reply_to": {"event_id": "$0"}})
        );
        let answer = related("!r:h/$0", Some("$1"));
        assert_eq!(
            (&answer["is_falling_back"], &answer["m.in_reply_to"]["event_id"]),
            (&json!(false), &json!("$1"))
        );
    }
}
