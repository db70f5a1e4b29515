//! Another model answers where one does not: within the turn, never after something was shown, and not the dead one
//! first the next time.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use flock::agent::{TurnError, TurnEvent};
use flock::provider::retry::Policy;
use flock::provider::{ProviderError, http};
use serde_json::json;

use super::rig::{Rig, Set, turn};
use super::watch::Watch;
use crate::support::model_server::{Chunk, ModelServer, Reply};

/// A rig in which `spare/other` answers in the place of `fake/test-model`.
fn with_spare(set: Set, spare: &ModelServer, api: &str, window: u64) -> Rig {
    let rig = Rig::with(set);
    let mut document = rig.config();
    let url = if api == "anthropic-messages" { spare.base_url() } else { spare.openai_url() };
    document["models"]["providers"]["spare"] = json!({
        "baseUrl": url, "apiKey": "k", "api": api,
        "models": [{"id": "other", "contextWindow": window, "maxTokens": 500}],
    });
    document["agents"]["defaults"]["model"]["fallbacks"] = json!(["missing/model", "spare/other"]);
    rig.write_config(&document);
    rig
}

fn once() -> Set {
    let mut set = Set::default();
    set.limits.retry = Policy { attempts: 1, ..set.limits.retry };
    set
}

fn notices(rig: &Rig) -> Vec<String> {
    let notice = |event: TurnEvent| match event {
        TurnEvent::Notice(text) => Some(text),
        _ => None,
    };
    rig.events().into_iter().filter_map(notice).collect()
}

fn said(rig: &Rig) -> String {
    let text = |event: TurnEvent| match event {
        TurnEvent::TextDelta(text) => Some(text),
        _ => None,
    };
    rig.events().into_iter().filter_map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_model_answers_within_the_turn_and_is_named() {
    for (status, why) in [(500, "failed"), (401, "refused the key"), (429, "limiting"), (404, "rejected")] {
        let spare = ModelServer::start();
        let watch = Arc::new(Watch::default());
        let rig =
            with_spare(Set { oversight: watch.clone(), ..once() }, &spare, "anthropic-messages", 50_000);
        rig.server.reply(Reply::status(status, "no"));
        spare.reply(Reply::text("from the other"));
        let outcome = rig.say("hi").await.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.model.as_str()), ("from the other", "spare/other"));
        assert_eq!(said(&rig), "from the other");
        let notices = notices(&rig);
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(
            notices[0].starts_with("spare/other answers in the place of fake/test-model:"),
            "{notices:?}"
        );
        assert!(notices[0].contains(why), "{notices:?}");
        // The record says who answered, and each attempt had a reservation of its own.
        let lines = rig.transcript();
        let answer = lines.iter().find(|line| line["message"]["role"] == "assistant").unwrap();
        assert_eq!((&answer["model"], &answer["api"]), (&json!("spare/other"), &json!("anthropic-messages")));
        let calls = watch.calls.lock().unwrap().clone();
        let models: Vec<&str> = calls.iter().map(|call| call.model.as_str()).collect();
        assert_eq!(models, ["fake/test-model", "spare/other"]);
        assert_eq!(calls[1].max_output, 500);
        assert_eq!(watch.settled().len(), 2);
        // It is told under which name it answers.
        assert!(spare.requests()[0].body["system"].to_string().contains("spare/other"));
        assert_eq!(spare.rejections(), Vec::<String>::new());
    }
}

