//! The conversation of a session as its model reads it: the result of the last compaction, the turns since, the input,
//! and the steps of the current turn.
//!
//! Pure: the owner of a context writes its compactions to the transcript. Adapting the conversation to a model's API is
//! done in [`super::transcript::hygiene`]. A call is never separated from its results here, and messages to the agent
//! in the current turn are never taken out.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::client_tools::{OpenCall, client_call_id};
use super::compaction::findings::{self, Findings};
use super::compaction::marker::{self, MarkerInput};
use super::compaction::retention::{self, RetentionItem};
use super::compaction::{COMPACT_ABOVE_PERCENT, MIN_GAIN_PERCENT, TARGET_PERCENT, shrink, summary};
use super::estimate::{ImageEstimate, MESSAGE_TOKENS, TIME_TOKENS, cost};
use super::history::{replay, shown_as};
use super::imported;
use super::prefix_cache::Prefix;
use super::transcript::{
    CompactionRecord, Entry, EntryKind, EntryMetadata, MessageRecord, RecentConversation,
};
use crate::clean;
use crate::id::TurnId;
use crate::provider::{Block, Message, Role};

/// Tokens of a delivered message besides its text.
const DELIVERY_TOKENS: u64 = MESSAGE_TOKENS + TIME_TOKENS;

/// The most completed tasks that a compaction keeps, and the most characters of each.
const MAX_COMPLETED: usize = 100;
const MAX_COMPLETED_CHARS: usize = 200;

/// A conversation with a limit on its tokens.
#[derive(Clone, Debug)]
pub struct ConversationContext {
    room: u64,
    images: ImageEstimate,
    zone: TimeZone,
    items: Vec<ContextItem>,
    /// Number of leading items that replace what was taken out.
    head: usize,
    /// The messages to the agent in this turn, as stored.
    said: Vec<MessageRecord>,
    /// `true` if those messages are in the transcript.
    has_begun: bool,
    /// `true` if the transcript has older messages that were neither loaded nor taken out by a compaction.
    has_more: bool,
    /// The first message of the conversation, as stored.
    first: Option<Box<MessageRecord>>,
    last: Option<Box<CompactionRecord>>,
    /// The conversation as in the transcript, if this one was shortened for a single model.
    whole: Option<Box<Self>>,
    /// `true` if the last message was imported. The next user message is then the first that was not.
    is_elsewhere: bool,
    /// A cached prefix in front of all items.
    prefix: Option<Prefix>,
    /// The calls of the last answer that have no result yet. The turn that comes answers them.
    open: Vec<OpenCall>,
    /// The turn of the last answer that was loaded.
    answered_by: Option<TurnId>,
}

#[derive(Clone, Debug)]
struct ContextItem {
    entry: Entry,
    cost: u64,
    place: ItemRole,
    is_of_this_turn: bool,
}

/// The role of an item in a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemRole {
    /// The first message of the conversation, in front of the marker.
    Initial,
    Marker,
    /// A message to the agent in this turn.
    Said,
    /// An item that can be taken out.
    Free,
}

/// The inputs of a compaction besides the conversation.
#[derive(Clone, Copy, Debug)]
pub struct CompactionInput<'a> {
    /// The notes that the agent keeps on disk.
    pub findings: &'a Findings,
    /// The most staged files that are named.
    pub most_staged: usize,
    /// The turn that compacts, or `None` if a person asked for it.
    pub turn: Option<TurnId>,
    /// The current time in Unix milliseconds.
    pub at: i64,
}

/// A compaction that is not written yet. It is applied after it is written.
#[derive(Clone, Debug)]
pub struct CompactionDraft {
    /// The record to write.
    pub record: CompactionRecord,
    /// Index behind the head of the first item that stays.
    from: usize,
}

