//! The arguments of a skill, and the places in its text where their values stand. Pure.
//!
//! They are those of Claude Code's skills: `$name` for a declared argument, `$ARGUMENTS` for all values, and `$ARGUMENTS[N]`
//! or `$N` for the value at a position, counted from 0. One backslash before a placeholder keeps it as text.
//!
//! The text is read once, from its beginning to its end, and values are copied into the result. So nothing in a value is
//! ever taken for a placeholder.

use std::ops::Range;

use serde_json::{Map, Value};

use super::front_matter::{FrontMatter, SkillArgument};
use crate::clean;

/// The most bytes of all values together.
pub(crate) const MAX_VALUE_BYTES: usize = 16 << 10;
/// The most bytes of a text with its values. A placeholder is shorter than a value and may stand in a text many times.
const MAX_FILLED_BYTES: usize = 4 << 20;
/// The name of the only argument of a skill that has placeholders or a hint and declares no names.
const UNNAMED: &str = "arguments";
/// The most characters of a name that an error repeats.
const MAX_SHOWN: usize = 64;

/// An error in the arguments that a skill is given. The texts are written for a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("the skill needs {}; it takes {known}", .missing.join(", "))]
    Missing { missing: Vec<String>, known: String },
    #[error("the skill has no argument {name:?}; it takes {known}")]
    Unknown { name: String, known: String },
    #[error("the argument {name:?} has to be a text")]
    NotText { name: String },
    #[error("the arguments of a skill are a text, or an object of texts")]
    NoArguments,
    #[error("the arguments have {size} bytes; at most {MAX_VALUE_BYTES} are allowed")]
    TooLong { size: usize },
    #[error("the text would have more than {} MiB with these arguments", MAX_FILLED_BYTES >> 20)]
    TooMuch,
}

/// The text of a skill with the arguments that it takes.
#[derive(Debug)]
pub(crate) struct SkillTemplate<'t> {
    /// The front matter, in which nothing is replaced.
    head: &'t str,
    body: &'t str,
    arguments: Vec<SkillArgument>,
    /// `true` if the front matter declares names.
    is_named: bool,
}

/// The values that a skill is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArgumentValues {
    /// All of them as one text.
    all: String,
    /// The values by their positions. `None` if an optional argument has none.
    positions: Vec<Option<String>>,
}

impl<'t> SkillTemplate<'t> {
    /// Reads the text of a `SKILL.md`.
    #[must_use]
    pub(crate) fn parse(text: &'t str) -> Self {
        let front = FrontMatter::parse(text);
        let (body, hint) = (front.body, front.argument_hint);
        let is_named = !front.arguments.is_empty();
        let mut arguments = front.arguments;
        if !is_named && (hint.is_some() || has_placeholder(body)) {
            arguments.push(SkillArgument { name: UNNAMED.to_owned(), description: None, required: false });
        }
        // A hint is about all arguments together.
        if let [only] = arguments.as_mut_slice() {
            only.description = only.description.take().or(hint);
        }
        Self { head: &text[..text.len() - body.len()], body, arguments, is_named }
    }

    /// Returns the arguments that it takes, in the order of their positions.
    #[must_use]
    pub(crate) fn arguments(&self) -> &[SkillArgument] {
        &self.arguments
    }

