//! Requests that need a person: an editor decides by exactly what it was shown, or not at all.

use agent_client_protocol::v1::schema::{CancelNotification, StopReason};
use serde_json::{Value, json};

use super::editor::{Answer, Raw, edit, open, prompt};
use crate::support::home::TempHome;
use crate::team::stage::{Served, play, transcripts};

/// A home whose sysadmin wants to run a command on the host if it is told to `do it`.
fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    let command = format!("echo ran >> {}", home.outside().join("ran.txt").display());
    let replies = json!([
        {"when": "do it", "steps": [
            {"calls": [{"name": "exec", "arguments": {"command": command}}]}, {"say": "I have asked."},
        ]},
        {"when": "was denied", "steps": [{"say": "then I leave it"}]},
        {"when": "run on the host", "steps": [{"say": "so it has run"}]},
        {"steps": [{"say": "noted"}]},
    ]);
    play(&home, "host", &replies);
    home.flock(["config", "set", "agents.list[sysadmin].model.primary", "script/host"]).ok();
    let served = Served::start(&home);
    (home, served)
}

const SYSADMIN: [&str; 2] = ["--agent", "sysadmin"];

/// The only request.
fn row(home: &TempHome) -> Value {
    let listed = home.flock(["approvals", "list", "--all", "--json"]).ok().json();
    let rows = listed["requests"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1, "{listed}");
    rows[0].clone()
}

fn has_run(home: &TempHome) -> bool {
    home.outside().join("ran.txt").exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_runs_exactly_what_was_shown_once_and_the_prompt_goes_on_with_its_result() {
    let (home, _served) = house();
    edit(&home, &SYSADMIN, Answer::Option("approve"), async |flock, shown| {
        let session = open(&flock).await;
        let ended = prompt(&flock, &session, "do it").await.unwrap();
        assert_eq!(ended.stop_reason, StopReason::EndTurn);
        let question = &shown.questions()[0];
        let row = row(&home);
        let text = question["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
        for part in [&row["sha256"], &row["id"], &row["body"]] {
            assert!(text.contains(part.as_str().unwrap()), "{text}");
        }
        let options: Vec<_> =
            question["options"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(options, ["allow_once", "reject_once"], "nothing is allowed for ever");
        assert_eq!((&row["state"], &row["decidedBy"]), (&json!("done"), &json!("human:ann")));
        assert_eq!(std::fs::read_to_string(home.outside().join("ran.txt")).unwrap(), "ran\n");
        assert!(
            shown.text("agent_message_chunk").contains("so it has run"),
            "{}",
            shown.text("agent_message_chunk")
        );
        assert_eq!(shown.questions().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_told_to_the_agent_and_nothing_runs() {
    let (home, _served) = house();
    edit(&home, &SYSADMIN, Answer::Option("deny"), async |flock, shown| {
        let session = open(&flock).await;
        prompt(&flock, &session, "do it").await.unwrap();
        assert_eq!((&row(&home)["state"], &row(&home)["decidedBy"]), (&json!("denied"), &json!("human:ann")));
        assert!(shown.text("agent_message_chunk").contains("then I leave it"));
        assert!(!has_run(&home));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_answer_leaves_the_request_open() {
    // `allow` is an option of many other agents, and none of flock's.
    for answer in [Answer::Cancelled, Answer::Error, Answer::Option("allow"), Answer::Option("")] {
        let (home, _served) = house();
        edit(&home, &SYSADMIN, answer, async |flock, shown| {
            let session = open(&flock).await;
            let ended = prompt(&flock, &session, "do it").await.unwrap();
            assert_eq!(ended.stop_reason, StopReason::EndTurn, "{answer:?}");
            let updates = shown.all("tool_call_update");
            let told = updates.iter().any(|update| update.to_string().contains("flock approvals show"));
            assert!(told, "{updates:#?}");
            // It is asked about again when the person wants that.
            prompt(&flock, &session, "/requests").await.unwrap();
            assert_eq!(shown.questions().len(), 2);
        })
        .await;
        assert_eq!(row(&home)["state"], "waiting", "{answer:?}");
        assert!(!has_run(&home), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_an_answer_ends_with_the_prompt_or_the_editor_and_decides_nothing() {
    let (home, _served) = house();
    edit(&home, &SYSADMIN, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let running = prompt(&flock, &session, "do it");
        let stop = async {
            shown.until("the question", |shown| shown.questions().first().map(drop)).await;
            flock.send_notification(CancelNotification::new(session.clone())).unwrap();
        };
        let (ended, ()) = tokio::join!(running, stop);
        assert_eq!(ended.unwrap().stop_reason, StopReason::Cancelled);
        assert_eq!(row(&home)["state"], "waiting");
        // The editor is closed while it is asked again.
        let session = session.clone();
        let asked = tokio::spawn({
            let flock = flock.clone();
            async move { drop(prompt(&flock, &session, "/requests").await) }
        });
        shown.until("the question again", |shown| shown.questions().get(1).map(drop)).await;
        asked.abort();
    })
    .await;
    assert_eq!(row(&home)["state"], "waiting");
    assert!(!has_run(&home));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_elsewhere_takes_the_question_back_and_the_prompt_goes_on() {
    let (home, _served) = house();
    edit(&home, &SYSADMIN, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let running = prompt(&flock, &session, "do it");
        let decide = async {
            shown.until("the question", |shown| shown.questions().first().map(drop)).await;
            let id = row(&home)["id"].as_str().unwrap().to_owned();
            tokio::task::block_in_place(|| home.flock(["approvals", "deny", &id]).ok());
        };
        let (ended, ()) = tokio::join!(running, decide);
        assert_eq!(ended.unwrap().stop_reason, StopReason::EndTurn);
        let updates = shown.all("tool_call_update");
        assert!(
            updates.iter().any(|update| update.to_string().contains("decided elsewhere")),
            "{updates:#?}"
        );
        assert!(shown.text("agent_message_chunk").contains("then I leave it"));
    })
    .await;
    assert!(transcripts(&home, "sysadmin").join("\n").contains("was denied by human:ann"));
}

#[test]
fn an_approval_that_nobody_asked_for_decides_nothing() {
    let (home, _served) = house();
    let mut raw = Raw::start(&home, &SYSADMIN);
    let session = raw.open();
    let text = json!([{"type": "text", "text": "do it"}]);
    raw.ask(3, "session/prompt", &json!({"sessionId": session, "prompt": text}));
    let question = raw.until(|message| message["method"] == "session/request_permission");
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "approve"}});
    // Answers to questions that were not asked, before the one that leaves the question open.
    for id in [json!(991), json!("no-such-question")] {
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": outcome}).to_string());
    }
    raw.send(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": {"outcome": "cancelled"}}})
            .to_string(),
    );
    // Too late: the question has its answer.
    raw.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome}).to_string());
    assert_eq!(raw.answer(3)["result"]["stopReason"], "end_turn");
    assert_eq!(raw.end().0, 0);
    assert_eq!(row(&home)["state"], "waiting");
    assert!(!has_run(&home));
}
