//! Servers of the newest version, which ask for a model and for people in the results of calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::elicitation::PersonAnswer;
use super::elicitation_tests::Nobody;
use super::remote_tests::{Far, Habits};
use super::sampling_tests::{Model, audited};
use super::{Stage, context, name};
use crate::agent::sampling::SampleError;
use crate::id::AgentId;
use crate::store::{AuditFilter, McpCapability, McpRevocation};
use crate::sync::lock;
use crate::tool::{CallContext, ProgressSink};

const BOTH: [McpCapability; 2] = [McpCapability::Sampling, McpCapability::Elicitation];

struct Play {
    stage: Stage,
    model: Arc<Model>,
    person: Arc<Nobody>,
}

impl Play {
    /// Starts a server with the tool `rounds`, which `coder` may call.
    async fn start(switches: &[&str], change: impl FnOnce(&mut Value)) -> Self {
        let stage = Stage::with(switches, |server| {
            server["callSeconds"] = json!(20);
            change(server);
        });
        Self::of(stage, &["rounds", "heard", "declared", "slow"]).await
    }

    async fn newest() -> Self {
        Self::start(&["--rounds", "--newest"], |_| {}).await
    }

    async fn of(stage: Stage, tools: &[&str]) -> Self {
        let (model, person) = (Arc::new(Model::default()), Nobody::new());
        stage.servers.sampled_by(model.clone());
        stage.servers.people_asked_by(person.clone());
        stage.grant("coder", tools, false).await.unwrap();
        Self { stage, model, person }
    }

    async fn lend(&self, agent: &str, capabilities: &[McpCapability]) {
        let agent: AgentId = agent.parse().unwrap();
        self.stage.servers.grant((&name(), &agent), (&[], capabilities), false, "human:ann").await.unwrap();
    }

    /// Makes a call that has these demands, and returns what came with each of its rounds.
    async fn rounds(&self, demands: Value) -> Result<Vec<Value>, String> {
        self.stage.call("rounds", json!({"demands": demands})).await.map(|said| list(&said))
    }

    /// Returns what has come with each call of `rounds`.
    async fn heard(&self) -> Vec<Value> {
        list(&self.stage.call("heard", json!({})).await.unwrap())
    }

    fn is_nobody_asked(&self) -> bool {
        lock(&self.model.asked).is_empty() && lock(&self.person.asked).is_empty()
    }

