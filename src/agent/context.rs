//! The conversation of a session as its model is shown it: what the last compaction left, the turns since, the
//! input, the steps of this turn. Pure: what is taken out is written to the transcript by whoever holds it.
//!
//! What of it a model's route takes is [`super::transcript::hygiene`]'s. Here a call is never parted from its results, and
//! what was said to the agent in the turn that runs is never taken out.

use std::sync::Arc;

use jiff::tz::TimeZone;

use super::compaction::compact::{self, Piece};
use super::compaction::findings::{self, Findings};
use super::compaction::marker::{self, Facts};
use super::compaction::{FULL, KEPT, WORTH, shrink, summary};
use super::estimate::{Images, MESSAGE_TOKENS, TIME_TOKENS, cost};
use super::foreign;
use super::history::{replay, shown_as};
use super::prefix_cache::Prefix;
use super::transcript::{About, CompactionRecord, Entry, Kind, MessageRecord, Recent};
use crate::clean;
use crate::id::TurnId;
use crate::provider::{Block, Message, Role};

/// What a delivered message costs besides its text.
const DELIVERY_TOKENS: u64 = MESSAGE_TOKENS + TIME_TOKENS;

/// The most tasks that a compaction carries on, and the most characters of one.
const MOST_COMPLETED: usize = 100;
const COMPLETED_CHARS: usize = 200;

/// A conversation with room for so many tokens.
#[derive(Clone, Debug)]
pub struct Context {
    room: u64,
    images: Images,
    zone: TimeZone,
    items: Vec<Item>,
    /// How many items, the first, stand for what was taken out.
    head: usize,
    /// What was said to the agent in this turn, as it is stored.
    said: Vec<MessageRecord>,
    /// Whether that is in the transcript.
    has_begun: bool,
    /// Whether the transcript holds something that is neither shown nor taken out by a compaction.
    has_more: bool,
    /// The message that the conversation began with, as it is stored.
    first: Option<Box<MessageRecord>>,
    last: Option<Box<CompactionRecord>>,
    /// The conversation as the transcript has it, where what is shown was made shorter for one model alone.
    whole: Option<Box<Self>>,
    /// Whether what was shown last was brought from elsewhere: what a user says next is the first that was not.
    is_elsewhere: bool,
    /// What goes before all items, where the beginning was kept from an earlier request.
    prefix: Option<Prefix>,
}

#[derive(Clone, Debug)]
struct Item {
    entry: Entry,
    cost: u64,
    place: Place,
    is_of_this_turn: bool,
}

/// What something is in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The message that it began with, in front of the marker.
    Initial,
    Marker,
    /// It was said to the agent in this turn.
    Said,
    /// It makes way where there is no room.
    Free,
}

/// What a compaction takes besides the conversation.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What is on disk.
    pub findings: &'a Findings,
    /// The most staged files that are named.
    pub most_staged: usize,
    /// The turn that makes it; none where a person asks for it.
    pub turn: Option<TurnId>,
    /// Now, in Unix milliseconds.
    pub at: i64,
}

/// A compaction that is to be written, and then applied.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What is written.
    pub record: CompactionRecord,
    /// Where what is kept begins.
    from: usize,
}

impl Context {
    /// The conversation that a transcript holds.
    #[must_use]
    pub fn new(room: u64, images: Images, zone: &TimeZone, recent: Recent) -> Self {
        let Recent { mut compaction, messages, is_import, has_more, first, .. } = recent;
        if let Some(compaction) = compaction.as_mut().filter(|_| is_import) {
            foreign::compaction(compaction);
        }
        let of_user = |record: &&MessageRecord| record.message.role == Role::User;
        let first = match &compaction {
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
        };
        if let Some(compaction) = compaction {
            context.items = context.standing_in(&compaction, false);
            context.head = context.items.len();
            for record in &compaction.said {
                context.add(record, Place::Free, false);
            }
            context.last = Some(compaction);
        }
        for mut record in messages {
            let nothing = Message { role: record.message.role, content: Vec::new() };
            let message = std::mem::replace(&mut record.message, nothing);
            let message = shown_as(message, &record, &context.zone);
            context.add_shown(&record, message, Place::Free, false);
        }
        context
    }

    /// The same behind a beginning that was kept. Before anything else is done with it than to add to it and to send it,
    /// that has to be read: see [`Self::unfold`].
    pub(super) fn behind(self, prefix: Prefix) -> Self {
        Self { prefix: Some(prefix), ..self }
    }

    /// The beginning that was kept, if this comes behind one.
    pub(super) const fn prefix(&self) -> Option<&Prefix> {
        self.prefix.as_ref()
    }

