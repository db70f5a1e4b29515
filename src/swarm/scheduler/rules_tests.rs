use super::testing::*;
use super::*;

const NOTHING: [&str; 0] = [];
const NEVER: [(i64, String); 0] = [];

fn at(time: i64, session: &str) -> (i64, String) {
    (time, session.to_owned())
}

/// Returns the starts of `a` within the given time, while a plain message arrives each second and every turn ends at
/// once.
fn starts(settings: Settings, agent: SchedulerEvent, time: i64) -> Vec<i64> {
    let mut team = TestScheduler::new(settings, [agent]);
    let mut starts = Vec::new();
    for second in 0..time / SECOND {
        let begun = team.on(plain("a/x")).into_iter().map(|_| second * SECOND).collect::<Vec<_>>();
        let later = team.pass(SECOND).into_iter().map(|(after, _)| second * SECOND + after);
        let all: Vec<i64> = begun.into_iter().chain(later).collect();
        if !all.is_empty() {
            team.on(ended("a/x", TurnEnd::Done));
        }
        starts.extend(all);
    }
    starts
}

#[test]
fn plain_messages_start_an_agent_at_its_pace() {
    let every = |gap: i64| (0..=(HOUR - SECOND) / gap).map(|n| n * gap).collect::<Vec<_>>();
    assert_eq!(starts(exact(), agent("a"), HOUR - SECOND), every(MINUTE));
    assert_eq!(starts(exact(), asleep(agent("a")), HOUR - SECOND), every(5 * MINUTE));
    assert_eq!(starts(exact(), reactive("a"), HOUR), [0; 0]);
    assert_eq!(starts(exact(), asleep(reactive("a")), HOUR), [0; 0]);
}

#[test]
fn jitter_only_adds_and_is_an_agents_own() {
    let settings = Settings::default();
    let mut awake = Vec::new();
    for name in ["a", "b", "agent-1", "agent-2", "agent-3", "agent-4"] {
        let pace = agent::Pace::of(&id(name), &settings);
        assert_eq!(pace, agent::Pace::of(&id(name), &settings));
        assert!((0..=settings.spread).contains(&pace.offset));
        awake.push(pace);
    }
    awake.dedup();
    assert_eq!(awake.len(), 6, "ids that differ little have paces of their own");
    for gap in starts(settings.clone(), agent("a"), HOUR).windows(2).map(|pair| pair[1] - pair[0]) {
        assert!((settings.tick..=settings.tick + settings.tick_jitter + SECOND).contains(&gap), "{gap}");
    }
    for gap in starts(settings.clone(), asleep(agent("a")), DAY).windows(2).map(|pair| pair[1] - pair[0]) {
        assert!((settings.slow..=settings.slow + settings.slow_jitter + SECOND).contains(&gap), "{gap}");
    }
}

#[test]
fn urgent_messages_start_at_once() {
    for event in [agent("a"), asleep(agent("a")), reactive("a"), asleep(reactive("a"))] {
        for urgent in [mention("a/x"), human("a/x")] {
            let mut team = TestScheduler::new(Settings::default(), [event.clone()]);
            assert_eq!(team.on(urgent), ["a/x"], "{event:?}");
        }
    }
}

#[test]
fn urgent_turns_also_deliver_the_sessions_plain_messages() {
    let mut team = TestScheduler::new(exact(), [reactive("a")]);
    team.on(plain("a/x"));
    team.on(plain("a/y"));
    assert_eq!(team.on(mention("a/x")), ["a/x"]);
    assert_eq!(team.on(ended("a/x", TurnEnd::Done)), NOTHING);
    assert_eq!(team.pass(DAY), NEVER, "nothing of x is left, and y never was urgent");
    assert_eq!(team.scheduler.waiting(), 1);
}

#[test]
fn a_reactive_agent_that_sleeps_and_is_mentioned_stays_reactive() {
    let mut team = TestScheduler::new(exact(), [reactive("a")]);
    team.on(asleep(reactive("a")));
    assert_eq!(team.on(mention("a/x")), ["a/x"]);
    team.on(reactive("a"));
    team.on(plain("a/x"));
    team.on(ended("a/x", TurnEnd::Done));
    team.on(plain("a/y"));
    assert_eq!(team.pass(DAY), NEVER);
}

