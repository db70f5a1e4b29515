//! A prompt to a whole channel: every agent's words and calls under its name, and its tasks as the plan.

use std::time::{Duration, Instant};

use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ListSessionsRequest, LoadSessionRequest, PromptRequest, StopReason,
};
use serde_json::json;

use super::editor::{Answer, LIMIT, edit, initialize, is_working, open, prompt};
use crate::support::home::TempHome;
use crate::team::stage::{Served, add, said};

fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    let coder = json!([
        {"when": "build it", "steps": [
            {"calls": [
                {"name": "write", "arguments": {"path": "b.txt", "content": "built\n"}},
                {"name": "flock_message", "arguments": {"to": "tester", "message": "please test b.txt"}},
            ]},
            {"say": "It is built."},
        ]},
        {"when": "for ever", "steps": [{"say": "it begins and ", "delay_ms": 60000}]},
        // The answer of the other agent may come between two steps.
        {"steps": [{"say": "It is built."}]},
    ]);
    let tester = json!([
        {"when": "please test", "steps": [{"say": "It works."}]},
        {"steps": [{"say": "tester heard it"}]},
    ]);
    add(&home, "coder", &coder);
    add(&home, "tester", &tester);
    home.flock([
        "channel",
        "create",
        "dev",
        "--topic",
        "The build",
        "--member",
        "coder",
        "--member",
        "tester",
    ])
    .ok();
    let served = Served::start(&home);
    (home, served)
}

const DEV: [&str; 2] = ["--channel", "dev"];

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_answers_with_every_agents_words_calls_and_tasks() {
    let (home, _served) = house();
    edit(&home, &DEV, Answer::Never, async |flock, shown| {
        let session = open(&flock).await;
        let ended = prompt(&flock, &session, "@coder build it").await.unwrap();
        assert_eq!(ended.stop_reason, StopReason::EndTurn);
        assert!(shown.text("agent_message_chunk").contains("**coder**: It is built."));
        assert!(
            !shown.text("agent_message_chunk").contains("@coder build it"),
            "the person's words are not repeated"
        );
        let calls = shown.all("tool_call");
        assert!(
            calls.iter().any(|call| call["title"].as_str().unwrap().starts_with("coder: write")),
            "{calls:#?}"
        );
        let place = home.file("workspaces/coder/b.txt");
        let all = [calls, shown.all("tool_call_update")].concat();
        let diff = json!({"type": "diff", "path": place, "newText": "built\n"});
        assert!(all.iter().any(|call| call["content"][0] == diff), "{all:#?}");
        let plans = shown.all("plan");
        let last = plans.last().unwrap();
        assert!(
            last["entries"][0]["content"].as_str().unwrap().starts_with("tester: please test b.txt"),
            "{plans:#?}"
        );
        let posted = said(&home, "dev");
        assert!(posted.contains(&("human:ann".to_owned(), "@coder build it".to_owned())), "{posted:?}");
    })
    .await;
    edit(&home, &DEV, Answer::Never, async |flock, shown| {
        initialize(&flock).await;
        let listed = flock.send_request(ListSessionsRequest::new()).block_task().await.unwrap();
        assert_eq!(listed.sessions[0].title.as_deref(), Some("The build"));
        let id = listed.sessions[0].session_id.clone();
        flock.send_request(LoadSessionRequest::new(id.clone(), "/tmp")).block_task().await.unwrap();
        assert_eq!(shown.text("user_message_chunk"), "@coder build it");
        assert!(shown.text("agent_message_chunk").contains("**coder**: It is built."));
        home.flock(["channel", "post", "dev", "--as", "bob", "--no-notify", "meanwhile"]).ok();
        prompt(&flock, &id, "/status").await.unwrap();
        let text = shown.text("agent_message_chunk");
        assert!(text.contains("**human:bob**: meanwhile") && text.contains("- coder: "), "{text}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_stops_the_agents_of_the_channel() {
    let (home, _served) = house();
    edit(&home, &DEV, Answer::Never, async |flock, _| {
        let session = open(&flock).await;
        let running = prompt(&flock, &session, "@coder go on for ever");
        let stop = async {
            // The connection is served by this task, so nothing in it may wait by blocking.
            let end = Instant::now() + LIMIT;
            while !is_working(&home) {
                assert!(Instant::now() < end, "the turn runs");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            flock.send_notification(CancelNotification::new(session.clone())).unwrap();
        };
        let (ended, ()) = tokio::join!(running, stop);
        assert_eq!(ended.unwrap().stop_reason, StopReason::Cancelled);
        assert!(!is_working(&home));

        // Also right behind the prompt, while its message is about to wake an agent.
        let blocks = vec![ContentBlock::from("@coder go on for ever".to_owned())];
        let asked = flock.send_request(PromptRequest::new(session.clone(), blocks));
        flock.send_notification(CancelNotification::new(session.clone())).unwrap();
        assert_eq!(asked.block_task().await.unwrap().stop_reason, StopReason::Cancelled);
        assert!(!is_working(&home));
    })
    .await;
}
