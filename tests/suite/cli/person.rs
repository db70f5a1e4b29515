//! `flock person` where no gateway runs.

use serde_json::{Value, json};

use crate::support::home::TempHome;

#[test]
fn without_people_nothing_of_them_is_to_be_seen() {
    let home = TempHome::new().init();
    let listed = home.flock(["person", "list"]).ok();
    assert!(
        listed.stdout.is_empty() && listed.stderr.contains("Nobody came from another platform yet"),
        "{listed:?}"
    );
    assert_eq!(home.flock(["person", "list", "--json"]).ok().json(), json!({"accounts": []}));
    for args in [["status"], ["list"], ["usage"]] {
        let said = home.flock(args);
        let said = (said.stdout + &said.stderr).to_lowercase();
        assert!(!said.contains("person") && !said.contains("people"), "{args:?}: {said}");
    }
}

#[test]
fn a_person_is_added_shown_changed_and_removed() {
    let home = TempHome::new().init();
    home.flock(["person", "add", "bea"]).fails(2);
    home.flock(["person", "add", "bea", "--role", "boss"]).fails(2);
    home.flock(["person", "add", "Bea", "--role", "member"]).fails(2);
    home.flock(["person", "add", "orchestrator", "--role", "member"]).fails(1);
    home.flock(["person", "add", "bea", "--role", "member", "--agents", "nobody"]).fails(1);
    home.flock(["person", "add", "bea", "--role", "owner", "--agents", "orchestrator"]).fails(2);
    home.flock(["person", "add", "bea", "--role", "member", "--budget-usd", "many"]).fails(2);
    let args = [
        "person",
        "add",
        "bea",
        "--role",
        "member",
        "--agents",
        "orchestrator",
        "--budget-tokens",
        "5000",
        "--json",
    ];
    let added = home.flock(args).ok().json();
    assert_eq!((&added["role"], &added["agents"]), (&json!("member"), &json!(["orchestrator"])), "{added}");
    assert_eq!((&added["channels"], &added["dayTokens"]), (&json!([]), &json!(5000)), "{added}");
    home.flock(args).fails(1);
    let made = home.flock(["person", "token", "bea", "--expires", "30d"]).ok();
    let token = made.stdout.trim();
    assert!(token.starts_with("flk_") && token.len() == 68, "{made:?}");
    let listed = home.flock(["person", "list"]).ok().stdout;
    assert!(
        listed.contains("human:bea") && listed.contains("member") && listed.contains("orchestrator"),
        "{listed}"
    );
    let shown = home.flock(["person", "show", "bea"]).ok().stdout;
    assert!(
        shown.contains("bea.1, until") && shown.contains("0 of 5000") && !shown.contains(token),
        "{shown}"
    );
    home.flock(["person", "set", "bea"]).fails(2);
    home.flock(["person", "set", "bea", "--role", "owner"]).fails(2);
    let args = [
        "person",
        "set",
        "human:bea",
        "--role",
        "operator",
        "--agents",
        "all",
        "--channels",
        "all",
        "--budget-tokens",
        "none",
    ];
    home.flock(args).ok();
    let shown = home.flock(["person", "show", "bea", "--json"]).ok().json();
    assert_eq!((&shown["role"], &shown["agents"]), (&json!("operator"), &Value::Null), "{shown}");
    assert_eq!((&shown["dayTokens"], &shown["budget"]), (&Value::Null, &Value::Null), "{shown}");
    assert!(home.flock(["token", "list"]).ok().stdout.contains("those of bea"));
    home.flock(["person", "remove", "nobody"]).fails(1);
    home.flock(["person", "remove", "../bea"]).fails(1);
    home.flock(["person", "remove", "bea"]).ok();
    home.flock(["person", "remove", "bea"]).fails(1);
    home.flock(["person", "token", "bea"]).fails(1);
    home.flock(["person", "set", "bea", "--role", "viewer"]).fails(1);
    assert!(home.flock(["person", "list"]).ok().stdout.contains("removed"));
    home.flock(["person", "add", "bea", "--role", "viewer"]).fails(1);
    let audit = home.audited("person");
    for action in ["person.add", "person.token", "person.change", "person.remove"] {
        assert_eq!(audit.iter().filter(|row| row["action"] == action).count(), 1, "{action}: {audit:?}");
    }
    home.flock(["audit", "--verify"]).ok();
}

#[test]
fn an_account_of_openid_connect_is_given_shown_and_taken() {
    const OIDC: &str = "plugins.entries.flock.config.dashboard.oidc";
    let home = TempHome::new().init();
    home.flock(["person", "add", "bea", "--role", "member"]).ok();
    let none = home.flock(["person", "set", "bea", "--oidc-subject", "4711"]).fails(2);
    assert!(none.stderr.contains("dashboard.oidc"), "{none:?}");
    home.flock(["config", "set", OIDC, r#"{"issuer": "https://login.example.org", "clientId": "flock"}"#])
        .ok();
    home.flock(["person", "set", "bea", "--oidc-subject", "1", "--oidc-email", "b@example.org"]).fails(2);
    home.flock(["person", "set", "bea", "--oidc-email", "bea"]).fails(2);
    home.flock(["person", "set", "bea", "--oidc-email", "Bea@example.org"]).ok();
    let shown = home.flock(["person", "show", "bea"]).ok().stdout;
    assert!(shown.contains("bea@example.org, not signed in yet at https://login.example.org"), "{shown}");
    home.flock(["person", "set", "bea", "--oidc-subject", "4711"]).ok();
    let shown = home.flock(["person", "show", "bea", "--json"]).ok().json();
    let account = json!({"issuer": "https://login.example.org", "subject": "4711", "email": null});
    assert_eq!(shown["oidc"], account, "{shown}");
    home.flock(["person", "add", "carl", "--role", "member"]).ok();
    let taken = home.flock(["person", "set", "carl", "--oidc-subject", "4711"]).fails(1);
    assert!(taken.stderr.contains("bea has this account"), "{taken:?}");
    home.flock(["person", "set", "bea", "--oidc-none"]).ok();
    assert!(home.flock(["person", "show", "bea", "--json"]).ok().json().get("oidc").is_none());
    let audit = home.flock(["audit", "--action", "person.account", "--json"]).ok();
    assert!(audit.stdout.contains("4711 at https://login.example.org"), "{audit:?}");
}
