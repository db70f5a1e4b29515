//! Text with entities, as Telegram delivers it, in Markdown.

use std::fmt::Write as _;

use serde_json::Value;

use super::names::{Bot, name_of};
use crate::bridge::text;

/// Longest text that is read, in bytes. Telegram's own limit is a quarter of it.
const MAX_TEXT: usize = 64 << 10;
/// Largest number of entities that are read. Telegram has at most a hundred.
const MAX_ENTITIES: usize = 200;

/// Returns the text in Markdown, and `true` if it mentions the bot, which is left out.
///
/// Entities that are not within the text, or that cut a character, are passed over. One that goes beyond the end of the
/// one around it ends with it.
pub(super) fn markdown(text: &str, entities: &Value, bot: &Bot) -> (String, bool) {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    let places = places(text);
    let mut spans: Vec<Span<'_>> = entities
        .as_array()
        .into_iter()
        .flatten()
        .take(MAX_ENTITIES)
        .filter_map(|entity| Span::read(entity, text, &places, bot))
        .collect();
    // The longer one of two that begin together is around the other.
    spans.sort_by(|one, other| one.start.cmp(&other.start).then(other.end.cmp(&one.end)));
    let is_to_bot = spans.iter().any(|span| matches!(span.kind, Kind::ToBot(_)));
    let mut out = String::with_capacity(text.len() + 16 * spans.len());
    write(text, &spans, 0..text.len(), &mut out);
    (out.trim().to_owned(), is_to_bot)
}

/// Returns the byte for each UTF-16 code unit of a text and for its end. `None` within a character.
fn places(text: &str) -> Vec<Option<usize>> {
    let mut places = Vec::with_capacity(text.len() + 1);
    for (at, c) in text.char_indices() {
        places.push(Some(at));
        places.extend((1..c.len_utf16()).map(|_| None));
    }
    places.push(Some(text.len()));
    places
}

/// A part of the text that means something.
struct Span<'e> {
    start: usize,
    end: usize,
    kind: Kind<'e>,
}

