//! Messages, forced new sessions, traces and settings, with an agent whose turns a program runs.

use flock::runtime::{RuntimeError, RuntimeEvent};
use flock::supervise::gateway_client::Call;
use serde_json::{Value, json};

use super::crew::{Crew, PROGRAM, Played};

const KEY: &str = "agent:coder:flock:main:ann";

async fn exchange(crew: &mut Crew, prompt: &str, play: impl FnOnce(Played)) -> Value {
    let answer = crew.say(json!({"agent": "coder", "sessionKey": KEY, "prompt": prompt}));
    play(crew.turn().await);
    let (status, answer) = answer.await.unwrap();
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn messages(crew: &Crew, more: &str) -> Vec<Value> {
    let (status, mut listed) = crew.ask(Call::get(&format!("/api/messages?sessionKey={KEY}{more}"))).await;
    assert_eq!(status, 200, "{listed}");
    serde_json::from_value(listed["messages"].take()).unwrap()
}

#[tokio::test]
async fn a_message_is_answered_and_both_are_read_with_the_trace_only_where_it_is_wanted() {
    let mut crew = Crew::new().await;
    let answer = exchange(&mut crew, "what is there?", |turn| {
        turn.tell(RuntimeEvent::Trace("[coder] cmd: ls → exit 0".into()));
        turn.tell(RuntimeEvent::Trace("  notes\u{1b}[2J.md".into()));
        turn.say("There is one file.");
    })
    .await;
    assert_eq!(answer["sessionKey"], KEY);
    assert_eq!((&answer["role"], &answer["content"]), (&json!("assistant"), &json!("There is one file.")));
    assert_eq!((&answer["cli"], &answer["model"]), (&json!(PROGRAM), &json!("script/demo")));
    assert!(answer["created_at"].as_i64().unwrap() > 1_600_000_000_000 && answer["trace"].is_null());

    let told = messages(&crew, "").await;
    assert_eq!(told.len(), 2);
    assert_eq!((&told[0]["role"], &told[0]["content"]), (&json!("user"), &json!("what is there?")));
    let names: Vec<&String> = told[0].as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "role", "content", "cli", "model", "created_at"]);
    let mut without = answer.clone();
    without.as_object_mut().unwrap().remove("sessionKey");
    assert_eq!(told[1], without);
    let told = messages(&crew, "&includeTrace=1").await;
    assert_eq!(told[0]["trace"], Value::Null);
    assert_eq!(told[1]["trace"], "[coder] cmd: ls → exit 0\n  notes\\u{1b}[2J.md");
    assert_eq!(messages(&crew, "&limit=1").await[0]["role"], "assistant");
    // Long texts end a page early, and are never cut.
    let long = "x".repeat(3 << 20);
    for _ in 0..4 {
        exchange(&mut crew, &long, |turn| turn.say("read")).await;
    }
    let page = messages(&crew, "").await;
    assert_eq!(page.len(), 6);
    assert!(page.iter().all(|message| message["role"] == "assistant" || message["content"] == long.as_str()));
    crew.stopped().await;
}

