use std::time::Duration;

use super::*;
use crate::gateway::openai::responses::RepeatedFields;
use crate::id::TurnId;
use crate::provider::Usage;

fn outcome(text: &str, stop: TurnStop) -> TurnOutcome {
    TurnOutcome {
        text: text.to_owned(),
        stop,
        calls: Vec::new(),
        usage: Usage { input: 3, output: 4, cache_read: 2, cache_write: 1, cost: None },
        model: "script/x".parse().unwrap(),
        steps: 1,
    }
}

fn output(bound: AnswerLimits, is_checked: bool, streams: bool) -> ResponseOutput {
    let repeated = RepeatedFields { model: "coder".into(), is_stored: true, ..RepeatedFields::default() };
    ResponseOutput::new(ResponseHead::new(TurnId::new(), repeated, &bound), bound, is_checked, streams)
}

fn delta(text: &str) -> TurnEvent {
    TurnEvent::TextDelta(text.to_owned())
}

fn call() -> [TurnEvent; 2] {
    let (call_id, name) = ("c".to_owned(), "exec".to_owned());
    [
        TurnEvent::ToolStarted {
            call_id: call_id.clone(),
            name: name.clone(),
            arguments_preview: "{}".into(),
        },
        TurnEvent::ToolEnded { call_id, name, is_error: false, took: Duration::ZERO },
    ]
}

/// Plays a streamed turn and returns its events.
fn stream(output: ResponseOutput, events: &[TurnEvent], ended: &TurnOutcome) -> Vec<Value> {
    let mut writer = ResponseWriter(Arc::new(Mutex::new(output)));
    let mut out = Vec::new();
    writer.begin(&mut out);
    for event in events {
        writer.event(&mut out, event);
    }
    writer.end(&mut out, ended);
    read(&out)
}

fn read(out: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(out).unwrap();
    let read = text.split_terminator("\n\n").enumerate().map(|(at, event)| {
        let (kind, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], kind.strip_prefix("event: ").unwrap());
        assert_eq!(data["sequence_number"], at);
        data
    });
    read.collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap().strip_prefix("response.").unwrap()).collect()
}

#[test]
fn text_and_calls_are_items_in_their_order() {
    let [started, ended] = call();
    let events = [delta("I \"look\"\n"), started, ended, delta("do"), delta("ne")];
    let told = stream(output(AnswerLimits::default(), false, true), &events, &outcome("done", TurnStop::End));
    let message = ["output_text.done", "content_part.done", "output_item.done"];
    let mut want =
        vec!["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"];
    want.extend(message);
    want.extend([
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.done",
        "mcp_call.completed",
    ]);
    want.push("output_item.done");
    want.extend(["output_item.added", "content_part.added", "output_text.delta", "output_text.delta"]);
    want.extend(message);
    want.push("completed");
    assert_eq!(kinds(&told), want);
    let last = &told.last().unwrap()["response"];
    let kind = |item: &Value| (item["type"].clone(), item["status"].clone());
    let items: Vec<_> = last["output"].as_array().unwrap().iter().map(kind).collect();
    assert_eq!(items, ["message", "mcp_call", "message"].map(|kind| (json!(kind), json!("completed"))));
    assert_eq!(last["output"][2]["content"][0]["text"], "done");
    assert_eq!((&last["usage"]["input_tokens"], &last["usage"]["total_tokens"]), (&json!(6), &json!(10)));
    // What was said of an item while it was made is what the response has in the end.
    let done: Vec<&Value> =
        told.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    let done: Vec<&Value> = done.into_iter().map(|event| &event["item"]).collect();
    assert_eq!(json!(done), last["output"]);

    // The same turn without a stream, and as a repeat of the stored response.
    let mut whole = output(AnswerLimits::default(), false, false);
    let mut nothing = Vec::new();
    for event in &events {
        whole.event(&mut nothing, event);
    }
    let body = whole.finish(&outcome("done", TurnStop::End)).unwrap();
    assert!(nothing.is_empty());
    let mut again = Vec::new();
    output(AnswerLimits::default(), false, true).replay(&mut again, body.clone());
    let again = read(&again);
    assert_eq!(again.last().unwrap()["response"], body);
    let text =
        |events: &[Value]| -> String { events.iter().filter_map(|event| event["delta"].as_str()).collect() };
    assert_eq!(text(&again), text(&told));
}

