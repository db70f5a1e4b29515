//! The meaning of S3's answers. Pure.

use std::ops::Range;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::xml::{self, Piece};
use crate::blob::{BlobFacts, BlobKey, BlobPage};
use crate::clean;

/// A complete answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The use of another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The same request would have the same answer.
    Final,
    /// The same request may succeed.
    Again,
}

/// The most characters of an error that are shown.
const MAX_PROBLEM: usize = 300;

impl Answer {
    /// Decides if the request is worth another attempt.
    pub(super) fn verdict(&self) -> Verdict {
        let is_passing = match self.status.as_u16() {
            408 | 425 | 429 | 500 | 502 | 503 | 504 => true,
            // Two writers came at the same moment, and one of them has to come again.
            409 => matches!(self.code().as_deref(), Some("ConditionalRequestConflict" | "OperationAborted")),
            // The body was changed or broke off on its way.
            400 => matches!(
                self.code().as_deref(),
                Some("BadDigest" | "IncompleteBody" | "RequestTimeout" | "XAmzContentSHA256Mismatch")
            ),
            _ => false,
        };
        if is_passing { Verdict::Again } else { Verdict::Final }
    }

    /// Returns the code of an error, such as `NoSuchKey`.
    pub(super) fn code(&self) -> Option<String> {
        self.error_text("Error/Code")
    }

    fn error_text(&self, wanted: &str) -> Option<String> {
        if self.status.is_success() {
            return None;
        }
        let pieces = xml::pieces(std::str::from_utf8(&self.body).ok()?)?;
        pieces.into_iter().find_map(|piece| match piece {
            Piece::Text(path, text) if path == wanted => Some(text),
            _ => None,
        })
    }