#[tokio::test]
async fn a_program_is_told_of_before_and_what_a_person_left_is_forgotten() {
    let mut crew = Crew::new().await;
    let first = exchange(&mut crew, "one", |turn| {
        assert_eq!(turn.order.recent, "", "nothing was said before, and what is new is not of before");
        turn.tell(RuntimeEvent::Trace("[coder] cmd: make → exit 0".into()));
        turn.say("done");
    });
    first.await;
    let block = "[Recent Context]\n[user] one\n[coder] cmd: make → exit 0\n---\n";
    let mut conversation = String::new();
    exchange(&mut crew, "two", |turn| {
        assert_eq!(turn.order.recent, block);
        conversation.clone_from(&turn.order.conversation);
        turn.say("again");
    })
    .await;

    // A new conversation of the program, which is told the last of the old one.
    let answer = crew.say(json!({"sessionKey": KEY, "prompt": "three", "forceNew": true}));
    let turn = crew.turn().await;
    assert_ne!(turn.order.conversation, conversation);
    assert!(turn.order.recent.ends_with("[user] two\n[coder] agent: again\n---\n"), "{}", turn.order.recent);
    turn.say("fresh");
    assert_eq!(answer.await.unwrap().0, 200);

    // A person's /new: nothing of before.
    let (status, said) = crew.say(json!({"sessionKey": KEY, "prompt": "/new"})).await.unwrap();
    assert_eq!(status, 200);
    assert!(said["content"].as_str().unwrap().contains("begins anew"), "{said}");
    exchange(&mut crew, "four", |turn| {
        assert_eq!(turn.order.recent, "");
        turn.say("nothing known");
    })
    .await;
    // The same by the path for it.
    let path = format!("/api/sessions/{KEY}/reset");
    assert_eq!(crew.ask(Call::post(&path)).await, (200, json!({"reset": true})));
    exchange(&mut crew, "five", |turn| {
        assert_eq!(turn.order.recent, "");
        turn.say("nor now");
    })
    .await;
    // The record has all of it.
    let contents: Vec<String> =
        messages(&crew, "").await.iter().map(|m| m["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        contents,
        ["one", "done", "two", "again", "three", "fresh", "four", "nothing known", "five", "nor now"]
    );
    crew.stopped().await;
}

#[tokio::test]
async fn a_program_that_goes_on_is_told_what_was_said_without_it() {
    let mut crew = Crew::new().await;
    let mut first = None;
    exchange(&mut crew, "one", |turn| {
        assert_eq!(turn.order.missed, None, "it has nothing yet");
        first = Some(turn.order.turn);
        turn.say("done");
    })
    .await;
    // What reads all that was said is not done where the gateway answers.
    let knew_on = crew.knew_on.lock().unwrap().unwrap();
    assert_ne!(knew_on, std::thread::current().id());
    *crew.knows.lock().unwrap() = first;
    let answer = crew.say(json!({"agent": "coder", "sessionKey": KEY, "prompt": "two"}));
    let turn = crew.turn().await;
    assert_eq!(turn.order.missed.as_deref(), Some(""), "it has all of it");
    turn.fail(RuntimeError::NotRunning {
        program: "Played".into(),
        reason: "no".into(),
        hint: String::new(),
    });
    assert_ne!(answer.await.unwrap().0, 200);
    // Its program does not have that turn.
    exchange(&mut crew, "three", |turn| {
        let missed = turn.order.missed.as_deref().unwrap();
        assert!(missed.starts_with("[Recent Context]\n[user] two\n[coder] failed: "), "{missed}");
        assert!(!missed.contains("[user] one") && turn.order.recent.contains("[user] one"));
        turn.say("now");
    })
    .await;
    exchange(&mut crew, "four", |turn| {
        let missed = turn.order.missed.as_deref().unwrap();
        let asked: Vec<&str> = missed.lines().filter(|line| line.starts_with("[user] ")).collect();
        assert_eq!(asked, ["[user] two", "[user] three"], "{missed}");
        turn.say("all known");
    })
    .await;
    crew.stopped().await;
}

#[tokio::test]
async fn a_turn_that_failed_keeps_its_trace() {
    let mut crew = Crew::new().await;
    let answer = crew.say(json!({"agent": "coder", "sessionKey": KEY, "prompt": "break"}));
    let turn = crew.turn().await;
    turn.tell(RuntimeEvent::Trace("[coder] cmd: false → exit 1".into()));
    turn.fail(RuntimeError::Failed {
        program: "Played".into(),
        message: "it broke".into(),
        hint: String::new(),
    });
    let (status, error) = answer.await.unwrap();
    assert_eq!((status, &error["error"]["code"]), (424, &json!("runtime_failed")), "{error}");
    let told = messages(&crew, "&includeTrace=true").await;
    assert_eq!((told.len(), &told[0]["trace"]), (1, &json!("[coder] cmd: false → exit 1")));
    exchange(&mut crew, "what happened?", |turn| {
        let recent = &turn.order.recent;
        assert!(
            recent
                .starts_with("[Recent Context]\n[user] break\n[coder] cmd: false → exit 1\n[coder] failed: "),
            "{recent}"
        );
        turn.say("it broke");
    })
    .await;
    crew.stopped().await;
}

#[tokio::test]
async fn without_an_agent_it_is_the_orchestrator_in_the_persons_own_session() {
    let mut crew = Crew::new().await;
    // There is nothing yet that it could begin anew after.
    let answer = crew.say(json!({"prompt": "hello", "forceNew": true}));
    let turn = crew.turn().await;
    assert_eq!(turn.order.agent.as_str(), "orchestrator");
    let own = format!("agent:orchestrator:flock:main:{}", flock::process::login());
    assert_eq!(turn.order.session.as_str(), own);
    turn.say("hi");
    assert_eq!(answer.await.unwrap().1["sessionKey"], own);
    let (_, listed) = crew.ask(Call::get("/api/messages")).await;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 2);
    let (_, none) = crew.ask(Call::get("/api/messages?agent=tester")).await;
    assert_eq!(none, json!({"messages": []}));
    crew.stopped().await;
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let crew = Crew::new().await;
    for (body, status, code) in [
        (json!({}), 400, "invalid_body"),
        (json!({"prompt": " "}), 400, "no_user_message"),
        (json!({"prompt": "x", "forcenew": true}), 400, "invalid_body"),
        (json!({"prompt": "x", "agent": "nobody"}), 404, "agent_not_found"),
        (json!({"prompt": "x", "sessionKey": "coder"}), 400, "invalid_session_key"),
        (json!({"prompt": "x", "sessionKey": "agent:nobody:flock:main:ann"}), 404, "agent_not_found"),
        (json!({"prompt": "x", "agent": "tester", "sessionKey": KEY}), 400, "session_of_another_agent"),
        (json!({"prompt": "x", "agent": "coder", "sessionKey": "main"}), 400, "invalid_session_key"),
    ] {
        let (got, answer) = crew.say(body.clone()).await.unwrap();
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "{body} {answer}");
    }
    for query in ["limit=0", "limit=501", "limit=x", "includeTrace=yes"] {
        let (status, answer) = crew.ask(Call::get(&format!("/api/messages?agent=coder&{query}"))).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("invalid_query")), "{query}");
    }
    crew.stopped().await;
}

