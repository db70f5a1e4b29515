//! Walks once through a request and checks every entry of it, in any place and in any spelling. Pure.

use super::media::{Media, MediaField};
use super::{ContentSize, RejectedPart};
use crate::json::{Scanner, Token, unescape};
use crate::provider::relay_format::{RelayFormat, Rule, RuleTable};

/// Greatest allowed nesting of contents. The programs' requests stay below ten.
const MAX_DEPTH: usize = 200;
/// Number of characters of a name or a string that are decoded. Every one with a meaning is shorter.
const MAX_DECODED_CHARS: usize = 80;

/// An open object or array.
struct Frame {
    /// The kind as which it is checked.
    as_: ValueKind,
    /// The kind as which the next value is checked.
    next: ValueKind,
    /// `true` for an object.
    object: bool,
    media: Media,
}

/// The kind as which a value is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// The outermost object.
    Top,
    /// A value under this rule.
    Ruled(Rule),
    /// The type of a tool.
    ToolType,
    /// The type of a piece of content.
    ContentType,
    /// A string that may be a URL.
    Address,
    /// An entry that reaches beyond the model. Only `null` is allowed.
    Out,
    /// A string that belongs to a picture or a document.
    Part(MediaField),
}

/// Checks a request against the table of its wire format.
pub(super) fn through(document: &[u8], wire: &'static RelayFormat) -> Result<ContentSize, RejectedPart> {
    let mut walk = RequestWalk {
        wire,
        frames: Vec::new(),
        keys: Vec::new(),
        name: String::new(),
        folded: String::new(),
        word: String::new(),
        seen: ContentSize { bytes: document.len() as u64, ..ContentSize::default() },
    };
    let mut tokens = Scanner::new(document);
    while let Some(token) = tokens.next() {
        if walk.take(token)? {
            tokens.close();
        }
    }
    Ok(walk.seen)
}

struct RequestWalk {
    wire: &'static RelayFormat,
    frames: Vec<Frame>,
    /// The folded names of the outermost object so far.
    keys: Vec<String>,
    /// The decoded name that was read last.
    name: String,
    /// The same name, folded.
    folded: String,
    /// The string that was read last.
    word: String,
    seen: ContentSize,
}

impl RequestWalk {
    /// Takes a token. Returns `true` if the object or array that it opens can be skipped.
    fn take(&mut self, token: Token<'_>) -> Result<bool, RejectedPart> {
        match token {
            Token::Key(written) => {
                unescape(written, MAX_DECODED_CHARS, &mut self.name);
                fold(&self.name, &mut self.folded);
                let next = self.entry()?;
                if let Some(frame) = self.frames.last_mut() {
                    frame.next = next;
                }
                Ok(false)
            }
            Token::Close => {
                if let Some(frame) = self.frames.pop() {
                    frame.media.count(&mut self.seen);
                }
                Ok(false)
            }
            Token::Open { object } => self.open(object),
            Token::Text(written) => self.text(written).map(|()| false),
            Token::Word(word) => self.word(word).map(|()| false),
        }
    }

    /// Returns the kind as which the next value is checked.
    fn expected(&self) -> ValueKind {
        match self.frames.last() {
            None => ValueKind::Top,
            Some(frame) => frame.next,
        }
    }

    /// Returns the kind as which the value of the entry that was just named is checked.
    fn entry(&mut self) -> Result<ValueKind, RejectedPart> {
        let Some(frame) = self.frames.last_mut() else { return Ok(ValueKind::Top) };
        let (name, folded) = (self.name.as_str(), self.folded.as_str());
        let within = || rule(self.wire.within, |known| known == name);
        Ok(match frame.as_ {
            ValueKind::Top => {
                // Servers differ in which of two equal names they use, so a repetition could hide a value.
                if self.keys.iter().any(|before| before == folded) {
                    return Err(RejectedPart::Twice(name.to_owned()));
                }
                self.keys.push(folded.to_owned());
                let known = if self.wire.is_loose {
                    let mut spelt = String::new();
                    rule(self.wire.top, |known| {
                        fold(known, &mut spelt);
                        spelt == folded
                    })
                } else {
                    rule(self.wire.top, |known| known == name)
                };
                known.map_or(ValueKind::Out, ValueKind::Ruled)
            }
            ValueKind::Ruled(Rule::Tool) => {
                if folded == "type" {
                    ValueKind::ToolType
                // The entry of a tool can be what selects a service of the provider, so only known ones pass.
                } else if self.wire.tool_entries.is_some_and(|known| !known.contains(&folded)) {
                    ValueKind::Out
                } else {
                    ValueKind::Ruled(within().unwrap_or(Rule::Data))
                }
            }
            _ => {
                // This comes before the allowed names, so that no other rule can let such an entry pass.
                if self.wire.out.iter().any(|names| names.contains(&folded)) {
                    ValueKind::Out
                } else if let Some(rule) = within() {
                    ValueKind::Ruled(rule)
                } else if folded == "type" {
                    frame.media.named(name);
                    ValueKind::ContentType
                } else if let Some(place) = frame.media.named(name) {
                    ValueKind::Part(place)
                // An unknown entry of this name may be something that the provider fetches.
                } else if folded.ends_with("url") || folded.ends_with("uri") {
                    ValueKind::Address
                } else {
                    ValueKind::Ruled(Rule::Content)
                }
            }
        })
    }

