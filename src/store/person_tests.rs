use super::*;
use crate::home::Home;
use crate::store::{Level, NewPost, SignIn};

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
    (folder, store)
}

fn entry(action: &'static str) -> AuditEntry {
    AuditEntry::new("human:owner", action, "human:ann", Level::Yellow, String::new())
}

fn new(name: &str) -> NewPerson {
    NewPerson {
        name: name.to_owned(),
        role: PersonRole::Member,
        agents: None,
        channels: None,
        day_tokens: None,
        day_cost: None,
    }
}

fn limited(name: &str) -> NewPerson {
    NewPerson { agents: Some(vec!["coder".parse().unwrap()]), ..new(name) }
}

async fn add(store: &Store, person: NewPerson) -> bool {
    store.people().add(person, entry("person.add"), 1).await.unwrap()
}

async fn token(store: &Store, person: &str, hash: &str) -> Option<ClientToken> {
    let tokens = store.tokens();
    tokens.add_of_person(person.to_owned(), hash.to_owned(), None, entry("person.token"), 2).await.unwrap()
}

#[tokio::test]
async fn a_name_is_given_once_and_never_again() {
    let (_folder, store) = open();
    assert!(add(&store, new("ann")).await);
    assert!(!add(&store, new("ann")).await);
    assert!(store.people().remove("ann".to_owned(), entry("person.remove"), 5).await.unwrap());
    assert!(!store.people().remove("ann".to_owned(), entry("person.remove"), 6).await.unwrap());
    assert!(!add(&store, new("ann")).await, "a removed person keeps the name");
    let found = store.people().find("ANN").await.unwrap().unwrap();
    assert_eq!((found.is_active(), found.removed_at), (false, Some(5)));
}

#[tokio::test]
async fn a_person_who_is_limited_to_agents_is_on_no_channel_that_is_not_named() {
    let (_folder, store) = open();
    add(&store, limited("ann")).await;
    let dev: ChannelId = "Dev".parse().unwrap();
    let found = store.people().find("ann").await.unwrap().unwrap();
    assert_eq!(found.channels, Some(Vec::new()));
    assert!(
        !found.is_on(&dev) && found.covers(&"coder".parse().unwrap()) && !found.covers(&"b".parse().unwrap())
    );
    let change =
        PersonChange { channels: Some(Some(vec!["dev".parse().unwrap()])), ..PersonChange::default() };
    let check = |_: &Person| Ok::<_, ()>(entry("person.change"));
    let changed = store.people().change("ann".to_owned(), change, check, 3).await.unwrap().unwrap().unwrap();
    assert!(changed.is_on(&dev), "the ids of channels differ by more than case");
    let change = PersonChange { channels: Some(None), ..PersonChange::default() };
    let changed = store.people().change("ann".to_owned(), change, check, 3).await.unwrap().unwrap().unwrap();
    assert_eq!(changed.channels, Some(Vec::new()));
    let refused = |_: &Person| Err::<AuditEntry, _>("no");
    let change = PersonChange { role: Some(PersonRole::Owner), ..PersonChange::default() };
    let found = store.people().change("ann".to_owned(), change, refused, 3).await.unwrap().unwrap();
    assert_eq!(found.unwrap_err(), "no");
    assert_eq!(store.people().find("ann").await.unwrap().unwrap().role, PersonRole::Member);
}

#[tokio::test]
async fn a_removed_person_has_no_token_no_browser_and_no_account() {
    let (_folder, store) = open();
    add(&store, new("ann")).await;
    add(&store, new("bob")).await;
    let first = token(&store, "ann", "h1").await.unwrap();
    let second = token(&store, "ann", "h2").await.unwrap();
    let others = token(&store, "bob", "h3").await.unwrap();
    assert_eq!([&*first.name, &*second.name, &*others.name], ["ann.1", "ann.2", "bob.1"]);
    for (id, person) in [("1", "ann"), ("2", "bob"), ("3", "Ann")] {
        let sign_in = SignIn {
            id: id.to_owned(),
            person: person.to_owned(),
            browser: String::new(),
            created_at: 2,
            used_at: 2,
            token: None,
            account: None,
        };
        store.sign_ins().add(sign_in, format!("c{id}"), entry("dashboard.signin"), 2).await.unwrap();
    }
    for (id, person) in [("@ann:x", "human:ann"), ("@bob:x", "human:bob")] {
        super::super::testing::add_account(
            &store,
            "matrix",
            id,
            &person.parse().unwrap(),
            Some("human:owner"),
        )
        .await;
    }
    // A time as it is today, which needs more than 32 bits.
    let now = 1_800_000_000_000;
    store.people().remove("ann".to_owned(), entry("person.remove"), now).await.unwrap();
    for hash in ["h1", "h2"] {
        assert_eq!(store.tokens().find(hash).await.unwrap().unwrap().revoked_at, Some(now));
    }
    assert!(store.tokens().find("h3").await.unwrap().unwrap().is_good(now + 1));
    let left: Vec<String> =
        store.sign_ins().list().await.unwrap().into_iter().map(|one| one.person).collect();
    assert_eq!(left, ["bob"]);
    let left: Vec<String> =
        store.accounts().list().await.unwrap().into_iter().map(|one| one.person.to_string()).collect();
    assert_eq!(left, ["human:bob"]);
    assert_eq!(token(&store, "ann", "h4").await, None, "a removed person gets no token");
}