#[tokio::test]
async fn settings_change_what_runs_an_agent_and_nothing_that_can_not() {
    let mut crew = Crew::new().await;
    let put = |body: Value| Call::put("/api/settings").json(&body).unwrap();
    let wanted = json!({"agent": "tester", "cli": PROGRAM, "model": "acme/one", "effort": "high"});
    let (status, changed) = crew.ask(put(wanted.clone())).await;
    let as_it_is = |mut wanted: Value| {
        wanted["onHost"] = json!(false);
        wanted
    };
    assert_eq!((status, changed), (200, as_it_is(wanted)));
    let answer = crew.say(json!({"agent": "tester", "prompt": "hello"}));
    let turn = crew.turn().await;
    assert_eq!((turn.order.agent.as_str(), turn.order.model.as_str()), ("tester", "acme/one"));
    turn.say("hi");
    assert_eq!(answer.await.unwrap().1["cli"], PROGRAM);

    // What is not named stays; without an agent it is the orchestrator's.
    let (_, changed) = crew.ask(put(json!({"agent": "tester", "cli": "native"}))).await;
    let kept = json!({"agent": "tester", "cli": "native", "model": "acme/one", "effort": "high"});
    assert_eq!(changed, as_it_is(kept));
    // What is named as nothing is left to the provider again.
    let (_, changed) = crew.ask(put(json!({"agent": "tester", "cli": "native", "effort": null}))).await;
    let kept = json!({"agent": "tester", "cli": "native", "model": "acme/one", "effort": null});
    assert_eq!(changed, as_it_is(kept));
    let (_, changed) = crew.ask(put(json!({"cli": "native"}))).await;
    assert_eq!(changed["agent"], "orchestrator");

    let before = std::fs::read(crew.home.config()).unwrap();
    for (body, status, code) in [
        (json!({"agent": "tester"}), 400, "invalid_body"),
        (json!({"agent": "tester", "cli": "emacs"}), 400, "unknown_runtime"),
        (json!({"agent": "tester", "cli": "acp:./agent"}), 400, "unknown_runtime"),
        (json!({"agent": "tester", "cli": "acp:flock-knows-no-such-program"}), 424, "runtime_not_installed"),
        (json!({"agent": "nobody", "cli": "native"}), 404, "agent_not_found"),
        (json!({"agent": "tester", "cli": "native", "model": "gpt"}), 400, "invalid_body"),
        (json!({"agent": "tester", "cli": "native", "effort": "enormous"}), 400, "invalid_body"),
        (json!({"agent": "tester", "cli": "native", "runtime": "x"}), 400, "invalid_body"),
    ] {
        let (got, answer) = crew.ask(put(body.clone())).await;
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "{body} {answer}");
    }
    assert_eq!(std::fs::read(crew.home.config()).unwrap(), before);
    let (_, audit) = crew.ask(Call::get("/api/audit?limit=50")).await;
    let rows = audit["rows"].as_array().unwrap().iter().filter(|row| row["action"] == "agent.settings");
    assert_eq!(rows.count(), 4, "{audit}");
    crew.stopped().await;
}

#[tokio::test]
async fn the_trace_of_flocks_own_turns_is_made_of_their_calls() {
    let crew = Crew::new().await;
    let script = json!({"replies": [{"steps": [
        {"calls": [{"name": "flock_status", "arguments": {}}]},
        {"calls": [{"name": "flock_channel_read", "arguments": {"channelId": "nowhere"}}]},
        {"say": "All is well."},
    ]}]});
    std::fs::create_dir_all(crew.home.scripts()).unwrap();
    std::fs::write(crew.home.scripts().join("check"), script.to_string()).unwrap();
    let settings = json!({"agent": "tester", "cli": "native", "model": "script/check"});
    assert_eq!(crew.ask(Call::put("/api/settings").json(&settings).unwrap()).await.0, 200);
    let (status, answer) = crew.say(json!({"agent": "tester", "prompt": "how is it?"})).await.unwrap();
    assert_eq!((status, &answer["cli"]), (200, &json!("native")), "{answer}");
    let (_, listed) = crew.ask(Call::get("/api/messages?agent=tester&includeTrace=1")).await;
    let trace = listed["messages"][1]["trace"].as_str().unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    assert_eq!(lines[0], "[tester] tool: flock_status → ok", "{trace}");
    assert_eq!(lines[1], "[tester] tool: flock_channel_read channelId=nowhere → failed", "{trace}");
    assert!(trace.contains("\n[tester] agent: All is well.\n[tester] tokens: in="), "{trace}");
    crew.stopped().await;
}
