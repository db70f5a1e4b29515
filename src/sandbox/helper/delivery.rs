//! The delivery of frames over a connection that can be resumed. Each side numbers its frames and keeps them until the other side has
//! confirmed them. So a frame is sent again if it was lost with a stream, and one that arrives twice is taken once. The helper program
//! compiles this file as well, so it uses only the standard library.

use std::collections::VecDeque;

use super::frame::{self, Frame, Number};

/// Limit on the bytes that are kept. Beyond it the connection can't be resumed until enough was confirmed.
const MAX_KEPT: usize = 4 << 20;
/// Number of bytes and of frames after which their arrival is confirmed.
const CONFIRM_BYTES: usize = 128 << 10;
const CONFIRM_FRAMES: u32 = 64;

/// The frames of one direction that this side sends.
#[derive(Debug, Default)]
pub struct Sent {
    last: Number,
    kept: VecDeque<(Number, Vec<u8>)>,
    bytes: usize,
    /// The last frame that is not kept, because the other side has it or because there were too many.
    before: Number,
    /// The last frame that the other side has.
    confirmed: Number,
}

impl Sent {
    /// Numbers a complete frame and keeps a copy of it.
    pub fn add(&mut self, bytes: &mut [u8]) {
        self.last = self.last.next();
        frame::number(bytes, self.last);
        self.bytes += bytes.len();
        self.kept.push_back((self.last, bytes.to_vec()));
        while self.bytes > MAX_KEPT {
            self.forget_first();
        }
    }

    /// Forgets the frames up to this one. A number that was never sent is ignored.
    pub fn confirm(&mut self, received: Number) {
        if received.since(self.confirmed) > self.last.since(self.confirmed) {
            return;
        }
        self.confirmed = received;
        while self.kept.front().is_some_and(|(number, _)| received.since(*number) <= self.last.since(*number))
        {
            self.forget_first();
        }
        if self.kept.is_empty() {
            self.before = self.last;
        }
    }

    fn forget_first(&mut self) {
        let Some((number, bytes)) = self.kept.pop_front() else { return };
        self.bytes -= bytes.len();
        self.before = number;
    }

    /// Returns `true` if all frames after this one are kept.
    #[must_use]
    pub fn has_after(&self, received: Number) -> bool {
        received.since(self.confirmed) <= self.last.since(self.confirmed)
            && self.before.since(self.confirmed) <= received.since(self.confirmed)
    }

    /// Returns the frames that were not confirmed, in order.
    pub fn kept(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(|(_, bytes)| bytes.as_slice())
    }
}

/// The frames of one direction that this side receives.
#[derive(Debug, Default)]
pub struct Received {
    last: Number,
    frames: u32,
    bytes: usize,
    /// The last frame after which others were asked for again.
    asked: Option<Number>,
}

/// The decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one, or has no number.
    Take,
    /// It was there before, or one before it is missing.
    Drop,
    /// The first one that shows that another one is missing.
    AskAgain,
}

impl Received {
    /// Notes a frame.
    pub fn note(&mut self, frame: &Frame) -> Arrival {
        if frame.number == Number::default() {
            return Arrival::Take;
        }
        if frame.number == self.last.next() {
            self.last = frame.number;
            self.asked = None;
            self.frames += 1;
            self.bytes += frame.payload.len();
            return Arrival::Take;
        }
        // An old one has a number far ahead.
        let is_old = frame.number.since(self.last) > (1 << 23) || frame.number == self.last;
        if is_old || self.asked == Some(self.last) {
            return Arrival::Drop;
        }
        self.asked = Some(self.last);
        Arrival::AskAgain
    }

    /// Returns the number to confirm if enough has arrived since the last time.
    pub fn due(&mut self) -> Option<Number> {
        (self.frames >= CONFIRM_FRAMES || self.bytes >= CONFIRM_BYTES).then(|| self.told())
    }

    /// Returns the number of the last frame that arrived, to be told to the other side.
    pub fn told(&mut self) -> Number {
        (self.frames, self.bytes) = (0, 0);
        self.last
    }

    /// Begins to ask again: new streams may bring what was asked for in vain.
    pub fn resumed(&mut self) -> Number {
        self.asked = None;
        self.told()
    }
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
