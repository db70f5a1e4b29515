use std::sync::Arc;

use super::*;
use crate::home::Home;
use crate::store::testing::{add_person, begin_turn, person, turn_done};
use crate::store::{PersonRole, Store, TurnCompletion, TurnState};

fn open() -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&Home::new(folder.path().to_owned(), None)).unwrap());
    (folder, store)
}

fn call(id: i64, agent: &str, channel: Option<&str>, input: u64, cost: Option<u64>) -> NewUsage {
    let agent: AgentId = agent.parse().unwrap();
    NewUsage {
        id,
        at: 1000 + id,
        day: "2026-02-28".to_owned(),
        session: SessionKey::new(&agent, crate::id::SessionKind::Main, "ann"),
        agent,
        channel: channel.map(|channel| channel.parse().unwrap()),
        turn: TurnId::new(),
        model: "anthropic/claude-opus-4-5".parse().unwrap(),
        person: None,
        server: None,
        tokens: TokenCounts { input, output: 100, ..TokenCounts::default() },
        cost,
    }
}

fn limit(scope: UsageScope, tokens: Option<u64>, cost: Option<u64>) -> UsageLimit {
    UsageLimit { scope, tokens, cost }
}

async fn by(store: &Store, by: UsageBy) -> Vec<UsageSum> {
    store.usage().sums(&UsageFilter::default(), by).await.unwrap()
}

#[tokio::test]
async fn a_reservation_is_replaced_by_the_actual_usage() {
    let (_folder, store) = open();
    store.usage().reserve(call(1, "coder", Some("dev"), 900, Some(50)), vec![]).await.unwrap().unwrap();
    store.usage().reserve(call(2, "coder", None, 900, None), vec![]).await.unwrap().unwrap();
    let agents = by(&store, UsageBy::Agent).await;
    assert_eq!(
        (agents[0].calls, agents[0].unpriced, agents[0].tokens(), agents[0].cost_micros),
        (2, 1, 2000, 50)
    );
    let truth = TokenCounts { input: 10, output: 20, cache_read: 30, cache_write: 40 };
    store.usage().settle(CallSettlement { id: 1, used: Some((truth, Some(7))) });
    store.usage().settle(CallSettlement { id: 2, used: None });
    store.usage().settle(CallSettlement { id: 1, used: Some((truth, Some(700))) });
    store.usage().settle(CallSettlement { id: 3, used: Some((truth, Some(700))) });
    store.settle().await.unwrap();
    let agents = by(&store, UsageBy::Agent).await;
    assert_eq!(agents.len(), 1);
    let sum = &agents[0];
    assert_eq!((sum.name.as_str(), sum.calls, sum.unpriced), ("coder", 1, 0));
    assert_eq!(
        (sum.input, sum.output, sum.cache_read, sum.cache_write, sum.cost_micros),
        (10, 20, 30, 40, 7)
    );
    assert_eq!(by(&store, UsageBy::Channel).await[0].name, "dev");
    assert_eq!(by(&store, UsageBy::Day).await[0].name, "2026-02-28");
}

#[tokio::test]
async fn a_call_is_settled_in_the_change_that_ends_its_turn() {
    let (_folder, store) = open();
    let turn = begin_turn(&store, "coder").await;
    for id in 1..=2 {
        let new = NewUsage { turn, ..call(id, "coder", None, 900, Some(50)) };
        store.usage().reserve(new, vec![]).await.unwrap().unwrap();
    }
    let end = async |id: i64, used: Option<(TokenCounts, Option<u64>)>| {
        let ended = TurnCompletion { settlement: Some(CallSettlement { id, used }), ..turn_done() };
        store.turns().end(turn, ended).await.unwrap();
        let left: Vec<i64> = store.usage().reserved().await.unwrap().into_iter().map(|(id, ..)| id).collect();
        (left, by(&store, UsageBy::Day).await[0].tokens())
    };
    let truth = TokenCounts { input: 10, output: 20, cache_read: 30, cache_write: 40 };
    assert_eq!(end(1, Some((truth, Some(7)))).await, (vec![2], 1100));
    assert_eq!(store.turns().find(turn).await.unwrap().unwrap().state, TurnState::Done);
    // Also if something else has ended the turn.
    assert_eq!(end(2, Some((truth, Some(7)))).await, (vec![], 200));
    assert_eq!(end(1, None).await, (vec![], 200), "each is settled once");
}