#[test]
fn an_answer_ends_at_its_limit_and_says_why() {
    let bound = AnswerLimits { stops: Vec::new(), tokens: Some(1) };
    let told =
        stream(output(bound.clone(), false, true), &[delta("12345")], &outcome("12345", TurnStop::End));
    let last = told.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], "1234");
    let refused = output(bound, false, false).finish(&outcome("", TurnStop::Refusal)).unwrap();
    assert_eq!(refused["incomplete_details"]["reason"], "content_filter");
    assert_eq!(refused["output"], json!([]));
}

#[test]
fn a_checked_answer_comes_whole() {
    let told = stream(
        output(AnswerLimits::default(), true, true),
        &[delta("{\"a\"")],
        &outcome("{}", TurnStop::End),
    );
    let text: String = told.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "{}");
}

#[test]
fn text_that_was_replaced_is_in_no_whole_answer_and_ends_a_stream() {
    let events = [delta("It is f"), TurnEvent::TextReplaced];
    let told =
        stream(output(AnswerLimits::default(), false, true), &events, &outcome("Four.", TurnStop::End));
    let last = told.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["error"]["code"]),
        (&json!("response.failed"), &json!("answer_replaced"))
    );
    let mut whole = output(AnswerLimits::default(), false, false);
    for event in &events {
        whole.event(&mut Vec::new(), event);
    }
    let body = whole.finish(&outcome("Four.", TurnStop::End)).unwrap();
    assert_eq!(body["output"].as_array().unwrap().len(), 1);
    assert_eq!(body["output"][0]["content"][0]["text"], "Four.");
}

#[test]
fn a_retry_begins_another_message() {
    let retry = TurnEvent::Retrying { attempt: 2, after: Duration::ZERO, reason: "cut".into() };
    let told = stream(
        output(AnswerLimits::default(), false, true),
        &[delta("It i"), retry, delta("Four.")],
        &outcome("Four.", TurnStop::End),
    );
    let items = &told.last().unwrap()["response"]["output"];
    assert_eq!((&items[0]["status"], &items[1]["status"]), (&json!("incomplete"), &json!("completed")));
}

#[test]
fn calls_for_the_client_are_items_at_the_end() {
    let call =
        |id: &str| ClientCall { id: id.into(), name: "weather".into(), arguments: json!({"city": "Oslo"}) };
    let ended = TurnOutcome {
        calls: vec![call("call_1"), call("call_2")],
        ..outcome("I look.", TurnStop::ToolCalls)
    };
    let [started, done] = self::call();
    let told =
        stream(output(AnswerLimits::default(), false, true), &[delta("I look."), started, done], &ended);
    let one = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    let mut want = one.repeat(2);
    want.push("completed");
    assert!(kinds(&told).ends_with(&want), "{:?}", kinds(&told));
    let response = &told.last().unwrap()["response"];
    let types: Vec<&str> =
        response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["message", "mcp_call", "function_call", "function_call"], "the text is there once");
    assert_eq!(response["output"][3]["call_id"], "call_2");
    assert_eq!(response["output"][3]["arguments"], r#"{"city":"Oslo"}"#);
    let item = response["output"][3]["id"].as_str().unwrap();
    assert!(crate::gateway::openai::responses::turn_of_item(item).is_some(), "{item}");
    // A repeat of the stored response has the same events for the calls.
    let mut again = Vec::new();
    output(AnswerLimits::default(), false, true).replay(&mut again, response.clone());
    assert!(kinds(&read(&again)).ends_with(&want));
}
