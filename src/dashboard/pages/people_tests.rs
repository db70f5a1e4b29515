use serde_json::{Value, json};

use super::*;
use crate::dashboard::Offer;
use crate::dashboard::texts::Language;
use crate::provider::BoxFuture;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// The routes of a home with these people, accounts and tokens.
struct Routes {
    people: Value,
    accounts: Value,
    tokens: Value,
}

impl Api for Routes {
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Value, ApiFailure>> {
        let sum = |name: &str, tokens: u64, cost: u64| {
            json!({"name": name, "calls": 1, "unpriced": 0, "input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0,
                "costMicros": cost, "tokens": tokens})
        };
        let answer = match path {
            "/api/people" => json!({"people": self.people, "accounts": self.accounts}),
            "/api/tokens" => json!({"tokens": self.tokens}),
            "/api/dashboard/sessions" => json!({"sessions": [
                {"person": "Ann", "lastUsedAt": DAY}, {"person": "boss", "lastUsedAt": 9 * DAY},
            ]}),
            "/api/usage/budgets" => json!({"budgets": [
                {"scope": "day", "name": "", "tokens": {"limit": 7, "used": 7, "reserved": 0}, "costMicros": null},
                {"scope": "agent", "name": "ann", "tokens": {"limit": 8, "used": 1, "reserved": 0}, "costMicros": null},
                {"scope": "person", "name": "ann", "tokens": {"limit": 5_000, "used": 1_200, "reserved": 100},
                    "costMicros": {"limit": 1_500_000, "used": 1_600_000, "reserved": 0}},
            ]}),
            "/api/usage?by=person" => {
                json!({"usage": [sum("ann", 1_200, 1_600_000)], "total": sum("", 1_200, 1_600_000)})
            }
            _ => unreachable!("{path}"),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

fn person(name: &str, more: &Value) -> Value {
    let mut person = json!({"name": name, "role": "member", "agents": null, "channels": null, "dayTokens": null,
        "dayCostMicros": null, "addedBy": "human:boss", "addedAt": 0, "removedAt": null});
    for (key, value) in more.as_object().unwrap() {
        person[key] = value.clone();
    }
    person
}

fn token(name: &str, person: &str, used: Option<i64>, more: &Value) -> Value {
    let mut token = json!({"name": name, "agents": null, "rights": [], "createdAt": 0, "lastUsedAt": used,
        "expiresAt": null, "revokedAt": null, "person": person});
    for (key, value) in more.as_object().unwrap() {
        token[key] = value.clone();
    }
    token
}

fn viewer(offers: Vec<Offer>) -> Viewer {
    Viewer {
        person: "boss".to_owned(),
        offers,
        csrf: "token".to_owned(),
        last_event: String::new(),
        language: Language::English,
    }
}

async fn shown(routes: &Routes) -> String {
    page(&viewer(Offer::ALL.to_vec()), routes).await.unwrap().0
}

/// Returns the part of a page about a person.
fn card<'a>(page: &'a str, name: &str) -> &'a str {
    let rest = page.split_once(&format!("id=\"person-{name}\"")).unwrap().1;
    rest.split_once("id=\"person-").map_or(rest, |(card, _)| card)
}

fn field<'a>(card: &'a str, name: &str) -> &'a str {
    let rest = card.split_once(&format!("data-field=\"{name}\">")).unwrap().1;
    rest.split_once("</dd>").unwrap().0
}

