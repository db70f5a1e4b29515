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
    /// What was read and not given out yet is `buffer[..end]`. It is kept from block to block: a new one each time would
    /// be cleared, and its memory handed out, once more.
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
        Ok(Self::before(file, start))
    }

    /// The lines of the file up to a place in it, which is the end of a line.
    pub const fn before(file: &'a File, place: u64) -> Self {
        Self { file, start: place, buffer: Vec::new(), end: 0, block: FIRST_BLOCK }
    }

    /// The file.
    pub const fn file(&self) -> &'a File {
        self.file
    }

    /// Where in the file the line ends that is given next: all behind it was given.
    pub const fn place(&self) -> u64 {
        self.start + self.end as u64
    }

    /// Many lines at once, as they are in the file: about `most` bytes, or one longer line, and where in the file they
    /// begin. No bytes where no line is left.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub fn lines(&mut self, most: usize) -> io::Result<(u64, &[u8])> {
        if self.end < most {
            self.load(most - self.end)?;
        }
        // The end of the last line begins nothing, and what was looked at once has none.
        let mut seen = 1;
        let begin = loop {
            if self.start == 0 {
                break 0;
            }
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[..self.end.saturating_sub(seen)]) {
                break at + 1;
            }
            seen = self.end.max(1);
            self.fill()?;
        };
        let lines = begin..self.end;
        // What is there of a line without its beginning stays for the next time.
        self.end = begin;
        Ok((self.start + begin as u64, &self.buffer[lines]))
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
        let is_more = self.load(self.block)?;
        // A line longer than a block must not be copied once for each block.
        self.block = (self.block * 2).min(LARGEST_BLOCK.max(self.end));
        Ok(is_more)
    }

    fn load(&mut self, most: usize) -> io::Result<bool> {
        let length = usize::try_from(self.start).unwrap_or(usize::MAX).min(most);
        if length == 0 {
            return Ok(false);
        }
        let all = length + self.end;
        if self.buffer.len() < all {
            self.buffer.resize(all, 0);
        }
        self.buffer.copy_within(..self.end, length);
        let start = self.start - length as u64;
        self.file.read_exact_at(&mut self.buffer[..length], start)?;
        (self.start, self.end) = (start, all);
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

        #[test]
        fn gives_many_lines_at_once_and_then_single_ones(
            lengths in proptest::collection::vec(0_usize..40_000, 0..12),
            end: bool,
            most in 0_usize..100_000,
            single in 0_usize..4,
        ) {
            let lines: Vec<Vec<u8>> = lengths.iter().map(|length| vec![b'x'; *length]).collect();
            let mut bytes = lines.join(&b'\n');
            if end && !lines.is_empty() { bytes.push(b'\n'); }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let mut tail = Tail::new(&file).unwrap();
            let mut left = bytes.len();
            for turn in 0.. {
                let is_single = turn % 4 < single;
                let (at, given) = if is_single {
                    let Some(given) = tail.next_line().unwrap().map(<[u8]>::to_owned) else { break };
                    (tail.place(), given)
                } else {
                    let (at, given) = tail.lines(most).unwrap();
                    let given = (at, given.to_owned());
                    proptest::prop_assert_eq!(at, tail.place());
                    if given.1.is_empty() { break }
                    given
                };
                let at = usize::try_from(at).unwrap();
                proptest::prop_assert!(at == 0 || bytes[at - 1] == b'\n', "only whole lines");
                let there = &bytes[at..left];
                let there = if is_single { there.strip_suffix(b"\n").unwrap_or(there) } else { there };
                proptest::prop_assert!(given == there);
                left = at;
            }
            proptest::prop_assert_eq!(left, 0);
        }
    }
}
