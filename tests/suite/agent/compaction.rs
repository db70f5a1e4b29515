//! What an agent found stays within its reach, however often its conversation makes room.

use std::collections::BTreeSet;
use std::path::Path;

use flock::agent::{TurnError, TurnEvent, TurnLimits};
use serde_json::json;

use super::rig::{Rig, Set, main_key, open, registry, turn};
use crate::support::model_server::{Chunk, Reply};

const FINDINGS: usize = 200;

/// The findings that the last request names, or leads to: by a folder and how many files of it there are.
fn reachable(request: &str, workspace: &Path) -> BTreeSet<String> {
    let line =
        request.split("\\n").find(|line| line.starts_with("Long-term memory (findings): ")).expect(request);
    let named = line.split([' ', ',']).filter(|word| word.starts_with("finding_")).map(str::to_owned);
    let mut found: BTreeSet<String> = named.collect();
    let folder = line.split(' ').find(|word| word.starts_with("/workspace/")).expect(line);
    let folder = workspace.join(folder.trim_start_matches("/workspace/"));
    let listed: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("finding_"))
        .collect();
    assert!(line.contains(&format!(" {} files in ", listed.len())), "{line}");
    found.extend(listed);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_findings_survive_fifty_compactions() {
    let rig = Rig::with(Set { context_window: 16_000, ..Set::default() });
    let workspace = rig.home().workspace(&"coder".parse().unwrap());
    let folder = workspace.join("deliverables/findings/main");
    std::fs::create_dir_all(&folder).unwrap();
    let planted: BTreeSet<String> = (0..FINDINGS).map(|n| format!("finding_{n:03}.md")).collect();
    for name in &planted {
        std::fs::write(folder.join(name), "found").unwrap();
    }
    std::fs::write(folder.join("todo.txt"), "- [x] read\n- [ ] write\n").unwrap();
    rig.say("the task").await.unwrap();
    for round in 1..=50 {
        rig.server.reply(Reply::call("1", "echo", &json!({"text": format!("- [x] task {round}")})));
        rig.say(&format!("message {round} {}", "x".repeat(2_000))).await.unwrap();
        if round % 10 == 0 {
            // Another process goes on: nothing is remembered but what is written.
            let engine = open(&rig.home(), TurnLimits::default(), registry(Vec::new()));
            assert_eq!(engine.compact(&main_key(), true).await.unwrap().unwrap().number, round);
            continue;
        }
        let done = rig.engine.compact(&main_key(), true).await.unwrap().expect("something can go");
        assert_eq!(done.number, round);
        assert!(done.after < done.before, "{} to {}", done.before, done.after);
    }
    rig.say("what have we found?").await.unwrap();
    let request = rig.server.requests().pop().unwrap().body.to_string();
    assert_eq!(reachable(&request, &workspace), planted);
    assert!(request.contains("the task") && request.contains("Todo: 1 open: write"), "{request}");
    let report = rig.engine.report(&main_key()).await.unwrap().unwrap();
    assert!(report.conversation < report.room / 2, "{report:?}");
    let messages = rig.transcript().iter().filter(|record| record["type"] == "message").count();
    assert_eq!(messages, 2 + 50 * 4 + 2, "the transcript has all of it");
}

