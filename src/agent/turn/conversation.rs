//! The conversation of a running turn: loads it, either in full or behind a prefix that was cached from an earlier
//! request, makes room in it, and caches its beginning for the next turn.

use std::sync::Arc;

use super::state::{TurnScope, TurnState};
use super::{TurnError, TurnEvent};
use crate::agent::context::{CompactionInput, ConversationContext};
use crate::agent::estimate::ImageEstimate;
use crate::agent::history_load;
use crate::agent::model_chain::{ModelChain, PromptSpec, asks_to_think, target};
use crate::agent::prefix_cache::{self, EncodingKey, FilePosition, LARGEST, MIN_MESSAGES, Prefix};
use crate::agent::prompt::ToolCallStyle;
use crate::agent::summary_request::SummaryRequest;
use crate::agent::transcript::{Entry, RecentConversation, TranscriptError};
use crate::agent::turn_recorder::TurnRecorder;
use crate::clock;
use crate::provider::{BodyPrefix, Request};

/// The conversation before a turn's input.
pub(super) struct LoadedContext {
    pub(super) context: ConversationContext,
    /// Byte offset in the transcript at which each message of the context ends, if there is a cached prefix. Otherwise
    /// only the offset at which the last one ends.
    pub(super) ends: Vec<u64>,
}

/// Loads the conversation for the turn's model.
pub(super) fn load(
    scope: &TurnScope<'_>,
    model_chain: &ModelChain,
    model_request: &Request,
    room: u64,
    recorder: &mut TurnRecorder,
) -> Result<LoadedContext, TurnError> {
    let images = ImageEstimate::of(&model_chain.resolved);
    let zone = &scope.engine.zone;
    let kept = way(model_chain, model_request)
        .and_then(|way| scope.engine.prefixes.get(&scope.context.session, &way));
    if let Some(prefix) = kept {
        let since = prefix.since(recorder.transcript.file());
        if let Some(since) = since.map_err(TranscriptError::reading(recorder.transcript.path()))? {
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
        scope.engine.prefixes.forget(&scope.context.session);
    }
    let read = history_load::load(&mut recorder.transcript, model_chain.reach(room), images)?;
    let ends = vec![recorder.transcript.length()];
    Ok(LoadedContext { context: ConversationContext::new(room, images, zone, read), ends })
}

/// Replaces the cached prefix by the messages it was made from, if the conversation has one.
pub(super) fn unfold(state: &mut TurnState<'_>) -> Result<(), TurnError> {
    let Some(prefix) = state.context.prefix() else { return Ok(()) };
    // All of it is read, however little room is left by now: a compaction has to name everything that it takes out.
    let images = ImageEstimate::of(&state.model_chain.resolved);
    let read = history_load::before(&state.recorder.transcript, prefix, images)?;
    state.context.unfold(read);
    Ok(())
}

/// Makes room for the next request if the conversation is nearly too long.
///
/// A compaction rebuilds the prompt as well: the provider's cache is invalid anyway, and the prompt should include
/// what the agent wrote down since. For a fallback model with a smaller context window, only its own requests
/// become shorter and nothing is committed.
pub(super) async fn make_room(scope: &TurnScope<'_>, state: &mut TurnState<'_>) -> Result<(), TurnError> {
    if state.context.is_near_full() {
        // A cached beginning can only be sent as it is. To shorten the conversation, its messages have to be read.
        unfold(state)?;
        compact(scope, state).await?;
    }
    state.context.fit();
    Ok(())
}

async fn compact(scope: &TurnScope<'_>, state: &mut TurnState<'_>) -> Result<(), TurnError> {
    let TurnState { model_chain, model_request, context, recorder } = state;
    let config = scope.engine.parts.config.current();
    let Some(agent) = config.agent(&scope.context.agent) else { return Ok(()) };
    let found = scope.engine.findings(agent, &scope.context.session);
    let wanted = CompactionInput {
        findings: &found,
        most_staged: config.compaction.most_staged,
        turn: Some(recorder.turn),
        at: clock::unix_ms(),
    };
    let Some(mut draft) = context.draft(&wanted, false) else { return Ok(()) };
    let (before, after) = (draft.record.tokens_before, draft.record.tokens_after);
    // A fallback with a smaller context: nothing is committed, because the agent's own model needs no compaction.
    if model_chain.is_smaller_fallback() {
        context.shorten(draft);
        scope.events.tell(TurnEvent::Notice(format!(
            "{} is shown a shorter conversation, of about {after} tokens in the place of {before}; nothing was \
             compacted for other models",
            model_chain.prompt_spec.label
        )));
        return Ok(());
    }
    if config.compaction.summary {
        let request = SummaryRequest {
            engine: scope.engine,
            deadline: scope.deadline,
            resolved: &model_chain.resolved,
            session: &scope.context.session,
            turn: recorder.turn,
            step: recorder.steps + 1,
        };
        recorder.usage += request.add_to(context, &mut draft).await?;
    }
    // Committed before it is applied: a crash in between must not leave an answer to a conversation that the
    // transcript does not show.
    recorder.compacted(&draft.record)?;
    let (before, after) = (draft.record.tokens_before, draft.record.tokens_after);
    let at = draft.record.at;
    context.apply(draft);
    model_chain.began = at;
    let PromptSpec { label, calls, .. } = &model_chain.prompt_spec;
    let tools = model_chain.prompted_tools();
    // The new prompt is stored with the session, so that later turns send the same one and the provider's cache
    // holds.
    let prompt = scope.engine.prompt(agent, label, tools, *calls, at)?;
    model_request.system = prompt.text.to_string();
    scope.engine.parts.store.sessions().renew(scope.context.session.clone(), Some(prompt), at).await?;
    scope.events.tell(TurnEvent::Notice(format!(
        "the conversation was compacted from about {before} to {after} tokens; the transcript has all of it"
    )));
    Ok(())
}

/// Caches the beginning of this turn's request for the next turn: everything that was said before this turn's input.
/// `ends` is that of the [`LoadedContext`]. A failure to cache is no failure of the turn.
pub(super) async fn cache_prefix(scope: &TurnScope<'_>, state: &TurnState<'_>, ends: &[u64]) {
    let TurnState { model_chain, model_request, context, recorder } = state;
    let Some(way) = way(model_chain, model_request) else { return };
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
    let Ok(Some(at)) = FilePosition::of(recorder.transcript.file(), end) else { return };
    let tokens = tokens + before.as_ref().map_or(0, |before| before.tokens);
    let entries: Vec<Entry> = entries[..count].iter().copied().cloned().collect();
    // The size limit for pictures does not matter, because only plain texts are cached.
    let target = target(&model_chain.resolved, model_request, &model_chain.prompt_spec, 0);
    let request = Request { messages: Vec::new(), prefix: None, ..model_request.clone() };
    let provider = Arc::clone(&model_chain.resolved.provider);
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
        scope.engine.prefixes.keep(&scope.context.session, prefix);
    }
}

/// Returns the route that a cached prefix is valid for, or `None` for a model that gets tool calls as text: its
/// messages are written in another form.
fn way(model_chain: &ModelChain, model_request: &Request) -> Option<EncodingKey> {
    (model_chain.prompt_spec.calls == ToolCallStyle::Native).then(|| EncodingKey {
        route: model_chain.resolved.route.clone(),
        reasoning: model_chain.resolved.reasoning,
        thinking: asks_to_think(model_request),
    })
}
