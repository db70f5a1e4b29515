use super::*;
use crate::provider::Usage;
use crate::runtime::PauseReason;

const NAME: &str = "Program";

fn failed(status: Option<u16>) -> RunOutcome {
    RunOutcome::Failed { status, message: "said".to_owned() }
}

fn kind(ended: RunOutcome, begun: bool, count: Count) -> &'static str {
    match of(NAME, ended, &RunObservations { begun, ..RunObservations::default() }, Some(&count)) {
        Ok(_) => "well",
        Err(RuntimeError::NoAnswer { .. }) => "passing",
        Err(RuntimeError::Refused { .. }) => "refused",
        Err(RuntimeError::Failed { .. }) => "failed",
        Err(RuntimeError::Interrupted { .. }) => "interrupted",
        Err(RuntimeError::Unanswered { .. }) => "unanswered",
        Err(RuntimeError::Paused { .. }) => "paused",
        Err(_) => "other",
    }
}

#[test]
fn the_error_depends_on_status_and_progress() {
    let saw = |status| Count { refused: Some((status, "no".to_owned())), ..Count::default() };
    let none = Count::default;
    for (status, wanted, begun) in [
        (0, "passing", "unanswered"),
        (408, "passing", "unanswered"),
        (429, "passing", "unanswered"),
        (503, "passing", "unanswered"),
        (401, "refused", "failed"),
        (404, "refused", "failed"),
    ] {
        assert_eq!(kind(failed(None), false, saw(status)), wanted, "{status}");
        assert_eq!(kind(failed(Some(status)), false, none()), wanted, "{status}");
        assert_eq!(kind(failed(Some(status)), true, saw(status)), begun, "{status}");
        assert_eq!(kind(failed(Some(status)), true, none()), begun, "{status}");
    }
    assert_eq!(kind(failed(Some(401)), false, saw(503)), "passing", "the relay knows better");
    assert_eq!(kind(failed(Some(429)), false, Count { answered: 1, ..none() }), "unanswered");
    assert_eq!(kind(failed(None), false, none()), "failed");
    let broken = || RunOutcome::Broken { message: "killed".to_owned() };
    assert_eq!(kind(broken(), false, none()), "failed");
    assert_eq!(kind(broken(), true, none()), "interrupted");
    assert_eq!(kind(broken(), false, saw(500)), "passing");
    assert_eq!(kind(broken(), true, saw(500)), "unanswered");
    assert_eq!(kind(broken(), true, saw(400)), "interrupted");
    assert_eq!(kind(RunOutcome::Unknown, false, none()), "failed");
}

#[test]
fn a_stop_after_the_start_is_an_interruption() {
    let away = || RuntimeError::NotRunning {
        program: NAME.to_owned(),
        reason: "gone".to_owned(),
        hint: "start it".to_owned(),
    };
    let (silent, said) =
        (RunObservations::default(), RunObservations { begun: true, ..RunObservations::default() });
    let asked = Count { answered: 1, ..Count::default() };
    assert_eq!(stopped(away(), &silent, Some(&Count::default())), away());
    assert_eq!(stopped(away(), &silent, None), away());
    for (seen, calls) in [(&said, None), (&silent, Some(&asked)), (&said, Some(&asked))] {
        let error = stopped(away(), seen, calls);
        assert!(matches!(error, RuntimeError::Interrupted { .. }), "{error:?}");
        assert_eq!(crate::error::Explain::hint(&error).as_deref(), Some("start it"));
    }
}

#[test]
fn budget_refusals_pause_and_settings_refusals_fail() {
    let count = |forbidden| Count {
        forbidden: Some(forbidden),
        refused: Some((429, "x".to_owned())),
        ..Count::default()
    };
    let why = || PauseReason::PersonRemoved("ann".to_owned());
    let paused = || count(CallRefusal::Paused { why: why(), call: (1, 2) });
    for begun in [false, true] {
        for ended in [failed(Some(429)), RunOutcome::Broken { message: "killed".to_owned() }] {
            let error =
                of(NAME, ended, &RunObservations { begun, ..RunObservations::default() }, Some(&paused()))
                    .unwrap_err();
            assert_eq!(error, RuntimeError::Paused { why: why(), call: (1, 2) });
        }
    }
    let settings = count(CallRefusal::Settings("no such agent".to_owned()));
    let Err(RuntimeError::Failed { message, .. }) =
        of(NAME, failed(Some(429)), &RunObservations::default(), Some(&settings))
    else {
        panic!()
    };
    assert_eq!(message, "no such agent");
    assert_eq!(kind(RunOutcome::Well { cut: false }, true, paused()), "well", "it did without");
}

#[test]
fn the_relay_count_is_charged() {
    let own = Usage { input: 1, ..Usage::default() };
    let relayed = Usage { input: 2, ..Usage::default() };
    let seen = RunObservations { begun: true, usage: Some(own), ..RunObservations::default() };
    let count = Count { usage: relayed, ..Count::default() };
    let well = || RunOutcome::Well { cut: true };
    assert_eq!(
        of(NAME, well(), &seen, Some(&count)),
        Ok(RuntimeReply { stop: StopReason::Length, usage: Some(relayed) })
    );
    assert_eq!(of(NAME, well(), &seen, None).unwrap().usage, Some(own));
}

#[test]
fn a_good_end_without_a_word_and_without_a_model_is_a_failure() {
    let silent = RunObservations::default();
    let end = |calls: &Count| of(NAME, RunOutcome::Well { cut: false }, &silent, Some(calls));
    let Err(RuntimeError::Failed { message, .. }) = end(&Count::default()) else { panic!() };
    assert!(message.contains("no model"), "{message}");
    let refused = Count { refused: Some((401, "no such key".to_owned())), ..Count::default() };
    let Err(RuntimeError::Refused { status: 401, message, .. }) = end(&refused) else { panic!() };
    assert_eq!(message, "no such key");
    assert!(end(&Count { answered: 1, ..Count::default() }).is_ok(), "a model may have nothing to say");
}
