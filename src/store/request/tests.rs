use std::sync::Arc;

use super::*;
use crate::clock::MAX_DIFFERENCE;
use crate::home::Home;
use crate::id::SessionKind;
use crate::store::{Store, testing};

pub(in crate::store) const BODY: &str = r#"{"agent":"coder","request":{"kind":"command","command":"true"}}"#;

const STEPS: [RequestStep; 8] = [
    RequestStep::Hold,
    RequestStep::Approve,
    RequestStep::Deny,
    RequestStep::Expire,
    RequestStep::Begin,
    RequestStep::Answer,
    RequestStep::Finish,
    RequestStep::Fail,
];

fn open() -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
    (folder, Arc::new(store))
}

fn entry(actor: &str, action: &'static str) -> AuditEntry {
    AuditEntry {
        actor: actor.into(),
        action,
        subject: "r-1".into(),
        level: Level::Red,
        detail: String::new(),
        session: None,
        turn: None,
    }
}

pub(in crate::store) async fn add_request(store: &Store, id: &str, level: Level, state: RequestState) {
    let agent: AgentId = "coder".parse().unwrap();
    let new = NewRequest {
        id: id.into(),
        kind: "command",
        session: SessionKey::new(&agent, SessionKind::Channel, "work"),
        agent,
        channel: None,
        body: BODY.into(),
        reason: "because".into(),
        floor: level,
        why: vec!["it runs on the host".into()],
        state,
        scope: Scope::Once,
        asks_sysadmin: false,
        expires_at: 1000,
        exchange: None,
        now: 1,
    };
    assert!(store.requests().add(new, Along::audit(entry("coder", "request.ask"))).await.unwrap());
}

pub(in crate::store) async fn approve(store: &Store, id: &str, sha256: &str, now: i64) -> RequestTransition {
    let along = Along::audit(entry("human:ann", "request.approve"));
    store.requests().approve(id.into(), sha256.into(), now + 1000, along, now).await.unwrap()
}

async fn begin(store: &Store, id: &str, now: i64) -> RequestTransition {
    store.requests().begin(id.into(), entry("system", "request.begin"), now).await.unwrap()
}

fn audited(store: &Store, action: &str) -> i64 {
    store
        .pool
        .read("count", |connection| {
            connection.query_row("SELECT count(*) FROM audit WHERE action = ?1", [action], |row| row.get(0))
        })
        .unwrap()
}

#[test]
fn only_listed_steps_change_a_state() {
    use RequestState as S;
    let allowed = [
        (S::Triage, RequestStep::Hold, S::Waiting),
        (S::Triage, RequestStep::Begin, S::Running),
        (S::Triage, RequestStep::Answer, S::Done),
        (S::Triage, RequestStep::Deny, S::Denied),
        (S::Triage, RequestStep::Expire, S::Expired),
        (S::Waiting, RequestStep::Approve, S::Approved),
        (S::Waiting, RequestStep::Deny, S::Denied),
        (S::Waiting, RequestStep::Expire, S::Expired),
        (S::Approved, RequestStep::Begin, S::Running),
        (S::Approved, RequestStep::Deny, S::Denied),
        (S::Approved, RequestStep::Expire, S::Expired),
        (S::Running, RequestStep::Finish, S::Done),
        (S::Running, RequestStep::Fail, S::Failed),
    ];
    for state in S::ALL {
        for step in STEPS {
            let wanted =
                allowed.iter().find(|(from, by, _)| (*from, *by) == (state, step)).map(|found| found.2);
            assert_eq!(next(state, Level::Yellow, step), wanted, "{state:?} {step:?}");
            let red = wanted.filter(|_| (state, step) != (S::Triage, RequestStep::Begin));
            assert_eq!(next(state, Level::Red, step), red, "RED {state:?} {step:?}");
        }
    }
}

