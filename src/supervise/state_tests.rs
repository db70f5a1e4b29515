//! Tests of the state machine: with tables, and with random orders of events against a model of the process.

use proptest::prelude::*;

use super::*;

fn limits() -> SupervisionLimits {
    SupervisionLimits {
        ready: 3_000,
        start: 1_000,
        stable: 5_000,
        backoff: 100,
        backoff_cap: 400,
        pause: 700,
        replaced: 150,
        crashes: 4,
        window: 10_000,
        grace: 300,
        misses: 3,
    }
}

fn fresh() -> UnitStateMachine {
    UnitStateMachine::new(limits(), &ExitRules::FLOCK, CrashHistory::default())
}

fn killed() -> UnitEvent {
    UnitEvent::Ended(Exit::Signal(9), None)
}

/// Feeds (time, event, expected actions, expected standing).
fn apply_table(state: &mut UnitStateMachine, table: &[(i64, UnitEvent, &[UnitAction], UnitState)]) {
    for (step, (now, event, actions, standing)) in table.iter().enumerate() {
        assert_eq!(&state.on_event(event.clone(), *now), actions, "step {step}: {event:?}");
        assert_eq!(state.standing(), *standing, "step {step}: {event:?}");
    }
}

use UnitAction::{Kill, Save, Spawn, Terminate};
use UnitState::{BackingOff, BreakerOpen, Failed, Healthy, Starting, Stopped, Stopping};

#[test]
fn a_kill_is_not_explained_by_whatever_was_logged_last() {
    let reason = |exit, said: &str| {
        let mut state = fresh();
        state.on_event(UnitEvent::Start, 0);
        state.on_event(UnitEvent::Ended(exit, Some(said.to_owned())), 1);
        state.reason().unwrap_or_default().to_owned()
    };
    let (noise, panic) = ("INFO turn ended", "thread 'main' panicked at x");
    assert_eq!(reason(Exit::Signal(9), noise), "it was ended by SIGKILL");
    assert_eq!(reason(Exit::Signal(9), panic), "it was ended by SIGKILL");
    assert_eq!(reason(Exit::Signal(11), noise), "it was ended by SIGSEGV");
    assert_eq!(reason(Exit::Signal(6), panic), format!("it was ended by SIGABRT: {panic}"));
    assert_eq!(reason(Exit::Code(1), noise), format!("it ended with exit code 1: {noise}"));
}

#[test]
fn a_process_starts_becomes_healthy_and_stops() {
    let mut state = fresh();
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (5, UnitEvent::Missed("refused".into()), &[], Starting),
            (9, UnitEvent::Proved, &[], Healthy),
            (10, UnitEvent::Start, &[], Healthy),
            (20, UnitEvent::Stop, &[Terminate], Stopping),
            (25, UnitEvent::Ended(Exit::Code(0), None), &[], Stopped),
        ],
    );
    assert_eq!((state.restarts(), state.reason(), state.next_deadline()), (0, None, None));
}

#[test]
fn a_crash_is_followed_by_a_wait_and_a_start_and_forgotten_after_a_while() {
    let mut state = fresh();
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (10, UnitEvent::Proved, &[], Healthy),
            (1_000, killed(), &[Save], BackingOff),
            (1_099, UnitEvent::Tick, &[], BackingOff),
            (1_100, UnitEvent::Tick, &[Spawn], Starting),
            (1_110, UnitEvent::Proved, &[], Healthy),
            (6_110, UnitEvent::Tick, &[Save], Healthy),
        ],
    );
    assert!(state.memory().is_empty());
    assert_eq!(state.restarts(), 1);
    assert_eq!(state.reason(), Some("it was ended by SIGKILL"));
}

