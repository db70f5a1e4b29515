//! What a model, a provider, a caller or a crash can do to a turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flock::agent::{TurnError, TurnEvent, TurnLimits};
use flock::config::agents;
use flock::provider::ProviderError;
use flock::store::TurnState;
use flock::tool::ToolOutput;
use serde_json::{Value, json};

use super::rig::{Death, Fake, Rig, Set, lines, main_key, open, registry, turn};
use crate::support::model_server::{Chunk, Reply};
use crate::support::wait_until;

const SOON: Duration = Duration::from_secs(60);

/// The results the model was given, as text.
fn results(rig: &Rig) -> Vec<String> {
    let results = rig.asked().into_iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

async fn last_state(rig: &Rig) -> (String, TurnState) {
    let store = flock::store::Store::open(&rig.home()).unwrap();
    let turn = store.turns().list(&main_key(), 1).await.unwrap().pop().unwrap();
    let lines = rig.transcript();
    (lines[lines.len() - 1]["state"].as_str().unwrap_or("none").to_owned(), turn.state)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_model_calls_gets_a_result() {
    for api in ["openai-completions", "anthropic-messages"] {
        let rig = Rig::with(Set { api, ..Set::default() });
        rig.server.reply(Reply::calls(&[
            ("1", "no_such_tool", "{}"),
            ("2", "echo", r#"{"broken"#),
            ("3", "echo", "[1,2]"),
            ("4", "forbidden", "{}"),
            ("5", "broken", "{}"),
            ("6", "../../etc/passwd", "{}"),
            ("7", "echo", r#"{"fine":true}"#),
        ]));
        let outcome = rig.say("go").await.unwrap();
        assert_eq!(outcome.text, "ok", "{api}");
        let lines = rig.transcript();
        let texts: Vec<String> = lines
            .iter()
            .filter(|line| line["message"]["role"] == "tool")
            .map(|line| line["message"]["content"][0]["content"][0]["text"].as_str().unwrap().to_owned())
            .collect();
        for (text, part) in texts.iter().zip([
            "there is no tool",
            "not valid JSON",
            "JSON",
            "denied",
            "defect",
            "there is no tool",
            "fine",
        ]) {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(texts.len(), 7);
        rig.say("and again").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_taken_away_in_the_middle_of_a_turn_is_gone() {
    let rig = Rig::new();
    rig.server.reply(Reply::call("1", "echo", &json!({"n": 1}))).reply(Reply::call(
        "2",
        "echo",
        &json!({"n": 2}),
    ));
    let mut seen = 0;
    let engine = Arc::clone(&rig.engine);
    let mut on_event = |event| {
        if matches!(event, TurnEvent::ToolEnded { .. }) {
            seen += 1;
            let mut document = rig.config();
            document["tools"]["deny"] = json!(["echo"]);
            rig.write_config(&document);
        }
    };
    engine.run(turn("go"), rig.cancel.clone(), &mut on_event).await.unwrap();
    assert_eq!(seen, 2);
    let results = results(&rig);
    assert!(results[0].starts_with("echo") && results[1].contains("denied"), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_removed_runs_nothing_more_whatever_roles_others_have() {
    let rig = Rig::new();
    rig.server.reply(Reply::call("1", "echo", &json!({"n": 1}))).reply(Reply::call(
        "2",
        "echo",
        &json!({"n": 2}),
    ));
    let mut ended = 0;
    let mut on_event = |event| {
        if matches!(event, TurnEvent::ToolEnded { .. }) {
            ended += 1;
            let mut document = rig.config();
            agents::remove(&mut document, &"coder".parse().unwrap()).unwrap();
            rig.write_config(&document);
        }
    };
    let outcome = rig.engine.run(turn("go"), rig.cancel.clone(), &mut on_event).await;
    assert!(matches!(outcome, Err(TurnError::UnknownAgent(_))), "{outcome:?}");
    assert_eq!(ended, 1, "the second call did not run");
    let asked = rig.server.requests().len();
    assert!(matches!(rig.say("again").await, Err(TurnError::UnknownAgent(_))));
    assert_eq!(rig.server.requests().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_never_ends_is_ended() {
    let limits = TurnLimits { steps: 3, ..Set::default().limits };
    let rig = Rig::with(Set { limits, ..Set::default() });
    rig.server.always(Reply::call("1", "echo", &json!({})));
    assert!(matches!(rig.say("go").await, Err(TurnError::Steps(3))));
    assert_eq!(rig.server.requests().len(), 3);
    assert_eq!(last_state(&rig).await, ("failed".into(), TurnState::Failed));
    rig.server.always(Reply::text("fine"));
    assert_eq!(rig.say("again").await.unwrap().text, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_for_a_moment_is_asked_again() {
    let rig = Rig::new();
    rig.server
        .reply(Reply::status(500, "oops"))
        .reply(Reply::status(429, "slow down").header("retry-after", "0"));
    assert_eq!(rig.say("hi").await.unwrap().text, "ok");
    let attempts: Vec<u32> = rig
        .events()
        .iter()
        .filter_map(|event| match event {
            TurnEvent::Retrying { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_fails_the_turn_and_not_the_session() {
    let rig = Rig::new();
    for reply in [
        Reply::status(401, "bad key"),
        Reply::body(200, "text/html", "<html>not a model</html>"),
        Reply::stream(vec![
            "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n".into(),
            Chunk::Reset,
        ]),
    ] {
        rig.server.reply(reply);
        let error = rig.say("hi").await.unwrap_err();
        assert!(matches!(error, TurnError::Provider(_)), "{error}");
        assert_eq!(last_state(&rig).await, ("failed".into(), TurnState::Failed));
    }
    assert_eq!(rig.say("hi").await.unwrap().text, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_longer_than_estimated_is_shortened() {
    let rig = Rig::new();
    for n in 0..4 {
        rig.say(&format!("question {n} {}", "x".repeat(400))).await.unwrap();
    }
    let refusal = || Reply::status(400, "This model's maximum context length is 8192 tokens.");
    rig.server.reply(refusal()).reply(refusal());
    assert_eq!(rig.say("the last question").await.unwrap().text, "ok");
    let asked = rig.asked();
    assert!(asked.len() < 9 && asked[asked.len() - 1].to_string().contains("the last question"), "{asked:?}");
    rig.server.always(refusal());
    let error = rig.say("one more").await.unwrap_err();
    assert!(matches!(error, TurnError::Overflow { window: 8192, .. }), "it ends some time: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overflow_names_the_models_context_whatever_the_provider_says() {
    let rig = Rig::with(Set { context_window: 64_000, ..Set::default() });
    for (said, window) in [
        ("Input is too long for requested model.", 64_000),
        ("prompt is too long: 41000 tokens > 40000 maximum", 40_000),
    ] {
        rig.server.always(Reply::status(400, said));
        let error = rig.say("hello").await.unwrap_err();
        let words = format!("This model's maximum context length is {window} tokens. ");
        assert!(error.to_string().starts_with(&words) && error.to_string().contains(said), "{error}");
    }
    // What is too long before anybody is asked.
    let error = rig.say(&"word ".repeat(200_000)).await.unwrap_err().to_string();
    assert!(error.starts_with("This model's maximum context length is 64000 tokens. "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_configured_is_an_error_that_says_how() {
    let rig = Rig::new();
    let mut document = rig.config();
    document["agents"]["defaults"]["model"]["primary"] = json!("nowhere/model");
    rig.write_config(&document);
    let error = rig.say("hi").await.unwrap_err();
    assert!(matches!(&error, TurnError::Provider(ProviderError::NotConfigured { .. })), "{error}");
    assert!(flock::error::Explain::hint(&error).unwrap().starts_with("flock config set"), "{error}");
    document["agents"]["defaults"]["model"] = json!({});
    rig.write_config(&document);
    assert!(matches!(rig.say("hi").await, Err(TurnError::NoModel(_))));
    assert!(rig.engine.session(&main_key()).await.unwrap().is_none(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_begin_nothing() {
    let rig = Rig::new();
    assert!(matches!(rig.say(" \n").await, Err(TurnError::NoInput)));
    let mut request = turn("hi");
    request.agent = "nobody".parse().unwrap();
    assert!(matches!(rig.run(request).await, Err(TurnError::UnknownAgent(_))));
    let mut request = turn("hi");
    request.agent = "other".parse().unwrap();
    assert!(matches!(rig.run(request).await, Err(TurnError::WrongAgent { .. })));
    assert!(rig.engine.sessions(None, 10).await.unwrap().is_empty());
}

/// A tool that says when it was called and ends when it is told to, or never.
fn waiting(obeys: bool) -> (Fake, Arc<Mutex<bool>>) {
    let called = Arc::new(Mutex::new(false));
    let tell = Arc::clone(&called);
    let tool = Fake::new("wait", move |context, _| {
        *tell.lock().unwrap() = true;
        Box::pin(async move {
            context.cancel.cancelled().await;
            if !obeys {
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput::text("ended by the stop"))
        })
    });
    (tool, called)
}

async fn called(flag: &Arc<Mutex<bool>>) {
    let flag = Arc::clone(flag);
    tokio::task::spawn_blocking(move || {
        wait_until("the tool is called", SOON, || flag.lock().unwrap().then_some(()).ok_or_else(String::new));
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_leaves_a_transcript_that_goes_on() {
    let (tool, flag) = waiting(true);
    let rig = Rig::with(Set { registry: registry(vec![tool]), ..Set::default() });
    rig.server.reply(Reply::calls(&[("1", "wait", "{}"), ("2", "echo", "{}")]));
    let (result, ()) = tokio::join!(rig.say("go"), async {
        called(&flag).await;
        rig.cancel.cancel();
    });
    assert!(matches!(result, Err(TurnError::Cancelled)), "{result:?}");
    assert_eq!(last_state(&rig).await, ("cancelled".into(), TurnState::Cancelled));
    let text = rig.transcript().iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("ended by the stop") && text.contains("interrupted, outcome unknown"), "{text}");
    let mut again = Rig::with(Set::default());
    again.cancel.cancel();
    assert!(matches!(again.say("hi").await, Err(TurnError::Cancelled)));
    again.cancel = tokio_util::sync::CancellationToken::new();
    assert_eq!(again.say("hi").await.unwrap().text, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_a_silent_model() {
    let rig = Rig::new();
    rig.server.reply(Reply::stream(vec![Chunk::Hang]));
    let (result, ()) = tokio::join!(rig.say("go"), async {
        let asked = || (!rig.server.requests().is_empty()).then_some(()).ok_or_else(String::new);
        while asked().is_err() {
            tokio::task::yield_now().await;
        }
        rig.cancel.cancel();
    });
    assert!(matches!(result, Err(TurnError::Cancelled)), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_takes_too_long_is_ended() {
    let limits = TurnLimits { wall: Duration::from_millis(200), ..Set::default().limits };
    let rig = Rig::with(Set { limits, ..Set::default() });
    rig.server.reply(Reply::stream(vec![Chunk::Hang]));
    assert!(matches!(rig.say("go").await, Err(TurnError::TimedOut(_))));
    assert_eq!(last_state(&rig).await, ("failed".into(), TurnState::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_has_the_time_that_the_configuration_gives_it() {
    let rig = Rig::new();
    let mut config = rig.config();
    config["agents"]["defaults"]["timeoutSeconds"] = json!(1);
    rig.write_config(&config);
    rig.server.reply(Reply::stream(vec![Chunk::Hang]));
    let ended = rig.say("go").await;
    assert!(matches!(ended, Err(TurnError::TimedOut(limit)) if limit == Duration::from_secs(1)), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_turn_is_cancelled() {
    let (tool, flag) = waiting(false);
    let rig = Rig::with(Set { registry: registry(vec![tool]), ..Set::default() });
    rig.server.reply(Reply::call("1", "wait", &json!({})));
    {
        let say = rig.say("go");
        tokio::pin!(say);
        tokio::select! {
            result = &mut say => panic!("{result:?}"),
            () = called(&flag) => {}
        }
    }
    assert_eq!(rig.say("go on").await.unwrap().text, "ok");
    let asked = rig.asked();
    assert!(asked[2]["content"].as_str().unwrap().contains("interrupted, outcome unknown"), "{asked:?}");
    let states: Vec<Value> = rig
        .transcript()
        .iter()
        .filter(|line| line["type"] == "turn")
        .map(|line| line["state"].clone())
        .collect();
    assert_eq!(states, ["started", "cancelled", "started", "done"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_turns_of_a_session_never_run_at_once() {
    let (tool, flag) = waiting(true);
    let rig = Rig::with(Set { registry: registry(vec![tool]), ..Set::default() });
    rig.server.reply(Reply::call("1", "wait", &json!({})));
    let (first, second) = tokio::join!(rig.say("go"), async {
        called(&flag).await;
        let second = rig.say("me too").await;
        rig.cancel.cancel();
        second
    });
    assert!(matches!(first, Err(TurnError::Cancelled)));
    assert!(matches!(second, Err(TurnError::Busy(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_can_not_go_on_ends_the_turn() {
    let rig = Rig::new();
    rig.server.reply(Reply::call("1", "fatal", &json!({})));
    let error = rig.say("go").await.unwrap_err();
    assert!(flock::error::chain(&error).contains("on fire"), "{error}");
    assert_eq!(rig.say("again").await.unwrap().text, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_turn_is_marked_and_the_session_goes_on() {
    let death = Death::new();
    let now = Arc::clone(&death);
    let kill = Fake::new("kill", move |_, _| {
        now.strike();
        Box::pin(async { Ok(ToolOutput::text("survived")) })
    });
    let rig = Rig::with(Set { registry: registry(vec![kill]), ..Set::default() });
    death.of(&rig);
    rig.say("before").await.unwrap();
    rig.server.reply(Reply::calls(&[("1", "echo", "{}"), ("2", "kill", "{}"), ("3", "echo", "{}")]));
    rig.say("go").await.unwrap();

    let home = death.home();
    let engine = open(&home, Set::default().limits, registry(Vec::new()));
    assert_eq!(engine.recover().await.unwrap().len(), 1);
    assert_eq!(engine.recover().await.unwrap().len(), 0);
    let folder = home.sessions(&"coder".parse().unwrap());
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let left = lines(&file);
    let tail: Vec<String> = left[left.len() - 4..].iter().map(ToString::to_string).collect();
    assert!(tail[0].contains("echo"), "{tail:?}");
    assert!(
        tail[1].contains("interrupted, outcome unknown") && tail[1].contains(r#""callId":"2""#),
        "{tail:?}"
    );
    assert!(
        tail[2].contains("interrupted, outcome unknown") && tail[2].contains(r#""callId":"3""#),
        "{tail:?}"
    );
    assert!(tail[3].contains(r#""state":"interrupted""#), "{tail:?}");
    assert!(!engine.session(&main_key()).await.unwrap().unwrap().busy);
    let outcome = engine.run(turn("go on"), rig.cancel.clone(), &mut |_| {}).await.unwrap();
    assert_eq!(outcome.text, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_transcript_says_of_a_turn_wins() {
    let rig = Rig::new();
    let death = Death::new();
    death.of(&rig);
    rig.say("before").await.unwrap();
    // The database of before the end of a turn, the transcript of after it.
    death.strike();
    death.execute("UPDATE turn SET state = 'running', ended_at = NULL, output = 0");
    let home = death.home();
    let engine = open(&home, Set::default().limits, registry(Vec::new()));
    assert_eq!(engine.recover().await.unwrap().len(), 1);
    drop(engine);
    let turn =
        flock::store::Store::open(&home).unwrap().turns().list(&main_key(), 1).await.unwrap().remove(0);
    assert_eq!((turn.state, turn.tokens.output), (TurnState::Done, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_transcript_is_mended_and_its_good_lines_stay() {
    let rig = Rig::new();
    rig.say("my name is Ann").await.unwrap();
    let path = rig.transcript_path();
    let good = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{good}\0\0\0\0\n{{\"type\":\"message\",\"id\":\"torn")).unwrap();
    rig.say("what is my name?").await.unwrap();
    let asked = rig.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let now = std::fs::read_to_string(&path).unwrap();
    assert!(now.starts_with(&good));
    assert_eq!(rig.transcript().len(), 9);
}

/// Puts a folder into the place of each backup that appears, so that it can't be removed as the file that it was.
fn hold_backups(folder: std::path::PathBuf, stop: Arc<std::sync::atomic::AtomicBool>) {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let outside = tempfile::tempdir_in(folder.parent().unwrap()).unwrap();
    let mut decoys = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let decoy = outside.path().join(decoys.to_string());
        std::fs::create_dir_all(&decoy).unwrap();
        let names = std::fs::read_dir(&folder).unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        for backup in names.filter(|path| path.to_string_lossy().contains(".bak-") && path.is_file()) {
            if renameat2(AT_FDCWD, &decoy, AT_FDCWD, &backup, RenameFlags::RENAME_EXCHANGE).is_ok() {
                decoys += 1;
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_told_of_the_old_file_that_stays_after_mending() {
    let rig = Rig::new();
    rig.say("hi").await.unwrap();
    let path = rig.transcript_path();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let holder = {
        let (folder, stop) = (path.parent().unwrap().to_owned(), Arc::clone(&stop));
        std::thread::spawn(move || hold_backups(folder, stop))
    };
    let told = || {
        rig.events().into_iter().find_map(|event| match event {
            TurnEvent::Notice(text) if text.contains(".bak-") => Some(text),
            _ => None,
        })
    };
    // The backup is there for a moment only, so it takes a few of them to hold one.
    let end = std::time::Instant::now() + SOON;
    while told().is_none() && std::time::Instant::now() < end {
        let good = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{good}nonsense\n")).unwrap();
        rig.say("hi").await.unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    holder.join().unwrap();
    let told = told().unwrap();
    let backup = told.rsplit(' ').next().unwrap();
    assert!(backup.starts_with(path.to_str().unwrap()) && std::path::Path::new(backup).exists(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_that_can_not_be_written_fails_the_turn() {
    let rig = Rig::new();
    rig.say("hi").await.unwrap();
    let path = rig.transcript_path();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = rig.say("hi").await.unwrap_err();
    assert!(matches!(error, TurnError::Transcript { .. }), "{error}");
    assert!(!rig.engine.session(&main_key()).await.unwrap().unwrap().busy);
    std::fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let error = rig.say("hi").await.unwrap_err();
    // Whatever it would answer: what is no regular file is not written.
    assert!(flock::error::chain(&error).contains("no regular file"), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(rig.say("hi").await.unwrap().text, "ok");
}