    /// Returns what the server says about an error, in one line.
    pub(super) fn problem(&self) -> String {
        let status = self.status.as_u16();
        let (code, message) = (self.code(), self.error_text("Error/Message"));
        let text = match (code, message) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(text), None) | (None, Some(text)) => text,
            (None, None) => String::new(),
        };
        let text = clean::summary(&text, MAX_PROBLEM);
        if text.is_empty() {
            format!("it answered {status}")
        } else {
            format!("it answered {status}, {text}")
        }
    }

    /// Returns the requested range of bytes, or the reason if the answer is another one.
    pub(super) fn range(self, range: &Range<u64>) -> Result<Bytes, String> {
        let wanted = range.end - range.start;
        if self.status != StatusCode::PARTIAL_CONTENT {
            // A server that does not know about ranges sends all of it.
            let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
            return match (start, end) {
                (Ok(start), Ok(end)) if end <= self.body.len() => Ok(self.body.slice(start..end)),
                _ => Err(format!("it has {} bytes", self.body.len())),
            };
        }
        let told = self.headers.get("content-range").and_then(|told| told.to_str().ok()).unwrap_or_default();
        let expected = format!("bytes {}-{}/", range.start, range.end - 1);
        if told.starts_with(&expected) && self.body.len() as u64 == wanted {
            Ok(self.body)
        } else {
            Err(format!(
                "its bytes {}-{} are not there: the server sent {told:?}",
                range.start,
                range.end - 1
            ))
        }
    }

    /// Returns the facts of an answer to HEAD.
    pub(super) fn facts(&self) -> Option<BlobFacts> {
        let text = |name: &str| self.headers.get(name)?.to_str().ok();
        let size = text("content-length")?.parse().ok()?;
        let at = text("last-modified").and_then(|at| jiff::fmt::rfc2822::parse(at).ok());
        Some(BlobFacts { size, at: at.map_or(0, |at| at.timestamp().as_millisecond()) })
    }

    /// Reads a page of a list. `own` is the beginning of all keys of the store. Returns `None` if the answer is no list.
    ///
    /// A blob whose time the server does not tell counts as written `now`: what may be new must not be deleted as old.
    pub(super) fn page(&self, own: &str, now: i64) -> Option<BlobPage> {
        let pieces = xml::pieces(std::str::from_utf8(&self.body).ok()?)?;
        let mut page = BlobPage::default();
        let (mut key, mut size, mut at) = (None, None, None);
        let (mut is_truncated, mut last, mut is_list) = (false, None, false);
        for piece in pieces {
            match piece {
                Piece::Text(path, text) => match path.as_str() {
                    "ListBucketResult/IsTruncated" => is_truncated = text.trim() == "true",
                    "ListBucketResult/Contents/Key" => key = Some(text),
                    "ListBucketResult/Contents/Size" => size = text.trim().parse().ok(),
                    "ListBucketResult/Contents/LastModified" => {
                        at = text.trim().parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
                    }
                    _ => {}
                },
                Piece::End(path) if path == "ListBucketResult/Contents" => {
                    let whole = key.take()?;
                    let own_key = whole.strip_prefix(own)?;
                    // A key of another form was put there by somebody else.
                    if let (Ok(key), Some(size)) = (own_key.parse::<BlobKey>(), size.take()) {
                        page.blobs.push((key, BlobFacts { size, at: at.unwrap_or(now) }));
                    }
                    last = Some(own_key.to_owned());
                    at = None;
                }
                Piece::End(path) => is_list |= path == "ListBucketResult",
            }
        }
        // A list that goes on and does not say where can't be read.
        page.next = if is_truncated { Some(last?) } else { None };
        is_list.then_some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer { status, headers: HeaderMap::new(), body: body.to_owned().into() }
    }

    #[test]
    fn an_error_says_its_code_and_if_another_attempt_helps() {
        let error =
            |code: &str| format!("<Error><Code>{code}</Code><Message>no &lt;way&gt;</Message></Error>");
        for (status, code, verdict) in [
            (403, "SignatureDoesNotMatch", Verdict::Final),
            (404, "NoSuchKey", Verdict::Final),
            (412, "PreconditionFailed", Verdict::Final),
            (409, "BucketAlreadyExists", Verdict::Final),
            (409, "ConditionalRequestConflict", Verdict::Again),
            (400, "InvalidArgument", Verdict::Final),
            (400, "XAmzContentSHA256Mismatch", Verdict::Again),
            (503, "SlowDown", Verdict::Again),
            (500, "InternalError", Verdict::Again),
        ] {
            let answer = answer(status, &error(code));
            assert_eq!((answer.code().as_deref(), answer.verdict()), (Some(code), verdict), "{status}");
            assert_eq!(answer.problem(), format!("it answered {status}, {code}: no <way>"));
        }
        assert_eq!(answer(502, "<html>Bad Gateway").problem(), "it answered 502");
    }

    #[test]
    fn a_page_has_flocks_keys_and_the_place_where_the_next_one_begins() {
        let entry = |key: &str| {
            format!(
                "<Contents><Key>p/{key}</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified><Size>7</Size></Contents>"
            )
        };
        let list = |truncated: bool, entries: &str| {
            format!("<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{entries}</ListBucketResult>")
        };
        let found = answer(200, &list(true, &[entry("a/b"), entry("a b")].concat())).page("p/", 9).unwrap();
        let facts = BlobFacts { size: 7, at: 1_255_369_830_000 };
        assert_eq!(found.blobs, [("a/b".parse().unwrap(), facts)]);
        assert_eq!(found.next.as_deref(), Some("a b"), "a foreign key counts for the place");
        for untold in ["", "<LastModified>soon</LastModified>"] {
            let other = format!("<Contents><Key>p/c</Key>{untold}<Size>7</Size></Contents>");
            let found = answer(200, &list(false, &[entry("a/b"), other].concat())).page("p/", 9).unwrap();
            let times: Vec<i64> = found.blobs.iter().map(|(_, facts)| facts.at).collect();
            assert_eq!(times, [facts.at, 9], "a time that is not told is not that of the blob before");
        }
        assert_eq!(answer(200, &list(false, "")).page("p/", 9), Some(BlobPage::default()));
        assert_eq!(answer(200, &list(true, "")).page("p/", 9), None, "it would never end");
        assert_eq!(answer(200, &list(false, &entry("a"))).page("q/", 9), None, "another prefix");
        assert_eq!(answer(200, "<html><p>x</p></html>").page("", 9), None);
        assert_eq!(answer(200, "hello").page("", 9), None);
    }

    #[test]
    fn a_range_is_what_was_asked_for() {
        let mut part = answer(206, "ell");
        part.headers.insert("content-range", "bytes 1-3/5".parse().unwrap());
        assert_eq!(part.range(&(1..4)).unwrap(), "ell");
        let mut other = answer(206, "ell");
        other.headers.insert("content-range", "bytes 0-2/5".parse().unwrap());
        assert!(other.range(&(1..4)).is_err());
        assert_eq!(answer(200, "hello").range(&(1..4)).unwrap(), "ell");
        assert_eq!(answer(200, "he").range(&(1..4)).unwrap_err(), "it has 2 bytes");
    }
}
