//! Yields the tokens of a JSON document one after the other, with every entry of every object. A document that is
//! parsed into a map would lose the first value of a repeated key. Pure.
//!
//! Callers have already checked that the document is valid JSON. On other input the tokens mean little, but the
//! iterator always ends.

use memchr::memchr2;

/// A token of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'d> {
    /// The start of an object or an array.
    Open {
        /// `true` for an object.
        object: bool,
    },
    /// The end of the innermost object or array.
    Close,
    /// The name of an entry, as written between its quotes.
    Key(&'d [u8]),
    /// A string, as written between its quotes.
    Text(&'d [u8]),
    /// A number, `true`, `false` or `null`.
    Word(&'d [u8]),
}

/// An iterator over the tokens of a document.
pub(crate) struct Scanner<'d> {
    rest: &'d [u8],
}

impl<'d> Scanner<'d> {
    /// Creates an iterator over this document.
    #[must_use]
    pub(crate) const fn new(document: &'d [u8]) -> Self {
        Self { rest: document }
    }

    /// Skips the rest of the object or array that was opened last.
    pub(crate) fn close(&mut self) {
        let mut open = 1_usize;
        for token in self.by_ref() {
            match token {
                Token::Open { .. } => open += 1,
                Token::Close => open -= 1,
                Token::Key(_) | Token::Text(_) | Token::Word(_) => {}
            }
            if open == 0 {
                return;
            }
        }
    }

    /// Returns the text up to the quote that ends a string.
    fn text(&mut self) -> &'d [u8] {
        let mut at = 0;
        while let Some(found) = memchr2(b'"', b'\\', &self.rest[at..]) {
            at += found;
            if self.rest[at] == b'"' {
                let (text, rest) = self.rest.split_at(at);
                self.rest = &rest[1..];
                return text;
            }
            // An escaped character never ends the string.
            at = (at + 2).min(self.rest.len());
        }
        std::mem::take(&mut self.rest)
    }
}

impl<'d> Iterator for Scanner<'d> {
    type Item = Token<'d>;

    fn next(&mut self) -> Option<Token<'d>> {
        let begin = self.rest.iter().position(|byte| !is_separator(*byte))?;
        self.rest = &self.rest[begin..];
        let (first, rest) = self.rest.split_first()?;
        let token = match first {
            b'{' | b'[' => Token::Open { object: *first == b'{' },
            b'}' | b']' => Token::Close,
            b'"' => {
                self.rest = rest;
                let text = self.text();
                // In valid JSON only the name of an entry is followed by a colon.
                let is_key = self.rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                return Some(if is_key { Token::Key(text) } else { Token::Text(text) });
            }
            _ => {
                let ends = |byte: &u8| is_separator(*byte) || matches!(byte, b'}' | b']');
                let length = self.rest.iter().position(ends).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(length);
                self.rest = rest;
                return Some(Token::Word(word));
            }
        };
        self.rest = rest;
        Some(token)
    }
}

const fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b':')
}

/// Decodes the beginning of a string, up to `most` characters. Half of a surrogate pair, which only JSON can write,
/// becomes a replacement character.
pub(crate) fn unescape(written: &[u8], most: usize, into: &mut String) {
    into.clear();
    let mut rest = written;
    for _ in 0..most {
        let Some((first, after)) = rest.split_first() else { return };
        let (meant, after) = if *first == b'\\' {
            decode_escape(after)
        } else {
            // A UTF-8 character has at most four bytes.
            let end = rest.len().min(4);
            let length = (1..=end).find(|length| std::str::from_utf8(&rest[..*length]).is_ok());
            let length = length.unwrap_or(1);
            let meant = std::str::from_utf8(&rest[..length]).ok().and_then(|text| text.chars().next());
            (meant, &rest[length..])
        };
        into.push(meant.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = after;
    }
}

/// Returns the character that an escape stands for, and the text after it.
fn decode_escape(rest: &[u8]) -> (Option<char>, &[u8]) {
    let Some((sign, after)) = rest.split_first() else { return (None, rest) };
    let meant = match sign {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let Some(first) = unit(after) else { return (None, after) };
            let after = &after[4..];
            let second = after.strip_prefix(b"\\u").and_then(unit);
            return match (char::from_u32(first), second) {
                // The first unit alone is no character, so it must be half of a pair.
                (None, Some(second)) => {
                    let pair = char::decode_utf16([first, second].map(|unit| unit as u16)).next();
                    match pair {
                        Some(Ok(meant)) => (Some(meant), &after[6..]),
                        _ => (None, after),
                    }
                }
                (meant, _) => (meant, after),
            };
        }
        other => char::from(*other),
    };
    (Some(meant), after)
}

