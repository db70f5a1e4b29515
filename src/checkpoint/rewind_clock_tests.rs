//! Rewinds to a checkpoint of a gateway whose clock is ahead.

use super::super::scan::Named;
use super::super::testing::home_with_coder;
use super::*;
use crate::agent::transcript::{MessageRecord, Record};
use crate::id::TurnId;
use crate::provider::{Message, Role};
use crate::store::{SessionState, TokenCounts};

/// The time of the checkpoint, by the clock that is ahead.
const AT: i64 = 1_000_000_000;

fn said(id: &str, at: i64) -> Vec<u8> {
    let mut record = MessageRecord::new(TurnId::new(), at, Message::text(Role::User, id));
    id.clone_into(&mut record.id);
    let mut line = Vec::new();
    Record::Message(Box::new(record)).write_to(&mut line);
    line
}

fn session(file: &str, updated_at: i64) -> Session {
    Session {
        key: format!("agent:coder:flock:main:{file}").parse().unwrap(),
        file: file.to_owned(),
        state: SessionState::Open,
        created_at: 1,
        began_at: 1,
        updated_at,
        turns: 2,
        running: false,
        model: None,
        tokens: TokenCounts::default(),
        pending: Vec::new(),
    }
}

#[test]
fn what_was_said_since_is_cut_although_its_clock_is_behind_that_of_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (home, agent) = home_with_coder(&folder.path().join("home"));
    let transcripts = home.sessions(&agent.id);
    std::fs::create_dir_all(&transcripts).unwrap();
    let (before, after) = (said("u1", AT - 1), said("u2", AT - 300_000));
    std::fs::write(transcripts.join("ann.jsonl"), [&before[..], &after].concat()).unwrap();
    std::fs::write(transcripts.join("ben.jsonl"), &before).unwrap();
    let length = u64::try_from(before.len()).unwrap();
    let target = CheckpointRecord {
        number: 1,
        at: AT,
        reason: Reason::Asked { by: "human:ann".to_owned(), note: None },
        files: None,
        entries: 0,
        problem: None,
        left_out: Named::default(),
        unstable: Named::default(),
        is_open: false,
        packages: None,
        packages_of: None,
        transcripts: ["ann", "ben"].map(|file| (file.to_owned(), length)).into(),
    };
    let sessions = [session("ann", AT - 300_000), session("ben", AT - 1)];
    let moments = Moments { home: &home, agent: &agent, sessions: &sessions };
    let cuts = moments.cuts(&target).unwrap();
    let found: Vec<_> = cuts.iter().map(|cut| (&cut.session, cut.after.as_deref(), cut.messages)).collect();
    assert_eq!(found, [(&sessions[0].key, Some("u1"), 1)]);
}