#[tokio::test]
async fn a_red_request_begins_once_and_only_with_its_approved_body() {
    let (_folder, store) = open();
    add_request(&store, "r-1", Level::Red, RequestState::Waiting).await;
    assert!(matches!(begin(&store, "r-1", 10).await, RequestTransition::Not(_)));
    assert!(matches!(
        approve(&store, "r-1", &digest("something else"), 10).await,
        RequestTransition::Changed(_)
    ));
    assert!(matches!(approve(&store, "r-1", &digest(BODY), 10).await, RequestTransition::Done(_)));
    assert!(matches!(begin(&store, "r-1", 20).await, RequestTransition::Done(_)));
    assert!(matches!(begin(&store, "r-1", 21).await, RequestTransition::Not(_)));
    let along = Along::audit(entry("system", "request.done"));
    let done =
        store.requests().step("r-1".into(), RequestStep::Finish, Some("ok".into()), along, 30).await.unwrap();
    let RequestTransition::Done(row) = done else { panic!("{done:?}") };
    assert_eq!((row.state, row.used_at, row.ended_at), (RequestState::Done, Some(20), Some(30)));
    assert_eq!((row.decided_by.as_deref(), row.result.as_deref()), (Some("human:ann"), Some("ok")));
    assert!(matches!(begin(&store, "r-1", 40).await, RequestTransition::Not(_)), "it is used up");
    for action in ["request.ask", "request.approve", "request.begin", "request.done"] {
        assert_eq!(audited(&store, action), 1, "{action}");
    }
}

#[tokio::test]
async fn a_request_edited_in_the_database_is_not_run() {
    for when in ["before", "after"] {
        let (_folder, store) = open();
        add_request(&store, "r-1", Level::Red, RequestState::Waiting).await;
        let tamper = || {
            let sql = "UPDATE request SET body = replace(body, 'true', 'evil')";
            store.write("tamper", |transaction| transaction.execute(sql, ()).map(drop))
        };
        if when == "before" {
            tamper().await.unwrap();
            assert!(matches!(approve(&store, "r-1", &digest(BODY), 10).await, RequestTransition::Changed(_)));
            continue;
        }
        assert!(matches!(approve(&store, "r-1", &digest(BODY), 10).await, RequestTransition::Done(_)));
        tamper().await.unwrap();
        let RequestTransition::Changed(row) = begin(&store, "r-1", 20).await else { panic!("it began") };
        assert_eq!(row.state, RequestState::Failed);
        assert!(matches!(begin(&store, "r-1", 21).await, RequestTransition::Not(_)));
    }
}

#[tokio::test]
async fn an_expired_request_is_neither_approved_nor_begun() {
    let (_folder, store) = open();
    add_request(&store, "r-1", Level::Red, RequestState::Waiting).await;
    assert!(matches!(approve(&store, "r-1", &digest(BODY), 1000).await, RequestTransition::Expired(_)));
    assert!(matches!(approve(&store, "r-1", &digest(BODY), 5).await, RequestTransition::Not(_)));
    add_request(&store, "r-2", Level::Red, RequestState::Waiting).await;
    assert!(matches!(approve(&store, "r-2", &digest(BODY), 10).await, RequestTransition::Done(_)));
    assert!(matches!(begin(&store, "r-2", 1010).await, RequestTransition::Expired(_)));
    assert_eq!(audited(&store, "request.expire"), 2);
}

#[tokio::test]
async fn a_request_of_a_group_is_expired_once_it_is_over_by_every_clock() {
    let (_folder, store) = open();
    testing::make_group(&store).await;
    for id in ["r-1", "r-2"] {
        add_request(&store, id, Level::Red, RequestState::Waiting).await;
    }
    let over = 1000 + MAX_DIFFERENCE;
    assert!(matches!(approve(&store, "r-1", &digest(BODY), over - 1).await, RequestTransition::Done(_)));
    assert!(matches!(approve(&store, "r-2", &digest(BODY), over).await, RequestTransition::Expired(_)));
    // From its approval on, it has a second to begin.
    assert!(matches!(begin(&store, "r-1", over - 1 + over - 1).await, RequestTransition::Done(_)));
    add_request(&store, "r-3", Level::Red, RequestState::Waiting).await;
    assert!(matches!(approve(&store, "r-3", &digest(BODY), 0).await, RequestTransition::Done(_)));
    assert!(matches!(begin(&store, "r-3", over).await, RequestTransition::Expired(_)));
    assert_eq!(audited(&store, "request.expire"), 2);
}