#[test]
fn falling_asleep_restarts_the_tick_interval() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.pass(HOUR);
    team.on(asleep(agent("a")));
    assert_eq!(team.on(plain("a/x")), NOTHING);
    assert_eq!(team.pass(HOUR), [at(5 * MINUTE, "a/x")]);
    team.on(ended("a/x", TurnEnd::Done));
    assert_eq!(team.on(plain("a/x")), ["a/x"], "it was an hour ago");
    team.on(ended("a/x", TurnEnd::Done));
    assert_eq!(team.on(plain("a/x")), NOTHING);
    assert_eq!(team.pass(2 * MINUTE), NEVER);
    assert_eq!(team.on(agent("a")), ["a/x"], "awake again, the pace is a minute");
}

#[test]
fn falling_asleep_returns_queued_plain_messages_to_the_tick() {
    let mut team = TestScheduler::new(Settings { together: 1, ..exact() }, [agent("a"), agent("b")]);
    team.on(mention("b/x"));
    team.on(plain("a/x"));
    team.on(mention("a/y"));
    team.on(asleep(agent("a")));
    assert_eq!(team.on(ended("b/x", TurnEnd::Done)), ["a/y"]);
    assert_eq!(team.on(ended("a/y", TurnEnd::Done)), NOTHING);
    assert_eq!(team.pass(HOUR), [at(5 * MINUTE, "a/x")]);
}

#[test]
fn a_session_runs_one_turn_at_a_time() {
    for (so_far, then) in [(plain as fn(&str) -> SchedulerEvent, NEVER.to_vec()), (mention, NEVER.to_vec())] {
        let mut team = TestScheduler::new(exact(), [agent("a")]);
        assert_eq!(team.on(mention("a/x")), ["a/x"]);
        assert_eq!(team.on(so_far("a/x")), ["+a/x"]);
        assert_eq!(team.on(so_far("a/x")), ["+a/x"]);
        assert_eq!(team.pass(HOUR), then);
        assert_eq!(team.on(ended("a/x", TurnEnd::Done)), ["a/x"]);
        assert_eq!(team.on(ended("a/x", TurnEnd::Done)), NOTHING);

        team.on(mention("a/x"));
        team.on(so_far("a/x"));
        team.on(seen("a/x"));
        assert_eq!(team.on(ended("a/x", TurnEnd::Done)), NOTHING, "it was steered in");
        assert_eq!(team.scheduler.next_deadline(), None);
    }
}

#[test]
fn a_failed_turn_is_retried_although_later_messages_were_steered_in() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(human("a/x"));
    team.on(plain("a/x"));
    team.on(seen("a/x"));
    team.on(ended("a/x", TurnEnd::Failed));
    assert_eq!(team.pass(HOUR), [at(5 * SECOND, "a/x")]);
}

#[test]
fn plain_messages_during_a_turn_wait_for_the_next_tick() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    assert_eq!(team.on(plain("a/x")), ["a/x"]);
    team.on(plain("a/x"));
    assert_eq!(team.on(ended("a/x", TurnEnd::Done)), NOTHING);
    assert_eq!(team.pass(HOUR), [at(MINUTE, "a/x")]);
}

#[test]
fn one_tick_releases_all_sessions() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(plain("a/w"));
    for session in ["a/x", "a/y", "a/z"] {
        assert_eq!(team.on(plain(session)), NOTHING);
    }
    assert_eq!(team.pass(HOUR), [at(MINUTE, "a/x"), at(MINUTE, "a/y"), at(MINUTE, "a/z")]);
}

