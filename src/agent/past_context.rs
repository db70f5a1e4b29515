//! The conversation of a turn before its input: read, or behind a beginning that was kept from an earlier request.

use std::sync::Arc;

use super::ask::{asks_to_think, target};
use super::context::Context;
use super::estimate::Images;
use super::line::Line;
use super::past;
use super::prefix_cache::{self, FEWEST, LARGEST, Place, Prefix, Way};
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
                return Ok(Past { context: context.behind(prefix), ends });
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
        // All of it, whatever room there is by now: what goes for want of room is to be told of in the compaction.
        let read = past::before(&running.transcript, prefix, Images::of(&line.resolved))?;
        context.unfold(read);
        Ok(())
    }

    /// Keeps for the next turn what this one was asked with: what was said before it. That nothing can be kept is no
    /// failure of the turn.
    pub(super) async fn keep_prefix(
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
        let before = context.prefix().cloned();
        let end = match before {
            Some(_) => count.checked_sub(1).and_then(|last| ends.get(last)),
            None => ends.last().filter(|_| count >= FEWEST && count == entries.len()),
        };
        let tokens = costs[..count].iter().sum::<u64>();
        // A token is about four bytes. What has become too long stays as it was kept, and the rest is read.
        let size = before.as_ref().map_or(0, |before| before.body.size() as u64) + 4 * tokens;
        let Some(end) = end.copied().filter(|_| size <= LARGEST as u64) else { return };
        let Ok(Some(at)) = Place::of(running.transcript.file(), end) else { return };
        let tokens = tokens + before.as_ref().map_or(0, |before| before.tokens);
        let entries: Vec<Entry> = entries[..count].iter().copied().cloned().collect();
        let target = target(&line.resolved, asked, &line.told, 0);
        let request = Request { messages: Vec::new(), prefix: None, ..asked.clone() };
        let provider = Arc::clone(&line.resolved.provider);
        let prefix = move || {
            let request = Request { messages: prefix_cache::ready(entries, &target)?, ..request };
            let body = match before {
                Some(before) => before.body.extended(&*provider, &request),
                None => BodyPrefix::new(&*provider, &request),
            };
            Some(Prefix { body: Arc::new(body?), tokens, way, at })
        };
        // All of a long conversation gets a thread of its own, so that no other turn waits.
        let prefix = match context.prefix() {
            Some(_) => prefix(),
            None => tokio::task::spawn_blocking(prefix).await.unwrap_or_default(),
        };
        if let Some(prefix) = prefix {
            self.engine.prefixes.keep(&self.context.session, prefix);
        }
    }
}

/// The way that this request goes; `None` where its texts are written in another way for a model without calls.
fn way(line: &Line, asked: &Request) -> Option<Way> {
    (line.told.calls == Calls::Native).then(|| Way {
        route: line.resolved.route.clone(),
        reasoning: line.resolved.reasoning,
        thinking: asks_to_think(asked),
    })
}