#[tokio::test]
async fn of_simultaneous_decisions_or_starts_only_one_succeeds() {
    let (_folder, store) = open();
    add_request(&store, "r-1", Level::Red, RequestState::Waiting).await;
    let count = |moved: &[RequestTransition]| {
        moved.iter().filter(|moved| matches!(moved, RequestTransition::Done(_))).count()
    };
    let sha256 = digest(BODY);
    let all = futures_util::future::join_all((0..8).map(|_| approve(&store, "r-1", &sha256, 10))).await;
    assert_eq!(count(&all), 1);
    let all = futures_util::future::join_all((0..8).map(|_| begin(&store, "r-1", 20))).await;
    assert_eq!(count(&all), 1);
    assert_eq!((audited(&store, "request.approve"), audited(&store, "request.begin")), (1, 1));
}

#[tokio::test]
async fn a_level_can_only_be_raised_and_only_before_the_start() {
    let (_folder, store) = open();
    add_request(&store, "r-1", Level::Yellow, RequestState::Triage).await;
    let raise = |id: &'static str, level| {
        let along = Along::audit(entry("sysadmin", "triage.raise"));
        store.requests().raise(id.into(), level, "odd".into(), along, 5)
    };
    assert!(matches!(raise("r-1", Level::Green).await.unwrap(), RequestTransition::Not(_)));
    assert!(matches!(raise("r-1", Level::Yellow).await.unwrap(), RequestTransition::Not(_)));
    let RequestTransition::Done(row) = raise("r-1", Level::Red).await.unwrap() else { panic!() };
    assert_eq!((row.level, row.floor, row.state), (Level::Red, Level::Yellow, RequestState::Waiting));
    assert_eq!(row.why, ["it runs on the host", "odd"]);
    assert!(matches!(begin(&store, "r-1", 6).await, RequestTransition::Not(_)), "it waits for a person now");
    add_request(&store, "r-2", Level::Yellow, RequestState::Triage).await;
    assert!(matches!(begin(&store, "r-2", 6).await, RequestTransition::Done(_)));
    assert!(matches!(raise("r-2", Level::Red).await.unwrap(), RequestTransition::Not(_)), "too late");
}

#[tokio::test]
async fn a_grant_holds_until_it_is_revoked() {
    let (_folder, store) = open();
    let agent: AgentId = "coder".parse().unwrap();
    let new = |id: &str, body: &str| NewRequest {
        id: id.into(),
        kind: "egress",
        agent: agent.clone(),
        session: SessionKey::new(&agent, SessionKind::Main, "x"),
        channel: None,
        body: body.into(),
        reason: "because".into(),
        floor: Level::Yellow,
        why: Vec::new(),
        state: RequestState::Triage,
        scope: Scope::Agent,
        asks_sysadmin: false,
        expires_at: 1000,
        exchange: None,
        now: 1,
    };
    for (id, body) in [("r-1", "one"), ("r-2", "two"), ("r-3", "three")] {
        assert!(store.requests().add(new(id, body), Along::audit(entry("coder", "ask"))).await.unwrap());
    }
    assert!(!store.requests().add(new("r-1", "x"), Along::audit(entry("coder", "ask"))).await.unwrap());
    assert_eq!(store.grants().bodies(&agent, "egress").await.unwrap(), Vec::<String>::new());
    for id in ["r-1", "r-2"] {
        assert!(matches!(begin(&store, id, 2).await, RequestTransition::Done(_)));
        let along = Along::audit(entry("system", "done"));
        store.requests().step(id.into(), RequestStep::Finish, None, along, 3).await.unwrap();
    }
    assert_eq!(store.grants().bodies(&agent, "egress").await.unwrap(), ["one", "two"]);
    assert_eq!(store.grants().bodies(&agent, "mount").await.unwrap(), Vec::<String>::new());
    let revoke = |only: Option<&str>| {
        store.grants().revoke(agent.clone(), only.map(str::to_owned), entry("human:ann", "revoke"), 9)
    };
    assert_eq!(revoke(Some("r-1")).await.unwrap(), 1);
    assert_eq!(store.grants().bodies(&agent, "egress").await.unwrap(), ["two"]);
    assert_eq!(revoke(None).await.unwrap(), 1);
    assert_eq!(store.grants().bodies(&agent, "egress").await.unwrap(), Vec::<String>::new());
    assert_eq!(
        store.requests().find("r-3").await.unwrap().unwrap().state,
        RequestState::Denied,
        "what waited is over"
    );
}
