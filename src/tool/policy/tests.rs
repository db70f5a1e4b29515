use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::Role;
use crate::sandbox::testing::agent as any_agent;
use crate::tool::catalog;

fn agent(allow: &[&str], deny: &[&str]) -> Agent {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    Agent { allow: texts(allow), deny: texts(deny), ..any_agent("coder", "/nowhere/coder".into()) }
}

fn allowed(agent: &Agent, tool: &str) -> bool {
    decide(agent, tool, &json!({})) == Decision::Allow
}

#[test]
fn allow_and_deny_lists_decide_calls() {
    // Columns: allow list, deny list, tool, expected to run.
    let table: &[(&[&str], &[&str], &str, bool)] = &[
        (&[], &[], "read", false),
        (&["read"], &[], "read", true),
        (&["read"], &[], "reader", false),
        (&["read"], &[], "READ", false),
        (&["read"], &["read"], "read", false),
        (&["*"], &[], "anything", true),
        (&["*"], &["exec"], "exec", false),
        (&["*"], &["exec"], "process", true),
        (&["*"], &["bash"], "exec", false),
        (&["bash"], &[], "exec", true),
        (&["*"], &["apply-patch"], "apply_patch", false),
        (&["group:fs"], &[], "read", true),
        (&["group:fs"], &[], "apply_patch", true),
        (&["group:fs"], &[], "exec", false),
        (&["group:fs"], &[], "image", false),
        (&["group:runtime"], &[], "process", true),
        (&["group:sessions"], &[], "session_status", true),
        (&["group:sessions"], &[], "sessions_spawn", true),
        (&["group:sessions"], &["sessions_*"], "sessions_spawn", false),
        (&["group:sessions"], &["sessions_*"], "session_status", true),
        (&["group:plugins"], &[], "flock_status", true),
        (&["group:plugins"], &[], "exec", false),
        (&["flock_*"], &[], "flock_channel_post", true),
        (&["flock_*"], &[], "flock", false),
        (&["flock_*"], &[], "flock_read_skill", true),
        (&["flock_*"], &["read_skill"], "flock_read_skill", false),
        (&["group:all"], &["group:fs"], "edit", false),
        (&["group:all"], &["group:fs"], "exec", true),
        (&["group:memory", "group:web"], &[], "read", false),
        (&["r*d"], &[], "read", true),
        (&["r*d"], &[], "rd", true),
        (&["r*d"], &[], "reads", false),
        (&["*s*s*"], &[], "sessions_list", true),
        // An invalid pattern in the allow list has no effect. In the deny list it denies everything.
        (&["Read", "group:typo", "re ad", ""], &[], "read", false),
        (&["Read", "read"], &[], "read", true),
        (&["*"], &["Exec"], "read", false),
        (&["*"], &["group:typo"], "read", false),
        (&["*"], &[""], "read", false),
    ];
    for (allow, deny, tool, runs) in table {
        assert_eq!(allowed(&agent(allow, deny), tool), *runs, "allow {allow:?} deny {deny:?} {tool}");
    }
}

#[test]
fn a_profile_only_narrows() {
    let with = |profile: &[&str], allow: &[&str]| Agent {
        profile: Some(profile.iter().map(ToString::to_string).collect()),
        ..agent(allow, &[])
    };
    assert!(allowed(&with(&["read"], &["*"]), "read"));
    assert!(!allowed(&with(&["read"], &["*"]), "write"));
    assert!(!allowed(&with(&["*"], &["read"]), "write"));
    assert!(!allowed(&with(&[], &["*"]), "read"));
    assert!(!allowed(&with(&["Read"], &["*"]), "read"));
}

