use super::*;

fn map(names: &[&'static str]) -> HeaderMap {
    names.iter().map(|name| (HeaderName::from_static(name), "x".parse().unwrap())).collect()
}

#[test]
fn no_credential_and_no_account_is_passed_on() {
    let sent = map(&[
        "x-api-key",
        "authorization",
        "x-goog-api-key",
        "api-key",
        "cookie",
        "proxy-authorization",
        "openai-organization",
        "openai-project",
        "chatgpt-account-id",
        "x-goog-user-project",
        "host",
        "connection",
        "content-length",
        "accept-encoding",
        "x-forwarded-for",
        "user-agent",
        "anthropic-workspace-id",
        "anthropic-user-profile-id",
        "anthropic-beta",
        "anthropic-version",
        "x-stainless-retry-count",
        "x-codex-window-id",
        "session-id",
        "session-id-2",
        "x-app",
        "x-claude-code-session-id",
        "x-session-affinity",
    ]);
    let passed = asked(&sent);
    let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let expected = [
        "anthropic-beta",
        "anthropic-version",
        "session-id",
        "x-app",
        "x-claude-code-session-id",
        "x-codex-window-id",
        "x-session-affinity",
        "x-stainless-retry-count",
    ];
    assert_eq!(names, expected);
}

#[test]
fn beta_features_that_reach_beyond_the_model_are_removed() {
    let betas = |values: &[&str]| {
        let mut sent = HeaderMap::new();
        for value in values {
            sent.append(BETA_HEADER, value.parse().unwrap());
        }
        let passed = asked(&sent);
        assert!(passed.get_all(BETA_HEADER).iter().count() <= 1);
        passed.get(BETA_HEADER).map(|value| value.to_str().unwrap().to_owned())
    };
    // Claude Code 2.1.330 and OpenCode 1.18.33 send these.
    let own = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,\
               thinking-token-count-2026-05-13,thinking-display-updates-2026-08-18";
    assert_eq!(betas(&[own]).as_deref(), Some(own));
    assert_eq!(betas(&["structured-outputs-2025-11-13"]).as_deref(), Some("structured-outputs-2025-11-13"));
    for out in [
        "files-api-2025-04-14",
        "mcp-client-2025-11-20",
        "code-execution-2025-08-25",
        "skills-2025-10-02",
        "fast-mode-2026-02-01",
        "Web-Fetch-2025-09-10",
        "server-side-fallback-2026-07-01",
        "message-threads-2026-08-12",
    ] {
        assert_eq!(betas(&[out]), None, "{out}");
        assert_eq!(betas(&[&format!("a-1, {out} ,b-2"), out, "c-3"]).as_deref(), Some("a-1,b-2,c-3"));
    }
    assert_eq!(betas(&[" , ,"]), None);
}

#[test]
fn an_answer_tells_nothing_of_the_account() {
    let sent = map(&[
        "content-type",
        "content-length",
        "content-encoding",
        "set-cookie",
        "anthropic-organization-id",
        "openai-organization",
        "x-ratelimit-remaining-tokens",
        "request-id",
    ]);
    let passed = answered(&sent);
    let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "request-id", "x-ratelimit-remaining-tokens"]);
}
