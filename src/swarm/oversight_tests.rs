use std::time::Duration;

use serde_json::json;

use super::*;
use crate::agent::NoOversight;
use crate::config::{Live, edit};
use crate::id::{Party, SessionKey, TurnId};
use crate::store::testing::{add_person, person, turn_done};
use crate::store::{AuditFilter, NewPerson, Page, PersonRole, TurnCompletion, UsageBy, UsageFilter};
use crate::swarm::channel::ChannelSpec;
use crate::swarm::testing::Team;
use crate::swarm::{self, Notifier};

impl AskPerson for NoOversight {
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        Oversight::ask(self, context, tool, arguments, reason)
    }
}

struct Fixture {
    team: Team,
    swarm: Arc<Swarm>,
    watch: TeamOversight,
}

/// A team with `coder` and `tester` in the channel `dev`, with these budgets.
async fn rig(budgets: Value) -> Fixture {
    let team = Team::with(|own| own["budgets"] = budgets);
    let members = ["coder", "tester"].map(|id| id.parse::<Party>().unwrap()).to_vec();
    let wanted = ChannelSpec { id: "dev".parse().unwrap(), topic: "work".into(), members, message: None };
    team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
    let watch = TeamOversight::new(team.swarm.clone(), Arc::new(NoOversight));
    Fixture { swarm: team.swarm.clone(), watch, team }
}

fn call(agent: &str, session: &str) -> ModelCall {
    ModelCall {
        agent: agent.parse().unwrap(),
        session: format!("agent:{agent}:flock:{session}").parse().unwrap(),
        turn: TurnId::new(),
        model: "anthropic/claude-opus-4-5".parse().unwrap(),
        input_estimate: 900,
        max_output: 100,
        step: 1,
        server: None,
    }
}

async fn total_usage(rig: &Fixture) -> (u64, u64) {
    let sums = rig.swarm.store().usage().sums(&UsageFilter::default(), UsageBy::Day).await.unwrap();
    sums.iter().fold((0, 0), |(tokens, cost), sum| (tokens + sum.tokens(), cost + sum.cost_micros))
}

async fn pause_messages(rig: &Fixture) -> Vec<String> {
    let dev = "dev".parse().unwrap();
    let posts = rig.swarm.store().posts().page(&dev, Page::Last, 50).await.unwrap();
    posts.into_iter().map(|post| post.content).filter(|text| text.contains("pauses")).collect()
}

#[tokio::test]
async fn a_call_reserves_its_maximum_and_records_its_real_usage() {
    let rig = rig(json!({"day": {"tokens": 10_000}})).await;
    let first = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    assert_eq!(
        total_usage(&rig).await,
        (1000, 8125),
        "the input may be written to the cache, which costs more"
    );
    let usage = Usage { input: 10, output: 20, cache_read: 30, cache_write: 40, cost: None };
    rig.watch.settle(first, CallUsage::Told(usage));
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(total_usage(&rig).await, (100, 815));
    let second = rig.watch.reserve(&call("coder", "dm:tester")).await.unwrap();
    rig.watch.settle(second, CallUsage::Sent);
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(
        total_usage(&rig).await,
        (1000, 815 + 4500),
        "what was cut before its answer counts as what was sent"
    );
    let refused = rig.watch.reserve(&call("coder", "dm:tester")).await.unwrap();
    rig.watch.settle(refused, CallUsage::Nothing);
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(total_usage(&rig).await, (1000, 815 + 4500), "what was refused took nothing");
    let begun = rig.watch.reserve(&call("coder", "dm:tester")).await.unwrap();
    rig.watch.settle(begun, CallUsage::Begun);
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(
        total_usage(&rig).await,
        (2000, 815 + 4500 + 8125),
        "an answer of which nobody knows the length may be whole"
    );
}

#[tokio::test]
async fn the_last_call_of_a_turn_is_settled_once_and_by_the_turns_end() {
    let rig = rig(json!({"day": {"tokens": 10_000}})).await;
    let reserved = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    let again = Reservation::new(reserved.id());
    let usage = Usage { input: 10, output: 20, cache_read: 30, cache_write: 40, cost: None };
    let settlement = rig.watch.settle_with_turn(reserved, CallUsage::Told(usage));
    assert!(settlement.is_some());
    rig.watch.settle(again, CallUsage::Nothing);
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(total_usage(&rig).await, (1000, 8125), "it is left to the end of the turn");
    let ended = TurnCompletion { settlement, ..turn_done() };
    rig.swarm.store().turns().end(TurnId::new(), ended).await.unwrap();
    assert_eq!(total_usage(&rig).await, (100, 815));
}