#[test]
fn sessions_without_pending_messages_start_nothing() {
    let mut team = TestScheduler::new(Settings { together: 1, ..exact() }, [agent("a"), agent("b")]);
    team.on(plain("a/x"));
    for event in [plain("a/y"), mention("b/x"), human("b/y")] {
        assert_eq!(team.on(event), NOTHING);
    }
    for session in ["a/x", "a/y", "b/x", "b/y", "a/never"] {
        assert_eq!(team.on(seen(session)), NOTHING);
    }
    assert_eq!(team.on(ended("a/x", TurnEnd::Done)), NOTHING);
    assert_eq!(team.pass(DAY), NEVER);
    assert!(team.scheduler.sessions.is_empty(), "what waits for nothing is forgotten");
}

#[test]
fn slots_go_to_people_then_mentions_then_messages() {
    let names = ["a", "b", "c", "d", "e"];
    let mut team = TestScheduler::new(Settings { together: 1, ..exact() }, names.map(agent));
    team.on(mention("a/x"));
    for event in [plain("b/x"), mention("c/x"), human("d/x"), human("e/x")] {
        assert_eq!(team.on(event), NOTHING);
    }
    for (ends, starts) in [("a/x", "d/x"), ("d/x", "e/x"), ("e/x", "c/x"), ("c/x", "b/x")] {
        assert_eq!(team.on(ended(ends, TurnEnd::Done)), [starts]);
    }
    assert_eq!(team.on(ended("b/x", TurnEnd::Done)), NOTHING);
}

#[test]
fn a_slot_is_reserved_for_people() {
    let mut team =
        TestScheduler::new(Settings { together: 3, for_people: 1, ..exact() }, ["a", "b"].map(agent));
    let begun: Vec<String> = ["a/1", "a/2", "a/3"].into_iter().flat_map(|s| team.on(mention(s))).collect();
    assert_eq!(begun, ["a/1", "a/2"]);
    assert_eq!(team.on(human("b/1")), ["b/1"]);
    assert_eq!(team.on(human("b/2")), NOTHING);
    assert_eq!(team.on(ended("b/1", TurnEnd::Done)), ["b/2"]);
    assert_eq!(team.on(ended("a/1", TurnEnd::Done)), NOTHING, "a person has the third place");
    assert_eq!(team.on(ended("a/2", TurnEnd::Done)), ["a/3"]);
}

#[test]
fn agents_of_one_priority_take_turns() {
    let mut team = TestScheduler::new(Settings { together: 1, ..exact() }, ["a", "b", "c"].map(agent));
    team.on(mention("a/0"));
    for session in ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"] {
        team.on(mention(session));
    }
    let mut order = Vec::new();
    let mut running = "a/0".to_owned();
    while let Some(next) = team.on(ended(&running, TurnEnd::Done)).pop() {
        order.push(next.clone());
        running = next;
    }
    assert_eq!(order, ["b/1", "c/1", "a/1", "b/2", "a/2", "a/3"]);
}

#[test]
fn a_plain_message_is_promoted_after_a_minute() {
    let mut team = TestScheduler::new(Settings { together: 1, ..exact() }, ["a", "b", "c"].map(agent));
    team.on(mention("a/x"));
    team.on(plain("c/x"));
    let mut running = "a/x".to_owned();
    for second in 0..120 {
        // Two agents that mention each other without end.
        team.on(mention("a/x"));
        team.on(mention("b/x"));
        team.pass(SECOND);
        running = team.on(ended(&running, TurnEnd::Done)).pop().unwrap();
        if running == "c/x" {
            assert!((59..64).contains(&second), "after {second} s");
            return;
        }
    }
    panic!("never");
}

#[test]
fn a_failed_session_is_tried_again_after_growing_waits() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(mention("a/x"));
    let mut waits = Vec::new();
    for _ in 0..9 {
        assert_eq!(team.on(ended("a/x", TurnEnd::Failed)), NOTHING);
        assert_eq!(team.on(mention("a/x")), NOTHING, "more messages shorten no wait");
        let [(wait, _)] = team.pass(HOUR).try_into().unwrap();
        waits.push(wait / SECOND);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    team.on(ended("a/x", TurnEnd::Done));
    team.on(mention("a/x"));
    team.on(ended("a/x", TurnEnd::Failed));
    assert_eq!(team.pass(HOUR), [at(5 * SECOND, "a/x")], "a success resets");
}

