//! Markdown as Slack's markup.

use std::fmt::Write as _;
use std::sync::LazyLock;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, TextMergeWithOffset};
use serde_json::{Value, json};

use crate::bridge::message::{Button, Mention};
use crate::bridge::text::{self, Dialect, QuoteMarkup};

/// Largest number of characters of a text. A new message may have more, but a changed one may not.
const MAX_TEXT: usize = 4000;
/// Largest number of characters of one block.
const MAX_BLOCK: usize = 3000;
/// Largest number of characters on a button.
const MAX_LABEL: usize = 75;
/// Characters that stand for mentions while the text is rendered. Nothing shows them, so they are taken out before.
const OPEN: char = '\u{F8F0}';
const CLOSE: char = '\u{F8F1}';
/// A character without width.
const JOINER: &str = "\u{2060}";

static SLACK: LazyLock<Dialect> = LazyLock::new(|| Dialect {
    strong: ("*", "*"),
    emphasis: ("_", "_"),
    strikethrough: ("~", "~"),
    code: ("`", "`"),
    quote: QuoteMarkup::Lines("> "),
    escape,
    code_block: |_, code| {
        // Three backticks within the code would end it. Slack shows no language.
        let code = code.replace("```", &format!("``{JOINER}`"));
        format!("```\n{code}\n```")
    },
    link: |address, text| {
        let address =
            address.replace('<', "%3C").replace('>', "%3E").replace('|', "%7C").replace('&', "&amp;");
        let label = text.replace('|', "¦").replace('\n', " ");
        if label.is_empty() || label == address {
            format!("<{address}>")
        } else {
            format!("<{address}|{label}>")
        }
    },
});

/// The three characters of Slack's control sequences. So no text can mention anybody: `<!channel>` is shown as it is.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns `true` if a text is short enough, with its author before it.
///
/// The author counts also where the platform shows it beside the text: a message is parted in the same way before and
/// after the right to do that is given.
pub(super) fn fits(author: &str, markdown: &str) -> bool {
    // Each mention is longer than its name. They are few, so the room for them is taken from every text.
    const MENTIONS: usize = 400;
    length(&message(Some(author), markdown, &[])) <= MAX_TEXT - MENTIONS
}

/// Returns the text of a message, with the author before it if one is given.
pub(super) fn message(author: Option<&str>, markdown: &str, mentions: &[Mention]) -> String {
    let rendered = mentioned(&SLACK.render(&marked(markdown, mentions)), mentions);
    match author.filter(|author| !author.is_empty()) {
        Some(author) => {
            // A list, a quote and code keep their form behind a line of their own.
            let is_block = ["```", "> ", "• ", "1. "].iter().any(|start| rendered.starts_with(start));
            format!("*[{}]*{}{rendered}", escape(author), if is_block { '\n' } else { ' ' })
        }
        None => rendered,
    }
}

/// Returns the text in blocks, with buttons below it.
pub(super) fn blocks(
    author: Option<&str>,
    markdown: &str,
    mentions: &[Mention],
    buttons: &[Button],
) -> Value {
    let shown = |part: &str| message(author, part, mentions);
    let parts = text::split(markdown, |part| length(&shown(part)) <= MAX_BLOCK);
    let section = |(number, part): (usize, &String)| {
        let text = if number == 0 { shown(part) } else { message(None, part, mentions) };
        // Without `verbatim`, Slack would link names and channels in the text by itself.
        json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}})
    };
    let mut blocks: Vec<Value> = parts.iter().enumerate().map(section).collect();
    let button = |(number, button): (usize, &Button)| {
        json!({
            "type": "button", "action_id": format!("flock-{number}"), "value": button.id,
            "text": {"type": "plain_text", "text": label(&button.label)},
            "style": if button.is_positive { "primary" } else { "danger" },
        })
    };
    let buttons: Vec<Value> = buttons.iter().enumerate().map(button).collect();
    // A block takes 25 buttons.
    blocks.extend(buttons.chunks(25).map(|chunk| json!({"type": "actions", "elements": chunk})));
    json!(blocks)
}

