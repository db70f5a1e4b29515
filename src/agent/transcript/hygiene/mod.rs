//! Transcript hygiene: a conversation as the model it goes to accepts it, whoever answered in it before.
//!
//! [`sanitise`] works on a copy of references. A [`Policy`] says what the route needs; each rule is one pure pass, and
//! changes a copy of the messages that it has to change, and no other. The stored transcript is never touched. All
//! passes are a fixed point: what they gave once they leave alone.

mod applied;
mod calls;
mod content;
mod echo;
mod error;
mod ids;
mod items;
mod marks;
mod pairing;
mod pictures;
pub mod policy;
mod provenance;
mod shape;
mod signature;
mod target;
mod thinking;

use std::sync::Arc;

pub use applied::{Applied, Rule};
pub use error::HygieneError;
pub use pictures::Pictures;
pub use policy::Policy;
pub(in crate::agent) use provenance::inter_session_marks;
#[cfg(test)]
use provenance::without_inter_session;
pub use target::{LONGEST_SIDE, Target};

use self::applied::Notes;
use super::Entry;
use crate::provider::Message;

/// A conversation that its route accepts.
#[derive(Clone, Debug)]
pub struct Sanitised {
    /// What is sent. A message that was not changed is the one that was given.
    pub messages: Vec<Arc<Message>>,
    /// What was done, in order.
    pub applied: Vec<Applied>,
}

/// Makes a conversation ready for a model.
///
/// # Errors
///
/// [`HygieneError`], where what came out is still nothing that the route could accept: a defect of this module, and
/// better met here than as a provider's refusal.
pub fn sanitise(entries: &[Entry], target: &Target) -> Result<Sanitised, HygieneError> {
    let policy = Policy::of(target);
    let mut notes = Notes::default();
    let mut entries = clean(entries.to_vec(), target, &policy, &mut notes);
    error::check(&entries, &policy)?;
    provenance::unsign(&mut entries);
    let applied = notes.into_vec();
    for Applied { rule, message } in &applied {
        tracing::debug!(rule = rule.as_str(), message, route = ?policy.row, "hygiene");
    }
    let messages = entries.into_iter().map(|entry| entry.message).collect();
    Ok(Sanitised { messages, applied })
}

/// The passes, in their order.
fn clean(mut entries: Vec<Entry>, target: &Target, policy: &Policy, notes: &mut Notes) -> Vec<Entry> {
    let all = &mut entries;
    // Before messages of the user become one, which hides whose they are.
    provenance::mark_inter_session(all, notes);
    // What is left empty is left out with the rest that is.
    echo::unwrap(all, notes);
    // First the content: what is looked at below has to be there at all.
    content::tidy(all, target, policy, notes);
    pictures::fit(all, target, policy, notes);
    // Signatures that no longer hold are taken off before it is looked who has none.
    thinking::unsign_before_compaction(all, policy, notes);
    thinking::keep_valid(all, target, policy, notes);
    thinking::leave_out_refused(all, target, notes);
    // Calls that go make orphans of their results, so this is before pairing.
    calls::leave_out_malformed(all, target, notes);
    pairing::pair(all, policy.missing, notes);
    // Which turn is running is only known once results are where they belong.
    thinking::drop_older(all, policy, notes);
    items::keep_followed(all, target, policy, notes);
    // Ids come after pairing: by the stored ids it is known whose a result is, by the new ones no longer.
    calls::unthink_edited(all, policy, notes);
    if policy.ids == policy::Ids::Pairs {
        ids::cut_lone_items(all, notes);
    }
    ids::rewrite(all, target, policy, notes);
    marks::clean(all, target, policy, notes);
    // The shape comes last: every pass above can leave a message out.
    shape::leave_out_prefill(all, policy, notes);
    shape::bootstrap(all, policy, notes);
    shape::merge(all, target, policy, notes);
    shape::end_routed(all, target);
    entries
}

#[cfg(test)]
mod made;
#[cfg(test)]
mod prefixes;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rejecters;
#[cfg(test)]
mod rules;
