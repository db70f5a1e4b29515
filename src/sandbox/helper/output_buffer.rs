//! The part of an output that is kept: the first bytes, and a ring buffer with the last bytes. The bytes in between are
//! only counted. The helper program compiles this file, too.

use super::message::Output;

/// The first and the last bytes of an output of any length.
#[derive(Debug, Default)]
pub struct OutputBuffer {
    head: Vec<u8>,
    ring: Vec<u8>,
    /// Index of the oldest byte in the ring once it is full.
    oldest: usize,
    /// The number of all bytes printed.
    pub total: u64,
    half: usize,
}

impl OutputBuffer {
    /// Creates a buffer that keeps at most `keep` bytes.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Self { half: keep / 2, ..Self::default() }
    }

    /// Adds the next chunk of the output.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        // The new bytes alone fill the ring.
        if rest.len() >= self.half {
            self.ring.clear();
            self.ring.extend_from_slice(&rest[rest.len() - self.half..]);
            self.oldest = 0;
            return;
        }
        let (grow, over) = rest.split_at(rest.len().min(self.half - self.ring.len()));
        self.ring.extend_from_slice(grow);
        let (end, start) = over.split_at(over.len().min(self.ring.len() - self.oldest));
        self.ring[self.oldest..self.oldest + end.len()].copy_from_slice(end);
        self.ring[..start.len()].copy_from_slice(start);
        if !over.is_empty() {
            self.oldest = (self.oldest + over.len()) % self.ring.len();
        }
    }

    /// Returns everything that is kept.
    #[must_use]
    pub fn all(&self) -> Output {
        self.since(0)
    }

    /// Returns the kept part of the output after the first `from` bytes. If no byte is missing in between, all of it is
    /// in `head`.
    #[must_use]
    pub fn since(&self, from: u64) -> Output {
        let from = from.min(self.total);
        let mut head = self.head.get(from as usize..).unwrap_or_default().to_vec();
        let ring_from = self.total - self.ring.len() as u64;
        let skip = from.saturating_sub(ring_from) as usize;
        let (newer, older) = self.ring.split_at(self.oldest);
        let mut tail = [older, newer].concat().split_off(skip);
        let total = self.total - from;
        if (head.len() + tail.len()) as u64 == total {
            head.append(&mut tail);
        }
        Output { head, tail, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_model_for_every_size_and_cursor() {
        for keep in [0, 1, 2, 7, 8, 64] {
            for step in [1, 2, 3, 5, 31, 200] {
                let mut output = OutputBuffer::new(keep);
                let mut all: Vec<u8> = Vec::new();
                for round in 0..40_u8 {
                    let bytes: Vec<u8> = (0..step).map(|n| round.wrapping_mul(31).wrapping_add(n)).collect();
                    output.push(&bytes);
                    all.extend(&bytes);
                    for from in [0, 1, keep / 2, all.len() / 2, all.len() - 1, all.len(), all.len() + 9] {
                        check(&output, &all, keep, from);
                    }
                }
            }
        }
    }

    fn check(output: &OutputBuffer, all: &[u8], keep: usize, from: usize) {
        assert_eq!(output.total, all.len() as u64);
        assert_eq!(output.all(), output.since(0));
        let kept = output.since(from as u64);
        let wanted = all.get(from..).unwrap_or_default();
        assert_eq!(kept.total, wanted.len() as u64);
        assert!(kept.head.len() + kept.tail.len() <= keep.max(1));
        assert!(wanted.starts_with(&kept.head));
        assert!(wanted.ends_with(&kept.tail));
        if all.len() <= keep / 2 * 2 {
            assert_eq!(kept.head, wanted);
        } else if from == 0 {
            assert_eq!((kept.head.len(), kept.tail.len()), (keep / 2, keep / 2));
        }
    }
}
