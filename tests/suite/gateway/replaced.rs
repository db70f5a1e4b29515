//! A program that takes back what it has said and begins again: nobody who follows the stream reads two answers.

use flock::runtime::RuntimeEvent;
use flock::supervise::gateway_client::{Call, Client};
use serde_json::{Value, json};

use super::crew::Crew;
use super::house::LIMIT;

/// Follows a turn of `coder`; gives the text, and the error that the stream ends with.
fn follow(owner: Client) -> tokio::task::JoinHandle<(String, Option<Value>)> {
    tokio::spawn(async move {
        let body = json!({"model": "coder", "stream": true, "messages": [{"role": "user", "content": "go"}]});
        let call = Call::post("/v1/chat/completions").json(&body).unwrap();
        let answer = owner.send(call, LIMIT).await.unwrap();
        assert_eq!(answer.status(), 200);
        let bytes = answer.bytes(1 << 20, LIMIT).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        let events: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        let words = |event: &Value| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        let error = events.last().map(|event| event["error"].clone()).filter(|error| !error.is_null());
        (events.iter().filter_map(words).collect(), error)
    })
}

#[tokio::test]
async fn an_answer_that_is_begun_again_goes_on_or_ends_with_an_error() {
    let mut crew = Crew::new().await;
    for (again, text, error) in [
        (&["It is ", "five, I think"][..], "It is five, I think.", None),
        (&["Five it is"][..], "It is f", Some("answer_replaced")),
    ] {
        let followed = follow(crew.owner());
        let turn = crew.turn().await;
        let (agent, session) = (turn.order.agent.clone(), turn.order.session.clone());
        turn.tell(RuntimeEvent::Text("It is f".to_owned()));
        turn.tell(RuntimeEvent::Replaced(String::new()));
        again.iter().for_each(|piece| turn.tell(RuntimeEvent::Text((*piece).to_owned())));
        turn.say(".");
        let (shown, ended) = followed.await.unwrap();
        assert_eq!(shown, text);
        assert_eq!(ended.as_ref().map(|error| error["code"].as_str().unwrap()), error, "{ended:?}");
        // The session has the answer as it is.
        let engine = &crew.gateway.engine;
        let kept = engine.history(&session, 1).await.unwrap().unwrap();
        assert_eq!(kept.last().unwrap().text, format!("{}.", again.concat()), "{agent}");
    }
    // What is said before a call of flock's is another text.
    let followed = follow(crew.owner());
    let turn = crew.turn().await;
    turn.tell(RuntimeEvent::Text("I look".to_owned()));
    turn.tell(RuntimeEvent::FlockTool);
    turn.say("It is five");
    assert_eq!(followed.await.unwrap(), ("I lookIt is five".to_owned(), None));
    crew.stopped().await;
}