    /// Returns the text after the front matter.
    #[must_use]
    pub(crate) const fn body(&self) -> &'t str {
        self.body
    }

    /// Returns the values for what was given: an object with the arguments by their names, or a text as a person types it
    /// after a command, which is split into positions as a shell does.
    ///
    /// Only an object is checked against the declared arguments. A text may have fewer or more values, as in Claude Code.
    ///
    /// # Errors
    ///
    /// Returns an error if it is neither, if it is too long, or if an object has a value that is no text, a name that the
    /// skill does not have, or no value for a required argument.
    pub(crate) fn bind(&self, given: &Value) -> Result<ArgumentValues, ArgumentError> {
        match given {
            Value::String(text) => typed(text),
            Value::Object(named) => self.bind_named(named),
            _ => Err(ArgumentError::NoArguments),
        }
    }

    fn bind_named(&self, given: &Map<String, Value>) -> Result<ArgumentValues, ArgumentError> {
        let name_of = |name: &String| clean::summary(name, MAX_SHOWN);
        let mut size = 0;
        for (name, value) in given {
            if !self.arguments.iter().any(|argument| argument.name == *name) {
                return Err(ArgumentError::Unknown { name: name_of(name), known: self.known() });
            }
            size += value.as_str().ok_or_else(|| ArgumentError::NotText { name: name_of(name) })?.len();
        }
        check_size(size)?;
        let value = |argument: &SkillArgument| given.get(&argument.name)?.as_str().map(cleaned);
        let positions: Vec<Option<String>> = self.arguments.iter().map(value).collect();
        let missing = self.arguments.iter().zip(&positions);
        let missing = missing.filter(|(argument, value)| argument.required && value.is_none());
        let missing: Vec<String> = missing.map(|(argument, _)| argument.name.clone()).collect();
        if !missing.is_empty() {
            return Err(ArgumentError::Missing { missing, known: self.known() });
        }
        if !self.is_named {
            // The only argument is what a person would type.
            return typed(given.values().next().and_then(Value::as_str).unwrap_or_default());
        }
        let all = positions.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
        Ok(ArgumentValues { all, positions })
    }

    fn known(&self) -> String {
        let name = |argument: &SkillArgument| {
            let optional = if argument.required { "" } else { " (optional)" };
            format!("{}{optional}", argument.name)
        };
        if self.arguments.is_empty() {
            return "none".to_owned();
        }
        self.arguments.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the whole text with these values in their places. If no place receives one, they are named at the end.
    ///
    /// The text of a skill that takes no arguments and is given none is unchanged, with every backslash in it.
    ///
    /// # Errors
    ///
    /// Returns [`ArgumentError::TooMuch`] if it would be too long.
    pub(crate) fn filled(&self, values: &ArgumentValues) -> Result<String, ArgumentError> {
        if self.arguments.is_empty() && values.all.is_empty() {
            return Ok(format!("{}{}", self.head, self.body));
        }
        let (body, is_received) = self.replace(self.body, values)?;
        let mut text = format!("{}{body}", self.head);
        if !is_received && !values.all.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
            text.push_str("ARGUMENTS: ");
            text.push_str(&values.all);
        }
        Ok(text)
    }

    /// Returns a part of the text with these values in their places.
    ///
    /// # Errors
    ///
    /// Returns [`ArgumentError::TooMuch`] if it would be too long.
    pub(crate) fn filled_part(&self, part: &str, values: &ArgumentValues) -> Result<String, ArgumentError> {
        if self.arguments.is_empty() {
            return Ok(part.to_owned());
        }
        self.replace(part, values).map(|(text, _)| text)
    }

    /// Returns a text with the values in it, and `true` if a placeholder received one.
    fn replace(&self, text: &str, values: &ArgumentValues) -> Result<(String, bool), ArgumentError> {
        let names: &[SkillArgument] = if self.is_named { &self.arguments } else { &[] };
        let mut out = String::with_capacity(text.len());
        let (mut done, mut is_received) = (0, false);
        while let Some(found) = next(text, done, names) {
            out.push_str(&text[done..found.place.start]);
            let token = &text[found.place.clone()];
            let value = match found.token {
                Token::Escaped => Some(&token[1..]),
                Token::All => Some(values.all.as_str()),
                Token::Position(at) => values.positions.get(at).and_then(Option::as_deref),
                Token::Name(at) => {
                    Some(values.positions.get(at).and_then(Option::as_deref).unwrap_or_default())
                }
            };
            is_received |= value.is_some() && found.token != Token::Escaped;
            // A position without a value stays, because a text may have an amount such as $1.
            out.push_str(value.unwrap_or(token));
            if out.len() > MAX_FILLED_BYTES {
                return Err(ArgumentError::TooMuch);
            }
            done = found.place.end;
        }
        out.push_str(&text[done..]);
        if out.len() > MAX_FILLED_BYTES {
            return Err(ArgumentError::TooMuch);
        }
        Ok((out, is_received))
    }
}

