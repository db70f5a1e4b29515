//! Servers that ask the model of the agent that calls them, with a model that is none.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::servers::AgentModel;
use super::remote_tests::{Far, Habits};
use super::{Stage, context, name};
use crate::agent::sampling::{SampleAnswer, SampleError, SampleQuestion, SampledCall};
use crate::clock::{local_day, unix_ms};
use crate::id::AgentId;
use crate::provider::message::joined_text;
use crate::provider::{BoxFuture, Usage};
use crate::store::{AuditFilter, McpCapability, McpRevocation, NewUsage, TokenCounts};
use crate::sync::lock;
use crate::tool::CallContext;

/// Answers with the question, or as it was told.
#[derive(Default)]
pub(super) struct Model {
    pub(super) asked: Mutex<Vec<(String, SampleQuestion)>>,
    pub(super) fails: Mutex<Option<SampleError>>,
    /// Answers nothing while it is set.
    pub(super) hangs: Mutex<bool>,
    /// Cancelled when a question was given up.
    pub(super) given_up: CancellationToken,
}

impl AgentModel for Model {
    fn sample<'a>(
        &'a self,
        asked: SampledCall<'a>,
        question: &'a SampleQuestion,
    ) -> BoxFuture<'a, Result<SampleAnswer, SampleError>> {
        lock(&self.asked).push((asked.context.agent.to_string(), question.clone()));
        Box::pin(async move {
            if *lock(&self.hangs) {
                let _guard = self.given_up.clone().drop_guard();
                std::future::pending::<()>().await;
            }
            if let Some(error) = *lock(&self.fails) {
                return Err(error);
            }
            let text = format!("You said: {}", question.messages[0].joined_text());
            let usage = Usage { input: 30, output: 12, ..Usage::default() };
            Ok(SampleAnswer { text, model: "small".to_owned(), is_cut: false, usage })
        })
    }
}

/// Returns the stage with a model for the servers. `coder` may call everything that the tests need.
async fn stage(change: impl FnOnce(&mut Value)) -> (Stage, Arc<Model>) {
    let stage = Stage::with(&[], |server| {
        server["callSeconds"] = json!(20);
        change(server);
    });
    let model = Arc::new(Model::default());
    stage.servers.sampled_by(model.clone());
    stage.grant("coder", &["sample", "declared", "slow", "echo"], false).await.unwrap();
    (stage, model)
}

async fn lend(stage: &Stage, agent: &str) {
    let agent: AgentId = agent.parse().unwrap();
    let granted = (&[][..], &[McpCapability::Sampling][..]);
    stage.servers.grant((&name(), &agent), granted, false, "human:ann").await.unwrap();
}

/// Returns the answers that the server got, and the whole text of the result.
async fn sample(stage: &Stage, arguments: Value) -> (Vec<Value>, String) {
    let said = stage.call("sample", arguments).await.unwrap();
    let from = said.find(']').unwrap() + 1;
    let end = said.find("[flock: ").unwrap_or(said.len());
    (serde_json::from_str(&said[from..end]).unwrap_or_else(|_| panic!("{said}")), said)
}

pub(super) async fn audited(stage: &Stage) -> Vec<String> {
    let filter = AuditFilter { action: Some("mcp.sample".to_owned()), ..AuditFilter::default() };
    let rows = stage.store.audit().rows(&filter, 100).await.unwrap();
    rows.into_iter().map(|row| format!("{} {} {}", row.actor, row.subject, row.detail)).collect()
}

#[tokio::test]
async fn a_server_without_a_grant_is_told_of_no_model_and_refused() {
    let (stage, model) = stage(|_| {}).await;
    assert!(stage.call("declared", json!({})).await.unwrap().ends_with("{}"));
    let (answers, said) = sample(&stage, json!({})).await;
    assert_eq!(answers[0]["code"], -32601, "{said}");
    assert!(!said.contains("[flock: "), "{said}");
    assert!(lock(&model.asked).is_empty() && audited(&stage).await.is_empty());
}

