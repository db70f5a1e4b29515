//! The span of a post, below which the turns that it wakes begin.

use super::Swarm;
use crate::id::Party;
use crate::store::{CommittedPost, NewPost};
use crate::telemetry::{self, Cause, OpenSpan, SpanKind, bounded};

impl Swarm {
    /// Begins the span of a post, if telemetry is on. Notices of flock itself have none, unless they wake somebody.
    pub(super) fn begin_post(&self, new: &NewPost) -> Option<OpenSpan> {
        if new.author == Party::System && new.wake == crate::store::WakeUrgency::Nobody {
            return None;
        }
        // A post that comes over a bridge belongs to no request, and begins a trace.
        let current = telemetry::current().or_else(|| self.telemetry().enter(None))?;
        let mut span = current.begin(SpanKind::Producer, || format!("post {}", new.channel));
        span.set("messaging.system", "flock");
        span.set("messaging.operation.type", "send");
        span.set("messaging.destination.name", new.channel.to_string());
        span.set("flock.post.author", author_word(&new.author));
        if let Some(turn) = new.turn {
            span.set("flock.turn.id", turn.to_string());
        }
        span.content("flock.post.text", || bounded(&new.content));
        Some(span)
    }

    /// Ends the span of a post that is committed, before anybody is told of it.
    pub(super) fn end_post(&self, span: Option<OpenSpan>, posted: &CommittedPost) {
        let Some(mut span) = span else { return };
        span.set("messaging.message.id", posted.seq.to_string());
        if let Some(context) = span.current().context() {
            self.telemetry().note_cause(Cause::Post(posted.channel.clone(), posted.seq), context.clone());
        }
        span.end();
    }

    /// Notes that the running work gave an agent something for which its turn begins later.
    pub(crate) fn note_cause(&self, cause: Cause) {
        if let Some(current) = telemetry::current()
            && let Some(context) = current.context()
        {
            self.telemetry().note_cause(cause, context.clone());
        }
    }
}

/// Returns who wrote a post: an agent's id, or that it was a person. Names of people are no business of a collector.
fn author_word(author: &Party) -> String {
    match author {
        Party::Human(_) => "human".to_owned(),
        other => other.to_string(),
    }
}
