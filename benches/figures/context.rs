//! What a conversation costs between its turns, and what a long one costs at the beginning of the next.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use flock::agent::context::ConversationContext;
use flock::agent::estimate::ImageEstimate;
use flock::agent::transcript::{CompactionRecord, MessageRecord, Record, recent};
use flock::config::Api;
use flock::id::TurnId;
use flock::provider::{Message, Role, Route};

use crate::home::Home;
use crate::http::Connection;
use crate::{Sample, hygiene, row, stub};

pub fn run() {
    idle();
    compacted();
}

/// Gateways in which each of their sessions has had one turn and waits: with short transcripts, with long ones, and with
/// fewer of these. What a turn needs while it runs is seen afterwards, too, since the allocator keeps it; what a
/// session keeps would be ten times as much with ten times as many.
fn idle() {
    for (sessions, kilobytes) in [(200, 0), (200, 256), (20, 2048), (200, 2048)] {
        let home = Home::new(stub::start());
        home.fill(20);
        let (gateway, _) = home.serve();
        turns(&home, sessions);
        drop(gateway);
        let sizes: Vec<u64> =
            transcripts(&home).iter().map(|path| lengthen(path, kilobytes * 1024)).collect();
        assert_eq!(sizes.len(), sessions);
        let (gateway, _) = home.serve();
        let before = gateway.resident();
        turns(&home, sessions);
        let each = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64 / 1024.0;
        let mib = |kib: u64| kib as f64 / 1024.0;
        let (after, grown) = (mib(gateway.resident()), mib(gateway.resident().saturating_sub(before)));
        let figure =
            format!("a gateway with {sessions} idle sessions, each with a transcript of {each:.0} KiB");
        row(&figure, format!("{after:.1} MiB resident, {grown:.1} more than before their turns"));
    }
}

fn turns(home: &Home, sessions: usize) {
    let mut client = Connection::open(home.port, &home.token).unwrap();
    for n in 0..sessions {
        let number = 2 + n % 18;
        let key = format!("agent:agent-{number}:flock:dm:bench-{n}");
        client.chat(&format!("agent-{number}"), Some(&key)).unwrap();
    }
}

fn transcripts(home: &Home) -> Vec<PathBuf> {
    let agents = std::fs::read_dir(home.path().join("agents")).unwrap();
    let folders = agents.map(|agent| agent.unwrap().path().join("sessions")).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect()
}

/// Adds questions and answers until the file has this length; gives what it has.
fn lengthen(path: &std::path::Path, length: u64) -> u64 {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    let text = "A line of what was said.\n".repeat(80);
    let mut size = file.metadata().unwrap().len();
    let turn = TurnId::new();
    while size < length {
        let mut lines = Vec::new();
        for role in [Role::User, Role::Assistant] {
            let message = Message::text(role, text.clone());
            Record::Message(Box::new(MessageRecord::new(turn, 1, message))).write_to(&mut lines);
        }
        file.write_all(&lines).unwrap();
        size += lines.len() as u64;
    }
    size
}

/// The beginning of a turn over a transcript of 10,000 messages, the last 20 of which came after a compaction.
fn compacted() {
    let route = Route { model: "anthropic/claude-opus-4-5".parse().unwrap(), api: Api::AnthropicMessages };
    let mut lines = hygiene::transcript(&route);
    let record = CompactionRecord {
        number: 1,
        marker: "[HISTORY COMPRESSED]".to_owned(),
        ..CompactionRecord::default()
    };
    Record::Compaction(Box::new(record)).write_to(&mut lines);
    let turn = TurnId::new();
    for n in 0..20 {
        let role = if n % 2 == 0 { Role::User } else { Role::Assistant };
        let message = Message::text(role, "A line of what was said.\n".repeat(80));
        Record::Message(Box::new(MessageRecord::new(turn, n, message))).write_to(&mut lines);
    }
    let mut file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    file.write_all(&lines).unwrap();
    let cost =
        |record: &MessageRecord| flock::agent::estimate::cost(&record.message.content, ImageEstimate::Shown);
    let zone = jiff::tz::TimeZone::UTC;
    let load = Sample::of(200, || {
        let began = Instant::now();
        let found = recent(file.as_file(), 100_000, cost).unwrap();
        let context = ConversationContext::new(100_000, ImageEstimate::Shown, &zone, found);
        assert_eq!(context.len(), 21);
        began.elapsed()
    });
    let megabytes = lines.len() as f64 / 1024.0 / 1024.0;
    row(
        &format!("reading a compacted transcript of {megabytes:.0} MiB, 20 messages after the compaction"),
        load,
    );
}
