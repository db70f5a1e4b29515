//! Markdown in Telegram's HTML, which has a dozen tags and refuses everything else.

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::mentions::{Piece, called, pieces};
use crate::bridge::message::Mention;
use crate::bridge::text::{Dialect, QuoteMarkup};

/// Longest text of a message, in UTF-16 code units after the tags were read.
pub(super) const MAX_TEXT: usize = 4096;
/// Longest text below a file.
pub(super) const MAX_CAPTION: usize = 1024;
/// Largest text with its tags, in bytes. Telegram refuses more than 32 kB.
const MAX_BYTES: usize = 30_000;
/// Largest number of tags. Telegram ignores those after the hundredth.
const MAX_TAGS: usize = 100;
/// Nested blocks, such as quotes in quotes, beyond this depth are sent as they are written. The renderer calls itself
/// for each.
const MAX_DEPTH: usize = 32;

const DIALECT: Dialect = Dialect {
    strong: ("<b>", "</b>"),
    emphasis: ("<i>", "</i>"),
    strikethrough: ("<s>", "</s>"),
    code: ("<code>", "</code>"),
    quote: QuoteMarkup::Around(("<blockquote>", "</blockquote>")),
    escape,
    code_block,
    link,
};

/// Returns the text of a message with its author before it. Nobody is mentioned but those in `mentions`.
pub(super) fn html(author: &str, markdown: &str, mentions: &[Mention]) -> String {
    let body = match body(markdown) {
        Some(rendered) => called(&rendered, mentions),
        None => called(&escape(markdown), mentions),
    };
    if author.is_empty() {
        return body;
    }
    let author = called(&escape(author), &[]);
    // A list or code begins on a line of its own.
    let space = if begins_with_paragraph(markdown) { ' ' } else { '\n' };
    format!("<b>[{author}]</b>{space}{body}")
}

/// Returns `true` if Telegram takes the text in one message.
pub(super) fn fits(html: &str, most: usize) -> bool {
    let tags = html.matches("</").count();
    html.len() <= MAX_BYTES && tags <= MAX_TAGS && units(html) <= most
}

/// Returns `true` if nothing would be seen of the text.
pub(super) fn is_blank(html: &str) -> bool {
    let unseen = |c: char| {
        c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{2060}' | '\u{2800}')
    };
    pieces(html).all(|piece| match piece {
        Piece::Tag(_) => true,
        Piece::Text(text) => text.chars().all(unseen),
    })
}

fn body(markdown: &str) -> Option<String> {
    if depth(markdown) > MAX_DEPTH {
        return None;
    }
    // A text of nothing but definitions of links has no blocks.
    Some(DIALECT.render(markdown)).filter(|rendered| !is_blank(rendered))
}

fn parser(markdown: &str) -> Parser<'_> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(markdown, options)
}

fn begins_with_paragraph(markdown: &str) -> bool {
    matches!(parser(markdown).next(), Some(Event::Start(Tag::Paragraph)))
}