#[test]
fn a_failing_agent_backs_off_as_a_whole_until_a_success() {
    let mut team = TestScheduler::new(exact(), ["a", "b"].map(agent));
    for session in ["a/1", "a/2", "a/3"] {
        team.on(mention(session));
    }
    for session in ["a/1", "a/2", "a/3"] {
        team.on(ended(session, TurnEnd::Failed));
    }
    assert_eq!(team.on(mention("a/4")), NOTHING);
    assert_eq!(team.on(mention("b/1")), ["b/1"], "others go on");
    let [first] = team.pass(HOUR).try_into().unwrap();
    assert_eq!(first, at(20 * SECOND, "a/4"), "one at a time, the oldest first");
    let mut all = team.on(ended("a/4", TurnEnd::Done));
    all.sort();
    assert_eq!(all, ["a/1", "a/2", "a/3"]);
}

#[test]
fn failures_count_turns_and_not_messages() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    for _ in 0..5 {
        team.on(plain("a/x"));
        team.on(plain("a/y"));
    }
    team.on(ended("a/x", TurnEnd::Failed));
    assert_eq!(team.scheduler.failures()[0], 1);
    assert_eq!(team.pass(MINUTE), [at(MINUTE, "a/x"), at(MINUTE, "a/y")], "at its pace, not asleep");
}

#[test]
fn a_turn_without_capacity_is_no_failure_of_the_agent() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(mention("a/x"));
    let mut waits = Vec::new();
    for _ in 0..4 {
        team.on(ended("a/x", TurnEnd::Refused));
        waits.extend(team.pass(HOUR).into_iter().map(|(wait, _)| wait / SECOND));
    }
    assert_eq!(waits, [5, 10, 20, 40]);
    assert_eq!(team.scheduler.failures()[0], 0);
    assert_eq!(team.on(mention("a/y")), ["a/y"]);
}

#[test]
fn a_cancelled_turn_is_not_retried_but_later_messages_are_delivered() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(mention("a/x"));
    assert_eq!(team.on(ended("a/x", TurnEnd::Cancelled)), NOTHING);
    assert_eq!(team.pass(DAY), NEVER);
    team.on(mention("a/x"));
    team.on(mention("a/x"));
    assert_eq!(team.on(ended("a/x", TurnEnd::Cancelled)), ["a/x"]);
}

#[test]
fn frozen_and_paused_agents_start_nothing_and_lose_nothing() {
    let paused = |until| SchedulerEvent::Paused { agent: id("a"), until };
    let held = [
        (frozen(agent("a")), agent("a")),
        (paused(None), SchedulerEvent::Resumed(id("a"))),
        (paused(Some(T + DAY)), SchedulerEvent::Resumed(id("a"))),
    ];
    for (hold, release) in held {
        let mut team = TestScheduler::new(exact(), [agent("a")]);
        team.on(mention("a/run"));
        team.on(hold);
        team.on(mention("a/run"));
        team.on(ended("a/run", TurnEnd::Done));
        for event in [plain("a/x"), mention("a/y"), human("a/z")] {
            assert_eq!(team.on(event), NOTHING);
        }
        assert_eq!(team.pass(HOUR), NEVER);
        assert_eq!(team.scheduler.waiting(), 4);
        assert_eq!(team.on(release), ["a/z", "a/run", "a/y", "a/x"]);
    }
}

#[test]
fn a_frozen_team_has_no_deadline() {
    let mut team = TestScheduler::new(exact(), [frozen(agent("a"))]);
    team.on(plain("a/x"));
    team.on(mention("a/y"));
    assert_eq!(team.scheduler.next_deadline(), None);
}

#[test]
fn a_pause_ends_at_its_time() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(SchedulerEvent::Paused { agent: id("a"), until: Some(T + HOUR) });
    team.on(human("a/x"));
    team.on(plain("a/y"));
    assert_eq!(team.pass(DAY), [at(HOUR, "a/x"), at(HOUR, "a/y")]);
}