impl ConversationContext {
    /// Creates the context from a transcript's recent messages.
    #[must_use]
    pub fn new(room: u64, images: ImageEstimate, zone: &TimeZone, recent: RecentConversation) -> Self {
        let RecentConversation { mut compaction, messages, is_import, has_more, first, .. } = recent;
        // An imported compaction is untrusted text, so it is quoted before it is used.
        if let Some(compaction) = compaction.as_mut().filter(|_| is_import) {
            imported::compaction(compaction);
        }
        let of_user = |record: &&MessageRecord| record.message.role == Role::User;
        let first = match &compaction {
            // The last compaction has a copy of the first message, because the record itself is usually not read any
            // more.
            Some(compaction) if compaction.initial.is_some() => compaction.initial.clone(),
            _ => first.or_else(|| messages.iter().find(of_user).cloned()).map(Box::new),
        };
        let mut context = Self {
            room,
            images,
            zone: zone.clone(),
            items: Vec::with_capacity(messages.len() + 16),
            head: 0,
            said: Vec::new(),
            has_begun: true,
            has_more,
            first,
            last: None,
            whole: None,
            is_elsewhere: is_import,
            prefix: None,
            open: Vec::new(),
            answered_by: None,
        };
        if let Some(compaction) = compaction {
            context.items = context.replacement_items(&compaction, false);
            context.head = context.items.len();
            for record in &compaction.said {
                context.add(record, ItemRole::Free, false);
            }
            context.last = Some(compaction);
        }
        for mut record in messages {
            // The message is moved out of its record, because copying a long conversation would be slow.
            let nothing = Message { role: record.message.role, content: Vec::new() };
            let message = std::mem::replace(&mut record.message, nothing);
            let message = shown_as(message, &record, &context.zone);
            if message.role == Role::Assistant {
                context.answered_by = Some(record.turn).filter(|_| !record.imported);
            }
            context.add_message(&record, message, ItemRole::Free, false);
        }
        context.open_last_step();
        context
    }

    /// Looks for calls without a result at the end of the conversation. The step that they belong to counts as one of
    /// the turn that comes: no compaction takes it out before its results are there.
    fn open_last_step(&mut self) {
        let Some(turn) = self.answered_by else { return };
        let from = self.items.iter().rposition(|item| item.entry.role() != Role::Tool);
        let Some(from) = from.filter(|at| self.items[*at].entry.role() == Role::Assistant) else { return };
        let results = self.items[from + 1..].iter().flat_map(|item| &item.entry.message.content);
        let answered: Vec<&str> = results
            .filter_map(|block| match block {
                Block::ToolResult { call_id, .. } => Some(call_id.as_str()),
                _ => None,
            })
            .collect();
        let calls = self.items[from].entry.message.tool_calls().enumerate();
        let open = calls.filter(|(_, call)| !answered.contains(&call.id));
        self.open = open
            .map(|(place, call)| OpenCall {
                id: client_call_id(turn, place),
                call_id: call.id.to_owned(),
                name: call.name.to_owned(),
            })
            .collect();
        if !self.open.is_empty() {
            for item in &mut self.items[from..] {
                item.is_of_this_turn = true;
            }
        }
    }

    /// Returns the calls of the last answer that have no result yet.
    pub(super) fn open_calls(&self) -> &[OpenCall] {
        &self.open
    }

    /// Puts the context behind a cached prefix. Until [`Self::unfold`] has read that prefix, the context can only be
    /// extended and sent.
    pub(super) fn behind(self, prefix: Prefix) -> Self {
        Self { prefix: Some(prefix), ..self }
    }

    /// Returns the cached prefix, if there is one.
    pub(super) const fn prefix(&self) -> Option<&Prefix> {
        self.prefix.as_ref()
    }

    /// Replaces the cached prefix by the messages it was made from.
    pub(super) fn unfold(&mut self, read: RecentConversation) {
        self.prefix = None;
        let before = Self::new(self.room, self.images, &self.zone, read);
        self.items.splice(..0, before.items);
        self.head = before.head;
        self.has_more |= before.has_more;
        self.first = before.first.or_else(|| self.first.take());
        self.last = before.last;
    }

