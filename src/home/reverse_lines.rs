//! Reads a file of lines from its end, so that the cost depends on what is needed and not on the file's size.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Size of the first block, read from the end. Earlier blocks are larger and larger.
const FIRST_BLOCK: usize = 16 * 1024;
const MAX_BLOCK: usize = 1024 * 1024;

/// The lines of a file, last line first. A last line without a line feed counts too.
pub struct ReverseLines<'a> {
    file: &'a File,
    /// Byte offset in the file at which `buffer` begins.
    start: u64,
    /// `buffer[..end]` was read and not returned yet. The allocation is reused for each block, because a new one would
    /// have to be allocated and zeroed each time.
    buffer: Vec<u8>,
    end: usize,
    block: usize,
}

impl<'a> ReverseLines<'a> {
    /// Creates a reader for the file at its current length.
    ///
    /// # Errors
    ///
    /// Returns an error if the file's length can't be read.
    pub fn new(file: &'a File) -> io::Result<Self> {
        let start = file.metadata()?.len();
        Ok(Self::before(file, start))
    }

    /// Creates a reader for the part of the file before `place`, which must be the end of a line.
    pub const fn before(file: &'a File, place: u64) -> Self {
        Self { file, start: place, buffer: Vec::new(), end: 0, block: FIRST_BLOCK }
    }

    pub const fn file(&self) -> &'a File {
        self.file
    }

    /// Returns the byte offset at which the next line ends. Everything after it was returned.
    pub const fn place(&self) -> u64 {
        self.start + self.end as u64
    }

    /// Returns many lines at once, oldest first as in the file, with the byte offset at which they begin: about `most`
    /// bytes, or one longer line. Empty if no line is left.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub fn lines(&mut self, most: usize) -> io::Result<(u64, &[u8])> {
        // What is buffered already counts, so only the rest is read from the file.
        if self.end < most {
            self.load(most - self.end)?;
        }
        // The last line's own line feed begins no further line, and bytes that were searched once contain none.
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
        // The rest of a line whose beginning was not read stays for the next call.
        self.end = begin;
        Ok((self.start + begin as u64, &self.buffer[lines]))
    }

    /// Returns the line before the last one returned, without its line feed.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        // The line's own line feed, if it has one, is not part of it.
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

    /// Reads the block before `buffer` and puts it in front of the rest. Returns `false` at the file's beginning.
    fn fill(&mut self) -> io::Result<bool> {
        let is_more = self.load(self.block)?;
        // The block grows with the line, so that a line longer than a block is not copied once per block.
        self.block = (self.block * 2).min(MAX_BLOCK.max(self.end));
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
        // The rest of the later block moves behind the new one, so that a line across both is contiguous.
        self.buffer.copy_within(..self.end, length);
        let start = self.start - length as u64;
        self.file.read_exact_at(&mut self.buffer[..length], start)?;
        (self.start, self.end) = (start, all);
        Ok(true)
    }
}

#[cfg(test)]
#[path = "reverse_lines_tests.rs"]
mod tests;