#[tokio::test]
async fn each_limit_counts_only_its_own_scope() {
    let (_folder, store) = open();
    let agent = |id: &str| UsageScope::Agent(id.parse().unwrap());
    let channel = |id: &str| UsageScope::Channel(id.parse().unwrap());
    store.usage().reserve(call(1, "a", Some("Dev"), 900, Some(50)), vec![]).await.unwrap().unwrap();
    store.usage().reserve(call(2, "b", None, 400, Some(5)), vec![]).await.unwrap().unwrap();
    for (scope, tokens, cost, fits) in [
        (UsageScope::Day, Some(1600), None, true),
        (UsageScope::Day, Some(1599), None, false),
        (UsageScope::Day, None, Some(56), true),
        (UsageScope::Day, None, Some(55), false),
        (agent("a"), Some(1100), None, true),
        (agent("a"), Some(1099), None, false),
        (agent("b"), Some(600), Some(6), true),
        (agent("c"), Some(0), None, false),
        (channel("dev"), Some(1099), None, false),
        (channel("ops"), Some(100), Some(1), true),
    ] {
        let limits = [limit(scope.clone(), tokens, cost)];
        let found = store
            .usage()
            .exceeded_limit("2026-02-28", &limits, UsageAmount { tokens: 100, cost: 1 })
            .await
            .unwrap();
        assert_eq!(found.is_none(), fits, "{scope:?} {tokens:?} {cost:?} {found:?}");
    }
    let other_day = [limit(UsageScope::Day, Some(100), None)];
    assert_eq!(
        store
            .usage()
            .exceeded_limit("2026-03-01", &other_day, UsageAmount { tokens: 100, cost: 1 })
            .await
            .unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_calls_do_not_exceed_a_limit_together() {
    let (_folder, store) = open();
    let limits = vec![limit(UsageScope::Day, Some(2000), None)];
    let calls = (0..64).map(|id| {
        let (store, limits) = (store.clone(), limits.clone());
        tokio::spawn(async move {
            store.usage().reserve(call(id, "coder", None, 100, None), limits).await.unwrap()
        })
    });
    let ended = futures_util::future::join_all(calls).await;
    let fitted = ended.into_iter().filter(|ended| ended.as_ref().unwrap().is_ok()).count();
    assert_eq!(fitted, 10, "each takes 200 of 2000");
    assert_eq!(by(&store, UsageBy::Day).await[0].tokens(), 2000);
}

#[tokio::test]
async fn a_limit_is_listed_with_what_is_used_and_reserved_of_it() {
    let (_folder, store) = open();
    store.usage().reserve(call(1, "a", Some("dev"), 900, Some(50)), vec![]).await.unwrap().unwrap();
    store.usage().reserve(call(2, "b", None, 400, None), vec![]).await.unwrap().unwrap();
    let truth = TokenCounts { input: 10, output: 20, cache_read: 30, cache_write: 40 };
    store.usage().settle(CallSettlement { id: 1, used: Some((truth, Some(7))) });
    store.settle().await.unwrap();
    let agent = |id: &str| limit(UsageScope::Agent(id.parse().unwrap()), Some(5000), None);
    let limits = vec![limit(UsageScope::Day, Some(5000), None), agent("a"), agent("b"), agent("c")];
    let found = store.usage().limits_in_use("2026-02-28".to_owned(), limits.clone()).await.unwrap();
    let amounts: Vec<_> = found.iter().map(|one| (one.used.tokens, one.reserved.tokens)).collect();
    assert_eq!(amounts, [(600, 500), (100, 0), (500, 500), (0, 0)]);
    assert_eq!((found[0].used.cost, found[0].reserved.cost), (7, 0));
    let tomorrow = store.usage().limits_in_use("2999-01-01".to_owned(), limits).await.unwrap();
    assert!(tomorrow.iter().all(|one| one.used == UsageAmount::default()), "{tomorrow:?}");
}

#[tokio::test]
async fn reservations_of_a_dead_process_count_as_used() {
    let (_folder, store) = open();
    store.usage().reserve(call(1, "coder", None, 900, Some(50)), vec![]).await.unwrap().unwrap();
    assert_eq!(store.usage().settle_all().await.unwrap(), 1);
    store.usage().settle(CallSettlement { id: 1, used: None });
    store.settle().await.unwrap();
    assert_eq!(by(&store, UsageBy::Agent).await[0].cost_micros, 50);
    assert_eq!(store.usage().settle_all().await.unwrap(), 0);
}

#[tokio::test]
async fn an_exhausted_budget_is_announced_once_per_day_and_channel() {
    let (_folder, store) = open();
    let note = |day: &str, channel: &str| {
        store.usage().record_budget_notice(day.to_owned(), channel.parse().unwrap(), "day".to_owned())
    };
    assert!(note("2026-02-28", "dev").await.unwrap());
    assert!(!note("2026-02-28", "Dev").await.unwrap());
    assert!(note("2026-02-28", "ops").await.unwrap());
    assert!(note("2026-03-01", "dev").await.unwrap());
}

#[tokio::test]
async fn one_read_tells_what_a_call_is_charged_to() {
    let (_folder, store) = open();
    let agent: AgentId = "coder".parse().unwrap();
    let spawned: SessionKey = "agent:coder:flock:request:spawn-1-x".parse().unwrap();
    let charges = async |session: &SessionKey| {
        let charges = store.usage().charges(&agent, session, TurnId::new()).await.unwrap();
        let channel = charges.channel.map(|channel| channel.to_string());
        (channel, charges.person.map(|person| person.name), charges.race.map(|place| place.race))
    };
    assert_eq!(charges(&spawned).await, (None, None, None));
    store.usage().charge_session(spawned.clone(), "dev".parse().unwrap()).await.unwrap();
    add_person(&store, person("ann", PersonRole::Member), 1).await;
    store.people().charge_session(spawned.clone(), "ann".to_owned()).await.unwrap();
    let race = |change: &Transaction<'_>| {
        change.execute(
            "INSERT INTO race (id, project, channel, task, base, created_by, state, created_at)
             VALUES (7, 'site', 'dev', 't', 'b', 'human:owner', 'running', 1)",
            (),
        )?;
        change.execute(
            "INSERT INTO race_agent (agent, race, number, original) VALUES ('coder', 7, 1, 'lead')",
            (),
        )
    };
    store.write("make a race", race).await.unwrap();
    assert_eq!(charges(&spawned).await, (Some("dev".to_owned()), Some("ann".to_owned()), Some(7)));
    // A channel pays for its own sessions, and a message of a person is what they are charged by.
    let channel: SessionKey = "agent:coder:flock:channel:ops".parse().unwrap();
    assert_eq!(charges(&channel).await, (Some("ops".to_owned()), None, Some(7)));
}
