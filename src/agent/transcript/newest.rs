//! The records of a transcript from its end. A long way back is read by several threads: what a line says depends on no
//! other line, so that what they find is what one would find, in the same order.

use std::io;
use std::num::NonZero;
use std::panic;
use std::sync::LazyLock;
use std::thread::{self, Builder};

use super::model::{MessageRecord, Record};
use super::repair;
use super::tail::Tail;

/// A line that is a record, or should be one.
pub(super) struct Line {
    /// Where in the file the next line begins.
    pub end: u64,
    /// Its size, without its end.
    pub bytes: u64,
    /// What it says; none where that can't be read.
    pub record: Option<Record>,
    /// What it costs, where it is a message.
    pub cost: u64,
    /// Whether it is no record, or a message that nobody takes as it is.
    pub is_broken: bool,
}

/// When and how much is read ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The bytes that are read line by line first, and the fewest that are read ahead: for less it is not worth it to
    /// begin a thread, and of a conversation that was compacted little is needed.
    pub alone: u64,
    /// The bytes for each thread at a time.
    pub part: usize,
    /// The threads, this one among them.
    pub threads: usize,
}

impl Pace {
    /// As this machine has processors, and not all of many: others have turns too.
    pub(super) fn of_machine() -> Self {
        static THREADS: LazyLock<usize> =
            LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(4));
        Self { alone: 256 * 1024, part: 1024 * 1024, threads: *THREADS }
    }
}

/// The lines of a file, newest first, without those that say that a turn began or ended.
pub(super) struct Newest<'a, C> {
    tail: Tail<'a>,
    cost: C,
    pace: Pace,
    /// How much was read line by line.
    alone: u64,
    /// What was read ahead, oldest first.
    ahead: Vec<Line>,
}

impl<'a, C: Fn(&MessageRecord) -> u64 + Sync> Newest<'a, C> {
    /// These lines; `cost` is what a message costs.
    pub(super) const fn new(tail: Tail<'a>, cost: C, pace: Pace) -> Self {
        Self { tail, cost, pace, alone: 0, ahead: Vec::new() }
    }

    /// The line before the one that was given last. `wanted` is about how many bytes will be asked for at most, this
    /// line among them.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub(super) fn next(&mut self, wanted: u64) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.ahead.pop() {
                return Ok(Some(line));
            }
            let Pace { alone, threads, .. } = self.pace;
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

    /// Reads a part with each thread; `false` where nothing is left.
    fn read_ahead(&mut self, wanted: u64) -> io::Result<bool> {
        let Pace { part, threads, .. } = self.pace;
        let most = (part * threads).min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let (start, lines) = self.tail.lines(most)?;
        let cost = &self.cost;
        self.ahead = thread::scope(|scope| {
            let mut parts = parts(start, lines, threads).into_iter();
            let own = parts.next();
            let others: Vec<_> = parts
                .map(|(start, lines)| {
                    let read = move || read_all(start, lines, cost);
                    // Where no thread is to be had this one does it.
                    Builder::new().name("transcript".to_owned()).spawn_scoped(scope, read).map_err(|_| read())
                })
                .collect();
            let mut ahead = own.map(|(start, lines)| read_all(start, lines, cost)).unwrap_or_default();
            for other in others {
                let other =
                    other.map(|thread| thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
                ahead.extend(other.unwrap_or_else(|here| here));
            }
            ahead
        });
        Ok(!lines.is_empty())
    }
}

/// Lines in about equal parts, each with where it begins in the file.
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

fn read_all(start: u64, lines: &[u8], cost: impl Fn(&MessageRecord) -> u64) -> Vec<Line> {
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

fn read(line: &[u8], end: u64, cost: impl Fn(&MessageRecord) -> u64) -> Option<Line> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    // Half of all lines, and they say nothing here.
    if line.starts_with(br#"{"type":"turn","#) {
        return None;
    }
    let record = Record::parse(line).ok();
    let (cost, is_broken) = match &record {
        Some(Record::Message(message)) => (cost(message), repair::is_unsendable(message)),
        Some(_) => (0, false),
        None => (0, true),
    };
    Some(Line { end, bytes: line.len() as u64, record, cost, is_broken })
}