/// Parses four hexadecimal digits.
fn unit(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    /// Rebuilds the document from its tokens. The last value of a repeated key counts, as in a map.
    fn built(document: &str) -> Value {
        fn value<'d>(tokens: &mut Scanner<'d>, token: Token<'d>) -> Value {
            let read = |text: &[u8]| {
                let mut meant_text = String::new();
                unescape(text, usize::MAX, &mut meant_text);
                meant_text
            };
            match token {
                Token::Open { object: true } => {
                    let mut map = Map::new();
                    while let Some(Token::Key(key)) = tokens.next() {
                        let token = tokens.next().unwrap();
                        map.insert(read(key), value(tokens, token));
                    }
                    Value::Object(map)
                }
                Token::Open { object: false } => {
                    let mut all = Vec::new();
                    while let Some(token) = tokens.next().filter(|token| *token != Token::Close) {
                        all.push(value(tokens, token));
                    }
                    Value::Array(all)
                }
                Token::Text(text) => Value::String(read(text)),
                Token::Word(word) => serde_json::from_slice(word).unwrap(),
                Token::Key(_) | Token::Close => panic!("{token:?}"),
            }
        }
        let mut tokens = Scanner::new(document.as_bytes());
        let token = tokens.next().unwrap();
        value(&mut tokens, token)
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,6}[\"\\\\\n\t{}:,\u{0}é한😀]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z\"\\\\é]{0,4}", inner), 0..4)
                    .prop_map(|all| { Value::Object(all.into_iter().collect()) }),
            ]
        })
    }

    /// Returns the same document with each string written only in escapes, and with spaces between the tokens.
    fn disguised(value: &Value) -> String {
        let text = |text: &str| {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            format!("\"{units}\"")
        };
        match value {
            Value::String(meant) => text(meant),
            Value::Array(all) => {
                let all: Vec<String> = all.iter().map(disguised).collect();
                format!("[ {} ]", all.join(" ,\n"))
            }
            Value::Object(map) => {
                let all: Vec<String> =
                    map.iter().map(|(key, value)| format!("{}\t: {}", text(key), disguised(value))).collect();
                format!("{{ {} }}", all.join(" , "))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #[test]
        fn the_tokens_rebuild_the_document(document in documents()) {
            prop_assert_eq!(&built(&document.to_string()), &document);
            prop_assert_eq!(&built(&disguised(&document)), &document);
        }

        #[test]
        fn scanning_any_bytes_ends(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Scanner::new(&bytes).count() <= bytes.len());
            let mut scanner = Scanner::new(&bytes);
            scanner.close();
            let mut text = String::new();
            unescape(&bytes, 50, &mut text);
            prop_assert!(text.chars().count() <= 50);
        }
    }

    #[test]
    fn skipping_a_container_skips_all_of_it() {
        let document = json!({"a": {"b": ["}", {"c": "\\\""}, []], "d": 1}, "e": 2}).to_string();
        let mut scanner = Scanner::new(document.as_bytes());
        assert_eq!(scanner.by_ref().take(3).last(), Some(Token::Open { object: true }));
        scanner.close();
        assert_eq!(scanner.next(), Some(Token::Key(b"e")));
        assert_eq!(scanner.next(), Some(Token::Word(b"2")));
    }

    #[test]
    fn half_a_surrogate_pair_becomes_a_replacement_character() {
        let mut text = String::new();
        for (written, expected) in [
            (r"a\ud83d", "a\u{fffd}"),
            (r"\ud83d\ude00!", "😀!"),
            (r"\ud83dx", "\u{fffd}x"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\ude00", "\u{fffd}"),
            (r"\/\b\u00e9", "/\u{8}é"),
            (r"\", "\u{fffd}"),
            (r"\u12", "\u{fffd}12"),
        ] {
            unescape(written.as_bytes(), 20, &mut text);
            assert_eq!(text, expected, "{written}");
        }
    }
}