#[tokio::test]
async fn an_implausibly_low_count_is_replaced_by_the_estimate() {
    let rig = rig(json!({"day": {"tokens": 10_000_000}})).await;
    let mut before = 0;
    for (told, seen, counts) in [
        // 69 KB for ten tokens.
        ((5, 5), TokenEstimate { input: 20_000, output: 17_664 }, 37_664),
        ((5, 50), TokenEstimate { input: 20_000, output: 60 }, 20_050),
        // For a short text the estimate is too inexact.
        ((10, 5), TokenEstimate { input: 3_900, output: 3_900 }, 15),
        // An estimate is not a count: slightly less than the estimate is accepted, and more is always accepted.
        ((1_500, 700), TokenEstimate { input: 2_000, output: 1_000 }, 2_200),
        ((9_000, 5_000), TokenEstimate { input: 2_000, output: 10 }, 14_000),
        ((5, 5), TokenEstimate::default(), 10),
    ] {
        let reserved = rig.watch.reserve(&call("coder", "dm:tester")).await.unwrap().with_estimate(seen);
        let (input, output) = told;
        rig.watch.settle(reserved, CallUsage::Told(Usage { input, output, ..Usage::default() }));
        rig.swarm.store().settle().await.unwrap();
        assert_eq!(total_usage(&rig).await.0 - before, counts, "{told:?} {seen:?}");
        before = total_usage(&rig).await.0;
    }
    let cached = Usage { input: 10, output: 20, cache_read: 1_990, ..Usage::default() };
    assert_eq!(
        plausible_usage(cached, TokenEstimate { input: 2_000, output: 20 }),
        cached,
        "what is cached was read, too"
    );
    let charged = Usage { input: 1, output: 1, cost: Some(7), ..Usage::default() };
    assert_eq!(
        plausible_usage(charged, TokenEstimate { input: 10_000, output: 0 }).cost,
        None,
        "nor is its own price believed"
    );
}

#[tokio::test]
async fn a_call_dropped_while_reserving_leaves_no_reservation() {
    let rig = rig(json!({"day": {"tokens": 10_000}})).await;
    for _ in 0..20 {
        let call = call("coder", "channel:dev");
        let reserve = rig.watch.reserve(&call);
        tokio::select! {
            biased;
            reserved = reserve => rig.watch.settle(reserved.unwrap(), CallUsage::Told(Usage::default())),
            () = std::future::ready(()) => {}
        }
    }
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(total_usage(&rig).await, (0, 0));
}

#[tokio::test]
async fn an_exhausted_budget_pauses_the_agent_until_it_is_raised() {
    let rig = rig(json!({"agent": {"coder": {"tokens": 1500}}})).await;
    let _first = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    for _ in 0..3 {
        let why = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap_err().to_string();
        assert!(why.contains("the budget of coder for the day") && why.contains("1000 of 1500"), "{why}");
    }
    assert_eq!(pause_messages(&rig).await.len(), 1);
    rig.watch.reserve(&call("tester", "channel:dev")).await.expect("it has no budget");
    let mut until = None;
    for event in rig.team.events() {
        if let SchedulerEvent::Paused { agent, until: end } = event {
            assert_eq!(agent.as_str(), "coder");
            until = end;
        }
    }
    assert!(until.is_some_and(|end| end > unix_ms() && end <= unix_ms() + 25 * 3_600_000));
    edit(rig.swarm.home(), |document| {
        document["plugins"]["entries"]["flock"]["config"]["budgets"]["agent"]["coder"]["tokens"] =
            json!(9000);
        Ok::<_, crate::config::ConfigError>(())
    })
    .unwrap();
    let resumed =
        async { while rig.team.next_event().await != SchedulerEvent::Resumed("coder".parse().unwrap()) {} };
    tokio::time::timeout(Duration::from_secs(20), resumed).await.expect("it goes on");
    rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
}

