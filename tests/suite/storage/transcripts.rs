//! Conversations outlive the disk: they are copied beside the turns, and made of their segments when a gateway starts.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::wait_until;
use crate::team::checkpoints::{KEY, Stage};
use crate::team::stage::{LIMIT, Served, log_text};

/// The files below a folder.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// An agent that has had a turn, whose conversation is in a second place, and whose gateway has ended.
fn copied() -> (Stage, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    let blobs = json!({"kind": "folder", "path": place.path()}).to_string();
    stage.home.flock(["config", "set", "plugins.entries.flock.config.storage.blobs", &blobs]).ok();
    let stage = stage.serve();
    stage.turn("remember the milk", &[("list", "milk")]);
    wait_until_copied(&stage, place.path());
    (Stage { served: None, ..stage }, place)
}

/// Waits until the place has all of the only conversation.
fn wait_until_copied(stage: &Stage, place: &Path) {
    let transcripts = transcripts(stage);
    let [transcript] = transcripts.as_slice() else { panic!("{transcripts:?}") };
    wait_until("the conversation is copied", LIMIT, || {
        let paths = files(&place.join("transcripts"));
        // A segment that another one has replaced may go meanwhile.
        let parts: Vec<Vec<u8>> = paths.iter().filter_map(|path| std::fs::read(path).ok()).collect();
        let written = std::fs::read(transcript).unwrap();
        // A segment is in the place before its row names it. A stop in between is as if it had not been copied.
        let sum = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM transcript_segment";
        let is_named = stage.home.database().number(sum) == i64::try_from(written.len()).unwrap();
        if parts.concat() == written && is_named { Ok(()) } else { Err(log_text(&stage.home)) }
    });
}

fn transcripts(stage: &Stage) -> Vec<PathBuf> {
    let all = files(&stage.home.file("agents/ada/sessions"));
    all.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect()
}

#[test]
fn a_conversation_whose_file_is_lost_is_there_again_after_the_start() {
    let (stage, _place) = copied();
    let [transcript] = <[PathBuf; 1]>::try_from(transcripts(&stage)).unwrap();
    let before = std::fs::read(&transcript).unwrap();
    std::fs::remove_dir_all(stage.home.file("agents/ada/sessions")).unwrap();
    let stage = stage.serve();
    wait_until("the conversation is back", LIMIT, || {
        if transcript.exists() { Ok(()) } else { Err(log_text(&stage.home)) }
    });
    let after = std::fs::read(&transcript).unwrap();
    assert!(after.starts_with(&before), "what was said is there byte for byte");
    let shown = stage.home.flock(["session", "show", KEY, "--json"]).ok().json();
    assert!(shown["messages"].as_u64().unwrap() > 0, "{shown}");
    // It goes on, and what follows is copied, too.
    stage.turn("go on", &[("list", "milk, eggs")]);
    assert!(std::fs::read(&transcript).unwrap().len() > before.len());
}

#[test]
fn a_place_that_was_emptied_and_taken_again_gets_the_whole_conversation() {
    let (stage, place) = copied();
    let stage = stage.serve();
    // From here on, the gateway knows that the conversation is in the place.
    stage.turn("go on", &[("list", "milk, eggs")]);
    wait_until_copied(&stage, place.path());
    std::fs::remove_dir_all(place.path().join("transcripts")).unwrap();
    std::fs::remove_file(place.path().join("flock.json")).unwrap();
    stage.home.flock(["storage", "take", "--yes"]).ok();
    stage.turn("and on", &[("list", "milk, eggs, bread")]);
    wait_until_copied(&stage, place.path());
}

#[test]
fn a_conversation_that_can_not_be_brought_back_does_not_begin_anew() {
    let (stage, place) = copied();
    let [transcript] = <[PathBuf; 1]>::try_from(transcripts(&stage)).unwrap();
    std::fs::remove_file(&transcript).unwrap();
    let [segment] = <[PathBuf; 1]>::try_from(files(&place.path().join("transcripts"))).unwrap();
    let kept = std::fs::read(&segment).unwrap();
    std::fs::remove_file(&segment).unwrap();
    let served = Served::start(&stage.home);
    let name = segment.file_name().unwrap().to_str().unwrap();
    wait_until("doctor names the segment", LIMIT, || {
        let found = stage.home.flock(["doctor", "--json"]).json().to_string();
        if found.contains(name) { Ok(()) } else { Err(found) }
    });
    let refused = stage.home.flock(["chat", "ada", "hello", "--session", KEY]);
    assert!(refused.code != 0, "{refused:?}");
    assert!(!transcript.exists());
    // Once the segment is there again, so is the conversation.
    std::fs::write(&segment, &kept).unwrap();
    wait_until("the conversation is back", LIMIT, || {
        if transcript.exists() { Ok(()) } else { Err(log_text(&stage.home)) }
    });
    assert!(std::fs::read(&transcript).unwrap().starts_with(&kept));
    drop(served);
}