    /// Returns the messages of earlier turns behind the cached prefix, with their cost. Empty if the context is more
    /// than a plain list of all messages, for instance after a compaction.
    pub(super) fn earlier(&self) -> Vec<(&Entry, u64)> {
        let is_shortened = self.head > 0 || self.last.is_some() || self.has_more || self.whole.is_some();
        if is_shortened || self.is_elsewhere || !self.open.is_empty() {
            return Vec::new();
        }
        let earlier = self.items.iter().take_while(|item| !item.is_of_this_turn);
        earlier.map(|item| (&item.entry, item.cost)).collect()
    }

    /// Adds the input of a turn, which is not in the transcript yet.
    pub fn ask(&mut self, said: &[MessageRecord]) {
        self.has_begun = false;
        for record in said {
            // The results of open calls belong to the step before, and go with it.
            if record.message.role == Role::Tool && self.said.is_empty() {
                self.add(record, ItemRole::Free, true);
                if let Some(whole) = &mut self.whole {
                    whole.add(record, ItemRole::Free, true);
                }
            } else {
                self.deliver(record);
            }
        }
    }

    /// Records that the input is now in the transcript.
    pub fn begun(&mut self) {
        self.has_begun = true;
        if let Some(whole) = &mut self.whole {
            whole.begun();
        }
    }

    /// Adds a message that was delivered between two steps and is in the transcript.
    pub(crate) fn deliver(&mut self, record: &MessageRecord) {
        // The first user message of a new conversation, kept for its first compaction.
        if self.first.is_none() && record.message.role == Role::User {
            self.first = Some(Box::new(record.clone()));
        }
        self.said.push(record.clone());
        self.add(record, ItemRole::Said, true);
        if let Some(whole) = &mut self.whole {
            whole.deliver(record);
        }
    }

    /// Adds a step of the turn: the model's answer and the results of all its calls.
    pub fn step(&mut self, answer: &MessageRecord, results: Vec<Block>) {
        // The complete copy follows every change, because it takes over again when another model is asked.
        if let Some(whole) = &mut self.whole {
            whole.step(answer, results.clone());
        }
        self.add(answer, ItemRole::Free, true);
        if !results.is_empty() {
            let about = EntryMetadata { at: answer.at, ..EntryMetadata::default() };
            let message = Message { role: Role::Tool, content: results };
            let entry = Entry { message: Arc::new(message), about: Arc::new(about) };
            let item = self.item(entry, ItemRole::Free, true);
            self.items.push(item);
        }
    }

    fn add(&mut self, record: &MessageRecord, place: ItemRole, is_of_this_turn: bool) {
        self.add_message(record, replay(record, &self.zone), place, is_of_this_turn);
    }

    fn add_message(
        &mut self,
        record: &MessageRecord,
        mut message: Message,
        place: ItemRole,
        is_of_this_turn: bool,
    ) {
        if record.imported {
            self.is_elsewhere = true;
        } else if self.is_elsewhere && message.role == Role::User {
            // The first user message after imported ones gets a note that separates the two.
            self.is_elsewhere = false;
            message.content.insert(0, Block::text(imported::IMPORT_END_NOTE));
        }
        let item = self.item(Entry::stored(record, message), place, is_of_this_turn);
        self.items.push(item);
    }

    fn item(&self, entry: Entry, place: ItemRole, is_of_this_turn: bool) -> ContextItem {
        let cost = cost(&entry.message.content, self.images);
        ContextItem { entry, cost, place, is_of_this_turn }
    }

