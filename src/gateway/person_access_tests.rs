use serde_json::json;

use super::*;

fn person(role: PersonRole, agents: Option<&[&str]>, channels: Option<&[&str]>) -> Person {
    Person {
        name: "ann".to_owned(),
        role,
        agents: agents.map(|ids| ids.iter().map(|id| id.parse().unwrap()).collect()),
        channels: channels.map(|ids| ids.iter().map(|id| id.parse().unwrap()).collect()),
        day_tokens: None,
        day_cost: None,
        added_by: "human:owner".to_owned(),
        added_at: 0,
        removed_at: None,
        oidc: None,
    }
}

fn code(person: &Person, method: &Method, path: &str) -> Option<String> {
    check(person, method, path).err().map(|error| error.code.into_owned())
}

#[test]
fn a_person_with_limits_reaches_only_what_is_theirs() {
    let ann = person(PersonRole::Operator, Some(&["coder"]), Some(&["dev"]));
    assert_eq!(code(&ann, &Method::POST, "/api/agents/coder/freeze"), None);
    for path in ["/api/agents/tester/freeze", "/api/agents/c%6fder/freeze", "/api/agents/none/thaw"] {
        assert_eq!(code(&ann, &Method::POST, path).as_deref(), Some("agent_not_found"), "{path}");
    }
    for path in ["/api/freeze", "/api/agents", "/api/channels", "/api/schedules", "/api/agents/coder/fork"] {
        assert_eq!(code(&ann, &Method::POST, path).as_deref(), Some("out_of_scope"), "{path}");
    }
    for path in ["/api/status", "/api/audit", "/api/usage", "/api/projects", "/metrics"] {
        assert_eq!(code(&ann, &Method::GET, path).as_deref(), Some("out_of_scope"), "{path}");
    }
    for path in ["/api/search", "/api/channels", "/api/sessions", "/api/usage/budgets", "/api/events"] {
        assert_eq!(code(&ann, &Method::GET, path), None, "{path}");
    }
    let all = person(PersonRole::Operator, None, None);
    assert_eq!(code(&all, &Method::POST, "/api/freeze"), None);
    assert_eq!(code(&all, &Method::GET, "/api/audit"), None);
}

#[test]
fn a_hidden_agent_and_an_unknown_one_are_refused_alike() {
    let ann = person(PersonRole::Operator, Some(&["coder"]), None);
    let told = |path: &str| check(&ann, &Method::POST, path).unwrap_err();
    let (hidden, unknown) = (told("/api/agents/tester/freeze"), unknown_agent("tester"));
    assert_eq!(
        (hidden.status, &hidden.code, &hidden.message, &hidden.hint),
        (unknown.status, &unknown.code, &unknown.message, &unknown.hint)
    );
}

#[test]
fn the_sessions_that_others_have_are_read_by_the_owner_alone() {
    let sessions = [
        // The session, and whether owner, operator and member read it.
        ("agent:coder:flock:main:ann", [true, true, true]),
        ("agent:coder:flock:request:person:ann:1", [true, true, true]),
        ("agent:coder:flock:dm:human:ann", [true, true, true]),
        ("agent:coder:flock:channel:dev", [true, true, true]),
        ("agent:coder:flock:dm:tester", [true, true, false]),
        ("agent:coder:flock:main:bob", [true, false, false]),
        ("agent:coder:flock:main:token:ci", [true, false, false]),
        ("agent:coder:flock:request:person:bob:1", [true, false, false]),
        ("agent:coder:flock:request:0192", [true, false, false]),
        ("agent:coder:flock:dm:human:bob", [true, false, false]),
        ("agent:coder:flock:dm:a2a:person:bob:1", [true, false, false]),
    ];
    for (key, seen) in sessions {
        let key = key.parse().unwrap();
        let found = [PersonRole::Owner, PersonRole::Operator, PersonRole::Member]
            .map(|role| sees_session(&person(role, None, None), &key));
        assert_eq!(found, seen, "{key}");
        let viewer = sees_session(&person(PersonRole::Viewer, None, None), &key);
        assert_eq!(viewer, seen[2], "a viewer reads what a member reads: {key}");
    }
    let ann = person(PersonRole::Operator, Some(&["coder"]), Some(&["Dev"]));
    for (key, seen) in [
        ("agent:coder:flock:channel:dev", true),
        ("agent:coder:flock:channel:ops", false),
        ("agent:tester:flock:channel:dev", false),
        ("agent:tester:flock:main:ann", false),
        ("agent:coder:flock:dm:tester", false),
    ] {
        assert_eq!(sees_session(&ann, &key.parse().unwrap()), seen, "{key}");
    }
}

