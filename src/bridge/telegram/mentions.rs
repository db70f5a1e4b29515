//! Mentions in Telegram's HTML: those that are wanted, and no others.

use std::fmt::Write as _;

use crate::bridge::message::Mention;

/// A character without width, after which Telegram does not read a name.
const BREAK: char = '\u{2060}';

/// A piece of a text in HTML.
pub(super) enum Piece<'h> {
    Tag(&'h str),
    Text(&'h str),
}

/// Parts HTML that [`super::markup`] wrote: `<` and `>` stand for nothing but tags.
pub(super) fn pieces(html: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = html;
    std::iter::from_fn(move || {
        let is_tag = rest.starts_with('<');
        let end = if is_tag { rest.find('>').map(|at| at + 1) } else { rest.find('<') };
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!piece.is_empty()).then_some(if is_tag { Piece::Tag(piece) } else { Piece::Text(piece) })
    })
}

/// Returns the HTML with the wanted mentions, and with a break in each that nobody wanted. Quotes in quotes and links in
/// links, which Telegram does not have, become one.
pub(super) fn called(html: &str, mentions: &[Mention]) -> String {
    let mut writer = Writer { mentions, out: String::with_capacity(html.len() + 64), ..Writer::default() };
    for piece in pieces(html) {
        match piece {
            Piece::Tag(tag) => writer.tag(tag),
            Piece::Text(text) => writer.text(text),
        }
    }
    writer.out
}

#[derive(Default)]
struct Writer<'m> {
    mentions: &'m [Mention],
    out: String,
    /// The last two characters that are seen, whatever tags are between them: Telegram finds names in the text alone.
    last: [Option<char>; 2],
    quotes: usize,
    links: usize,
    codes: usize,
}

impl<'m> Writer<'m> {
    fn tag(&mut self, tag: &str) {
        let is_end = tag.starts_with("</");
        let name = tag.trim_start_matches(['<', '/']);
        let depth = match name.split([' ', '>']).next() {
            Some("blockquote") => &mut self.quotes,
            Some("a") => &mut self.links,
            Some("code" | "pre") => {
                self.codes = if is_end { self.codes.saturating_sub(1) } else { self.codes + 1 };
                return self.out.push_str(tag);
            }
            _ => return self.out.push_str(tag),
        };
        let before = *depth;
        *depth = if is_end { before.saturating_sub(1) } else { before + 1 };
        if before.max(*depth) == 1 {
            self.out.push_str(tag);
        }
    }

    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if c == '@'
                && self.links + self.codes == 0
                && !self.last[1].is_some_and(is_within_name)
                && let Some(mention) = self.mention(&rest[1..])
            {
                let (name, account) = (&rest[1..=mention.name.len()], &mention.account);
                // Writing to memory never fails.
                let _ = write!(self.out, "<a href=\"tg://user?id={account}\">{name}</a>");
                self.last = [None, name.chars().last()];
                rest = &rest[1 + mention.name.len()..];
                continue;
            }
            self.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }

    fn push(&mut self, c: char) {
        if is_deleted(c) {
            return;
        }
        if is_within_name(c) && self.last[1] == Some('@') && !self.last[0].is_some_and(is_within_name) {
            self.out.push(BREAK);
        }
        self.out.push(c);
        self.last = [self.last[1], Some(c)];
    }

    /// Returns the longest name that the text begins with and that is to be mentioned.
    fn mention(&self, text: &str) -> Option<&'m Mention> {
        let is_whole = |name: &str| {
            let mut after = text[name.len()..].chars();
            match after.next() {
                Some('-' | '.') => !after.next().is_some_and(is_within_name),
                next => !next.is_some_and(is_within_name),
            }
        };
        let begins =
            |name: &str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let is_account = |account: &str| account.bytes().all(|byte| byte.is_ascii_digit());
        self.mentions
            .iter()
            .filter(|one| !one.name.is_empty() && !one.account.is_empty() && is_account(&one.account))
            .filter(|one| begins(&one.name) && is_whole(&one.name))
            .max_by_key(|one| one.name.len())
    }
}

fn is_within_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns `true` for a character that Telegram deletes, so that a name behind it would stand beside an `@` before it.
const fn is_deleted(c: char) -> bool {
    matches!(c, '\r' | '\u{2028}'..='\u{202e}' | '\u{0333}' | '\u{033f}' | '\u{030a}')
}

#[cfg(test)]
mod tests {
    use super::super::markup::html;
    use super::*;

    #[test]
    fn nobody_is_mentioned_by_accident() {
        for markdown in [
            "@alice",
            "@&#97;lice",
            "@**alice**",
            "@\\_alice",
            "@\u{202e}alice",
            "@\u{030a}alice",
            "a [@](https://e.org)alice",
            "`@`alice",
        ] {
            let shown: String = html("", markdown, &[])
                .split('<')
                .map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text))
                .collect();
            assert!(shown.contains("@\u{2060}"), "{markdown}: {shown:?}");
        }
        assert_eq!(html("", "ann@example.org", &[]), "ann@example.org");
        assert_eq!(html("", "[x](tg://user?id=5)", &[]), "x");
    }

    #[test]
    fn who_is_mentioned_on_purpose_is_called() {
        let mention =
            |name: &str, account: &str| Mention { name: name.to_owned(), account: account.to_owned() };
        let mentions = [mention("ann", "5"), mention("ann-b", "6"), mention("eve", "7\" x")];
        for (markdown, wanted) in [
            ("hi @ann!", "hi <a href=\"tg://user?id=5\">ann</a>!"),
            ("@ann.", "<a href=\"tg://user?id=5\">ann</a>."),
            ("**@Ann-b** x", "<b><a href=\"tg://user?id=6\">Ann-b</a></b> x"),
            ("`@ann`", "<code>@\u{2060}ann</code>"),
            ("@anna x@ann", "@\u{2060}anna x@ann"),
            ("@ann-c", "@\u{2060}ann-c"),
            ("@eve", "@\u{2060}eve"),
        ] {
            assert_eq!(html("", markdown, &mentions), wanted, "{markdown}");
        }
    }
}