#[test]
fn a_crash_loop_opens_the_breaker_until_a_person_starts_it() {
    let mut state = fresh();
    state.on_event(UnitEvent::Begin, 0);
    let mut now = 0;
    while let Some(deadline) = state.next_deadline() {
        if state.standing() == BackingOff {
            now = deadline;
            state.on_event(UnitEvent::Tick, now);
        } else {
            state.on_event(UnitEvent::Ended(Exit::Code(70), Some("error: no".into())), now);
        }
    }
    assert_eq!(state.standing(), BreakerOpen);
    assert_eq!(state.memory().crashes.len(), limits().crashes);
    let why = "it ended with exit code 70: error: no";
    assert_eq!(state.reason(), Some(why));

    let mut later = UnitStateMachine::new(limits(), &ExitRules::FLOCK, state.memory().clone());
    assert_eq!(later.reason(), Some(why), "the reason outlives the supervisor");
    apply_table(
        &mut later,
        &[
            (now + 100_000, UnitEvent::Begin, &[], BreakerOpen),
            (now + 100_001, UnitEvent::Tick, &[], BreakerOpen),
            (now + 100_002, UnitEvent::Start, &[Save, Spawn], Starting),
        ],
    );
    assert!(later.memory().is_empty());
}

#[test]
fn permanent_failures_are_not_restarted() {
    for (code, kind) in [
        (2, Kind::Usage),
        (3, Kind::NotInitialised),
        (5, Kind::Conflict),
        (7, Kind::NewerHome),
        (9, Kind::Damaged),
    ] {
        let mut state = fresh();
        apply_table(
            &mut state,
            &[
                (0, UnitEvent::Begin, &[Spawn], Starting),
                (
                    1,
                    UnitEvent::Ended(Exit::Code(code), Some("error: port 3779 is taken".into())),
                    &[],
                    Failed,
                ),
            ],
        );
        assert_eq!(state.phase(), &UnitPhase::Failed { kind });
        assert!(state.reason().unwrap().ends_with("error: port 3779 is taken"));
        assert_eq!(state.next_deadline(), None);
        assert_eq!(state.on_event(UnitEvent::Start, 2), [Spawn]);
    }
    for exit in [Exit::Code(0), Exit::Code(1), Exit::Code(70), Exit::Signal(11)] {
        assert_eq!(exit.lasting(), None);
    }
}

#[test]
fn temporary_failures_are_restarted_without_limit() {
    let mut state = fresh();
    apply_table(&mut state, &[(0, UnitEvent::Begin, &[Spawn], Starting)]);
    let mut now = 0;
    for _ in 0..20 {
        let ended = UnitEvent::Ended(Exit::Code(10), Some("error: its disk fails".into()));
        apply_table(
            &mut state,
            &[(now, ended, &[], BackingOff), (now + 699, UnitEvent::Tick, &[], BackingOff)],
        );
        assert_eq!(state.failure(), Some(Kind::Unreadable));
        assert!(state.reason().unwrap().ends_with("error: its disk fails"), "{:?}", state.reason());
        now += 700;
        apply_table(&mut state, &[(now, UnitEvent::Tick, &[Spawn], Starting)]);
    }
    assert!(state.memory().is_empty(), "it never crashed");
    apply_table(&mut state, &[(now + 1, UnitEvent::Proved, &[], Healthy)]);
    assert_eq!(state.failure(), None);
    assert_eq!(Exit::Code(12).passing(), Some(Kind::Unreachable));
    // A person can stop it during the delay.
    apply_table(
        &mut state,
        &[
            (now + 2, UnitEvent::Ended(Exit::Code(10), None), &[], BackingOff),
            (now + 3, UnitEvent::Stop, &[], Stopped),
        ],
    );
}

#[test]
fn a_process_that_was_replaced_is_restarted_with_longer_pauses_and_never_counts_as_crashed() {
    let replaced = || UnitEvent::Ended(Exit::Code(11), Some("error: another gateway has taken over".into()));
    let mut state = fresh();
    apply_table(&mut state, &[(0, UnitEvent::Begin, &[Spawn], Starting)]);
    let mut now = 0;
    for pause in [150, 300, 400, 400, 400, 400, 400, 400] {
        apply_table(
            &mut state,
            &[
                (now, UnitEvent::Proved, &[], Healthy),
                (now, replaced(), &[], BackingOff),
                (now + pause - 1, UnitEvent::Tick, &[], BackingOff),
                (now + pause, UnitEvent::Tick, &[Spawn], Starting),
            ],
        );
        assert_eq!(state.failure(), None, "it comes by itself, so people can wait for it");
        assert!(state.reason().unwrap().ends_with("another gateway has taken over"));
        now += pause;
    }
    assert!(state.memory().is_empty(), "it never crashed");
    assert_eq!((state.replacements(), state.restarts()), (8, 8));
    // After a while the pauses begin anew.
    apply_table(
        &mut state,
        &[
            (now, UnitEvent::Proved, &[], Healthy),
            (now + 5_000, UnitEvent::Tick, &[], Healthy),
            (now + 6_000, replaced(), &[], BackingOff),
            (now + 6_149, UnitEvent::Tick, &[], BackingOff),
            (now + 6_150, UnitEvent::Tick, &[Spawn], Starting),
        ],
    );
    assert_eq!(state.replacements(), 9);
}

