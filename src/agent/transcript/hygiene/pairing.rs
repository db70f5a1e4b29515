//! Pairs calls with results. After each answer with calls come its results, one per call, in the calls' order, before
//! anything else. Every route rejects a conversation that differs from that.
//!
//! A frame is an answer with calls and all messages up to the next such answer. An answer of only text does not end a
//! frame: one that came between a call and its result must not hide the result.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::policy::MissingResultText;
use crate::agent::transcript::{Entry, EntryMetadata, INTERRUPTED};
use crate::provider::message::ToolCall;
use crate::provider::{Block, Message, Role};

/// The text for a missing result in the Responses API.
pub(super) const ABORTED: &str = "aborted";

/// The text for a missing result in all other APIs.
pub(super) const NO_RESULT: &str =
    "[flock: the result of this call is missing from the conversation; what the call did is not known]";

/// A result, with the message it was found in.
struct FoundResult {
    entry: Entry,
    /// Index of the result in the message.
    at: usize,
}

/// A call and its result.
struct Slot {
    id: String,
    name: String,
    result: Option<FoundResult>,
}

/// A frame: an answer with calls, or the messages before the first one.
#[derive(Default)]
struct Frame {
    answer: Option<Entry>,
    slots: Vec<Slot>,
    others: Vec<Entry>,
    /// Results that belong to no call of this frame.
    left: Vec<FoundResult>,
    /// The slots of each id.
    places: HashMap<String, CallSlots>,
    /// Number of slots with a result.
    filled: usize,
}

/// The positions of the calls with one id among those of an answer.
#[derive(Default)]
struct CallSlots {
    first: usize,
    /// Positions of the calls without a result, in order.
    open: VecDeque<usize>,
}

/// Pairs calls with results.
pub(super) fn pair(entries: &mut Vec<Entry>, missing: MissingResultText, notes: &mut RuleLog) {
    // A conversation that is already in order is not copied.
    if is_paired(entries) {
        return;
    }
    let mut frames = frames(std::mem::take(entries), notes);
    assign_late_results(&mut frames, notes);
    for frame in frames {
        frame.emit_paired(entries, missing, notes);
    }
}

/// Returns `true` if nothing has to be done: each answer is directly followed by its results, complete and in order.
pub(super) fn is_paired(entries: &[Entry]) -> bool {
    first_unpaired_index(entries).is_none()
}

/// Returns the index of the first message whose calls are not answered correctly, or that answers no call.
pub(super) fn first_unpaired_index(entries: &[Entry]) -> Option<usize> {
    let mut at = 0;
    // A result is only valid right behind its answer, where the inner loop consumes it.
    while let Some(entry) = entries.get(at) {
        if entry.role() == Role::Tool {
            return Some(at);
        }
        let answer = at;
        at += 1;
        if entry.role() != Role::Assistant {
            continue;
        }
        let mut calls = entry.message.tool_calls().peekable();
        while calls.peek().is_some() {
            let Some(results) = entries.get(at).filter(|entry| entry.role() == Role::Tool) else {
                return Some(answer);
            };
            if results.message.content.is_empty() {
                return Some(at);
            }
            for block in &results.message.content {
                let Block::ToolResult { call_id, name, .. } = block else { return Some(at) };
                if !calls.next().is_some_and(|call| call.id == call_id && call.name == name) {
                    return Some(at);
                }
            }
            at += 1;
        }
    }
    None
}

fn frames(entries: Vec<Entry>, notes: &mut RuleLog) -> Vec<Frame> {
    let mut frames = vec![Frame::default()];
    for entry in entries {
        let begins = entry.role() == Role::Assistant && entry.message.tool_calls().next().is_some();
        if begins {
            let slots = entry.message.tool_calls().map(Slot::of).collect();
            frames.push(Frame::of(entry, slots));
            continue;
        }
        let Some(frame) = frames.last_mut() else { continue };
        if entry.role() == Role::Tool {
            for at in 0..entry.message.content.len() {
                frame.take(FoundResult { entry: entry.clone(), at }, notes);
            }
        } else {
            frame.others.push(entry);
        }
    }
    frames
}