#[test]
fn the_reason_names_the_rule() {
    let reason = |agent: &Agent, tool: &str| match decide(agent, tool, &json!({})) {
        Decision::Deny(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(&agent(&["*"], &["ex*"]), "exec").contains("\"ex*\""));
    assert!(reason(&agent(&["*"], &["Ex"]), "read").contains("flock config validate"));
    assert!(reason(&agent(&["read"], &[]), "exec").contains("not among"));
}

/// The design's table of roles and tools, written down a second time.
const ROLE_TABLE: &str = "
    flock_channel_post        orchestrator sysadmin worker
    flock_channel_read        orchestrator sysadmin worker
    flock_channel_list        orchestrator sysadmin worker
    flock_archive_ready       orchestrator sysadmin worker
    flock_message             orchestrator sysadmin worker
    flock_tasks               orchestrator sysadmin worker
    flock_task_respond        orchestrator sysadmin worker
    flock_discover            orchestrator sysadmin worker
    flock_update_card         orchestrator sysadmin worker
    flock_status              orchestrator sysadmin worker
    flock_sleep               orchestrator sysadmin worker
    flock_schedule            orchestrator sysadmin worker
    flock_history             orchestrator sysadmin worker
    flock_workspace_list      orchestrator sysadmin worker
    flock_workspace_read      orchestrator sysadmin worker
    flock_workspace_write     orchestrator sysadmin worker
    flock_workspace_tree      orchestrator sysadmin worker
    flock_read_skill          orchestrator sysadmin worker
    flock_memory_search       orchestrator sysadmin worker
    flock_sysadmin_request    orchestrator worker
    flock_channel_create      orchestrator
    flock_assign_members      orchestrator
    flock_channel_archive     orchestrator
    flock_project_status      orchestrator sysadmin worker
    flock_project_submit      orchestrator sysadmin worker
    flock_project_claim       orchestrator sysadmin worker
    flock_project_review      orchestrator sysadmin worker
    flock_create_agent        orchestrator
    flock_bridge              orchestrator
    flock_decommission_agent  orchestrator
    triage_decision           sysadmin
    flock_audit               sysadmin
    flock_restart_gateway     sysadmin";

#[test]
fn flock_tools_are_limited_to_their_roles() {
    let cells: Vec<Vec<&str>> =
        ROLE_TABLE.trim().lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(cells.len(), catalog::flocks_own().count());
    for cell in cells {
        let (tool, roles) = cell.split_first().unwrap();
        assert!(is_flocks_own(tool), "{tool}");
        for role in [Role::Orchestrator, Role::Sysadmin, Role::Worker] {
            let agent = Agent { role, ..agent(&["*"], &[]) };
            assert_eq!(allowed(&agent, tool), roles.contains(&role.as_str()), "{tool} {role:?}");
        }
    }
}

#[test]
fn the_tools_of_projects_are_for_agents_with_a_project() {
    let with = agent(&["*"], &[]);
    let without = Agent { has_project: false, ..with.clone() };
    for tool in crate::tool::team::PROJECT_TOOLS {
        assert!(allowed(&with, tool.name) && !allowed(&without, tool.name), "{}", tool.name);
    }
    assert!(allowed(&without, "flock_status"));
}

#[test]
fn a_flock_tool_missing_from_the_role_table_is_denied() {
    for role in [Role::Orchestrator, Role::Sysadmin, Role::Worker] {
        let agent = Agent { role, ..agent(&["*"], &[]) };
        for tool in ["flock_lease", "flock_", "flock_channel_posts"] {
            assert!(!allowed(&agent, tool), "{tool} {role:?}");
        }
    }
}

#[test]
fn readonly_autonomy_denies_changing_tools() {
    let changing: Vec<&str> =
        catalog::TOOLS.iter().filter(|tool| tool.changes).map(|tool| tool.name).collect();
    assert_eq!(
        changing,
        [
            "exec",
            "process",
            "write",
            "edit",
            "apply_patch",
            "flock_channel_create",
            "flock_assign_members",
            "flock_channel_archive",
            "flock_workspace_write",
            "flock_schedule",
            "flock_restart_gateway",
            "flock_create_agent",
            "flock_decommission_agent",
            "flock_bridge",
            "flock_project_submit",
            "flock_project_claim",
            "flock_project_review"
        ]
    );
    for (autonomy, tool, runs) in [
        (Autonomy::Readonly, "read", true),
        (Autonomy::Readonly, "image", true),
        (Autonomy::Readonly, "sessions_list", true),
        (Autonomy::Readonly, "write", false),
        (Autonomy::Readonly, "edit", false),
        (Autonomy::Readonly, "apply_patch", false),
        (Autonomy::Readonly, "exec", false),
        (Autonomy::Readonly, "process", false),
        (Autonomy::Readonly, "flock_workspace_read", true),
        (Autonomy::Readonly, "flock_workspace_write", false),
        (Autonomy::Supervised, "exec", true),
        (Autonomy::Supervised, "write", true),
        (Autonomy::Full, "exec", true),
    ] {
        let agent = Agent { autonomy, ..agent(&["*"], &[]) };
        assert_eq!(allowed(&agent, tool), runs, "{autonomy:?} {tool}");
    }
}

#[test]
fn without_a_sandbox_nothing_runs_on_the_host() {
    let agent = Agent { sandbox: SandboxMode::Off, role: Role::Sysadmin, ..agent(&["*"], &[]) };
    let decision = |agent: &Agent, tool| decide(agent, tool, &json!({"command": "true"}));
    assert!(matches!(decision(&agent, "exec"), Decision::Ask(reason) if reason.contains("host itself")));
    assert!(matches!(decision(&agent, "process"), Decision::Deny(reason) if reason.contains("sandbox")));
    // A person is asked only after everything that can deny the call.
    let readonly = Agent { autonomy: Autonomy::Readonly, ..agent.clone() };
    let denied = Agent { deny: vec!["exec".to_owned()], ..agent.clone() };
    for agent in [readonly, denied] {
        assert!(matches!(decision(&agent, "exec"), Decision::Deny(_)));
    }
    assert!(allowed(&agent, "read"));
    assert!(allowed(&agent, "write"));
}

#[test]
fn only_reading_tools_run_in_parallel() {
    for tool in catalog::TOOLS.iter().filter(|tool| tool.parallel) {
        assert!(is_flocks_own(tool.name) && is_parallel(tool.name) && !tool.changes, "{}", tool.name);
    }
    for tool in ["flock_channel_post", "flock_message", "flock_sleep", "flock_update_card", "exec", "flock_x"]
    {
        assert!(!is_parallel(tool), "{tool}");
    }
}

#[test]
fn a_readonly_agent_changes_nothing_of_the_team() {
    let worker = Agent { autonomy: Autonomy::Readonly, ..agent(&["*"], &[]) };
    let orchestrator = Agent { role: Role::Orchestrator, ..worker.clone() };
    let sysadmin = Agent { role: Role::Sysadmin, ..worker.clone() };
    for (agent, tool) in [
        (&orchestrator, "flock_channel_create"),
        (&orchestrator, "flock_assign_members"),
        (&orchestrator, "flock_channel_archive"),
        (&orchestrator, "flock_create_agent"),
        (&orchestrator, "flock_decommission_agent"),
        (&orchestrator, "flock_bridge"),
        (&sysadmin, "flock_restart_gateway"),
        (&worker, "flock_schedule"),
    ] {
        assert!(!allowed(agent, tool), "{tool}");
        let supervised = Agent { autonomy: Autonomy::Supervised, ..agent.clone() };
        assert!(allowed(&supervised, tool), "{tool}");
    }
    assert!(allowed(&orchestrator, "flock_channel_post"));
    let asks =
        |kind: Value| decide(&worker, "flock_sysadmin_request", &json!({"kind": kind})) == Decision::Allow;
    assert!(asks(json!("other")));
    for kind in
        [json!("package"), json!("egress"), json!("mount"), json!("command"), json!(["other"]), json!(null)]
    {
        assert!(!asks(kind.clone()), "{kind}");
    }
}

#[test]
fn offered_tools_are_those_that_may_run() {
    let specs: Vec<ToolSpec> = ["exec", "read", "flock_audit", "image"]
        .iter()
        .map(|name| ToolSpec {
            name: name.to_string(),
            description: String::new(),
            parameters: json!({"type": "object"}).into(),
        })
        .collect();
    let names =
        |agent: &Agent| -> Vec<String> { offered(agent, &specs).into_iter().map(|spec| spec.name).collect() };
    assert_eq!(names(&agent(&["*"], &["image"])), ["exec", "read"]);
    assert_eq!(names(&agent(&[], &[])), Vec::<String>::new());
    assert_eq!(names(&agent(&["*"], &["Typo"])), Vec::<String>::new());
}

#[test]
fn unreadable_patterns_are_reported() {
    let long = "a".repeat(65);
    let texts = ["read", "Read", "group:fs", "group:FS", "group:", "", "a b", "*", &long, "flöck", "exec()"];
    let wrong =
        |agent: &Agent| -> Vec<String> { pattern_errors(agent).iter().map(ToString::to_string).collect() };
    assert_eq!(wrong(&agent(&[], &texts)).len(), 8);
    assert_eq!(wrong(&Agent { profile: Some(vec!["A".to_owned()]), ..agent(&["B"], &["C"]) }).len(), 3);
    let wrong = wrong(&agent(&texts, &["read"]));
    assert_eq!(wrong.len(), 8, "{wrong:#?}");
    assert!(wrong[0].contains("\"Read\""));
    assert!(wrong[1].contains("group:sessions"));
}

const NAMES: [&str; 8] =
    ["read", "write", "exec", "process", "sessions_send", "flock_status", "image", "apply_patch"];

fn any_pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(&NAMES[..]).prop_map(str::to_owned),
        "[a-z_*]{0,12}",
        proptest::sample::select(
            &["group:fs", "group:runtime", "group:all", "group:plugins", "group:sessions", "group:no"][..]
        )
        .prop_map(str::to_owned),
        ".{0,8}",
    ]
}

