//! The order of speakers: the first, the last, and no role twice in a row where the route rejects that.

use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::inter_session;
use super::policy::HygienePolicy;
use super::target::Target;
use super::thinking;
use crate::agent::transcript::{Entry, EntryKind, EntryMetadata};
use crate::provider::wire_format::ConversationRules;
use crate::provider::{Message, Role, StopReason};

/// The first message of a conversation that would otherwise begin with an answer.
pub(super) const BOOTSTRAP: &str = "(session bootstrap)";

/// Inserts a user message before an answer that comes first.
pub(super) fn bootstrap(entries: &mut Vec<Entry>, policy: &HygienePolicy, notes: &mut RuleLog) {
    if !policy.bootstrap || entries.first().is_none_or(|first| first.role() == Role::User) {
        return;
    }
    let first = Entry {
        message: Arc::new(Message::text(Role::User, BOOTSTRAP)),
        about: Arc::new(EntryMetadata::default()),
    };
    notes.add(Rule::Bootstrap, &first);
    entries.insert(0, first);
}

/// Merges consecutive messages of one role.
pub(super) fn merge(entries: &mut Vec<Entry>, target: &Target, policy: &HygienePolicy, notes: &mut RuleLog) {
    let merges = |role| match role {
        Role::User => policy.merge_users,
        Role::Assistant => policy.merge_answers,
        Role::Tool => false,
    };
    // `dedup_by` passes the later element first.
    entries.dedup_by(|later, first| {
        if later.role() != first.role() || !merges(later.role()) {
            return false;
        }
        notes.add(Rule::Merged, later);
        let content = &mut Arc::make_mut(&mut first.message).content;
        // Some APIs turn a message into a single text, where a person's words would otherwise stand below another
        // session's mark.
        content.extend(inter_session::end(content, later.message.content.first()));
        content.extend(later.message.content.iter().cloned());
        first.about = Arc::new(merged_metadata(first, later, target));
        // `true` makes `dedup_by` remove the later message.
        true
    });
}

/// Adds an end after another session's message that a user message follows, for the API whose encoder writes both as
/// one text.
pub(super) fn end_session_marks(entries: &mut [Entry], target: &Target) {
    if target.route.format().conversation != ConversationRules::Completions {
        return;
    }
    for at in 1..entries.len() {
        let (before, from) = entries.split_at_mut(at);
        let (Some(first), Some(later)) = (before.last_mut(), from.first()) else { return };
        if first.role() != Role::User || later.role() != Role::User {
            continue;
        }
        let end = inter_session::end(&first.message.content, later.message.content.first());
        if let Some(end) = end {
            Arc::make_mut(&mut first.message).content.push(end);
        }
    }
}

/// Returns the facts about a merged message, chosen so that a second run of the passes leaves it unchanged.
fn merged_metadata(first: &Entry, later: &Entry, target: &Target) -> EntryMetadata {
    let broke_off =
        |about: &EntryMetadata| matches!(about.stop, Some(StopReason::Error | StopReason::Aborted));
    let ending = if broke_off(&later.about) { &first.about } else { &later.about };
    let own = if thinking::is_own(first, target) { first } else { later };
    EntryMetadata {
        id: first.about.id.clone(),
        at: first.about.at.max(later.about.at),
        route: own.about.route.clone(),
        stop: ending.stop,
        usage: ending.usage,
        // The text already has the mark, in front of the part that it belongs to.
        provenance: first.about.provenance.clone(),
        imported: first.about.imported || later.about.imported,
        // The time of a compaction separates older from newer answers, but the merged message has the later message's
        // time.
        kind: EntryKind::Said,
    }
}

/// Removes answers at the end, because a model that thinks refuses to continue one.
pub(super) fn remove_prefill(entries: &mut Vec<Entry>, policy: &HygienePolicy, notes: &mut RuleLog) {
    while policy.no_prefill
        && let Some(last) = entries.pop_if(|last| last.role() == Role::Assistant)
    {
        notes.add(Rule::Prefill, &last);
    }
}