#[tokio::test]
async fn a_pause_is_reported_once_in_each_channel_that_calls_the_agent() {
    let rig = rig(json!({"agent": {"coder": {"tokens": 1500}}})).await;
    let ann = Actor::human("ann");
    let make = |id: &str| ChannelSpec {
        id: id.parse().unwrap(),
        topic: "work".into(),
        members: vec!["coder".parse().unwrap()],
        message: None,
    };
    let says = async |id: &str| {
        let posts = rig.swarm.store().posts().page(&id.parse().unwrap(), Page::Last, 50).await.unwrap();
        posts.iter().filter(|post| post.content.contains("pauses")).count()
    };
    let _first = rig.watch.reserve(&call("coder", "main:ann")).await.unwrap();
    rig.watch.reserve(&call("coder", "main:ann")).await.unwrap_err();
    assert_eq!(says("dev").await, 1, "its members are to read that the channel was made");
    rig.swarm.create_channel(&ann, make("ops")).await.unwrap();
    for _ in 0..2 {
        rig.swarm.post(&ann, &"ops".parse().unwrap(), "coder, go on".into(), true).await.unwrap();
    }
    assert_eq!(
        says("ops").await,
        1,
        "{:?}",
        rig.swarm.store().posts().page(&"ops".parse().unwrap(), Page::Last, 9).await
    );
    let paused = rig.swarm.paused();
    let pause = &paused[&"coder".parse::<AgentId>().unwrap()];
    assert!(pause.reason.contains("the budget of coder") && pause.until.is_some(), "{pause:?}");
    rig.swarm.resume(&"coder".parse().unwrap());
    rig.swarm.create_channel(&ann, make("lab")).await.unwrap();
    assert_eq!(says("lab").await, 0);
}