#[test]
fn turns_are_only_in_sessions_of_the_own() {
    for role in PersonRole::ALL {
        let ann = person(role, None, None);
        for (key, own) in [
            ("agent:coder:flock:main:ann", true),
            ("agent:coder:flock:main:Ann", true),
            ("agent:coder:flock:main:person:ann:notes", true),
            ("agent:coder:flock:request:person:ann:x", true),
            ("agent:coder:flock:main:bob", false),
            ("agent:coder:flock:main:ann:x", false),
            ("agent:coder:flock:request:ann", false),
            ("agent:coder:flock:dm:human:ann", false),
            ("agent:coder:flock:channel:dev", false),
            ("agent:coder:flock:request:person:anna:x", false),
        ] {
            assert_eq!(ann.owns(&key.parse().unwrap()), own, "{key}");
        }
    }
}

#[test]
fn an_event_is_shown_for_all_that_it_names() {
    let ann = person(PersonRole::Member, Some(&["coder"]), Some(&["dev"]));
    for (data, seen) in [
        (json!({}), true),
        (json!({"agent": "coder"}), true),
        (json!({"agent": "tester"}), false),
        (json!({"turn": "x", "agent": "coder", "session": "agent:coder:flock:main:ann"}), true),
        (json!({"turn": "x", "agent": "coder", "session": "agent:coder:flock:main:bob"}), false),
        (json!({"channel": "dev", "seq": 1, "author": "tester"}), true),
        (json!({"channel": "ops", "seq": 1, "author": "coder"}), false),
        (json!({"task": "t", "assignee": "coder", "requester": "a2a:human:ann"}), true),
        (json!({"task": "t", "assignee": "coder", "requester": "a2a:human:bob"}), false),
        (json!({"task": "t", "assignee": "coder", "requester": "tester"}), false),
        (json!({"project": "p"}), false),
        (json!({"agent": null, "by": "human:bob"}), false),
    ] {
        assert_eq!(sees_event(&ann, &data), seen, "{data}");
    }
    let all = person(PersonRole::Viewer, None, None);
    assert!(!sees_event(&all, &json!({"turn": "x", "session": "agent:coder:flock:main:bob"})));
    let owner = person(PersonRole::Owner, None, None);
    assert!(sees_event(&owner, &json!({"turn": "x", "session": "agent:coder:flock:main:bob"})));
}

#[test]
fn an_event_about_a_project_is_shown_to_nobody_with_limits() {
    let submitted = json!({"project": "p", "submission": 1, "state": "merged", "agent": "coder"});
    for data in [json!({"project": "p"}), submitted] {
        for role in [PersonRole::Operator, PersonRole::Member, PersonRole::Viewer] {
            for limited in [person(role, Some(&["coder"]), None), person(role, None, Some(&["dev"]))] {
                assert!(!sees_event(&limited, &data), "{role:?} {data}");
            }
            assert!(sees_event(&person(role, None, None), &data), "{role:?} {data}");
        }
    }
}

#[test]
fn a_member_decides_nothing_red() {
    for (role, levels) in [
        (PersonRole::Owner, [true, true, true]),
        (PersonRole::Operator, [true, true, true]),
        (PersonRole::Member, [true, true, false]),
        (PersonRole::Viewer, [false, false, false]),
    ] {
        assert_eq!([Level::Green, Level::Yellow, Level::Red].map(|level| may_decide(role, level)), levels);
    }
}
