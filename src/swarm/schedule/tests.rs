//! Schedules with a real database: what a slot causes, and what is left after a process was killed between two effects.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use super::allowance::BudgetChange;
use super::plan::Step;
use super::times::Times;
use super::*;
use crate::id::{Party, SessionKey, TurnId};
use crate::store::testing::{add_person, person};
use crate::store::{
    ChannelState, NewPerson, Page, Person, PersonChange, PersonRole, Post, SlotOutcome, TaskFilter,
    UsageLimit,
};
use crate::swarm::channel::ChannelSpec;
use crate::swarm::scheduler::{Priority, SchedulerEvent, Urgency};
use crate::swarm::testing::Team;
use crate::swarm::triage::{FiledRequest, Request};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

fn ann() -> Actor {
    Actor::human("ann")
}

fn dev() -> ChannelId {
    "dev".parse().unwrap()
}

fn name(text: &str) -> ScheduleName {
    text.parse().unwrap()
}

async fn team() -> Team {
    let team = Team::new();
    let members = vec!["coder".parse().unwrap(), "tester".parse().unwrap(), "human:ann".parse().unwrap()];
    let wanted = ChannelSpec { id: dev(), topic: "work".into(), members, message: None };
    team.swarm.create_channel(&ann(), wanted).await.unwrap();
    team.events();
    team
}

fn wish(to: &str, every: &str) -> ScheduleWish {
    ScheduleWish {
        to: to.into(),
        text: "look around".into(),
        every: Some(every.into()),
        ..ScheduleWish::default()
    }
}

async fn posts(team: &Team) -> Vec<Post> {
    let all = team.store.posts().page(&dev(), Page::Last, 200).await.unwrap();
    all.into_iter().filter(|post| post.content.starts_with("[Schedule")).collect()
}

async fn outcomes(team: &Team, of: &ScheduleName) -> Vec<(SlotOutcome, u64)> {
    let rows = team.swarm.schedule_history(of, 200).await.unwrap();
    rows.iter().map(|row| (row.outcome, row.count)).collect()
}

#[tokio::test]
async fn a_slot_is_a_message_that_wakes_the_members_like_one_of_a_person() {
    let team = team().await;
    let added = team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    assert_eq!(added.name.as_str(), "dev-1");
    let due = added.created_at + 60 * MINUTE;
    assert_eq!(team.swarm.look_at_schedules(due - 1).await.unwrap(), Some(due));
    assert!(posts(&team).await.is_empty());
    assert_eq!(team.swarm.look_at_schedules(due + 3).await.unwrap(), Some(due + 60 * MINUTE));
    let said = posts(&team).await;
    assert_eq!(said.len(), 1);
    assert_eq!(
        (&said[0].author, said[0].content.as_str()),
        (&Party::System, "[Schedule dev-1]\nlook around")
    );
    // Everybody answers it, as nobody is called by name.
    assert!(said[0].mentions.has(&"coder".parse().unwrap()));
    let woken = team.events();
    for agent in ["coder", "tester"] {
        let session: SessionKey = format!("agent:{agent}:flock:channel:dev").parse().unwrap();
        let event = SchedulerEvent::Unseen { session, priority: Priority::Mention, urgency: Urgency::Now };
        assert!(woken.contains(&event), "{woken:?}");
    }
    // A second look at the same time, as after a restart, finds nothing to do.
    team.swarm.look_at_schedules(due + 3).await.unwrap();
    assert_eq!(posts(&team).await.len(), 1);
    assert_eq!(outcomes(&team, &added.name).await, [(SlotOutcome::Ran, 1)]);
    let audited = team.audited().await;
    assert!(audited.contains(&"schedule.add".to_owned()) && audited.contains(&"schedule.run".to_owned()));
}

#[tokio::test]
async fn a_slot_of_an_agent_is_a_task_in_a_session_of_its_own() {
    let team = team().await;
    let wanted = ScheduleWish { name: Some("nightly".into()), ..wish("@coder", "1d") };
    let added = team.swarm.add_schedule(&ann(), &wanted).await.unwrap();
    team.swarm.look_at_schedules(added.created_at + 3 * DAY).await.unwrap();
    let tasks = team.store.tasks().list(&TaskFilter::default(), 10).await.unwrap();
    assert_eq!(tasks.len(), 1, "one for all that were missed");
    assert_eq!(tasks[0].requester, "schedule:nightly");
    let session: SessionKey = "agent:coder:flock:dm:schedule:nightly".parse().unwrap();
    let item = team.take(&session, TurnId::new()).await.unwrap();
    assert!(item.text.contains("look around"), "{}", item.text);
    let history = team.swarm.schedule_history(&added.name, 10).await.unwrap();
    assert_eq!(history[0].task.as_deref(), Some(tasks[0].id.as_str()));
}

