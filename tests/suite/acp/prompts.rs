//! Prompts to an agent: text, thinking, calls with their places and differences, cancellation, modes and commands.

use std::time::Duration;

use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ImageContent, NewSessionRequest, PromptRequest, SetSessionModeRequest,
    StopReason,
};
use serde_json::{Value, json};

use super::editor::{Answer, LIMIT, edit, initialize, is_working, open, prompt};
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::stage::{Served, add, transcripts};

/// A home with the agent `coder`, and a gateway.
fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    let long = (0..2000).map(|word| format!("word{word}")).collect::<Vec<_>>().join(" ");
    let replies = json!([
        {"when": "write it", "steps": [
            {"think": "it is small", "say": "I write it.", "calls": [
                {"name": "write", "arguments": {"path": "src/a.txt", "content": "one\n"}},
                {"name": "edit", "arguments": {"path": "src/a.txt", "oldText": "one", "newText": "two"}},
            ]},
            {"calls": [{"name": "read", "arguments": {"path": "missing.txt"}}]},
            {"say": "Done."},
        ]},
        {"when": "slowly", "steps": [{"pace_ms": 200, "say": "one two three four five six seven eight nine ten"}]},
        {"when": "for ever", "steps": [{"say": "it begins and ", "pace_ms": 5000}, {"say": "never"}]},
        {"when": "too long", "steps": [{"say": "cut", "stop": "length"}]},
        {"when": "refuse", "steps": [{"say": "no", "stop": "refusal"}]},
        {"when": "talk", "steps": [{"say": long}]},
        {"when": "break", "steps": [{"error": {"status": 401, "message": "no key"}}]},
        {"steps": [{"say": "I heard: {{last_message}}"}]},
    ]);
    add(&home, "coder", &replies);
    let served = Served::start(&home);
    (home, served)
}

