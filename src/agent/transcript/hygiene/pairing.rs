//! Calls and results: after each answer that calls come its results, one for each call, in the calls' order, before
//! anything else. Every route refuses a conversation where that is not so.
//!
//! A frame is an answer with calls and all that follows up to the next one. An answer of text alone does not end it:
//! one that was put between a call and its result must not hide the result.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::applied::{Notes, Rule};
use super::policy::Missing;
use crate::agent::transcript::{About, Entry, INTERRUPTED};
use crate::provider::message::ToolCall;
use crate::provider::{Block, Message, Role};

/// What stands for a missing result on Responses.
pub(super) const ABORTED: &str = "aborted";

/// What stands for it everywhere else.
pub(super) const NO_RESULT: &str =
    "[flock: the result of this call is missing from the conversation; what the call did is not known]";

/// A result and the message it was in.
struct Found {
    entry: Entry,
    /// Its place in the message.
    at: usize,
}

/// A call and its result.
struct Slot {
    id: String,
    name: String,
    result: Option<Found>,
}

/// An answer that calls, or what comes before the first.
#[derive(Default)]
struct Frame {
    answer: Option<Entry>,
    slots: Vec<Slot>,
    others: Vec<Entry>,
    /// Results that fit no call of this frame.
    left: Vec<Found>,
    /// The slots of each id, and of those the ones that wait.
    places: HashMap<String, Places>,
    /// How many slots have a result.
    filled: usize,
}

/// Where calls of one id are among those of an answer.
#[derive(Default)]
struct Places {
    first: usize,
    /// Those without a result, in their order.
    open: VecDeque<usize>,
}

/// Brings calls and results together.
pub(super) fn pair(entries: &mut Vec<Entry>, missing: Missing, notes: &mut Notes) {
    if is_paired(entries) {
        return;
    }
    let mut frames = frames(std::mem::take(entries), notes);
    give_back(&mut frames, notes);
    for frame in frames {
        frame.emit(entries, missing, notes);
    }
}

/// Whether there is nothing to do: each answer's results, complete and in order, directly follow it.
pub(super) fn is_paired(entries: &[Entry]) -> bool {
    first_unpaired(entries).is_none()
}

/// Where the first message is that is not answered as it has to be, or answers nothing.
pub(super) fn first_unpaired(entries: &[Entry]) -> Option<usize> {
    let mut at = 0;
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

fn frames(entries: Vec<Entry>, notes: &mut Notes) -> Vec<Frame> {
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
                frame.take(Found { entry: entry.clone(), at }, notes);
            }
        } else {
            frame.others.push(entry);
        }
    }
    frames
}

/// A result that came too late for its frame goes to the earlier call that waits for it, if there is exactly one.
fn give_back(frames: &mut [Frame], notes: &mut Notes) {
    // The slots of each id that wait in the frames before this one.
    let mut waiting: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
    for late in 0..frames.len() {
        for found in std::mem::take(&mut frames[late].left) {
            let only = match waiting.get_mut(found.call_id()) {
                Some(places) if places.len() == 1 => places.pop(),
                _ => None,
            };
            if let Some((frame, slot)) = only {
                notes.add(Rule::Moved, &found.entry);
                frames[frame].slots[slot].result = Some(found);
            } else {
                notes.add(Rule::OrphanResult, &found.entry);
            }
        }
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

impl Found {
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

    /// Whether flock wrote it in the place of a missing one.
    fn is_filler(&self) -> bool {
        let Some(Block::ToolResult { content, is_error: true, .. }) = self.block() else { return false };
        matches!(&**content, [Block::Text { text, .. }] if [ABORTED, NO_RESULT, INTERRUPTED].contains(&text.as_str()))
    }

    /// The result as a message of its own, with the id and the name of its call.
    fn into_entry(self, slot_id: &str, slot_name: &str, notes: &mut Notes) -> Option<Entry> {
        let Some(Block::ToolResult { call_id, name, content, is_error }) = self.block() else { return None };
        if call_id == slot_id && name == slot_name && self.entry.message.content.len() == 1 {
            return Some(self.entry);
        }
        if call_id != slot_id || name != slot_name {
            notes.add(Rule::Moved, &self.entry);
        }
        let block = Block::ToolResult {
            call_id: slot_id.to_owned(),
            name: slot_name.to_owned(),
            content: content.clone(),
            // Nobody knows for sure that a result without an id is this call's.
            is_error: *is_error || call_id.trim().is_empty(),
        };
        let message = Arc::new(Message { role: Role::Tool, content: vec![block] });
        Some(Entry { message, about: self.entry.about })
    }
}

impl Frame {
    fn of(answer: Entry, slots: Vec<Slot>) -> Self {
        let mut places: HashMap<String, Places> = HashMap::new();
        for (at, slot) in slots.iter().enumerate() {
            let id = slot.id.trim().to_owned();
            places
                .entry(id)
                .or_insert_with(|| Places { first: at, open: VecDeque::new() })
                .open
                .push_back(at);
        }
        Self { answer: Some(answer), slots, places, ..Self::default() }
    }

    /// Gives a result to the call it belongs to.
    fn take(&mut self, found: Found, notes: &mut Notes) {
        let id = found.call_id();
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
                notes.add(Rule::Moved, &found.entry);
            }
            self.slots[place].result = Some(found);
            return;
        }
        let is_filler = |slot: &Slot| slot.result.as_ref().is_some_and(Found::is_filler);
        let slot = &mut self.slots[places.first];
        if is_filler(slot) && !found.is_filler() {
            notes.add(Rule::Moved, &found.entry);
            slot.result = Some(found);
        } else {
            // The first one counts.
            notes.add(Rule::OrphanResult, &found.entry);
        }
    }

    fn emit(self, entries: &mut Vec<Entry>, missing: Missing, notes: &mut Notes) {
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

/// A result for a call that has none: the same at each request, so that a provider's cache holds.
fn filler(id: String, name: String, missing: Missing, about: &About) -> Entry {
    let text = match missing {
        Missing::Aborted => ABORTED,
        Missing::Sentence => NO_RESULT,
    };
    let result = Block::ToolResult { call_id: id, name, content: [Block::text(text)].into(), is_error: true };
    Entry {
        message: Arc::new(Message { role: Role::Tool, content: vec![result] }),
        about: Arc::new(About { id: about.id.clone(), at: about.at, ..About::default() }),
    }
}