    /// Puts what was read in the place of the beginning that was kept.
    pub(super) fn unfold(&mut self, read: Recent) {
        self.prefix = None;
        let before = Self::new(self.room, self.images, &self.zone, read);
        self.items.splice(..0, before.items);
        self.head = before.head;
        self.has_more |= before.has_more;
        self.first = before.first.or_else(|| self.first.take());
        self.last = before.last;
    }

    /// What was said in earlier turns and is not in the beginning that was kept, with what it costs. Nothing where the
    /// conversation is not simply all that was said.
    pub(super) fn earlier(&self) -> Vec<(&Entry, u64)> {
        if self.head > 0 || self.last.is_some() || self.has_more || self.whole.is_some() || self.is_elsewhere
        {
            return Vec::new();
        }
        let earlier = self.items.iter().take_while(|item| !item.is_of_this_turn);
        earlier.map(|item| (&item.entry, item.cost)).collect()
    }

    /// The input of a turn, which is not in the transcript yet.
    pub fn ask(&mut self, said: &[MessageRecord]) {
        self.has_begun = false;
        for record in said {
            self.hear(record);
        }
    }

    /// The input is in the transcript now.
    pub fn begun(&mut self) {
        self.has_begun = true;
        if let Some(whole) = &mut self.whole {
            whole.begun();
        }
    }

    /// What was said to the agent between two steps, and is in the transcript.
    pub fn deliver(&mut self, record: &MessageRecord) {
        self.hear(record);
    }

    fn hear(&mut self, record: &MessageRecord) {
        if self.first.is_none() && record.message.role == Role::User {
            self.first = Some(Box::new(record.clone()));
        }
        self.said.push(record.clone());
        self.add(record, Place::Said, true);
        if let Some(whole) = &mut self.whole {
            whole.hear(record);
        }
    }

    /// A step of the turn: what the model said, and the results of all its calls.
    pub fn step(&mut self, answer: &MessageRecord, results: Vec<Block>) {
        if let Some(whole) = &mut self.whole {
            whole.step(answer, results.clone());
        }
        self.add(answer, Place::Free, true);
        if !results.is_empty() {
            let about = About { at: answer.at, ..About::default() };
            let message = Message { role: Role::Tool, content: results };
            let entry = Entry { message: Arc::new(message), about: Arc::new(about) };
            let item = self.item(entry, Place::Free, true);
            self.items.push(item);
        }
    }

    fn add(&mut self, record: &MessageRecord, place: Place, is_of_this_turn: bool) {
        self.add_shown(record, replay(record, &self.zone), place, is_of_this_turn);
    }

    fn add_shown(
        &mut self,
        record: &MessageRecord,
        mut message: Message,
        place: Place,
        is_of_this_turn: bool,
    ) {
        if record.imported {
            self.is_elsewhere = true;
        } else if self.is_elsewhere && message.role == Role::User {
            self.is_elsewhere = false;
            message.content.insert(0, Block::text(foreign::UP_TO_HERE));
        }
        let item = self.item(Entry::stored(record, message), place, is_of_this_turn);
        self.items.push(item);
    }

    fn item(&self, entry: Entry, place: Place, is_of_this_turn: bool) -> Item {
        let cost = cost(&entry.message.content, self.images);
        Item { entry, cost, place, is_of_this_turn }
    }