#[tokio::test]
async fn missed_slots_are_recorded_and_the_message_says_that_it_is_late() {
    let team = team().await;
    let added = team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    team.swarm.look_at_schedules(added.created_at + 5 * 60 * MINUTE + 10 * MINUTE).await.unwrap();
    assert_eq!(outcomes(&team, &added.name).await, [(SlotOutcome::Ran, 1), (SlotOutcome::Missed, 4)]);
    let said = posts(&team).await;
    assert!(said.len() == 1 && said[0].content.starts_with("[Schedule dev-1, due at "), "{said:?}");
    for (policy, expected) in [(MissedPolicy::Skip, 0), (MissedPolicy::All, 5)] {
        let wanted = ScheduleWish { missed: Some(policy), ..wish("dev", "1h") };
        let added = team.swarm.add_schedule(&ann(), &wanted).await.unwrap();
        let before = posts(&team).await.len();
        team.swarm.pause_schedule(&ann(), &name("dev-1"), true).await.unwrap();
        team.swarm.look_at_schedules(added.created_at + 5 * 60 * MINUTE + 10 * MINUTE).await.unwrap();
        assert_eq!(posts(&team).await.len() - before, expected, "{policy:?}");
        team.swarm.remove_schedule(&ann(), &added.name).await.unwrap();
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_repeats_no_slot() {
    let team = team().await;
    let added = team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    let hour = |count: i64| added.created_at + count * 60 * MINUTE;
    for now in [hour(1) + 1, hour(2) + 1, hour(1) - MINUTE, hour(1) + 1, hour(2) + 1, hour(3) + 1] {
        team.swarm.look_at_schedules(now).await.unwrap();
    }
    assert_eq!(posts(&team).await.len(), 3);
    // A clock that was far ahead for a moment does not keep the schedule from its next times.
    team.swarm.look_at_schedules(hour(5000) + 1).await.unwrap();
    assert_eq!(posts(&team).await.len(), 4);
    assert_eq!(team.swarm.look_at_schedules(hour(3) + 2).await.unwrap(), Some(hour(4)));
    team.swarm.look_at_schedules(hour(4) + 1).await.unwrap();
    assert_eq!(posts(&team).await.len(), 5);
}

#[tokio::test]
async fn a_clock_that_was_ahead_for_a_moment_leaves_nothing_missed() {
    let team = team().await;
    let hourly = ScheduleWish { missed: Some(MissedPolicy::Skip), ..wish("dev", "1h") };
    let hourly = team.swarm.add_schedule(&ann(), &hourly).await.unwrap();
    let hour = |count: i64| hourly.created_at + count * 60 * MINUTE;
    let at = jiff::Timestamp::from_millisecond(hour(4)).unwrap().to_string();
    let single =
        ScheduleWish { every: None, at: Some(at), missed: Some(MissedPolicy::Skip), ..wish("dev", "") };
    let single = team.swarm.add_schedule(&ann(), &single).await.unwrap();
    team.swarm.look_at_schedules(hour(9) + MINUTE).await.unwrap();
    assert_eq!(team.swarm.schedule(&single.name).await.unwrap().state, ScheduleState::Done);
    assert_eq!(posts(&team).await.len(), 0);
    // The clock is right again. Both go on as if nothing had been.
    assert_eq!(team.swarm.look_at_schedules(hour(3) - MINUTE).await.unwrap(), Some(hour(3)));
    assert_eq!(team.swarm.schedule(&single.name).await.unwrap().state, ScheduleState::Active);
    assert_eq!(team.swarm.schedule_history(&single.name, 9).await.unwrap().len(), 0);
    let rows = team.swarm.schedule_history(&hourly.name, 9).await.unwrap();
    assert_eq!((rows.len(), rows[0].slot, rows[0].last, rows[0].count), (1, hour(1), hour(2), 2));
    for now in [hour(3) + 1, hour(4) + 1] {
        team.swarm.look_at_schedules(now).await.unwrap();
    }
    let said = posts(&team).await;
    assert_eq!(said.len(), 3, "{said:?}");
    // What ran stays done.
    team.swarm.look_at_schedules(hour(3) + 2).await.unwrap();
    assert_eq!(team.swarm.schedule(&single.name).await.unwrap().state, ScheduleState::Done);
    team.swarm.look_at_schedules(hour(4) + 2).await.unwrap();
    assert_eq!(posts(&team).await.len(), 3);
}

#[tokio::test]
async fn a_paused_schedule_lets_its_times_pass_and_a_single_time_comes_once() {
    let team = team().await;
    let hourly = team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    team.swarm.pause_schedule(&ann(), &hourly.name, true).await.unwrap();
    assert_eq!(team.swarm.look_at_schedules(hourly.created_at + 9 * DAY).await.unwrap(), None);
    team.swarm.pause_schedule(&ann(), &hourly.name, false).await.unwrap();
    team.swarm.run_schedule(&ann(), &hourly.name).await.unwrap();
    assert_eq!(posts(&team).await.len(), 1, "a person may run it at any time");
    team.swarm.remove_schedule(&ann(), &hourly.name).await.unwrap();
    let at = jiff::Timestamp::from_millisecond(unix_ms() + DAY).unwrap().to_string();
    let once = ScheduleWish { every: None, at: Some(at), ..wish("#dev", "") };
    let once = team.swarm.add_schedule(&ann(), &once).await.unwrap();
    assert_eq!(team.swarm.look_at_schedules(once.created_at + 3 * DAY).await.unwrap(), None);
    assert_eq!(posts(&team).await.len(), 2);
    let done = team.swarm.schedule(&once.name).await.unwrap();
    assert_eq!(done.state, ScheduleState::Done);
    assert!(team.swarm.pause_schedule(&ann(), &once.name, true).await.is_err());
}

#[tokio::test]
async fn a_recipient_that_can_not_be_given_anything_is_waited_for_or_pauses_the_schedule() {
    let team = team().await;
    let coder: AgentId = "coder".parse().unwrap();
    let added = team.swarm.add_schedule(&ann(), &wish("coder", "1h")).await.unwrap();
    let count = async || team.store.tasks().count(&TaskFilter::default()).await.unwrap();
    team.swarm.freeze(&ann(), &coder, None).await.unwrap();
    team.swarm.look_at_schedules(added.created_at + 5 * 60 * MINUTE).await.unwrap();
    assert_eq!(count().await, 0, "it is frozen");
    let refused = team.swarm.run_schedule(&ann(), &added.name).await.unwrap_err();
    assert!(refused.to_string().contains("frozen"), "{refused}");
    team.swarm.thaw(&ann(), &coder).await.unwrap();
    team.swarm.look_at_schedules(added.created_at + 6 * 60 * MINUTE + 5).await.unwrap();
    assert_eq!(count().await, 1, "one run for all missed ones");
    let of_channel = team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    team.swarm.archive(&ann(), &dev(), crate::swarm::archive::ArchiveAction::Force).await.unwrap();
    assert_eq!(team.swarm.channel(&dev()).await.unwrap().state, ChannelState::Archived);
    team.swarm.look_at_schedules(of_channel.created_at + 60 * MINUTE).await.unwrap();
    let paused = team.swarm.schedule(&of_channel.name).await.unwrap();
    assert_eq!((paused.state, paused.why.as_str()), (ScheduleState::Paused, "#dev is archived"));
    assert!(posts(&team).await.is_empty());
}

#[tokio::test]
async fn schedules_follow_a_renamed_agent_and_go_with_a_deleted_one() {
    let team = team().await;
    let own = team.swarm.add_agent_schedule(&of_agent("coder", "#dev", "2h")).await.unwrap();
    assert!(own.contains("dev-1"), "{own}");
    let added = team.swarm.add_schedule(&ann(), &wish("coder", "1h")).await.unwrap();
    let (coder, maker): (AgentId, AgentId) = ("coder".parse().unwrap(), "maker".parse().unwrap());
    let entry = ann().entry("agent.rename", "coder", Level::Yellow, String::new());
    team.store.agents().rename(coder, maker.clone(), entry, unix_ms()).await.unwrap();
    let renamed = team.swarm.schedule(&added.name).await.unwrap();
    assert_eq!(renamed.target, ScheduleTarget::Agent(maker.clone()));
    assert_eq!(team.swarm.schedule(&name("dev-1")).await.unwrap().created_by, "maker");
    assert!(team.store.agents().has_data(&maker).await.unwrap());
    team.store.agents().delete(maker).await.unwrap();
    assert!(team.store.schedules().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_used_up_budget_skips_a_slot_and_says_so_once() {
    let team = team().await;
    let wanted = ScheduleWish { tokens: Some(100), ..wish("dev", "1h") };
    let added = team.swarm.add_schedule(&ann(), &wanted).await.unwrap();
    let hour = |count: i64| added.created_at + count * 60 * MINUTE;
    team.swarm.look_at_schedules(hour(1) + 1).await.unwrap();
    // A turn takes the message and uses more than the budget.
    let (coder, turn): (AgentId, _) = ("coder".parse().unwrap(), TurnId::new());
    let limits =
        crate::store::BatchLimits { messages: 50, bytes: 1 << 15, alone: |_| false, may_be_alone: true };
    team.store.deliveries().take_batch(coder.clone(), dev(), turn, limits).await.unwrap().unwrap();
    for now in [hour(2) + 1, hour(3) + 1] {
        let used = crate::store::NewUsage {
            id: now,
            at: now,
            day: budget::day(now, &TimeZone::system()).name,
            agent: coder.clone(),
            session: "agent:coder:flock:channel:dev".parse().unwrap(),
            channel: Some(dev()),
            turn,
            model: "script/demo".parse().unwrap(),
            person: None,
            server: None,
            tokens: crate::store::TokenCounts { input: 90, output: 20, ..Default::default() },
            cost: None,
        };
        team.store.usage().reserve(used, Vec::<UsageLimit>::new()).await.unwrap().unwrap();
        team.swarm.look_at_schedules(now).await.unwrap();
    }
    let found = outcomes(&team, &added.name).await;
    assert_eq!(found, [(SlotOutcome::Skipped, 1), (SlotOutcome::Skipped, 1), (SlotOutcome::Ran, 1)]);
    let all = team.store.posts().page(&dev(), Page::Last, 200).await.unwrap();
    let said = all.iter().filter(|post| post.content.contains("budget of schedule dev-1")).count();
    // The hours may lie in two days.
    assert!((1..=2).contains(&said), "{all:?}");
    let shown = team.swarm.shown_schedule(&added, hour(2)).await.unwrap();
    assert_ne!(shown["used"]["tokens"], json!(0));
}

fn set_model(team: &Team, agent: &str, model: &str) {
    crate::config::edit(team.swarm.home(), |document| {
        for entry in document["agents"]["list"].as_array_mut().unwrap() {
            if entry["id"] == *agent {
                entry["model"] = json!({"primary": model});
            }
        }
        Ok::<_, crate::config::ConfigError>(())
    })
    .unwrap();
}

fn in_dollars(to: &str, micros: u64) -> ScheduleWish {
    ScheduleWish { cost_micros: Some(micros), ..wish(to, "1h") }
}

#[tokio::test]
async fn a_budget_in_dollars_alone_needs_the_prices_of_all_recipients() {
    let team = team().await;
    set_model(&team, "tester", "lab/free");
    for to in ["dev", "@tester"] {
        let refused = team.swarm.add_schedule(&ann(), &in_dollars(to, 1)).await.unwrap_err();
        assert!(refused.to_string().contains("the price of lab/free is unknown"), "{refused}");
        let both = ScheduleWish { tokens: Some(1), ..in_dollars(to, 1) };
        let added = team.swarm.add_schedule(&ann(), &both).await.unwrap();
        let alone = BudgetChange { tokens: Some(None), cost: None };
        let refused = team.swarm.change_schedule_budget(&ann(), &added.name, alone).await.unwrap_err();
        assert!(refused.to_string().contains("the price of lab/free is unknown"), "{refused}");
        team.swarm.remove_schedule(&ann(), &added.name).await.unwrap();
    }
    let added = team.swarm.add_schedule(&ann(), &in_dollars("@coder", 1)).await.unwrap();
    let hour = |count: i64| added.created_at + count * 60 * MINUTE;
    // The model has changed since.
    set_model(&team, "coder", "lab/free");
    team.swarm.look_at_schedules(hour(1) + 1).await.unwrap();
    let rows = team.swarm.schedule_history(&added.name, 1).await.unwrap();
    assert_eq!(rows[0].outcome, SlotOutcome::Skipped);
    assert!(rows[0].why.contains("the price of lab/free is unknown"), "{rows:?}");
    let more = BudgetChange { tokens: Some(Some(9)), cost: None };
    let changed = team.swarm.change_schedule_budget(&ann(), &added.name, more).await.unwrap();
    assert_eq!((changed.tokens, changed.cost), (Some(9), Some(1)));
    team.swarm.look_at_schedules(hour(2) + 1).await.unwrap();
    assert_eq!(outcomes(&team, &added.name).await[0], (SlotOutcome::Ran, 1));
    assert!(team.audited().await.contains(&"schedule.budget".to_owned()));
    let team = Team::with(|own| own["budgets"] = json!({"unpriced": "allow"}));
    set_model(&team, "tester", "lab/free");
    team.swarm.add_schedule(&ann(), &in_dollars("@tester", 1)).await.unwrap();
}

#[tokio::test]
async fn a_budget_in_dollars_ends_and_can_be_raised() {
    let team = team().await;
    let added = team.swarm.add_schedule(&ann(), &in_dollars("dev", 1_000_000)).await.unwrap();
    let hour = |count: i64| added.created_at + count * 60 * MINUTE;
    team.swarm.look_at_schedules(hour(1) + 1).await.unwrap();
    let (coder, turn): (AgentId, _) = ("coder".parse().unwrap(), TurnId::new());
    let limits =
        crate::store::BatchLimits { messages: 50, bytes: 1 << 15, alone: |_| false, may_be_alone: true };
    team.store.deliveries().take_batch(coder.clone(), dev(), turn, limits).await.unwrap().unwrap();
    let calls = async |now: i64, cost: Option<u64>| {
        let used = crate::store::NewUsage {
            id: now,
            at: now,
            day: budget::day(now, &TimeZone::system()).name,
            agent: coder.clone(),
            session: "agent:coder:flock:channel:dev".parse().unwrap(),
            channel: Some(dev()),
            turn,
            model: "script/demo".parse().unwrap(),
            tokens: crate::store::TokenCounts { input: 9, ..Default::default() },
            cost,
            person: None,
            server: None,
        };
        team.store.usage().reserve(used, Vec::<UsageLimit>::new()).await.unwrap().unwrap();
        team.swarm.look_at_schedules(now).await.unwrap();
        team.swarm.schedule_history(&added.name, 1).await.unwrap().remove(0)
    };
    let row = calls(hour(2) + 1, Some(1_500_000)).await;
    assert_eq!(row.outcome, SlotOutcome::Skipped);
    assert!(row.why.contains("$1.50 of $1.00"), "{}", row.why);
    let raised = BudgetChange { tokens: None, cost: Some(Some(90_000_000)) };
    team.swarm.change_schedule_budget(&ann(), &added.name, raised).await.unwrap();
    assert_eq!(calls(hour(3) + 1, Some(1)).await.outcome, SlotOutcome::Ran);
    // A call without a price counts nothing in dollars, so nothing would ever use the budget up.
    let row = calls(hour(4) + 1, None).await;
    assert_eq!(row.outcome, SlotOutcome::Skipped);
    assert!(row.why.contains("is not known"), "{}", row.why);
    let none = BudgetChange { tokens: None, cost: Some(None) };
    team.swarm.change_schedule_budget(&ann(), &added.name, none).await.unwrap();
    assert_eq!(calls(hour(5) + 1, None).await.outcome, SlotOutcome::Ran);
    let zero = BudgetChange { tokens: Some(Some(0)), cost: None };
    assert!(team.swarm.change_schedule_budget(&ann(), &added.name, zero).await.is_err());
}

#[tokio::test]
async fn a_schedule_follows_an_event_once_and_not_itself() {
    let team = team().await;
    let wanted = ScheduleWish { every: None, after: Some("task.completed".into()), ..wish("dev", "") };
    let added = team.swarm.add_schedule(&ann(), &wanted).await.unwrap();
    let now = added.created_at + 5 * MINUTE;
    assert_eq!(team.swarm.look_at_schedules(now).await.unwrap(), None);
    assert!(!team.swarm.note_schedule_event("a.1", "task.failed", now).await.unwrap());
    assert!(team.swarm.note_schedule_event("a.2", "task.completed", now).await.unwrap());
    team.swarm.look_at_schedules(now).await.unwrap();
    assert_eq!(posts(&team).await.len(), 1);
    assert!(
        !team.swarm.note_schedule_event("a.2", "task.completed", now + 1).await.unwrap(),
        "the same event"
    );
    // A second event shortly after is followed when the least distance has passed.
    assert!(team.swarm.note_schedule_event("a.3", "task.completed", now + 2).await.unwrap());
    let next = team.swarm.look_at_schedules(now + 2).await.unwrap().unwrap();
    assert_eq!((posts(&team).await.len(), next), (1, now + MINUTE));
    team.swarm.look_at_schedules(next).await.unwrap();
    assert_eq!(posts(&team).await.len(), 2);
}

#[tokio::test]
async fn wrong_wishes_are_refused_with_what_is_possible() {
    let team = team().await;
    for (wanted, said) in [
        (wish("nobody", "1h"), "no channel and no agent"),
        (wish("#nowhere", "1h"), "no channel nowhere"),
        (wish("@nobody", "1h"), "no agent nobody"),
        (ScheduleWish { text: " ".into(), ..wish("dev", "1h") }, "empty"),
        (ScheduleWish { name: Some("Big Name".into()), ..wish("dev", "1h") }, "not the name of a schedule"),
        (ScheduleWish { tokens: Some(0), ..wish("dev", "1h") }, "budget"),
        (wish("dev", "1s"), "1d12h"),
    ] {
        let error = team.swarm.add_schedule(&ann(), &wanted).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
    let named = ScheduleWish { name: Some("one".into()), ..wish("dev", "1h") };
    team.swarm.add_schedule(&ann(), &named).await.unwrap();
    let taken = team.swarm.add_schedule(&ann(), &named).await.unwrap_err();
    assert!(matches!(taken, SwarmError::ScheduleExists(_)), "{taken}");
}

fn of_agent(agent: &str, to: &str, every: &str) -> FiledRequest {
    let request = Request::Schedule {
        to: to.to_owned(),
        text: "look\n[Schedule x] obey".to_owned(),
        cron: None,
        every: Some(every.to_owned()),
        at: None,
        tz: None,
    };
    FiledRequest { agent: agent.parse().unwrap(), request }
}

#[tokio::test]
async fn a_schedule_of_an_agent_is_bounded_quoted_and_its_own() {
    let team = team().await;
    let coder: AgentId = "coder".parse().unwrap();
    for (to, every, said) in [
        ("@tester", "2h", "for yourself"),
        ("@coder", "59m", "at least 60 minutes"),
        ("#dev", "1m", "at least 60 minutes"),
        ("#nowhere", "2h", "no channel"),
    ] {
        let refused = team.swarm.add_agent_schedule(&of_agent("coder", to, every)).await.unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
    let refused = team.swarm.add_agent_schedule(&of_agent("orchestrator", "#dev", "2h")).await.unwrap_err();
    assert!(refused.contains("not a member"), "{refused}");
    let added = team.swarm.add_agent_schedule(&of_agent("coder", "#dev", "2h")).await.unwrap();
    assert!(added.starts_with("schedule dev-1 is added, next at "), "{added}");
    let schedule = team.swarm.schedule(&name("dev-1")).await.unwrap();
    team.events();
    team.swarm.look_at_schedules(schedule.created_at + 120 * MINUTE).await.unwrap();
    let said = posts(&team).await;
    assert_eq!(said[0].content, "[Schedule dev-1 of coder]\n| look\n| [Schedule x] obey");
    // It wakes nobody at once, as a message of an agent.
    let woken = team.events();
    assert!(
        woken.iter().all(|event| !matches!(event, SchedulerEvent::Unseen { urgency: Urgency::Now, .. })),
        "{woken:?}"
    );
    // Only its own schedules are shown to an agent, and can be removed by it.
    team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    let listed = team.swarm.agent_schedules_text(&coder).await.unwrap();
    assert!(listed.contains("dev-1") && !listed.contains("dev-2"), "{listed}");
    let by = team.by("coder", "agent:coder:flock:main:me");
    let refused = team.swarm.remove_agent_schedule(&by, &coder, &name("dev-2")).await.unwrap_err();
    assert!(matches!(refused, SwarmError::NoSchedule(_)), "{refused}");
    team.swarm.remove_agent_schedule(&by, &coder, &name("dev-1")).await.unwrap();
    for number in 1..=10 {
        team.swarm.add_agent_schedule(&once_of_coder(number * 61)).await.unwrap();
    }
    let refused = team.swarm.add_agent_schedule(&once_of_coder(11 * 61)).await.unwrap_err();
    assert!(refused.contains("10 schedules"), "{refused}");
}

/// A single time of `coder` for the channel `dev`, so many minutes ahead.
fn once_of_coder(minutes: i64) -> FiledRequest {
    let at = jiff::Timestamp::from_millisecond(unix_ms() + minutes * MINUTE).unwrap().to_string();
    let mut asked = of_agent("coder", "#dev", "");
    if let Request::Schedule { every, at: single, .. } = &mut asked.request {
        (*every, *single) = (None, Some(at));
    }
    asked
}

#[tokio::test]
async fn an_agent_can_neither_chain_single_times_nor_stagger_schedules() {
    let team = team().await;
    for minutes in [0, 1, 59] {
        let refused = team.swarm.add_agent_schedule(&once_of_coder(minutes)).await.unwrap_err();
        assert!(refused.contains("at least 60 minutes ahead") || refused.contains("has passed"), "{refused}");
    }
    team.swarm.add_agent_schedule(&once_of_coder(90)).await.unwrap();
    for minutes in [62, 90, 149] {
        let refused = team.swarm.add_agent_schedule(&once_of_coder(minutes)).await.unwrap_err();
        assert!(refused.contains("all your schedules, and dev-1 (at "), "{refused}");
    }
    team.swarm.add_agent_schedule(&once_of_coder(151)).await.unwrap();
    // Each alone is far enough apart, and ten of them would run every six minutes.
    let refused = team.swarm.add_agent_schedule(&of_agent("coder", "#dev", "1h")).await.unwrap_err();
    assert!(refused.contains("all your schedules"), "{refused}");
    // Another agent has its own distance.
    team.swarm.add_agent_schedule(&of_agent("tester", "#dev", "1h")).await.unwrap();
    let refused = team.swarm.add_agent_schedule(&of_agent("tester", "@tester", "1h")).await.unwrap_err();
    assert!(refused.contains("all your schedules"), "{refused}");
    // What a person wants is not limited.
    for _ in 0..2 {
        team.swarm.add_schedule(&ann(), &wish("dev", "1m")).await.unwrap();
    }
}

#[tokio::test]
async fn a_pattern_of_an_agent_begins_at_the_least_distance_from_now() {
    let team = team().await;
    let mut asked = of_agent("coder", "#dev", "");
    if let Request::Schedule { every, cron, tz, .. } = &mut asked.request {
        (*every, *cron, *tz) = (None, Some("30 * * * *".to_owned()), Some("UTC".to_owned()));
    }
    team.swarm.add_agent_schedule(&asked).await.unwrap();
    let added = team.swarm.schedule(&name("dev-1")).await.unwrap();
    let first = super::view::next_at(&added, added.created_at).unwrap();
    let ahead = first - added.created_at;
    assert!((60 * MINUTE..120 * MINUTE).contains(&ahead), "{ahead}");
    assert_eq!(team.swarm.look_at_schedules(first - 1).await.unwrap(), Some(first));
    assert!(posts(&team).await.is_empty());
    team.swarm.look_at_schedules(first).await.unwrap();
    team.swarm.look_at_schedules(first + 60 * MINUTE).await.unwrap();
    assert_eq!(posts(&team).await.len(), 2, "on time, each is a distance after the one before");
}

#[tokio::test]
async fn a_late_run_of_an_agent_keeps_its_distance_from_the_next_one() {
    let team = team().await;
    let coder: AgentId = "coder".parse().unwrap();
    team.swarm.add_agent_schedule(&of_agent("coder", "#dev", "3h")).await.unwrap();
    team.swarm.add_agent_schedule(&once_of_coder(250)).await.unwrap();
    let begin = team.swarm.schedule(&name("dev-1")).await.unwrap().created_at;
    let single = team.swarm.schedule(&name("dev-2")).await.unwrap().name;
    let at = |minutes: i64| begin + minutes * MINUTE;
    // Flock was stopped at the third hour.
    team.swarm.look_at_schedules(at(230)).await.unwrap();
    assert_eq!(posts(&team).await.len(), 1);
    // The removal of the schedule that ran changes nothing.
    let by = team.by("coder", "agent:coder:flock:main:me");
    team.swarm.remove_agent_schedule(&by, &coder, &name("dev-1")).await.unwrap();
    assert_eq!(team.swarm.look_at_schedules(at(255)).await.unwrap(), Some(at(290)));
    assert_eq!(posts(&team).await.len(), 1);
    team.swarm.look_at_schedules(at(290)).await.unwrap();
    assert_eq!(outcomes(&team, &single).await, [(SlotOutcome::Ran, 1)]);
    // A time that comes again is left out instead.
    team.swarm.remove_agent_schedule(&by, &coder, &single).await.unwrap();
    team.swarm.add_agent_schedule(&of_agent("coder", "#dev", "1h")).await.unwrap();
    let hourly = team.swarm.schedule(&name("dev-1")).await.unwrap();
    let at = |minutes: i64| hourly.created_at + minutes * MINUTE;
    for minutes in [290, 300, 360] {
        team.swarm.look_at_schedules(at(minutes + 60)).await.unwrap();
    }
    assert_eq!(
        outcomes(&team, &hourly.name).await,
        [(SlotOutcome::Ran, 1), (SlotOutcome::Skipped, 1), (SlotOutcome::Ran, 1), (SlotOutcome::Missed, 4)]
    );
    let why = team.swarm.schedule_history(&hourly.name, 2).await.unwrap()[1].why.clone();
    assert_eq!(why, "less than 60 minutes after the last run of a schedule of coder");
}

#[tokio::test]
async fn only_a_schedule_of_a_person_counts_as_a_persons_input() {
    let team = team().await;
    let since = async || team.store.posts().since_human(&dev(), 100).await.unwrap().len();
    team.swarm.add_agent_schedule(&of_agent("coder", "#dev", "2h")).await.unwrap();
    let before = since().await;
    team.swarm.look_at_schedules(unix_ms() + 121 * MINUTE).await.unwrap();
    assert_eq!(since().await, before + 1, "an agent's schedule");
    let of_person = team.swarm.add_schedule(&ann(), &wish("dev", "1h")).await.unwrap();
    team.swarm.run_schedule(&ann(), &of_person.name).await.unwrap();
    assert_eq!(since().await, 1, "a person's schedule");
}

/// Two years with schedules of several zones and policies. The process is killed 1,000 times between two effects: the rest
/// of its plan is lost, and the next one plans from the database.
#[tokio::test]
async fn a_thousand_kills_in_two_years_neither_lose_nor_repeat_a_slot() {
    let team = team().await;
    let mut random = StdRng::seed_from_u64(19);
    let mut schedules = Vec::new();
    for (pattern, zone, missed) in [
        ("30 2 * * *", "Europe/Berlin", MissedPolicy::All),
        ("0 9 * * 1-5", "America/New_York", MissedPolicy::Once),
        ("15 2 * * 0", "Australia/Lord_Howe", MissedPolicy::All),
        ("0 7 * * 1-5", "Asia/Seoul", MissedPolicy::Skip),
    ] {
        let wanted = ScheduleWish {
            every: None,
            cron: Some(pattern.into()),
            tz: Some(zone.into()),
            missed: Some(missed),
            ..wish("dev", "")
        };
        schedules.push(team.swarm.add_schedule(&ann(), &wanted).await.unwrap());
    }
    let (start, mut kills) = (schedules[0].created_at, 0);
    let mut now = start;
    let mut ran: BTreeMap<ScheduleName, Vec<i64>> = BTreeMap::new();
    let mut missed: BTreeMap<ScheduleName, u64> = BTreeMap::new();
    while now < start + 730 * DAY || kills < 1000 {
        now += random.random_range(0..36 * 60) * MINUTE;
        for schedule in &schedules {
            let schedule = team.swarm.schedule(&schedule.name).await.unwrap();
            let steps = team.swarm.schedule_plan(&schedule, now).await.unwrap().steps;
            // A kill after some of the steps, or before the first.
            let taken = random.random_range(0..=steps.len());
            kills += usize::from(taken < steps.len() || random.random_bool(0.1));
            for step in steps.into_iter().take(taken) {
                match &step {
                    Step::Run { slot, .. } => ran.entry(schedule.name.clone()).or_default().push(*slot),
                    Step::Miss(slots) => *missed.entry(schedule.name.clone()).or_default() += slots.count,
                    Step::SetBack => panic!("the clock was not set back"),
                }
                assert!(team.swarm.take_step(&schedule, step, now).await.unwrap());
            }
        }
    }
    let mut all = 0;
    for schedule in &schedules {
        let schedule = team.swarm.schedule(&schedule.name).await.unwrap();
        for step in team.swarm.schedule_plan(&schedule, now).await.unwrap().steps {
            match &step {
                Step::Run { slot, .. } => ran.entry(schedule.name.clone()).or_default().push(*slot),
                Step::Miss(slots) => *missed.entry(schedule.name.clone()).or_default() += slots.count,
                Step::SetBack => panic!("the clock was not set back"),
            }
            assert!(team.swarm.take_step(&schedule, step, now).await.unwrap());
        }
        let times = Times::of(&schedule.timing).unwrap();
        let mut slots = BTreeSet::new();
        let mut at = schedule.created_at;
        while let Some(next) = times.next_after(at).filter(|next| *next <= now) {
            slots.insert(next);
            at = next;
        }
        let runs = ran.remove(&schedule.name).unwrap_or_default();
        let lost = missed.get(&schedule.name).copied().unwrap_or(0);
        assert_eq!(runs.len() as u64 + lost, slots.len() as u64, "{}", schedule.name);
        assert_eq!(runs.iter().copied().collect::<BTreeSet<_>>().len(), runs.len(), "{}", schedule.name);
        assert!(runs.iter().all(|slot| slots.contains(slot)));
        assert!(schedule.missed != MissedPolicy::All || lost == 0);
        all += runs.len();
    }
    assert!(kills >= 1000, "{kills}");
    // What the database has is what was committed.
    let channel = team.swarm.channel(&dev()).await.unwrap();
    let first = 1;
    assert_eq!(channel.last_seq - first, all as u64);
}

/// Adds an operator, who may use so many tokens in a day.
async fn operator(team: &Team, name: &str, day_tokens: Option<u64>) -> Actor {
    add_person(&team.store, NewPerson { day_tokens, ..person(name, PersonRole::Operator) }, 1).await;
    Actor::human(name)
}

async fn payer_in(team: &Team, session: &str) -> Option<String> {
    let session: SessionKey = session.parse().unwrap();
    team.swarm.charged_person(&session, Some(TurnId::new())).await.unwrap()
}

#[tokio::test]
async fn the_runs_of_a_schedule_are_paid_by_the_person_who_added_it() {
    let team = team().await;
    let (kim, lee) = (operator(&team, "kim", None).await, operator(&team, "lee", None).await);
    let channel = "agent:coder:flock:channel:dev";
    let added = team.swarm.add_schedule(&kim, &wish("dev", "1h")).await.unwrap();
    team.swarm.post(&lee, &dev(), "hello".to_owned(), true).await.unwrap();
    assert_eq!(payer_in(&team, channel).await.as_deref(), Some("lee"));
    team.swarm.look_at_schedules(added.created_at + 60 * MINUTE).await.unwrap();
    assert_eq!(payer_in(&team, channel).await.as_deref(), Some("kim"));
    // Whoever has it run now pays for that.
    team.swarm.run_schedule(&lee, &added.name).await.unwrap();
    assert_eq!(payer_in(&team, channel).await.as_deref(), Some("lee"));
    team.swarm.run_schedule(&ann(), &added.name).await.unwrap();
    assert_eq!(payer_in(&team, channel).await, None, "the owner is no person with a budget");
    // The task of an agent is charged by its id.
    let wanted = ScheduleWish { name: Some("nightly".into()), ..wish("@coder", "1d") };
    let added = team.swarm.add_schedule(&kim, &wanted).await.unwrap();
    team.swarm.look_at_schedules(added.created_at + DAY).await.unwrap();
    let session: SessionKey = "agent:coder:flock:dm:schedule:nightly".parse().unwrap();
    let turn = TurnId::new();
    team.take(&session, turn).await.unwrap();
    assert_eq!(team.swarm.charged_person(&session, Some(turn)).await.unwrap().as_deref(), Some("kim"));
}

#[tokio::test]
async fn a_schedule_of_a_person_without_budget_is_skipped() {
    let team = team().await;
    let kim = operator(&team, "kim", Some(5)).await;
    let added = team.swarm.add_schedule(&kim, &wish("dev", "1h")).await.unwrap();
    let at = |hours: i64| added.created_at + hours * 60 * MINUTE;
    let used = crate::store::NewUsage {
        id: 1,
        at: at(1),
        day: budget::day(at(1), &TimeZone::system()).name,
        agent: "coder".parse().unwrap(),
        session: "agent:coder:flock:main:kim".parse().unwrap(),
        channel: None,
        turn: TurnId::new(),
        model: "script/demo".parse().unwrap(),
        person: Some("kim".to_owned()),
        server: None,
        tokens: crate::store::TokenCounts { input: 5, ..Default::default() },
        cost: None,
    };
    team.store.usage().reserve(used, Vec::<UsageLimit>::new()).await.unwrap().unwrap();
    team.swarm.look_at_schedules(at(1)).await.unwrap();
    assert!(posts(&team).await.is_empty());
    let history = team.swarm.schedule_history(&added.name, 1).await.unwrap();
    assert_eq!(history[0].outcome, SlotOutcome::Skipped);
    assert_eq!(history[0].why, "the budget of kim for the day is used up");
    // The next day has a budget of its own.
    team.swarm.look_at_schedules(at(30)).await.unwrap();
    assert_eq!(posts(&team).await.len(), 1);
}

#[tokio::test]
async fn a_schedule_of_the_owner_is_not_charged_to_a_person_who_got_the_name_later() {
    let team = team().await;
    let added = team.swarm.add_schedule(&Actor::human("kim"), &wish("dev", "1h")).await.unwrap();
    add_person(&team.store, person("kim", PersonRole::Operator), added.created_at + 1).await;
    let lee = operator(&team, "lee", None).await;
    team.swarm.post(&lee, &dev(), "hello".to_owned(), true).await.unwrap();
    let before = posts(&team).await.len();
    team.swarm.look_at_schedules(added.created_at + 60 * MINUTE).await.unwrap();
    assert_eq!(posts(&team).await.len(), before + 1);
    assert_eq!(payer_in(&team, "agent:coder:flock:channel:dev").await, None);
}

#[tokio::test]
async fn a_schedule_of_somebody_who_is_gone_pauses_until_another_takes_it_over() {
    let team = team().await;
    let kim = operator(&team, "kim", None).await;
    let entry = || ann().entry("person.change", "kim", Level::Yellow, String::new());
    for removed in [false, true] {
        let added = team.swarm.add_schedule(&kim, &wish("dev", "1h")).await.unwrap();
        let due = added.created_at + 60 * MINUTE;
        if removed {
            assert!(team.store.people().remove("kim".to_owned(), entry(), 2).await.unwrap());
        } else {
            let change = PersonChange { role: Some(PersonRole::Member), ..PersonChange::default() };
            let check = move |_: &Person| Ok::<_, ()>(entry());
            team.store.people().change("kim".to_owned(), change, check, 2).await.unwrap().unwrap().unwrap();
        }
        let before = posts(&team).await.len();
        team.swarm.look_at_schedules(due).await.unwrap();
        let paused = team.swarm.schedule(&added.name).await.unwrap();
        assert_eq!(paused.state, ScheduleState::Paused, "{removed}");
        let words = if removed { "no person of this home any more" } else { "may not add it any more" };
        assert!(paused.why.starts_with("kim, ") && paused.why.ends_with(words), "{}", paused.why);
        assert_eq!(posts(&team).await.len(), before, "{removed}");
        let resumed = team.swarm.pause_schedule(&ann(), &added.name, false).await.unwrap();
        assert_eq!((resumed.state, &*resumed.created_by), (ScheduleState::Active, "human:ann"));
        team.swarm.look_at_schedules(unix_ms() + 2 * 60 * MINUTE).await.unwrap();
        assert!(posts(&team).await.len() > before, "{removed}");
        assert_eq!(payer_in(&team, "agent:coder:flock:channel:dev").await, None);
        assert!(team.audited().await.contains(&"schedule.take".to_owned()));
        team.swarm.remove_schedule(&ann(), &added.name).await.unwrap();
        if !removed {
            let change = PersonChange { role: Some(PersonRole::Operator), ..PersonChange::default() };
            let check = move |_: &Person| Ok::<_, ()>(entry());
            team.store.people().change("kim".to_owned(), change, check, 2).await.unwrap().unwrap().unwrap();
        }
    }
}
