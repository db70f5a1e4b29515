//! Servers that ask a person during a call, with a person who is none.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::elicitation::{PersonAnswer, Question};
use super::super::servers::Person;
use super::{Stage, context, name};
use crate::id::{AgentId, McpServerName};
use crate::provider::BoxFuture;
use crate::store::{AuditFilter, McpCapability};
use crate::sync::lock;
use crate::tool::CallContext;

/// Answers as it was told.
pub(super) struct Nobody {
    pub(super) asked: Mutex<Vec<(String, Question)>>,
    pub(super) answer: Mutex<PersonAnswer>,
    /// The time that an answer takes. It can be changed meanwhile.
    pub(super) takes: Mutex<Duration>,
    /// Cancelled when a question was taken back.
    pub(super) taken_back: CancellationToken,
}

impl Nobody {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            answer: Mutex::new(PersonAnswer::Declined),
            takes: Mutex::default(),
            taken_back: CancellationToken::new(),
        })
    }
}

impl Person for Nobody {
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        _server: &'a McpServerName,
        question: Question,
        _limit: Duration,
    ) -> BoxFuture<'a, Result<PersonAnswer, String>> {
        lock(&self.asked).push((context.agent.to_string(), question));
        Box::pin(async move {
            let guard = self.taken_back.clone().drop_guard();
            let began = Instant::now();
            while began.elapsed() < *lock(&self.takes) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            drop(guard.disarm());
            Ok(lock(&self.answer).clone())
        })
    }
}

async fn stage(seconds: u64) -> (Stage, Arc<Nobody>) {
    let stage = Stage::with(&[], |server| server["callSeconds"] = json!(seconds));
    let person = Nobody::new();
    stage.servers.people_asked_by(person.clone());
    stage.grant("coder", &["elicit", "declared"], false).await.unwrap();
    (stage, person)
}

async fn let_ask(stage: &Stage) {
    let agent: AgentId = "coder".parse().unwrap();
    let granted = (&[][..], &[McpCapability::Elicitation][..]);
    stage.servers.grant((&name(), &agent), granted, false, "human:ann").await.unwrap();
}

/// Returns the answers that the server got.
async fn elicit(stage: &Stage, arguments: Value) -> Vec<Value> {
    let said = stage.call("elicit", arguments).await.unwrap();
    let from = said.find(']').unwrap() + 1;
    serde_json::from_str(&said[from..]).unwrap_or_else(|_| panic!("{said}"))
}

fn params(field: &Value) -> Value {
    json!({"params": {"message": "Which one?",
        "requestedSchema": {"type": "object", "properties": {"a": field}}}})
}

#[tokio::test]
async fn a_server_without_a_grant_is_told_of_no_person_and_refused() {
    let (stage, person) = stage(20).await;
    assert!(stage.call("declared", json!({})).await.unwrap().ends_with("{}"));
    assert_eq!(elicit(&stage, json!({})).await[0]["code"], -32601);
    assert!(lock(&person.asked).is_empty());
}

#[tokio::test]
async fn a_person_accepts_declines_or_does_not_answer() {
    let (stage, person) = stage(20).await;
    let_ask(&stage).await;
    assert!(stage.call("declared", json!({})).await.unwrap().ends_with(r#"{"elicitation": {"form": {}}}"#));
    let values = json!({"table": "notes"});
    for (answer, result) in [
        (
            PersonAnswer::Accepted(values.as_object().unwrap().clone()),
            json!({"action": "accept", "content": values}),
        ),
        (PersonAnswer::Declined, json!({"action": "decline"})),
        (PersonAnswer::Cancelled, json!({"action": "cancel"})),
    ] {
        *lock(&person.answer) = answer;
        assert_eq!(elicit(&stage, json!({})).await, [result]);
    }
    let asked = lock(&person.asked).clone();
    assert_eq!((asked.len(), &*asked[0].0, &*asked[0].1.message), (3, "coder", "Which table?"));
    let names: Vec<&str> = asked[0].1.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["table", "rows"], "in the order of the schema");
    let filter = AuditFilter { action: Some("mcp.elicit".to_owned()), ..AuditFilter::default() };
    let rows = stage.store.audit().rows(&filter, 10).await.unwrap();
    let mut details: Vec<&str> = rows.iter().map(|row| row.detail.as_str()).collect();
    details.sort_unstable();
    assert_eq!(details, ["accept", "cancel", "decline"], "the values are not in the audit");
}

#[tokio::test]
async fn secrets_addresses_and_too_many_questions_reach_nobody() {
    let (stage, person) = stage(20).await;
    let_ask(&stage).await;
    let mut url = params(&json!({"type": "string"}));
    url["params"]["mode"] = json!("url");
    url["params"]["url"] = json!("https://evil.example");
    let secret = params(&json!({"type": "string", "title": "Your password"}));
    let nested = params(&json!({"type": "object"}));
    for wrong in [url, secret, nested] {
        assert_eq!(elicit(&stage, wrong.clone()).await[0]["code"], -32602, "{wrong}");
    }
    assert!(lock(&person.asked).is_empty());
    let answers = elicit(&stage, json!({"times": 5})).await;
    let refused = answers.iter().filter(|answer| answer["code"] == -1).count();
    assert_eq!((lock(&person.asked).len(), refused), (3, 2), "{answers:?}");
}

#[tokio::test]
async fn the_time_of_a_call_stands_still_while_a_person_is_asked() {
    let (stage, person) = stage(1).await;
    let_ask(&stage).await;
    *lock(&person.takes) = Duration::from_millis(1_500);
    assert_eq!(elicit(&stage, json!({})).await, [json!({"action": "decline"})]);
}

#[tokio::test]
async fn a_cancelled_call_takes_its_question_back() {
    let (stage, person) = stage(20).await;
    let_ask(&stage).await;
    *lock(&person.takes) = Duration::from_secs(60);
    let given_up = CallContext { cancel: CancellationToken::new(), ..context("coder") };
    let call = stage.call_as(&given_up, "elicit", json!({}));
    let cancel = async {
        let deadline = Instant::now() + Duration::from_secs(15);
        while lock(&person.asked).is_empty() {
            assert!(Instant::now() < deadline, "nobody is asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        given_up.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(call, cancel);
    assert!(answer.unwrap_err().contains("cancelled"));
    tokio::time::timeout(Duration::from_secs(10), person.taken_back.cancelled())
        .await
        .expect("it is taken back");
}