fn check_size(size: usize) -> Result<(), ArgumentError> {
    if size > MAX_VALUE_BYTES { Err(ArgumentError::TooLong { size }) } else { Ok(()) }
}

/// Returns a value as a text of the skill is shown: without characters that nobody sees.
fn cleaned(value: &str) -> String {
    clean::block(&value.replace("\r\n", "\n")).into_owned()
}

fn typed(text: &str) -> Result<ArgumentValues, ArgumentError> {
    check_size(text.len())?;
    // Cleaned after the split, for which the backslash of an escape would be one of the person.
    let positions = words(text).iter().map(|word| Some(cleaned(word))).collect();
    Ok(ArgumentValues { all: cleaned(text.trim()), positions })
}

/// Splits a text as a shell does: at blanks that no quotes and no backslash protect. A text with an open quote is split at
/// all blanks, because an apostrophe is usual in a sentence.
fn words(text: &str) -> Vec<String> {
    quoted_words(text).unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect())
}

fn quoted_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        letter => word.push(letter),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            letter @ ('"' | '\\') => word.push(letter),
                            letter => word.extend(['\\', letter]),
                        },
                        letter => word.push(letter),
                    }
                }
            }
            // At the end of the text there is nothing that it could protect.
            '\\' => word.get_or_insert_default().push(letters.next().unwrap_or('\\')),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Some(words)
}

/// A placeholder, or one that a backslash keeps as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    All,
    Position(usize),
    /// The number of the argument with this name.
    Name(usize),
    Escaped,
}

#[derive(Debug)]
struct FoundToken {
    token: Token,
    /// Its place in the text, with the backslash before it.
    place: Range<usize>,
}

fn has_placeholder(body: &str) -> bool {
    let mut done = 0;
    while let Some(found) = next(body, done, &[]) {
        if found.token != Token::Escaped {
            return true;
        }
        done = found.place.end;
    }
    false
}

/// Returns the first placeholder from this position on.
fn next(text: &str, from: usize, names: &[SkillArgument]) -> Option<FoundToken> {
    for (at, _) in text[from..].match_indices('$') {
        let at = from + at;
        let Some((token, length)) = token(&text[at + 1..], names) else { continue };
        let end = at + 1 + length;
        // Two backslashes are two backslashes, and what follows them is a placeholder.
        let backslashes = text[..at].bytes().rev().take(2).take_while(|byte| *byte == b'\\').count();
        return Some(if backslashes == 1 {
            FoundToken { token: Token::Escaped, place: at - 1..end }
        } else {
            FoundToken { token, place: at..end }
        });
    }
    None
}

/// Returns the placeholder at the beginning of the text after a `$`, and its length.
fn token(text: &str, names: &[SkillArgument]) -> Option<(Token, usize)> {
    // It ends where the word ends: $1st and $issues are something else.
    let is_end = |at: usize| !text[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    // No text has so many values that the largest number could be the position of one.
    let position = |digits: &str| Token::Position(digits.parse().unwrap_or(usize::MAX));
    let named = names
        .iter()
        .enumerate()
        .filter(|(_, argument)| text.starts_with(&argument.name) && is_end(argument.name.len()));
    // Of `old` and `old-name` the longer one is meant.
    if let Some((at, argument)) = named.max_by_key(|(_, argument)| argument.name.len()) {
        return Some((Token::Name(at), argument.name.len()));
    }
    if let Some(rest) = text.strip_prefix("ARGUMENTS") {
        let length = text.len() - rest.len();
        if let Some(index) = rest.strip_prefix('[') {
            let count = digits(index);
            if count > 0 && index[count..].starts_with(']') {
                return Some((position(&index[..count]), length + count + 2));
            }
        }
        return is_end(length).then_some((Token::All, length));
    }
    let count = digits(text);
    (count > 0 && is_end(count)).then(|| (position(&text[..count]), count))
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
