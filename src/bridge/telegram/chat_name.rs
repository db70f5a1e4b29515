//! The ways in which people name a chat.

/// A chat as somebody names it, with the number behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChatName {
    /// An id, or `@` and a public name.
    pub(super) chat: String,
    /// A topic, if the chat has topics.
    pub(super) topic: Option<i64>,
    /// Set if the number is of a message in a chat without topics.
    pub(super) is_of_link: bool,
}

/// Reads an id (`-100…`), a public name (`@name`), or a link to a chat or to a message in it, each with a topic behind it
/// if it has one.
pub(super) fn parse(text: &str) -> Option<ChatName> {
    let text = text.trim();
    let link = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    let link = ["t.me/", "telegram.me/"].iter().find_map(|host| link.strip_prefix(host));
    let parts: Vec<&str> =
        link.unwrap_or(text).split(['?', '#']).next()?.trim_end_matches('/').split('/').collect();
    let number = |text: &&str| text.parse::<i64>().ok().filter(|&number| number > 0);
    // A link to a message in a topic has both numbers behind the chat.
    let topic = |rest: &[&str]| match rest {
        [] => Some(None),
        [topic] => number(topic).map(Some),
        [topic, message] if link.is_some() => number(message).and(number(topic)).map(Some),
        _ => None,
    };
    let (chat, rest) = match (link.is_some(), parts.as_slice()) {
        (true, ["c", chat, rest @ ..]) => (format!("-100{}", number(chat)?), rest),
        (true, [name, rest @ ..]) if is_public(name) => (format!("@{name}"), rest),
        (false, [chat, rest @ ..]) => {
            let is_known = chat.parse::<i64>().is_ok() || chat.strip_prefix('@').is_some_and(is_public);
            (is_known.then(|| (*chat).to_owned())?, rest)
        }
        _ => return None,
    };
    Some(ChatName { chat, topic: topic(rest)?, is_of_link: link.is_some() })
}

/// Returns `true` for a text that can be a public name.
fn is_public(name: &str) -> bool {
    (4..=64).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_names_and_links_are_read() {
        for (text, chat, topic) in [
            ("-1001234567890", "-1001234567890", None),
            ("-1001234567890/45", "-1001234567890", Some(45)),
            ("5500000001", "5500000001", None),
            ("@flock_team", "@flock_team", None),
            ("@flock_team/45", "@flock_team", Some(45)),
            ("https://t.me/c/1234567890/789", "-1001234567890", Some(789)),
            ("t.me/c/1234567890/45/789?single", "-1001234567890", Some(45)),
            ("https://t.me/c/1234567890", "-1001234567890", None),
            ("https://t.me/flock_team/45/", "@flock_team", Some(45)),
        ] {
            let found = parse(text).unwrap();
            assert_eq!((found.chat.as_str(), found.topic), (chat, topic), "{text}");
            assert_eq!(found.is_of_link, text.contains("t.me/"));
        }
    }

    #[test]
    fn other_texts_name_nothing() {
        for text in [
            "",
            "Team",
            "@x",
            "@a b c d",
            "-100/x",
            "-100/-4",
            "-100/4/5",
            "t.me/+AbCdEfGh",
            "t.me/c/x/1",
            "t.me/joinchat/AAAA",
            "t.me/a_b_c/1/2/3",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
