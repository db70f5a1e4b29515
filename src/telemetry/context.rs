//! The identity of a span, as it is passed between programs (W3C Trace Context).

use std::fmt::Write as _;
use std::sync::Arc;

/// The header, and the key of MCP's `_meta`, that names the caller's span.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The header, and the key of MCP's `_meta`, with what other tracing systems add to a trace.
pub(crate) const TRACESTATE: &str = "tracestate";

/// Flag of a trace that is recorded.
const SAMPLED: u8 = 0x01;
/// The flags that are passed on: that the trace is recorded, and that its id is random.
const KNOWN_FLAGS: u8 = 0x03;

/// Longest `tracestate` that is passed on, in bytes. Longer ones may be dropped, by the specification.
const MAX_STATE: usize = 512;

/// A span of a trace: of flock or of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
    is_remote: bool,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Returns the first span of a new trace.
    #[must_use]
    pub(crate) fn root() -> Self {
        Self { trace: id(), span: id(), flags: SAMPLED, is_remote: false, state: None }
    }

    /// Returns a new span below this one.
    #[must_use]
    pub(crate) fn child(&self) -> Self {
        Self { span: id(), is_remote: false, ..self.clone() }
    }

    /// Reads the headers of a caller. A `tracestate` that is not valid is dropped alone, as the specification asks.
    ///
    /// Returns `None` if `traceparent` is not valid.
    #[must_use]
    pub(crate) fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let text = traceparent.trim();
        let mut parts = text.split('-');
        let version: [u8; 1] = unhex(parts.next()?)?;
        let trace: [u8; 16] = unhex(parts.next()?)?;
        let span: [u8; 8] = unhex(parts.next()?)?;
        let [flags]: [u8; 1] = unhex(parts.next()?)?;
        // Version 0 has four parts; a later one may have more, which are not understood here.
        let is_complete = version != [0] || parts.next().is_none();
        if version == [0xff] || trace == [0; 16] || span == [0; 8] || !is_complete {
            return None;
        }
        let state = tracestate.map(str::trim).filter(|state| is_state(state)).map(Arc::from);
        Some(Self { trace, span, flags: flags & KNOWN_FLAGS, is_remote: true, state })
    }

    /// Returns the value of `traceparent` for a call that this span makes.
    #[must_use]
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", hex(&self.trace), hex(&self.span), self.flags)
    }

    /// Returns the value of `tracestate` for a call that this span makes.
    #[must_use]
    pub(crate) fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns `true` if the spans of the trace are recorded. A caller decides this for its trace.
    #[must_use]
    pub(crate) const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns `true` if the span is a caller's.
    #[must_use]
    pub(crate) const fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(super) const fn trace_id(&self) -> &[u8; 16] {
        &self.trace
    }

    pub(super) const fn span_id(&self) -> &[u8; 8] {
        &self.span
    }

    pub(super) const fn flags(&self) -> u8 {
        self.flags
    }
}

/// Returns a random id, which must not be zero.
fn id<const N: usize>() -> [u8; N] {
    let mut id: [u8; N] = std::array::from_fn(|_| rand::random());
    if id.iter().all(|byte| *byte == 0) {
        id[N - 1] = 1;
    }
    id
}

/// Returns bytes from lower-case hexadecimal digits.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        // The specification forbids upper case.
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing into a text can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns `true` if a `tracestate` can be passed on: members `key=value` of printable characters, and not too long.
fn is_state(state: &str) -> bool {
    let is_member = |member: &str| {
        let member = member.trim();
        member.is_empty()
            || member.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
    };
    !state.is_empty()
        && state.len() <= MAX_STATE
        && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && state.split(',').count() <= 32
        && state.split(',').all(is_member)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_callers_context_is_read_and_passed_on() {
        let caller = TraceContext::parse(PARENT, Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")).unwrap();
        assert!(caller.is_sampled() && caller.is_remote());
        assert_eq!(caller.traceparent(), PARENT);
        let child = caller.child();
        assert!(child.is_sampled() && !child.is_remote());
        assert_eq!(child.trace_id(), caller.trace_id());
        assert_ne!(child.span_id(), caller.span_id());
        assert_eq!(child.tracestate(), Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
        assert_eq!(TraceContext::parse(&child.traceparent(), None).unwrap().span_id(), child.span_id());
        let unsampled = TraceContext::parse(&PARENT.replace("-01", "-00"), None).unwrap();
        assert!(!unsampled.is_sampled() && !unsampled.child().is_sampled());
        // A later version may have more parts, and flags that mean nothing yet.
        let later = TraceContext::parse(&format!("{}-more", PARENT.replace("00-4b", "cc-4b")), None).unwrap();
        assert!(later.is_sampled());
    }

    #[test]
    fn a_wrong_context_is_no_context() {
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        ] {
            assert_eq!(TraceContext::parse(wrong, None), None, "{wrong}");
        }
        for wrong in ["", "a", "=b", "a=", "a=\u{1b}", "ä=b", &format!("a={}", "x".repeat(600))] {
            assert_eq!(TraceContext::parse(PARENT, Some(wrong)).unwrap().tracestate(), None, "{wrong}");
        }
    }

    #[test]
    fn roots_are_different_traces() {
        let (one, other) = (TraceContext::root(), TraceContext::root());
        assert_ne!(one.trace_id(), other.trace_id());
        assert!(one.is_sampled() && !one.is_remote());
    }
}