    /// Checks an object or array at its start. Returns `true` if it can be skipped.
    fn open(&mut self, object: bool) -> Result<bool, RejectedPart> {
        let expected = self.expected();
        let as_ = match expected {
            // The provider does not interpret data, so nothing in it needs a check.
            ValueKind::Ruled(Rule::Data) => return Ok(true),
            ValueKind::Ruled(Rule::Tools) if !object => ValueKind::Ruled(Rule::Tools),
            ValueKind::Ruled(Rule::Tool) if object => ValueKind::Ruled(Rule::Tool),
            ValueKind::Top if object && self.frames.is_empty() => ValueKind::Top,
            ValueKind::Ruled(Rule::Content)
            | ValueKind::ContentType
            | ValueKind::Address
            | ValueKind::Part(_) => ValueKind::Ruled(Rule::Content),
            ValueKind::Top | ValueKind::Out | ValueKind::ToolType | ValueKind::Ruled(_) => {
                return Err(self.refused());
            }
        };
        if self.frames.len() >= MAX_DEPTH {
            return Err(RejectedPart::TooDeep);
        }
        // All values of an array are of the same kind. In an object each entry sets the kind of its value.
        let next = match expected {
            ValueKind::Ruled(Rule::Tools) => ValueKind::Ruled(Rule::Tool),
            ValueKind::Part(MediaField::Address) => ValueKind::Address,
            ValueKind::Part(_) => as_,
            expected => expected,
        };
        // The name belongs to this object only if the object is the value of that entry.
        let is_entry = self.frames.last().is_some_and(|frame| frame.object);
        let holder = if is_entry && object { self.name.as_str() } else { "" };
        self.frames.push(Frame { as_, next, object, media: Media::within(holder) });
        Ok(false)
    }

    fn text(&mut self, written: &[u8]) -> Result<(), RejectedPart> {
        let as_ = self.expected();
        if matches!(as_, ValueKind::Ruled(Rule::Data | Rule::Content)) {
            return Ok(());
        }
        unescape(written, MAX_DECODED_CHARS, &mut self.word);
        let word = self.word.as_str();
        let is_let = match as_ {
            ValueKind::Ruled(Rule::Only(words)) => words.contains(&word),
            ValueKind::ToolType => self.is_own_tool(word),
            ValueKind::ContentType => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.media.told(MediaField::Type, word, written.len());
                }
                // A tool may also be described in the content. Such a type has a date at its end and must be a known
                // one.
                let dated = strip_date(word);
                !self.wire.out_types.contains(&word)
                    && (self.wire.dated_tools.is_empty()
                        || dated.is_none_or(|family| self.wire.dated_tools.contains(&family)))
            }
            ValueKind::Address => is_data_url(word),
            ValueKind::Part(place) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.media.told(place, word, written.len());
                }
                place != MediaField::Address || is_data_url(word)
            }
            ValueKind::Top | ValueKind::Out | ValueKind::Ruled(_) => false,
        };
        if is_let { Ok(()) } else { Err(self.refused()) }
    }

    fn word(&self, word: &[u8]) -> Result<(), RejectedPart> {
        let is_let = match self.expected() {
            // A program may write out an option that it does not use.
            _ if word == b"null" => true,
            ValueKind::Ruled(Rule::Only(_)) => word == b"false",
            ValueKind::Ruled(Rule::Data | Rule::Content)
            | ValueKind::ContentType
            | ValueKind::Address
            | ValueKind::Part(_) => true,
            ValueKind::Top
            | ValueKind::Out
            | ValueKind::ToolType
            | ValueKind::Ruled(Rule::Tool | Rule::Tools) => false,
        };
        if is_let { Ok(()) } else { Err(self.refused()) }
    }

    fn is_own_tool(&self, word: &str) -> bool {
        self.wire.tools.contains(&word)
            || strip_date(word).is_some_and(|family| self.wire.dated_tools.contains(&family))
    }

    fn refused(&self) -> RejectedPart {
        match self.expected() {
            ValueKind::ToolType => RejectedPart::Tool(self.word.clone()),
            ValueKind::ContentType => RejectedPart::Content(self.word.clone()),
            ValueKind::Address | ValueKind::Part(_) => RejectedPart::Address(self.name.clone()),
            ValueKind::Ruled(Rule::Only(_)) => RejectedPart::Value(self.name.clone()),
            _ => RejectedPart::Entry(self.name.clone()),
        }
    }
}

/// Returns the rule of the first name for which `is_it` returns `true`.
fn rule(table: RuleTable, mut is_it: impl FnMut(&str) -> bool) -> Option<Rule> {
    table.iter().find(|(_, names)| names.iter().any(|known| is_it(known))).map(|(rule, _)| *rule)
}

/// Returns the beginning of a word that ends with the date of a version, such as `bash_20250124`.
fn strip_date(word: &str) -> Option<&str> {
    let (family, day) = word.rsplit_once('_')?;
    (day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit())).then_some(family)
}

/// Returns `true` if a URL holds its data itself.
fn is_data_url(address: &str) -> bool {
    address.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// Writes a name in the form in which every lenient server would read it: without regard to case and to separators. Two
/// non-Latin letters have a Latin one as their lower case.
fn fold(name: &str, into: &mut String) {
    into.clear();
    for sign in name.chars() {
        match sign {
            '_' | '-' => {}
            'ſ' => into.push('s'),
            '\u{212a}' => into.push('k'),
            other => into.push(other.to_ascii_lowercase()),
        }
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
