//! Whom a text speaks to: `@coder`, `@all`.
//!
//! One reading for every way a message may come in. What only looks like a mention is none: an address
//! (`a@b`), a path or package (`@scope/name`), a link, and everything that Markdown shows as code.

use std::collections::HashSet;

use crate::id::AgentId;

mod code;

/// The longest agent id.
const LONGEST: usize = 63;

/// Who was mentioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Members, in the order of their first mention.
    pub agents: Vec<AgentId>,
    /// Whether `@all` was.
    pub all: bool,
}

/// Finds the mentions of these members in a text. The time it takes grows with the text and the members,
/// whatever the text is.
#[must_use]
pub fn mentions<'m>(text: &str, members: impl Iterator<Item = &'m AgentId>) -> Mentions {
    let members: HashSet<&str> = members.map(AgentId::as_str).collect();
    let mut found = Mentions::default();
    let mut known = HashSet::new();
    walk(text, |id| {
        let Some(name) = member(id, &members) else { return false };
        if name == "all" {
            found.all = true;
        } else if !known.contains(&name)
            && let Ok(agent) = name.parse()
        {
            found.agents.push(agent);
            known.insert(name);
        }
        true
    });
    found
}

/// What stands in a text as a mention does and names none of these, each once, in the order it comes; at most ten.
#[must_use]
pub fn unknown<'k>(text: &str, known: impl Iterator<Item = &'k str>) -> Vec<String> {
    const MOST: usize = 10;
    let known: HashSet<&str> = known.collect();
    let mut found = Vec::new();
    walk(text, |id| {
        let name = id.trim_end_matches(['-', '_']);
        let is_known = member(id, &known).is_some() || known.contains(name);
        if !is_known && !name.is_empty() && found.len() < MOST && !found.iter().any(|other| other == name) {
            found.push(name.to_owned());
        }
        is_known
    });
    found
}

/// Calls `is_mention` with what stands after each `@` that may begin a mention; it says whether that is one.
fn walk(text: &str, mut is_mention: impl FnMut(&str) -> bool) {
    if !text.contains('@') {
        return;
    }
    // Where the last mention ended: `@a/@b` are two.
    let mut last_end = None;
    for prose in code::prose(text) {
        let mut at = prose.start;
        while let Some(step) = memchr::memchr2(b'@', b':', &text.as_bytes()[at..prose.end]) {
            at += step;
            if text.as_bytes()[at] == b':' {
                at = if text[at..prose.end].starts_with("://") {
                    link_end(text, at, prose.end)
                } else {
                    at + 1
                };
                continue;
            }
            let begins = may_begin(&text[prose.start..at], last_end == Some(at.wrapping_sub(1)));
            let id = id_of(&text[at + 1..prose.end]);
            let end = at + 1 + id.len();
            if begins && may_end(&text[end..prose.end]) && is_mention(id) {
                last_end = Some(end);
            }
            at = end;
        }
    }
}

/// What may be an id at the beginning of a text: the longest run of its characters.
fn id_of(text: &str) -> &str {
    let of_id = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let end = text.bytes().position(|b| !of_id(b)).unwrap_or(text.len());
    &text[..end]
}

/// The member, or `all`, that the characters name. What follows a name as punctuation or emphasis (`@bob-`,
/// `_@bob_`) is left away; another name is never cut down to one.
fn member(id: &str, members: &HashSet<&str>) -> Option<String> {
    let shortest = id.trim_end_matches(['-', '_']).len().max(1);
    if shortest > LONGEST || id.is_empty() {
        return None;
    }
    let id = id[..id.len().min(LONGEST)].to_ascii_lowercase();
    (shortest..=id.len())
        .rev()
        .map(|end| &id[..end])
        .find(|name| *name == "all" || members.contains(name))
        .map(str::to_owned)
}

/// Whether a mention may stand after this.
fn may_begin(before: &str, is_after_mention: bool) -> bool {
    let mut before = before.chars().rev();
    match before.next() {
        None => true,
        Some('/') => is_after_mention,
        Some('@' | '\\' | '%' | '+') => false,
        // In a word or an address; a dash or emphasis before the name is neither.
        Some('-' | '_' | '.') => !before.find(|c| !matches!(c, '-' | '_' | '.')).is_some_and(is_of_word),
        Some(c) => !is_of_word(c),
    }
}

/// Whether a mention may stand before this.
fn may_end(after: &str) -> bool {
    let mut after = after.chars();
    match after.next() {
        None => true,
        Some('@') => false,
        // A host name or a path goes on; a sentence does not.
        Some('.' | '/') => !after.next().is_some_and(|c| c.is_ascii_alphanumeric()),
        Some(c) => !is_of_word(c),
    }
}

/// Letters and digits that a name next to them is one word with. Scripts that are written without spaces
/// between words, or hang particles to a name, make no word with it.
fn is_of_word(c: char) -> bool {
    let is_unspaced = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}'
        | '\u{20000}'..='\u{3ffff}');
    c.is_alphanumeric() && !is_unspaced
}

/// Where the link ends whose `://` is at `at`.
fn link_end(text: &str, at: usize, end: usize) -> usize {
    let stops = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | ')');
    text[at..end].find(stops).map_or(end, |length| at + length)
}

#[cfg(test)]
#[path = "mention_tests.rs"]
mod tests;