/// Gives a late result to an earlier call, if exactly one call with its id is waiting.
fn assign_late_results(frames: &mut [Frame], notes: &mut RuleLog) {
    // The waiting slots of each id in the frames before this one.
    let mut waiting: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
    for late in 0..frames.len() {
        for found in std::mem::take(&mut frames[late].left) {
            let only = match waiting.get_mut(found.call_id()) {
                Some(places) if places.len() == 1 => places.pop(),
                _ => None,
            };
            if let Some((frame, slot)) = only {
                notes.add(Rule::MovedResult, &found.entry);
                frames[frame].slots[slot].result = Some(found);
            } else {
                notes.add(Rule::OrphanResult, &found.entry);
            }
        }
        // A call without an id can't wait for a result, because nothing would identify it.
        for (id, places) in frames[late].places.drain().filter(|(id, _)| !id.is_empty()) {
            waiting.entry(id).or_default().extend(places.open.into_iter().map(|slot| (late, slot)));
        }
    }
}

impl Slot {
    fn of(call: ToolCall<'_>) -> Self {
        Self { id: call.id.to_owned(), name: call.name.to_owned(), result: None }
    }
}

impl FoundResult {
    fn block(&self) -> Option<&Block> {
        self.entry.message.content.get(self.at)
    }

    fn call_id(&self) -> &str {
        match self.block() {
            Some(Block::ToolResult { call_id, .. }) => call_id.trim(),
            _ => "",
        }
    }

    fn name(&self) -> &str {
        match self.block() {
            Some(Block::ToolResult { name, .. }) => name,
            _ => "",
        }
    }

    /// Returns `true` if flock wrote the result in place of a missing one.
    fn is_filler(&self) -> bool {
        let Some(Block::ToolResult { content, is_error: true, .. }) = self.block() else { return false };
        matches!(&**content, [Block::Text { text, .. }] if [ABORTED, NO_RESULT, INTERRUPTED].contains(&text.as_str()))
    }

    /// Returns the result as a message of its own, with its call's id and name.
    fn into_entry(self, slot_id: &str, slot_name: &str, notes: &mut RuleLog) -> Option<Entry> {
        let Some(Block::ToolResult { call_id, name, content, is_error }) = self.block() else { return None };
        // An unchanged result in a message of its own is shared, not copied.
        if call_id == slot_id && name == slot_name && self.entry.message.content.len() == 1 {
            return Some(self.entry);
        }
        if call_id != slot_id || name != slot_name {
            notes.add(Rule::MovedResult, &self.entry);
        }
        let block = Block::ToolResult {
            call_id: slot_id.to_owned(),
            name: slot_name.to_owned(),
            content: content.clone(),
            // A result without an id may belong to another call. It is marked as an error, so that the model does not
            // rely on it.
            is_error: *is_error || call_id.trim().is_empty(),
        };
        let message = Arc::new(Message { role: Role::Tool, content: vec![block] });
        Some(Entry { message, about: self.entry.about })
    }
}

impl Frame {
    fn of(answer: Entry, slots: Vec<Slot>) -> Self {
        let mut places: HashMap<String, CallSlots> = HashMap::new();
        for (at, slot) in slots.iter().enumerate() {
            let id = slot.id.trim().to_owned();
            places
                .entry(id)
                .or_insert_with(|| CallSlots { first: at, open: VecDeque::new() })
                .open
                .push_back(at);
        }
        Self { answer: Some(answer), slots, places, ..Self::default() }
    }

