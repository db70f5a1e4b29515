//! Turns texts into the words of the search index, and what somebody searches for into expressions for it. Pure.
//!
//! Words of scripts with spaces go into the index as they are. Scripts without spaces, and Korean, whose words end in
//! particles, go in as pairs of neighbouring characters: a word of two syllables is then found inside a longer one, and
//! with any particle behind it.

use std::collections::HashSet;

use crate::secret_text;

/// The most words of a query that are searched for.
const MAX_WORDS: usize = 32;
/// The most terms of an expression. A run of characters without spaces has many.
const MAX_TERMS: usize = 64;

/// English words that are too common to help. They are left out if a query has other words.
const COMMON: [&str; 58] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "but", "by", "can", "could", "did", "do",
    "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me",
    "my", "of", "on", "or", "our", "should", "so", "that", "the", "their", "there", "these", "they", "this",
    "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "you", "your",
];

/// The words that somebody searches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchQuery {
    /// The expression for texts with any of the words. Texts with more of them rank higher.
    pub any: String,
    /// The same with the last word as the beginning of a longer one, if it may be one.
    pub begun: Option<String>,
    /// The terms in lower case, for the snippet.
    pub terms: Vec<String>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word of a script with spaces.
    Word(&'a str),
    /// A run of characters of a script without spaces, or of Korean.
    Run(&'a str),
}

/// Returns a text in the form in which it is put into the index. Keys are left out.
#[must_use]
pub(super) fn indexed(text: &str) -> String {
    let text = composed(&secret_text::without_keys(text));
    let mut words = String::with_capacity(text.len() + text.len() / 4);
    let mut push = |word: &str| {
        words.push_str(word);
        words.push(' ');
    };
    for (_, token) in tokens(&text) {
        match token {
            Token::Word(word) => {
                push(word);
                parts(word).for_each(&mut push);
            }
            Token::Run(run) => pairs(run).for_each(&mut push),
        }
    }
    words
}

/// Returns the expressions for a query, or `None` if it has no words. Whatever the text is, the result is a valid
/// expression: it consists of quoted words that flock itself puts together.
#[must_use]
pub(super) fn query(text: &str) -> Option<SearchQuery> {
    let text = composed(text);
    let tokens: Vec<Token<'_>> = tokens(&text).map(|(_, token)| token).take(MAX_WORDS).collect();
    let is_common =
        |token: &Token<'_>| matches!(token, Token::Word(word) if COMMON.contains(&&*word.to_lowercase()));
    let has_others = tokens.iter().any(|token| !is_common(token));
    let wanted: Vec<Token<'_>> =
        tokens.iter().copied().filter(|token| !has_others || !is_common(token)).collect();
    // The words may be followed by something else, as in a question. Then the last one is complete.
    let is_open = text.chars().next_back().is_some_and(char::is_alphanumeric);
    let begun = match *wanted.last()? {
        // Too many words begin with one or two letters.
        Token::Word(word) if is_open && word.chars().nth(2).is_some() => Some(format!("\"{word}\"*")),
        _ => None,
    };
    let mut any = Vec::new();
    let mut terms = Vec::new();
    for token in wanted {
        match token {
            Token::Word(word) => {
                terms.push(word.to_lowercase());
                any.extend(std::iter::once(word).chain(parts(word)).map(|word| format!("\"{word}\"")));
            }
            // A single character is the beginning of a pair.
            Token::Run(run) if run.chars().nth(1).is_none() => {
                terms.push(run.to_owned());
                any.push(format!("\"{run}\"*"));
            }
            Token::Run(run) => {
                terms.extend(pairs(run).take(MAX_TERMS).map(str::to_owned));
                any.extend(pairs(run).take(MAX_TERMS).map(|pair| format!("\"{pair}\"")));
            }
        }
    }
    let mut known = HashSet::new();
    any.retain(|term| known.insert(term.to_lowercase()));
    any.truncate(MAX_TERMS);
    let any = any.join(" OR ");
    Some(SearchQuery { begun: begun.map(|word| format!("{any} OR {word}")), any, terms })
}

/// Returns the tokens of a text with their byte offsets.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = (usize, Token<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(|c| class(c) != Class::Other)?;
        let wanted = class(text[start..].chars().next()?);
        let length = text[start..].find(|c| class(c) != wanted).unwrap_or(text.len() - start);
        at = start + length;
        let part = &text[start..at];
        Some((start, if wanted == Class::Run { Token::Run(part) } else { Token::Word(part) }))
    })
}

/// Returns the pairs of neighbouring characters of a run; a single character is its own pair.
pub(super) fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    let count = starts.len().saturating_sub(2).max(1);
    (0..count).filter_map(move |at| run.get(*starts.get(at)?..*starts.get(at + 2).or(starts.last())?))
}

/// Returns the parts of a name such as `memorySearch`; none for a word without such parts.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let mut cuts = vec![0];
    let bytes = word.as_bytes();
    cuts.extend(
        (1..bytes.len()).filter(|at| bytes[at - 1].is_ascii_lowercase() && bytes[*at].is_ascii_uppercase()),
    );
    let is_name = cuts.len() > 1;
    cuts.push(word.len());
    let count = if is_name { cuts.len() - 1 } else { 0 };
    (0..count).filter_map(move |at| word.get(cuts[at]..cuts[at + 1]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Word,
    Run,
    Other,
}

fn class(c: char) -> Class {
    match c {
        // Thai, Lao, Myanmar, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Hangul, Kana, Bopomofo and Han, with their extensions and compatibility forms.
        | '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}'
            if c.is_alphanumeric() || is_mark(c) =>
        {
            Class::Run
        }
        c if c.is_alphanumeric() || is_mark(c) => Class::Word,
        _ => Class::Other,
    }
}

/// Returns `true` for a mark that belongs to the letter before it: the combining accents, and the vowel signs and tone
/// marks of scripts of South and Southeast Asia.
const fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{e47}'..='\u{e4e}' | '\u{94d}' | '\u{9cd}'
        | '\u{bcd}' | '\u{eb1}' | '\u{eb4}'..='\u{ebc}' | '\u{ec8}'..='\u{ece}')
}

/// Returns a text in which Hangul syllables that are written as separate letters are composed, as some systems write
/// the names of files.
fn composed(text: &str) -> String {
    const FIRST: u32 = 0x1100;
    const VOWEL: u32 = 0x1161;
    const LAST: u32 = 0x11a7;
    const SYLLABLE: u32 = 0xac00;
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let lead = u32::from(c).wrapping_sub(FIRST);
        let vowel = chars.peek().map(|next| u32::from(*next).wrapping_sub(VOWEL)).filter(|vowel| *vowel < 21);
        let (Some(vowel), true) = (vowel, lead < 19) else {
            out.push(c);
            continue;
        };
        chars.next();
        let last = chars
            .peek()
            .map(|next| u32::from(*next).wrapping_sub(LAST))
            .filter(|last| (1..28).contains(last));
        if last.is_some() {
            chars.next();
        }
        out.extend(char::from_u32(SYLLABLE + (lead * 21 + vowel) * 28 + last.unwrap_or(0)));
    }
    out
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
