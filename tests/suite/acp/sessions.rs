//! Sessions: listed, opened again in another run of the editor, and errors that name the mending command.

use agent_client_protocol::v1::schema::{
    CloseSessionRequest, ListSessionsRequest, LoadSessionRequest, NewSessionRequest, ResumeSessionRequest,
};
use serde_json::json;

use super::editor::{Answer, edit, initialize, open, prompt};
use crate::support::home::TempHome;
use crate::team::stage::{Served, add};

fn house() -> (TempHome, Served) {
    let home = TempHome::new().init();
    let replies = json!([
        {"when": "write", "steps": [
            {"say": "I write.", "calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "one\n"}}]},
            {"say": "Done."},
        ]},
        {"steps": [{"say": "I heard: {{last_message}}"}]},
    ]);
    add(&home, "coder", &replies);
    add(&home, "other", &replies);
    let served = Served::start(&home);
    (home, served)
}

const CODER: [&str; 2] = ["--agent", "coder"];

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_listed_and_shown_again_in_another_run_of_the_editor() {
    let (home, _served) = house();
    let session = edit(&home, &CODER, Answer::Never, async |flock, _| {
        let session = open(&flock).await;
        prompt(&flock, &session, "write the file").await.unwrap();
        session
    })
    .await;
    home.flock(["chat", "coder", "from the command line"]).ok();
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        initialize(&flock).await;
        let listed = flock.send_request(ListSessionsRequest::new()).block_task().await.unwrap();
        let titles: Vec<_> = listed.sessions.iter().map(|one| one.title.clone().unwrap()).collect();
        assert_eq!(titles, ["from the command line", "write the file"]);
        let is_there =
            listed.sessions.iter().any(|one| one.session_id == session && one.updated_at.is_some());
        assert!(is_there, "{listed:?}");
        flock.send_request(LoadSessionRequest::new(session.clone(), "/tmp")).block_task().await.unwrap();
        assert_eq!(shown.text("user_message_chunk"), "write the file");
        assert_eq!(shown.text("agent_message_chunk"), "I write.\n\nDone.\n\n");
        assert_eq!(shown.all("tool_call")[0]["content"][0]["type"], "diff");
        assert_eq!(shown.all("tool_call_update")[0]["status"], "completed");
        prompt(&flock, &session, "and now?").await.unwrap();
        assert!(
            shown.text("agent_message_chunk").ends_with("Done.\n\nI heard: and now?"),
            "nothing is shown twice"
        );
        let closed = CloseSessionRequest::new(session.clone());
        flock.send_request(closed).block_task().await.unwrap();
        let gone = prompt(&flock, &session, "hello").await.unwrap_err();
        assert!(gone.message.contains("is not open"), "{gone:?}");
    })
    .await;
    edit(&home, &CODER, Answer::Never, async |flock, shown| {
        initialize(&flock).await;
        flock.send_request(ResumeSessionRequest::new(session.clone(), "/tmp")).block_task().await.unwrap();
        assert_eq!(shown.text("agent_message_chunk"), "", "resuming shows nothing again");
        prompt(&flock, &session, "still there?").await.unwrap();
        assert_eq!(shown.text("agent_message_chunk"), "I heard: still there?");
    })
    .await;
    // The session of one agent is not open to the editor of another.
    edit(&home, &["--agent", "other"], Answer::Never, async |flock, _| {
        initialize(&flock).await;
        for id in [session.clone(), "agent:other:flock:main:nobody".into(), "../../etc".into()] {
            let refused =
                flock.send_request(LoadSessionRequest::new(id, "/tmp")).block_task().await.unwrap_err();
            assert!(refused.message.contains("flock session list"), "{refused:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_what_failed_and_the_command_that_mends_it() {
    let home = TempHome::new().init();
    let refused = async |args: &[&str]| {
        edit(&home, args, Answer::Never, async |flock, _| {
            initialize(&flock).await;
            flock.send_request(NewSessionRequest::new("/tmp")).block_task().await.unwrap_err().message
        })
        .await
    };
    let stopped = refused(&[]).await;
    assert!(stopped.contains("not running") && stopped.contains("flock start"), "{stopped}");
    let _served = Served::start(&home);
    let agent = refused(&["--agent", "nobody"]).await;
    assert!(agent.contains("nobody") && agent.contains("flock list"), "{agent}");
    let channel = refused(&["--channel", "nowhere"]).await;
    assert!(channel.contains("nowhere") && channel.contains("flock channel list"), "{channel}");

    let none = TempHome::new();
    let missing = edit(&none, &[], Answer::Never, async |flock, _| {
        initialize(&flock).await;
        flock.send_request(NewSessionRequest::new("/tmp")).block_task().await.unwrap_err().message
    })
    .await;
    assert!(missing.contains("flock init"), "{missing}");
}