    /// Returns everything that the model reads, before hygiene.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.items.iter().map(|item| item.entry.clone()).collect()
    }

    /// Returns the estimated tokens of all messages.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.prefix.as_ref().map_or(0, |prefix| prefix.tokens) + sum(&self.items)
    }

    /// Returns the estimated tokens of the messages behind the cached prefix.
    #[must_use]
    pub(crate) fn uncached_cost(&self) -> u64 {
        sum(&self.items)
    }

    /// Returns the tokens available for the messages.
    #[must_use]
    pub const fn room(&self) -> u64 {
        self.room
    }

    /// Returns the number of messages behind the cached prefix.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if there are no messages behind the cached prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the last compaction of the conversation.
    #[must_use]
    pub fn last(&self) -> Option<&CompactionRecord> {
        self.last.as_deref()
    }

    /// Returns the tokens of text that can be delivered now: half of what is free once earlier turns are taken out. The
    /// other half lets the turn go on after it.
    #[must_use]
    pub fn free(&self) -> u64 {
        // Everything else can be taken out by a compaction.
        let stays = |item: &&ContextItem| item.is_of_this_turn || item.place != ItemRole::Free;
        let taken: u64 = self.items.iter().filter(stays).map(|item| item.cost).sum();
        (self.room.saturating_sub(taken) / 2).saturating_sub(DELIVERY_TOKENS)
    }

    /// Returns `true` if room should be made before the model is asked.
    #[must_use]
    pub(crate) fn is_near_full(&self) -> bool {
        self.has_more || self.cost() > percent_of(self.room, COMPACT_ABOVE_PERCENT)
    }

    /// Switches the context to another model with this much room. Messages that were left out only for the previous
    /// model come back.
    pub(crate) fn switch_model(&mut self, room: u64, images: ImageEstimate) {
        if let Some(whole) = self.whole.take() {
            *self = *whole;
        }
        self.room = room;
        if self.images != images {
            self.images = images;
            for item in &mut self.items {
                item.cost = cost(&item.entry.message.content, images);
            }
        }
    }

    /// Halves the room after the provider counted more tokens than the estimate.
    pub(crate) fn narrow(&mut self) {
        // Half of the refused cost, because the room may be far larger than what was refused.
        self.room = self.cost().min(self.room) / 2;
    }

    /// Returns a compaction that makes room, if it gains enough to be worth it. `asked` makes one whenever anything can
    /// be taken out.
    #[must_use]
    pub fn draft(&self, wanted: &CompactionInput<'_>, asked: bool) -> Option<CompactionDraft> {
        // The head replaces earlier messages already. It is rebuilt, so only the items behind it can be taken out.
        let items = &self.items[self.head..];
        let pieces: Vec<RetentionItem> = items
            .iter()
            .map(|item| RetentionItem {
                role: item.entry.role(),
                cost: item.cost,
                stays: item.place == ItemRole::Said,
            })
            .collect();
        // An imported message can't say which tasks this agent has done.
        let heard = findings::heard(
            items.iter().filter(|item| !item.entry.about.imported).map(|item| &*item.entry.message),
            &wanted.findings.mission,
        );
        let completed = self.completed(&heard.done);
        let number = self.last.as_ref().map_or(0, |last| last.number).saturating_add(1);
        let marker = |taken_out| {
            let facts = MarkerInput {
                number,
                taken_out,
                findings: wanted.findings,
                completed: &completed,
                heard: &heard,
                most_staged: wanted.most_staged,
            };
            shrink::marker(&marker::text(&facts), shrink::marker_limit(self.room))
        };
        let initial = self.initial();
        let summary = self.last.as_ref().and_then(|last| last.summary.clone());
        let mut record = CompactionRecord {
            id: uuid::Uuid::now_v7().to_string(),
            at: wanted.at,
            turn: wanted.turn,
            number,
            initial,
            // An upper bound for now: the final number is known once the cut is.
            marker: marker(pieces.len()),
            summary,
            completed: completed.clone(),
            said: Vec::new(),
            keep_from: None,
            tokens_before: self.cost(),
            tokens_after: 0,
        };
        let standing = sum(&self.replacement_items(&record, false));
        // Messages that stay cost their part of the target before anything else is kept.
        let stays = pieces.iter().filter(|piece| piece.stays).map(|piece| piece.cost).sum::<u64>();
        let mut target = percent_of(self.room, TARGET_PERCENT);
        // A person who asks for a compaction wants a shorter conversation, even if there is still room.
        if asked {
            target = target.min(self.cost() / 2);
        }
        let budget = target.saturating_sub(standing + stays);
        let from = match retention::keep_from(&pieces, budget, self.last_step_index()) {
            Some(from) => from,
            // Older messages that were never loaded are already left out. A compaction has to state that, even if it
            // takes out nothing more.
            None if self.has_more => pieces.iter().position(|piece| piece.role != Role::Tool)?,
            None => return None,
        };
        let taken_out = items[..from].iter().filter(|item| item.place == ItemRole::Free).count();
        record.marker = marker(taken_out);
        self.keep(&mut record, from);
        record.tokens_after = sum(&self.applied(&record, from));
        let gain = record.tokens_before.saturating_sub(record.tokens_after);
        let is_needed = asked || self.has_more || record.tokens_before > self.room;
        (is_needed || gain >= percent_of(self.room, MIN_GAIN_PERCENT))
            .then_some(CompactionDraft { record, from })
    }

    /// Records which messages stay besides those that replace the rest.
    fn keep(&self, record: &mut CompactionRecord, from: usize) {
        let (out, kept) = self.items[self.head..].split_at(from);
        let is_kept = |id: &str| kept.iter().any(|item| item.entry.about.id == id);
        // The first message needs no copy in the record if it is still among the kept messages.
        if record.initial.as_ref().is_some_and(|initial| is_kept(&initial.id)) {
            record.initial = None;
        }
        let initial = record.initial.as_ref().map(|initial| initial.id.as_str());
        let stays = |said: &&MessageRecord| {
            Some(said.id.as_str()) != initial
                && out.iter().any(|item| item.place == ItemRole::Said && item.entry.about.id == said.id)
        };
        record.said = self.said.iter().filter(stays).cloned().collect();
        // Input that is not in the transcript yet will be written after this record, so it can't be named as the first
        // kept message.
        let is_stored = |item: &&ContextItem| self.has_begun || item.place != ItemRole::Said;
        record.keep_from = kept.iter().find(is_stored).map(|item| item.entry.about.id.clone());
    }

    /// Applies a compaction that is now in the transcript.
    pub(crate) fn apply(&mut self, draft: CompactionDraft) {
        let CompactionDraft { record, from } = draft;
        self.items = self.applied(&record, from);
        let is_replacement = |item: &&ContextItem| matches!(item.place, ItemRole::Initial | ItemRole::Marker);
        self.head = self.items.iter().take_while(is_replacement).count();
        self.has_more = false;
        self.last = Some(Box::new(record));
    }

    /// Applies a compaction only to what this model reads. The transcript does not have it.
    pub(crate) fn shorten(&mut self, draft: CompactionDraft) {
        // The first of several keeps the whole conversation; the later ones shorten what is shown still more.
        let whole = self.whole.take().unwrap_or_else(|| Box::new(self.clone()));
        self.apply(draft);
        self.whole = Some(whole);
    }

    fn applied(&self, record: &CompactionRecord, from: usize) -> Vec<ContextItem> {
        let is_of_this_turn =
            record.initial.as_ref().is_some_and(|first| self.said.iter().any(|said| said.id == first.id));
        let mut items = self.replacement_items(record, is_of_this_turn);
        let (out, kept) = self.items[self.head..].split_at(from);
        // Messages to the agent in this turn stay even if they are older than the cut.
        let said = |item: &&ContextItem| record.said.iter().any(|said| said.id == item.entry.about.id);
        items.extend(out.iter().filter(said).cloned());
        items.extend(kept.iter().cloned());
        items
    }

    /// Returns the text that a compaction takes out, for a summary, together with the summary of the compaction before.
    #[must_use]
    pub(crate) fn outgoing(&self, draft: &CompactionDraft) -> String {
        let out = &self.items[self.head..][..draft.from];
        let free = out.iter().filter(|item| item.place == ItemRole::Free).map(|item| &*item.entry.message);
        summary::spoken(draft.record.summary.as_deref(), free)
    }

    /// Sets the summary of a compaction that is not written yet.
    pub(crate) fn summarise(&self, draft: &mut CompactionDraft, summary: String) {
        draft.record.summary = Some(summary);
        draft.record.tokens_after = sum(&self.applied(&draft.record, draft.from));
    }

    /// Makes the messages fit by cutting items that can't be taken out: first the results of the last step, then the
    /// marker, then the first message of the conversation.
    pub fn fit(&mut self) {
        // Only the last message of results is cut: earlier ones could have been taken out.
        if self.cost() > self.room
            && let Some(at) = self.items.iter().rposition(|item| item.entry.role() == Role::Tool)
        {
            let room = self.room.saturating_sub(self.cost() - self.items[at].cost);
            self.change(at, |message, images| shrink::results(message, room, images));
        }
        for place in [ItemRole::Marker, ItemRole::Initial] {
            if self.cost() <= self.room {
                return;
            }
            let is_it = |item: &ContextItem| item.place == place && !item.is_of_this_turn;
            let Some(at) = self.items.iter().position(is_it) else { continue };
            let room = self.room;
            self.change(at, |message, _| match place {
                ItemRole::Marker => shrink_marker(message, room),
                _ => shrink::message(message, room / 8),
            });
        }
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Message, ImageEstimate)) {
        let images = self.images;
        let item = &mut self.items[at];
        change(Arc::make_mut(&mut item.entry.message), images);
        item.cost = cost(&item.entry.message.content, images);
    }

    /// Returns the index behind the head at which the last step of this turn begins. That step is never taken out.
    fn last_step_index(&self) -> usize {
        let items = &self.items[self.head..];
        let is_step = |item: &ContextItem| {
            item.is_of_this_turn && item.place == ItemRole::Free && item.entry.role() != Role::Tool
        };
        items.iter().rposition(is_step).unwrap_or(items.len())
    }

    fn completed(&self, done: &[String]) -> Vec<String> {
        let mut completed = self.last.as_ref().map_or_else(Vec::new, |last| last.completed.clone());
        for task in done {
            let task = clean::label(task, MAX_COMPLETED_CHARS);
            if !completed.contains(&task) {
                completed.push(task);
            }
        }
        // The oldest tasks go first when there are too many.
        let over = completed.len().saturating_sub(MAX_COMPLETED);
        completed.drain(..over);
        completed
    }

    /// Returns the first message of the conversation, cut to a quarter of the room. It stays whole if it is the message
    /// that this turn answers.
    fn initial(&self) -> Option<Box<MessageRecord>> {
        let mut first = self.first.clone()?;
        let is_asked = self.said.iter().any(|said| said.id == first.id);
        if !is_asked && cost(&first.message.content, self.images) > self.room / 4 {
            shrink::message(&mut first.message, self.room / 4);
        }
        Some(first)
    }

    /// Returns the items that replace everything that a compaction took out.
    fn replacement_items(&self, record: &CompactionRecord, is_of_this_turn: bool) -> Vec<ContextItem> {
        let mut items = Vec::with_capacity(2);
        if let Some(initial) = &record.initial {
            let entry = Entry::stored(initial, replay(initial, &self.zone));
            items.push(self.item(entry, ItemRole::Initial, is_of_this_turn));
        }
        let about = EntryMetadata {
            id: record.id.clone(),
            at: record.at,
            kind: EntryKind::Compacted,
            ..EntryMetadata::default()
        };
        let mut content = vec![Block::text(record.marker.clone())];
        content.extend(record.summary.as_deref().map(|summary| Block::text(quote_summary(summary))));
        let message = Arc::new(Message { role: Role::User, content });
        items.push(self.item(Entry { message, about: Arc::new(about) }, ItemRole::Marker, false));
        items
    }
}

fn sum(items: &[ContextItem]) -> u64 {
    items.iter().map(|item| item.cost).sum()
}

/// Returns so many hundredths of a room.
const fn percent_of(room: u64, hundredths: u64) -> u64 {
    room.saturating_mul(hundredths) / 100
}

/// Formats a model's summary with a bar before each line, so that it can't imitate the marker above it.
fn quote_summary(summary: &str) -> String {
    let lines: Vec<String> = summary.lines().map(|line| format!("| {line}")).collect();
    format!("\nA model's summary of the removed messages, which may be wrong:\n{}", lines.join("\n"))
}

/// Shrinks a marker. The summary is dropped first, because only the marker is known to be true.
fn shrink_marker(message: &mut Message, room: u64) {
    message.content.truncate(1);
    if let Some(Block::Text { text, .. }) = message.content.first_mut() {
        *text = shrink::marker(text, shrink::marker_limit(room));
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
