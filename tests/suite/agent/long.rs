//! A long conversation is sent whole in every turn, though most of it is kept from the turn before and not read again.

use std::path::Path;

use flock::agent::{TurnEvent, TurnLimits};
use serde_json::{Value, json};

use super::rig::{Rig, Set, copy, home_at, open, registry, turn};
use crate::support::model_server::{ModelServer, Reply};

/// More turns than are kept at the least.
const TURNS: usize = 55;

async fn talked(set: Set) -> Rig {
    let rig = Rig::with(set);
    rig.server.always(Reply::text("fine"));
    for number in 0..TURNS {
        rig.say(&format!("word {number}")).await.unwrap();
    }
    rig
}

/// What a conversation that nothing is kept of would be asked with now: by another process, in a copy of the home.
async fn asked_anew(rig: &Rig, text: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let _database = copy(&rig.database, dir.path());
    let engine = open(&home_at(dir.path()), TurnLimits::default(), registry(Vec::new()));
    Box::pin(engine.run(turn(text), rig.cancel.clone(), &mut |_| {})).await.unwrap();
    asked(rig)
}

/// The messages of the last request in any format, without the last one, which has the time beside it.
fn asked(rig: &Rig) -> Vec<Value> {
    let body = rig.server.requests().pop().unwrap().body;
    let messages = ["messages", "input", "contents"].iter().find_map(|name| body[name].as_array());
    let mut messages = messages.unwrap().clone();
    messages.pop();
    messages
}

async fn is_whole(rig: &Rig, text: &str) {
    let expected = asked_anew(rig, text).await;
    rig.say(text).await.unwrap();
    let found = asked(rig);
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "{found:#?}\n{expected:#?}");
}

/// Changes a word of the transcript in its place, which nothing in flock ever does.
fn change(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from) && from.len() == to.len());
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_has_all_that_was_said() {
    for api in ["openai-completions", "anthropic-messages", "openai-responses", "google-generative-ai"] {
        let rig = talked(Set { api, ..Set::default() }).await;
        is_whole(&rig, "one more").await;
        // It is not read again, or this would be seen.
        change(&rig.transcript_path(), "word 1\"", "WORD 1\"");
        rig.say("and another").await.unwrap();
        let text = serde_json::to_string(&asked(&rig)).unwrap();
        // An answer of this format has an id, which is why nothing of it is kept.
        let is_kept = api != "openai-responses";
        assert_eq!(!text.contains("WORD 1"), is_kept, "{api}: {text}");
        change(&rig.transcript_path(), "WORD 1\"", "word 1\"");
        // What is not plain stays behind what is kept.
        rig.server.reply(Reply::call("a", "echo", &json!({"n": 1})));
        rig.say("use a tool").await.unwrap();
        for text in ["after the tool", "and once more"] {
            is_whole(&rig, text).await;
        }
        // A turn without an answer, too.
        rig.server.reply(Reply::status(400, "no"));
        rig.say("this fails").await.unwrap_err();
        is_whole(&rig, "after the failure").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_that_was_replaced_is_read_again() {
    let rig = talked(Set::default()).await;
    let path = rig.transcript_path();
    let new = path.with_extension("new");
    std::fs::copy(&path, &new).unwrap();
    change(&new, "word 1\"", "WORD 1\"");
    std::fs::rename(&new, &path).unwrap();
    is_whole(&rig, "one more").await;
    assert!(serde_json::to_string(&asked(&rig)).unwrap().contains("WORD 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_begins_anew_is_not_sent() {
    let rig = talked(Set::default()).await;
    let line = json!({"type": "reset", "id": "0192f0c0-0000-7000-8000-000000000000", "at": 1});
    let path = rig.transcript_path();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{line}\n")).unwrap();
    is_whole(&rig, "hello again").await;
    assert_eq!(asked(&rig).len(), 1, "the prompt alone, before what was said last");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_prompt_goes_before_all_that_was_said() {
    let rig = talked(Set::default()).await;
    let mut document = rig.config();
    document["agents"]["defaults"]["model"]["primary"] = json!("fake/other-model");
    document["models"]["providers"]["fake"]["models"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "other-model", "contextWindow": 100_000, "maxTokens": 500, "input": ["text"]}));
    for agent in document["agents"]["list"].as_array_mut().unwrap() {
        agent.as_object_mut().unwrap().remove("model");
    }
    rig.write_config(&document);
    is_whole(&rig, "one more").await;
    assert_eq!(rig.server.requests().pop().unwrap().body["model"], "other-model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stand_in_is_sent_all_that_was_said() {
    let rig = talked(Set::default()).await;
    let spare = ModelServer::start();
    spare.always(Reply::text("here"));
    let mut document = rig.config();
    document["models"]["providers"]["spare"] = json!({
        "baseUrl": spare.base_url(), "apiKey": "k", "api": "anthropic-messages",
        "models": [{"id": "other", "contextWindow": 100_000, "maxTokens": 500}],
    });
    document["agents"]["defaults"]["model"]["fallbacks"] = json!(["spare/other"]);
    rig.write_config(&document);
    rig.server.reply(Reply::status(401, "no"));
    assert_eq!(rig.say("who is there?").await.unwrap().text, "here");
    let body = spare.requests().pop().unwrap().body;
    assert_eq!(body["messages"].as_array().unwrap().len(), 2 * TURNS + 1);
    assert!(body["messages"][0].to_string().contains("word 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_longer_fits_is_compacted() {
    let rig = Rig::with(Set { context_window: 16_000, ..Set::default() });
    rig.server.always(Reply::text("fine"));
    let is_compacted = |rig: &Rig| {
        let is_one =
            |event: &TurnEvent| matches!(event, TurnEvent::Notice(text) if text.contains("compacted"));
        rig.events().iter().any(is_one)
    };
    let mut turns = 0;
    while !is_compacted(&rig) {
        assert!(turns < 500, "it never became too long");
        rig.say(&format!("word {turns} {}", "x".repeat(80))).await.unwrap();
        turns += 1;
    }
    assert!(turns > TURNS, "it was kept before: {turns}");
    let text = serde_json::to_string(&asked(&rig)).unwrap();
    assert!(text.contains("word 0 ") && !text.contains("word 1 "), "{text}");
    is_whole(&rig, "one more").await;
}
