//! Discord's markup, which is Markdown with marks of its own for people, roles, channels, emoji and times.

use super::model::{Message, User};
use super::places::Places;

/// The text of a message as flock shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) markdown: String,
    /// Set if flock's bot is mentioned.
    pub(super) is_to_bot: bool,
}

/// Returns the text of a message with `@name` for those whom it mentions. Mentions of the bot itself are left out.
pub(super) fn read(message: &Message, bot: &str, places: &Places) -> Text {
    let mut text = Text::default();
    let forwarded = message.message_snapshots.iter().map(|one| one.message.content.as_str());
    let parts = std::iter::once(message.content.as_str()).chain(forwarded).filter(|part| !part.is_empty());
    for (number, part) in parts.enumerate() {
        if number > 0 {
            text.markdown.push('\n');
        }
        for (is_code, piece) in pieces(part) {
            if is_code {
                text.markdown.push_str(piece);
            } else {
                resolve(piece, &Names { users: &message.mentions, bot, places }, &mut text);
            }
        }
    }
    for sticker in message.sticker_items.iter().take(3) {
        text.markdown.extend([" (", sticker.name.as_str(), ")"]);
    }
    text.markdown = text.markdown.trim().to_owned();
    text
}

/// The meaning of the marks of a text.
struct Names<'n> {
    users: &'n [User],
    bot: &'n str,
    places: &'n Places,
}

fn resolve(piece: &str, names: &Names<'_>, text: &mut Text) {
    let mut rest = piece;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at);
        text.markdown.push_str(before);
        let mark = from.find('>').filter(|&end| end < 100).map(|end| &from[1..end]);
        match mark.and_then(|mark| meaning(mark, names).map(|meaning| (mark, meaning))) {
            Some((mark, meaning)) => {
                rest = &from[mark.len() + 2..];
                match meaning {
                    Meaning::Text(name) => text.markdown.push_str(&name),
                    Meaning::Bot => {
                        text.is_to_bot = true;
                        // Without the mention, one of the spaces around it is too much.
                        rest = rest.strip_prefix(' ').unwrap_or(rest);
                    }
                }
            }
            None => {
                text.markdown.push('<');
                rest = &from[1..];
            }
        }
    }
    text.markdown.push_str(rest);
}

enum Meaning {
    Text(String),
    Bot,
}

/// Returns what a mark means, which is written without its brackets. `None` if it is no mark.
fn meaning(mark: &str, names: &Names<'_>) -> Option<Meaning> {
    let is_id = |text: &str| super::snowflake::parse(text).is_some() && !text.is_empty();
    let plain = |text: String| Some(Meaning::Text(text));
    if let Some(id) = mark.strip_prefix("@&").filter(|id| is_id(id)) {
        return match names.places.role(id) {
            Some(role) if role.bot.as_deref() == Some(names.bot) => Some(Meaning::Bot),
            Some(role) => plain(format!("@{}", role.name)),
            None => plain("@role".to_owned()),
        };
    }
    if let Some(id) = mark.strip_prefix("@!").or_else(|| mark.strip_prefix('@')).filter(|id| is_id(id)) {
        if id == names.bot {
            return Some(Meaning::Bot);
        }
        let known = names.users.iter().find(|user| user.id == id);
        return plain(known.map_or_else(|| "@somebody".to_owned(), |user| format!("@{}", user.username)));
    }
    if let Some(id) = mark.strip_prefix('#').filter(|id| is_id(id)) {
        return plain(names.places.place(id).map_or_else(|| "#channel".to_owned(), |place| place.title()));
    }
    let mut parts = mark.split(':');
    match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
        ("" | "a", name, Some(id), None) if is_id(id) => plain(format!(":{name}:")),
        ("t", seconds, _, None) => plain(time(seconds)?),
        (command, id, None, None) if command.starts_with('/') && is_id(id) => plain(command.to_owned()),
        _ => None,
    }
}

/// Returns the time of a time mark, which Discord shows each reader in their own time zone.
fn time(seconds: &str) -> Option<String> {
    let time = jiff::Timestamp::from_second(seconds.parse().ok()?).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// Parts a text at the borders of code, and says which parts are code. The backticks belong to the code.
pub(super) fn pieces(text: &str) -> Vec<(bool, &str)> {
    let mut pieces = Vec::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let length = run(&text[start..]);
        at = start + length;
        if let Some(end) = closing(&text[at..], length) {
            let end = at + end;
            pieces.push((false, &text[kept..start]));
            pieces.push((true, &text[start..end]));
            (kept, at) = (end, end);
        }
    }
    pieces.push((false, &text[kept..]));
    pieces.retain(|(_, piece)| !piece.is_empty());
    pieces
}

/// Returns the place after the next run of exactly so many backticks.
fn closing(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let found = run(&text[start..]);
        at = start + found;
        if found == length {
            return Some(at);
        }
    }
    None
}

fn run(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(content: &str) -> (String, bool) {
        let mut places = Places::default();
        let guild = json!({
            "id": "9", "channels": [{"id": "5", "type": 0, "name": "news"}],
            "roles": [{"id": "6", "name": "staff"}, {"id": "7", "name": "flock", "tags": {"bot_id": "1"}}],
        });
        places.learn_guild(serde_json::from_value(guild).unwrap());
        let message = json!({"content": content, "mentions": [{"id": "2", "username": "ann"}, {"id": "1"}]});
        let text = read(&serde_json::from_value(message).unwrap(), "1", &places);
        (text.markdown, text.is_to_bot)
    }

    #[test]
    fn marks_become_names() {
        let all = "<@2> <@!2> <@&6> <#5> <:bird:42> <a:bird:42> </status:42> <t:0:R>";
        let names = "@ann @ann @staff #news :bird: :bird: /status 1970-01-01 00:00 UTC";
        assert_eq!(shown(all), (names.to_owned(), false));
        assert_eq!(shown("<@3> <#4> <@&8>").0, "@somebody #channel @role");
    }

    #[test]
    fn mentions_of_the_bot_or_its_role_are_left_out() {
        assert_eq!(shown("<@1> hello"), ("hello".to_owned(), true));
        assert_eq!(shown("hello <@&7>, you"), ("hello , you".to_owned(), true));
        assert_eq!(shown("<@!1>"), (String::new(), true));
    }

    #[test]
    fn what_is_no_mark_stays_as_it_is() {
        for text in [
            "a < b > c",
            "<@x>",
            "<",
            "<https://e.org>",
            "<t:9999999999999999:R>",
            "<::>",
            "`<@2>` ```<@1>```",
        ] {
            assert_eq!(shown(text), (text.to_owned(), false));
        }
    }

    #[test]
    fn code_is_told_apart_from_text() {
        assert_eq!(pieces("a `b` c"), [(false, "a "), (true, "`b`"), (false, " c")]);
        assert_eq!(pieces("``a`b``"), [(true, "``a`b``")]);
        assert_eq!(pieces("```\na\n``` `"), [(true, "```\na\n```"), (false, " `")]);
        assert_eq!(pieces(""), []);
    }
}