#[test]
fn a_provider_that_is_down_gets_only_probes() {
    let names = ["a", "b", "c"];
    let mut team = TestScheduler::new(exact(), names.map(agent));
    team.on(asking(agent("other"), Some("initech")));
    for name in names {
        team.on(mention(&format!("{name}/x")));
    }
    for name in names {
        assert_eq!(team.on(ended(&format!("{name}/x"), TurnEnd::Unavailable)), NOTHING);
    }
    assert_eq!(team.on(human("b/y")), NOTHING);
    assert_eq!(team.on(mention("other/x")), ["other/x"], "another provider is not concerned");
    let mut waits = Vec::new();
    for _ in 0..8 {
        let [(wait, probe)] = team.pass(301 * SECOND).try_into().unwrap();
        waits.push(wait / SECOND);
        assert!(team.scheduler.breakers()[0].is_probing);
        assert_eq!(team.on(ended(&probe, TurnEnd::Unavailable)), NOTHING);
    }
    assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    let [(_, probe)] = team.pass(300 * SECOND).try_into().unwrap();
    let mut then = team.on(ended(&probe, TurnEnd::Done));
    then.sort();
    let mut rest: Vec<String> = ["a/x", "b/x", "b/y", "c/x"].map(str::to_owned).to_vec();
    rest.retain(|session| *session != probe);
    assert_eq!(then, rest, "all that waited");
    assert_eq!(team.scheduler.breakers(), []);
    assert!(team.scheduler.failures().iter().all(|failures| *failures == 0));
}

#[test]
fn probes_rotate_and_an_answer_closes_the_breaker() {
    let mut team = TestScheduler::new(exact(), ["a", "b"].map(agent));
    team.on(mention("a/x"));
    team.on(mention("b/x"));
    team.on(ended("a/x", TurnEnd::Unavailable));
    team.on(ended("b/x", TurnEnd::Unavailable));
    let [(_, first)] = team.pass(5 * SECOND).try_into().unwrap();
    team.on(ended(&first, TurnEnd::Failed));
    let [(_, second)] = team.pass(5 * SECOND).try_into().unwrap();
    assert_ne!(first, second, "one agent's own trouble does not keep the provider closed");
    assert_eq!(team.scheduler.breakers()[0].failures, 0);
    let back = team.on(SchedulerEvent::Answered(key(&second)));
    assert_eq!(back, [first], "the probe's turn goes on, and nobody waits for its end");
    assert_eq!(team.on(ended(&second, TurnEnd::Done)), NOTHING);
}

#[test]
fn an_empty_turn_proves_nothing_about_its_provider() {
    let mut team = TestScheduler::new(exact(), ["a", "b"].map(agent));
    for session in ["a/x", "b/x"] {
        team.on(mention(session));
    }
    for session in ["a/x", "b/x"] {
        team.on(ended(session, TurnEnd::Unavailable));
    }
    let [(_, probe)] = team.pass(5 * SECOND).try_into().unwrap();
    let [other] = team.on(ended(&probe, TurnEnd::Empty)).try_into().unwrap();
    assert_ne!(probe, other, "the next one probes in its place");
    assert_eq!(team.scheduler.breakers().len(), 1);
    assert_eq!(team.pass(DAY), NEVER);

    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(mention("a/x"));
    team.on(ended("a/x", TurnEnd::Failed));
    team.pass(HOUR);
    team.on(ended("a/x", TurnEnd::Empty));
    assert_eq!(team.scheduler.failures()[0], 1, "nor that the agent is well again");
    assert_eq!(team.pass(DAY), NEVER);

    team.on(mention("a/y"));
    team.on(mention("a/y"));
    assert_eq!(team.on(ended("a/y", TurnEnd::Empty)), NOTHING, "what is said to be there and is not");
    assert_eq!(team.pass(HOUR), [at(5 * SECOND, "a/y")]);
}

