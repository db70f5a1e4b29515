//! Markdown in the markup of a platform that has bold, code, links and quotes, but neither headings, lists nor tables.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::{is_web, table};

/// The marks before and after something.
pub(crate) type Markup = (&'static str, &'static str);

/// The way in which quotes are marked.
#[derive(Clone, Copy)]
pub(crate) enum Quote {
    /// A prefix of each line.
    Lines(&'static str),
    Around(Markup),
}

/// A platform's markup.
pub(crate) struct Dialect {
    pub(crate) strong: Markup,
    pub(crate) emphasis: Markup,
    pub(crate) strikethrough: Markup,
    pub(crate) code: Markup,
    pub(crate) quote: Quote,
    /// Escapes characters that the platform would read as markup.
    pub(crate) escape: fn(&str) -> String,
    /// Writes a block of code, whose text is escaped, in a language that may be empty.
    pub(crate) code_block: fn(language: &str, code: &str) -> String,
    /// Writes a link with a text in the dialect.
    pub(crate) link: fn(address: &str, text: &str) -> String,
}

impl Dialect {
    /// Returns the Markdown in this dialect.
    pub(crate) fn render(&self, markdown: &str) -> String {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut events = flattened(Parser::new_ext(markdown, options)).into_iter().peekable();
        self.blocks(&mut events).join("\n\n")
    }

    /// Renders blocks up to the end of the one that surrounds them, which is read.
    fn blocks(&self, events: &mut Events<'_>) -> Vec<String> {
        let mut blocks = Vec::new();
        while let Some(event) = events.next_if(|event| !matches!(event, Event::End(_))) {
            let block = match event {
                Event::Start(Tag::Heading { .. }) => around(self.strong, &self.inlines(events, true)),
                Event::Start(Tag::CodeBlock(kind)) => self.code_block(&kind, events),
                Event::Start(Tag::BlockQuote(_)) => {
                    let inner = self.blocks(events).join("\n\n");
                    match self.quote {
                        Quote::Lines(prefix) => prefixed(&inner, prefix, prefix),
                        Quote::Around(markup) => around(markup, &inner),
                    }
                }
                Event::Start(Tag::List(first)) => self.list(first, events),
                Event::Start(Tag::Table(_)) => {
                    let rows = table::rows(events);
                    (self.code_block)("", &(self.escape)(&table::aligned(&rows)))
                }
                Event::Start(Tag::HtmlBlock) => self.inlines(events, true),
                Event::Rule => "———".to_owned(),
                Event::Start(tag) if is_inline(&tag) => self.line(Event::Start(tag), events),
                Event::Start(Tag::Paragraph) => self.inlines(events, true),
                Event::Start(_) => self.blocks(events).join("\n\n"),
                // The items of a tight list hold text without a paragraph around it.
                inline => self.line(inline, events),
            };
            if !block.is_empty() {
                blocks.push(block);
            }
        }
        // The end of the block around these.
        events.next();
        blocks
    }

    fn line(&self, first: Event<'_>, events: &mut Events<'_>) -> String {
        let mut out = String::new();
        self.inline(first, events, &mut out);
        out + &self.inlines(events, false)
    }

    /// Renders text up to the next end, or up to the next block where text and blocks follow each other. The end is
    /// read if `takes_end`.
    fn inlines(&self, events: &mut Events<'_>, takes_end: bool) -> String {
        let mut out = String::new();
        while let Some(event) = events.next_if(|event| match event {
            Event::End(_) | Event::Rule => false,
            Event::Start(tag) => is_inline(tag),
            _ => true,
        }) {
            self.inline(event, events, &mut out);
        }
        if takes_end {
            events.next();
        }
        out.trim_end().to_owned()
    }

    fn inline(&self, event: Event<'_>, events: &mut Events<'_>, out: &mut String) {
        match event {
            Event::Start(Tag::Strong) => out.push_str(&around(self.strong, &self.inlines(events, true))),
            Event::Start(Tag::Emphasis) => out.push_str(&around(self.emphasis, &self.inlines(events, true))),
            Event::Start(Tag::Strikethrough) => {
                out.push_str(&around(self.strikethrough, &self.inlines(events, true)));
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let text = self.inlines(events, true);
                out.push_str(&if is_web(&dest_url) { (self.link)(&dest_url, &text) } else { text });
            }
            Event::Start(_) => out.push_str(&self.inlines(events, true)),
            Event::Code(code) => out.push_str(&around(self.code, &(self.escape)(&code))),
            Event::SoftBreak | Event::HardBreak => out.push('\n'),
            Event::TaskListMarker(is_done) => out.push_str(if is_done { "☑ " } else { "☐ " }),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                out.push_str(&(self.escape)(&text));
            }
            _ => {}
        }
    }

