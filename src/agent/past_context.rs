//! The conversation of a turn before its input: read, or behind a beginning that was kept from an earlier request.

use super::ask::target;
use super::context::Context;
use super::estimate::Images;
use super::line::Line;
use super::past;
use super::prefix_cache::{self, FEWEST, Place, Prefix, Way};
use super::prompt::Calls;
use super::running::Running;
use super::steps::Course;
use super::transcript::{Entry, Recent};
use super::turn::TurnError;
use crate::provider::{BodyPrefix, Request};

/// What was said before a turn.
pub(super) struct Past {
    pub(super) context: Context,
    /// Where in the transcript each message of the context ends, where it is behind a beginning that was kept; else only
    /// where the last one does.
    pub(super) ends: Vec<u64>,
}

impl Course<'_> {
    /// Loads it for this model.
    pub(super) fn past(
        &self,
        line: &Line,
        asked: &Request,
        room: u64,
        running: &mut Running,
    ) -> Result<Past, TurnError> {
        let images = Images::of(&line.resolved);
        let zone = &self.engine.zone;
        let kept = way(line, asked).and_then(|way| self.engine.prefixes.get(&self.context.session, &way));
        if let Some(prefix) = kept {
            if let Some(since) = past::since(&running.transcript, &prefix)? {
                let (messages, ends) = since.into_iter().unzip();
                let context = Context::new(room, images, zone, Recent { messages, ..Recent::default() });
                return Ok(Past { context: context.behind(Some(prefix)), ends });
            }
            self.engine.prefixes.forget(&self.context.session);
        }
        let read = past::load(&mut running.transcript, line.reach(room), images)?;
        let ends = vec![running.transcript.length()];
        Ok(Past { context: Context::new(room, images, zone, read), ends })
    }

    /// Reads the beginning that was kept, where the conversation is behind one.
    pub(super) fn unfold(
        &self,
        line: &Line,
        context: &mut Context,
        running: &Running,
    ) -> Result<(), TurnError> {
        let Some(prefix) = context.prefix() else { return Ok(()) };
        let images = Images::of(&line.resolved);
        let read = past::before(&running.transcript, prefix, line.reach(context.room()), images)?;
        context.unfold(read);
        Ok(())
    }

    /// Keeps for the next turn what this one was asked with: what was said before it. That nothing can be kept is no
    /// failure of the turn.
    pub(super) fn keep_prefix(
        &self,
        line: &Line,
        asked: &Request,
        context: &Context,
        ends: &[u64],
        running: &Running,
    ) {
        let Some(way) = way(line, asked) else { return };
        let (entries, costs): (Vec<&Entry>, Vec<u64>) = context.earlier().into_iter().unzip();
        let count = prefix_cache::plain(&entries);
        let before = context.prefix();
        let end = match before {
            Some(_) => count.checked_sub(1).and_then(|last| ends.get(last)),
            None => ends.last().filter(|_| count >= FEWEST && count == entries.len()),
        };
        let Some(end) = end.copied() else { return };
        let Ok(Some(at)) = Place::of(running.transcript.file(), end) else { return };
        let target = target(&line.resolved, asked, &line.told, 0);
        let Ok(messages) = prefix_cache::ready(&entries[..count], &target) else { return };
        let request = Request { messages, prefix: None, ..asked.clone() };
        let provider = &*line.resolved.provider;
        let body = match before {
            Some(before) => before.body.extended(provider, &request),
            None => BodyPrefix::new(provider, &request),
        };
        let Some(body) = body else { return };
        let tokens = before.map_or(0, |before| before.tokens) + costs[..count].iter().sum::<u64>();
        self.engine.prefixes.keep(&self.context.session, Prefix { body: body.into(), tokens, way, at });
    }
}

/// The way that this request goes; `None` where its texts are written in another way for a model without calls.
fn way(line: &Line, asked: &Request) -> Option<Way> {
    (line.told.calls == Calls::Native).then(|| {
        let target = target(&line.resolved, asked, &line.told, 0);
        Way { route: target.route, reasoning: target.reasoning, thinking: target.thinking }
    })
}
