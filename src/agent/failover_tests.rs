use super::*;

fn model(name: &str) -> ModelRef {
    format!("lab/{name}").parse().unwrap()
}

fn status(status: u16, message: &str) -> TurnError {
    ProviderError::from_status("lab", status, message, None).into()
}

#[test]
fn each_error_has_its_class_decision_and_cooldown() {
    let wait = Duration::from_secs(90);
    let limited = ProviderError::from_status("lab", 429, "slow", Some(wait)).into();
    let silent = ProviderError::TimedOut { provider: "lab".into(), after: wait }.into();
    let garbled = ProviderError::Garbled { provider: "lab".into(), message: "?".into() }.into();
    let missing = ProviderError::NotConfigured {
        provider: "lab".into(),
        model: "lab/a".into(),
        reason: "no key".into(),
        hint: String::new(),
    };
    let (next, end) = (FailoverDecision::Next, FailoverDecision::GiveUp);
    // The error, its class, the decision if there is another model, and the cooldown of the model.
    for (error, expected, decision, rests) in [
        (missing.into(), Some(ModelFailure::Missing), next, None),
        (status(401, "no"), Some(ModelFailure::Refused), next, Some(300)),
        (status(403, "no"), Some(ModelFailure::Refused), next, Some(300)),
        (status(402, "no credits"), Some(ModelFailure::Limited(None)), next, Some(30)),
        (status(429, "slow down"), Some(ModelFailure::Limited(None)), next, Some(30)),
        (status(408, "too slow"), Some(ModelFailure::Down), next, Some(30)),
        (status(404, "no such model"), Some(ModelFailure::Missing), next, None),
        (limited, Some(ModelFailure::Limited(Some(wait))), next, Some(90)),
        (status(529, "busy"), Some(ModelFailure::Limited(None)), next, Some(30)),
        (status(500, "oops"), Some(ModelFailure::Down), next, Some(30)),
        (status(503, "oops"), Some(ModelFailure::Down), next, Some(30)),
        (silent, Some(ModelFailure::Down), next, Some(30)),
        (garbled, Some(ModelFailure::Down), next, Some(30)),
        (status(400, "prompt is too long: 200001 tokens"), Some(ModelFailure::TooLong), next, None),
        (
            TurnError::TooLong { tokens: 2, window: 1, room: 1, model: model("a") },
            Some(ModelFailure::TooLong),
            next,
            None,
        ),
        (status(400, "tools: pattern"), None, end, None),
        (TurnError::Cancelled, None, end, None),
        (TurnError::TimedOut(wait), None, end, None),
        (TurnError::Steps(3), None, end, None),
    ] {
        let trouble = trouble(&error);
        assert_eq!(trouble, expected, "{error}");
        assert_eq!(decide(trouble, false, 1), decision, "{error}");
        assert_eq!(decide(trouble, true, 1), end, "{error}: something was shown already");
        assert_eq!(decide(trouble, false, 0), end, "{error}: nobody else is there");
        assert_eq!(trouble.and_then(|trouble| rest(trouble, 1)), rests.map(Duration::from_secs), "{error}");
    }
}

/// Otherwise the turn would end before another model is asked.
#[test]
fn silence_times_out_before_the_turn_does() {
    let (limits, turn) =
        (crate::provider::http::HttpLimits::default(), crate::agent::TurnLimits::default().wall);
    assert!(limits.first_byte * 4 < turn && limits.near_first_byte + limits.first_byte < turn);
    assert!(limits.idle * 2 <= turn);
}

#[test]
fn cooldowns_double_up_to_an_hour() {
    let seconds = |failures| rest(ModelFailure::Down, failures).unwrap().as_secs();
    assert_eq!([1, 2, 3, 4].map(seconds), [30, 60, 120, 240]);
    assert_eq!(seconds(u32::MAX), 3_600);
    assert_eq!(rest(ModelFailure::Limited(Some(Duration::MAX)), 1), Some(MAX_COOLDOWN));
}

#[test]
fn a_failed_model_is_asked_last_until_its_cooldown_ends() {
    let cooldowns = Cooldowns::default();
    let [a, b, c] = ["a", "b", "c"].map(model);
    let order = |now| -> Vec<ModelRef> { cooldowns.order([&a, &b, &c].into_iter(), now).into() };
    assert_eq!(order(0), [a.clone(), b.clone(), c.clone()]);
    cooldowns.failed(&a, ModelFailure::Down, 0);
    assert_eq!(order(29_999), [b.clone(), c.clone(), a.clone()]);
    assert_eq!(order(30_000), [a.clone(), b.clone(), c.clone()], "its rest is over");
    cooldowns.failed(&a, ModelFailure::Down, 30_000);
    assert_eq!(order(89_999)[2], a, "the second rest is twice as long");
    cooldowns.failed(&b, ModelFailure::Refused, 30_000);
    cooldowns.failed(&c, ModelFailure::Down, 30_000);
    assert_eq!(order(31_000), [c.clone(), a.clone(), b.clone()], "all rest: the soonest first");
    cooldowns.answered(&b);
    assert_eq!(order(31_000)[0], b);
    cooldowns.failed(&b, ModelFailure::TooLong, 31_000);
    assert_eq!(order(31_000)[0], b, "a long conversation is no reason to pass it over");
}

#[test]
fn remembered_models_are_bounded() {
    let cooldowns = Cooldowns::default();
    for at in 0..1_000 {
        cooldowns.failed(&model(&at.to_string()), ModelFailure::Down, 0);
    }
    assert_eq!(lock(&cooldowns.0).len(), MAX_REMEMBERED);
    cooldowns.failed(&model("late"), ModelFailure::Down, 1_000_000);
    assert_eq!(lock(&cooldowns.0).len(), 1);
}

#[test]
fn a_model_with_a_context_that_was_too_small_is_not_asked() {
    let mut queue = ModelQueue::new(["a", "b", "c", "d"].map(model).into());
    assert_eq!(queue.pop(), Some(model("a")));
    assert!(queue.admit(100), "nothing is known yet");
    assert_eq!(queue.failed(Some(ModelFailure::TooLong), 100, false), FailoverDecision::Next);
    assert_eq!(queue.pop(), Some(model("b")));
    assert!(!queue.admit(100) && !queue.admit(50) && queue.admit(200));
    assert!(!queue.admit(150), "the last one was larger");
    assert_eq!(queue.failed(Some(ModelFailure::Down), 200, false), FailoverDecision::Next);
    assert!(queue.admit(50), "the last model did not fail for the length");
    assert_eq!(queue.failed(None, 50, false), FailoverDecision::GiveUp);
    assert_eq!(queue.failed(Some(ModelFailure::Down), 50, true), FailoverDecision::GiveUp);
}
