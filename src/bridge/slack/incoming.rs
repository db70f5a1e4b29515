//! Slack's markup as Markdown.

use std::fmt::Write as _;

/// Returns the ids of the people whom a text mentions, each once, at most `most`.
pub(super) fn mentioned(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    for inside in controls(text) {
        let Some(user) = inside.strip_prefix('@').filter(|user| !user.contains('|')) else { continue };
        if !found.contains(&user) && found.len() < most {
            found.push(user);
        }
    }
    found
}

/// Returns `true` if a text mentions this account.
pub(super) fn mentions(text: &str, user: &str) -> bool {
    controls(text).any(|inside| inside.strip_prefix('@').is_some_and(|found| before(found, '|') == user))
}

/// Returns a text of Slack's as Markdown. `name` gives the names of accounts that are known. Mentions of flock's own
/// account are left out.
pub(super) fn markdown(text: &str, own: &str, name: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // A block of code has no other markup in it, and a line with code has none in the code.
    while let Some(at) = rest.find('`') {
        out.push_str(&styled(&plain(&rest[..at], own, &name, true)));
        rest = &rest[at..];
        let fence = if rest.starts_with("```") { "```" } else { "`" };
        let inner = &rest[fence.len()..];
        let end =
            inner.find(fence).filter(|&end| end > 0 && (fence.len() == 3 || !inner[..end].contains('\n')));
        let Some(end) = end else {
            out.push_str(fence);
            rest = inner;
            continue;
        };
        let code = plain(&inner[..end], own, &name, false);
        if fence.len() == 3 {
            push_block(&mut out, &code);
        } else {
            let _ = write!(out, "`{code}`");
        }
        rest = &inner[end + fence.len()..];
        if fence.len() == 3 && !rest.is_empty() && !rest.starts_with('\n') {
            out.push('\n');
        }
    }
    out.push_str(&styled(&plain(rest, own, &name, true)));
    out.trim().to_owned()
}

/// Adds a block of code, whose fences are lines of their own in Markdown.
fn push_block(out: &mut String, code: &str) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    let _ = write!(out, "```\n{}\n```", code.trim_matches('\n'));
}

/// Replaces control sequences and entities.
fn plain(text: &str, own: &str, name: &impl Fn(&str) -> Option<String>, has_links: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, inside, after)) = next_control(rest) {
        push_text(&mut out, &rest[..start]);
        rest = after;
        if inside.strip_prefix('@').is_some_and(|user| before(user, '|') == own) {
            // What stood around the mention would leave two spaces.
            if out.is_empty() || out.ends_with(char::is_whitespace) {
                rest = rest.strip_prefix(' ').unwrap_or(rest);
            }
            continue;
        }
        out.push_str(&control(inside, name, has_links));
    }
    push_text(&mut out, rest);
    out
}

/// Returns what a control sequence shows.
fn control(inside: &str, name: &impl Fn(&str) -> Option<String>, has_links: bool) -> String {
    let (target, label) = match inside.split_once('|') {
        Some((target, label)) => (target, unescaped(label)),
        None => (inside, String::new()),
    };
    let labelled = |sign: &str, fallback: &str| {
        let label = if label.is_empty() { fallback } else { label.trim_start_matches(sign) };
        format!("{sign}{label}")
    };
    match target.split_at_checked(1) {
        Some(("@", user)) => labelled("@", &name(user).unwrap_or_else(|| user.to_owned())),
        Some(("#", channel)) => labelled("#", channel),
        Some(("!", command)) if command.starts_with("date^") => label,
        Some(("!", command)) if command.starts_with("subteam^") => labelled("@", "group"),
        Some(("!", command)) => format!("@{}", before(command, '^')),
        _ => {
            let target = unescaped(target);
            let address =
                target.strip_prefix("mailto:").or_else(|| target.strip_prefix("tel:")).unwrap_or(&target);
            // Slack links what looks like an address by itself, and then its label is the address.
            let is_plain = label.is_empty() || label == address || target.ends_with(&format!("://{label}"));
            if is_plain || !has_links {
                return address.to_owned();
            }
            format!("[{}]({target})", label.replace(['[', ']'], " "))
        }
    }
}

/// Replaces Slack's marks for bold and struck text by those of Markdown. Italic text, quotes and lists are alike.
fn styled(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive('\n') {
        out.push_str(&marked(&marked(line, '*', "**"), '~', "~~"));
    }
    out
}

