use super::*;

/// A Saturday afternoon in Berlin, an hour ahead of UTC.
fn now() -> Zoned {
    "2026-02-28T13:00:00+01:00[Europe/Berlin]".parse().unwrap()
}

fn read(text: &str, now: &Zoned) -> Option<String> {
    reset_at(text, now).map(|at| at.to_string())
}

#[test]
fn the_words_of_agent_programs_are_understood() {
    for (text, expected) in [
        // Claude Code, by its versions.
        ("Claude AI usage limit reached|1772290800", Some("2026-02-28T15:00:00Z")),
        ("5-hour limit reached ∙ resets 3pm", Some("2026-02-28T14:00:00Z")),
        (
            "Session limit reached ∙ resets 9:30pm /upgrade to increase your usage limit.",
            Some("2026-02-28T20:30:00Z"),
        ),
        ("Weekly limit reached ∙ resets Mar 6, 1pm", Some("2026-03-06T12:00:00Z")),
        ("You've hit your limit · resets 11pm (America/Anchorage)", Some("2026-03-01T08:00:00Z")),
        (
            "You’ve hit your session limit · resets 8:30pm (Asia/Tokyo) · progress saved",
            Some("2026-03-01T11:30:00Z"),
        ),
        ("You've hit your limit · resets 1:30am (Asia/Dhaka)", Some("2026-02-28T19:30:00Z")),
        ("You've hit your weekly limit · resets Jul 31, 2am (UTC)", Some("2026-07-31T02:00:00Z")),
        ("You've hit your weekly limit · resets Sep 15 at 7pm", Some("2026-09-15T17:00:00Z")),
        ("You've hit your Opus limit · resets Jan 2, 12am (UTC)", Some("2027-01-02T00:00:00Z")),
        (
            "Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).",
            Some("2026-02-28T18:00:00Z"),
        ),
        (
            "You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM.  View your usage details.",
            Some("2026-03-01T08:30:00Z"),
        ),
        // Version 2.1.330.
        ("You've hit your 5-hour limit · resets 8:53pm (UTC)", Some("2026-02-28T20:53:00Z")),
        ("Weekly limit reached", None),
        // Codex.
        ("You've hit your usage limit. Try again later.", None),
        (
            "You've hit your usage limit. Visit https://chatgpt.com/codex/settings/usage to purchase more credits or try \
             again at 3:28 PM.",
            Some("2026-02-28T14:28:00Z"),
        ),
        (
            "You've hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit \
             https://chatgpt.com/codex/settings/usage to purchase more credits or try again at Aug 8th, 2026 12:30 PM.",
            Some("2026-08-08T10:30:00Z"),
        ),
        ("You've hit your usage limit. Try again Aug 18.", Some("2026-08-17T22:00:00Z")),
        (
            "You've hit your usage limit. To get more access now, send a request to your admin or try again in 3 days 6 \
             hours 57 minutes.",
            Some("2026-03-03T18:57:00Z"),
        ),
        ("You've hit your usage limit. Try again in less than a minute.", Some("2026-02-28T12:01:00Z")),
        // Version 0.169.0.
        (
            "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit \
             https://chatgpt.com/settings/usage to purchase more credits or try again at 8:55 PM.",
            Some("2026-02-28T19:55:00Z"),
        ),
        // OpenCode's own subscription.
        ("5-hour usage limit reached. Resets in 2hr 10min", Some("2026-02-28T14:10:00Z")),
        ("Weekly usage limit reached. Resets in 19hr", Some("2026-03-01T07:00:00Z")),
        // Gemini CLI and Antigravity.
        (
            "You have exhausted your capacity on this model. Your quota will reset after 42h1m20s.",
            Some("2026-03-02T06:01:20Z"),
        ),
        (
            "You have reached the quota limit for this model. You can resume using this model at 2026-03-01T07:06:58Z.",
            Some("2026-03-01T07:06:58Z"),
        ),
        (
            "You exceeded your current quota, please check your plan and billing details. Please retry in 34.074824224s.",
            Some("2026-02-28T12:00:34.074824224Z"),
        ),
        // Cursor.
        (
            "You've hit your usage limit. Usage will reset when your monthly cycle ends on 9/23/2026.",
            Some("2026-09-22T22:00:00Z"),
        ),
        // APIs.
        ("The usage limit has been reached", None),
        ("insufficient_quota: You exceeded your current quota", None),
    ] {
        assert!(says_used_up(text), "{text}");
        assert_eq!(read(text, &now()).as_deref(), expected, "{text}");
    }
}

#[test]
fn a_rate_limit_names_its_time_without_being_used_up() {
    let text = "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, \
                Requested 2000. Please try again in 6m0s. Visit https://platform.openai.com/account/rate-limits.";
    assert!(!says_used_up(text));
    assert_eq!(wait(text, &now()), Some(Duration::from_secs(360)));
}

#[test]
fn other_errors_say_nothing_of_a_quota() {
    for text in [
        "ENOENT: no such file or directory",
        "Error: max turns reached",
        "the rate limiter in worker.js is wrong",
        "You've reached your context limit",
        "You've hit your output token limit",
        "You've hit your spend limit",
        "You've hit your head on the low ceiling, and no word of any kind follows about a limit",
        "maximum context length is 8192 tokens",
        "",
    ] {
        assert!(!says_used_up(text), "{text}");
        assert_eq!(signal(text, &now()), None);
    }
    for text in [
        "resets soon",
        "resets 3",
        "resets 25:00",
        "resets 13pm",
        "resets Feb 31, 3pm",
        "try again",
        "reset x|9",
    ] {
        assert_eq!(read(text, &now()), None, "{text}");
    }
}

#[test]
fn a_time_of_day_is_the_next_one_in_its_zone() {
    let at = |now: &str, text: &str| read(text, &now.parse().unwrap()).unwrap();
    let berlin = |time: &str| format!("2026-02-28T{time}:00+01:00[Europe/Berlin]");
    assert_eq!(at(&berlin("14:59"), "resets 3pm"), "2026-02-28T14:00:00Z");
    // Said a moment after the hour, it means this hour and not tomorrow's.
    assert_eq!(at(&berlin("15:05"), "resets 3pm"), "2026-02-28T14:00:00Z");
    assert_eq!(at(&berlin("15:30"), "resets 3pm"), "2026-03-01T14:00:00Z");
    assert_eq!(at(&berlin("23:50"), "resets 12am"), "2026-02-28T23:00:00Z");
    assert_eq!(at(&berlin("11:00"), "resets 12pm"), "2026-02-28T11:00:00Z");
    // In the night of 2026-03-29 the hour from 2 to 3 does not exist, and on 2026-10-25 it comes twice.
    assert_eq!(at("2026-03-28T23:00:00+01:00[Europe/Berlin]", "resets 2:30am"), "2026-03-29T01:30:00Z");
    assert_eq!(at("2026-10-25T00:00:00+02:00[Europe/Berlin]", "resets 2:30am"), "2026-10-25T00:30:00Z");
    assert_eq!(at("2026-03-28T23:00:00+01:00[Europe/Berlin]", "resets 9am"), "2026-03-29T07:00:00Z");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd(text in ".{0,200}", tail in "(resets|try again at|\\||reset after) ?[0-9a-z:/,. ()|]{0,30}") {
        let text = format!("{text} {tail}");
        let _ = (says_used_up(&text), reset_at(&text, &now()), wait(&text, &now()));
    }
}
