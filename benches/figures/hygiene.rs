//! A long conversation on its way to a model: read, made ready, written.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flock::agent::context::ConversationContext;
use flock::agent::estimate::ImageEstimate;
use flock::agent::transcript::hygiene::{Target, sanitise};
use flock::agent::transcript::{Entry, MessageRecord, Record, recent};
use flock::config::Api;
use flock::id::TurnId;
use flock::provider::anthropic::Anthropic;
use flock::provider::{Block, Message, Provider as _, Request, Role, Route, StopReason};
use serde_json::json;

use crate::{Sample, row};

const MESSAGES: usize = 10_000;
const BYTES: usize = 20_000_000;

/// Counts what is allocated, in all of this program.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        ALLOCATED.fetch_add(size as u64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

pub fn run() {
    let route = Route { model: "anthropic/claude-opus-4-5".parse().unwrap(), api: Api::AnthropicMessages };
    let lines = transcript(&route);
    let megabytes = lines.len() as f64 / 1e6;
    let mut file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    file.write_all(&lines).unwrap();
    drop(lines);
    let target = Target::new(route);
    // As a turn writes it; nothing is asked.
    let address = "https://api.anthropic.com".parse().unwrap();
    let provider = Anthropic::new(Arc::default(), "anthropic", &address, None);
    let mut shown = 0;
    let whole = Sample::of(20, || {
        let began = Instant::now();
        let entries = load(file.as_file());
        assert_eq!(entries.len(), MESSAGES);
        let messages = sanitise(&entries, &target).unwrap().messages;
        let request = Request { model: "claude-opus-4-5".to_owned(), messages, ..Request::default() };
        shown = provider.body(&request).unwrap().len();
        began.elapsed()
    });
    row(
        &format!("a transcript of {MESSAGES} messages and {megabytes:.1} MB: read, made ready, written"),
        &whole,
    );
    let read = Sample::of(20, || {
        let began = Instant::now();
        assert_eq!(load(file.as_file()).len(), MESSAGES);
        began.elapsed()
    });
    row("of it, reading", &read);
    let entries = load(file.as_file());
    let passes = Sample::of(50, || {
        let began = Instant::now();
        let ready = sanitise(&entries, &target).unwrap();
        assert!(ready.applied.is_empty());
        began.elapsed()
    });
    row("the passes over it by themselves, where nothing is to be changed", &passes);
    let before = (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED.load(Ordering::Relaxed));
    let ready = sanitise(&entries, &target).unwrap();
    let count = ALLOCATIONS.load(Ordering::Relaxed) - before.0;
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before.1;
    let same =
        entries.iter().zip(&ready.messages).all(|(entry, message)| Arc::ptr_eq(&entry.message, message));
    assert!(same && shown > BYTES / 2);
    row(
        "what they allocate",
        format!("{count} times, {:.1} MiB, no message among it", bytes as f64 / 1024.0 / 1024.0),
    );
    let other =
        Target::new(Route { model: "mistral/mistral-large".parse().unwrap(), api: Api::OpenAiCompletions });
    let switched = Sample::of(20, || {
        let began = Instant::now();
        sanitise(&entries, &other).unwrap();
        began.elapsed()
    });
    row("the passes after a switch to Mistral, which rewrites every id", &switched);
}

/// As a turn reads it, where all of it fits.
fn load(file: &File) -> Vec<Entry> {
    let cost =
        |record: &MessageRecord| flock::agent::estimate::cost(&record.message.content, ImageEstimate::Shown);
    let found = recent(file, u64::MAX, cost).unwrap();
    ConversationContext::new(u64::MAX, ImageEstimate::Shown, &jiff::tz::TimeZone::UTC, found).entries()
}

/// Questions, calls, results and answers, as they are stored.
pub fn transcript(route: &Route) -> Vec<u8> {
    let mut lines = Vec::with_capacity(BYTES + BYTES / 10);
    let turn = TurnId::new();
    // As stored: a line's end is two bytes, and each record has some of its own.
    let long =
        "A line of a file, or of what a command has printed.\n".repeat((BYTES / MESSAGES - 195) * 2 / 53);
    for n in 0..MESSAGES {
        let id = format!("toolu_{}", n / 4);
        let (role, block) = match n % 4 {
            0 => (Role::User, Block::text(format!("Question {n}?"))),
            1 => (Role::Assistant, Block::call(id, "read", json!({"path": format!("src/{n}.rs")}))),
            2 => {
                let content = [Block::text(long.clone())].into();
                (Role::Tool, Block::ToolResult { call_id: id, name: "read".into(), content, is_error: false })
            }
            _ => (Role::Assistant, Block::text(&*long)),
        };
        let mut record = MessageRecord::new(turn, n as i64, Message { role, content: vec![block] });
        if role == Role::Assistant {
            record.model = Some(route.model.to_string());
            record.api = Some(route.api);
            record.stop = Some(StopReason::End);
        }
        Record::Message(Box::new(record)).write_to(&mut lines);
    }
    lines
}