/// Replaces pairs of a mark that stand around words of one line.
fn marked(line: &str, mark: char, by: &str) -> String {
    let mut out = String::with_capacity(line.len() + 4);
    let mut rest = line;
    while let Some(start) = rest.find(mark) {
        let (prior, inner) = (&rest[..start], &rest[start + 1..]);
        let is_opening = !prior.ends_with(|c: char| c.is_alphanumeric() || c == mark)
            && inner.starts_with(|c: char| !c.is_whitespace() && c != mark);
        let end = inner.find(mark).filter(|&end| {
            is_opening
                && !inner[..end].ends_with(char::is_whitespace)
                && !inner[end + 1..].starts_with(|c: char| c.is_alphanumeric() || c == mark)
        });
        out.push_str(prior);
        match end {
            Some(end) => {
                let _ = write!(out, "{by}{}{by}", &inner[..end]);
                rest = &inner[end + 1..];
            }
            None => {
                out.push(mark);
                rest = inner;
            }
        }
        // What comes before the next mark is looked at from here on, so the border is kept.
        if rest.starts_with(mark) {
            out.push(mark);
            rest = &rest[1..];
        }
    }
    out + rest
}

/// Finds the next control sequence: where it begins, what is in it, and what follows it.
fn next_control(text: &str) -> Option<(usize, &str, &str)> {
    let start = text.find('<')?;
    let end = text[start..].find('>')? + start;
    Some((start, &text[start + 1..end], &text[end + 1..]))
}

fn controls(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, inside, after) = next_control(rest)?;
        rest = after;
        Some(inside)
    })
}

fn before(text: &str, end: char) -> &str {
    text.split_once(end).map_or(text, |(start, _)| start)
}

fn push_text(out: &mut String, text: &str) {
    out.push_str(&unescaped(text));
}

/// Replaces the three entities. The ampersand is the last one, so that nothing is replaced twice.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        markdown(text, "UBOT", |user| (user == "U1").then(|| "ann".to_owned()))
    }

    #[test]
    fn names_take_the_place_of_ids() {
        assert_eq!(read("hi <@U1> and <@U2>, <@U3|ben>"), "hi @ann and @U2, @ben");
        assert_eq!(read("see <#C1|general> or <#C2>"), "see #general or #C2");
        assert_eq!(
            read("<!here> <!channel|@channel> <!subteam^S1|@team> <!subteam^S2>"),
            "@here @channel @team @group"
        );
        assert_eq!(read("<!date^1392734382^{date}|Feb 18>"), "Feb 18");
    }

    #[test]
    fn a_mention_of_flock_itself_goes() {
        assert_eq!(read("<@UBOT> do it"), "do it");
        assert_eq!(read("please <@UBOT|flock> do it"), "please do it");
        assert!(mentions("a <@UBOT|flock>", "UBOT") && !mentions("a <@UBOTS> &lt;@UBOT&gt;", "UBOT"));
    }

    #[test]
    fn links_become_those_of_markdown() {
        assert_eq!(read("<https://e.org/a?b&amp;c>"), "https://e.org/a?b&c");
        assert_eq!(
            read("<https://e.org|e.org> <https://e.org|our [page]>"),
            "https://e.org [our  page ](https://e.org)"
        );
        assert_eq!(read("<mailto:a@e.org|a@e.org>"), "a@e.org");
        assert_eq!(read("`<https://e.org|x>`"), "`https://e.org`");
    }

    #[test]
    fn bold_and_struck_text_becomes_that_of_markdown() {
        assert_eq!(read("*a b* _c_ ~d~, *e*!"), "**a b** _c_ ~~d~~, **e**!");
        assert_eq!(read("2 * 3 * 4, a*b*c, ** **, ~ 5"), "2 * 3 * 4, a*b*c, ** **, ~ 5");
        assert_eq!(read("*open\n*line*"), "*open\n**line**");
        assert_eq!(read("&gt; quoted\n• a"), "> quoted\n• a");
    }

    #[test]
    fn code_stays_as_it_is() {
        assert_eq!(read("`*a* &lt;b&gt;` *c*"), "`*a* <b>` **c**");
        assert_eq!(read("see ```let a = *b*;\n```done"), "see \n```\nlet a = *b*;\n```\ndone");
        assert_eq!(read("a ` b\nc ` d ```` `"), "a ` b\nc ` d ```` `");
    }

    #[test]
    fn entities_are_replaced_once() {
        assert_eq!(read("a &amp;lt; b &lt;c&gt; &amp; d"), "a &lt; b <c> & d");
    }

    #[test]
    fn those_mentioned_are_found_up_to_a_number() {
        assert_eq!(mentioned("<@U1> <@U2|b> <@U1> <@U3> <@U4>", 2), ["U1", "U3"]);
    }

    #[test]
    fn any_text_is_read() {
        for text in [
            "<", "<>", "<|>", "<@", "<@>", "```", "``````", "*", "**", "~*~*~", "<é|é>", "`é`*é*", "<!>",
            "<#>",
        ] {
            let _ = read(text);
        }
    }
}
