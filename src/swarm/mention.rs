//! Who is mentioned in a text: `@id` over the grammar of agents' ids, and `@all`. Not within code, and not
//! where the `@` belongs to a word, as in an address.

use std::collections::HashSet;

use crate::id::AgentId;

/// Who is mentioned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// Known agents, in the order of their first mention.
    pub agents: Vec<AgentId>,
    /// Everybody.
    pub all: bool,
}

/// Finds who of `known` is mentioned in the text.
#[must_use]
pub fn mentions<'a>(text: &str, known: impl Iterator<Item = &'a AgentId>) -> Mentions {
    let mut found = Mentions::default();
    if !text.contains('@') {
        return found;
    }
    let known: HashSet<&str> = known.map(AgentId::as_str).collect();
    for name in names(text) {
        // The longest that is an id: what ends a sentence is no part of a name.
        let name = name.to_ascii_lowercase();
        let mut name = name.as_str();
        while !known.contains(name) && name != "all" {
            match name.strip_suffix(['-', '_']) {
                Some(shorter) => name = shorter,
                None => break,
            }
        }
        if name == "all" {
            found.all = true;
        } else if known.contains(name)
            && let Ok(agent) = name.parse::<AgentId>()
            && !found.agents.contains(&agent)
        {
            found.agents.push(agent);
        }
    }
    found
}

/// The words after an `@` that begins one, outside of code.
fn names(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut names = Vec::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '`' {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let after = &rest[ticks..];
            before = '`';
            rest = match closing(after, ticks) {
                Some(end) => &after[end..],
                None => after,
            };
            continue;
        }
        if c == '@' && !before.is_alphanumeric() && !matches!(before, '.' | '_' | '-' | '/' | '@' | '+') {
            let name = &rest[1..];
            let length = name.find(|c| !is_name(c)).unwrap_or(name.len());
            let (name, after) = name.split_at(length);
            // `@bob@host` and `@bob.example` are addresses; `@bob.` ends a sentence.
            let mut follows = after.chars();
            let is_address = match follows.next() {
                Some('@') => true,
                Some('.') => follows.next().is_some_and(|c| c.is_ascii_alphanumeric()),
                Some(c) => c.is_alphanumeric(),
                None => false,
            };
            if !name.is_empty() && !is_address {
                names.push(name);
            }
            before = name.chars().last().unwrap_or('@');
            rest = after;
            continue;
        }
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    names
}

/// Where code that was opened by so many ticks ends, its own ticks included.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let length = text[start..].len() - text[start..].trim_start_matches('`').len();
        if length == ticks {
            return Some(start + length);
        }
        at = start + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        let known: Vec<AgentId> =
            ["pm", "pm-other", "bob", "a_b"].iter().map(|id| id.parse().unwrap()).collect();
        let mentions = mentions(text, known.iter());
        let mut ids: Vec<&str> = mentions.agents.iter().map(AgentId::as_str).collect();
        if mentions.all {
            ids.push("*");
        }
        ids.join(" ")
    }

    #[test]
    fn the_longest_id_is_meant() {
        for (text, expected) in [
            ("@pm-other go", "pm-other"),
            ("@pm go", "pm"),
            ("@PM!", "pm"),
            ("(@bob), @pm.", "bob pm"),
            ("@bob- and @a_b_", "bob a_b"),
            ("@pmx @pm-othe", ""),
            ("@all @bob", "bob *"),
            ("@allx", ""),
            ("mail bob@pm.example or @bob@host or @bob.example", ""),
            ("http://x/@bob a.@bob", ""),
            ("`@bob` and ``x ` @pm`` then @a_b", "a_b"),
            ("```\n@bob\n``` @pm", "pm"),
            ("a lone ` does not hide @bob", "bob"),
            ("é@bob @böb", ""),
            ("@", ""),
            ("@bob @bob", "bob"),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }
}