#[tokio::test]
async fn a_channel_budget_does_not_pause_agents_elsewhere() {
    let rig = rig(json!({"channel": {"*": {"usd": 0.01}}})).await;
    let _first = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    rig.watch.reserve(&call("tester", "channel:Dev")).await.unwrap_err();
    rig.watch.reserve(&call("tester", "dm:coder")).await.unwrap();
    assert_eq!(pause_messages(&rig).await.len(), 1);
    for event in rig.team.events() {
        assert!(!matches!(event, SchedulerEvent::Paused { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn each_pause_is_in_the_audit_once_a_day_also_if_an_agent_has_several() {
    let rig = rig(json!({"channel": {"dev": {"usd": 0.01}}})).await;
    let _first = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    let unpriced = ModelCall { model: "lab/free".parse().unwrap(), ..call("coder", "channel:dev") };
    for _ in 0..3 {
        rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap_err();
        rig.watch.reserve(&unpriced).await.unwrap_err();
    }
    let rows = rig.swarm.store().audit().rows_about("budget").await;
    assert_eq!(rows.len(), 2, "{rows:?}");
}

#[test]
fn only_the_first_paused_agent_begins_the_watch_for_all() {
    let paused = Mutex::default();
    let refused = || RefusedCall { day: "2026-01-02".into(), need: UsageAmount::default() };
    let [coder, tester] = ["coder", "tester"].map(|id| id.parse::<AgentId>().unwrap());
    assert!(hold(&paused, &coder, refused()));
    assert!(!hold(&paused, &coder, refused()) && !hold(&paused, &tester, refused()));
    lock(&paused).clear();
    assert!(hold(&paused, &tester, refused()));
}

#[tokio::test]
async fn a_frozen_agent_waits_for_a_thaw_also_after_a_restart() {
    let rig = rig(json!({})).await;
    let coder: AgentId = "coder".parse().unwrap();
    let is_free = |watch: &TeamOversight| {
        let mut waiting = watch.thawed(&coder);
        futures_util::FutureExt::now_or_never(&mut waiting).is_some()
    };
    assert!(is_free(&rig.watch));
    assert!(rig.swarm.freeze(&Actor::human("ann"), &coder, None).await.unwrap());
    assert!(!rig.swarm.freeze(&Actor::human("bob"), &coder, None).await.unwrap(), "it is frozen already");
    assert!(!is_free(&rig.watch));
    let written = rig.swarm.store().freezes().state().await.unwrap();
    assert_eq!(written.of(&coder).unwrap().by, "human:ann");

    let (ringer, _events) = tokio::sync::mpsc::unbounded_channel();
    let live = Arc::new(Live::open(rig.swarm.home().clone()).unwrap());
    let notifier = Notifier::new(ringer, Arc::new(|_, _| {}));
    let next = Arc::new(Swarm::new(swarm::SwarmParts { live, store: rig.swarm.store().clone(), notifier }));
    next.load_frozen().await.unwrap();
    let watch = TeamOversight::new(next.clone(), Arc::new(NoOversight));
    assert!(!is_free(&watch));
    let (waits, ann) = (watch.thawed(&coder), Actor::human("ann"));
    let (thawed, ()) = tokio::join!(next.thaw(&ann, &coder), waits);
    assert!(thawed.unwrap());
    assert!(is_free(&watch));
    let rows = next.store().audit().rows_about("agent").await;
    let actions: Vec<String> = rows.into_iter().map(|row| row.action).collect();
    assert_eq!(actions, ["agent.thaw", "agent.freeze"]);
}

#[tokio::test]
async fn a_tool_call_is_in_the_audit_without_its_arguments() {
    let rig = rig(json!({})).await;
    let session: SessionKey = "agent:coder:flock:channel:dev".parse().unwrap();
    let context = CallContext {
        agent: "coder".parse().unwrap(),
        session: session.clone(),
        turn: TurnId::new(),
        cancel: tokio_util::sync::CancellationToken::new(),
        progress: None,
    };
    let called = ToolCallRecord {
        call_id: "1".into(),
        name: "exec".into(),
        decision: Decision::Deny("never".into()),
        is_error: true,
        took: Duration::from_millis(12),
        preview: "{\"command\":\"echo hunter2\"}".into(),
        arguments_sha256: "ab".repeat(32),
        is_handed_out: false,
        reported: None,
    };
    rig.watch.called(&context, &called).await;
    let rows = rig.swarm.store().audit().rows(&AuditFilter::default(), 1).await.unwrap();
    let row = &rows[0];
    assert_eq!(
        (row.actor.as_str(), row.action.as_str(), row.subject.as_str()),
        ("coder", "tool.call", "exec")
    );
    assert_eq!((row.level.as_str(), row.session.as_deref()), ("YELLOW", Some(session.as_str())));
    assert!(row.detail.starts_with("denied, error, 12 ms, arguments sha256:abab"), "{}", row.detail);
    assert!(!row.detail.contains("hunter2"));
}

#[tokio::test]
async fn a_configured_price_overrides_the_built_in_one() {
    let rig = rig(json!({"day": {"usd": 1}})).await;
    let priced = json!({"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions",
        "models": [{"id": "own", "cost": {"input": 2, "output": 4}}, {"id": "free"}]});
    edit(rig.swarm.home(), |document| -> Result<(), crate::config::ConfigError> {
        document["models"]["providers"]["lab"] = priced;
        document["agents"]["defaults"]["model"]["primary"] = json!("lab/free");
        Ok(())
    })
    .unwrap();
    let config = crate::config::read(rig.swarm.home()).unwrap();
    let own: ModelRef = "lab/own".parse().unwrap();
    let unbound = price::unpriced_models(&config);
    assert_eq!(unbound.iter().map(ToString::to_string).collect::<Vec<_>>(), ["lab/free"]);
    assert!(price::unpriced_warning(&unbound[0]).contains("lab/free"));
    let watch = TeamOversight::new(
        Arc::new(Swarm::new(swarm::SwarmParts {
            live: Arc::new(Live::open(rig.swarm.home().clone()).unwrap()),
            store: rig.swarm.store().clone(),
            notifier: rig.swarm.notifier().clone(),
        })),
        Arc::new(NoOversight),
    );
    let asked = |input| ModelCall { model: own.clone(), input_estimate: input, ..call("coder", "main:me") };
    let free = ModelCall { model: "lab/free".parse().unwrap(), ..asked(10) };
    let why = watch.reserve(&free).await.unwrap_err().to_string();
    assert!(why.contains("the price of lab/free is unknown") && why.contains("in tokens"), "{why}");
    assert_eq!(total_usage(&rig).await, (0, 0));
    let first = watch.reserve(&asked(1000)).await.unwrap();
    watch.settle(first, CallUsage::Told(Usage { input: 100_000, output: 50_000, ..Usage::default() }));
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(total_usage(&rig).await, (150_000, 400_000), "0.2 for the input and 0.2 for the output");
    let why = watch.reserve(&asked(400_000)).await.unwrap_err().to_string();
    assert!(why.contains("$0.40 of $1.00"), "{why}");
    let audited = rig.swarm.store().audit().rows(&AuditFilter::default(), 10).await.unwrap();
    assert!(audited.iter().any(|row| row.action == "budget.pause" && row.subject == "coder"), "{audited:?}");
}

#[tokio::test]
async fn a_cost_reported_by_the_provider_is_recorded() {
    let rig = rig(json!({"day": {"tokens": 10_000}})).await;
    for model in ["anthropic/claude-opus-4-5", "openrouter/somebody/new"] {
        let asked = ModelCall { model: model.parse().unwrap(), ..call("coder", "channel:dev") };
        let reserved = rig.watch.reserve(&asked).await.unwrap();
        let usage = Usage { input: 10, output: 20, cost: Some(77), ..Usage::default() };
        rig.watch.settle(reserved, CallUsage::Told(usage));
    }
    rig.swarm.store().settle().await.unwrap();
    assert_eq!(total_usage(&rig).await, (60, 2 * 77));
    let sums = rig.swarm.store().usage().sums(&UsageFilter::default(), UsageBy::Day).await.unwrap();
    assert_eq!(sums[0].unpriced, 0, "the price of one is not known, and what it cost is");
}

#[tokio::test]
async fn an_unpriced_model_needs_a_token_limit_or_permission() {
    let free = || ModelCall { model: "lab/free".parse().unwrap(), ..call("coder", "main:me") };
    for budgets in [
        json!({"day": {"usd": 1, "tokens": 5000}}),
        json!({"day": {"usd": 1}, "unpriced": "allow"}),
        json!({"day": {"tokens": 5000}}),
    ] {
        let rig = rig(budgets.clone()).await;
        assert!(rig.watch.reserve(&free()).await.is_ok(), "{budgets}");
    }
    let rig = rig(json!({"channel": {"dev": {"usd": 1}}})).await;
    assert!(rig.watch.reserve(&free()).await.is_ok(), "it is in no channel");
    for _ in 0..3 {
        let there = ModelCall { model: "lab/free".parse().unwrap(), ..call("coder", "channel:dev") };
        rig.watch.reserve(&there).await.unwrap_err();
    }
    assert_eq!(pause_messages(&rig).await.len(), 1, "said once");
}

#[tokio::test]
async fn tasks_and_spawned_sessions_are_charged_to_the_channel_they_were_begun_from() {
    let rig = rig(json!({"channel": {"dev": {"tokens": 3500}}})).await;
    let store = rig.swarm.store();
    let by = |agent: &str, session: &SessionKey, turn| Actor {
        party: agent.parse().unwrap(),
        session: Some(session.clone()),
        turn: Some(turn),
    };
    let first = call("coder", "channel:dev");
    let _first = rig.watch.reserve(&first).await.unwrap();
    let tester: AgentId = "tester".parse().unwrap();
    rig.swarm.send_message(&by("coder", &first.session, first.turn), &tester, "test it", None).await.unwrap();
    let there = call("tester", "dm:coder");
    store.inbox().take(there.session.clone(), there.turn).await.unwrap().unwrap();
    let _second = rig.watch.reserve(&there).await.unwrap();
    // A task that was created within the task, and a session that was begun in it.
    let coder: AgentId = "coder".parse().unwrap();
    rig.swarm.send_message(&by("tester", &there.session, there.turn), &coder, "mend it", None).await.unwrap();
    let back = call("coder", "dm:tester");
    store.inbox().take(back.session.clone(), back.turn).await.unwrap().unwrap();
    let _third = rig.watch.reserve(&back).await.unwrap();
    let spawned = call("coder", "request:spawn-1-x");
    let dev = rig.swarm.charged(&back.session, None).await.unwrap().unwrap();
    store.usage().charge_session(spawned.session.clone(), dev).await.unwrap();
    let why = rig.watch.reserve(&spawned).await.unwrap_err().to_string();
    assert!(why.contains("the budget of channel dev") && why.contains("3000 of 3500"), "{why}");
    // A session that nobody started from the channel is not charged to it.
    assert!(rig.watch.reserve(&call("coder", "dm:tester")).await.is_ok());
}

#[tokio::test]
async fn a_freeze_holds_against_a_concurrent_thaw() {
    let rig = rig(json!({})).await;
    let agent: AgentId = "coder".parse().unwrap();
    let thaw = rig.swarm.written.lock().await;
    let (swarm, frozen) = (rig.swarm.clone(), agent.clone());
    let freeze =
        tokio::spawn(async move { swarm.freeze(&Actor::human("ann"), &frozen, None).await.unwrap() });
    rig.swarm.wait_any_frozen(std::slice::from_ref(&agent)).await;
    // A thaw that was first does this while it holds the lock.
    rig.swarm.frozen.send_modify(|frozen| frozen.thaw(Some(&agent)));
    drop(thaw);
    assert!(freeze.await.unwrap());
    assert!(rig.swarm.is_frozen(&agent));

    let thaw = rig.swarm.written.lock().await;
    rig.swarm.frozen.send_modify(|frozen| frozen.thaw(None));
    let swarm = rig.swarm.clone();
    let freeze = tokio::spawn(async move { swarm.freeze_home(&Actor::human("ann"), None).await.unwrap() });
    rig.swarm.wait_any_frozen(std::slice::from_ref(&agent)).await;
    rig.swarm.frozen.send_modify(|frozen| frozen.thaw(None));
    drop(thaw);
    freeze.await.unwrap();
    assert!(rig.swarm.is_frozen(&agent));
}

async fn add_member(rig: &Fixture, name: &str, day_tokens: Option<u64>) {
    add_person(rig.swarm.store(), NewPerson { day_tokens, ..person(name, PersonRole::Member) }, 1).await;
}

/// Has `coder` give `tester` a task on behalf of `ann`, and returns the session of the task.
async fn task_for_ann(rig: &Fixture) -> SessionKey {
    let asked = call("coder", "main:ann");
    let by = Actor {
        party: Party::Agent(asked.agent.clone()),
        session: Some(asked.session),
        turn: Some(asked.turn),
    };
    let tester = "tester".parse().unwrap();
    rig.swarm.send_message(&by, &tester, "do it", None).await.unwrap().session
}

async fn remove_ann(rig: &Fixture) {
    let entry = Actor::human("owner").entry("person.remove", "human:ann", Level::Yellow, String::new());
    assert!(rig.swarm.store().people().remove("ann".to_owned(), entry, 2).await.unwrap());
}

#[tokio::test]
async fn the_budget_of_a_person_holds_for_what_they_begin_and_for_nobody_else() {
    let rig = rig(json!({})).await;
    let store = rig.swarm.store();
    add_member(&rig, "ann", Some(2_500)).await;
    add_member(&rig, "bob", None).await;
    // Two calls have room, in whatever session they are, and the third has none.
    let first = rig.watch.reserve(&call("coder", "main:ann")).await.unwrap();
    let second = rig.watch.reserve(&call("tester", "request:person:ann:x")).await.unwrap();
    let refused = rig.watch.reserve(&call("coder", "main:ann")).await.unwrap_err().to_string();
    assert!(
        refused.contains("the budget of ann for the day") && refused.contains("2000 of 2500 tokens"),
        "{refused}"
    );
    for others in ["main:bob", "main:owner", "dm:tester", "request:person:bob:x"] {
        rig.watch.reserve(&call("coder", others)).await.unwrap();
    }
    assert!(rig.swarm.paused().is_empty(), "the agent works on for others");
    // In a channel, the calls count for the person who wrote last.
    let dev = "dev".parse().unwrap();
    rig.swarm.post(&Actor::human("bob"), &dev, "work".to_owned(), true).await.unwrap();
    rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    rig.swarm.post(&Actor::human("ann"), &dev, "work".to_owned(), true).await.unwrap();
    let text = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap_err().to_string();
    assert!(text.contains("the budget of ann"), "{text}");
    assert_eq!(pause_messages(&rig).await.len(), 1);
    rig.swarm.post(&Actor::human("owner"), &dev, "work".to_owned(), true).await.unwrap();
    rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    let limit = UsageLimit { scope: UsageScope::Person("ann".to_owned()), tokens: Some(2_500), cost: None };
    let today = budget::day(unix_ms(), &TimeZone::system()).name;
    let in_use = store.usage().limits_in_use(today, vec![limit]).await.unwrap();
    assert_eq!((in_use[0].used.tokens, in_use[0].reserved.tokens), (2000, 2000));
    for reservation in [first, second] {
        rig.watch.settle(reservation, CallUsage::Nothing);
    }
    store.settle().await.unwrap();
    rig.watch.reserve(&call("coder", "main:ann")).await.unwrap();
    let sums = store.usage().sums(&UsageFilter::default(), UsageBy::Person).await.unwrap();
    let names: Vec<(&str, u64)> = sums.iter().map(|sum| (sum.name.as_str(), sum.calls)).collect();
    assert_eq!(names, [("ann", 1), ("bob", 3)]);
}

#[tokio::test]
async fn work_that_goes_on_elsewhere_still_counts_for_the_person_who_began_it() {
    let rig = rig(json!({})).await;
    let store = rig.swarm.store();
    add_member(&rig, "ann", Some(1_500)).await;
    let session = task_for_ann(&rig).await;
    let person = rig.swarm.charged_person(&session, None).await.unwrap();
    assert_eq!(person, None, "the session of two agents is nobody's, only this task in it is hers");
    let turn = TurnId::new();
    store.inbox().take(session.clone(), turn).await.unwrap().unwrap();
    let worked = ModelCall { turn, session, ..call("tester", "dm:coder") };
    rig.watch.reserve(&worked).await.unwrap();
    let refused = rig.watch.reserve(&worked).await.unwrap_err().to_string();
    assert!(refused.contains("the budget of ann"), "{refused}");
}

#[tokio::test]
async fn a_turn_of_a_removed_person_asks_no_model_any_more() {
    let rig = rig(json!({})).await;
    add_member(&rig, "ann", None).await;
    rig.watch.reserve(&call("coder", "main:ann")).await.unwrap();
    remove_ann(&rig).await;
    let refused = rig.watch.reserve(&call("coder", "main:ann")).await.unwrap_err().to_string();
    assert!(refused.contains("ann was removed"), "{refused}");
    rig.watch.reserve(&call("coder", "main:bob")).await.unwrap();
}

#[tokio::test]
async fn work_for_a_removed_person_ends_between_agents_and_keeps_its_budget_in_channels() {
    let rig = rig(json!({})).await;
    let store = rig.swarm.store();
    add_member(&rig, "ann", Some(2_500)).await;
    let session = task_for_ann(&rig).await;
    let turn = TurnId::new();
    store.inbox().take(session.clone(), turn).await.unwrap().unwrap();
    let worked = ModelCall { turn, session, ..call("tester", "dm:coder") };
    rig.watch.reserve(&worked).await.unwrap();
    let dev = "dev".parse().unwrap();
    rig.swarm.post(&Actor::human("ann"), &dev, "work".to_owned(), true).await.unwrap();
    remove_ann(&rig).await;
    let refused = rig.watch.reserve(&worked).await.unwrap_err();
    assert_eq!(refused, PauseReason::PersonRemoved("ann".to_owned()));
    // In the same session, work that was not begun for her goes on.
    rig.watch.reserve(&call("tester", "dm:coder")).await.unwrap();
    // The channel goes on, but not beyond what she might use.
    rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
    let refused = rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap_err();
    assert!(matches!(&refused, PauseReason::Budget(why) if why.contains("the budget of ann")), "{refused}");
    rig.swarm.post(&Actor::human("owner"), &dev, "work".to_owned(), true).await.unwrap();
    rig.watch.reserve(&call("coder", "channel:dev")).await.unwrap();
}

#[test]
fn calls_of_two_gateways_in_the_same_milliseconds_have_ids_of_their_own() {
    let mut found = std::collections::HashSet::new();
    for place in [None, Some(0), Some(1), Some(999)] {
        // Some in the same millisecond, a clock that goes on, and one that was set back.
        let times = [5_000, 5_000, 5_000, 5_001, 5_007, 4_000];
        let mut last = 0;
        for now in times {
            let id = id_after(last, now, place);
            assert!(id > last, "{place:?}");
            last = id;
            if place.is_some() {
                assert!(found.insert(id), "{place:?}: {id}");
            }
        }
        assert!(place.is_none_or(|place| last % ID_PLACES == place));
    }
    assert_eq!(id_after(0, 5_000, None), 5_000_000);
}
