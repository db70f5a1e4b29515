//! Questions of MCP servers to people: answered, declined, taken back, and over with their process.

use std::time::Duration;

use super::*;
use crate::mcp::{PersonAnswer, Question};
use crate::provider::BoxFuture as Waiting;
use crate::store::LeaseSubject;
use crate::swarm::triage::question;
use crate::tool::CallContext;

/// A question with the field `table`, which is required, and `rows`, which has a default.
fn asked() -> Request {
    let fields = json!([
        {"name": "table", "required": true, "kind": {"type": "text", "minLength": 2}},
        {"name": "rows", "required": false, "default": 10,
            "kind": {"type": "number", "isInteger": true, "minimumMilli": 1000}},
    ]);
    let fields = serde_json::from_value(fields).unwrap();
    let message = "Which table \u{202e}?".to_owned();
    question::request(&"notes".parse().unwrap(), Question { message, fields })
}

fn context() -> CallContext {
    let (agent, session) = ("coder".parse().unwrap(), session("coder"));
    CallContext { agent, session, turn: TurnId::new(), cancel: CancellationToken::new(), progress: None }
}

fn values(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Asks a person at a gateway, and returns the future answer with the row of the question.
async fn ask_at(triage: &Arc<Triage>, context: &CallContext) -> (Waiting<'static, PersonAnswer>, RequestRow) {
    let (asking, context) = (Arc::clone(triage), context.clone());
    let limit = Duration::from_secs(60);
    let task = tokio::spawn(async move { asking.ask_person(&context, asked(), limit).await.unwrap() });
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let open = triage.swarm().store().requests().list(true, 10).await.unwrap();
        // The question can be answered as soon as its row is there and its call waits.
        if let Some(row) = open.into_iter().find(|row| row.kind == question::KIND && triage.is_asked(&row.id))
        {
            return (Box::pin(async move { task.await.unwrap() }), row);
        }
        assert!(tokio::time::Instant::now() < end, "nobody is asked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The leases of a gateway of a group, in which another one has what is `elsewhere`.
fn leases(here: &[LeaseSubject], elsewhere: &[LeaseSubject]) -> Arc<Ownership> {
    let set = |subjects: &[LeaseSubject]| subjects.iter().cloned().collect();
    Ownership::of_subjects_for_test(set(here), &set(elsewhere))
}

impl Rig {
    /// Asks a person, and returns the future answer with the row of the question.
    async fn question(&self, context: &CallContext) -> (Waiting<'static, PersonAnswer>, RequestRow) {
        ask_at(&self.triage, context).await
    }

    /// Adds the server that asks, whose program runs at one gateway.
    fn add_server(&self) {
        self.set("mcpServers", json!({"notes": {"command": ["python3", "notes.py"]}}));
    }

    async fn answer(&self, row: &RequestRow, given: Value) -> Result<RequestRow, DecideError> {
        self.triage.answer(&row.id, (row.sha256.clone(), &values(given)), &owner()).await
    }
}

#[tokio::test]
async fn a_person_answers_exactly_the_question_that_was_shown() {
    let rig = Rig::new().await;
    let (answer, row) = rig.question(&context()).await;
    assert_eq!((row.level, row.state), (Level::Red, RequestState::Waiting));
    let shown = view::lines(&row).join("\n");
    assert!(
        shown.contains("MCP server notes, in its own words") && shown.contains("| Which table"),
        "{shown}"
    );
    assert!(shown.contains("| field table (a text of at least 2 characters, required)"), "{shown}");
    assert!(!shown.contains('\u{202e}') && shown.contains("[default: 10]"), "{shown}");
    assert!(row.why[0].contains("never type a password"), "{:?}", row.why);
    assert!(rig.posts().await[0].contains("flock approvals answer"));
    for (given, part) in [
        (json!({}), "table is missing"),
        (json!({"table": "x"}), "at least 2"),
        (json!({"table": "notes", "rows": 0}), "at least 1"),
        (json!({"table": "notes", "other": 1}), "no field"),
    ] {
        let refused = rig.answer(&row, given).await.unwrap_err();
        assert!(matches!(refused, DecideError::Values { .. }), "{refused}");
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let bare = rig.approve(&row.id).await.unwrap_err();
    assert!(matches!(bare, DecideError::Unanswered(_)), "{bare}");
    let changed = ("0".repeat(64), &values(json!({"table": "notes"})));
    let changed = rig.triage.answer(&row.id, changed, &owner()).await.unwrap_err();
    assert!(matches!(changed, DecideError::Changed(_)), "{changed}");
    rig.answer(&row, json!({"table": "notes"})).await.unwrap();
    assert_eq!(answer.await, PersonAnswer::Accepted(values(json!({"table": "notes", "rows": 10}))));
    rig.until(&row.id, RequestState::Done).await;
    let again = rig.answer(&row, json!({"table": "other"})).await.unwrap_err();
    assert!(matches!(again, DecideError::Over { .. }), "{again}");
    assert_eq!(rig.executor.done(), Vec::<String>::new());
    assert_eq!(rig.items(&session("coder")).await, Vec::<String>::new(), "the server has the answer");
    let row = rig.row(&row.id).await;
    assert_eq!(row.result.as_deref(), Some("answered"), "the values are in no record");
}

#[tokio::test]
async fn a_wrong_digest_leaves_no_values_for_a_later_approval() {
    let rig = Rig::new().await;
    let (answer, row) = rig.question(&context()).await;
    let changed = ("0".repeat(64), &values(json!({"table": "evil"})));
    rig.triage.answer(&row.id, changed, &owner()).await.unwrap_err();
    let bare = rig.approve(&row.id).await.unwrap_err();
    assert!(matches!(bare, DecideError::Unanswered(_)), "{bare}");
    rig.decide(&row.id, ApprovalDecision::Deny { reason: Some("no".into()) }).await.unwrap();
    assert_eq!(answer.await, PersonAnswer::Declined);
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
    assert_eq!(rig.items(&session("coder")).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_denial_by_another_process_declines_the_question() {
    let rig = Rig::new().await;
    let (store, config) = (rig.triage.swarm().store(), rig.triage.swarm().config());
    for is_notice_lost in [false, true] {
        let (answer, row) = rig.question(&context()).await;
        let deny = ApprovalDecision::Deny { reason: None };
        decide::decide(store, &config, &row.id, deny, &owner(), unix_ms()).await.unwrap();
        if is_notice_lost {
            rig.triage.settle().await.unwrap();
        } else {
            rig.triage.take_up_decision(&row.id).await.unwrap();
        }
        assert_eq!(answer.await, PersonAnswer::Declined);
        assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
    }
}

#[tokio::test]
async fn a_question_is_over_with_its_call_and_its_time() {
    let rig = Rig::new().await;
    let stopped = context();
    let (answer, row) = rig.question(&stopped).await;
    stopped.cancel.cancel();
    assert_eq!(answer.await, PersonAnswer::Cancelled);
    rig.until(&row.id, RequestState::Expired).await;
    let late = rig.answer(&row, json!({"table": "notes"})).await.unwrap_err();
    assert!(matches!(late, DecideError::Over { .. }), "{late}");
    let short = Duration::from_millis(1);
    let answered = rig.triage.ask_person(&context(), asked(), short).await.unwrap();
    assert_eq!(answered, PersonAnswer::Cancelled);
    let last = rig.last().await.id;
    rig.until(&last, RequestState::Expired).await;
    assert_eq!(rig.items(&session("coder")).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_question_of_an_earlier_process_is_ended_and_can_not_be_answered() {
    let rig = Rig::new().await;
    let (_answer, row) = rig.question(&context()).await;
    let rig = rig.restarted().await;
    let gone = rig.answer(&row, json!({"table": "notes"})).await.unwrap_err();
    assert!(matches!(gone, DecideError::NobodyWaits(_)), "{gone}");
    rig.triage.recover().await.unwrap();
    assert_eq!(rig.row(&row.id).await.state, RequestState::Expired);
    assert_eq!(rig.items(&session("coder")).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_question_is_answered_where_its_call_waits_and_not_where_its_agent_is() {
    let rig = Rig::new().await;
    rig.add_server();
    let coder: AgentId = "coder".parse().unwrap();
    let (agent, server) = (LeaseSubject::agent(&coder), LeaseSubject::server(&"notes".parse().unwrap()));
    let (one, other) = (std::slice::from_ref(&server), std::slice::from_ref(&agent));
    let runs_server = rig.beside(leases(one, other));
    let has_agent = rig.beside(leases(other, one));
    let (answer, row) = ask_at(&runs_server, &context()).await;
    // The answer was forwarded, and waits for the thaw of the agent.
    runs_server.swarm().freeze(&Actor::human("ann"), &coder, None).await.unwrap();
    let given = values(json!({"table": "notes"}));
    let elsewhere = has_agent.answer(&row.id, (row.sha256.clone(), &given), &owner()).await.unwrap_err();
    assert!(matches!(elsewhere, DecideError::NobodyWaits(_)), "{elsewhere}");
    runs_server.answer(&row.id, (row.sha256.clone(), &given), &owner()).await.unwrap();
    for gateway in [&has_agent, &runs_server] {
        gateway.take_up_decision(&row.id).await.unwrap();
        gateway.recover_orphans(Duration::ZERO).await.unwrap();
    }
    assert!(has_agent.underway.lock().unwrap().is_empty(), "it is not the one that passes it on");
    let approved = rig.row(&row.id).await;
    assert_eq!((approved.state, approved.expires_at), (RequestState::Approved, row.expires_at));
    runs_server.swarm().thaw(&Actor::human("ann"), &coder).await.unwrap();
    assert_eq!(answer.await, PersonAnswer::Accepted(values(json!({"table": "notes", "rows": 10}))));
    rig.until(&row.id, RequestState::Done).await;
    assert_eq!(rig.row(&row.id).await.result.as_deref(), Some("answered"));
}

/// Begins an answer, as a gateway has that dies before it passes it on.
async fn begin_answer(rig: &Rig, row: &RequestRow) {
    let (store, config) = (rig.triage.swarm().store(), rig.triage.swarm().config());
    let approve = ApprovalDecision::Approve { sha256: row.sha256.clone() };
    decide::decide(store, &config, &row.id, approve, &owner(), unix_ms()).await.unwrap();
    let entry = Actor::system().entry("request.begin", &row.id, Level::Red, String::new());
    let begun = store.requests().begin(row.id.clone(), entry, unix_ms()).await.unwrap();
    assert!(matches!(begun, RequestTransition::Done(_)), "{begun:?}");
}

#[tokio::test]
async fn a_question_of_a_gateway_that_is_gone_is_ended_by_the_next_one() {
    let rig = Rig::new().await;
    rig.add_server();
    let agent = LeaseSubject::agent(&"coder".parse().unwrap());
    let server = LeaseSubject::server(&"notes".parse().unwrap());
    let both = [agent.clone(), server.clone()];
    let (agent, server) = (std::slice::from_ref(&agent), std::slice::from_ref(&server));
    for is_begun in [false, true] {
        for next in [leases(server, agent), leases(agent, &[])] {
            // The gateway that the call is made at knows nothing of the others any more.
            let gone = rig.beside(leases(server, agent));
            let (answer, row) = ask_at(&gone, &context()).await;
            if is_begun {
                begin_answer(&rig, &row).await;
            }
            let before = rig.row(&row.id).await.state;
            let bystanders = [leases(&[], &both), leases(agent, server), leases(&[], &[])];
            for gateway in bystanders.into_iter().map(|leases| rig.beside(leases)).chain([gone.clone()]) {
                if gateway.is_asked(&row.id) && is_begun {
                    // It would have passed the answer on.
                    continue;
                }
                gateway.recover_orphans(Duration::ZERO).await.unwrap();
                assert_eq!(rig.row(&row.id).await.state, before);
            }
            let next = rig.beside(next);
            // A call may have begun meanwhile that this gateway does not know of, at one whose clock is behind.
            testing::age_request(rig.triage.swarm().store(), &row.id, FIVE_MINUTES).await;
            next.recover_orphans(SWEEP_INTERVAL).await.unwrap();
            assert_eq!(rig.row(&row.id).await.state, before);
            next.recover_orphans(Duration::ZERO).await.unwrap();
            let ended = if is_begun { RequestState::Failed } else { RequestState::Expired };
            assert_eq!(rig.row(&row.id).await.state, ended);
            assert_eq!(rig.items(&session("coder")).await, Vec::<String>::new());
            if is_begun {
                drop(answer);
                continue;
            }
            // If it only seemed to be gone, its call does not wait for what can't come any more.
            gone.take_up_decision(&row.id).await.unwrap();
            assert_eq!(answer.await, PersonAnswer::Cancelled);
        }
    }
}

#[tokio::test]
async fn a_gateway_whose_clock_is_ahead_does_not_end_the_questions_of_another_one() {
    let rig = Rig::new().await;
    let (_answer, row) = rig.question(&context()).await;
    let store = rig.triage.swarm().store();
    // It is over by this clock, and not by that of the gateway that asks.
    testing::age_request(store, &row.id, FIVE_MINUTES + 59_000).await;
    rig.triage.sweep().await.unwrap();
    assert_eq!(rig.row(&row.id).await.state, RequestState::Waiting);
    // It is over by every clock, and nobody has ended it.
    testing::age_request(store, &row.id, FIVE_MINUTES).await;
    rig.triage.sweep().await.unwrap();
    assert_eq!(rig.row(&row.id).await.state, RequestState::Expired);
}

#[tokio::test]
async fn an_agent_can_not_ask_as_a_server_and_too_many_questions_are_refused() {
    let rig = Rig::new().await;
    let refused = rig.triage.request(&by("coder"), asked(), "x", &CancellationToken::new()).await;
    assert!(refused.unwrap_err().to_string().contains("only an MCP server"));
    let calls: Vec<CallContext> = (0..MAX_OPEN).map(|_| context()).collect();
    let mut waiting = tokio::task::JoinSet::new();
    for call in calls {
        let triage = Arc::clone(&rig.triage);
        waiting.spawn(async move { triage.ask_person(&call, asked(), Duration::from_secs(60)).await });
    }
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while rig.triage.swarm().store().requests().list(true, 100).await.unwrap().len() < MAX_OPEN {
        assert!(tokio::time::Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let more = rig.triage.ask_person(&context(), asked(), Duration::from_secs(60)).await;
    assert!(more.unwrap_err().contains("wait already"));
}
