//! The spans that wait to be sent. Bounded: a collector that does not answer costs no more memory than this.

use std::collections::VecDeque;

use super::span::Span;

/// Number of spans that wait at most.
const MAX_SPANS: usize = 8_192;
/// Bytes that they take at most. Without contents, the number is reached first.
const MAX_BYTES: usize = 16 << 20;

/// The spans that wait, oldest first.
#[derive(Debug, Default)]
pub(super) struct SpanQueue {
    spans: VecDeque<Span>,
    bytes: usize,
}

impl SpanQueue {
    /// Adds a span. Returns `false` if there is no room: then the new span is dropped, so that what waits stays whole.
    pub(super) fn push(&mut self, span: Span) -> bool {
        let size = span.size();
        if self.spans.len() >= MAX_SPANS || self.bytes.saturating_add(size) > MAX_BYTES {
            return false;
        }
        self.bytes += size;
        self.spans.push_back(span);
        true
    }

    /// Takes the oldest spans, within both limits and at least one if there is any.
    pub(super) fn take(&mut self, most: usize, bytes: usize) -> Vec<Span> {
        let mut taken = Vec::new();
        let mut size = 0;
        while taken.len() < most
            && let Some(next) = self.spans.front().map(Span::size)
            && (taken.is_empty() || size + next <= bytes)
            && let Some(span) = self.spans.pop_front()
        {
            size += next;
            self.bytes = self.bytes.saturating_sub(next);
            taken.push(span);
        }
        taken
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Removes all spans and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let left = self.spans.len();
        *self = Self::default();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::TraceContext;
    use super::super::span::{SpanKind, Value};
    use super::*;

    fn span(name: &str, content: usize) -> Span {
        Span {
            context: TraceContext::root(),
            parent: None,
            name: name.to_owned(),
            kind: SpanKind::Internal,
            began: 0,
            ended: 0,
            attributes: vec![("x", Value::Content("x".repeat(content)))],
            links: Vec::new(),
            failure: None,
        }
    }

    #[test]
    fn a_full_queue_keeps_what_waits_and_drops_what_comes() {
        let mut queue = SpanQueue::default();
        let taken = (0..MAX_SPANS + 100).filter(|at| queue.push(span(&at.to_string(), 0))).count();
        assert_eq!((taken, queue.len()), (MAX_SPANS, MAX_SPANS));
        assert_eq!(queue.take(1, usize::MAX)[0].name, "0");
        assert!(queue.push(span("new", 0)) && !queue.push(span("newer", 0)));
    }

    #[test]
    fn large_contents_fill_the_queue_by_their_bytes() {
        let mut queue = SpanQueue::default();
        let taken = (0..100).filter(|_| queue.push(span("large", 1 << 20))).count();
        assert_eq!(taken, 15);
        assert_eq!(queue.take(100, 3 << 20).len(), 2);
        // A single span above the limit is taken all the same, or it would stay for ever.
        assert_eq!(queue.take(100, 1).len(), 1);
        assert_eq!(queue.clear(), 12);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }
}