/// Returns how deep the blocks and marks of a text are nested.
fn depth(markdown: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for event in parser(markdown) {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn code_block(language: &str, code: &str) -> String {
    if code.is_empty() {
        String::new()
    } else if language.is_empty() {
        format!("<pre>{code}</pre>")
    } else {
        format!("<pre><code class=\"language-{}\">{code}</code></pre>", escape(language))
    }
}

fn link(address: &str, text: &str) -> String {
    let text = if text.trim().is_empty() { escape(address) } else { text.to_owned() };
    format!("<a href=\"{}\">{text}</a>", escape(address))
}

/// Returns the length of the text in UTF-16 code units, as Telegram counts it.
fn units(html: &str) -> usize {
    let count = |text: &str| -> usize {
        // Each reference (`&lt;`) is one character.
        let (mut count, mut within) = (0, false);
        for c in text.chars() {
            match c {
                '&' => within = true,
                ';' if within => {
                    within = false;
                    count += 1;
                }
                _ if within => {}
                c => count += c.len_utf16(),
            }
        }
        count
    };
    pieces(html)
        .map(|piece| match piece {
            Piece::Tag(_) => 0,
            Piece::Text(text) => count(text),
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(markdown: &str) -> String {
        html("", markdown, &[])
    }

    #[test]
    fn markdown_becomes_the_tags_that_there_are() {
        for (markdown, wanted) in [
            ("a **b** *c* ~~d~~ `e`", "a <b>b</b> <i>c</i> <s>d</s> <code>e</code>"),
            ("# Title\n\ntext", "<b>Title</b>\n\ntext"),
            ("```rust\na < b\n```", "<pre><code class=\"language-rust\">a &lt; b</code></pre>"),
            ("```\na\n```", "<pre>a</pre>"),
            ("- a\n- b", "• a\n• b"),
            ("> a\n> b", "<blockquote>a\nb</blockquote>"),
            ("> a\n>> b", "<blockquote>a\n\nb</blockquote>"),
            ("[x](https://e.org/?a=\"&b)", "<a href=\"https://e.org/?a=&quot;&amp;b\">x</a>"),
            ("![](https://e.org/p.png)", "<a href=\"https://e.org/p.png\">https://e.org/p.png</a>"),
            ("[![p](https://e.org/p.png)](https://e.org)", "<a href=\"https://e.org\">p</a>"),
            ("<b>no</b> & <script>", "&lt;b&gt;no&lt;/b&gt; &amp; &lt;script&gt;"),
            ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre>a | b\n--|--\n1 | 2</pre>"),
        ] {
            assert_eq!(plain(markdown), wanted, "{markdown}");
        }
    }

    #[test]
    fn the_author_stands_before_the_text() {
        assert_eq!(html("coder", "a **b**", &[]), "<b>[coder]</b> a <b>b</b>");
        assert_eq!(html("coder", "- a", &[]), "<b>[coder]</b>\n• a");
        assert_eq!(html("coder", "```\nx\n```", &[]), "<b>[coder]</b>\n<pre>x</pre>");
        assert_eq!(html("<i>", "a", &[]), "<b>[&lt;i&gt;]</b> a");
    }

    #[test]
    fn a_text_that_would_show_nothing_is_shown_as_it_is_written() {
        assert_eq!(plain("[a]: https://e.org"), "[a]: https://e.org");
        assert!(is_blank(&plain("")) && is_blank("<b> \u{2060}</b>") && !is_blank("<b>x</b>"));
    }

    #[test]
    fn lengths_are_counted_without_tags_and_in_utf_16() {
        assert_eq!(units("<b>a</b>&lt;&amp;x"), 4);
        assert_eq!(units("😀a"), 3);
        assert!(fits(&"&amp;".repeat(MAX_TEXT), MAX_TEXT));
        assert!(!fits(&"x".repeat(MAX_TEXT + 1), MAX_TEXT));
        assert!(!fits(&"<b>x</b>".repeat(MAX_TAGS + 1), MAX_TEXT));
    }

    #[test]
    fn deep_nesting_is_sent_as_it_is_written() {
        let deep = ">".repeat(100_000) + " x";
        assert!(plain(&deep).starts_with("&gt;&gt;"));
        assert!(plain(&("*a ".repeat(10_000) + &"*".repeat(10_000))).contains('a'));
        assert!(plain(&("- ".repeat(5_000) + "x")).contains('x'));
    }

    proptest! {
        #[test]
        fn every_tag_is_closed_in_order(markdown in "[-a@*_`~>#\\[\\]()!<&|\n \\\\1.\"]{0,120}") {
            let text = html("x", &markdown, &[]);
            let mut open = Vec::new();
            for piece in pieces(&text) {
                match piece {
                    Piece::Tag(tag) if tag.starts_with("</") => {
                        let name = tag.trim_start_matches("</").trim_end_matches('>');
                        prop_assert_eq!(open.pop(), Some(name.to_owned()), "{}", text);
                    }
                    Piece::Tag(tag) => {
                        let name = tag[1..].split([' ', '>']).next().unwrap_or_default();
                        prop_assert!(["b", "i", "s", "code", "pre", "blockquote", "a"].contains(&name), "{}", text);
                        open.push(name.to_owned());
                    }
                    Piece::Text(text) => prop_assert!(!text.contains('>'), "{}", text),
                }
            }
            prop_assert!(open.is_empty(), "{}", text);
        }
    }
}
