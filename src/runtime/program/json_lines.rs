//! Splits the output of a program into lines. Each line and the whole output are limited, and no output makes the
//! parser fail.

use serde_json::Value;

/// Longest line in bytes. Longer lines are skipped. A program may print its prompt, or the whole output of a command,
/// in one line.
const MAX_LINE: usize = 16 << 20;

/// Most bytes that are read of one run. Later output is skipped.
const MAX_TOTAL: usize = 512 << 20;

/// Characters that are shown of a line that is not an event.
const MAX_SHOWN: usize = 500;

/// A line of output.
#[derive(Debug, PartialEq)]
pub enum OutputLine<'a> {
    /// A JSON object.
    Event(Value),
    /// Another line, or a note about a line that was too long. At most 500 characters, with control characters.
    Noise(&'a str),
}

/// Splits bytes into lines as they arrive.
#[derive(Default)]
pub struct LineSplitter {
    rest: Vec<u8>,
    /// Set if the present line is too long already.
    skips: bool,
    taken: usize,
}

impl LineSplitter {
    /// Takes more bytes, and reports each line that is complete with them.
    pub fn take(&mut self, bytes: &[u8], tell: &mut dyn FnMut(OutputLine<'_>)) {
        self.push_within(bytes, MAX_LINE, MAX_TOTAL, tell);
    }

    /// Reports the last line if it had no line end.
    pub fn end(&mut self, tell: &mut dyn FnMut(OutputLine<'_>)) {
        if self.skips {
            tell(OutputLine::Noise("(a line that was too long was passed over)"));
        } else {
            report_line(&self.rest, tell);
        }
        self.rest = Vec::new();
        self.skips = false;
    }

    fn push_within(&mut self, bytes: &[u8], line: usize, whole: usize, tell: &mut dyn FnMut(OutputLine<'_>)) {
        let before = self.taken;
        self.taken = self.taken.saturating_add(bytes.len());
        // The note below was given once, when the limit was passed.
        if before > whole {
            return;
        }
        if self.taken > whole {
            self.rest = Vec::new();
            self.skips = false;
            tell(OutputLine::Noise("(what came after was too much and was passed over)"));
            return;
        }
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // The text after the last line end is the beginning of the next line.
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.add(part, line);
            self.end(tell);
        }
        self.add(last, line);
    }

    fn add(&mut self, part: &[u8], line: usize) {
        if self.skips || self.rest.len().saturating_add(part.len()) > line {
            self.skips = true;
            self.rest = Vec::new();
        } else {
            self.rest.extend_from_slice(part);
        }
    }
}

fn report_line(line: &[u8], tell: &mut dyn FnMut(OutputLine<'_>)) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    // An invalid UTF-8 byte inside a string of an event must not lose the whole event.
    let text = String::from_utf8_lossy(line);
    match serde_json::from_str::<Value>(&text) {
        // Programs print other JSON values only by chance. Events are objects.
        Ok(event @ Value::Object(_)) => tell(OutputLine::Event(event)),
        _ => {
            let end = text.char_indices().nth(MAX_SHOWN).map_or(text.len(), |(at, _)| at);
            tell(OutputLine::Noise(&text[..end]));
        }
    }
}

#[cfg(test)]
#[path = "json_lines_tests.rs"]
mod tests;