#[test]
fn turns_started_before_the_outage_do_not_change_the_breaker() {
    let mut team = TestScheduler::new(exact(), ["a", "b", "c"].map(agent));
    for session in ["a/x", "b/x", "c/x"] {
        team.on(mention(session));
    }
    team.on(ended("a/x", TurnEnd::Unavailable));
    team.on(SchedulerEvent::Answered(key("b/x")));
    assert_eq!(team.on(ended("b/x", TurnEnd::Done)), NOTHING);
    assert_eq!(team.scheduler.breakers().len(), 1);
    team.on(ended("c/x", TurnEnd::Unavailable));
    assert_eq!(team.scheduler.breakers()[0].failures, 0, "only probes make the waits grow");
}

#[test]
fn a_breaker_is_removed_with_its_last_agent() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(mention("a/x"));
    team.on(ended("a/x", TurnEnd::Unavailable));
    assert_eq!(team.on(asking(agent("a"), Some("initech"))), ["a/x"]);
    assert_eq!(team.scheduler.breakers(), []);
    team.on(ended("a/x", TurnEnd::Unavailable));
    assert_eq!(team.scheduler.breakers()[0].provider, "initech");
    team.on(SchedulerEvent::Gone(id("a")));
    assert_eq!(team.scheduler.breakers(), []);
    assert_eq!(team.scheduler.next_deadline(), None);
}

#[test]
fn an_agent_without_a_provider_backs_off_by_itself() {
    let mut team = TestScheduler::new(exact(), [asking(agent("a"), None), asking(agent("b"), None)]);
    team.on(mention("a/x"));
    team.on(ended("a/x", TurnEnd::Unavailable));
    assert_eq!(team.on(mention("b/x")), ["b/x"]);
    assert_eq!(team.pass(HOUR), [at(5 * SECOND, "a/x")]);
}

#[test]
fn a_removed_agent_keeps_its_slot_until_its_turn_ends() {
    let mut team = TestScheduler::new(Settings { together: 1, ..exact() }, ["a", "b"].map(agent));
    team.on(mention("a/x"));
    for event in [plain("a/y"), mention("a/z"), mention("b/x")] {
        team.on(event);
    }
    assert_eq!(team.on(SchedulerEvent::Gone(id("a"))), NOTHING);
    assert_eq!(team.on(mention("a/z")), NOTHING);
    assert_eq!(team.on(ended("a/x", TurnEnd::Cancelled)), ["b/x"]);
    assert_eq!(team.on(ended("b/x", TurnEnd::Done)), NOTHING);
    assert_eq!(team.pass(DAY), NEVER);
    assert!(team.scheduler.sessions.is_empty() && team.scheduler.agents.len() == 1);
}

#[test]
fn an_agent_added_again_during_its_turn_runs_it_once() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(mention("a/x"));
    team.on(SchedulerEvent::Gone(id("a")));
    team.on(agent("a"));
    assert_eq!(team.on(mention("a/x")), ["+a/x"]);
    assert_eq!(team.on(ended("a/x", TurnEnd::Done)), ["a/x"]);
    team.on(ended("a/x", TurnEnd::Done));
    assert_eq!(team.scheduler.running, 0);
}

#[test]
fn repeated_and_unknown_events_change_nothing() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(plain("a/x"));
    team.on(plain("a/y"));
    let deadline = team.scheduler.next_deadline();
    for event in [agent("a"), plain("a/y"), ended("a/y", TurnEnd::Failed), SchedulerEvent::Resumed(id("a"))] {
        assert_eq!(team.on(event), NOTHING);
    }
    assert_eq!(team.scheduler.next_deadline(), deadline);
    for event in [plain("b/x"), seen("b/x"), ended("b/x", TurnEnd::Done), SchedulerEvent::Gone(id("b"))] {
        assert_eq!(team.on(event), NOTHING);
    }
}

#[test]
fn a_clock_that_is_set_back_lengthens_no_wait() {
    let mut team = TestScheduler::new(exact(), [agent("a")]);
    team.on(plain("a/x"));
    team.on(ended("a/x", TurnEnd::Done));
    team.on(plain("a/x"));
    team.pass(10 * SECOND);
    team.now -= 5 * HOUR;
    team.pass(0);
    assert_eq!(team.pass(HOUR), [at(50 * SECOND, "a/x")]);
    // Times from the configuration or the store are times of the clock after it was set.
    team.on(SchedulerEvent::Paused { agent: id("a"), until: Some(team.now + MINUTE) });
    team.on(mention("a/y"));
    assert_eq!(team.pass(HOUR), [at(MINUTE, "a/y")]);
}

