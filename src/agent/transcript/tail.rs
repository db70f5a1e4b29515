//! Reads a transcript from its end, so that the cost is that of what is needed and not of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The first block read from the end; those before it are larger and larger.
const FIRST_BLOCK: usize = 16 * 1024;
const LARGEST_BLOCK: usize = 1024 * 1024;

/// The lines of a file, last one first. A last line without an end is a line too.
pub struct Tail<'a> {
    file: &'a File,
    /// Where `buffer` begins in the file.
    start: u64,
    /// What was read and not given out yet is `buffer[..end]`.
    buffer: Vec<u8>,
    end: usize,
    block: usize,
}

impl<'a> Tail<'a> {
    /// The lines of the file as long as it is now.
    ///
    /// # Errors
    ///
    /// If its length can't be told.
    pub fn new(file: &'a File) -> io::Result<Self> {
        let start = file.metadata()?.len();
        Ok(Self { file, start, buffer: Vec::new(), end: 0, block: FIRST_BLOCK })
    }

    /// The line before the one that was given last, without its end.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        // The end of the line itself, where it has one, is not part of it.
        if self.end == 0 && !self.fill()? {
            return Ok(None);
        }
        if self.buffer[self.end - 1] == b'\n' {
            self.end -= 1;
        }
        let mut searched = self.end;
        loop {
            if let Some(at) = memchr::memrchr(b'\n', &self.buffer[..searched]) {
                let line = at + 1..self.end;
                self.end = at + 1;
                return Ok(Some(&self.buffer[line]));
            }
            let before = self.end;
            if !self.fill()? {
                let line = 0..self.end;
                self.end = 0;
                return Ok(Some(&self.buffer[line]));
            }
            searched = self.end - before;
        }
    }

    /// Puts the block before `buffer` in front of what is left of it; `false` at the file's beginning.
    fn fill(&mut self) -> io::Result<bool> {
        let length = usize::try_from(self.start).unwrap_or(usize::MAX).min(self.block);
        if length == 0 {
            return Ok(false);
        }
        self.start -= length as u64;
        let mut block = vec![0; length + self.end];
        self.file.read_exact_at(&mut block[..length], self.start)?;
        block[length..].copy_from_slice(&self.buffer[..self.end]);
        self.end += length;
        self.buffer = block;
        // A line longer than a block must not be copied once for each block.
        self.block = (self.block * 2).min(LARGEST_BLOCK.max(self.end));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn reversed(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut tail = Tail::new(&file).unwrap();
        let mut lines = Vec::new();
        while let Some(line) = tail.next_line().unwrap() {
            lines.push(line.to_owned());
        }
        lines
    }

    #[test]
    fn gives_the_lines_of_small_files_backwards() {
        assert!(reversed(b"").is_empty());
        assert_eq!(reversed(b"\n"), [b""]);
        assert_eq!(reversed(b"a"), [b"a"]);
        assert_eq!(reversed(b"a\nbc\n"), [&b"bc"[..], b"a"]);
        assert_eq!(reversed(b"a\n\nbc"), [&b"bc"[..], b"", b"a"]);
    }

    proptest::proptest! {
        #[test]
        fn gives_the_lines_of_any_file_backwards(lengths in proptest::collection::vec(0_usize..60_000, 0..12), end: bool) {
            let lines: Vec<Vec<u8>> = lengths.iter().map(|length| vec![b'x'; *length]).collect();
            let mut bytes = lines.join(&b'\n');
            if end && !lines.is_empty() { bytes.push(b'\n'); }
            let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|line| line.is_empty()) { expected.pop(); }
            expected.reverse();
            proptest::prop_assert!(reversed(&bytes) == expected);
        }
    }
}