#[tokio::test]
async fn a_server_with_a_grant_gets_an_answer_that_is_charged_and_recorded() {
    let (stage, model) = stage(|server| server["sampleTokens"] = json!(40)).await;
    lend(&stage, "coder").await;
    assert!(stage.call("declared", json!({})).await.unwrap().ends_with(r#"{"sampling": {}}"#));
    let (answers, said) = sample(&stage, json!({"text": "hello"})).await;
    assert_eq!(
        answers,
        [
            json!({"role": "assistant", "content": {"type": "text", "text": "You said: hello"}, "model": "small",
            "stopReason": "endTurn"})
        ]
    );
    assert!(said.contains("asked your model 1 times") && said.contains("42 tokens"), "{said}");
    let asked = lock(&model.asked).clone();
    assert_eq!((asked.len(), &*asked[0].0, asked[0].1.max_tokens), (1, "coder", 40));
    assert_eq!(audited(&stage).await, ["coder fixture answered by small, 42 tokens"]);
    // Another agent that may call the server has not lent its model.
    stage.grant("reader", &["sample"], true).await.unwrap();
    let content = stage.call_as(&context("reader"), "sample", json!({})).await.unwrap();
    let said = joined_text(&content);
    assert!(said.contains(r#""code": -1"#) && said.contains("lends you no model"), "{said}");
    assert_eq!(lock(&model.asked).len(), 1);
    let agent: AgentId = "coder".parse().unwrap();
    let revoked = McpRevocation::These(Vec::new(), vec![McpCapability::Sampling]);
    assert_eq!(stage.servers.revoke((&name(), &agent), revoked, "human:ann").await.unwrap(), 1);
    let (answers, said) = sample(&stage, json!({})).await;
    assert_eq!(answers[0]["code"], -32601, "it is not declared any more: {said}");
    assert!(stage.call("declared", json!({})).await.unwrap().ends_with("{}"));
}

#[tokio::test]
async fn nobody_is_charged_while_calls_of_two_agents_run() {
    let (stage, model) = stage(|_| {}).await;
    lend(&stage, "coder").await;
    lend(&stage, "reader").await;
    stage.grant("reader", &["slow"], true).await.unwrap();
    sample(&stage, json!({})).await;
    let reader = context("reader");
    let stop = reader.cancel.clone();
    let slow = stage.call_as(&reader, "slow", json!({}));
    let asks = async {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            let (answers, _) = sample(&stage, json!({})).await;
            let refused = answers[0]["message"].as_str().unwrap_or_default().contains("several agents");
            if refused {
                break;
            }
            assert!(Instant::now() < deadline, "{answers:?}");
        }
        stop.cancel();
    };
    let (slow, ()) = tokio::join!(slow, asks);
    assert!(slow.unwrap_err().contains("cancelled"));
    assert!(lock(&model.asked).iter().all(|(agent, _)| agent == "coder"));
    let (answers, said) = sample(&stage, json!({})).await;
    assert_eq!(answers[0]["stopReason"], "endTurn", "clear again: {said}");
}

#[tokio::test]
async fn requests_are_limited_for_each_call_and_each_day() {
    let (stage, model) = stage(|server| {
        server["samplesPerCall"] = json!(2);
        server["samplesPerDay"] = json!(3);
    })
    .await;
    lend(&stage, "coder").await;
    let (answers, said) = sample(&stage, json!({"times": 4})).await;
    let refusal = |answer: &Value| answer["message"].as_str().unwrap_or_default().to_owned();
    assert!(answers[1]["content"].is_object(), "{answers:?}");
    assert!(refusal(&answers[2]).contains("2 times") && refusal(&answers[3]).contains("2 times"));
    assert!(said.contains("asked your model 2 times") && said.contains("got 2 answers"), "{said}");
    let coder = context("coder");
    for id in 1..=3 {
        let tokens = TokenCounts { input: 1, ..TokenCounts::default() };
        let new = NewUsage {
            id,
            at: unix_ms(),
            day: local_day(unix_ms()),
            agent: coder.agent.clone(),
            session: coder.session.clone(),
            channel: None,
            turn: coder.turn,
            model: "script/demo".parse().unwrap(),
            person: None,
            server: Some(name()),
            tokens,
            cost: None,
        };
        stage.store.usage().reserve(new, Vec::new()).await.unwrap().unwrap();
    }
    let (answers, _) = sample(&stage, json!({})).await;
    assert!(refusal(&answers[0]).contains("3 times a day"), "{answers:?}");
    assert_eq!(lock(&model.asked).len(), 2);
}

#[tokio::test]
async fn what_is_too_large_or_has_tools_reaches_no_model() {
    let (stage, model) = stage(|_| {}).await;
    lend(&stage, "coder").await;
    let large = json!({"maxTokens": 5, "messages": [
        {"role": "user", "content": {"type": "text", "text": "x".repeat(100_000)}}]});
    let tools = json!({"maxTokens": 5, "tools": [{"name": "a", "inputSchema": {"type": "object"}}], "messages": [
        {"role": "user", "content": {"type": "text", "text": "x"}}]});
    let formless = json!({"maxTokens": 5, "messages": [{"role": "judge", "content": 5}]});
    for params in [large, tools, formless] {
        let (answers, said) = sample(&stage, json!({"params": params})).await;
        assert_eq!(answers[0]["code"], -32602, "{said}");
    }
    assert!(lock(&model.asked).is_empty());
}

#[tokio::test]
async fn a_refusal_says_nothing_of_the_agents_affairs() {
    let (stage, model) = stage(|_| {}).await;
    lend(&stage, "coder").await;
    for (error, code) in
        [(SampleError::Paused, -1), (SampleError::NoModel, -1), (SampleError::Failed, -32603)]
    {
        *lock(&model.fails) = Some(error);
        let (answers, _) = sample(&stage, json!({})).await;
        assert_eq!(answers[0], json!({"code": code, "message": format!("not done: {error}")}));
    }
    assert_eq!(audited(&stage).await.len(), 3);
}

#[tokio::test]
async fn an_answer_that_is_not_there_when_the_call_ends_is_given_up() {
    let (stage, model) = stage(|server| server["callSeconds"] = json!(2)).await;
    lend(&stage, "coder").await;
    *lock(&model.hangs) = true;
    let error = stage.call("sample", json!({})).await.unwrap_err();
    assert!(error.contains("did not answer within 2 s") && error.contains("got 0 answers"), "{error}");
    tokio::time::timeout(Duration::from_secs(10), model.given_up.cancelled()).await.expect("it was given up");
}

#[tokio::test]
async fn a_cancelled_call_ends_the_question_to_the_model() {
    let (stage, model) = stage(|_| {}).await;
    lend(&stage, "coder").await;
    *lock(&model.hangs) = true;
    let given_up = CallContext { cancel: CancellationToken::new(), ..context("coder") };
    let call = stage.call_as(&given_up, "sample", json!({}));
    let cancel = async {
        let deadline = Instant::now() + Duration::from_secs(15);
        while lock(&model.asked).is_empty() {
            assert!(Instant::now() < deadline, "the model is never asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        given_up.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(call, cancel);
    assert!(answer.unwrap_err().contains("cancelled"));
    tokio::time::timeout(Duration::from_secs(10), model.given_up.cancelled()).await.expect("it was given up");
}

#[tokio::test]
async fn a_server_at_a_url_asks_by_the_same_rules() {
    for lends in [false, true] {
        let far = Far::start(Habits::default()).await;
        let stage = far.stage();
        let model = Arc::new(Model::default());
        stage.servers.sampled_by(model.clone());
        stage.grant("coder", &["asks"], false).await.unwrap();
        if lends {
            lend(&stage, "coder").await;
        }
        stage.call("asks", json!({})).await.unwrap();
        let answer = far.answered().unwrap();
        if lends {
            assert_eq!(answer["result"]["content"]["text"], "You said: hi", "{answer}");
        } else {
            assert_eq!(answer["error"]["code"], -32601, "{answer}");
        }
        assert_eq!(lock(&model.asked).len(), usize::from(lends));
    }
}
