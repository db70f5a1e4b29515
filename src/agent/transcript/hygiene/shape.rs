//! The order of speakers: who begins, who ends, and that nobody speaks twice in a row where that is refused.

use std::sync::Arc;

use super::applied::{Notes, Rule};
use super::policy::Policy;
use super::provenance;
use super::target::Target;
use super::thinking;
use crate::agent::transcript::{About, Entry, Kind};
use crate::config::Api;
use crate::provider::{Message, Role, StopReason};

/// What a conversation begins with that would else begin with an answer.
pub(super) const BOOTSTRAP: &str = "(session bootstrap)";

/// Puts a message of the user before an answer that comes first.
pub(super) fn bootstrap(entries: &mut Vec<Entry>, policy: &Policy, notes: &mut Notes) {
    if !policy.bootstrap || entries.first().is_none_or(|first| first.role() == Role::User) {
        return;
    }
    let first =
        Entry { message: Arc::new(Message::text(Role::User, BOOTSTRAP)), about: Arc::new(About::default()) };
    notes.add(Rule::Bootstrap, &first);
    entries.insert(0, first);
}

/// Joins messages of one side that follow each other.
pub(super) fn merge(entries: &mut Vec<Entry>, target: &Target, policy: &Policy, notes: &mut Notes) {
    let merges = |role| match role {
        Role::User => policy.merge_users,
        Role::Assistant => policy.merge_answers,
        Role::Tool => false,
    };
    // `dedup_by` hands over the later one first.
    entries.dedup_by(|later, first| {
        if later.role() != first.role() || !merges(later.role()) {
            return false;
        }
        notes.add(Rule::Merged, later);
        let content = &mut Arc::make_mut(&mut first.message).content;
        // Some wires make one text of it, in which else a person's words would stand below that session's mark.
        content.extend(provenance::end(content, later.message.content.first()));
        content.extend(later.message.content.iter().cloned());
        first.about = Arc::new(merged(first, later, target));
        true
    });
}

/// Ends what another session sent before what the user says next, where both are written as one text.
pub(super) fn end_routed(entries: &mut [Entry], target: &Target) {
    if target.route.api != Api::OpenAiCompletions {
        return;
    }
    for at in 1..entries.len() {
        let (before, from) = entries.split_at_mut(at);
        let (Some(first), Some(later)) = (before.last_mut(), from.first()) else { return };
        if first.role() != Role::User || later.role() != Role::User {
            continue;
        }
        let end = provenance::end(&first.message.content, later.message.content.first());
        if let Some(end) = end {
            Arc::make_mut(&mut first.message).content.push(end);
        }
    }
}

/// What is known of two messages that are one now: such that all of it stays as it is when it is looked at again.
fn merged(first: &Entry, later: &Entry, target: &Target) -> About {
    let broke_off = |about: &About| matches!(about.stop, Some(StopReason::Error | StopReason::Aborted));
    let ending = if broke_off(&later.about) { &first.about } else { &later.about };
    let own = if thinking::is_own(first, target) { first } else { later };
    About {
        id: first.about.id.clone(),
        at: first.about.at.max(later.about.at),
        route: own.about.route.clone(),
        stop: ending.stop,
        usage: ending.usage,
        // The mark is in the text already, before the part that it speaks of.
        provenance: first.about.provenance.clone(),
        imported: first.about.imported || later.about.imported,
        // A compaction's time speaks of what came before it, and this message's is the later one's.
        kind: Kind::Said,
    }
}

/// Leaves out answers at the end, which a model that thinks refuses to go on from.
pub(super) fn leave_out_prefill(entries: &mut Vec<Entry>, policy: &Policy, notes: &mut Notes) {
    while policy.no_prefill
        && let Some(last) = entries.pop_if(|last| last.role() == Role::Assistant)
    {
        notes.add(Rule::Prefill, &last);
    }
}
