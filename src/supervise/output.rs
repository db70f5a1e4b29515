//! The output of a supervised process, on its way into the log.
//!
//! It is read as fast as it arrives, even if the disk is slow or full: a process must never block or die because its
//! log can't be written.

use std::collections::VecDeque;
use std::io::{PipeReader, Read as _};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::home::log::Log;

/// The output of one process.
#[derive(Debug)]
pub(crate) struct ProcessOutput {
    tail: Arc<Mutex<Tail>>,
    ended: Option<oneshot::Receiver<()>>,
}

impl ProcessOutput {
    /// Reads `pipe` to its end and writes it to `log`, on two threads.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread can't be started.
    pub(crate) fn follow(mut pipe: PipeReader, mut log: Log) -> std::io::Result<Self> {
        let (to_disk, lines): (SyncSender<Vec<u8>>, Receiver<Vec<u8>>) = sync_channel(QUEUED_BATCHES);
        let (end, ended) = oneshot::channel();
        let tail = Arc::new(Mutex::new(Tail::default()));
        thread::Builder::new().name("log-write".to_owned()).spawn(move || {
            for batch in lines {
                // There is no place to report this: the log itself can't be written.
                let _ = log.append(&batch);
            }
        })?;
        let kept = Arc::clone(&tail);
        thread::Builder::new().name("log-read".to_owned()).spawn(move || {
            let mut lines = LineBuffer::default();
            let mut lost: u64 = 0;
            let mut piece = vec![0; 16 << 10];
            loop {
                let read = match pipe.read(&mut piece) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(_) => break,
                };
                let mut batch = lines.feed(&piece[..read]);
                if batch.is_empty() {
                    continue;
                }
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(&batch);
                if lost > 0 {
                    let mut note =
                        format!("[{lost} bytes were lost: the log could not keep up]\n").into_bytes();
                    note.append(&mut batch);
                    batch = note;
                }
                // Never wait for the disk here. ProcessOutput that does not fit into the queue is counted and dropped.
                match to_disk.try_send(batch) {
                    Ok(()) => lost = 0,
                    Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                        lost += batch.len() as u64;
                    }
                }
            }
            let rest = lines.finish();
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(&rest);
            let _ = to_disk.try_send(rest);
            let _ = end.send(());
        })?;
        Ok(Self { tail, ended: Some(ended) })
    }

    /// Waits until all output has been read.
    pub(crate) async fn ended(&mut self) {
        if let Some(ended) = self.ended.take() {
            let _ = ended.await;
        }
    }

    /// Returns the last line for which `tells` is `true`, or else the last line of all.
    #[must_use]
    pub(crate) fn last_words(&self, tells: fn(&str) -> bool) -> Option<String> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).last_words(tells)
    }
}

/// The number of batches that may wait for the disk. Each is at most 16 KiB and one line long.
const QUEUED_BATCHES: usize = 128;
/// The longest line that is kept, in bytes.
const MAX_LINE: usize = 16 << 10;

/// A splitter of output into complete lines, which shortens lines beyond [`MAX_LINE`].
#[derive(Debug, Default)]
struct LineBuffer {
    line: Vec<u8>,
    cut: u64,
}

impl LineBuffer {
    /// Returns the lines that are complete now, each with its `\n`.
    fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut whole = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let room = MAX_LINE - self.line.len();
            let kept = text.len().min(room);
            self.line.extend_from_slice(&text[..kept]);
            self.cut += (text.len() - kept) as u64;
            if ends {
                whole.append(&mut self.take());
            }
        }
        whole
    }

    /// Returns the output after the last `\n`.
    fn finish(&mut self) -> Vec<u8> {
        if self.line.is_empty() { Vec::new() } else { self.take() }
    }

    fn take(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.line);
        if self.cut > 0 {
            line.extend_from_slice(format!(" [{} bytes cut]", self.cut).as_bytes());
            self.cut = 0;
        }
        line.push(b'\n');
        line
    }
}

/// The last few lines of output.
#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    fn push(&mut self, batch: &[u8]) {
        let batch = String::from_utf8_lossy(batch);
        let lines: Vec<&str> = batch.lines().filter(|line| !line.trim().is_empty()).collect();
        // Only the last lines of a large batch can stay.
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            if self.lines.len() == TAIL_LINES {
                self.lines.pop_front();
            }
            // The line will be shown on a terminal, so control characters are replaced.
            let clean = line.chars().map(|c| if c.is_control() { ' ' } else { c });
            self.lines.push_back(clean.take(TAIL_LINE_CHARS).collect());
        }
    }

    fn last_words(&self, tells: fn(&str) -> bool) -> Option<String> {
        self.lines.iter().rev().find(|line| tells(line)).or(self.lines.back()).cloned()
    }
}

/// The number of lines kept, and the number of characters of each.
const TAIL_LINES: usize = 20;
const TAIL_LINE_CHARS: usize = 300;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::home::log::RotationLimits;
    use crate::supervise::exit_reason::ExitRules;

    #[test]
    fn lines_are_whole_and_bounded() {
        let mut lines = LineBuffer::default();
        assert_eq!(lines.feed(b"a\nb"), b"a\n");
        assert_eq!(lines.feed(b"c\n\nd"), b"bc\n\n");
        assert_eq!(lines.finish(), b"d\n");
        assert_eq!(lines.finish(), b"");
        let long = lines.feed(&[b"x".repeat(100_000), b"\nnext\n".to_vec()].concat());
        assert!(long.ends_with(b" [83616 bytes cut]\nnext\n"));
        assert!(long.len() < MAX_LINE + 100);
    }

    #[test]
    fn the_explaining_line_is_found() {
        let mut tail = Tail::default();
        tail.push(b"starting\nerror: port 3779 is taken\n\nhint: stop it\n");
        assert_eq!(tail.last_words(ExitRules::FLOCK.tells).as_deref(), Some("error: port 3779 is taken"));
        tail.push("x\n".repeat(100).as_bytes());
        assert_eq!(tail.last_words(ExitRules::FLOCK.tells).as_deref(), Some("x"));
        assert_eq!(tail.lines.len(), TAIL_LINES);
        assert_eq!(Tail::default().last_words(ExitRules::FLOCK.tells), None);
    }

    #[tokio::test]
    async fn output_is_read_to_the_end_even_where_it_can_not_be_written() {
        let (pipe, mut writer) = std::io::pipe().unwrap();
        let log = Log::new("/nonexistent/a.log".into(), RotationLimits::default());
        let mut output = ProcessOutput::follow(pipe, log).unwrap();
        let writing = thread::spawn(move || {
            for _ in 0..1_000 {
                writer.write_all(&[b'y'; 1024]).unwrap();
                writer.write_all(b"\n").unwrap();
            }
            writer.write_all(b"error: the end").unwrap();
        });
        output.ended().await;
        writing.join().unwrap();
        assert_eq!(output.last_words(ExitRules::FLOCK.tells).as_deref(), Some("error: the end"));
    }
}
