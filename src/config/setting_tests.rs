use super::*;
use crate::config::agents::{NewAgent, add};
use crate::config::{ignored, parse, starter};
use crate::home::Home;

fn home() -> Home {
    Home::new("/nowhere/flock".into(), None)
}

fn document(agent: impl FnOnce(&mut NewAgent)) -> (Value, AgentId) {
    let mut document = starter::document(&home(), Some(&"script/demo".parse().unwrap()), "token", 4000);
    let mut new = NewAgent::new("coder".parse().unwrap(), Role::Worker);
    agent(&mut new);
    add(&mut document, &home(), &new).unwrap();
    (document, new.id)
}

/// Makes the changes of one command. The document must then still be usable, and have no unknown key.
fn changed(before: &Value, id: &AgentId, wanted: &[SettingValue]) -> (Value, Vec<String>) {
    let mut after = before.clone();
    set(&mut after, id, wanted).unwrap();
    parse::config(&after, &home()).unwrap();
    assert_eq!(ignored::settings(&after, &home()), []);
    let texts = changes(before, &after, id)
        .iter()
        .map(|change| format!("{} {} {}", change.setting.name(), change.before, change.after))
        .collect();
    (after, texts)
}

#[test]
fn each_setting_is_set_and_taken_out_again() {
    let (before, id) = document(|_| ());
    for (setting, value) in [
        (Setting::Archetype, json!("qa")),
        (Setting::Model, json!("openai/gpt-5.5")),
        (Setting::Effort, json!("high")),
        (Setting::Autonomy, json!("full")),
        (Setting::Memory, json!("2g")),
        (Setting::Cpus, json!(1.5)),
        (Setting::Disk, json!("none")),
        (Setting::Network, json!("proxy")),
        (Setting::Egress, json!(["example.org"])),
        (Setting::BudgetTokens, json!(5000)),
        (Setting::BudgetUsd, json!(2.5)),
    ] {
        let (after, texts) = changed(&before, &id, &[(setting, value.clone())]);
        let first = format!("{} {} {value}", setting.name(), setting.usual());
        assert!(texts.contains(&first), "{texts:?}");
        let mut undo = vec![(setting, Value::Null)];
        if setting == Setting::Egress {
            undo.push((Setting::Network, Value::Null));
        }
        let (back, _) = changed(&after, &id, &undo);
        assert_eq!(changes(&before, &back, &id), [], "{}", setting.name());
        let (_, texts) = changed(&after, &id, &[(setting, value)]);
        assert_eq!(texts, [""; 0], "it has it already");
    }
}

#[test]
fn changing_the_role_and_back_restores_sandbox_and_tools() {
    let (before, id) = document(|agent| agent.egress = vec!["example.org".into()]);
    let (admin, texts) = changed(&before, &id, &[(Setting::Role, json!("sysadmin"))]);
    assert_eq!(
        texts,
        [
            "role \"worker\" \"sysadmin\"",
            "sandbox \"all\" \"off\"",
            "network \"proxy\" \"none\"",
            "egress [\"example.org\"] []"
        ]
    );
    let (added, _) = document(|agent| agent.role = Role::Sysadmin);
    let tools = |document: &Value| document["agents"]["list"][0]["tools"].clone();
    assert_eq!(tools(&admin), tools(&added));
    let (back, texts) = changed(&admin, &id, &[(Setting::Role, json!("worker"))]);
    assert_eq!(texts, ["role \"sysadmin\" \"worker\"", "sandbox \"off\" \"all\""]);
    let (fresh, _) = document(|_| ());
    assert_eq!(back, fresh);
    // An agent that was added as sysadmin gets everything that a container needs.
    let (worker, _) = changed(&added, &id, &[(Setting::Role, json!("worker"))]);
    assert_eq!(worker, fresh);
}

#[test]
fn a_new_runtime_loses_host_access_and_no_network_loses_hosts() {
    let (before, id) = document(|agent| {
        agent.runtime = "claude".into();
        agent.on_host = true;
    });
    let (_, texts) = changed(&before, &id, &[(Setting::Runtime, json!("codex"))]);
    assert_eq!(texts, ["runtime \"claude\" \"codex\"", "onHost true false"]);
    let both = [(Setting::Runtime, json!("codex")), (Setting::OnHost, json!(true))];
    assert_eq!(changed(&before, &id, &both).1, ["runtime \"claude\" \"codex\""]);
    let (before, id) = document(|agent| agent.egress = vec!["example.org".into()]);
    let (_, texts) = changed(&before, &id, &[(Setting::Network, json!("none"))]);
    assert_eq!(texts, ["network \"proxy\" \"none\"", "egress [\"example.org\"] []"]);
}

#[test]
fn the_first_own_budget_copies_the_other_general_limit() {
    let (mut before, id) = document(|_| ());
    let own = &mut before["plugins"]["entries"]["flock"]["config"];
    own["budgets"] = json!({"agent": {"*": {"usd": 5}}});
    let (after, texts) = changed(&before, &id, &[(Setting::BudgetTokens, json!(100))]);
    assert_eq!(texts, ["budget-tokens null 100", "budget-usd null 5"]);
    let both = [(Setting::BudgetTokens, Value::Null), (Setting::BudgetUsd, Value::Null)];
    let (back, _) = changed(&after, &id, &both);
    assert_eq!(back, before);
}

#[test]
fn changing_an_unknown_agent_fails() {
    let (mut document, _) = document(|_| ());
    let other = "x".parse().unwrap();
    let wanted = [(Setting::Role, json!("worker"))];
    assert!(matches!(set(&mut document, &other, &wanted), Err(ConfigError::Unknown(_))));
}