#[test]
fn a_last_turn_in_the_future_does_not_delay_the_agent() {
    let mut event = agent("a");
    if let SchedulerEvent::Agent { last_turn_at, .. } = &mut event {
        *last_turn_at = Some(T + 30 * DAY);
    }
    let mut team = TestScheduler::new(exact(), [event]);
    team.on(plain("a/x"));
    assert_eq!(team.pass(HOUR), [at(MINUTE, "a/x")]);
}

#[test]
fn first_ticks_after_a_start_are_spread() {
    let settings = Settings { together: 1_000, ..Settings::default() };
    let agents: Vec<SchedulerEvent> = (0..600).map(|n| agent(&format!("a-{n}"))).collect();
    let mut team = TestScheduler::new(settings, agents);
    for n in 0..600 {
        assert_eq!(team.on(plain(&format!("a-{n}/x"))), NOTHING);
    }
    let begun = team.pass(HOUR);
    assert_eq!(begun.len(), 600);
    let mut seconds = vec![0; 61];
    for (when, _) in begun {
        seconds[usize::try_from(when / SECOND).unwrap()] += 1;
    }
    assert!(seconds.iter().all(|count| *count < 30), "{seconds:?}");
}

#[test]
fn ticks_after_a_providers_return_are_spread() {
    let settings = Settings { together: 1_000, ..Settings::default() };
    let mut team = TestScheduler::new(settings, (0..600).map(|n| agent(&format!("a-{n}"))));
    team.pass(HOUR);
    team.on(human("a-0/x"));
    team.on(ended("a-0/x", TurnEnd::Unavailable));
    for n in 0..600 {
        assert_eq!(team.on(plain(&format!("a-{n}/y"))), NOTHING);
    }
    assert_eq!(team.pass(5 * SECOND), [at(5 * SECOND, "a-0/x")]);
    let at_once = team.on(ended("a-0/x", TurnEnd::Done));
    assert!(at_once.len() < 30, "{} at once", at_once.len());
    let begun = team.pass(HOUR);
    assert_eq!(at_once.len() + begun.len(), 600);
    let mut seconds = vec![0; 61];
    for (when, _) in begun {
        seconds[usize::try_from(when / SECOND).unwrap()] += 1;
    }
    assert!(seconds.iter().all(|count| *count < 30), "{seconds:?}");
}

#[test]
fn sleeping_agents_keep_their_tick_over_a_restart() {
    let mut event = asleep(agent("a"));
    if let SchedulerEvent::Agent { last_turn_at, .. } = &mut event {
        *last_turn_at = Some(T - MINUTE);
    }
    let mut team = TestScheduler::new(exact(), [event]);
    team.on(plain("a/x"));
    assert_eq!(team.pass(HOUR), [at(4 * MINUTE, "a/x")]);
}

fn parked(agents: &[&str], until: i64) -> SchedulerEvent {
    SchedulerEvent::Parked {
        credential: "key:1".to_owned(),
        agents: agents.iter().map(|agent| id(agent)).collect(),
        until,
    }
}

fn unparked() -> SchedulerEvent {
    SchedulerEvent::Unparked { credential: "key:1".to_owned() }
}