    /// Gives a result to the call it belongs to.
    fn take(&mut self, found: FoundResult, notes: &mut RuleLog) {
        let id = found.call_id();
        // A result without an id can only belong to the answer's one call.
        if id.is_empty() {
            let fits = |slot: &Slot| found.name().trim().is_empty() || found.name() == slot.name;
            match self.slots.as_mut_slice() {
                [slot] if slot.result.is_none() && fits(slot) => {
                    slot.result = Some(found);
                    self.filled += 1;
                    self.places.values_mut().for_each(|places| places.open.clear());
                }
                _ => notes.add(Rule::OrphanResult, &found.entry),
            }
            return;
        }
        let Some(places) = self.places.get_mut(id) else {
            self.left.push(found);
            return;
        };
        if let Some(place) = places.open.pop_front() {
            let is_next = self.filled == place;
            self.filled += 1;
            if !is_next || !self.others.is_empty() {
                notes.add(Rule::MovedResult, &found.entry);
            }
            self.slots[place].result = Some(found);
            return;
        }
        // A real result that comes later replaces the text that flock had filled in.
        let is_filler = |slot: &Slot| slot.result.as_ref().is_some_and(FoundResult::is_filler);
        let slot = &mut self.slots[places.first];
        if is_filler(slot) && !found.is_filler() {
            notes.add(Rule::MovedResult, &found.entry);
            slot.result = Some(found);
        } else {
            // The first result of a call counts.
            notes.add(Rule::OrphanResult, &found.entry);
        }
    }

    fn emit_paired(self, entries: &mut Vec<Entry>, missing: MissingResultText, notes: &mut RuleLog) {
        let Some(answer) = self.answer else {
            entries.extend(self.others);
            return;
        };
        let about = answer.about.clone();
        entries.push(answer);
        for slot in self.slots {
            let Slot { id, name, result } = slot;
            let entry = result.and_then(|found| found.into_entry(&id, &name, notes));
            entries.push(entry.unwrap_or_else(|| {
                let filler = filler(id, name, missing, &about);
                notes.add(Rule::MissingResult, &filler);
                filler
            }));
        }
        entries.extend(self.others);
    }
}

/// Returns a result for a call without one. It is the same in each request, so that the provider's cache stays valid.
fn filler(id: String, name: String, missing: MissingResultText, about: &EntryMetadata) -> Entry {
    let text = match missing {
        MissingResultText::Aborted => ABORTED,
        MissingResultText::Sentence => NO_RESULT,
    };
    let result = Block::ToolResult { call_id: id, name, content: [Block::text(text)].into(), is_error: true };
    Entry {
        message: Arc::new(Message { role: Role::Tool, content: vec![result] }),
        about: Arc::new(EntryMetadata { id: about.id.clone(), at: about.at, ..EntryMetadata::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more processor time than pairing needs, and far less than it would need if each result were searched for among
    /// all calls.
    const TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(8);

    #[test]
    fn many_calls_and_results_are_paired_in_one_pass() {
        const MANY: usize = 8_000;
        let call = |n: usize| Block::call(format!("a{n}"), "t", serde_json::json!({}));
        let result = |n: usize| {
            let content = [Block::text("r")].into();
            let block =
                Block::ToolResult { call_id: format!("a{n}"), name: "t".into(), content, is_error: false };
            Message { role: Role::Tool, content: vec![block] }
        };
        let answer = |content: Vec<Block>| Message { role: Role::Assistant, content };
        let began = crate::clock::thread_cpu_time();
        // Each result long after its call, and all calls of one answer with their results in reverse order.
        let late = (0..MANY).map(|n| answer(vec![call(n)])).chain((0..MANY).map(result));
        let turned =
            std::iter::once(answer((0..MANY).map(call).collect())).chain((0..MANY).rev().map(result));
        for messages in [late.collect::<Vec<_>>(), turned.collect()] {
            let entry = |message: Message| Entry { message: Arc::new(message), about: Arc::default() };
            let mut entries: Vec<Entry> = messages.into_iter().map(entry).collect();
            pair(&mut entries, MissingResultText::Sentence, &mut RuleLog::default());
            assert!(is_paired(&entries));
            let filled = |entry: &Entry| {
                matches!(&entry.message.content[..], [Block::ToolResult { is_error: true, .. }])
            };
            assert!(!entries.iter().any(filled), "no result is missing");
        }
        let spent = crate::clock::thread_cpu_time() - began;
        assert!(spent < TIME_LIMIT, "{spent:?}");
    }
}