enum Kind<'e> {
    Around(&'static str),
    Code,
    Block(&'e str),
    Link(&'e str),
    Quote,
    /// Somebody without a user name, by the name that is seen.
    Mention(String),
    /// A mention of the bot, of which this is left.
    ToBot(&'e str),
}

impl<'e> Span<'e> {
    fn read(entity: &'e Value, text: &'e str, places: &[Option<usize>], bot: &Bot) -> Option<Self> {
        let number = |key: &str| entity[key].as_u64().and_then(|number| usize::try_from(number).ok());
        let (offset, length) = (number("offset")?, number("length")?);
        let start = (*places.get(offset)?)?;
        let end = (*places.get(offset.checked_add(length)?)?)?;
        let part = text.get(start..end).filter(|part| !part.is_empty())?;
        let kind = match entity["type"].as_str()? {
            "bold" => Kind::Around("**"),
            "italic" => Kind::Around("*"),
            "strikethrough" => Kind::Around("~~"),
            "code" => Kind::Code,
            "pre" => Kind::Block(entity["language"].as_str().unwrap_or_default()),
            "text_link" => Kind::Link(entity["url"].as_str().filter(|url| text::is_web(url))?),
            "blockquote" | "expandable_blockquote" => Kind::Quote,
            "text_mention" if entity["user"]["id"].as_i64() == Some(bot.id) => Kind::ToBot(""),
            "text_mention" => Kind::Mention(name_of(&entity["user"])),
            "mention" if bot.is_named(part.trim_start_matches('@')) => Kind::ToBot(""),
            "bot_command" => {
                let (command, name) = part.split_once('@')?;
                bot.is_named(name).then_some(Kind::ToBot(command))?
            }
            _ => return None,
        };
        Some(Self { start, end, kind })
    }
}

/// Writes a part of the text with the spans in it.
fn write(text: &str, spans: &[Span<'_>], range: std::ops::Range<usize>, out: &mut String) {
    let (mut at, mut next) = (range.start, 0);
    while let Some(span) = spans.get(next) {
        next += 1;
        let (start, end) = (span.start.max(at), span.end.min(range.end));
        if start >= end {
            continue;
        }
        let inner = spans[next..].iter().take_while(|inner| inner.start < end).count();
        out.push_str(&text[at..start]);
        span.write(text, &spans[next..next + inner], start..end, out);
        next += inner;
        at = end;
        match span.kind {
            // The text after a block begins on a new line.
            Kind::Block(_) | Kind::Quote => {
                let rest = &text[at..range.end];
                at = range.end - rest.trim_start_matches('\n').len();
                out.push_str(if matches!(span.kind, Kind::Quote) { "\n\n" } else { "\n" });
            }
            Kind::ToBot("") if out.trim().is_empty() => {
                let rest = &text[at..range.end];
                at = range.end - rest.trim_start_matches([',', ':', ' ']).len();
            }
            Kind::ToBot("") if out.ends_with(' ') => {
                let rest = &text[at..range.end];
                at = range.end - rest.trim_start_matches(' ').len();
            }
            _ => {}
        }
    }
    out.push_str(&text[at.min(range.end)..range.end]);
}

impl Span<'_> {
    /// Writes to memory never fail, so their results are passed over.
    fn write(&self, text: &str, inner: &[Span<'_>], range: std::ops::Range<usize>, out: &mut String) {
        let part = &text[range.clone()];
        let written = || {
            let mut written = String::new();
            write(text, inner, range, &mut written);
            written
        };
        match &self.kind {
            Kind::Around(mark) => around(mark, &written(), out),
            Kind::Code => {
                let fence = "`".repeat(longest_run(part) + 1);
                let space = if part.starts_with('`') || part.ends_with('`') { " " } else { "" };
                let _ = write!(out, "{fence}{space}{part}{space}{fence}");
            }
            Kind::Block(language) => {
                let fence = "`".repeat(longest_run(part).max(2) + 1);
                let language: String = language
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || "+-#_".contains(*c))
                    .collect();
                begin_line(out);
                let _ = write!(out, "{fence}{language}\n{}\n{fence}", part.trim_end_matches('\n'));
            }
            Kind::Link(url) => {
                let name = written().replace('[', "\\[").replace(']', "\\]");
                let _ = write!(out, "[{name}]({})", address(url));
            }
            Kind::Quote => {
                begin_line(out);
                let lines: Vec<String> = written().trim().lines().map(|line| format!("> {line}")).collect();
                out.push_str(&lines.join("\n"));
            }
            Kind::Mention(name) => {
                out.push('@');
                out.push_str(&name.split_whitespace().collect::<Vec<_>>().join("-"));
            }
            Kind::ToBot(left) => out.push_str(left),
        }
    }
}

/// Puts marks around a text. Blanks at its ends stay outside of them, because the marks would not be read as such.
fn around(mark: &str, text: &str, out: &mut String) {
    let inner = text.trim();
    if inner.is_empty() {
        return out.push_str(text);
    }
    let (before, after) = text.split_at(text.len() - text.trim_start().len());
    let _ = write!(out, "{before}{mark}{inner}{mark}{}", &after[inner.len()..]);
}

fn begin_line(out: &mut String) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
}

/// Returns the address without characters that would end it in Markdown.
fn address(url: &str) -> String {
    let mut address = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '(' => address.push_str("%28"),
            ')' => address.push_str("%29"),
            '<' => address.push_str("%3C"),
            '>' => address.push_str("%3E"),
            '\\' => address.push_str("%5C"),
            c if c.is_whitespace() || c.is_control() => address.push_str("%20"),
            c => address.push(c),
        }
    }
    address
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bot() -> Bot {
        Bot { id: 7, username: "flock_bot".to_owned() }
    }

    fn read(text: &str, entities: Value) -> String {
        markdown(text, &entities, &bot()).0
    }

    fn one(text: &str, kind: &str, offset: u64, length: u64) -> String {
        read(
            text,
            json!([{"type": kind, "offset": offset, "length": length, "url": "https://e.org/a(b)", "language": "rust\n"}]),
        )
    }

    #[test]
    fn entities_become_markup() {
        assert_eq!(one("a b c", "bold", 2, 1), "a **b** c");
        assert_eq!(one("a b c", "italic", 1, 3), "a *b* c");
        assert_eq!(one("a b c", "strikethrough", 0, 5), "~~a b c~~");
        assert_eq!(one("a b c", "code", 2, 1), "a `b` c");
        assert_eq!(one("``", "code", 0, 2), "``` `` ```");
        assert_eq!(one("see x\nend", "pre", 4, 1), "see \n```rust\nx\n```\nend");
        assert_eq!(one("a b", "text_link", 2, 1), "a [b](https://e.org/a%28b%29)");
        assert_eq!(one("a\nb\nc", "blockquote", 0, 3), "> a\n> b\n\nc");
        assert_eq!(one("a b", "underline", 0, 1), "a b");
    }

    #[test]
    fn offsets_are_counted_in_utf_16() {
        assert_eq!(one("😀 b", "bold", 3, 1), "😀 **b**");
        assert_eq!(one("😀 b", "bold", 1, 2), "😀 b");
    }

    #[test]
    fn marks_nest_and_do_not_cross() {
        let both = |one: [u64; 2], other: [u64; 2]| {
            read(
                "abcdef",
                json!([{"type": "bold", "offset": one[0], "length": one[1]},
                       {"type": "italic", "offset": other[0], "length": other[1]}]),
            )
        };
        assert_eq!(both([0, 6], [2, 2]), "**ab*cd*ef**");
        assert_eq!(both([0, 3], [0, 3]), "***abc***def");
        assert_eq!(both([0, 3], [1, 4]), "**a*bc***def");
    }

    #[test]
    fn a_mention_of_the_bot_is_left_out() {
        let mention = |text: &str, kind: &str, offset: u64, length: u64| {
            let entity = json!([{"type": kind, "offset": offset, "length": length, "user": {"id": 7}}]);
            markdown(text, &entity, &bot())
        };
        assert_eq!(mention("@Flock_bot, hi", "mention", 0, 10), ("hi".to_owned(), true));
        assert_eq!(mention("hi @flock_bot you", "mention", 3, 10), ("hi you".to_owned(), true));
        assert_eq!(mention("flock hi", "text_mention", 0, 5), ("hi".to_owned(), true));
        assert_eq!(mention("/do@flock_bot it", "bot_command", 0, 13), ("/do it".to_owned(), true));
        assert_eq!(mention("@ann hi", "mention", 0, 4), ("@ann hi".to_owned(), false));
        assert_eq!(mention("/do@other it", "bot_command", 0, 9), ("/do@other it".to_owned(), false));
    }

    #[test]
    fn somebody_without_a_user_name_is_mentioned_by_name() {
        let user = json!({"id": 9, "first_name": "Ann", "last_name": "B"});
        let entity = json!([{"type": "text_mention", "offset": 3, "length": 3, "user": user}]);
        assert_eq!(read("hi Ann!", entity), "hi @Ann-B!");
    }

    #[test]
    fn what_makes_no_sense_is_passed_over() {
        for entities in [
            json!(null),
            json!("x"),
            json!([1, null, {}, {"type": "bold"}, {"type": 1, "offset": 0, "length": 1}]),
            json!([{"type": "bold", "offset": -1, "length": 2}]),
            json!([{"type": "bold", "offset": 0, "length": 0}]),
            json!([{"type": "bold", "offset": u64::MAX, "length": u64::MAX}]),
            json!([{"type": "bold", "offset": 1, "length": u64::MAX}]),
            json!([{"type": "text_link", "offset": 0, "length": 1, "url": "javascript:x"}]),
        ] {
            assert_eq!(read("abc", entities.clone()), "abc", "{entities}");
        }
    }

    proptest! {
        #[test]
        fn no_entities_lose_a_word(
            text in "[a-c😀가 \n`]{0,40}",
            entities in prop::collection::vec((0..50_u64, 0..50_u64, prop::sample::select(vec![
                "bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote",
            ])), 0..12),
        ) {
            let entities: Vec<Value> = entities
                .into_iter()
                .map(|(offset, length, kind)| json!({"type": kind, "offset": offset, "length": length, "url": "https://1.2"}))
                .collect();
            let letters = |text: &str| text.chars().filter(|c| "abc😀가".contains(*c)).collect::<String>();
            let written = read(&text, json!(entities)).replace("https://1.2", "");
            prop_assert_eq!(letters(&written), letters(&text));
        }
    }
}
