//! Markdown as the HTML that Matrix and the dashboard show.

use std::collections::BTreeSet;

use pulldown_cmark::{
    CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream, html as writer,
};

use crate::clean;

/// Returns the Markdown as HTML. HTML that is written in the text is shown as text, pictures become links, and only
/// links to the web and to mail addresses remain links.
pub(crate) fn html(markdown: &str) -> String {
    written(markdown, events(markdown))
}

/// Returns the Markdown as HTML, in which `@name` is a link to the person, and the numbers of the people who are
/// mentioned like this. A name in code or in another link is none.
pub(crate) fn html_with_people(markdown: &str, people: &[(&str, String)]) -> (String, BTreeSet<usize>) {
    let (linked, found) = with_people(markdown, people);
    (written(markdown, linked.into_iter()), found)
}

/// Returns the Markdown as HTML for a place in a page that has headings of its own: those of the text are a level
/// lower. Characters that can't be seen are spelled out. `@name` of these people and these words are links.
pub(crate) fn html_in_page(markdown: &str, people: &[(&str, String)], words: &[(&str, String)]) -> String {
    let markdown = clean::block(markdown);
    let (events, _) = with_people(&markdown, people);
    let events = with_words(events, words);
    let lower = |level| match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    };
    let events = events.into_iter().map(|event| match event {
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: lower(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
        other => other,
    });
    written(&markdown, events)
}

/// Returns what the Markdown consists of, with links to people, and the numbers of these people.
fn with_people<'m>(markdown: &'m str, people: &[(&str, String)]) -> (Vec<Event<'m>>, BTreeSet<usize>) {
    let mut found = BTreeSet::new();
    let mut within = 0_usize;
    let mut linked = Vec::new();
    for event in TextMergeStream::new(events(markdown)) {
        match &event {
            Event::Start(Tag::Link { .. } | Tag::CodeBlock(_)) => within += 1,
            Event::End(TagEnd::Link | TagEnd::CodeBlock) => within = within.saturating_sub(1),
            Event::Text(text) if within == 0 && !people.is_empty() => {
                link_people(text, people, &mut linked, &mut found);
                continue;
            }
            _ => {}
        }
        linked.push(event);
    }
    (linked, found)
}

/// Returns the events with links around these words, which consist of letters, digits and hyphens. A word may also be
/// all of a piece of code, because commands are written like this.
fn with_words<'m>(events: Vec<Event<'m>>, words: &[(&str, String)]) -> Vec<Event<'m>> {
    if words.is_empty() {
        return events;
    }
    let mut within = 0_usize;
    let mut linked = Vec::with_capacity(events.len());
    for event in events {
        match &event {
            Event::Start(Tag::Link { .. } | Tag::CodeBlock(_)) => within += 1,
            Event::End(TagEnd::Link | TagEnd::CodeBlock) => within = within.saturating_sub(1),
            Event::Text(text) if within == 0 => {
                link_words(text, words, &mut linked);
                continue;
            }
            Event::Code(code) if within == 0 => {
                if let Some((_, address)) = words.iter().find(|(word, _)| **word == **code) {
                    linked.push(link_start(address));
                    linked.push(event);
                    linked.push(Event::End(TagEnd::Link));
                    continue;
                }
            }
            _ => {}
        }
        linked.push(event);
    }
    linked
}

/// Adds a text with links around these words.
fn link_words(text: &str, words: &[(&str, String)], out: &mut Vec<Event<'_>>) {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut done = 0;
    let mut rest = 0;
    while let Some(start) = text[rest..].find(is_in_word).map(|at| rest + at) {
        let end = text[start..].find(|c| !is_in_word(c)).map_or(text.len(), |at| start + at);
        rest = end;
        let word = text[start..end].trim_end_matches('-');
        if let Some((_, address)) = words.iter().find(|(known, _)| *known == word) {
            out.push(Event::Text(text[done..start].to_owned().into()));
            out.push(link_start(address));
            out.push(Event::Text(word.to_owned().into()));
            out.push(Event::End(TagEnd::Link));
            done = start + word.len();
        }
    }
    out.push(Event::Text(text[done..].to_owned().into()));
}

fn link_start<'e>(address: &str) -> Event<'e> {
    Event::Start(Tag::Link {
        link_type: LinkType::Inline,
        dest_url: address.to_owned().into(),
        title: CowStr::from(""),
        id: CowStr::from(""),
    })
}

/// Adds a text with links to the people in it.
fn link_people(text: &str, people: &[(&str, String)], out: &mut Vec<Event<'_>>, found: &mut BTreeSet<usize>) {
    let mut done = 0;
    for (at, _) in text.match_indices('@') {
        let rest = &text[at + 1..];
        // The longest name counts: @ann-b is not @ann.
        let named = people.iter().enumerate().filter(|(_, (name, _))| starts_with_name(rest, name));
        let Some((number, (name, address))) = named.max_by_key(|(_, (name, _))| name.len()) else { continue };
        if at < done || text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        out.push(Event::Text(text[done..at].to_owned().into()));
        done = at + 1 + name.len();
        found.insert(number);
        out.push(link_start(address));
        out.push(Event::Text(format!("@{name}").into()));
        out.push(Event::End(TagEnd::Link));
    }
    out.push(Event::Text(text[done..].to_owned().into()));
}