    async fn wait_for_question(&self) {
        let deadline = Instant::now() + Duration::from_secs(15);
        while lock(&self.person.asked).is_empty() {
            assert!(Instant::now() < deadline, "nobody is asked");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns the list of JSON in a result.
fn list(said: &str) -> Vec<Value> {
    let from = said.find(']').unwrap() + 1;
    let end = said.find("[flock: ").unwrap_or(said.len());
    serde_json::from_str(&said[from..end]).unwrap_or_else(|_| panic!("{said}"))
}

fn sample(text: &str) -> Value {
    json!({"method": "sampling/createMessage", "params": {"maxTokens": 50, "messages": [
        {"role": "user", "content": {"type": "text", "text": text}}]}})
}

fn question(field: &Value) -> Value {
    json!({"method": "elicitation/create", "params": {"message": "Which table?", "requestedSchema":
        {"type": "object", "properties": {"table": field}}}})
}

fn table() -> Value {
    question(&json!({"type": "string"}))
}

#[tokio::test]
async fn a_call_goes_on_with_the_answers_of_a_model_and_of_a_person() {
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    let values = json!({"table": "notes"});
    *lock(&play.person.answer) = PersonAnswer::Accepted(values.as_object().unwrap().clone());
    let state = " {\"a\": 1,  \"b\":\"\\u00e9\u{e9}\u{1f600}\u{7}\"}";
    let demands = json!([
        {"inputRequests": {"which": table(), "sum": sample("hello"), "dirs": {"method": "roots/list"}},
            "requestState": state},
        {"requestState": "two"},
        {"inputRequests": {"more": sample("bye")}},
    ]);
    let said = play.stage.call("rounds", json!({"demands": demands})).await.unwrap();
    let answer = |text: &str| {
        json!({"role": "assistant", "content": {"type": "text", "text": format!("You said: {text}")},
            "model": "small", "stopReason": "endTurn"})
    };
    let mut heard = list(&said);
    let ids: Vec<Value> = heard.iter_mut().map(|round| round["id"].take()).collect();
    for (at, id) in ids.iter().enumerate() {
        assert!(!id.is_null() && !ids[..at].contains(id), "each round is a request of its own: {ids:?}");
    }
    let declared = json!({"sampling": {}, "elicitation": {"form": {}}});
    let expected = [
        json!({"id": null, "declared": declared}),
        json!({"id": null, "declared": declared, "requestState": state, "inputResponses": {
            "which": {"action": "accept", "content": values}, "sum": answer("hello"), "dirs": {"roots": []}}}),
        json!({"id": null, "declared": declared, "requestState": "two"}),
        json!({"id": null, "declared": declared, "inputResponses": {"more": answer("bye")}}),
    ];
    assert_eq!(heard, expected);
    assert!(said.contains("asked your model 2 times") && said.contains("84 tokens"), "{said}");
    let charged = "coder fixture answered by small, 42 tokens";
    assert_eq!(audited(&play.stage).await, [charged, charged]);
    let filter = AuditFilter { action: Some("mcp.elicit".to_owned()), ..AuditFilter::default() };
    let rows = play.stage.store.audit().rows(&filter, 10).await.unwrap();
    assert_eq!((rows.len(), &*rows[0].detail), (1, "accept"), "the values are not in the audit");
    assert_eq!(play.stage.servers.state(&name()).version.as_deref(), Some("2026-07-28"));
}

#[tokio::test]
async fn each_request_declares_what_was_granted_for_the_agent_that_calls() {
    let play = Play::newest().await;
    play.stage.grant("reader", &["declared"], true).await.unwrap();
    let declared = async |agent: &str| {
        let content = play.stage.call_as(&context(agent), "declared", json!({})).await.unwrap();
        let said = crate::provider::message::joined_text(&content);
        serde_json::from_str::<Value>(said.rsplit_once(']').unwrap().1).unwrap()
    };
    assert_eq!(declared("coder").await, json!({}));
    play.lend("coder", &[McpCapability::Sampling]).await;
    play.lend("reader", &[McpCapability::Elicitation]).await;
    assert_eq!(declared("coder").await, json!({"sampling": {}}));
    assert_eq!(declared("reader").await, json!({"elicitation": {"form": {}}}));
    let agent: AgentId = "coder".parse().unwrap();
    let revoked = McpRevocation::These(Vec::new(), vec![McpCapability::Sampling]);
    play.stage.servers.revoke((&name(), &agent), revoked, "human:ann").await.unwrap();
    assert_eq!(declared("coder").await, json!({}));
}

#[tokio::test]
async fn without_a_grant_a_question_is_declined_and_a_call_for_a_model_ends() {
    let play = Play::newest().await;
    // That another agent has granted it changes nothing for this one.
    play.lend("reader", &BOTH).await;
    let heard = play.rounds(json!([{"inputRequests": {"a": table(), "b": {"method": "roots/list"}}}])).await;
    let answers = json!({"a": {"action": "decline"}, "b": {"roots": []}});
    assert_eq!(heard.unwrap()[1]["inputResponses"], answers);
    let play = Play::newest().await;
    play.lend("coder", &[McpCapability::Elicitation]).await;
    let demands = json!([{"inputRequests": {"a": table(), "b": sample("x")}, "requestState": "s"}]);
    let error = play.rounds(demands).await.unwrap_err();
    assert!(error.contains("flock mcp grant fixture AGENT --sampling"), "{error}");
    assert!(play.is_nobody_asked(), "nor is a person asked in vain");
    assert_eq!(play.heard().await.len(), 1, "the call is not made again");
}

#[tokio::test]
async fn the_rules_for_questions_hold_in_rounds() {
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    let mut address = table();
    address["params"]["mode"] = json!("url");
    address["params"]["url"] = json!("https://evil.example");
    let secret = question(&json!({"type": "string", "title": "Your password"}));
    let nested = question(&json!({"type": "object"}));
    let heard =
        play.rounds(json!([{"inputRequests": {"a": address, "b": secret, "c": nested}}])).await.unwrap();
    let no = json!({"action": "decline"});
    assert_eq!(heard[1]["inputResponses"], json!({"a": no, "b": no, "c": no}));
    assert!(play.is_nobody_asked());
    for (params, part) in [
        (json!({"maxTokens": 5, "messages": [{"role": "judge", "content": 5}]}), "role"),
        (
            json!({"maxTokens": 5, "messages": [], "tools": [{"name": "a", "inputSchema": {"type": "object"}}]}),
            "tools",
        ),
        (json!("x"), "maxTokens"),
    ] {
        let request = json!({"method": "sampling/createMessage", "params": params});
        let play = Play::newest().await;
        play.lend("coder", &BOTH).await;
        let error = play.rounds(json!([{"inputRequests": {"a": request}}])).await.unwrap_err();
        assert!(error.contains("did not get it") && error.contains(part), "{error}");
        assert!(play.is_nobody_asked());
        assert_eq!(play.heard().await.len(), 1);
    }
}

#[tokio::test]
async fn requests_are_counted_over_all_rounds_of_a_call() {
    let play = Play::start(&["--rounds", "--newest"], |server| server["samplesPerCall"] = json!(2)).await;
    play.lend("coder", &BOTH).await;
    let ask = json!({"inputRequests": {"a": sample("x")}});
    let error = play.rounds(json!([ask, ask, ask])).await.unwrap_err();
    assert!(error.contains("2 times") && error.contains("got 2 answers"), "{error}");
    assert_eq!(lock(&play.model.asked).len(), 2);
    assert_eq!(play.heard().await.len(), 3);
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    *lock(&play.person.answer) = PersonAnswer::Cancelled;
    let ask = json!({"inputRequests": {"a": table()}});
    let heard = play.rounds(json!([ask, ask, ask, ask])).await.unwrap();
    let actions: Vec<&Value> =
        heard[1..].iter().map(|round| &round["inputResponses"]["a"]["action"]).collect();
    assert_eq!(actions, ["cancel", "cancel", "cancel", "decline"]);
    assert_eq!(lock(&play.person.asked).len(), 3);
}

#[tokio::test]
async fn a_model_that_can_not_answer_ends_the_call_with_the_reason() {
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    *lock(&play.model.fails) = Some(SampleError::Paused);
    let error = play.rounds(json!([{"inputRequests": {"a": sample("x")}}])).await.unwrap_err();
    assert!(error.contains(&SampleError::Paused.to_string()), "{error}");
    assert_eq!(play.heard().await.len(), 1);
}

#[tokio::test]
async fn demands_that_make_no_sense_end_the_call_and_ask_nobody() {
    let many: serde_json::Map<String, Value> = (0..9).map(|at| (at.to_string(), table())).collect();
    let long: serde_json::Map<String, Value> = [("k".repeat(300), table())].into_iter().collect();
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    let demands = [
        (json!({}), "asks for nothing"),
        (json!({"inputRequests": {}}), "asks for nothing"),
        (json!({"inputRequests": {"a": {"method": "ping"}}}), "asks for \"ping\""),
        (json!({"inputRequests": {"a": {"method": "tools/call\u{1b}[31m", "params": {}}}}), "tools/call"),
        (json!({"inputRequests": {"a": table(), "b": {}}}), "asks for \"\""),
        (json!({"inputRequests": {"a": 5, "b": table()}}), "asks for \"\""),
        (json!({"inputRequests": [table()]}), "no object"),
        (json!({"inputRequests": many}), "more than 8 things"),
        (json!({"inputRequests": long}), "more than 256 bytes"),
        (json!({"inputRequests": {"a": table()}, "requestState": "x".repeat(300 << 10)}), "256 KiB"),
        (json!({"inputRequests": {"a": table()}, "requestState": {"a": 1}}), "256 KiB"),
    ];
    for (calls, (demand, part)) in demands.into_iter().enumerate() {
        let error = play.rounds(json!([demand])).await.unwrap_err();
        assert!(error.contains(part) && error.len() < 1_000, "{part}: {error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
        assert!(play.is_nobody_asked(), "{part}");
        assert_eq!(play.heard().await.len(), calls + 1, "{part}");
    }
}

#[tokio::test]
async fn a_server_that_demands_without_end_is_given_up() {
    let play = Play::newest().await;
    play.lend("coder", &[McpCapability::Elicitation]).await;
    let demand = json!({"inputRequests": {"a": {"method": "roots/list"}}, "requestState": "again"});
    let error = play.stage.call("rounds", json!({"demands": [demand], "endless": true})).await.unwrap_err();
    assert!(error.contains("more than 8 times"), "{error}");
    assert_eq!(play.heard().await.len(), 9);
}

#[tokio::test]
async fn a_server_of_an_older_version_can_not_demand_and_a_list_has_no_demands() {
    let play = Play::start(&["--rounds"], |_| {}).await;
    play.lend("coder", &BOTH).await;
    let demands = json!([{"inputRequests": {"a": table(), "b": sample("x")}, "requestState": "s"}]);
    let error = play.rounds(demands).await.unwrap_err();
    assert!(error.contains("its version 2025-11-25 of MCP does not have"), "{error}");
    assert!(play.is_nobody_asked());
    assert_eq!(play.heard().await.len(), 1);
    let stage = Stage::new(&["--newest", "--list-demands"]);
    let error = stage.list().await.unwrap_err().to_string();
    assert!(error.contains("before it lists its tools"), "{error}");
}

#[tokio::test]
async fn all_rounds_together_have_the_time_of_one_call() {
    let play = Play::start(&["--rounds", "--newest"], |server| server["callSeconds"] = json!(1)).await;
    play.lend("coder", &BOTH).await;
    let arguments = json!({"demands": [{"requestState": "later"}], "endless": true});
    let error = play.stage.call("rounds", arguments).await.unwrap_err();
    assert!(error.contains("did not answer within 1 s"), "{error}");
    *lock(&play.model.hangs) = true;
    let play_on = json!({"demands": [{"inputRequests": {"a": sample("x")}}], "endless": true});
    let error = play.stage.call("rounds", play_on).await.unwrap_err();
    assert!(error.contains("within 1 s; it waited for") && error.contains("got 0 answers"), "{error}");
    let given_up = play.model.given_up.cancelled();
    tokio::time::timeout(Duration::from_secs(10), given_up).await.expect("it was given up");
    // The time that a person needs does not count.
    let play = Play::start(&["--rounds", "--newest"], |server| server["callSeconds"] = json!(1)).await;
    play.lend("coder", &BOTH).await;
    *lock(&play.person.takes) = Duration::from_millis(1_500);
    let heard = play.rounds(json!([{"inputRequests": {"a": table()}}])).await.unwrap();
    assert_eq!(heard[1]["inputResponses"]["a"]["action"], "decline");
}

#[tokio::test]
async fn a_call_that_is_cancelled_between_two_rounds_is_not_made_again() {
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    *lock(&play.person.takes) = Duration::from_secs(60);
    let given_up = CallContext { cancel: CancellationToken::new(), ..context("coder") };
    let demands = json!({"demands": [{"inputRequests": {"a": table()}}]});
    let call = play.stage.call_as(&given_up, "rounds", demands);
    let cancel = async {
        play.wait_for_question().await;
        given_up.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(call, cancel);
    assert!(answer.unwrap_err().contains("cancelled"));
    let taken_back = play.person.taken_back.cancelled();
    tokio::time::timeout(Duration::from_secs(10), taken_back).await.expect("it is taken back");
    assert_eq!(play.heard().await.len(), 1);
    // It is written down after the caller has gone.
    let filter = AuditFilter { action: Some("mcp.elicit".to_owned()), ..AuditFilter::default() };
    let deadline = Instant::now() + Duration::from_secs(15);
    while play.stage.store.audit().rows(&filter, 10).await.unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the question is in no audit");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_tool_that_is_taken_away_between_two_rounds_is_not_called_again() {
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    *lock(&play.person.takes) = Duration::from_secs(60);
    let agent: AgentId = "coder".parse().unwrap();
    let call = play.rounds(json!([{"inputRequests": {"a": table()}}]));
    let revoke = async {
        play.wait_for_question().await;
        let revoked = McpRevocation::These(vec!["rounds".to_owned()], Vec::new());
        play.stage.servers.revoke((&name(), &agent), revoked, "human:ann").await.unwrap();
        *lock(&play.person.takes) = Duration::ZERO;
    };
    let (answer, ()) = tokio::join!(call, revoke);
    let error = answer.unwrap_err();
    assert!(error.contains("not granted"), "{error}");
    assert_eq!(play.heard().await.len(), 1);
}

#[tokio::test]
async fn a_tool_that_changes_between_two_rounds_is_not_called_again() {
    let play = Play::newest().await;
    play.lend("coder", &BOTH).await;
    *lock(&play.person.takes) = Duration::from_secs(60);
    let arguments = json!({"changes": true, "demands": [{"inputRequests": {"a": table()}}]});
    let call = play.stage.call("rounds", arguments);
    let age = async {
        play.wait_for_question().await;
        play.stage.servers.age_tools(&name()).await;
        *lock(&play.person.takes) = Duration::ZERO;
    };
    let (answer, ()) = tokio::join!(call, age);
    let error = answer.unwrap_err();
    assert!(error.contains("differently") && error.contains("r-1"), "{error}");
    assert_eq!(play.heard().await.len(), 1);
}

#[tokio::test]
async fn a_request_in_a_result_is_charged_to_its_caller_whoever_else_calls() {
    let play = Play::newest().await;
    play.lend("coder", &[McpCapability::Sampling]).await;
    play.stage.grant("reader", &["slow"], true).await.unwrap();
    let (runs, begun) = (CancellationToken::new(), CancellationToken::new());
    let sink = begun.clone();
    let progress = Some(ProgressSink::new(move |_| sink.cancel()));
    let reader = CallContext { cancel: runs.clone(), progress, ..context("reader") };
    let slow = play.stage.call_as(&reader, "slow", json!({}));
    let asks = async {
        begun.cancelled().await;
        play.rounds(json!([{"inputRequests": {"a": sample("x")}}])).await.unwrap();
        runs.cancel();
    };
    let (slow, ()) = tokio::join!(slow, asks);
    assert!(slow.unwrap_err().contains("cancelled"));
    assert_eq!(audited(&play.stage).await, ["coder fixture answered by small, 42 tokens"]);
}

#[tokio::test]
async fn a_server_at_a_url_demands_by_the_same_rules() {
    let far = Far::start(Habits::newest()).await;
    let play = Play::of(far.stage(), &["demands", "lacks"]).await;
    let error = play.stage.call("demands", json!({})).await.unwrap_err();
    assert!(error.contains("--sampling") && play.is_nobody_asked(), "{error}");
    let lacks = async |what: Value| play.stage.call("lacks", what).await.unwrap_err();
    assert!(lacks(json!({"sampling": {}})).await.contains("flock mcp grant fixture AGENT --sampling"));
    assert!(lacks(json!({"elicitation": {}})).await.contains("flock mcp grant fixture AGENT --elicitation"));
    // No grant gives these.
    for what in
        [json!({"elicitation": {"url": {}}}), json!({"sampling": {"tools": {}}}), json!({"roots": {}})]
    {
        assert!(lacks(what).await.contains("-32021: lacking"));
    }
    play.lend("coder", &BOTH).await;
    let said = play.stage.call("demands", json!({})).await.unwrap();
    assert!(said.contains("You said: hi") && said.contains("\"action\":\"decline\""), "{said}");
    let calls = far.calls("demands");
    assert_eq!(calls.len(), 3, "one that was refused, and two rounds");
    let declared =
        |call: &Value| call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
    assert_eq!(declared(&calls[0]), json!({}));
    for call in &calls[1..] {
        assert_eq!(declared(call), json!({"sampling": {}, "elicitation": {"form": {}}}));
    }
    assert_eq!(
        (&calls[1]["params"]["requestState"], &calls[2]["params"]["requestState"]),
        (&Value::Null, &json!("s-1"))
    );
    assert_ne!(calls[1]["id"], calls[2]["id"]);
}
