//! Budget, brake, approval, audit and the end of repetition.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flock::agent::{CallUsage, ToolCallRecord, TurnError, TurnEvent, TurnRequest};
use flock::id::SessionKey;
use flock::runtime::PauseReason;
use flock::store::{NewUsage, TokenCounts, TurnState};
use flock::tool::ToolOutput;
use flock::tool::policy::Decision;
use serde_json::json;

use super::feed::channel;
use super::rig::{Fake, Rig, Set, main_key, registry, turn};
use super::watch::Watch;
use crate::support::model_server::{Chunk, Reply};

fn watched(watch: &Arc<Watch>, tools: Vec<Fake>) -> Rig {
    Rig::with(Set { registry: registry(tools), oversight: watch.clone(), ..Set::default() })
}

async fn last_state(rig: &Rig) -> (TurnState, Option<String>) {
    let store = flock::store::Store::open(&rig.home()).unwrap();
    let turn = store.turns().list(&main_key(), 1).await.unwrap().pop().unwrap();
    (turn.state, turn.error)
}

fn count(rig: &Rig, role: &str) -> usize {
    rig.transcript().iter().filter(|line| line["message"]["role"] == role).count()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !condition() {
        assert!(std::time::Instant::now() < end, "{what}: not in time");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_costs_nothing() {
    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, Vec::new());
    let mut config = rig.config();
    config["models"]["providers"]["fake"]["baseUrl"] = json!("http://127.0.0.1:9/v1");
    rig.write_config(&config);
    let error = rig.say("hi").await.unwrap_err();
    assert!(error.to_string().contains("can't connect"), "{error}");
    assert_eq!(watch.settled(), [(0, CallUsage::Nothing)]);
    assert!(!matches!(rig.events().last(), Some(TurnEvent::TextDelta(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_providers_count_is_held_against_what_was_seen() {
    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, Vec::new());
    rig.server.reply(Reply::text(&"word ".repeat(14_000)));
    rig.say(&"much ".repeat(2_000)).await.unwrap();
    let settled = watch.settled();
    assert!(matches!(settled[..], [(0, CallUsage::Told(told))] if told.output == 5), "{settled:?}");
    let seen = watch.seen.lock().unwrap()[0];
    assert_eq!(seen.output, 17_500);
    assert!(seen.input > 2_500 + 300 && seen.input < 10_000, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_model_call_is_set_aside_and_settled_once() {
    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, Vec::new());
    rig.server
        .reply(Reply::status(500, "oops"))
        .reply(Reply::call("1", "echo", &json!({})))
        .reply(Reply::text("done"))
        .reply(Reply::status(401, "bad key"));
    rig.say("hi").await.unwrap();
    rig.say("again").await.unwrap_err();
    let calls = watch.calls.lock().unwrap().clone();
    assert_eq!(calls.iter().map(|call| call.step).collect::<Vec<_>>(), [1, 2, 1], "asked again is one call");
    let call = &calls[0];
    assert_eq!(
        (call.agent.as_str(), &call.session, call.model.as_str()),
        ("coder", &main_key(), "fake/test-model")
    );
    assert!(call.input_estimate > 300 && call.max_output == 1_000, "{call:?}");
    assert!(calls[1].input_estimate > call.input_estimate, "the results are part of what is asked");
    let settled = watch.settled();
    assert_eq!(
        settled.iter().map(|(id, taken)| (*id, taken.told().map(|usage| usage.output))).collect::<Vec<_>>(),
        [(0, Some(5)), (1, Some(5)), (2, None)]
    );
    assert_eq!(settled[2].1, CallUsage::Nothing, "the key was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_call_that_ends_a_turn_is_settled_with_the_turns_end() {
    let watch = Arc::new(Watch { leaves_last: true, ..Watch::default() });
    let rig = watched(&watch, Vec::new());
    let store = rig.engine.store();
    // This oversight writes nothing itself, and counts its calls from 0.
    for id in 0..3 {
        let new = NewUsage {
            id,
            at: 1,
            day: "2026-02-28".to_owned(),
            agent: "coder".parse().unwrap(),
            session: main_key(),
            channel: None,
            turn: flock::id::TurnId::new(),
            model: "fake/test-model".parse().unwrap(),
            person: None,
            server: None,
            tokens: TokenCounts { input: 10, ..TokenCounts::default() },
            cost: None,
        };
        store.usage().reserve(new, Vec::new()).await.unwrap().unwrap();
    }
    rig.server
        .reply(Reply::call("1", "echo", &json!({})))
        .reply(Reply::text("done"))
        .reply(Reply::status(401, "bad key"));
    let left = async || -> BTreeSet<i64> {
        store.usage().reserved().await.unwrap().into_iter().map(|(id, ..)| id).collect()
    };
    rig.say("hi").await.unwrap();
    assert_eq!(left().await, BTreeSet::from([0, 2]), "the answer's is gone");
    rig.say("again").await.unwrap_err();
    assert_eq!(left().await, BTreeSet::from([0, 2]), "no answer ended this turn");
    assert_eq!(watch.settled().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_dropped_settles_what_it_set_aside() {
    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, Vec::new());
    rig.server.reply(Reply::stream(vec![Chunk::Hang]));
    {
        let say = rig.say("go");
        tokio::pin!(say);
        tokio::select! {
            result = &mut say => panic!("{result:?}"),
            () = until("the model is asked", || !rig.server.requests().is_empty()) => {}
        }
        assert_eq!(watch.settled(), []);
    }
    assert_eq!(watch.settled(), [(0, CallUsage::Sent)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_in_the_middle_of_a_call_is_settled_as_one_that_had_begun() {
    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, Vec::new());
    let call =
        json!({"index": 0, "id": "1", "type": "function", "function": {"name": "echo", "arguments": "{"}});
    let event = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}]});
    let begun = format!("data: {event}\n\n");
    rig.server
        .reply(Reply::stream(vec![begun.as_str().into(), Chunk::Reset]))
        .reply(Reply::status(401, "no"));
    rig.say("go").await.unwrap_err();
    assert_eq!(watch.settled(), [(0, CallUsage::Begun)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_budget_nothing_is_asked_and_the_input_is_not_delivered() {
    let watch = Arc::new(Watch { budget: 0, ..Watch::default() });
    let rig = watched(&watch, Vec::new());
    let request = TurnRequest { provenance: Some(channel(1, 3)), ..turn("hi") };
    let id = request.turn;
    let error = rig.run(request).await.unwrap_err();
    assert!(
        matches!(&error, TurnError::Paused(PauseReason::Budget(why)) if why.contains("used up")),
        "{error}"
    );
    assert_eq!(rig.server.requests().len(), 0);
    assert_eq!(rig.engine.deliveries(&main_key(), id).await.unwrap(), []);
    assert_eq!((rig.transcript().len(), rig.events().len()), (1, 0), "only the header");
    let (state, reason) = last_state(&rig).await;
    assert!(state == TurnState::Failed && reason.unwrap().contains("used up"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_ends_in_the_middle_ends_the_turn_between_two_steps() {
    let watch = Arc::new(Watch { budget: 1, ..Watch::default() });
    let rig = watched(&watch, Vec::new());
    rig.server.reply(Reply::call("1", "echo", &json!({"n": 1})));
    assert!(matches!(rig.say("go").await, Err(TurnError::Paused(_))));
    assert_eq!((rig.server.requests().len(), count(&rig, "tool")), (1, 1));
    assert_eq!(watch.settled().len(), 1);
    assert_eq!(rig.say("go on").await.unwrap().text, "ok");
    let asked = rig.asked().iter().map(ToString::to_string).collect::<String>();
    assert!(asked.contains("echo {") && asked.contains("go on"), "what was done is not forgotten: {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_agent_runs_no_tool_and_asks_no_model_until_it_is_thawed() {
    // Frozen while the model answers: its answer is kept, its call waits.
    let watch = Arc::new(Watch {
        on_settle: Some(Box::new(|watch| watch.freeze(watch.settled().len() == 1))),
        ..Watch::default()
    });
    let rig = watched(&watch, Vec::new());
    rig.server.reply(Reply::call("1", "echo", &json!({})));
    let (result, ()) = tokio::join!(rig.say("go"), async {
        until("the turn waits", || watch.waits_frozen()).await;
        assert_eq!((count(&rig, "assistant"), count(&rig, "tool")), (1, 0));
        assert!(!rig.events().iter().any(|event| matches!(event, TurnEvent::ToolStarted { .. })));
        let says =
            |event: &TurnEvent| matches!(event, TurnEvent::Notice(text) if text.contains("flock thaw coder"));
        assert_eq!(rig.events().iter().filter(|event| says(event)).count(), 1, "who waits is told once");
        watch.freeze(false);
    });
    assert_eq!(result.unwrap().text, "ok");
    assert_eq!((rig.server.requests().len(), count(&rig, "tool")), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_because_it_is_frozen_can_be_cancelled() {
    for reserve in [false, true] {
        let watch = Arc::new(Watch::default());
        let rig = watched(&watch, Vec::new());
        watch.freeze(!reserve);
        watch.reserve_hangs.store(reserve, Ordering::SeqCst);
        let (result, ()) = tokio::join!(rig.say("go"), async {
            until("the turn waits", || watch.waits_frozen() || watch.reserve_waits.load(Ordering::SeqCst))
                .await;
            rig.cancel.cancel();
        });
        assert!(matches!(result, Err(TurnError::Cancelled)), "{result:?}");
        assert_eq!(last_state(&rig).await.0, TurnState::Cancelled);
        assert_eq!((rig.server.requests().len(), count(&rig, "user")), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_a_person_is_not_run_and_the_model_is_told() {
    let exec = || Fake::new("exec", |_, _| Box::pin(async { panic!("it ran on the host") }));
    let session: SessionKey = "agent:sysadmin:flock:main:ann".parse().unwrap();
    let request = || TurnRequest { agent: session.agent().clone(), session: session.clone(), ..turn("go") };
    let results = |rig: &Rig| -> Vec<String> {
        let results = rig.asked().into_iter().filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    };
    let calls = || Reply::calls(&[("1", "exec", r#"{"command":"rm -r /"}"#), ("2", "exec", r#"{"broken"#)]);

    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, vec![exec()]);
    rig.server.reply(calls());
    assert_eq!(rig.run(request()).await.unwrap().text, "ok");
    let told = results(&rig);
    assert_eq!(told[0], "request 7 waits for a person");
    assert!(told[1].contains("not valid JSON"), "{told:?}");
    let asked = watch.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "nobody is asked about what could not be run");
    assert_eq!((asked[0].0.as_str(), &asked[0].1), ("exec", &json!({"command": "rm -r /"})));
    let called = watch.called.lock().unwrap().clone();
    assert!(
        matches!(&called[0].decision, Decision::Ask(reason) if *reason == asked[0].2) && !called[0].is_error
    );
    assert!(matches!(&called[1].decision, Decision::Deny(_)) && called[1].is_error);

    // Where nobody can be asked, it is not run either.
    let rig = Rig::with(Set { registry: registry(vec![exec()]), ..Set::default() });
    rig.server.reply(calls());
    rig.run(request()).await.unwrap();
    let told = results(&rig);
    assert!(told[0].contains("not run") && told[0].starts_with("error"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tool_call_is_told_with_what_was_decided() {
    let watch = Arc::new(Watch::default());
    let rig = watched(&watch, Vec::new());
    let long = json!({"text": "x".repeat(5_000)}).to_string();
    rig.server.reply(Reply::calls(&[("1", "echo", &long), ("2", "forbidden", "{}"), ("3", "broken", "{}")]));
    rig.server.reply(Reply::call("4", "fatal", &json!({})));
    assert!(matches!(rig.say("go").await, Err(TurnError::Tool { .. })));
    let called: Vec<ToolCallRecord> = watch.called.lock().unwrap().clone();
    let short: Vec<(&str, bool, bool)> = called
        .iter()
        .map(|call| (call.name.as_str(), call.decision == Decision::Allow, call.is_error))
        .collect();
    assert_eq!(
        short,
        [("echo", true, false), ("forbidden", false, true), ("broken", true, true), ("fatal", true, true)]
    );
    assert!(called[0].preview.len() < 200 && called[0].arguments_sha256.len() == 64);
    assert_eq!(
        called[1].arguments_sha256, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "of {{}}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_the_same_again_and_again_is_told_and_then_ended() {
    let rig = Rig::new();
    rig.server.always(Reply::call("1", "echo", &json!({"n": 1})));
    let error = rig.say("go").await.unwrap_err();
    assert!(matches!(&error, TurnError::Looping { tool, times: 10 } if tool == "echo"), "{error}");
    assert_eq!(rig.server.requests().len(), 10);
    let told: Vec<bool> = rig
        .transcript()
        .iter()
        .filter(|line| line["message"]["role"] == "tool")
        .map(|line| line.to_string().contains("times in a row"))
        .collect();
    assert_eq!(told, [vec![false; 4], vec![true; 6]].concat());
    rig.server.always(Reply::text("fine"));
    assert_eq!(rig.say("something else").await.unwrap().text, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_was_stopped_is_told_too() {
    let watch = Arc::new(Watch::default());
    let wait = Fake::new("wait", |context, _| {
        Box::pin(async move {
            context.cancel.cancelled().await;
            Ok(ToolOutput::text("ended by the stop"))
        })
    });
    let rig = watched(&watch, vec![wait]);
    rig.server.reply(Reply::call("1", "wait", &json!({})));
    let (result, ()) = tokio::join!(rig.say("go"), async {
        let started = |event: &TurnEvent| matches!(event, TurnEvent::ToolStarted { .. });
        until("the tool is called", || rig.events().iter().any(started)).await;
        rig.cancel.cancel();
    });
    assert!(matches!(result, Err(TurnError::Cancelled)), "{result:?}");
    assert_eq!(watch.called.lock().unwrap().len(), 1);
}
