//! Transcript hygiene: adapts a conversation to the rules of the model's API, whichever models answered in it before.
//!
//! [`sanitise`] works on a copy of references. A [`HygienePolicy`] holds the needs of the route. Each rule is a pure pass that
//! copies and changes only the messages it has to. The stored transcript is never touched. The passes are idempotent: a
//! second run changes nothing.

mod applied_rules;
mod calls;
mod content;
mod context_echo;
mod error;
mod ids;
mod inter_session;
mod pairing;
mod pictures;
pub mod policy;
mod reasoning_items;
mod signature;
mod speaker_order;
mod target;
mod text_signatures;
mod thinking;

use std::sync::Arc;

pub(crate) use applied_rules::AppliedRule;
pub use applied_rules::Rule;
pub(crate) use error::HygieneError;
pub(in crate::agent) use inter_session::session_mark_positions;
pub(crate) use pictures::PictureCache;
pub(in crate::agent) use pictures::pictures_in;
pub use policy::HygienePolicy;
pub use target::Target;

use self::applied_rules::RuleLog;
use super::Entry;
use crate::provider::Message;

/// A conversation that its route accepts.
#[derive(Clone, Debug)]
pub struct Sanitised {
    /// The messages to send. Unchanged messages are shared with the input.
    pub messages: Vec<Arc<Message>>,
    /// The rules that changed something, in order.
    pub applied: Vec<AppliedRule>,
}

/// Adapts a conversation to a model.
///
/// # Errors
///
/// Returns [`HygieneError`] if the route would reject even the result. That is a defect of this module, and an error
/// here says more than the provider's rejection would.
pub fn sanitise(entries: &[Entry], target: &Target) -> Result<Sanitised, HygieneError> {
    let policy = HygienePolicy::of(target);
    let (mut entries, applied) = apply_rules(entries, target, &policy);
    error::check(&entries, &policy)?;
    inter_session::remove_own_signatures(&mut entries);
    for AppliedRule { rule, message } in &applied {
        tracing::debug!(rule = rule.name(), message, route = ?policy.row, "hygiene");
    }
    let messages = entries.into_iter().map(|entry| entry.message).collect();
    Ok(Sanitised { messages, applied })
}

/// Runs the passes in their order. The result still has the signatures of flock's own marks, by which a second run
/// recognises them.
#[must_use]
pub fn apply_rules(
    entries: &[Entry],
    target: &Target,
    policy: &HygienePolicy,
) -> (Vec<Entry>, Vec<AppliedRule>) {
    let mut log = RuleLog::default();
    let notes = &mut log;
    let mut entries = entries.to_vec();
    let all = &mut entries;
    // Before user messages are merged, because a merged message no longer shows its sender.
    inter_session::mark_inter_session(all, notes);
    // A message that this leaves empty is removed by `content::tidy`.
    context_echo::unwrap(all, notes);
    // The content comes first: the later passes look only at blocks that stay.
    content::tidy(all, target, policy, notes);
    pictures::fit(all, target, policy, notes);
    // Invalid signatures are removed before thinking without a signature is looked for.
    thinking::unsign_before_compaction(all, policy, notes);
    thinking::remove_invalid(all, target, policy, notes);
    thinking::remove_rejected(all, target, notes);
    // A removed call leaves its result without a call, so this comes before pairing.
    calls::remove_malformed(all, target, notes);
    pairing::pair(all, policy.missing, notes);
    // It takes paired results to know if the last turn is still running.
    thinking::remove_older(all, policy, notes);
    reasoning_items::remove_orphaned(all, target, policy, notes);
    // The ids come after pairing: only the stored ids show to which call a result belongs.
    calls::remove_edited_thinking(all, policy, notes);
    if policy.ids == policy::IdFormat::Pairs {
        ids::remove_orphan_items(all, notes);
    }
    ids::rewrite(all, target, policy, notes);
    text_signatures::clean(all, target, policy, notes);
    // The order of speakers comes last, because every pass above may remove a message.
    speaker_order::remove_prefill(all, policy, notes);
    speaker_order::bootstrap(all, policy, notes);
    speaker_order::merge(all, target, policy, notes);
    speaker_order::end_session_marks(all, target);
    (entries, log.into_vec())
}