#[tokio::test]
async fn nobody_from_elsewhere_gets_the_name_of_a_person() {
    let (_folder, store) = open();
    add(&store, new("ann")).await;
    store.people().remove("ann".to_owned(), entry("person.remove"), 5).await.unwrap();
    let names = ["human:Ann", "human:a.n.n", "human:ann-2"].map(|name| name.parse::<Party>().unwrap());
    let made =
        store.accounts().person_of("matrix".to_owned(), "1".to_owned(), "Ann".to_owned(), names, 6).await;
    assert_eq!(made.unwrap().to_string(), "human:ann-2");
}

#[tokio::test]
async fn a_token_of_a_client_does_not_take_the_name_of_a_persons() {
    let (_folder, store) = open();
    add(&store, new("ann")).await;
    token(&store, "ann", "h1").await.unwrap();
    store.tokens().revoke("ann.1".to_owned(), entry("token.revoke"), 3).await.unwrap();
    let client = crate::store::NewToken {
        name: "ann.1".to_owned(),
        agents: None,
        rights: vec![crate::store::Right::Chat],
        expires_at: None,
    };
    assert!(!store.tokens().add(client, "h9".to_owned(), entry("token.add"), 4).await.unwrap());
    assert_eq!(token(&store, "ann", "h2").await.unwrap().name, "ann.2");
}

#[test]
fn the_person_of_a_session_is_in_its_key() {
    for (key, person) in [
        ("agent:coder:flock:main:ann", Some("ann")),
        ("agent:coder:flock:main:ANN", Some("ann")),
        ("agent:coder:flock:main:person:ann:notes", Some("ann")),
        ("agent:coder:flock:main:token:ann", None),
        ("agent:coder:flock:request:person:ann:0192", Some("ann")),
        ("agent:coder:flock:request:person:anna:0192", Some("anna")),
        ("agent:coder:flock:request:0192", None),
        ("agent:coder:flock:request:ann", None),
        ("agent:coder:flock:dm:human:ann", Some("ann")),
        ("agent:coder:flock:dm:human:token:ann", None),
        ("agent:coder:flock:dm:a2a:person:ann:ctx", Some("ann")),
        ("agent:coder:flock:dm:a2a:token:ann:ctx", None),
        ("agent:coder:flock:dm:ann", None),
        ("agent:coder:flock:channel:ann", None),
    ] {
        assert_eq!(person_of(&key.parse().unwrap()).as_deref(), person, "{key}");
    }
}

#[tokio::test]
async fn a_removed_agent_is_left_out_of_the_limits_of_people() {
    let (_folder, store) = open();
    add(&store, limited("ann")).await;
    let (agent, by): (AgentId, _) = ("coder".parse().unwrap(), entry("agent.revoke"));
    store.grants().revoke(agent.clone(), None, by, 4).await.unwrap();
    assert_eq!(store.people().find("ann").await.unwrap().unwrap().agents, Some(Vec::new()));
}

#[tokio::test]
async fn work_counts_for_the_person_for_whom_it_began() {
    let (_folder, store) = open();
    let people = store.people();
    let direct: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
    assert_eq!(people.charged(&direct, Some("t")).await.unwrap(), None, "nobody but the owner is there");
    add(&store, new("ann")).await;
    let name = |person: Option<Person>| person.map(|person| person.name);
    assert_eq!(name(people.charged(&direct, Some("t")).await.unwrap()).as_deref(), Some("ann"));
    let others: SessionKey = "agent:coder:flock:main:bob".parse().unwrap();
    assert_eq!(people.charged(&others, Some("t")).await.unwrap(), None);
    // A session that an agent began for itself is charged to the person of its parent.
    let child: SessionKey = "agent:coder:flock:request:spawn-1-x".parse().unwrap();
    assert_eq!(people.charged(&child, Some("t")).await.unwrap(), None);
    people.charge_session(child.clone(), "ann".to_owned()).await.unwrap();
    assert_eq!(name(people.charged(&child, Some("t")).await.unwrap()).as_deref(), Some("ann"));
    assert_eq!(name(people.charged(&child, None).await.unwrap()).as_deref(), Some("ann"));
}

