//! Tools of a client: the turn ends with their calls, and the next one begins with their results. The model server
//! refuses every conversation that the real ones refuse.

use std::sync::Arc;

use flock::agent::{
    ClientResult, ClientTool, ClientTools, TurnError, TurnEvent, TurnLimits, TurnOutcome, TurnRequest,
    TurnStop,
};
use flock::provider::{Block, Message, Role, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::rig::{Rig, Set, main_key, open, registry, turn};
use super::watch::Watch;
use crate::support::model_server::{ModelServer, Reply};

fn tools() -> ClientTools {
    let tool = |name: &str, strict: bool| {
        let parameters =
            json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        let checked = strict.then(|| Arc::new(jsonschema::validator_for(&parameters).unwrap()));
        let spec =
            ToolSpec { name: name.into(), description: "A client's.".into(), parameters: parameters.into() };
        ClientTool { spec, strict: checked }
    };
    ClientTools { tools: vec![tool("weather", false), tool("strict", true)], ..ClientTools::default() }
}

fn asks(text: &str) -> TurnRequest {
    TurnRequest { client: tools(), ..turn(text) }
}

fn answers(outcome: &TurnOutcome, text: &str) -> TurnRequest {
    let result = |id: &String| ClientResult {
        call: id.clone(),
        content: vec![Block::text(format!("{text} of {id}"))],
    };
    let results = outcome.calls.iter().map(|call| &call.id).map(result).collect();
    TurnRequest { input: Vec::new(), client: ClientTools { results, ..tools() }, ..turn("") }
}

fn weather(id: &str) -> Reply {
    Reply::call(id, "weather", &json!({"city": "Oslo"}))
}

fn results(messages: &[Value]) -> Vec<(String, String)> {
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let text = |message: &Value, key: &str| message[key].as_str().unwrap().to_owned();
    results.map(|message| (text(message, "tool_call_id"), text(message, "content"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_the_clients_calls_and_the_next_one_has_their_results() {
    let watch = Arc::new(Watch::default());
    let rig = Rig::with(Set { oversight: watch.clone(), ..Set::default() });
    rig.server.reply(Reply::calls(&[
        ("c1", "weather", r#"{"city":"Oslo"}"#),
        ("c2", "echo", r#"{"n":1}"#),
        ("c3", "weather", r#"{"city":"Rome"}"#),
    ]));
    let paused = rig.run(asks("how is the weather?")).await.unwrap();
    assert_eq!((paused.stop, paused.steps, paused.calls.len()), (TurnStop::ToolCalls, 1, 2));
    assert_eq!(paused.calls[1].arguments, json!({"city": "Rome"}));
    // The agent's own call ran, and watchers were told of no other.
    let told: Vec<String> = rig
        .events()
        .into_iter()
        .filter_map(|event| match event {
            TurnEvent::ToolStarted { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["echo"]);
    let called: Vec<(String, bool)> =
        watch.called.lock().unwrap().iter().map(|call| (call.name.clone(), call.is_handed_out)).collect();
    assert_eq!(called, [("weather".to_owned(), true), ("echo".into(), false), ("weather".into(), true)]);
    // Nothing is left open or reserved, and the pause is written down.
    assert_eq!(watch.settled().len(), 1);
    let end = rig.transcript().pop().unwrap();
    assert_eq!((&end["state"], end["pending"].as_array().unwrap().len()), (&json!("done"), 2), "{end}");
    let session = rig.engine.session(&main_key()).await.unwrap().unwrap();
    let names: Vec<&str> = session.pending.iter().map(|call| call.name.as_str()).collect();
    assert!(!session.busy && names == ["weather", "weather"], "{session:?}");

    rig.server.reply(Reply::text("It is mild."));
    let outcome = rig.run(answers(&paused, "mild")).await.unwrap();
    assert_eq!((outcome.text.as_str(), outcome.stop), ("It is mild.", TurnStop::End));
    let found = results(&rig.asked());
    let ids: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["c1", "c2", "c3"], "in the order of the calls");
    assert!(found[0].1.starts_with("mild of call_") && found[1].1.contains("echo"), "{found:?}");
    assert!(rig.engine.session(&main_key()).await.unwrap().unwrap().pending.is_empty());
    // The same results once more are those of no call.
    let error = rig.run(answers(&paused, "mild")).await.unwrap_err();
    assert!(matches!(error, TurnError::NotPending(_)), "{error}");
    // Without tools of a client, the session goes on as any.
    rig.say("thanks").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_do_not_fit_are_refused_and_the_calls_stay_pending() {
    let rig = Rig::new();
    rig.server
        .reply(Reply::calls(&[("a", "weather", r#"{"city":"x"}"#), ("b", "weather", r#"{"city":"y"}"#)]));
    let paused = rig.run(asks("hi")).await.unwrap();
    let whole = answers(&paused, "x");
    let with = |change: &dyn Fn(&mut Vec<ClientResult>)| {
        let mut request = TurnRequest { turn: flock::id::TurnId::new(), ..whole.clone() };
        change(&mut request.client.results);
        request
    };
    let before = rig.transcript().len();
    for wrong in [
        with(&|results| drop(results.pop())),
        with(&|results| results[1] = results[0].clone()),
        with(&|results| results[0].call = "call_of_nobody".into()),
    ] {
        let error = rig.run(wrong).await.unwrap_err();
        assert!(matches!(error, TurnError::NotPending(_)), "{error}");
    }
    assert_eq!(rig.transcript().len(), before, "nothing was written");
    assert_eq!(rig.engine.session(&main_key()).await.unwrap().unwrap().pending.len(), 2);
    rig.server.reply(Reply::text("done"));
    assert_eq!(rig.run(whole).await.unwrap().text, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_message_instead_of_results_closes_the_calls() {
    for api in ["openai-completions", "anthropic-messages", "google-generative-ai"] {
        let rig = Rig::with(Set { api, ..Set::default() });
        rig.server.reply(weather("toolu_1"));
        rig.run(asks("how is it?")).await.unwrap();
        rig.server.reply(Reply::text("As you like."));
        // It comes by another way, and brings no tools.
        let outcome = rig.say("never mind").await.unwrap();
        assert_eq!(outcome.text, "As you like.");
        let request = rig.server.requests().pop().unwrap().body.to_string();
        assert!(request.contains("was not answered") && request.contains("never mind"), "{request}");
        let lines = rig.transcript();
        let closed = lines.iter().filter(|line| line["message"]["role"] == "tool");
        let closed: Vec<&Value> = closed.map(|line| &line["message"]["content"][0]["isError"]).collect();
        assert_eq!(closed, [&json!(true)]);
        assert!(rig.engine.session(&main_key()).await.unwrap().unwrap().pending.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_find_their_calls_after_a_restart_a_compaction_and_a_reset() {
    let rig = Rig::with(Set { context_window: 16_000, ..Set::default() });
    for n in 0..6 {
        rig.say(&format!("message {n} {}", "x".repeat(3_000))).await.unwrap();
    }
    rig.server.reply(weather("c1"));
    let paused = rig.run(asks("how is it?")).await.unwrap();
    // Another process compacts the session meanwhile, and knows nothing but what is written.
    let engine = open(&rig.home(), TurnLimits::default(), registry(Vec::new()));
    assert!(engine.recover().await.unwrap().is_empty(), "the turn was not interrupted");
    assert!(engine.compact(&main_key(), true).await.unwrap().is_some());
    rig.server.reply(Reply::text("mild"));
    let outcome = engine.run(answers(&paused, "y"), rig.cancel.clone(), &mut |_| {}).await.unwrap();
    assert_eq!(outcome.text, "mild");
    let asked = rig.asked();
    assert_eq!(results(&asked).len(), 1, "{asked:?}");
    assert!(asked.iter().any(|message| message.to_string().contains("[HISTORY COMPRESSED]")), "{asked:?}");
    // After a reset nothing waits.
    rig.server.reply(weather("c2"));
    let paused = rig.run(asks("and now?")).await.unwrap();
    rig.engine.reset(&main_key(), false).await.unwrap();
    assert!(rig.engine.session(&main_key()).await.unwrap().unwrap().pending.is_empty());
    assert!(matches!(rig.run(answers(&paused, "y")).await, Err(TurnError::NotPending(_))));
    rig.say("hello").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_results_make_room_and_stay_beside_their_calls() {
    let rig = Rig::with(Set { context_window: 24_000, ..Set::default() });
    for n in 0..8 {
        rig.say(&format!("message {n} {}", "x".repeat(4_000))).await.unwrap();
    }
    rig.server.reply(weather("c1"));
    let paused = rig.run(asks("how is it?")).await.unwrap();
    rig.server.reply(Reply::text("mild"));
    assert_eq!(rig.run(answers(&paused, &"y".repeat(40_000))).await.unwrap().text, "mild");
    let asked = rig.asked();
    assert_eq!(results(&asked).len(), 1, "{asked:?}");
    assert!(rig.transcript().iter().any(|line| line["type"] == "compaction"));
    rig.say("and after that?").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_goes_on_with_the_calls_of_the_first() {
    for api in ["anthropic-messages", "openai-completions"] {
        let spare = ModelServer::start();
        let rig = Rig::new();
        let mut document = rig.config();
        let url = if api == "anthropic-messages" { spare.base_url() } else { spare.openai_url() };
        document["models"]["providers"]["spare"] = json!({
            "baseUrl": url, "apiKey": "k", "api": api,
            "models": [{"id": "other", "contextWindow": 50_000, "maxTokens": 500}],
        });
        document["agents"]["defaults"]["model"]["fallbacks"] = json!(["spare/other"]);
        rig.write_config(&document);
        rig.server.reply(weather("c1"));
        let paused = rig.run(asks("how is it?")).await.unwrap();
        rig.server.always(Reply::status(402, "no credit"));
        spare.reply(weather("c9"));
        let again = rig.run(answers(&paused, "mild")).await.unwrap();
        assert_eq!((again.model.as_str(), again.calls.len()), ("spare/other", 1));
        let body = spare.requests().pop().unwrap().body;
        assert!(body["tools"].to_string().contains("weather"), "it is offered the tools too: {body}");
        spare.reply(Reply::text("mild"));
        assert_eq!(rig.run(answers(&again, "mild")).await.unwrap().text, "mild");
        assert_eq!(spare.rejections(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_reaches_every_provider_and_is_held() {
    let function = json!({"type": "function", "function": {"name": "weather"}});
    let named = json!({"mode": "ANY", "allowedFunctionNames": ["weather"]});
    for (api, field, required, named) in [
        ("openai-completions", "/tool_choice", json!("required"), function),
        (
            "openai-responses",
            "/tool_choice",
            json!("required"),
            json!({"type": "function", "name": "weather"}),
        ),
        (
            "anthropic-messages",
            "/tool_choice",
            json!({"type": "any"}),
            json!({"type": "tool", "name": "weather"}),
        ),
        ("google-generative-ai", "/toolConfig/functionCallingConfig", json!({"mode": "ANY"}), named),
    ] {
        let rig = Rig::with(Set { api, ..Set::default() });
        let sent = || rig.server.requests().pop().unwrap().body.pointer(field).cloned();
        for (choice, expected) in
            [(ToolChoice::Required, required), (ToolChoice::Named("weather".into()), named)]
        {
            rig.server.reply(weather("toolu_1"));
            let client = ClientTools { choice: choice.clone(), ..tools() };
            let paused = rig.run(TurnRequest { client, ..turn("now") }).await.unwrap();
            assert_eq!(sent(), Some(expected), "{api}");
            assert!(rig.server.requests().pop().unwrap().body.get("thinking").is_none());
            rig.server.reply(Reply::text("done"));
            rig.run(answers(&paused, "x")).await.unwrap();
            assert!(sent().is_none_or(|free| free == json!({"mode": "AUTO"})), "{api}");
            // A model that does not obey is no answer.
            rig.server.reply(Reply::text("I will not."));
            let client = ClientTools { choice, ..tools() };
            let error = rig.run(TurnRequest { client, ..turn("now") }).await.unwrap_err();
            assert!(matches!(error, TurnError::NoCall), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_the_client_must_not_see_go_back_to_the_model() {
    let rig = Rig::new();
    rig.server.reply(Reply::calls(&[("a", "strict", r#"{"city":7}"#), ("b", "weather", "{\"broken")]));
    rig.server.reply(Reply::calls(&[
        ("c", "strict", r#"{"city":"Oslo"}"#),
        ("d", "weather", r#"{"city":"Rome"}"#),
    ]));
    let client = ClientTools { one_at_a_time: true, ..tools() };
    let paused = rig.run(TurnRequest { client, ..turn("go") }).await.unwrap();
    let names: Vec<&str> = paused.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!((paused.steps, names), (2, vec!["strict"]));
    let asked = results(&rig.asked());
    assert!(asked[0].1.contains("/city") && asked[1].1.contains("not valid JSON"), "{asked:?}");
    rig.server.reply(Reply::text("done"));
    rig.run(answers(&paused, "x")).await.unwrap();
    let asked = results(&rig.asked());
    assert!(asked[3].0 == "d" && asked[3].1.contains("one call at a time"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_tool_keeps_its_name_and_the_prompt_has_no_word_of_the_client() {
    let rig = Rig::new();
    let mut client = tools();
    client.tools[0].spec.name = "echo".into();
    client.tools[0].spec.description = "HOSTILE".into();
    rig.server.reply(Reply::call("1", "echo", &json!({"n": 1})));
    let outcome = rig.run(TurnRequest { client, ..turn("hi") }).await.unwrap();
    assert_eq!(outcome.stop, TurnStop::End, "the agent's own tool ran");
    let body = rig.server.requests().pop().unwrap().body;
    assert!(!body["messages"][0].to_string().contains("HOSTILE"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_tool_calls_is_told_of_the_tools_in_its_prompt() {
    let rig = Rig::new();
    let mut document = rig.config();
    document["models"]["providers"]["fake"]["models"][0]["compat"] = json!({"supportsTools": false});
    rig.write_config(&document);
    rig.server
        .reply(Reply::text(r#"<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>"#));
    let paused = rig.run(asks("how is it?")).await.unwrap();
    assert_eq!((paused.stop, paused.calls.len()), (TurnStop::ToolCalls, 1));
    let body = rig.server.requests().pop().unwrap().body;
    assert!(body["messages"][0].to_string().contains("**weather**"), "{body}");
    rig.server.reply(Reply::text("mild"));
    assert_eq!(rig.run(answers(&paused, "mild")).await.unwrap().text, "mild");
    assert!(rig.asked().iter().any(|message| message.to_string().contains("<tool_result")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_agent_takes_results_after_the_thaw() {
    let watch = Arc::new(Watch::default());
    let rig = Rig::with(Set { oversight: watch.clone(), ..Set::default() });
    rig.server.reply(weather("c1"));
    let paused = rig.run(asks("how is it?")).await.unwrap();
    watch.freeze(true);
    let asked = rig.server.requests().len();
    let mut late = Box::pin(rig.run(answers(&paused, "mild")));
    tokio::select! {
        _ = &mut late => panic!("it did not wait"),
        () = async { while !watch.waits_frozen() { tokio::task::yield_now().await } } => {}
    }
    // It is stopped while it waits: the calls are as they were.
    drop(late);
    assert_eq!(rig.server.requests().len(), asked);
    watch.freeze(false);
    rig.server.reply(Reply::text("mild"));
    assert_eq!(rig.run(answers(&paused, "mild")).await.unwrap().text, "mild");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_the_client_keeps_may_end_with_results() {
    for api in ["openai-completions", "anthropic-messages", "google-generative-ai"] {
        let rig = Rig::with(Set { api, ..Set::default() });
        let result = |id: &str| Block::ToolResult {
            call_id: id.into(),
            name: "weather".into(),
            content: [Block::text("mild")].into(),
            is_error: false,
        };
        let input = vec![
            Message::text(Role::User, "how is it?"),
            Message {
                role: Role::Assistant,
                content: vec![Block::call("x:1", "weather", json!({"city": "Oslo"}))],
            },
            Message { role: Role::Tool, content: vec![result("x:1")] },
        ];
        let context = vec!["You are a pirate.".to_owned()];
        rig.server.reply(Reply::text("mild"));
        let request = TurnRequest { input, context, client: tools(), ..turn("") };
        assert_eq!(rig.run(request).await.unwrap().text, "mild");
        let body = rig.server.requests().pop().unwrap().body.to_string();
        assert!(body.contains("pirate") && body.contains("mild"), "{body}");
    }
}
