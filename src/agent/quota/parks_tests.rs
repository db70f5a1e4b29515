use proptest::prelude::*;

use super::*;

fn credential() -> Credential {
    Credential { id: "key:1".to_owned(), name: "lab".to_owned() }
}

fn model(name: &str) -> ModelRef {
    format!("lab/{name}").parse().unwrap()
}

fn refuse(parks: &mut Parks, name: &str, wait: Option<i64>, probe: Option<u64>, now: i64) -> i64 {
    let (credential, model) = (credential(), model(name));
    let refusal = Refusal { credential: &credential, model: &model, wait, reason: "used up", probe };
    parks.refused(&refusal, now).until
}

fn admit(parks: &mut Parks, name: &str, now: i64) -> Admission {
    parks.admit("key:1", &model(name), now)
}

#[test]
fn replaced_parks_are_named_and_their_probes_go_on() {
    let mut parks = Parks::default();
    refuse(&mut parks, "a", Some(HOUR), None, 0);
    refuse(&mut parks, "b", Some(HOUR), None, 0);
    assert_eq!(admit(&mut parks, "a", HOUR), Admission::Probe(1));
    let kept = parks.find("key:1", &model("b")).unwrap().clone();
    let over = parks.replace(vec![kept.clone()]);
    assert_eq!(over.iter().map(|park| park.model.clone()).collect::<Vec<_>>(), [model("a")]);
    // The answer to the call that is under way tells of the other model, too.
    assert_eq!(parks.answered(1, HOUR), [kept]);
}

#[test]
fn a_park_of_a_clock_that_is_ahead_keeps_its_time() {
    let mut parks = Parks::shared(6 * MINUTE);
    let until = refuse(&mut parks, "a", Some(HOUR), None, 5 * MINUTE);
    // Another gateway has noted it, whose clock is five minutes ahead.
    assert_eq!(admit(&mut parks, "a", 0), Admission::Wait(until));
    assert_eq!(parks.list().next().unwrap().noted, 5 * MINUTE);
    // No clock is that far ahead, so this one was set back.
    assert_eq!(admit(&mut parks, "a", -2 * MINUTE), Admission::Wait(HOUR - 2 * MINUTE));
}

#[test]
fn one_probe_at_the_reset_decides_for_all() {
    let mut parks = Parks::default();
    assert_eq!(admit(&mut parks, "a", 0), Admission::Free);
    assert_eq!(refuse(&mut parks, "a", Some(HOUR), None, 0), HOUR);
    assert_eq!(admit(&mut parks, "a", HOUR - 1), Admission::Wait(HOUR));
    assert_eq!(admit(&mut parks, "a", HOUR), Admission::Probe(1));
    for _ in 0..20 {
        assert_eq!(admit(&mut parks, "a", HOUR), Admission::Wait(HOUR + GIVE_UP_WAIT));
    }
    // Still used up: parked again to the new time, and then one probe again.
    assert_eq!(refuse(&mut parks, "a", Some(2 * HOUR), Some(1), HOUR), 3 * HOUR);
    assert_eq!(admit(&mut parks, "a", 3 * HOUR - 1), Admission::Wait(3 * HOUR));
    assert_eq!(admit(&mut parks, "a", 3 * HOUR), Admission::Probe(2));
    assert_eq!(parks.answered(2, 3 * HOUR).len(), 1);
    assert_eq!(admit(&mut parks, "a", 3 * HOUR), Admission::Free);
}

#[test]
fn another_model_of_the_credential_is_tried_once_and_resumed_with_it() {
    let mut parks = Parks::default();
    refuse(&mut parks, "a", Some(HOUR), None, 0);
    assert_eq!(admit(&mut parks, "b", 1), Admission::Free);
    refuse(&mut parks, "b", Some(HOUR), None, 1);
    refuse(&mut parks, "c", Some(5 * HOUR), None, 1);
    assert_eq!(admit(&mut parks, "b", 2), Admission::Wait(HOUR + 1));
    assert_eq!(admit(&mut parks, "b", HOUR + 1), Admission::Probe(1));
    assert!(matches!(admit(&mut parks, "a", HOUR + 1), Admission::Wait(_)), "one probe for the credential");
    assert_eq!(parks.answered(1, HOUR + 2).len(), 2);
    assert_eq!(admit(&mut parks, "a", HOUR + 2), Admission::Free);
    assert_eq!(admit(&mut parks, "c", HOUR + 2), Admission::Wait(5 * HOUR + 1), "its own window goes on");
}