fn label(text: &str) -> String {
    let label: String = text.chars().take(MAX_LABEL).collect();
    if label.trim().is_empty() { "…".to_owned() } else { label }
}

/// Counts as JavaScript does, which is never less than characters.
fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Marks `@NAME` of those who are mentioned, outside of code and links.
fn marked(markdown: &str, mentions: &[Mention]) -> String {
    let markdown = markdown.replace([OPEN, CLOSE], "");
    if mentions.is_empty() {
        return markdown;
    }
    let mut out = String::with_capacity(markdown.len());
    let (mut kept, mut is_within) = (0, 0_usize);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for (event, range) in TextMergeWithOffset::new(Parser::new_ext(&markdown, options).into_offset_iter()) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Link { .. } | Tag::Image { .. }) => is_within += 1,
            Event::End(TagEnd::CodeBlock | TagEnd::Link | TagEnd::Image) => {
                is_within = is_within.saturating_sub(1);
            }
            Event::Text(_) if is_within == 0 && range.start >= kept => {
                out.push_str(&markdown[kept..range.start]);
                mark_names(&markdown[range.clone()], &markdown[..range.start], mentions, &mut out);
                kept = range.end;
            }
            _ => {}
        }
    }
    out.push_str(&markdown[kept..]);
    out
}

/// Copies a text with its names marked. `prior` stands before it.
fn mark_names(text: &str, prior: &str, mentions: &[Mention], out: &mut String) {
    let mut rest = text;
    let mut last = prior.chars().next_back();
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let is_start = c == '@' && !last.is_some_and(|last| last.is_alphanumeric() || last == '_');
        // The longest name is the one that is meant.
        let found =
            mentions.iter().enumerate().filter(|(_, mention)| is_start && is_name(after, &mention.name));
        if let Some((number, mention)) = found.max_by_key(|(_, mention)| mention.name.len()) {
            let _ = write!(out, "{OPEN}{number}{CLOSE}");
            rest = &after[mention.name.len()..];
            last = mention.name.chars().next_back();
        } else {
            out.push(c);
            rest = after;
            last = Some(c);
        }
    }
}

/// Returns `true` if a text begins with this name and not with a longer one.
fn is_name(text: &str, name: &str) -> bool {
    let Some(rest) = text.strip_prefix(name).filter(|_| !name.is_empty()) else { return false };
    let mut next = rest.chars();
    match next.next() {
        // A point or a dash ends a sentence, unless a name goes on behind it.
        Some('.' | '-') => !next.next().is_some_and(char::is_alphanumeric),
        Some(c) => !c.is_alphanumeric() && c != '_',
        None => true,
    }
}

/// Replaces the marks by mentions.
fn mentioned(rendered: &str, mentions: &[Mention]) -> String {
    let mut out = String::with_capacity(rendered.len());
    let mut rest = rendered;
    while let Some((before, after)) = rest.split_once(OPEN) {
        out.push_str(before);
        let (number, after) = after.split_once(CLOSE).unwrap_or(("", after));
        let mention = number.parse::<usize>().ok().and_then(|number| mentions.get(number));
        if let Some(mention) = mention.filter(|mention| is_account(&mention.account)) {
            let _ = write!(out, "<@{}>", mention.account);
        } else if let Some(mention) = mention {
            let _ = write!(out, "@{}", escape(&mention.name));
        }
        rest = after;
    }
    out + rest
}