    /// Everything the model is shown, as it was said.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.items.iter().map(|item| item.entry.clone()).collect()
    }

    /// What the messages cost in all.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.prefix.as_ref().map_or(0, |prefix| prefix.tokens) + sum(&self.items)
    }

    /// What the messages cost that are not in a beginning that was kept.
    #[must_use]
    pub fn cost_behind(&self) -> u64 {
        sum(&self.items)
    }

    /// Tokens that there is room for.
    #[must_use]
    pub const fn room(&self) -> u64 {
        self.room
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The last compaction of the conversation.
    #[must_use]
    pub fn last(&self) -> Option<&CompactionRecord> {
        self.last.as_deref()
    }

    /// How many tokens of text can be delivered now: half of what is free once past turns are taken out, so that
    /// the turn can go on after it.
    #[must_use]
    pub fn free(&self) -> u64 {
        let stays = |item: &&Item| item.is_of_this_turn || item.place != Place::Free;
        let taken: u64 = self.items.iter().filter(stays).map(|item| item.cost).sum();
        (self.room.saturating_sub(taken) / 2).saturating_sub(DELIVERY_TOKENS)
    }

    /// Whether room should be made before the model is asked.
    #[must_use]
    pub fn is_near_full(&self) -> bool {
        self.has_more || self.cost() > share(self.room, FULL)
    }

    /// The conversation is for another model from now on, which has room for so many tokens. What was left out for the
    /// one before it alone is there again.
    pub fn go_to(&mut self, room: u64, images: Images) {
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

    /// Takes half of the room away, because the estimate was wrong.
    pub fn narrow(&mut self) {
        // Not half of the room, which may be far larger than what was refused.
        self.room = self.cost().min(self.room) / 2;
    }

    /// The compaction that makes room, where it would make enough to be worth it. `asked` makes one wherever
    /// there is anything to take out.
    #[must_use]
    pub fn draft(&self, wanted: &Wanted<'_>, asked: bool) -> Option<Draft> {
        let items = &self.items[self.head..];
        let pieces: Vec<Piece> = items
            .iter()
            .map(|item| Piece { role: item.entry.role(), cost: item.cost, stays: item.place == Place::Said })
            .collect();
        let heard = findings::heard(
            items.iter().filter(|item| !item.entry.about.imported).map(|item| &*item.entry.message),
            &wanted.findings.mission,
        );
        let completed = self.completed(&heard.done);
        let number = self.last.as_ref().map_or(0, |last| last.number).saturating_add(1);
        let marker = |taken_out| {
            let facts = Facts {
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
            marker: marker(pieces.len()),
            summary,
            completed: completed.clone(),
            said: Vec::new(),
            keep_from: None,
            tokens_before: self.cost(),
            tokens_after: 0,
        };
        let standing = sum(&self.standing_in(&record, false));
        let stays = pieces.iter().filter(|piece| piece.stays).map(|piece| piece.cost).sum::<u64>();
        let mut target = share(self.room, KEPT);
        if asked {
            target = target.min(self.cost() / 2);
        }
        let budget = target.saturating_sub(standing + stays);
        let from = match compact::keep_from(&pieces, budget, self.last_step()) {
            Some(from) => from,
            // What was not even read is out already, and has to be said to be.
            None if self.has_more => pieces.iter().position(|piece| piece.role != Role::Tool)?,
            None => return None,
        };
        let taken_out = items[..from].iter().filter(|item| item.place == Place::Free).count();
        record.marker = marker(taken_out);
        self.keep(&mut record, from);
        record.tokens_after = sum(&self.applied(&record, from));
        let gain = record.tokens_before.saturating_sub(record.tokens_after);
        let is_needed = asked || self.has_more || record.tokens_before > self.room;
        (is_needed || gain >= share(self.room, WORTH)).then_some(Draft { record, from })
    }

    /// Notes in the record what stays besides what stands in for the rest.
    fn keep(&self, record: &mut CompactionRecord, from: usize) {
        let (out, kept) = self.items[self.head..].split_at(from);
        let is_kept = |id: &str| kept.iter().any(|item| item.entry.about.id == id);
        if record.initial.as_ref().is_some_and(|initial| is_kept(&initial.id)) {
            record.initial = None;
        }
        let initial = record.initial.as_ref().map(|initial| initial.id.as_str());
        let stays = |said: &&MessageRecord| {
            Some(said.id.as_str()) != initial
                && out.iter().any(|item| item.place == Place::Said && item.entry.about.id == said.id)
        };
        record.said = self.said.iter().filter(stays).cloned().collect();
        // What is not in the transcript yet comes after the record.
        let is_stored = |item: &&Item| self.has_begun || item.place != Place::Said;
        record.keep_from = kept.iter().find(is_stored).map(|item| item.entry.about.id.clone());
    }

    /// What was compacted is in the transcript: it is shown from now on.
    pub fn apply(&mut self, draft: Draft) {
        let Draft { record, from } = draft;
        self.items = self.applied(&record, from);
        self.head = self.items.iter().take_while(|item| is_standing_in(item)).count();
        self.has_more = false;
        self.last = Some(Box::new(record));
    }

    /// What was compacted is left out of what this model is shown, and of nothing else: the transcript says nothing of
    /// it.
    pub fn shorten(&mut self, draft: Draft) {
        let whole = self.whole.take().unwrap_or_else(|| Box::new(self.clone()));
        self.apply(draft);
        self.whole = Some(whole);
    }

    fn applied(&self, record: &CompactionRecord, from: usize) -> Vec<Item> {
        let is_of_this_turn =
            record.initial.as_ref().is_some_and(|first| self.said.iter().any(|said| said.id == first.id));
        let mut items = self.standing_in(record, is_of_this_turn);
        let (out, kept) = self.items[self.head..].split_at(from);
        let said = |item: &&Item| record.said.iter().any(|said| said.id == item.entry.about.id);
        items.extend(out.iter().filter(said).cloned());
        items.extend(kept.iter().cloned());
        items
    }

    /// What a compaction takes out, for who is to summarise it; with the summary of what was taken out before.
    #[must_use]
    pub fn outgoing(&self, draft: &Draft) -> String {
        let out = &self.items[self.head..][..draft.from];
        let free = out.iter().filter(|item| item.place == Place::Free).map(|item| &*item.entry.message);
        summary::spoken(draft.record.summary.as_deref(), free)
    }

    /// Puts a summary into a compaction that is not written yet.
    pub fn summarise(&self, draft: &mut Draft, summary: String) {
        draft.record.summary = Some(summary);
        draft.record.tokens_after = sum(&self.applied(&draft.record, draft.from));
    }

    /// Makes the messages fit by cutting what can't be taken out: the results of the last step, then the marker,
    /// then the message that the conversation began with.
    pub fn fit(&mut self) {
        if self.cost() > self.room
            && let Some(at) = self.items.iter().rposition(|item| item.entry.role() == Role::Tool)
        {
            let room = self.room.saturating_sub(self.cost() - self.items[at].cost);
            self.change(at, |message, images| shrink::results(message, room, images));
        }
        for place in [Place::Marker, Place::Initial] {
            if self.cost() <= self.room {
                return;
            }
            let is_it = |item: &Item| item.place == place && !item.is_of_this_turn;
            let Some(at) = self.items.iter().position(is_it) else { continue };
            let room = self.room;
            self.change(at, |message, _| match place {
                Place::Marker => shrink_marker(message, room),
                _ => shrink::message(message, room / 8),
            });
        }
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Message, Images)) {
        let images = self.images;
        let item = &mut self.items[at];
        change(Arc::make_mut(&mut item.entry.message), images);
        item.cost = cost(&item.entry.message.content, images);
    }

    /// Where the last step of this turn begins, counted from the end of the head: it is never taken out.
    fn last_step(&self) -> usize {
        let items = &self.items[self.head..];
        let is_step = |item: &Item| {
            item.is_of_this_turn && item.place == Place::Free && item.entry.role() != Role::Tool
        };
        items.iter().rposition(is_step).unwrap_or(items.len())
    }

    fn completed(&self, done: &[String]) -> Vec<String> {
        let mut completed = self.last.as_ref().map_or_else(Vec::new, |last| last.completed.clone());
        for task in done {
            let task = clean::label(task, COMPLETED_CHARS);
            if !completed.contains(&task) {
                completed.push(task);
            }
        }
        let over = completed.len().saturating_sub(MOST_COMPLETED);
        completed.drain(..over);
        completed
    }

    /// The message that the conversation began with, no longer than a quarter of the room; whole where it is
    /// what this turn answers.
    fn initial(&self) -> Option<Box<MessageRecord>> {
        let mut first = self.first.clone()?;
        let is_asked = self.said.iter().any(|said| said.id == first.id);
        if !is_asked && cost(&first.message.content, self.images) > self.room / 4 {
            shrink::message(&mut first.message, self.room / 4);
        }
        Some(first)
    }

    /// What stands for all that a compaction took out.
    fn standing_in(&self, record: &CompactionRecord, is_of_this_turn: bool) -> Vec<Item> {
        let mut items = Vec::with_capacity(2);
        if let Some(initial) = &record.initial {
            let entry = Entry::stored(initial, replay(initial, &self.zone));
            items.push(self.item(entry, Place::Initial, is_of_this_turn));
        }
        let about = About { id: record.id.clone(), at: record.at, kind: Kind::Compacted, ..About::default() };
        let mut content = vec![Block::text(record.marker.clone())];
        content.extend(record.summary.as_deref().map(|summary| Block::text(summarised(summary))));
        let message = Arc::new(Message { role: Role::User, content });
        items.push(self.item(Entry { message, about: Arc::new(about) }, Place::Marker, false));
        items
    }
}

fn is_standing_in(item: &Item) -> bool {
    matches!(item.place, Place::Initial | Place::Marker)
}

fn sum(items: &[Item]) -> u64 {
    items.iter().map(|item| item.cost).sum()
}

/// Hundredths of a room.
const fn share(room: u64, hundredths: u64) -> u64 {
    room.saturating_mul(hundredths) / 100
}

/// A model's words, which can't pass for the lines of the marker above them.
fn summarised(summary: &str) -> String {
    let lines: Vec<String> = summary.lines().map(|line| format!("| {line}")).collect();
    format!("\nA model's summary of what was taken out, which may be wrong:\n{}", lines.join("\n"))
}

/// The summary goes first: the marker is what is known.
fn shrink_marker(message: &mut Message, room: u64) {
    message.content.truncate(1);
    if let Some(Block::Text { text, .. }) = message.content.first_mut() {
        *text = shrink::marker(text, shrink::marker_limit(room));
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
