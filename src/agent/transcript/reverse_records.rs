//! Reads the records of a transcript from its end, with several threads if it has to go far back. Each line can be
//! parsed on its own, so the result and its order are the same as with one thread.

use std::io;
use std::num::NonZero;
use std::panic;
use std::sync::LazyLock;
use std::thread::{self, Builder};

use super::model::{MessageRecord, Record};
use super::repair;
use crate::home::reverse_lines::ReverseLines;

/// A line that is, or should be, a record.
pub(super) struct RecordLine {
    /// Byte offset at which the next line begins.
    pub end: u64,
    /// The line's size in bytes without its line feed.
    pub bytes: u64,
    /// The record, or `None` if the line can't be parsed.
    pub record: Option<Record>,
    /// Estimated tokens of a message, otherwise 0.
    pub cost: u64,
    /// `true` if the line is no record, or is a message that no provider accepts.
    pub is_broken: bool,
}

/// The limits for reading ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAheadLimits {
    /// The bytes that are read line by line first, and the least that is read ahead. Starting threads for less is not
    /// worth it, and a compacted conversation needs little.
    pub alone: u64,
    /// Bytes per thread at a time.
    pub part: usize,
    /// Number of threads, including the current one.
    pub threads: usize,
}

impl ReadAheadLimits {
    /// Returns the limits for this machine. At most four processors are used, because other turns need some too.
    pub(super) fn for_machine() -> Self {
        static THREADS: LazyLock<usize> =
            LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(4));
        Self { alone: 256 * 1024, part: 1024 * 1024, threads: *THREADS }
    }
}

/// The lines of a file, newest first, without those that begin or end a turn.
pub(super) struct ReverseRecords<'a, C> {
    tail: ReverseLines<'a>,
    cost: C,
    pace: ReadAheadLimits,
    /// Number of bytes that were read line by line.
    alone: u64,
    /// Lines that were read ahead, oldest first.
    ahead: Vec<RecordLine>,
}

impl<'a, C: Fn(&MessageRecord) -> u64 + Sync> ReverseRecords<'a, C> {
    /// Creates the reader. `cost` estimates a message's tokens.
    pub(super) const fn new(tail: ReverseLines<'a>, cost: C, pace: ReadAheadLimits) -> Self {
        Self { tail, cost, pace, alone: 0, ahead: Vec::new() }
    }

    /// Returns the line before the last one returned. `wanted` is about how many bytes will be needed at most,
    /// including this line.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn next(&mut self, wanted: u64) -> io::Result<Option<RecordLine>> {
        loop {
            if let Some(line) = self.ahead.pop() {
                return Ok(Some(line));
            }
            let ReadAheadLimits { alone, threads, .. } = self.pace;
            // Near the end of the file a single thread is faster. Further back, the others help.
            if threads > 1 && self.alone >= alone && wanted >= alone {
                if !self.read_ahead(wanted)? {
                    return Ok(None);
                }
                continue;
            }
            let end = self.tail.place();
            let Some(line) = self.tail.next_line()? else { return Ok(None) };
            self.alone += line.len() as u64;
            if let Some(line) = read(line, end, &self.cost) {
                return Ok(Some(line));
            }
        }
    }

    /// Reads ahead with all threads. Returns `false` if nothing is left.
    fn read_ahead(&mut self, wanted: u64) -> io::Result<bool> {
        let ReadAheadLimits { part, threads, .. } = self.pace;
        let most = (part * threads).min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let (start, lines) = self.tail.lines(most)?;
        let cost = &self.cost;
        // Scoped threads may borrow the lines, so nothing is copied for them.
        self.ahead = thread::scope(|scope| {
            let mut parts = parts(start, lines, threads).into_iter();
            let own = parts.next();
            let others: Vec<_> = parts
                .map(|(start, lines)| {
                    let read = move || parse_lines(start, lines, cost);
                    // If no thread can be started, the current one reads this part too.
                    Builder::new().name("transcript".to_owned()).spawn_scoped(scope, read).map_err(|_| read())
                })
                .collect();
            let mut ahead = own.map(|(start, lines)| parse_lines(start, lines, cost)).unwrap_or_default();
            for other in others {
                // A panic in a thread is a defect and is passed on, as if this thread had read the part.
                let other =
                    other.map(|thread| thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
                ahead.extend(other.unwrap_or_else(|here| here));
            }
            ahead
        });
        Ok(!lines.is_empty())
    }
}

/// Splits lines into about equal parts, each with its byte offset in the file.
fn parts(mut start: u64, mut lines: &[u8], count: usize) -> Vec<(u64, &[u8])> {
    let size = lines.len().div_ceil(count.max(1)).max(1);
    let mut parts = Vec::with_capacity(count);
    while !lines.is_empty() {
        let full = size.min(lines.len()) - 1;
        let end = memchr::memchr(b'\n', &lines[full..]).map_or(lines.len(), |at| full + at + 1);
        parts.push((start, &lines[..end]));
        start += end as u64;
        lines = &lines[end..];
    }
    parts
}

fn parse_lines(start: u64, lines: &[u8], cost: impl Fn(&MessageRecord) -> u64) -> Vec<RecordLine> {
    let mut all = Vec::new();
    let mut begin = 0;
    while begin < lines.len() {
        let found = memchr::memchr(b'\n', &lines[begin..]);
        let end = found.map_or(lines.len(), |at| begin + at);
        let next = end + usize::from(found.is_some());
        all.extend(read(&lines[begin..end], start + next as u64, &cost));
        begin = next;
    }
    all
}

fn read(line: &[u8], end: u64, cost: impl Fn(&MessageRecord) -> u64) -> Option<RecordLine> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    // These are half of all lines, and no reader here needs them.
    if line.starts_with(br#"{"type":"turn","#) {
        return None;
    }
    let record = Record::parse(line).ok();
    let (cost, is_broken) = match &record {
        Some(Record::Message(message)) => (cost(message), repair::is_unsendable(message)),
        Some(_) => (0, false),
        None => (0, true),
    };
    Some(RecordLine { end, bytes: line.len() as u64, record, cost, is_broken })
}
