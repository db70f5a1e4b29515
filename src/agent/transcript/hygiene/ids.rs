//! Rewrites the ids of tool calls in the form that the route accepts.
//!
//! A call and its result get the same id, and no two calls share one. The same conversation gets the same ids each
//! time, so that the provider's cache stays valid. This runs after pairing, so the results that follow an answer belong
//! to its calls by position, whatever their stored ids are.

mod plain_ids;
mod responses_ids;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) use responses_ids::remove_orphan_items;

use super::applied_rules::{Rule, RuleLog};
use super::policy::{HygienePolicy, IdFormat};
use super::target::Target;
use super::thinking::{self, is_thinking};
use crate::agent::transcript::Entry;
use crate::provider::{Block, Role};

/// Rewrites ids that the route would reject, and ids that were used before.
pub(super) fn rewrite(entries: &mut [Entry], target: &Target, policy: &HygienePolicy, notes: &mut RuleLog) {
    let changes = changes(entries, target, policy);
    for IdChange { answer, ids } in changes {
        set_ids(entries, answer, &ids);
        notes.add(Rule::Ids, &entries[answer]);
    }
}

/// The new ids of all calls of an answer, in order.
struct IdChange {
    answer: usize,
    ids: Vec<String>,
}

fn changes(entries: &[Entry], target: &Target, policy: &HygienePolicy) -> Vec<IdChange> {
    let mut used = UsedIds::default();
    // Ids beside signed thinking must go back byte for byte, so no other call may use them.
    if policy.signs_thinking() {
        for entry in entries.iter().filter(|entry| has_bound_calls(entry)) {
            used.ids.extend(entry.message.tool_calls().map(|call| Cow::Borrowed(call.id)));
        }
    }
    let mut changes = Vec::new();
    for (answer, entry) in entries.iter().enumerate() {
        if entry.role() != Role::Assistant || (policy.signs_thinking() && has_bound_calls(entry)) {
            continue;
        }
        let own = thinking::is_own(entry, target);
        let mut ids: Vec<Cow<'_, str>> = Vec::new();
        let mut is_changed = false;
        for call in entry.message.tool_calls() {
            let id = used.next(call.id, own, policy.ids);
            if !is_changed && id != call.id {
                is_changed = true;
                let before = entry.message.tool_calls().take(ids.len());
                ids = before.map(|call| Cow::Borrowed(call.id)).collect();
            }
            // For an answer that stays unchanged, nothing is allocated.
            if is_changed {
                ids.push(id);
            } else {
                ids.push(Cow::Borrowed(""));
            }
        }
        if is_changed {
            changes.push(IdChange { answer, ids: ids.into_iter().map(Cow::into_owned).collect() });
        }
    }
    changes
}

/// Returns `true` if the answer's calls stand beside thinking and must not be edited.
fn has_bound_calls(entry: &Entry) -> bool {
    entry.role() == Role::Assistant
        && entry.message.content.iter().any(is_thinking)
        && entry.message.tool_calls().next().is_some()
}

/// The ids of this request so far.
#[derive(Default)]
struct UsedIds<'a> {
    /// Ids as they are sent; of pairs, the half that names the call.
    ids: HashSet<Cow<'a, str>>,
    /// The item halves of pairs.
    items: HashSet<String>,
    /// Stored ids that were not sent unchanged, with the number of their occurrences.
    seen: std::collections::HashMap<&'a str, u32>,
}

impl<'a> UsedIds<'a> {
    fn next(&mut self, raw: &'a str, own: bool, ids: IdFormat) -> Cow<'a, str> {
        if ids == IdFormat::Pairs {
            return self.next_pair(raw);
        }
        let wanted = plain_ids::form(raw, own, ids);
        // A stored id that was rewritten counts as used as well: its next occurrence is another call.
        if !self.ids.contains(&wanted) && !self.seen.contains_key(raw) {
            if wanted != raw {
                self.seen.insert(raw, 1);
            }
            self.ids.insert(wanted.clone());
            return wanted;
        }
        let seed = self.seed(raw);
        self.first_free(|round| plain_ids::other(&wanted, &seed, round, ids))
    }

    /// Returns the first of these ids that no other call has. The first round nearly always succeeds.
    fn first_free(&mut self, id: impl Fn(u64) -> String) -> Cow<'a, str> {
        let free = (0..).map(id).find(|id| self.ids.insert(Cow::Owned(id.clone())));
        Cow::Owned(free.unwrap_or_default())
    }

    /// Returns the text that the id of this occurrence is derived from: the same stored id in a later call is another
    /// call.
    fn seed(&mut self, raw: &'a str) -> String {
        // An id that was sent unchanged has been used once without being counted.
        let first = u32::from(self.ids.contains(raw));
        let count = self.seen.entry(raw).or_insert(first);
        *count += 1;
        if *count == 1 { raw.to_owned() } else { format!("{raw}:{count}") }
    }

    fn next_pair(&mut self, raw: &'a str) -> Cow<'a, str> {
        let wanted = responses_ids::form(raw);
        let (call, item) = responses_ids::halves(&wanted);
        if !self.ids.contains(call) && !self.seen.contains_key(raw) {
            if wanted != raw {
                self.seen.insert(raw, 1);
            }
            // A second item with the same id would be rejected as a duplicate, so this call is sent without its item
            // half.
            let wanted = match item {
                Some(item) if self.items.contains(item) => Cow::Owned(call.to_owned()),
                _ => wanted,
            };
            self.record_pair(&wanted);
            return wanted;
        }
        let seed = self.seed(raw);
        self.first_free(|round| responses_ids::other(&seed, round))
    }

    fn record_pair(&mut self, pair: &str) {
        let (call, item) = responses_ids::halves(pair);
        self.ids.insert(Cow::Owned(call.to_owned()));
        self.items.extend(item.map(str::to_owned));
    }
}

/// Gives the calls of an answer, and the results after it, these ids.
fn set_ids(entries: &mut [Entry], answer: usize, ids: &[String]) {
    let mut next = ids.iter();
    for block in &mut Arc::make_mut(&mut entries[answer].message).content {
        if let Block::ToolCall { id, .. } = block
            && let Some(new) = next.next()
        {
            id.clone_from(new);
        }
    }
    let mut next = ids.iter();
    for entry in entries[answer + 1..].iter_mut().take_while(|entry| entry.role() == Role::Tool) {
        for block in &mut Arc::make_mut(&mut entry.message).content {
            if let Block::ToolResult { call_id, .. } = block
                && let Some(new) = next.next()
            {
                call_id.clone_from(new);
            }
        }
    }
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