/// Where compacting asks for a summary, and there is something to compact.
async fn with_summaries() -> Rig {
    let rig = Rig::new();
    let mut document = rig.config();
    document["plugins"]["entries"]["flock"]["config"]["compaction"] = json!({"summary": true});
    rig.write_config(&document);
    for n in 0..4 {
        rig.say(&format!("message {n} {}", "x".repeat(2_000))).await.unwrap();
    }
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_stands_beside_the_marker_and_is_not_missed() {
    let rig = with_summaries().await;
    rig.server.reply(Reply::text("STATUS: all is well\nthe parser is built"));
    let done = rig.engine.compact(&main_key(), true).await.unwrap().unwrap();
    assert_eq!(done.summary.as_deref(), Some("STATUS: all is well\nthe parser is built"));
    rig.say("go on").await.unwrap();
    let request = rig.server.requests().pop().unwrap().body.to_string();
    assert!(request.contains("| STATUS: all is well\\n| the parser is built"), "{request}");
    // The next one fails; what is known of the last stays.
    rig.say(&"y".repeat(2_000)).await.unwrap();
    rig.server.reply(Reply::status(400, "no"));
    let done = rig.engine.compact(&main_key(), true).await.unwrap().unwrap();
    assert!(done.summary.is_some() && done.marker.contains("[HISTORY COMPRESSED]"));
    let asked = rig.server.requests().len();
    rig.engine.compact(&main_key(), false).await.unwrap();
    assert_eq!(rig.server.requests().len(), asked, "nobody is asked where that is not allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_a_person_asked_for_ends_when_they_stop_it() {
    let rig = with_summaries().await;
    let command = flock::agent::Command::parse("/compact");
    rig.server.reply(Reply::stream(vec![Chunk::Hang]));
    let order = flock::agent::TurnRequest { command, ..turn("/compact") };
    let asked = rig.server.requests().len();
    let stop = async {
        while rig.server.requests().len() == asked {
            tokio::task::yield_now().await;
        }
        rig.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(rig.run(order), stop);
    assert!(matches!(outcome, Err(TurnError::Cancelled)), "{outcome:?}");
    assert!(!rig.transcript().iter().any(|record| record["type"] == "compaction"), "nothing was compacted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_takes_no_longer_than_a_turn() {
    let limits = TurnLimits { wall: std::time::Duration::from_millis(1_500), ..Set::default().limits };
    let rig = Rig::with(Set { limits, ..Set::default() });
    let mut document = rig.config();
    document["plugins"]["entries"]["flock"]["config"]["compaction"] = json!({"summary": true});
    rig.write_config(&document);
    for n in 0..4 {
        rig.say(&format!("message {n} {}", "x".repeat(2_000))).await.unwrap();
    }
    rig.server.reply(Reply::stream(vec![Chunk::Hang]));
    let command = flock::agent::Command::parse("/compact");
    let outcome = rig.run(flock::agent::TurnRequest { command, ..turn("/compact") }).await;
    assert!(matches!(outcome, Err(TurnError::TimedOut(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_person_is_answered_without_the_model() {
    let rig = Rig::new();
    let order = |text: &str| {
        let command = flock::agent::Command::parse(text);
        assert!(command.is_some());
        flock::agent::TurnRequest { command, ..turn(text) }
    };
    assert!(rig.run(order("/new")).await.unwrap().text.contains("Nothing was said"));
    rig.say("remember 4711").await.unwrap();
    let told = rig.run(order("/context")).await.unwrap();
    assert!(told.text.contains("2 messages") && told.steps == 0, "{told:?}");
    assert!(rig.events().contains(&TurnEvent::TextDelta(told.text)));
    assert!(rig.run(order("/compact")).await.is_ok());
    rig.run(order("/new")).await.unwrap();
    assert_eq!(rig.server.requests().len(), 1);
    // Said without the credential of a person, it is a text like any other.
    rig.say("/new").await.unwrap();
    rig.say("and?").await.unwrap();
    let request = rig.server.requests().pop().unwrap().body.to_string();
    assert!(request.contains("/new") && !request.contains("4711"), "{request}");
    assert!(rig.engine.compact(&"agent:coder:flock:main:nobody".parse().unwrap(), false).await.is_err());
}

/// Makes the session one that began, or was last begun anew, years ago.
fn began_long_ago(rig: &Rig) {
    // 2020-03-02, noon.
    let change = "UPDATE session SET created_at = 1583150400000, renewed_at = 1583150400000";
    assert_eq!(rig.database.execute(change), 1);
}

/// Whether the last prompt tells that day.
fn tells_that_day(rig: &Rig) -> bool {
    let body = rig.server.requests().pop().unwrap().body;
    let prompt = body["messages"][0]["content"].to_string();
    assert!(prompt.contains("## Current Date & Time"), "{prompt}");
    prompt.contains("2020-03-0")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_tells_the_day_of_the_last_compaction_or_reset() {
    let rig = Rig::new();
    for n in 0..3 {
        rig.say(&format!("message {n} {}", "x".repeat(2_000))).await.unwrap();
    }
    assert!(!tells_that_day(&rig));
    began_long_ago(&rig);
    rig.say("again").await.unwrap();
    assert!(tells_that_day(&rig), "as long as nothing is begun anew");
    rig.engine.compact(&main_key(), false).await.unwrap().expect("something can go");
    rig.say("and now?").await.unwrap();
    assert!(!tells_that_day(&rig), "after a compaction by hand");

    began_long_ago(&rig);
    rig.engine.reset(&main_key(), false).await.unwrap();
    rig.say("hi").await.unwrap();
    assert!(!tells_that_day(&rig), "after a reset");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prompt_tells_the_day_of_a_compaction_within_the_turn() {
    let rig = Rig::with(Set { context_window: 16_000, ..Set::default() });
    rig.say("the task").await.unwrap();
    began_long_ago(&rig);
    let is_compacted = |rig: &Rig| rig.transcript().iter().any(|record| record["type"] == "compaction");
    for n in 0..40 {
        if is_compacted(&rig) {
            break;
        }
        assert!(n == 0 || tells_that_day(&rig));
        rig.say(&format!("message {n} {}", "x".repeat(4_000))).await.unwrap();
    }
    assert!(is_compacted(&rig) && !tells_that_day(&rig));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_written_down_for_people_and_shown_to_no_model() {
    let rig = Rig::new();
    let order =
        |text: &str| flock::agent::TurnRequest { command: flock::agent::Command::parse(text), ..turn(text) };
    for n in 0..4 {
        rig.say(&format!("message {n} {}", "x".repeat(2_000))).await.unwrap();
    }
    let mut told = Vec::new();
    for command in ["/context", "/compact"] {
        told.push(rig.run(order(command)).await.unwrap().text);
    }
    rig.say("and now?").await.unwrap();
    let request = rig.server.requests().pop().unwrap().body.to_string();
    assert!(request.contains("[HISTORY COMPRESSED]"), "{request}");
    assert!(!request.contains("/context") && !request.contains("The conversation has about"), "{request}");
    assert!(!request.contains("was compacted from"), "{request}");
    rig.run(order("/new")).await.unwrap();
    let records = rig.transcript();
    let commands: Vec<&serde_json::Value> =
        records.iter().filter(|record| record["type"] == "command").collect();
    let names: Vec<&str> = commands.iter().map(|record| record["command"].as_str().unwrap()).collect();
    assert_eq!(names, ["/context", "/compact", "/new"]);
    for (record, told) in commands.iter().zip(&told) {
        assert_eq!(record["answer"].as_str(), Some(told.as_str()));
    }
    let history = rig.engine.history(&main_key(), 100).await.unwrap().unwrap();
    assert!(history.iter().all(|entry| !entry.text.contains("/context")), "{history:?}");
}
