//! Goes once through a request and looks at every entry of it, wherever it stands and however it is written. Pure.

use super::media::{Media, Place};
use super::scan::{Scanner, Token, meant};
use super::wire::{Rule, Wire};
use super::{Refused, Seen};

/// How deep contents may be nested: that of the programs' requests is below ten.
const DEEPEST: usize = 200;
/// Characters of a name or a word that are looked at: all that mean something are shorter.
const LONGEST: usize = 80;

/// An object or an array that is open.
struct Frame {
    /// What it is looked at as.
    as_: As,
    /// What the value that comes next is looked at as.
    next: As,
    /// Whether it is an object.
    object: bool,
    media: Media,
}

/// What a value is looked at as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    /// The outermost object.
    Top,
    /// A value of this rule.
    Ruled(Rule),
    /// The type of a tool.
    ToolType,
    /// The type of a piece of contents.
    ContentType,
    /// A text that may be an address.
    Address,
    /// An entry that leads out, unless it is nothing.
    Out,
    /// A text that belongs to a picture or a document.
    Part(Place),
}

/// Goes through a request of this wire.
pub(super) fn through(document: &[u8], wire: &'static Wire) -> Result<Seen, Refused> {
    let mut walk = Walk {
        wire,
        frames: Vec::new(),
        keys: Vec::new(),
        name: String::new(),
        folded: String::new(),
        word: String::new(),
        seen: Seen { bytes: document.len() as u64, ..Seen::default() },
    };
    let mut tokens = Scanner::new(document);
    while let Some(token) = tokens.next() {
        if walk.take(token)? {
            tokens.close();
        }
    }
    Ok(walk.seen)
}

struct Walk {
    wire: &'static Wire,
    frames: Vec<Frame>,
    /// The outermost object's names so far, folded.
    keys: Vec<String>,
    /// The name that was read last, as it is meant.
    name: String,
    /// The same, folded.
    folded: String,
    /// The last text that was read.
    word: String,
    seen: Seen,
}