#[test]
fn a_process_that_was_paused_until_it_was_replaced_has_not_crashed() {
    let replaced = || UnitEvent::Ended(Exit::Code(11), None);
    let missed = || UnitEvent::Missed("127.0.0.1:3779 did not answer within 10s".into());
    let mut state = fresh();
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (1, UnitEvent::Proved, &[], Healthy),
            (2, missed(), &[], Healthy),
            (3, missed(), &[], Healthy),
            (4, missed(), &[Terminate], Stopping),
            (5, replaced(), &[], BackingOff),
            (155, UnitEvent::Tick, &[Spawn], Starting),
            // A person's word counts more than how it ends.
            (160, UnitEvent::Stop, &[Terminate], Stopping),
            (161, replaced(), &[], Stopped),
        ],
    );
    assert_eq!((state.replacements(), state.memory().is_empty()), (1, true));
}

#[test]
fn a_process_that_does_not_stop_is_killed_once() {
    apply_table(
        &mut fresh(),
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (1, UnitEvent::Stop, &[Terminate], Stopping),
            (2, UnitEvent::Stop, &[], Stopping),
            (300, UnitEvent::Tick, &[], Stopping),
            (301, UnitEvent::Tick, &[Kill], Stopping),
            (302, UnitEvent::Tick, &[], Stopping),
            (303, killed(), &[], Stopped),
        ],
    );
}

#[test]
fn restart_waits_for_the_exit_and_the_last_order_wins() {
    apply_table(
        &mut fresh(),
        &[
            (0, UnitEvent::Restart, &[Spawn], Starting),
            (1, UnitEvent::Restart, &[Terminate], Stopping),
            (2, UnitEvent::Ended(Exit::Code(0), None), &[Spawn], Starting),
            (3, UnitEvent::Stop, &[Terminate], Stopping),
            (4, UnitEvent::Start, &[], Stopping),
            (5, UnitEvent::Ended(Exit::Code(0), None), &[Spawn], Starting),
            (6, UnitEvent::Restart, &[Terminate], Stopping),
            (7, UnitEvent::Stop, &[], Stopping),
            (8, UnitEvent::Ended(Exit::Code(0), None), &[], Stopped),
        ],
    );
}

#[test]
fn an_unresponsive_process_is_stopped_and_counts_as_a_crash() {
    let mut state = fresh();
    let missed = || UnitEvent::Missed("127.0.0.1:3779 did not answer within 10s".into());
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (1, UnitEvent::Proved, &[], Healthy),
            (2, missed(), &[], Healthy),
            (3, missed(), &[], Healthy),
            (4, UnitEvent::Proved, &[], Healthy),
            (5, missed(), &[], Healthy),
            (6, missed(), &[], Healthy),
            (7, missed(), &[Terminate], Stopping),
            (307, UnitEvent::Tick, &[Kill], Stopping),
            (308, killed(), &[Save], BackingOff),
        ],
    );
    assert!(state.reason().unwrap().starts_with("it stopped answering: 127.0.0.1"));
}

#[test]
fn a_failed_start_counts_as_a_crash() {
    let mut state = fresh();
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (0, UnitEvent::Launched, &[], Starting),
            (1_000, UnitEvent::Tick, &[Terminate], Stopping),
            (1_001, UnitEvent::Ended(Exit::Signal(15), None), &[Save], BackingOff),
            (1_101, UnitEvent::Tick, &[Spawn], Starting),
            (
                1_102,
                UnitEvent::NotSpawned(StartError { reason: "no such file".into(), lasting: None }),
                &[Save],
                BackingOff,
            ),
        ],
    );
    assert_eq!(state.reason(), Some("no such file"));
}

