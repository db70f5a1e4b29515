//! Finds the agents that a text addresses: `@coder`, `@all`.
//!
//! The same rules apply to every way in which a message may arrive. These are not mentions: an address (`a@b`), a path
//! or package (`@scope/name`), a link, and everything that Markdown shows as code.

use std::collections::HashSet;

use crate::id::AgentId;

mod prose;

/// Maximum length of an agent id.
const MAX_ID_LENGTH: usize = 63;

/// The result of [`mentions`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mentions {
    /// The mentioned members, in the order of their first mention.
    pub agents: Vec<AgentId>,
    /// `true` if the text contains `@all`.
    pub all: bool,
}

/// Returns the mentions of these members in a text. The running time is linear in the text and the members, for any
/// text.
#[must_use]
pub(crate) fn mentions<'m>(text: &str, members: impl Iterator<Item = &'m AgentId>) -> Mentions {
    let mut found = Mentions::default();
    // Most messages mention nobody, and the set is as large as the team.
    if !text.contains('@') {
        return found;
    }
    let members: HashSet<&str> = members.map(AgentId::as_str).collect();
    let mut known = HashSet::new();
    for_each_mention(text, |id| {
        let Some(name) = match_member(id, &members) else { return false };
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

/// Returns the names that are written as mentions but are not among `known`. Each name is returned once, in the order
/// of the text, and at most ten are.
#[must_use]
pub(crate) fn unknown<'k>(text: &str, known: impl Iterator<Item = &'k str>) -> Vec<String> {
    const MAX_NAMES: usize = 10;
    let mut found = Vec::new();
    if !text.contains('@') {
        return found;
    }
    let known: HashSet<&str> = known.collect();
    for_each_mention(text, |id| {
        let name = id.trim_end_matches(['-', '_']);
        let is_known = match_member(id, &known).is_some() || known.contains(name);
        if !is_known
            && !name.is_empty()
            && found.len() < MAX_NAMES
            && !found.iter().any(|other| other == name)
        {
            found.push(name.to_owned());
        }
        is_known
    });
    found
}

/// Calls `is_mention` with the name after each `@` that may begin a mention. The callback returns `true` if the name is
/// a mention.
fn for_each_mention(text: &str, mut is_mention: impl FnMut(&str) -> bool) {
    // End of the last mention: `@a/@b` are two mentions.
    let mut last_end = None;
    for prose in prose::prose(text) {
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
            let id = leading_id(&text[at + 1..prose.end]);
            let end = at + 1 + id.len();
            if begins && may_end(&text[end..prose.end]) && is_mention(id) {
                last_end = Some(end);
            }
            at = end;
        }
    }
}

/// Returns the longest run of id characters at the beginning of a text.
fn leading_id(text: &str) -> &str {
    let of_id = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let end = text.bytes().position(|b| !of_id(b)).unwrap_or(text.len());
    &text[..end]
}

/// Returns the member, or `all`, that a run of id characters names. Trailing punctuation or emphasis (`@bob-`,
/// `_@bob_`) is ignored. A different, longer name is never cut to a member's name.
fn match_member(id: &str, members: &HashSet<&str>) -> Option<String> {
    // The checks on the length keep this fast for a very long run of dashes.
    let shortest = id.trim_end_matches(['-', '_']).len().max(1);
    if shortest > MAX_ID_LENGTH || id.is_empty() {
        return None;
    }
    let id = id[..id.len().min(MAX_ID_LENGTH)].to_ascii_lowercase();
    (shortest..=id.len())
        .rev()
        .map(|end| &id[..end])
        .find(|name| *name == "all" || members.contains(name))
        .map(str::to_owned)
}

/// Returns `true` if a mention may follow this text.
fn may_begin(before: &str, is_after_mention: bool) -> bool {
    let mut before = before.chars().rev();
    match before.next() {
        None => true,
        Some('/') => is_after_mention,
        Some('@' | '\\' | '%' | '+') => false,
        // Inside a word or an address this is no mention. After a dash or emphasis at the start of a word it is one.
        Some('-' | '_' | '.') => !before.find(|c| !matches!(c, '-' | '_' | '.')).is_some_and(is_of_word),
        Some(c) => !is_of_word(c),
    }
}

/// Returns `true` if this text may follow a mention.
fn may_end(after: &str) -> bool {
    let mut after = after.chars();
    match after.next() {
        None => true,
        Some('@') => false,
        // A host name or path continues after the character. A sentence does not.
        Some('.' | '/') => !after.next().is_some_and(|c| c.is_ascii_alphanumeric()),
        Some(c) => !is_of_word(c),
    }
}

/// Returns `true` for letters and digits that form one word with an adjacent name. Scripts that are written without
/// spaces between words, or that attach particles to a name, do not.
fn is_of_word(c: char) -> bool {
    let is_unspaced = matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ffdc}'
        | '\u{20000}'..='\u{3ffff}');
    c.is_alphanumeric() && !is_unspaced
}

/// Returns the end of the link whose `://` is at `at`.
fn link_end(text: &str, at: usize, end: usize) -> usize {
    let stops = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | ')');
    text[at..end].find(stops).map_or(end, |length| at + length)
}

#[cfg(test)]
#[path = "mention_tests.rs"]
mod tests;