/// Returns `true` for what can be the id of an account, and nothing else in Slack's markup.
fn is_account(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(markdown: &str) -> String {
        message(None, markdown, &[])
    }

    fn ann() -> Vec<Mention> {
        vec![
            Mention { name: "ann".to_owned(), account: "U1".to_owned() },
            Mention { name: "ann.b".to_owned(), account: "U2".to_owned() },
            Mention { name: "evil".to_owned(), account: "!channel".to_owned() },
        ]
    }

    #[test]
    fn markdown_becomes_slacks_markup() {
        assert_eq!(show("# Head\n\na **b** *c* ~~d~~ `e`"), "*Head*\n\na *b* _c_ ~d~ `e`");
        assert_eq!(show("- a\n- b\n  1. c"), "• a\n• b\n  1. c");
        assert_eq!(show("> q\n> r"), "> q\n> r");
        assert_eq!(show("[x](https://e.org/?a&b|c) [y](javascript:z)"), "<https://e.org/?a&amp;b%7Cc|x> y");
        assert_eq!(show("```rust\nlet a = 1 < 2;\n```"), "```\nlet a = 1 &lt; 2;\n```");
        assert_eq!(show("| a | b |\n|---|---|\n| 1 | 2 |"), "```\na | b\n--|--\n1 | 2\n```");
    }

    #[test]
    fn the_author_stands_before_the_text() {
        assert_eq!(message(Some("coder"), "done", &[]), "*[coder]* done");
        assert_eq!(message(Some(""), "done", &[]), "done");
        assert_eq!(message(Some("coder"), "- a", &[]), "*[coder]*\n• a");
        assert_eq!(message(Some("<!here>"), "x", &[]), "*[&lt;!here&gt;]* x");
    }

    #[test]
    fn nobody_is_mentioned_by_accident() {
        for text in [
            "<!channel> <!here> <@U1> <!subteam^S1|x>",
            "`<!channel>`",
            "```\n<@U1>\n```",
            "[<!here>](https://e.org)",
        ] {
            let shown = show(text);
            assert!(!shown.contains("<!") && !shown.contains("<@"), "{shown}");
        }
        assert!(
            !show("[x](https://e.org/><!here>)").contains("<!"),
            "{}",
            show("[x](https://e.org/><!here>)")
        );
        assert!(!show("[x](<https://e.org/><!here>>)").contains("<!here"));
    }

    #[test]
    fn those_who_are_meant_are_mentioned_outside_of_code() {
        let show = |text: &str| message(None, text, &ann());
        assert_eq!(show("@ann and **@ann.b**, a@ann @anna @ann."), "<@U1> and *<@U2>*, a@ann @anna <@U1>.");
        assert_eq!(show("`@ann` @ann_b\n\n```\n@ann\n```"), "`@ann` @ann_b\n\n```\n@ann\n```");
        assert_eq!(show("[@ann](https://e.org)"), "<https://e.org|@ann>");
        assert_eq!(show("@evil &lt; @ann"), "@evil &lt; <@U1>");
        assert_eq!(show("\u{F8F0}0\u{F8F1} x"), "0 x");
    }

    #[test]
    fn code_with_fences_in_it_stays_one_block() {
        let shown = show("````\n```\nx\n```\n````");
        assert_eq!(shown.matches("```").count(), 2, "{shown}");
    }

    #[test]
    fn a_part_that_fits_is_within_the_limit() {
        let text = "a & b < c\n\n".repeat(600);
        let parts = text::split(&text, |part| fits("coder", part));
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| length(&message(Some("coder"), part, &[])) <= MAX_TEXT));
    }

    #[test]
    fn blocks_are_within_their_limits() {
        let buttons = [("yes", true), ("no", false)].map(|(id, is_positive)| Button {
            id: id.to_owned(),
            label: id.repeat(100),
            is_positive,
        });
        let blocks = blocks(Some("coder"), &"word ".repeat(750), &[], &buttons);
        let blocks = blocks.as_array().unwrap();
        assert_eq!(blocks.len(), 3);
        assert!(blocks[0]["text"]["text"].as_str().unwrap().starts_with("*[coder]* word"));
        assert!(blocks[..2].iter().all(|block| length(block["text"]["text"].as_str().unwrap()) <= MAX_BLOCK));
        let elements = &blocks[2]["elements"];
        assert_eq!(
            (elements[0]["value"].as_str(), elements[1]["style"].as_str()),
            (Some("yes"), Some("danger"))
        );
        assert_eq!(elements[0]["text"]["text"].as_str().unwrap().len(), MAX_LABEL);
    }

    #[test]
    fn deeply_nested_markdown_is_rendered() {
        for text in [
            ">".repeat(4000),
            "- ".repeat(2000),
            "*_".repeat(2000) + "x" + &"_*".repeat(2000),
            "[".repeat(4000),
        ] {
            let _ = fits("coder", &text);
        }
    }
}