/// Returns `true` if the text begins with this name, and not with a longer one.
fn starts_with_name(text: &str, name: &str) -> bool {
    let Some(rest) =
        text.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &text[name.len()..])
    else {
        return false;
    };
    // A point or a hyphen after the name may also end the sentence.
    let mut after = rest.chars();
    match after.next() {
        Some('.' | '-') => !after.next().is_some_and(char::is_alphanumeric),
        Some(c) => !c.is_alphanumeric() && c != '_',
        None => true,
    }
}

/// Returns what the Markdown consists of, as far as it may be shown.
fn events(markdown: &str) -> impl Iterator<Item = Event<'_>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    // The ends of links that were dropped are dropped too; links do not nest.
    let mut is_dropped = false;
    Parser::new_ext(markdown, options).filter_map(move |event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            is_dropped = !is_web(&dest_url);
            (!is_dropped).then_some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link) if is_dropped => {
            is_dropped = false;
            None
        }
        Event::Start(Tag::Image { dest_url, title, .. }) => {
            Some(Event::Text(CowStr::from(if title.is_empty() {
                format!("[{dest_url}] ")
            } else {
                format!("[{dest_url}: {title}] ")
            })))
        }
        Event::End(TagEnd::Image) => None,
        Event::SoftBreak => Some(Event::HardBreak),
        other => Some(other),
    })
}

fn written<'e>(markdown: &str, events: impl Iterator<Item = Event<'e>>) -> String {
    let mut out = String::with_capacity(markdown.len() + markdown.len() / 2);
    writer::push_html(&mut out, events);
    out.truncate(out.trim_end().len());
    out
}

/// Returns `true` for an address that a link may lead to. Others, such as `javascript:`, are shown without a link.
pub(crate) fn is_web(address: &str) -> bool {
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_a_page_has_lower_headings_and_nothing_unseen() {
        assert_eq!(html_in_page("# a\n\n##### b", &[], &[]), "<h2>a</h2>\n<h6>b</h6>");
        let shown = html_in_page("\u{1b}[31mred \u{202e}live", &[], &[]);
        assert!(shown.contains("\\u{1b}") && !shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    }

    #[test]
    fn whole_words_become_links_where_no_other_link_and_no_block_of_code_is() {
        let shown =
            |text: &str| html_in_page(text, &[("ann", "/ann".to_owned())], &[("r-a2", "/r".to_owned())]);
        assert_eq!(
            shown("@ann: r-a2, *r-a2*"),
            "<p><a href=\"/ann\">@ann</a>: <a href=\"/r\">r-a2</a>, <em><a href=\"/r\">r-a2</a></em></p>"
        );
        assert_eq!(shown("`r-a2`"), "<p><a href=\"/r\"><code>r-a2</code></a></p>");
        for none in
            ["r-a23", "xr-a2", "r-a2-b", "r-a2_", "`show r-a2`", "```\nr-a2\n```", "[r-a2](https://e.org)"]
        {
            assert_eq!(shown(none), html_in_page(none, &[], &[]), "{none:?}");
        }
    }

    #[test]
    fn markdown_becomes_html() {
        assert_eq!(html("a **b** `c`\nd"), "<p>a <strong>b</strong> <code>c</code><br />\nd</p>");
        assert_eq!(html("[x](https://e.org)"), "<p><a href=\"https://e.org\">x</a></p>");
        assert!(html("| a |\n|---|\n| b |").contains("<table>"));
    }

    #[test]
    fn names_of_people_become_links() {
        let people = [("ann", "p:ann".to_owned()), ("ann-b", "p:b".to_owned())];
        let shown = |text: &str| html_with_people(text, &people);
        assert_eq!(shown("hi @ann.").0, "<p>hi <a href=\"p:ann\">@ann</a>.</p>");
        assert_eq!(shown("(@ann-b)").1, BTreeSet::from([1]));
        assert_eq!(shown("**@ann** and @ann-b").1, BTreeSet::from([0, 1]));
        for none in [
            "@anna",
            "@ann_x",
            "@ann-c",
            "x@ann.org",
            "`@ann`",
            "```\n@ann\n```",
            "[@ann](https://e.org)",
            "ann",
        ] {
            assert_eq!(shown(none), (html(none), BTreeSet::new()), "{none:?}");
        }
        assert_eq!(html_with_people("a_b <i> & *c*", &[]).0, html("a_b <i> & *c*"));
    }

    #[test]
    fn html_in_the_text_is_shown_as_text() {
        assert_eq!(html("<img src=x onerror=alert(1)>"), "&lt;img src=x onerror=alert(1)&gt;");
        assert_eq!(html("a <b>c</b>"), "<p>a &lt;b&gt;c&lt;/b&gt;</p>");
    }

    #[test]
    fn a_link_that_leads_to_no_web_page_is_shown_without_it() {
        assert_eq!(html("[x](javascript:alert(1)) y"), "<p>x y</p>");
        assert_eq!(html("![p](https://e.org/p.png)"), "<p>[https://e.org/p.png] p</p>");
    }
}