#[tokio::test]
async fn a_token_of_a_person_is_good_until_the_moment_that_it_names() {
    let (_folder, store) = open();
    add(&store, new("ann")).await;
    let tokens = store.tokens();
    let (person, hash) = ("ann".to_owned(), "h1".to_owned());
    let made =
        tokens.add_of_person(person, hash, Some(100), entry("person.token"), 2).await.unwrap().unwrap();
    assert_eq!(made.expires_at, Some(100));
    let found = store.tokens().find("h1").await.unwrap().unwrap();
    assert!(found.is_good(99) && !found.is_good(100) && !found.is_good(i64::MAX));
}

#[tokio::test]
async fn a_message_of_a_schedule_counts_for_the_one_who_added_it() {
    let (_folder, store) = open();
    for name in ["ann", "bob"] {
        add(&store, new(name)).await;
    }
    super::super::channel_tests::make(&store, "dev", &["coder"]).await;
    let session: SessionKey = "agent:coder:flock:channel:dev".parse().unwrap();
    let charged = async || {
        let person = store.people().charged(&session, Some("t")).await.unwrap();
        person.map(|person| person.name).unwrap_or_default()
    };
    let says = super::super::channel_tests::says;
    store.posts().add(says("dev", "human:bob", "hello")).await.unwrap();
    assert_eq!(charged().await, "bob");
    let of = |name: &str| Some(name.to_owned());
    store.posts().add(NewPost { charged: of("ann"), ..says("dev", "system", "look") }).await.unwrap();
    assert_eq!(charged().await, "ann");
    store.posts().add(says("dev", "coder", "I looked")).await.unwrap();
    assert_eq!(charged().await, "ann", "an agent's message changes nothing");
    store.posts().add(NewPost { charged: of("owner"), ..says("dev", "system", "look") }).await.unwrap();
    assert_eq!(charged().await, "", "a schedule of the owner counts for nobody");
    store.posts().add(says("dev", "human:bob", "hello")).await.unwrap();
    assert_eq!(charged().await, "bob");
}

#[tokio::test]
async fn an_account_and_a_change_are_made_together_or_not_at_all() {
    let (_folder, store) = open();
    add(&store, new("ann")).await;
    add(&store, new("bob")).await;
    let account = |subject: &str| OidcAccount {
        issuer: "https://id.example".to_owned(),
        subject: Some(subject.to_owned()),
        email: None,
    };
    let people = || store.people();
    let bound = people().set_account("bob".to_owned(), Some(account("b")), entry("person.account"), 2).await;
    assert!(matches!(bound.unwrap(), OidcBinding::Bound(_)));
    let before = people().find("ann").await.unwrap().unwrap();
    let change = || PersonChange { role: Some(PersonRole::Viewer), ..PersonChange::default() };
    let with = |subject: &str| (Some(account(subject)), entry("person.account"));
    let ann = || "ann".to_owned();
    // What is wrong with the change leaves the account, and what is wrong with the account the change.
    let refused = people()
        .change_with_account(ann(), change(), |_: &Person| Err::<AuditEntry, _>(7), with("a"), 3)
        .await;
    assert!(matches!(refused.unwrap(), Err(7)));
    assert_eq!(people().find("ann").await.unwrap().unwrap(), before);
    let good = |_: &Person| Ok::<_, u8>(entry("person.change"));
    let taken = people().change_with_account(ann(), change(), good, with("b"), 3).await.unwrap();
    assert!(matches!(taken, Ok(OidcBinding::Taken(name)) if name == "bob"));
    assert_eq!(people().find("ann").await.unwrap().unwrap(), before);
    let both = people().change_with_account(ann(), change(), good, with("a"), 3).await.unwrap();
    assert!(matches!(both, Ok(OidcBinding::Bound(_))));
    let after = people().find("ann").await.unwrap().unwrap();
    assert_eq!((after.role, after.oidc), (PersonRole::Viewer, Some(account("a"))));
}
