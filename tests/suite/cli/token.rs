//! `flock token` where no gateway runs.

use flock::home::Home;
use flock::store::{AuditEntry, Level, NewToken, Right, Store};

use crate::support::home::TempHome;

#[test]
fn a_token_is_made_listed_and_revoked_and_shown_once() {
    let home = TempHome::new().init();
    home.flock(["token", "add", "ci", "--agents", "all"]).fails(2);
    home.flock(["token", "add", "ci", "--rights", "chat"]).fails(2);
    home.flock(["token", "add", "ci", "--agents", "all", "--rights", "root"]).fails(2);
    home.flock(["token", "add", "ci", "--agents", "nobody", "--rights", "chat"]).fails(1);
    home.flock(["token", "add", "owner", "--agents", "all", "--rights", "chat"]).fails(2);
    let args =
        ["token", "add", "ci", "--agents", "orchestrator", "--rights", "chat,read", "--expires", "30d"];
    let made = home.flock(args).ok();
    let token = made.stdout.trim();
    assert!(token.starts_with("flk_") && token.len() == 68, "{made:?}");
    home.flock(args).fails(5);
    let listed = home.flock(["token", "list"]).ok().stdout;
    assert!(
        listed.contains("ci") && listed.contains("chat,read") && listed.contains("orchestrator"),
        "{listed}"
    );
    let json = home.flock(["token", "list", "--json"]).ok().json();
    assert_eq!(json["tokens"][0]["rights"], serde_json::json!(["chat", "read"]));
    assert!(json["tokens"][0]["expiresAt"].is_i64() && json["tokens"][0]["revokedAt"].is_null());
    assert!(!json.to_string().contains(token));
    home.flock(["token", "revoke", "nobody"]).fails(1);
    home.flock(["token", "revoke", "ci"]).ok();
    home.flock(["token", "revoke", "ci"]).fails(1);
    assert!(home.flock(["token", "list"]).ok().stdout.contains("revoked"));
    let again =
        home.flock(["token", "add", "ci", "--agents", "all", "--rights", "a2a", "--json"]).ok().json();
    assert_eq!((&again["name"], &again["agents"]), (&"ci".into(), &serde_json::Value::Null));
    let audit = home.audited("token");
    assert_eq!(audit.len(), 3, "{audit:?}");
    home.flock(["audit", "--verify"]).ok();
}

#[tokio::test]
async fn doctor_names_tokens_that_have_ended() {
    let home = TempHome::new().init();
    let store = Store::open(&Home::locate(Some(&home.path())).unwrap()).unwrap();
    for (name, agents, expires_at) in
        [("old", None, Some(1)), ("alone", Some(Vec::new()), None), ("good", None, None)]
    {
        let entry = AuditEntry {
            actor: "human:ann".to_owned(),
            action: "token.add",
            subject: name.to_owned(),
            level: Level::Yellow,
            detail: String::new(),
            session: None,
            turn: None,
        };
        let new = NewToken { name: name.to_owned(), agents, rights: vec![Right::Read], expires_at };
        assert!(store.tokens().add(new, format!("hash of {name}"), entry, 0).await.unwrap());
    }
    drop(store);
    let said = home.flock(["doctor"]).fails(1).stdout;
    assert!(said.contains("token old expired on"), "{said}");
    assert!(said.contains("the agents of token alone were removed"), "{said}");
    assert!(said.contains("flock token revoke old") && !said.contains("token good"), "{said}");
}