impl Walk {
    /// Takes a piece; whether what it opens can be passed over.
    fn take(&mut self, token: Token<'_>) -> Result<bool, Refused> {
        match token {
            Token::Key(written) => {
                meant(written, LONGEST, &mut self.name);
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

    /// What the value that comes is looked at as.
    fn expected(&self) -> As {
        match self.frames.last() {
            None => As::Top,
            Some(frame) => frame.next,
        }
    }

    /// What the value of the entry that was just named is looked at as.
    fn entry(&mut self) -> Result<As, Refused> {
        let Some(frame) = self.frames.last_mut() else { return Ok(As::Top) };
        let (name, folded) = (self.name.as_str(), self.folded.as_str());
        let within = || rule(self.wire.within, |known| known == name);
        Ok(match frame.as_ {
            As::Top => {
                if self.keys.iter().any(|before| before == folded) {
                    return Err(Refused::Twice(name.to_owned()));
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
                known.map_or(As::Out, As::Ruled)
            }
            As::Ruled(Rule::Tool) => {
                if folded == "type" {
                    As::ToolType
                } else if self.wire.tool_entries.is_some_and(|known| !known.contains(&folded)) {
                    As::Out
                } else {
                    As::Ruled(within().unwrap_or(Rule::Data))
                }
            }
            _ => {
                if self.wire.out.iter().any(|names| names.contains(&folded)) {
                    As::Out
                } else if let Some(rule) = within() {
                    As::Ruled(rule)
                } else if folded == "type" {
                    frame.media.named(name);
                    As::ContentType
                } else if let Some(place) = frame.media.named(name) {
                    As::Part(place)
                } else if folded.ends_with("url") || folded.ends_with("uri") {
                    As::Address
                } else {
                    As::Ruled(Rule::Content)
                }
            }
        })
    }

    /// Whether what is opened can be passed over.
    fn open(&mut self, object: bool) -> Result<bool, Refused> {
        let expected = self.expected();
        let as_ = match expected {
            As::Ruled(Rule::Data) => return Ok(true),
            As::Ruled(Rule::Tools) if !object => As::Ruled(Rule::Tools),
            As::Ruled(Rule::Tool) if object => As::Ruled(Rule::Tool),
            As::Top if object && self.frames.is_empty() => As::Top,
            As::Ruled(Rule::Content) | As::ContentType | As::Address | As::Part(_) => {
                As::Ruled(Rule::Content)
            }
            As::Top | As::Out | As::ToolType | As::Ruled(_) => return Err(self.refused()),
        };
        if self.frames.len() >= DEEPEST {
            return Err(Refused::TooDeep);
        }
        // Of an array all values are alike; of an object each entry says what its value is.
        let next = match expected {
            As::Ruled(Rule::Tools) => As::Ruled(Rule::Tool),
            As::Part(Place::Address) => As::Address,
            As::Part(_) => as_,
            expected => expected,
        };
        let is_entry = self.frames.last().is_some_and(|frame| frame.object);
        let holder = if is_entry && object { self.name.as_str() } else { "" };
        self.frames.push(Frame { as_, next, object, media: Media::within(holder) });
        Ok(false)
    }

    fn text(&mut self, written: &[u8]) -> Result<(), Refused> {
        let as_ = self.expected();
        if matches!(as_, As::Ruled(Rule::Data | Rule::Content)) {
            return Ok(());
        }
        meant(written, LONGEST, &mut self.word);
        let word = self.word.as_str();
        let is_let = match as_ {
            As::Ruled(Rule::Only(words)) => words.contains(&word),
            As::ToolType => self.is_own_tool(word),
            As::ContentType => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.media.told(Place::Type, word, written.len());
                }
                let dated = undated(word);
                !self.wire.out_types.contains(&word)
                    && (self.wire.dated_tools.is_empty()
                        || dated.is_none_or(|family| self.wire.dated_tools.contains(&family)))
            }
            As::Address => is_data(word),
            As::Part(place) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.media.told(place, word, written.len());
                }
                place != Place::Address || is_data(word)
            }
            As::Top | As::Out | As::Ruled(_) => false,
        };
        if is_let { Ok(()) } else { Err(self.refused()) }
    }

    fn word(&self, word: &[u8]) -> Result<(), Refused> {
        let is_let = match self.expected() {
            // A program may write out what it does not want.
            _ if word == b"null" => true,
            As::Ruled(Rule::Only(_)) => word == b"false",
            As::Ruled(Rule::Data | Rule::Content) | As::ContentType | As::Address | As::Part(_) => true,
            As::Top | As::Out | As::ToolType | As::Ruled(Rule::Tool | Rule::Tools) => false,
        };
        if is_let { Ok(()) } else { Err(self.refused()) }
    }

    fn is_own_tool(&self, word: &str) -> bool {
        self.wire.tools.contains(&word)
            || undated(word).is_some_and(|family| self.wire.dated_tools.contains(&family))
    }

    fn refused(&self) -> Refused {
        match self.expected() {
            As::ToolType => Refused::Tool(self.word.clone()),
            As::ContentType => Refused::Content(self.word.clone()),
            As::Address | As::Part(_) => Refused::Address(self.name.clone()),
            As::Ruled(Rule::Only(_)) => Refused::Value(self.name.clone()),
            _ => Refused::Entry(self.name.clone()),
        }
    }
}

/// The rule of the first name that is the one.
fn rule(table: &[(&str, Rule)], mut is_it: impl FnMut(&str) -> bool) -> Option<Rule> {
    table.iter().find(|(known, _)| is_it(known)).map(|(_, rule)| *rule)
}

/// The beginning of a word that ends with the day of a version, as `bash_20250124`.
fn undated(word: &str) -> Option<&str> {
    let (family, day) = word.rsplit_once('_')?;
    (day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit())).then_some(family)
}

/// Whether an address is what it leads to.
fn is_data(address: &str) -> bool {
    address.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

/// A name as every server that is lenient with names would take it: without regard to case, and to what stands between
/// words. Two letters beside the Latin ones have a Latin one as their small form.
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
