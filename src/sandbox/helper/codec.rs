//! Encodes messages as bytes and decodes them. The helper program compiles this file as well, so it uses only the
//! standard library.
//!
//! Decoding accepts any input. Bytes that are not a message give `None`, and decoding never allocates more memory than
//! the length of the input.

use super::message::{CommandExit, JobState, LISTED_COMMAND, MAX_DATA, MAX_KEEP, Output, Step};

#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value);
    }

    pub(super) fn end(&mut self, end: Option<CommandExit>) {
        let (how, value) = match end {
            None => (0, 0),
            Some(CommandExit::Exited(code)) => (1, code),
            Some(CommandExit::Signalled(signal)) => (2, signal),
            Some(CommandExit::TimedOut) => (3, 0),
            Some(CommandExit::Cancelled) => (4, 0),
        };
        self.u8(how);
        self.u32(value as u32);
    }

    pub(super) fn job(&mut self, job: &JobState) {
        self.u32(job.id);
        self.end(job.end);
        self.u64(job.total);
        self.u64(job.took_us);
        self.bytes(&job.command);
    }

    pub(super) fn step(&mut self, stream: u32, step: &Step) {
        self.u32(stream);
        match step {
            Step::Open => self.u8(0),
            Step::Data(data) => {
                self.u8(1);
                self.bytes(data);
            }
            Step::Credit(more) => {
                self.u8(2);
                self.u32(*more);
            }
            Step::End => self.u8(3),
            Step::Reset => self.u8(4),
        }
    }

    pub(super) fn kept(&mut self, kept: &Output) {
        self.bytes(&kept.head);
        self.bytes(&kept.tail);
        self.u64(kept.total);
    }
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    // Any other value is rejected, so that each message has exactly one encoding.
    pub(super) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self, most: usize) -> Option<Vec<u8>> {
        let length = self.u32()? as usize;
        if length > most {
            return None;
        }
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    pub(super) fn list<T>(
        &mut self,
        most: usize,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count > most {
            return None;
        }
        // Do not reserve space for `count` items. The vector grows only with items that are really there.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    pub(super) fn end_state(&mut self) -> Option<Option<CommandExit>> {
        let (how, value) = (self.u8()?, self.u32()? as i32);
        Some(match how {
            0 => None,
            1 => Some(CommandExit::Exited(value)),
            2 => Some(CommandExit::Signalled(value)),
            3 => Some(CommandExit::TimedOut),
            4 => Some(CommandExit::Cancelled),
            _ => return None,
        })
    }

    pub(super) fn job(&mut self) -> Option<JobState> {
        Some(JobState {
            id: self.u32()?,
            end: self.end_state()?,
            total: self.u64()?,
            took_us: self.u64()?,
            command: self.bytes(LISTED_COMMAND)?,
        })
    }

    pub(super) fn step(&mut self) -> Option<(u32, Step)> {
        let stream = self.u32()?;
        let step = match self.u8()? {
            0 => Step::Open,
            1 => Step::Data(self.bytes(MAX_DATA)?),
            2 => Step::Credit(self.u32()?),
            3 => Step::End,
            4 => Step::Reset,
            _ => return None,
        };
        Some((stream, step))
    }

    pub(super) fn kept(&mut self) -> Option<Output> {
        let kept = Output { head: self.bytes(MAX_KEEP)?, tail: self.bytes(MAX_KEEP)?, total: self.u64()? };
        // A total below the number of kept bytes would make the dropped count negative.
        (kept.total >= (kept.head.len() + kept.tail.len()) as u64).then_some(kept)
    }

    /// Returns the message if all input was consumed.
    pub(super) fn end<T>(&self, message: T) -> Option<T> {
        self.0.is_empty().then_some(message)
    }
}
