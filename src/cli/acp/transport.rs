//! The lines of the protocol: one JSON-RPC message each, from stdin and to stdout.

use std::io::{BufRead, Read as _};
use std::sync::Arc;

use futures_util::{Sink, Stream, sink, stream};
use tokio::sync::mpsc;

use super::host::Host;

/// Longest line that is read, in bytes. It is more than the gateway takes in one request, pictures included.
const MAX_LINE: u64 = 12 << 20;

/// The text that stands in the place of a line that is too long. It is no JSON, so it is answered with an error.
const TOO_LONG: &str = "flock: this line was longer than 12 MiB and was not read";

/// Number of lines that wait for stdout.
const UNWRITTEN: usize = 64;

/// Returns the lines of stdin. The stream ends with stdin.
///
/// The thread is not joined at the end: it blocks in a read that only the editor can end.
pub(super) fn stdin_lines(host: Arc<Host>) -> impl Stream<Item = std::io::Result<String>> + Send {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        read_lines(std::io::stdin().lock(), MAX_LINE, |line| sender.blocking_send(line).is_ok());
    });
    stream::unfold((receiver, host), |(mut receiver, host)| async move {
        // An editor that asks faster than it is answered is not read any further.
        host.has_room().await;
        let line = receiver.recv().await?;
        Some((Ok(line), (receiver, host)))
    })
}

/// Gives each line that is not empty to `take`, until the end, an error, or until `take` returns `false`.
fn read_lines(mut input: impl BufRead, limit: u64, mut take: impl FnMut(String) -> bool) {
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut input).take(limit + 1);
        match bounded.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = if line.len() as u64 > limit && !line.ends_with(b"\n") {
            if input.skip_until(b'\n').is_err() {
                return;
            }
            TOO_LONG.to_owned()
        } else {
            String::from_utf8_lossy(&line).trim().to_owned()
        };
        if !text.is_empty() && !take(text) {
            return;
        }
    }
}

/// Returns a sink whose lines are written to stdout by a thread of its own, so that an editor that does not read holds up
/// neither its own cancellations nor the end of stdin.
pub(super) fn stdout_lines(host: Arc<Host>) -> impl Sink<String, Error = std::io::Error> + Send {
    let (sender, mut receiver) = mpsc::channel::<String>(UNWRITTEN);
    std::thread::spawn(move || {
        while let Some(mut line) = receiver.blocking_recv() {
            line.push('\n');
            host.context.printer.raw(line.as_bytes());
            if is_update(&line) {
                host.gauge.written();
            }
            if host.context.printer.closed() {
                return;
            }
        }
        host.gauge.finished();
    });
    sink::unfold(sender, |sender, line: String| async move {
        let closed = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        sender.send(line).await.map_err(closed)?;
        Ok(sender)
    })
}

/// Returns `true` for a line that [`Outlet::update`](super::outlet::Outlet::update) has counted.
fn is_update(line: &str) -> bool {
    let head = &line.as_bytes()[..line.len().min(METHOD_ENDS)];
    memchr::memmem::find(head, br#""session/update""#).is_some()
}

/// Number of bytes within which the method of a message stands.
const METHOD_ENDS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], limit: u64) -> Vec<String> {
        let mut found = Vec::new();
        read_lines(input, limit, |line| {
            found.push(line);
            true
        });
        found
    }

    #[test]
    fn lines_are_bounded_and_what_follows_a_long_one_is_read() {
        assert_eq!(lines(b"{}\n\n  \r\n[1]", 100), ["{}", "[1]"]);
        assert_eq!(lines(b"0123456789\n{}\n", 5), [TOO_LONG, "{}"]);
        assert_eq!(lines(b"01234\n{}\n", 5), ["01234", "{}"], "the newline does not count");
        assert_eq!(lines(b"0123456789", 5), [TOO_LONG], "also without a newline at the end");
        assert_eq!(lines(b"\xff{\n", 100), ["\u{fffd}{"]);
        assert!(serde_json::from_str::<serde_json::Value>(TOO_LONG).is_err());
    }
}