fn any_patterns() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(any_pattern(), 0..6)
}

proptest! {
    #[test]
    fn deny_wins(allow in any_patterns(), deny in any_patterns(), tool in proptest::sample::select(&NAMES[..])) {
        let mut agent = agent(&[], &[]);
        agent.allow = allow;
        agent.allow.push("*".to_owned());
        agent.deny = deny.clone();
        let denied = deny.iter().any(|text| Pattern::parse(text).map_or(true, |p| p.matches(tool)));
        prop_assert_eq!(allowed(&agent, tool), !denied);
    }

    #[test]
    fn one_more_deny_never_widens(
        allow in any_patterns(),
        deny in any_patterns(),
        more in any_pattern(),
        tool in proptest::sample::select(&NAMES[..]),
    ) {
        let mut agent = agent(&[], &[]);
        agent.allow = allow;
        agent.deny = deny;
        let before = allowed(&agent, tool);
        agent.deny.push(more);
        prop_assert!(before || !allowed(&agent, tool));
    }

    #[test]
    fn any_text_as_a_pattern_and_a_name_is_decided(text in ".{0,40}", tool in ".{0,40}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            let _ = pattern.matches(&tool);
        }
    }

    #[test]
    fn a_star_matches_like_the_simple_definition(pattern in "[ab*]{1,8}", text in "[ab]{0,8}") {
        fn simple(p: &[u8], t: &[u8]) -> bool {
            match (p.first(), t.first()) {
                (None, None) => true,
                (Some(b'*'), _) => simple(&p[1..], t) || (!t.is_empty() && simple(p, &t[1..])),
                (Some(a), Some(b)) if a == b => simple(&p[1..], &t[1..]),
                _ => false,
            }
        }
        let read = Pattern::parse(&pattern).unwrap();
        prop_assert_eq!(read.matches(&text), simple(pattern.as_bytes(), text.as_bytes()));
    }
}