#[test]
fn calls_that_were_under_way_together_count_once() {
    let mut parks = Parks::default();
    for at in 0..20 {
        refuse(&mut parks, "a", None, None, at);
    }
    assert_eq!(parks.list().next().unwrap().refusals, 1);
    assert_eq!(admit(&mut parks, "a", FIRST_WAIT), Admission::Wait(FIRST_WAIT + 19));
}

#[test]
fn waits_without_a_time_grow_up_to_a_limit() {
    let mut parks = Parks::default();
    let (mut now, mut waits) = (0, Vec::new());
    let mut until = refuse(&mut parks, "a", None, None, now);
    for _ in 0..6 {
        waits.push((until - now) / MINUTE);
        now = until;
        let Admission::Probe(number) = admit(&mut parks, "a", now) else { panic!("no probe") };
        until = refuse(&mut parks, "a", None, Some(number), now);
    }
    assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
}

#[test]
fn a_time_that_has_come_is_not_believed_for_ever() {
    let mut parks = Parks::default();
    let (mut now, mut waits) = (0, Vec::new());
    let mut until = refuse(&mut parks, "a", Some(0), None, now);
    for _ in 0..9 {
        waits.push((until - now) / SECOND);
        now = until;
        let Admission::Probe(number) = admit(&mut parks, "a", now) else { panic!("no probe") };
        until = refuse(&mut parks, "a", Some(0), Some(number), now);
    }
    assert_eq!(waits, [0, 5, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn no_park_is_longer_than_eight_days_also_if_the_clock_is_set_back() {
    let mut parks = Parks::default();
    let year = 365 * 24 * HOUR;
    assert_eq!(refuse(&mut parks, "a", Some(9 * year), None, 10 * year), 10 * year + MAX_WAIT);
    // The clock is set back by nine years: the wait begins anew, and is no longer than it was.
    assert_eq!(admit(&mut parks, "a", year), Admission::Wait(year + MAX_WAIT));
    assert!(matches!(admit(&mut parks, "a", year + MAX_WAIT), Admission::Probe(_)));
}

#[test]
fn a_probe_that_tells_nothing_is_repeated_soon_by_another() {
    let mut parks = Parks::default();
    refuse(&mut parks, "a", Some(HOUR), None, 0);
    assert_eq!(admit(&mut parks, "a", HOUR), Admission::Probe(1));
    assert_eq!(parks.gave_up(1, HOUR).unwrap().until, HOUR + GIVE_UP_WAIT);
    assert_eq!(parks.gave_up(1, HOUR), None);
    assert_eq!(parks.answered(1, HOUR), [], "a probe ends once");
    assert_eq!(admit(&mut parks, "a", HOUR + GIVE_UP_WAIT), Admission::Probe(2));
}

#[test]
fn a_person_makes_the_time_come() {
    let mut parks = Parks::default();
    refuse(&mut parks, "a", Some(HOUR), None, 0);
    assert!(parks.resume(|park| park.credential.name == "other", 5).is_empty());
    assert_eq!(parks.resume(|park| park.credential.name == "lab", 5).len(), 1);
    assert_eq!(admit(&mut parks, "a", 5), Admission::Probe(1));
    assert!(matches!(admit(&mut parks, "a", 5), Admission::Wait(_)));
    assert_eq!(parks.retain(|_| false).len(), 1);
    assert_eq!(parks.answered(1, 6), [], "a park of a key that is gone");
}

/// An event that may happen.
#[derive(Clone, Debug)]
enum Step {
    Pass(i64),
    SetBack(i64),
    /// An agent's turn wants to ask.
    Ask,
    /// The provider answers the oldest call that is under way.
    Answer,
    /// The oldest call is stopped.
    Stop,
    Resume,
    /// The gateway is killed and started again.
    Kill,
    /// The provider's quota is used up from now on for this time, and it names the time or not.
    UseUp(i64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2 * HOUR).prop_map(Step::Pass),
        1 => (0..400 * 24 * HOUR).prop_map(Step::SetBack),
        12 => Just(Step::Ask),
        10 => Just(Step::Answer),
        1 => Just(Step::Stop),
        1 => Just(Step::Resume),
        1 => Just(Step::Kill),
        2 => (0..20 * HOUR, any::<bool>()).prop_map(|(time, named)| Step::UseUp(time, named)),
    ]
}

/// The rule in other words than the machine's: nothing may be asked from a refusal on until the time that was told, and then
/// one call only.
#[derive(Default)]
struct Rule {
    /// Monotonic time at which the next call may be made, if something was refused.
    closed_until: Option<i64>,
    probing: bool,
}

proptest! {
    #[test]
    fn the_parks_never_ask_too_early_nor_twice_and_always_ask_again(steps in prop::collection::vec(step(), 1..120)) {
        let (mut parks, mut rule) = (Parks::default(), Rule::default());
        // The machine's clock may be set back. The provider's own time does not.
        let (mut wall, mut real) = (1_000 * 24 * HOUR, 0_i64);
        let (mut used_up_until, mut named) = (0_i64, true);
        let mut calls: std::collections::VecDeque<Option<u64>> = std::collections::VecDeque::new();
        for step in steps {
            match step {
                Step::Pass(time) => { wall += time; real += time; }
                Step::SetBack(time) => {
                    wall -= time;
                    // The machine notices at the next look. From then on it may wait for the whole time again.
                    let _ = parks.blocked("key:1", &model("a"), wall);
                    if let (Some(until), Some(park)) = (rule.closed_until, parks.list().next()) {
                        prop_assert!(park.until - wall <= MAX_WAIT);
                        rule.closed_until = Some(until.max(real));
                    }
                }
                Step::UseUp(time, names) => { used_up_until = real + time; named = names; }
                Step::Ask => match admit(&mut parks, "a", wall) {
                    Admission::Free => {
                        prop_assert_eq!(rule.closed_until, None, "asked while parked");
                        calls.push_back(None);
                    }
                    Admission::Probe(number) => {
                        prop_assert!(!rule.probing, "two probes");
                        prop_assert!(rule.closed_until.is_some_and(|until| until <= real), "asked too early");
                        rule.probing = true;
                        calls.push_back(Some(number));
                    }
                    Admission::Wait(until) => {
                        prop_assert!(rule.closed_until.is_some(), "held for nothing");
                        prop_assert!(until > wall && until - wall <= MAX_WAIT, "{}", until - wall);
                    }
                },
                Step::Answer => {
                    let Some(probe) = calls.pop_front() else { continue };
                    if probe.is_some() { rule.probing = false; }
                    if real < used_up_until {
                        let wait = named.then_some(used_up_until - real);
                        let until = refuse(&mut parks, "a", wait, probe, wall);
                        prop_assert!(until - wall <= MAX_WAIT);
                        rule.closed_until = Some(real + (until - wall));
                    } else if let Some(number) = probe {
                        prop_assert_eq!(parks.answered(number, wall).len(), 1);
                        rule.closed_until = None;
                    }
                }
                Step::Stop => {
                    let Some(probe) = calls.pop_front() else { continue };
                    if let Some(number) = probe {
                        prop_assert!(parks.gave_up(number, wall).is_some());
                        (rule.probing, rule.closed_until) = (false, Some(real + GIVE_UP_WAIT));
                    }
                }
                Step::Resume => {
                    if !parks.resume(|_| true, wall).is_empty() {
                        rule.closed_until = Some(real.min(rule.closed_until.unwrap_or(real)));
                    }
                }
                Step::Kill => {
                    let stored: Vec<Park> = parks.list().cloned().collect();
                    parks = Parks::default();
                    parks.restore(stored);
                    calls.clear();
                    rule.probing = false;
                }
            }
        }
        // However it came: once the quota is there again, a call is answered within the longest wait.
        for probe in calls.drain(..).flatten() {
            parks.gave_up(probe, wall);
        }
        used_up_until = used_up_until.min(real);
        prop_assert!(used_up_until <= real);
        wall += MAX_WAIT;
        match admit(&mut parks, "a", wall) {
            Admission::Free => {}
            Admission::Probe(number) => prop_assert_eq!(parks.answered(number, wall).len(), 1),
            Admission::Wait(_) => prop_assert!(false, "parked for ever"),
        }
        prop_assert_eq!(admit(&mut parks, "a", wall), Admission::Free);
    }
}
