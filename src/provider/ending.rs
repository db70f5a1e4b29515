//! Whether arguments that come in pieces are whole: each byte is looked at once, however many pieces there are.

/// How far one JSON value has come. What is no JSON may be taken for whole or not; who reads it then will see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether a number or a word stands where a value begins.
    bare: bool,
    ended: bool,
}

impl Ending {
    /// Reads on.
    pub(super) fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            self.step(byte);
        }
    }

    /// Whether the value has ended. A number could go on, but no tool takes one for its arguments.
    pub(super) const fn has_come(self) -> bool {
        self.ended || self.bare
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_text = false;
                    self.ended |= self.depth == 0;
                }
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.ended |= self.depth == 0;
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.bare |= self.depth == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_whole(text: &str) -> bool {
        let mut ending = Ending::default();
        // In pieces of one letter, as models send them.
        text.chars().for_each(|c| ending.read(c.encode_utf8(&mut [0; 4])));
        ending.has_come()
    }

    #[test]
    fn the_end_is_seen_as_a_parser_sees_it() {
        for text in
            ["{}", " {\"a\": [1, {\"b\": \"}\"}]} ", "[1]", "\"text\"", "null", "7", "{\"é\": \"\\\"\\\\\"}"]
        {
            assert!(is_whole(text), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                let part = &text[..end];
                let whole = serde_json::from_str::<serde_json::Value>(part).is_ok();
                assert!(is_whole(part) == whole || text == "null", "{part:?} of {text:?}");
            }
        }
    }
}