#[test]
fn at_the_reset_of_a_quota_one_turn_probes_and_then_all_go_on_in_turn() {
    let names: Vec<String> = (0..20).map(|number| format!("a{number:02}")).collect();
    let held: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scheduler = Scheduler::new(Settings { together: 40, ..exact() });
    for name in &held {
        scheduler.on(reactive(name), T);
    }
    scheduler.on(reactive("free"), T);
    scheduler.on(parked(&held, T + HOUR), T);
    for name in &held {
        assert_eq!(
            scheduler.on(mention(&format!("{name}/main")), T + SECOND),
            [],
            "nothing is asked while it is used up"
        );
    }
    assert_eq!(scheduler.on(human("free/main"), T + SECOND).len(), 1, "another credential is not concerned");
    scheduler.on(ended("free/main", TurnEnd::Done), T + SECOND);
    assert_eq!((scheduler.running, scheduler.next_deadline()), (0, Some(T + HOUR)));
    assert_eq!(scheduler.due(T + HOUR).len(), 1, "one probe");
    assert_eq!(scheduler.due(T + HOUR + 30 * SECOND), [], "and no other while it runs");
    // Still used up: parked again to the new time, and then one probe again.
    let at = T + 2 * HOUR;
    scheduler.on(parked(&held, at), T + HOUR + 30 * SECOND);
    scheduler.on(ended("a00/main", TurnEnd::Parked), T + HOUR + 30 * SECOND);
    assert_eq!(scheduler.next_deadline(), Some(at));
    let probe = scheduler.due(at);
    assert_eq!(probe.len(), 1);
    let Effect::Start { session: first, .. } = &probe[0] else { panic!("{probe:?}") };
    let mut order = vec![first.agent().to_string()];
    let mut effects = scheduler.on(unparked(), at);
    let mut now = at;
    while order.len() < 20 {
        effects.extend(scheduler.due(now));
        for effect in effects.drain(..) {
            let Effect::Start { session, .. } = effect else { panic!("{effect:?}") };
            order.push(session.agent().to_string());
        }
        now = scheduler.next_deadline().unwrap_or(now + SECOND);
        assert!(now <= at + MINUTE, "all go on within a minute: {order:?}");
    }
    assert!(now >= at + 15 * SECOND, "spread out");
    let distinct: std::collections::BTreeSet<&String> = order.iter().collect();
    assert_eq!(distinct.len(), 20, "each once: {order:?}");
    // The agent that probed in vain was served last, so it does not go before those that waited all the time.
    assert_eq!(order.iter().position(|name| name == "a00"), Some(19), "{order:?}");
}

#[test]
fn people_go_first_after_a_quota() {
    let mut scheduler = Scheduler::new(exact());
    for name in ["a", "b", "c"] {
        scheduler.on(reactive(name), T);
    }
    scheduler.on(parked(&["a", "b", "c"], T + HOUR), T);
    scheduler.on(mention("a/main"), T);
    scheduler.on(mention("b/main"), T);
    scheduler.on(human("c/main"), T);
    let starts = |effects: Vec<Effect>| -> Vec<String> {
        let agent = |effect: Effect| match effect {
            Effect::Start { session, .. } => session.agent().to_string(),
            other => panic!("{other:?}"),
        };
        effects.into_iter().map(agent).collect()
    };
    assert_eq!(starts(scheduler.due(T + HOUR)), ["c"], "the probe is for the person");
    assert_eq!(starts(scheduler.on(unparked(), T + HOUR)), ["a"]);
    assert_eq!(starts(scheduler.due(T + HOUR + SECOND)), ["b"]);
}

#[test]
fn a_frozen_agent_of_a_used_up_quota_is_no_probe() {
    let mut scheduler = Scheduler::new(exact());
    for name in ["a", "b"] {
        scheduler.on(reactive(name), T);
    }
    scheduler.on(parked(&["a", "b"], T + HOUR), T);
    scheduler.on(mention("a/main"), T);
    scheduler.on(frozen(reactive("a")), T);
    assert_eq!(scheduler.due(T + HOUR), []);
    let effects = scheduler.on(mention("b/main"), T + HOUR);
    assert!(
        matches!(&effects[..], [Effect::Start { session, .. }] if session.agent().as_str() == "b"),
        "{effects:?}"
    );
    // A probe that asked no model tells nothing: another one follows soon.
    scheduler.on(ended("b/main", TurnEnd::Empty), T + HOUR);
    scheduler.on(reactive("a"), T + HOUR);
    assert_eq!(scheduler.due(T + HOUR), []);
    assert_eq!(scheduler.due(T + HOUR + 5 * SECOND).len(), 1);
}