/// A server that takes connections and never says a word.
fn mute(rig: &Rig) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut document = rig.config();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    document["models"]["providers"]["fake"]["baseUrl"] = json!(url);
    rig.write_config(&document);
    listener
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_never_answers_is_left_for_the_next_one_within_the_turn() {
    let limit = Duration::from_millis(300);
    let silence = http::HttpLimits {
        first_byte: limit,
        near_first_byte: limit,
        idle: limit,
        ..http::HttpLimits::default()
    };
    for is_mute in [true, false] {
        let spare = ModelServer::start();
        // With all attempts that a failure has: a silent one gets one.
        let rig = with_spare(Set { silence, ..Set::default() }, &spare, "openai-completions", 50_000);
        let _listener = is_mute.then(|| mute(&rig));
        // The other way to say nothing: to begin an answer and send none of it.
        rig.server.reply(Reply::stream(vec![Chunk::Hang]));
        spare.reply(Reply::text("from the other"));
        let outcome = rig.say("hi").await.unwrap();
        assert_eq!(outcome.model.as_str(), "spare/other");
        let retries = rig.events().into_iter().filter(|event| matches!(event, TurnEvent::Retrying { .. }));
        assert_eq!(retries.count(), 0, "it is not asked a second time while another one waits");
        assert!(notices(&rig)[0].contains("answers in the place of fake/test-model"), "{:?}", notices(&rig));
        rig.say("and?").await.unwrap();
        assert_eq!(spare.requests().len(), 2, "the silent one is not asked first the next time");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_was_silent_until_the_turn_was_over_is_not_asked_first_the_next_time() {
    let spare = ModelServer::start();
    let mut set = Set::default();
    set.limits.wall = Duration::from_secs(2);
    let rig = with_spare(set, &spare, "openai-completions", 50_000);
    let _listener = mute(&rig);
    let error = rig.say("hi").await.unwrap_err();
    assert!(matches!(error, TurnError::TimedOut(_)), "{error}");
    assert_eq!(spare.requests().len(), 0);
    let outcome = rig.say("and?").await.unwrap();
    assert_eq!(outcome.model.as_str(), "spare/other");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_fail_elsewhere_too_is_not_asked_elsewhere() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 50_000);
    rig.server.reply(Reply::status(400, "tools: pattern"));
    let error = rig.say("hi").await.unwrap_err();
    assert!(matches!(error, TurnError::Provider(ProviderError::Rejected { .. })), "{error}");
    assert_eq!(spare.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_was_shown_is_never_mixed_with_another_models() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 50_000);
    let half = json!({"choices": [{"delta": {"content": "half an ans"}}]});
    let bytes = Chunk::Bytes(format!("data: {half}\n\n").into_bytes());
    rig.server.reply(Reply::stream(vec![bytes]));
    rig.say("hi").await.unwrap_err();
    assert_eq!(said(&rig), "half an ans");
    assert_eq!(spare.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_failed_is_not_asked_first_in_the_next_turn() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 50_000);
    rig.server.reply(Reply::status(500, "no"));
    rig.say("hi").await.unwrap();
    rig.say("and?").await.unwrap();
    assert_eq!((rig.server.requests().len(), spare.requests().len()), (1, 2));
    let notices = notices(&rig);
    assert!(notices[1].contains("failed a short while ago"), "{notices:?}");
    // Where the spare one fails now, the one that rests is asked all the same.
    spare.reply(Reply::status(500, "no"));
    let outcome = rig.say("still there?").await.unwrap();
    assert_eq!(outcome.model.as_str(), "fake/test-model");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_ran_are_not_run_again_for_the_next_model() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "anthropic-messages", 50_000);
    rig.server
        .reply(Reply::call("functions.echo:0", "echo", &json!({"x": 1})))
        .reply(Reply::status(503, "no"));
    spare.reply(Reply::text("done"));
    let outcome = rig.say("go").await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.steps), ("done", 2));
    let sent = spare.requests()[0].body["messages"].to_string();
    assert_eq!(sent.matches("tool_use_id").count(), 1, "{sent}");
    let models: Vec<String> = rig
        .transcript()
        .iter()
        .filter(|line| line["message"]["role"] == "assistant")
        .map(|line| line["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(models, ["fake/test-model", "spare/other"]);
    assert_eq!(spare.rejections(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_back_that_was_taken_away_meanwhile_is_sent_nothing() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 50_000);
    rig.server.reply(Reply::call("1", "session_status", &json!({})));
    rig.server.reply(Reply::status(500, "no"));
    let mut without = rig.config();
    without["agents"]["defaults"]["model"]["fallbacks"] = json!([]);
    // Between the first request and the second.
    let mut on_event = |_: TurnEvent| rig.write_config(&without);
    let outcome = rig.engine.run(turn("go"), rig.cancel.clone(), &mut on_event).await;
    assert!(matches!(outcome, Err(TurnError::Provider(ProviderError::Failed { .. }))), "{outcome:?}");
    assert_eq!((rig.server.requests().len(), spare.requests().len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_too_long_for_one_model_goes_to_one_with_more_room() {
    let spare = ModelServer::start();
    let set = Set { context_window: 8_000, ..once() };
    let rig = with_spare(set, &spare, "openai-completions", 200_000);
    let outcome = rig.say(&"word ".repeat(20_000)).await.unwrap();
    assert_eq!(outcome.model.as_str(), "spare/other");
    assert_eq!(rig.server.requests().len(), 0);
    assert!(notices(&rig)[0].contains("has about"), "{:?}", notices(&rig));
}

/// The transcript's records of this type.
fn records(rig: &Rig, kind: &str) -> usize {
    rig.transcript().iter().filter(|record| record["type"] == kind).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_back_with_less_room_is_shown_less_and_nobody_else_is() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 9_000);
    for n in 0..10 {
        rig.say(&format!("message-{n} {}", "x".repeat(4_000))).await.unwrap();
    }
    rig.server.reply(Reply::status(500, "no"));
    let outcome = rig.say("and now?").await.unwrap();
    assert_eq!(outcome.model.as_str(), "spare/other");
    let sent = spare.requests().pop().unwrap().body.to_string();
    assert!(sent.contains("[HISTORY COMPRESSED]") && sent.contains("message-0 "), "{sent}");
    assert!(!sent.contains("message-4 ") && sent.contains("and now?"), "{sent}");
    assert!(sent.len() < 9_000 * 4, "{}", sent.len());
    assert!(notices(&rig).iter().any(|notice| notice.contains("shown a shorter conversation")));

    // In the next turn it is asked first, goes on in several steps, and then fails: the other one is shown all of it.
    spare.reply(Reply::call("c1", "echo", &json!({"text": "y".repeat(12_000)})));
    spare.reply(Reply::status(500, "no"));
    let outcome = rig.say("go on").await.unwrap();
    assert_eq!((outcome.model.as_str(), outcome.steps), ("fake/test-model", 2));
    assert!(spare.requests()[1].body.to_string().contains("[HISTORY COMPRESSED]"));
    let sent = rig.server.requests().pop().unwrap().body.to_string();
    for text in ["message-0 ", "message-4 ", "message-9 ", "and now?", "go on", &"y".repeat(12_000)] {
        assert!(sent.contains(text), "{text}");
    }
    assert!(!sent.contains("[HISTORY COMPRESSED]"), "{sent}");
    assert_eq!(records(&rig, "compaction"), 0, "the transcript knows of none");
    assert_eq!(spare.rejections(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_back_without_room_for_the_question_is_passed_over() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 4_000);
    rig.server.reply(Reply::status(500, "first"));
    let error = rig.say(&"word ".repeat(8_000)).await.unwrap_err();
    assert!(error.to_string().contains("first"), "{error}");
    assert_eq!(spare.requests().len(), 0);
}

/// Makes a model one that calls tools in its text.
fn calls_in_text(rig: &Rig, provider: &str) {
    let mut document = rig.config();
    document["models"]["providers"][provider]["models"][0]["compat"] = json!({"supportsTools": false});
    rig.write_config(&document);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fall_back_is_told_of_tools_in_the_way_it_calls_them() {
    let call = "<tool_call>{\"name\": \"echo\", \"arguments\": {\"n\": 2}}</tool_call>";
    for (of_text, other) in [("spare", "fake"), ("fake", "spare")] {
        let spare = ModelServer::start();
        let rig = with_spare(once(), &spare, "openai-completions", 50_000);
        calls_in_text(&rig, of_text);
        let by_text = of_text == "spare";
        // The first model calls in its own way, and fails in the middle of the turn.
        rig.server.reply(if by_text {
            Reply::call("c1", "echo", &json!({"n": 1}))
        } else {
            Reply::text(call)
        });
        rig.server.reply(Reply::status(503, "no"));
        spare.reply(if by_text { Reply::text(call) } else { Reply::call("c2", "echo", &json!({"n": 3})) });
        spare.reply(Reply::text("done"));
        let outcome = rig.say("work").await.unwrap();
        assert_eq!((outcome.text.as_str(), outcome.steps), ("done", 3), "{other} first");
        for (server, is_text) in [(&rig.server, !by_text), (&spare, by_text)] {
            for request in server.requests() {
                let body = request.body;
                let prompt = body["messages"][0]["content"].to_string();
                assert_eq!(prompt.contains("## Tool Use Protocol"), is_text, "{prompt}");
                assert_eq!(body.get("tools").is_none(), is_text, "{body:#}");
                let calls = body["messages"].to_string().contains("\"tool_calls\"");
                assert!(!(calls && is_text), "{body:#}");
            }
        }
        let last = spare.requests().pop().unwrap().body["messages"].to_string();
        assert_eq!(last.contains("<tool_result name="), by_text, "{last}");
        assert_eq!(last.matches("echo {").count(), 2, "both results are shown: {last}");
        assert_eq!(spare.rejections(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_answers_the_turn_fails_with_the_last_failure() {
    let spare = ModelServer::start();
    let rig = with_spare(once(), &spare, "openai-completions", 50_000);
    rig.server.reply(Reply::status(500, "first"));
    spare.reply(Reply::status(529, "second"));
    let error = rig.say("hi").await.unwrap_err();
    assert!(error.to_string().contains("second"), "{error}");
}