const CODER: [&str; 2] = ["--agent", "coder"];

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_shows_text_thinking_and_each_call_with_its_place_and_difference() {
    let (home, _served) = house();
    let (answered, shown) = edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let said = serde_json::to_value(initialize(&flock).await).unwrap();
        assert_eq!(said["protocolVersion"], 1);
        assert_eq!(said["agentInfo"]["name"], "flock");
        let can = &said["agentCapabilities"];
        assert_eq!((&can["loadSession"], &can["promptCapabilities"]["image"]), (&json!(true), &json!(true)));
        let opened = flock.send_request(NewSessionRequest::new("/tmp")).block_task().await.unwrap();
        let modes = serde_json::to_value(&opened.modes).unwrap();
        assert_eq!(modes["currentModeId"], "supervised");
        (prompt(&flock, &opened.session_id, "write it").await.unwrap(), shown)
    })
    .await;
    assert_eq!(answered.stop_reason, StopReason::EndTurn);
    assert_eq!(shown.text("agent_message_chunk"), "I write it.\n\nDone.");
    assert_eq!(shown.text("agent_thought_chunk"), "it is small");
    let place = home.file("workspaces/coder/src/a.txt");
    let calls = shown.all("tool_call");
    let ended = shown.all("tool_call_update");
    let titles: Vec<_> = calls.iter().map(|call| call["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["write src/a.txt", "edit src/a.txt", "read missing.txt"]);
    assert_eq!(calls[1]["kind"], "edit");
    assert_eq!(calls[1]["locations"][0]["path"], json!(place));
    assert_eq!(
        calls[1]["content"][0],
        json!({"type": "diff", "path": place, "oldText": "one", "newText": "two"})
    );
    let status = |call: &Value| {
        let of_it = ended.iter().filter(|update| update["toolCallId"] == call["toolCallId"]);
        of_it.filter_map(|update| update["status"].as_str()).next_back().unwrap().to_owned()
    };
    let states: Vec<_> = calls.iter().map(status).collect();
    assert_eq!(states, ["completed", "completed", "failed"]);
    assert_eq!(std::fs::read_to_string(place).unwrap(), "two\n");
    let told = ended.iter().find(|update| update["content"][0]["content"]["text"].is_string());
    assert!(told.is_some_and(|update| update.to_string().contains("missing.txt")), "{ended:#?}");
    assert!(shown.all("usage_update").last().unwrap()["size"].as_u64().unwrap() > 0);
    let commands = shown.all("available_commands_update")[0]["availableCommands"].to_string();
    assert!(commands.contains("compact") && commands.contains("requests"), "{commands}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_ends_in_the_gateway_and_the_next_prompt_is_answered() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let running = prompt(&flock, &session, "go on for ever");
        let stop = async {
            shown
                .until("it begins", |shown| shown.text("agent_message_chunk").contains("it").then_some(()))
                .await;
            flock.send_notification(CancelNotification::new(session.clone())).unwrap();
        };
        let (ended, ()) = tokio::join!(running, stop);
        assert_eq!(ended.unwrap().stop_reason, StopReason::Cancelled);
        assert!(!is_working(&home));

        // A cancellation right behind its prompt counts, and one without a prompt changes nothing.
        let blocks = vec![ContentBlock::from("go on for ever".to_owned())];
        let asked = flock.send_request(PromptRequest::new(session.clone(), blocks));
        flock.send_notification(CancelNotification::new(session.clone())).unwrap();
        assert_eq!(asked.block_task().await.unwrap().stop_reason, StopReason::Cancelled);
        flock.send_notification(CancelNotification::new(session.clone())).unwrap();
        flock.send_notification(CancelNotification::new("agent:coder:flock:main:nobody")).unwrap();
        assert_eq!(prompt(&flock, &session, "hello").await.unwrap().stop_reason, StopReason::EndTurn);
        assert!(shown.text("agent_message_chunk").ends_with("I heard: hello"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_prompt_in_a_session_is_refused_and_other_sessions_go_on() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let first = open(&flock).await;
        let second =
            flock.send_request(NewSessionRequest::new("/tmp")).block_task().await.unwrap().session_id;
        assert_ne!(first, second);
        let running = prompt(&flock, &first, "slowly");
        let others = async {
            shown
                .until("it begins", |shown| shown.text("agent_message_chunk").contains("one").then_some(()))
                .await;
            let refused = prompt(&flock, &first, "hello").await.unwrap_err();
            assert!(refused.message.contains("session/cancel"), "{refused:?}");
            assert_eq!(prompt(&flock, &second, "hello").await.unwrap().stop_reason, StopReason::EndTurn);
        };
        let (ended, ()) = tokio::join!(running, others);
        assert_eq!(ended.unwrap().stop_reason, StopReason::EndTurn);
        assert!(shown.text("agent_message_chunk").contains("ten"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_an_end_and_a_failure_with_its_hint_reach_the_editor() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, _| {
        let session = open(&flock).await;
        assert_eq!(prompt(&flock, &session, "too long").await.unwrap().stop_reason, StopReason::MaxTokens);
        assert_eq!(prompt(&flock, &session, "refuse").await.unwrap().stop_reason, StopReason::Refusal);
        let failed = prompt(&flock, &session, "break").await.unwrap_err();
        assert!(failed.message.contains("no key"), "{failed:?}");
        home.flock(["freeze", "coder"]).ok();
        let frozen = prompt(&flock, &session, "hello").await.unwrap_err();
        assert!(frozen.message.contains("flock thaw coder"), "{frozen:?}");
        assert_eq!(prompt(&flock, &session, "/thaw").await.unwrap().stop_reason, StopReason::EndTurn);
        assert_eq!(prompt(&flock, &session, "hello").await.unwrap().stop_reason, StopReason::EndTurn);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_more_pieces_than_may_wait_arrives_whole() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        prompt(&flock, &session, "talk").await.unwrap();
        assert!(shown.all("agent_message_chunk").len() > 20);
        let text = shown.text("agent_message_chunk");
        assert!(text.starts_with("word0 word1 ") && text.ends_with(" word1999"), "{} bytes", text.len());
        // Many short turns come to more updates than may wait unwritten.
        for _ in 0..30 {
            prompt(&flock, &session, "talk").await.unwrap();
        }
        assert_eq!(shown.text("agent_message_chunk").matches("word1999").count(), 31);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_is_the_agents_autonomy_and_commands_are_answered_without_the_model() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let set = |mode: &'static str| {
            flock.send_request(SetSessionModeRequest::new(session.clone(), mode)).block_task()
        };
        set("readonly").await.unwrap();
        let listed = home.flock(["list", "--json"]).ok().json();
        let coder =
            listed["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "coder").unwrap().clone();
        assert_eq!(coder["autonomy"], "readonly");
        // A file is not written any more: the mode counts at once.
        wait_until("the gateway has read the setting", LIMIT, || {
            let text = home.flock(["prompt", "show", "coder"]).ok().stdout;
            if text.contains("readonly") { Ok(()) } else { Err(text) }
        });
        prompt(&flock, &session, "write it").await.unwrap();
        assert!(!home.file("workspaces/coder/src/a.txt").exists());
        let unknown = set("yolo").await.unwrap_err();
        assert!(unknown.message.contains("no mode yolo"), "{unknown:?}");
        set("supervised").await.unwrap();

        let before = shown.text("agent_message_chunk").len();
        prompt(&flock, &session, "/context").await.unwrap();
        prompt(&flock, &session, "/status").await.unwrap();
        prompt(&flock, &session, "/requests").await.unwrap();
        let said = shown.text("agent_message_chunk")[before..].to_owned();
        assert!(
            said.contains("- coder: ") && said.contains("No request") && !said.contains("I heard"),
            "{said}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_and_parts_of_files_reach_the_agent_and_sound_is_refused_by_name() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
        let blocks: Vec<ContentBlock> = serde_json::from_value(json!([
            {"type": "text", "text": "see "},
            {"type": "resource", "resource": {"uri": "file:///p/b.md", "text": "the part", "mimeType": "text/plain"}},
            {"type": "image", "mimeType": "image/png", "data": picture},
        ]))
        .unwrap();
        flock.send_request(PromptRequest::new(session.clone(), blocks)).block_task().await.unwrap();
        assert!(shown.text("agent_message_chunk").contains("the part"));
        let kept = transcripts(&home, "coder").join("\n");
        assert!(kept.contains("image/png"), "{kept}");
        let sound: Vec<ContentBlock> =
            serde_json::from_value(json!([{"type": "audio", "mimeType": "audio/wav", "data": "aGk="}])).unwrap();
        let refused = flock.send_request(PromptRequest::new(session.clone(), sound)).block_task().await.unwrap_err();
        assert!(refused.message.contains("sound"), "{refused:?}");
        let bad = vec![ContentBlock::Image(ImageContent::new("no base64!", "image/png"))];
        assert!(flock.send_request(PromptRequest::new(session.clone(), bad)).block_task().await.is_err());
        assert_eq!(prompt(&flock, &session, "hello").await.unwrap().stop_reason, StopReason::EndTurn);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_that_is_closed_in_a_turn_ends_the_turn() {
    let (home, _served) = house();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let blocks = vec![ContentBlock::from("go on for ever".to_owned())];
        flock.send_request(PromptRequest::new(session, blocks)).detach();
        shown
            .until("it begins", |shown| shown.text("agent_message_chunk").contains("it").then_some(()))
            .await;
    })
    .await;
    wait_until("the turn has ended", Duration::from_secs(20), || {
        if is_working(&home) { Err(String::new()) } else { Ok(()) }
    });
}