    fn list(&self, first: Option<u64>, events: &mut Events<'_>) -> String {
        let mut items = Vec::new();
        while let Some(Event::Start(Tag::Item)) = events.next_if(|event| !matches!(event, Event::End(_))) {
            let bullet = match first {
                Some(number) => format!("{}. ", number + items.len() as u64),
                None => "• ".to_owned(),
            };
            let indent = " ".repeat(bullet.chars().count());
            items.push(prefixed(&self.blocks(events).join("\n"), &bullet, &indent));
        }
        events.next();
        items.join("\n")
    }

    fn code_block(&self, kind: &CodeBlockKind<'_>, events: &mut Events<'_>) -> String {
        let language = match kind {
            CodeBlockKind::Fenced(info) => {
                info.split(|c: char| !c.is_ascii_alphanumeric() && !"+-#_".contains(c)).next()
            }
            CodeBlockKind::Indented => None,
        };
        let mut code = String::new();
        for event in events.by_ref() {
            match event {
                Event::End(TagEnd::CodeBlock) => break,
                Event::Text(text) => code.push_str(&text),
                _ => {}
            }
        }
        (self.code_block)(language.unwrap_or_default(), (self.escape)(&code).trim_end_matches('\n'))
    }
}

type Events<'e> = std::iter::Peekable<std::vec::IntoIter<Event<'e>>>;

/// Largest number of blocks and spans within each other that are shown as such.
const MAX_DEPTH: usize = 24;

/// Returns the events without the starts and ends of what is nested too deeply. Its text stays. Each level takes some of
/// the stack, and thousands of `>` are quickly written.
fn flattened<'e>(events: impl Iterator<Item = Event<'e>>) -> Vec<Event<'e>> {
    let mut kept: Vec<bool> = Vec::new();
    events
        .filter(|event| match event {
            Event::Start(tag) => {
                let is_part = matches!(tag, Tag::Item | Tag::TableHead | Tag::TableRow | Tag::TableCell);
                let is_kept = if is_part { kept.last() == Some(&true) } else { kept.len() < MAX_DEPTH };
                kept.push(is_kept);
                is_kept
            }
            Event::End(_) => kept.pop() != Some(false),
            _ => true,
        })
        .collect()
}

const fn is_inline(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Link { .. }
            | Tag::Image { .. }
            | Tag::Superscript
            | Tag::Subscript
    )
}

fn around((before, after): Markup, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{before}{text}{after}") }
}

/// Puts a prefix before the first line and another before each further one that is not empty.
fn prefixed(text: &str, first: &str, further: &str) -> String {
    let mut lines = text.lines();
    let mut out = format!("{first}{}", lines.next().unwrap_or_default());
    for line in lines {
        out.push('\n');
        out.push_str(if line.is_empty() { further.trim_end() } else { further });
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(markdown: &str) -> String {
        let dialect = Dialect {
            strong: ("*", "*"),
            emphasis: ("_", "_"),
            strikethrough: ("~", "~"),
            code: ("`", "`"),
            quote: Quote::Lines("> "),
            escape: |text| text.replace('<', "&lt;"),
            code_block: |language, code| format!("[{language}]{code}[/]"),
            link: |address, text| format!("({text})({address})"),
        };
        dialect.render(markdown)
    }

    #[test]
    fn blocks_and_spans_become_those_of_the_dialect() {
        assert_eq!(render("# A\n\nb **c** *d* ~~e~~ `f<`"), "*A*\n\nb *c* _d_ ~e~ `f&lt;`");
        assert_eq!(render("- a\n- b\n\n  c\n  1. d\n  2. e"), "• a\n• b\n  c\n  1. d\n  2. e");
        assert_eq!(render("> a\n>\n> b"), "> a\n>\n> b");
        assert_eq!(render("```rust ignore\na < b\n```"), "[rust]a &lt; b[/]");
        assert_eq!(render("[a](https://e.org) [b](javascript:c)"), "(a)(https://e.org) b");
    }

    #[test]
    fn what_is_nested_too_deeply_is_text() {
        assert!(render(&format!("{}deep", "> ".repeat(10_000))).ends_with("deep"));
        assert!(render(&format!("{}deep", "- ".repeat(10_000))).ends_with("deep"));
        let spans = format!("{}deep{}", "*_".repeat(1000), "_*".repeat(1000));
        assert!(render(&spans).contains("deep"));
        let quoted_list = format!("{}- a\n", "> ".repeat(MAX_DEPTH - 1));
        assert!(render(&quoted_list).ends_with("• a"), "{}", render(&quoted_list));
    }
}
