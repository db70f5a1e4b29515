//! The body of a request as a stream that a blocking thread reads, with limits on its size and on the time between two
//! pieces.

use std::io::{self, Read};
use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

/// A body that is being read.
pub(super) struct BodyStream {
    pieces: Pieces,
    limit: u64,
    is_gzip: bool,
}

impl BodyStream {
    /// Returns the bytes of the body. Reading them blocks, and so does this, because the head of a compressed body is read
    /// at once.
    pub fn reader(self) -> Box<dyn Read + Send> {
        // What a compressed body becomes is limited again, because it can be a thousand times as much.
        if self.is_gzip {
            Box::new(GzDecoder::new(self.pieces).take(self.limit))
        } else {
            Box::new(self.pieces)
        }
    }
}

/// Starts to read a body.
///
/// The task ends when the body ends, when a limit is exceeded, or when the stream is dropped.
pub(super) fn stream<B>(mut body: B, limit: u64, is_gzip: bool) -> BodyStream
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::fmt::Display + Send,
{
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(PIECES);
    tokio::spawn(async move {
        let mut total = 0u64;
        let whole = tokio::time::Instant::now() + MAX_TIME;
        loop {
            let until = whole.min(tokio::time::Instant::now() + MAX_SILENCE);
            let piece = match tokio::time::timeout_at(until, body.frame()).await {
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long to arrive")),
                Ok(None) => return,
                Ok(Some(Err(error))) => {
                    Err(io::Error::new(io::ErrorKind::ConnectionAborted, format!("it broke off: {error}")))
                }
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Ok(data),
                    Err(_) => continue,
                },
            };
            total += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            let piece = if total > limit {
                Err(io::Error::other(format!("it has more than {} MiB", limit >> 20)))
            } else {
                piece
            };
            let is_last = piece.is_err();
            if sender.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    let pieces = Pieces { receiver, piece: Bytes::new(), is_broken: false };
    BodyStream { pieces, limit, is_gzip }
}

/// The pieces of a body, read in a blocking thread.
struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    piece: Bytes,
    is_broken: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            if self.is_broken {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match self.receiver.blocking_recv() {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(error)) => {
                    self.is_broken = true;
                    return Err(error);
                }
                None => return Ok(0),
            }
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// Number of pieces that wait for the reader.
const PIECES: usize = 8;
/// Longest time between two pieces.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Longest time for a whole body.
const MAX_TIME: Duration = Duration::from_secs(15 * 60);
