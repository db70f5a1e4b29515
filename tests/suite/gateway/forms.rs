//! The form and the end of an answer, as a client wants them.

use flock::provider::AnswerFormat;
use serde_json::{Value, json};

use super::house::{House, LIMIT, ask};

const GOOD: &str = "{\"n\": 3}";

/// A request for JSON with a number.
fn wanting(text: &str) -> Value {
    let mut asked = ask(text);
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    asked["response_format"] =
        json!({"type": "json_schema", "json_schema": {"name": "number", "schema": schema, "strict": true}});
    asked
}

fn streamed(mut asked: Value) -> Value {
    asked["stream"] = true.into();
    asked
}

/// The status and the body of an answer.
async fn post(house: &House, asked: &Value) -> (u16, Value) {
    let answer = house.post(asked, &[]).await;
    (answer.status(), answer.json(LIMIT).await.unwrap())
}

/// The texts of a streamed answer, and why it ended.
async fn post_streamed(house: &House, asked: Value) -> (Vec<String>, Value) {
    let mut events = house.post(&streamed(asked), &[]).await.events();
    let (mut texts, mut end) = (Vec::new(), Value::Null);
    while let Some(event) = events.next(LIMIT).await.unwrap() {
        let Ok(chunk) = serde_json::from_str::<Value>(&event.data) else { continue };
        let choice = &chunk["choices"][0];
        texts.extend(choice["delta"]["content"].as_str().filter(|text| !text.is_empty()).map(str::to_owned));
        if !choice["finish_reason"].is_null() {
            end = choice["finish_reason"].clone();
        }
    }
    (texts, end)
}

fn turns(house: &House) -> usize {
    house.runner.requests.lock().unwrap().len()
}

#[tokio::test]
async fn an_answer_that_has_the_form_is_given_as_it_is() {
    let house = House::new().await;
    let (status, body) = post(&house, &wanting(&format!("fits {GOOD}"))).await;
    assert_eq!((status, &body["choices"][0]["message"]["content"]), (200, &json!(GOOD)));
    let request = house.runner.last();
    assert!(
        matches!(&request.format, Some(AnswerFormat::JsonSchema { name, strict: Some(true), .. }) if name == "number")
    );
    assert!(
        request.input[0].joined_text().contains("\"required\":[\"n\"]"),
        "models that are not held to it read it"
    );
    assert_eq!(turns(&house), 1);
}

#[tokio::test]
async fn an_answer_without_the_form_is_asked_for_once_more() {
    let house = House::new().await;
    let (status, body) = post(&house, &wanting(&format!("form ```json\n{GOOD}\n```"))).await;
    assert_eq!((status, &body["choices"][0]["message"]["content"]), (200, &json!(GOOD)));
    assert_eq!(body["usage"]["completion_tokens"], 10, "both turns count");
    assert_eq!(turns(&house), 2);
    let requests = house.runner.requests.lock().unwrap().clone();
    assert_eq!(requests[0].session, requests[1].session);
    assert_ne!(requests[0].turn, requests[1].turn);
    let (texts, end) = post_streamed(&house, wanting(&format!("form {GOOD}"))).await;
    assert_eq!((texts, end), (vec![GOOD.to_owned()], json!("stop")), "prose is not streamed");
}

#[tokio::test]
async fn an_answer_that_never_has_the_form_is_an_error_and_no_prose() {
    let house = House::new().await;
    for never in ["prose", "{\"n\": \"3\"}"] {
        for asked in [wanting(&format!("form {never}")), streamed(wanting(&format!("form {never}")))] {
            let (status, body) = post(&house, &asked).await;
            assert_eq!((status, &body["error"]["code"]), (424, &json!("response_format_not_met")), "{body}");
            assert!(body["error"]["turn"].is_string());
        }
    }
    assert_eq!(turns(&house), 8);
}

#[tokio::test]
async fn a_parameter_that_no_agent_honours_is_refused_by_its_name() {
    let house = House::new().await;
    for (name, value) in [
        ("logprobs", json!(true)),
        ("audio", json!({"voice": "alloy", "format": "wav"})),
        ("response_format", json!({"type": "grammar"})),
        ("stop", json!([""])),
        ("n", json!(2)),
    ] {
        let mut asked = ask("say hello");
        asked[name] = value;
        let (status, body) = post(&house, &asked).await;
        assert_eq!(status, 400, "{name}");
        assert!(body["error"]["message"].as_str().unwrap().contains(name), "{body}");
        assert_eq!(body["error"]["param"], name, "{body}");
    }
    assert_eq!(turns(&house), 0);
}

#[tokio::test]
async fn an_answer_ends_where_its_client_wants() {
    let house = House::new().await;
    for (name, value, text, end) in [
        ("stop", json!("STOP"), "one two ", "stop"),
        ("stop", json!(["zzz", "two"]), "one ", "stop"),
        ("max_tokens", json!(1), "one ", "length"),
        ("max_completion_tokens", json!(2), "one two ", "length"),
        ("max_tokens", json!(1000), "one two STOP three", "stop"),
    ] {
        let mut asked = ask("say one t|wo ST|OP three");
        asked[name] = value;
        let (_, body) = post(&house, &asked).await;
        let choice = &body["choices"][0];
        assert_eq!(
            (&choice["message"]["content"], &choice["finish_reason"]),
            (&json!(text), &json!(end)),
            "{name}"
        );
        let (texts, ended) = post_streamed(&house, asked).await;
        assert_eq!((texts.concat(), ended), (text.to_owned(), json!(end)), "{name}");
    }
}
