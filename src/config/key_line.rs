//! Finds the line of a key in the file. The parsed document has no line numbers, so the text is walked a second time.

use std::fmt::Write as _;

/// Returns the line, from 1, of a key in the form `agents.list[0].model`. If the key is missing, returns the line of
/// the object or list that should hold it. `None` for a text that is not JSON.
#[must_use]
pub fn line_of(text: &[u8], at: &str) -> Option<usize> {
    let mut wanted = at;
    loop {
        let mut walk = KeyScanner { text, at: 0, line: 1, wanted, found: None };
        walk.value(&mut String::new())?;
        if walk.found.is_some() {
            return walk.found;
        }
        // Not there: the enclosing object or list is looked for instead.
        wanted = &wanted[..wanted.rfind(['.', '['])?];
    }
}

struct KeyScanner<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    wanted: &'a str,
    found: Option<usize>,
}

impl KeyScanner<'_> {
    /// Skips one value. The document was parsed before, so its depth is bounded and the recursion is safe.
    fn value(&mut self, path: &mut String) -> Option<()> {
        if path == self.wanted && !path.is_empty() && self.found.is_none() {
            self.space();
            self.found = Some(self.line);
        }
        self.space();
        match self.peek()? {
            b'{' => self.inside(b'}', |walk| {
                let key = walk.string()?;
                walk.expect(b':')?;
                let length = path.len();
                if length > 0 {
                    path.push('.');
                }
                path.push_str(&key);
                walk.value(path)?;
                path.truncate(length);
                Some(())
            }),
            b'[' => {
                let mut index = 0;
                self.inside(b']', |walk| {
                    let length = path.len();
                    // Writing to a String does not fail.
                    let _ = write!(path, "[{index}]");
                    walk.value(path)?;
                    path.truncate(length);
                    index += 1;
                    Some(())
                })
            }
            b'"' => self.string().map(drop),
            // A number, `true`, `false` or `null`.
            _ => {
                while self.peek().is_some_and(|byte| !b",]} \t\r\n".contains(&byte)) {
                    self.at += 1;
                }
                Some(())
            }
        }
    }

    fn inside(&mut self, end: u8, mut entry: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        self.space();
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            entry(self)?;
            self.space();
            let byte = self.peek()?;
            self.at += 1;
            match byte {
                b',' => self.space(),
                byte if byte == end => return Some(()),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.space();
        let start = self.at;
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        while self.peek()? != b'"' {
            // An escaped quote does not end the text.
            self.at += if self.peek()? == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        // The key is decoded, because it may be written with escapes.
        serde_json::from_slice(&self.text[start..self.at]).ok()
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.space();
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while let Some(byte) = self.peek().filter(u8::is_ascii_whitespace) {
            self.line += usize::from(byte == b'\n');
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_have_their_line() {
        let text = br#"{
  "a": {"b\"c": 1,
        "d": [
          {"id": "x"},
          {"id":
             5, "e": {}}
        ]},
  "z": null
}"#;
        for (at, line) in
            [("a", 2), ("a.b\"c", 2), ("a.d", 3), ("a.d[1]", 5), ("a.d[1].id", 6), ("z", 8), ("a.d[1].e", 6)]
        {
            assert_eq!(line_of(text, at), Some(line), "{at}");
        }
        assert_eq!(line_of(text, "a.d[1].e.missing"), Some(6), "what should hold it");
        assert_eq!(line_of(text, "nothing"), None);
        assert_eq!(line_of(b"{\"a\": [1, ", "a[3]"), None);
        assert_eq!(line_of(b"\xff{", "a"), None);
    }
}
