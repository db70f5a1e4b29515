//! The log of what a program did in a turn, as it is stored with its answer. Control characters that could harm a
//! terminal are escaped, and the size is bounded. The middle of a log that is too long is dropped, because a turn's
//! beginning and end say most.

use std::collections::VecDeque;

use crate::clean;
use crate::tool::safe_text;

/// The most bytes kept of each half, and of one line.
const HALF_BYTES: usize = 8 * 1024;
const MAX_LINE_BYTES: usize = 2 * 1024;

/// The most bytes of one turn that go to the gateway's log, so that one program can't drive out everything else.
const MAX_LOGGED_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct TraceBuffer {
    first: Vec<String>,
    first_bytes: usize,
    is_full: bool,
    last: VecDeque<String>,
    last_bytes: usize,
    left_out: usize,
    logged: usize,
}

impl TraceBuffer {
    /// Adds lines that a program reported, and returns those that should go to the gateway's log.
    pub(super) fn push(&mut self, told: &str) -> Vec<String> {
        let lines: Vec<String> = told.lines().map(line).collect();
        let mut logged = Vec::new();
        for line in &lines {
            // Lines are counted even when they are not logged, so that the note about the limit appears once.
            let before = self.logged;
            self.logged = before.saturating_add(line.len() + 1);
            if self.logged <= MAX_LOGGED_BYTES {
                logged.push(line.clone());
            } else if before <= MAX_LOGGED_BYTES {
                logged
                    .push("… (more than is logged of one turn; its end is kept with its answer)".to_owned());
            }
        }
        lines.into_iter().for_each(|line| self.keep(line));
        logged
    }

    fn keep(&mut self, line: String) {
        let bytes = line.len() + 1;
        // Once the first half is full it stays closed, even to a short line: otherwise lines would change their order.
        self.is_full |= self.first_bytes + bytes > HALF_BYTES;
        if !self.is_full {
            self.first_bytes += bytes;
            self.first.push(line);
            return;
        }
        self.last_bytes += bytes;
        self.last.push_back(line);
        // The oldest lines of the second half are dropped one by one, so the end of the turn is always complete.
        while self.last_bytes > HALF_BYTES
            && let Some(oldest) = self.last.pop_front()
        {
            self.last_bytes -= oldest.len() + 1;
            self.left_out += 1;
        }
    }

    /// Removes and returns all lines that are kept, oldest first.
    pub(super) fn take(&mut self) -> Vec<String> {
        let Self { mut first, last, left_out, .. } = std::mem::take(self);
        if left_out > 0 {
            first.push(format!("  [… {left_out} lines left out here …]"));
        }
        first.extend(last);
        first
    }
}

/// Bounds a log that came from elsewhere to the size of flock's own.
pub(super) fn checked(lines: &[String]) -> Vec<String> {
    let mut trace = TraceBuffer::default();
    lines.iter().for_each(|line| drop(trace.push(line)));
    trace.take()
}

fn line(text: &str) -> String {
    let text = clean::block(text.trim_end());
    let start = safe_text::start(&text, MAX_LINE_BYTES);
    if start.len() == text.len() { text.into_owned() } else { format!("{start}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_order_with_controls_escaped() {
        let mut trace = TraceBuffer::default();
        assert_eq!(trace.push("[coder] cmd: ls → exit 0\n  a\tb\n"), ["[coder] cmd: ls → exit 0", "  a\tb"]);
        assert_eq!(trace.push("[coder] agent: \u{1b}[2Jdone\r"), ["[coder] agent: \\u{1b}[2Jdone"]);
        assert_eq!(trace.take(), ["[coder] cmd: ls → exit 0", "  a\tb", "[coder] agent: \\u{1b}[2Jdone"]);
        assert!(trace.take().is_empty());
    }

    #[test]
    fn the_middle_of_a_long_trace_is_dropped() {
        let mut trace = TraceBuffer::default();
        let mut logged = Vec::new();
        for at in 0..5_000 {
            logged.extend(trace.push(&format!("[coder] tool: read {at} → ok")));
        }
        assert!(logged.iter().map(|line| line.len() + 1).sum::<usize>() <= MAX_LOGGED_BYTES + 100);
        assert!(logged.last().unwrap().contains("more than is logged"), "{logged:?}");
        assert!(logged[logged.len() - 2].contains("tool: read"));
        trace.push(&"x".repeat(100_000));
        let lines = trace.take();
        assert_eq!(lines[0], "[coder] tool: read 0 → ok");
        assert!(lines.last().unwrap().starts_with("xxx") && lines.last().unwrap().len() < MAX_LINE_BYTES + 8);
        let note = lines.iter().position(|line| line.contains("left out here")).unwrap();
        let left_out: usize = lines[note].split(' ').find_map(|word| word.parse().ok()).unwrap();
        assert_eq!(left_out + lines.len() - 1, 5_001);
        assert!(lines.iter().map(|line| line.len() + 1).sum::<usize>() <= 2 * HALF_BYTES + 64);
        assert_eq!(checked(&lines).len(), lines.len());
    }
}
