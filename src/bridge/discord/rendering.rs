//! flock's Markdown as Discord shows it.

use super::markup::pieces;
use crate::bridge::message::Mention;
use crate::bridge::text::tables_as_code;

/// Largest number of characters in a message.
const MAX_CHARACTERS: usize = 2000;
/// The number of characters by which a name can grow when it becomes a mention: `<@` and `>` around 20 digits.
const MENTION: usize = 24;
/// A character without width, after which Discord does not read a mention.
const BREAK: char = '\u{2060}';

/// Returns `true` if a text is short enough with its author before it, even if each name in it is a mention.
pub(super) fn fits(author: &str, markdown: &str) -> bool {
    let names = markdown
        .match_indices('@')
        .filter(|(at, _)| markdown[at + 1..].chars().next().is_some_and(char::is_alphanumeric));
    let shown = with_author(author, &render(markdown, &[]));
    // A table can be shorter as it is shown, but a text must not fit again after it became longer.
    let length = shown.trim().chars().count().max(markdown.trim().chars().count());
    length + names.count() * MENTION <= MAX_CHARACTERS
}

/// Returns the Markdown in Discord's form: tables become code, pictures become links, and only those are mentioned who
/// are in `mentions`.
pub(super) fn render(markdown: &str, mentions: &[Mention]) -> String {
    let text = tables_as_code(markdown);
    let mut out = String::with_capacity(text.len() + 32);
    for (is_code, piece) in pieces(&text) {
        if is_code {
            out.push_str(piece);
        } else {
            render_piece(piece, mentions, &mut out);
        }
    }
    out
}

fn render_piece(piece: &str, mentions: &[Mention], out: &mut String) {
    let mut rest = piece;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '@' if !out.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '<') => {
                if let Some(mention) = mentioned(after, mentions) {
                    out.extend(["<@", mention.account.as_str(), ">"]);
                    rest = &after[mention.name.len()..];
                    continue;
                }
                out.push(c);
            }
            // These would be shown as a person or a role, although they notify nobody.
            '<' if after.starts_with('@') => {
                out.push_str("<@");
                out.push(BREAK);
                rest = &after[1..];
                continue;
            }
            '!' if after.starts_with('[') => {}
            _ => out.push(c),
        }
        rest = after;
    }
}

/// Returns the mention whose name begins here and does not go on.
fn mentioned<'m>(after: &str, mentions: &'m [Mention]) -> Option<&'m Mention> {
    let ends = |mention: &&Mention| {
        after.strip_prefix(mention.name.as_str()).is_some_and(|rest| {
            // A name has these marks within it, and a sentence has them after it.
            let rest = rest.trim_start_matches(['.', '-', '_']);
            !rest.starts_with(char::is_alphanumeric)
        })
    };
    mentions.iter().filter(|mention| super::snowflake::parse(&mention.account).is_some()).find(ends)
}

/// Puts the author before a text that flock's own account sends.
pub(super) fn with_author(author: &str, text: &str) -> String {
    if author.is_empty() {
        return text.to_owned();
    }
    // A block of code, a list, a heading or a quote keeps its form only at the start of a line.
    let is_block =
        text.starts_with(['#', '>', '-', '*', '+']) || text.starts_with("```") || is_numbered(text);
    format!("**[{author}]**{}{text}", if is_block { '\n' } else { ' ' })
}

fn is_numbered(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.len() && rest.starts_with(['.', ')'])
}

/// Returns an author as the name of a webhook's message. Discord keeps some names for itself.
pub(super) fn username(author: &str) -> String {
    let mut name: String =
        author.chars().filter(|c| !c.is_control() && !"@#:`".contains(*c)).take(70).collect();
    for word in ["discord", "clyde"] {
        // What comes before a letter is kept, so the places are those of the name itself.
        while let Some(at) = name.to_ascii_lowercase().find(word) {
            name.insert(at + word.len() - 1, '-');
        }
    }
    let name = name.trim();
    match name.to_lowercase().as_str() {
        "" => "flock".to_owned(),
        "everyone" | "here" => format!("{name}-"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mention(name: &str, account: &str) -> Mention {
        Mention { name: name.to_owned(), account: account.to_owned() }
    }

    #[test]
    fn named_people_are_mentioned_outside_of_code() {
        let people = [mention("bob", "1"), mention("bob-b", "2")];
        for (text, shown) in [
            ("@bob, hi", "<@1>, hi"),
            ("hi @bob.", "hi <@1>."),
            ("@bob-b and @bobby", "<@2> and @bobby"),
            ("a@bob", "a@bob"),
            ("`@bob` ```\n@bob\n```", "`@bob` ```\n@bob\n```"),
        ] {
            assert_eq!(render(text, &people), shown);
        }
        assert_eq!(render("@eve", &[mention("eve", "1> @everyone")]), "@eve");
    }

    #[test]
    fn marks_in_the_text_mention_nobody() {
        assert_eq!(render("<@1> <@!1> <@&1>", &[]), "<@\u{2060}1> <@\u{2060}!1> <@\u{2060}&1>");
        assert_eq!(render("<@bob>", &[mention("bob", "1")]), "<@\u{2060}bob>");
    }

    #[test]
    fn tables_become_code_and_pictures_become_links() {
        assert_eq!(render("| a |\n|---|\n| b |", &[]), "```\na\n-\nb\n```\n");
        assert_eq!(render("![p](https://e.org/p.png) !", &[]), "[p](https://e.org/p.png) !");
    }

    #[test]
    fn the_author_stands_before_the_text_and_breaks_no_block() {
        assert_eq!(with_author("coder", "a"), "**[coder]** a");
        assert_eq!(with_author("", "a"), "a");
        for block in ["```\na\n```", "- a", "1. a", "# a", "> a"] {
            assert_eq!(with_author("coder", block), format!("**[coder]**\n{block}"));
        }
    }

    #[test]
    fn a_text_fits_with_its_author_and_its_mentions() {
        assert!(fits("", &"x".repeat(2000)) && !fits("", &"x".repeat(2001)));
        assert!(fits("", &"é".repeat(2000)));
        assert!(!fits("coder", &"x".repeat(1990)));
        assert!(!fits("", &format!("@bob {}", "x".repeat(1980))));
        assert!(fits("", &format!("  {}\n", "x".repeat(2000))));
    }

    #[test]
    fn the_name_of_a_webhooks_message_is_one_that_discord_takes() {
        for (author, name) in [
            ("coder", "coder"),
            ("Discord-helper", "Discor-d-helper"),
            ("clydeclyde", "clyd-eclyd-e"),
            ("here", "here-"),
            ("", "flock"),
            ("\n@#", "flock"),
        ] {
            assert_eq!(username(author), name);
        }
        assert!(username(&"discord".repeat(50)).chars().count() <= 80);
    }
}