#[tokio::test]
async fn a_person_is_shown_with_rights_use_and_tokens_in_force() {
    let routes = Routes {
        people: json!([
            person(
                "ann",
                &json!({"agents": ["coder", "tester"], "channels": [], "dayTokens": 5_000, "dayCostMicros": 1_500_000}),
            ),
            person("bob", &json!({"role": "owner"})),
            person("eve", &json!({"role": "viewer", "removedAt": DAY})),
        ]),
        accounts: json!([
            {"platform": "matrix", "id": "@ann:example.org", "person": "human:ann", "username": "Ann Other"},
            {"platform": "slack", "id": "U1", "person": "human:kim", "username": "kim"},
        ]),
        tokens: json!([
            token("ann.1", "ann", Some(9 * DAY), &json!({"revokedAt": 10 * DAY})),
            token("ann.2", "ann", Some(2 * DAY), &json!({"expiresAt": i64::MAX / 1_000_000})),
            token("ann.3", "ann", None, &json!({"expiresAt": 5})),
            token("ci", "", Some(99 * DAY), &json!({"person": null})),
        ]),
    };
    let page = shown(&routes).await;
    let ann = card(&page, "ann");
    assert_eq!(
        ["role", "agents", "channels", "browsers", "used"].map(|name| field(ann, name)),
        ["member", "coder, tester", "none", "1", "$1.60, 1,200 tokens"],
    );
    // Her last use of all is that of a token which was revoked afterwards.
    assert!(field(ann, "seen").contains(&Moment::new(9 * DAY).iso), "{ann}");
    assert_eq!(
        field(ann, "budget"),
        "1,200 tokens of 5,000 tokens<br>$1.60 of $1.50 <span class=\"problem\">used up</span>",
    );
    assert_eq!(field(ann, "accounts"), "matrix:@ann:example.org (Ann Other)");
    assert!(!ann.contains("data-token=\"ann.1\"") && !page.contains("data-token=\"ci\""), "{page}");
    let of = |name: &str| {
        let rest = ann.split_once(&format!("<li data-token=\"{name}\"")).unwrap().1;
        rest.split_once("</li>").unwrap().0
    };
    assert!(of("ann.2").contains("last used") && of("ann.2").contains("until <time"), "{ann}");
    assert!(of("ann.3").contains("not used yet") && of("ann.3").contains("expired</span>"), "{ann}");
    for field in [
        "<option selected>member</option>",
        "name=\"agents\" value=\"coder, tester\"",
        "name=\"channels\" value=\"none\"",
        "name=\"dayTokens\" value=\"5000\"",
        "name=\"dayCostMicros\" value=\"1.5\"",
    ] {
        assert!(ann.contains(field), "{field}: {ann}");
    }
    let bob = card(&page, "bob");
    assert_eq!(
        ["role", "agents", "channels", "seen", "browsers", "used", "budget"].map(|name| field(bob, name)),
        ["owner", "all", "all", "not known", "0", "$0.00, 0 tokens", "none"],
    );
    assert!(
        !bob.contains("data-field=\"accounts\"") && bob.contains("name=\"dayTokens\" value=\"\""),
        "{bob}"
    );
    // Who was removed is named, and nothing more can be done about them.
    assert!(
        page.contains("<li data-person=\"eve\" data-state=\"removed\">eve, viewer, removed <time"),
        "{page}"
    );
    assert!(!page.contains("id=\"person-eve\"") && !page.contains("data-target=\"eve\""), "{page}");
}

#[tokio::test]
async fn hostile_names_are_text_and_turn_nothing_round() {
    let evil = "\"><img src=x onerror=alert(1)>\u{202e}<script>alert(1)</script>";
    let routes = Routes {
        people: json!([
            person(
                evil,
                &json!({"agents": [evil], "channels": [evil], "addedBy": evil,
                    "oidc": {"issuer": evil, "subject": evil, "email": null}}),
            ),
            person(evil, &json!({"removedAt": 1})),
        ]),
        accounts: json!([
            {"platform": evil, "id": evil, "person": format!("human:{evil}"), "username": format!("{evil}2")},
        ]),
        tokens: json!([token(evil, evil, None, &json!({}))]),
    };
    let page = shown(&routes).await;
    assert!(
        page.matches("&#60;img src=x onerror=alert(1)&#62;\\u{202e}&#60;script&#62;").count() > 10,
        "{page}"
    );
    for wrong in ["<img", "<script>", "\"><img", "\u{202e}"] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
}

#[tokio::test]
async fn without_people_the_page_is_reached_by_its_address_and_says_how_to_add_one() {
    let none = Routes { people: json!([]), accounts: json!([]), tokens: json!([]) };
    let offers = Offer::ALL.into_iter().filter(|offer| *offer != Offer::People).collect();
    let alone = viewer(offers);
    let page = page(&alone, &none).await.unwrap().0;
    assert!(page.contains("flock person add NAME") && page.contains("data-form=\"add-person\""), "{page}");
    assert!(page.contains("href=\"/dashboard/people\" data-key=\"e\" aria-current=\"page\""), "{page}");
    // Nothing on another page leads there.
    let elsewhere = Layout::new(&alone, Some(NavItem::Team), "Team");
    assert!(!elsewhere.items().contains(&NavItem::People));
    let with_people = Layout::new(&viewer(Offer::ALL.to_vec()), Some(NavItem::Team), "Team");
    assert_eq!(with_people.items(), NavItem::ALL);
}

#[test]
fn an_amount_of_dollars_is_as_one_types_it() {
    let typed = [0, 5_000_000, 1_500_000, 10_000_000, 1, 123_456_789].map(dollars);
    assert_eq!(typed, ["0", "5", "1.5", "10", "0.000001", "123.456789"]);
}
