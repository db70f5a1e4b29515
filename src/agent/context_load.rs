//! Loads the conversation before a turn's input, either in full or behind a prefix that was cached from an earlier
//! request.

use std::sync::Arc;

use super::context::ConversationContext;
use super::estimate::ImageEstimate;
use super::history_load;
use super::model_call::{asks_to_think, target};
use super::model_chain::ModelChain;
use super::prefix_cache::{self, EncodingKey, FilePosition, LARGEST, MIN_MESSAGES, Prefix};
use super::prompt::ToolCallStyle;
use super::transcript::{Entry, RecentConversation};
use super::turn::TurnError;
use super::turn_loop::TurnLoop;
use super::turn_recorder::TurnRecorder;
use crate::provider::{BodyPrefix, Request};

/// The conversation before a turn's input.
pub(super) struct LoadedContext {
    pub(super) context: ConversationContext,
    /// Byte offset in the transcript at which each message of the context ends, if there is a cached prefix. Otherwise
    /// only the offset at which the last one ends.
    pub(super) ends: Vec<u64>,
}

impl TurnLoop<'_> {
    /// Loads the conversation for the turn's model.
    pub(super) fn past(
        &self,
        line: &ModelChain,
        asked: &Request,
        room: u64,
        running: &mut TurnRecorder,
    ) -> Result<LoadedContext, TurnError> {
        let images = ImageEstimate::of(&line.resolved);
        let zone = &self.engine.zone;
        let kept = way(line, asked).and_then(|way| self.engine.prefixes.get(&self.context.session, &way));
        if let Some(prefix) = kept {
            if let Some(since) = history_load::since(&running.transcript, &prefix)? {
                let (messages, ends) = since.into_iter().unzip();
                let context = ConversationContext::new(
                    room,
                    images,
                    zone,
                    RecentConversation { messages, ..RecentConversation::default() },
                );
                return Ok(LoadedContext { context: context.behind(prefix), ends });
            }
            // The prefix does not match the transcript any more, for instance after a compaction, or too much was said
            // since.
            self.engine.prefixes.forget(&self.context.session);
        }
        let read = history_load::load(&mut running.transcript, line.reach(room), images)?;
        let ends = vec![running.transcript.length()];
        Ok(LoadedContext { context: ConversationContext::new(room, images, zone, read), ends })
    }

    /// Replaces the cached prefix by the messages it was made from, if the conversation has one.
    pub(super) fn unfold(
        &self,
        line: &ModelChain,
        context: &mut ConversationContext,
        running: &TurnRecorder,
    ) -> Result<(), TurnError> {
        let Some(prefix) = context.prefix() else { return Ok(()) };
        // All of it is read, however little room is left by now: a compaction has to name everything that it takes out.
        let read = history_load::before(&running.transcript, prefix, ImageEstimate::of(&line.resolved))?;
        context.unfold(read);
        Ok(())
    }

    /// Caches the beginning of this turn's request for the next turn: everything that was said before this turn's
    /// input. A failure to cache is no failure of the turn.
    pub(super) async fn cache_prefix(
        &self,
        line: &ModelChain,
        asked: &Request,
        context: &ConversationContext,
        ends: &[u64],
        running: &TurnRecorder,
    ) {
        let Some(way) = way(line, asked) else { return };
        // Only messages of earlier turns are cached, because they do not change any more.
        let (entries, costs): (Vec<&Entry>, Vec<u64>) = context.earlier().into_iter().unzip();
        let count = prefix_cache::plain(&entries);
        let before = context.prefix().cloned();
        let end = match before {
            Some(_) => count.checked_sub(1).and_then(|last| ends.get(last)),
            None => ends.last().filter(|_| count >= MIN_MESSAGES && count == entries.len()),
        };
        let tokens = costs[..count].iter().sum::<u64>();
        // A token is about four bytes. A prefix that would become too long stays as it is cached, and the rest is read
        // each time.
        let size = before.as_ref().map_or(0, |before| before.body.size() as u64) + 4 * tokens;
        let Some(end) = end.copied().filter(|_| size <= LARGEST as u64) else { return };
        // Without creation times in the file system, the position could not be recognised later.
        let Ok(Some(at)) = FilePosition::of(running.transcript.file(), end) else { return };
        let tokens = tokens + before.as_ref().map_or(0, |before| before.tokens);
        let entries: Vec<Entry> = entries[..count].iter().copied().cloned().collect();
        // The size limit for pictures does not matter, because only plain texts are cached.
        let target = target(&line.resolved, asked, &line.told, 0);
        let request = Request { messages: Vec::new(), prefix: None, ..asked.clone() };
        let provider = Arc::clone(&line.resolved.provider);
        let prefix = move || {
            let request = Request { messages: prefix_cache::ready(entries, &target)?, ..request };
            let body = match before {
                Some(before) => before.body.with_appended_messages(&*provider, &request),
                None => BodyPrefix::new(&*provider, &request),
            };
            Some(Prefix { body: Arc::new(body?), tokens, way, at })
        };
        // Encoding a whole long conversation runs on a blocking thread, so that no other turn has to wait.
        let prefix = match context.prefix() {
            Some(_) => prefix(),
            None => tokio::task::spawn_blocking(prefix).await.unwrap_or_default(),
        };
        if let Some(prefix) = prefix {
            self.engine.prefixes.keep(&self.context.session, prefix);
        }
    }
}

/// Returns the route that a cached prefix is valid for, or `None` for a model that gets tool calls as text: its
/// messages are written in another form.
fn way(line: &ModelChain, asked: &Request) -> Option<EncodingKey> {
    (line.told.calls == ToolCallStyle::Native).then(|| EncodingKey {
        route: line.resolved.route.clone(),
        reasoning: line.resolved.reasoning,
        thinking: asks_to_think(asked),
    })
}