#[test]
fn an_aborted_start_ends_in_the_requested_state() {
    let given_up = || UnitEvent::NotSpawned(StartError { reason: "given up".into(), lasting: None });
    let mut state = fresh();
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (1, UnitEvent::Restart, &[Terminate], Stopping),
            (1, given_up(), &[Spawn], Starting),
            (2, UnitEvent::Stop, &[Terminate], Stopping),
            (2, given_up(), &[], Stopped),
        ],
    );
    assert_eq!((state.restarts(), state.reason(), state.memory().is_empty()), (0, None, true));
}

#[test]
fn the_start_deadline_counts_from_the_spawn() {
    let mut state = fresh();
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (2_900, UnitEvent::Tick, &[], Starting),
            (2_900, UnitEvent::Launched, &[], Starting),
            (3_899, UnitEvent::Tick, &[], Starting),
            (3_900, UnitEvent::Tick, &[Terminate], Stopping),
            (3_901, UnitEvent::Ended(Exit::Signal(15), None), &[Save], BackingOff),
        ],
    );
    assert_eq!(state.reason(), Some("it did not become healthy within 1 s"));
    let mut state = fresh();
    apply_table(
        &mut state,
        &[(0, UnitEvent::Begin, &[Spawn], Starting), (3_000, UnitEvent::Tick, &[Terminate], Stopping)],
    );
}

#[test]
fn a_permanent_prepare_error_is_not_retried() {
    let mut state = fresh();
    let refused = StartError { reason: "no key".into(), lasting: Some(Kind::Failed) };
    apply_table(
        &mut state,
        &[
            (0, UnitEvent::Begin, &[Spawn], Starting),
            (1, UnitEvent::NotSpawned(refused), &[], Failed),
            (90_000, UnitEvent::Tick, &[], Failed),
            (90_001, UnitEvent::Start, &[Spawn], Starting),
        ],
    );
}

/// Generates steps of the property test. The process can end only while it runs.
fn step() -> impl Strategy<Value = (i64, u8)> {
    (0_i64..2_000, 0_u8..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_order_of_events_breaks_the_invariants(steps in proptest::collection::vec(step(), 1..80)) {
        let limits = limits();
        let mut state = fresh();
        let (mut now, mut running, mut wanted) = (0, false, false);
        let mut by_itself: Vec<i64> = Vec::new();
        for (wait, choice) in steps {
            now += wait;
            let event = match choice {
                0 => UnitEvent::Begin,
                1 => UnitEvent::Start,
                2 => UnitEvent::Restart,
                3 => UnitEvent::Stop,
                4 => UnitEvent::Proved,
                5 => UnitEvent::Missed("m".into()),
                6 | 7 if running => killed(),
                8 if running => UnitEvent::Ended(Exit::Code(2), None),
                9 if running => UnitEvent::Ended(Exit::Code(1), None),
                _ => UnitEvent::Tick,
            };
            match event {
                UnitEvent::Start | UnitEvent::Restart | UnitEvent::Begin => wanted = true,
                UnitEvent::Stop => wanted = false,
                UnitEvent::Ended(..) => running = false,
                _ => {}
            }
            let asked = !matches!(event, UnitEvent::Tick);
            for action in state.on_event(event, now) {
                match action {
                    Spawn => {
                        prop_assert!(!running, "two at once");
                        prop_assert!(wanted, "started although it shall rest");
                        running = true;
                        if !asked {
                            by_itself.push(now);
                        }
                    }
                    Terminate | Kill => prop_assert!(running, "a signal to nobody"),
                    Save => {}
                }
            }
            if state.memory().is_empty() {
                by_itself.clear();
            }
            let spoken = matches!(state.phase(), UnitPhase::Starting { .. } | UnitPhase::Healthy { .. } | UnitPhase::Stopping { .. });
            prop_assert_eq!(spoken, running, "it runs if and only if the phase says so");
            by_itself.retain(|at| now - at <= limits.window);
            prop_assert!(by_itself.len() <= limits.crashes, "started too often within the window");
            if state.memory().is_open() {
                prop_assert!(!running, "nothing runs behind an open breaker");
            }
            // One tick must handle a deadline, or the supervisor's loop would spin.
            let mut probe = state.clone();
            if let Some(deadline) = probe.next_deadline() {
                let at = deadline.max(now);
                probe.on_event(UnitEvent::Tick, at);
                prop_assert!(probe.next_deadline().is_none_or(|next| next > at));
            }
        }
    }
}
