use std::sync::Arc;

use super::channel::Changed;
use super::sql;
use super::*;
use crate::home::Home;
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind, TurnId};

pub(super) fn open() -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
    (folder, Arc::new(store))
}

pub(super) fn agent(id: &str) -> AgentId {
    id.parse().unwrap()
}

pub(super) fn id(text: &str) -> ChannelId {
    text.parse().unwrap()
}

pub(super) fn entry(action: &'static str) -> AuditEntry {
    AuditEntry {
        actor: "human:ann".into(),
        action,
        subject: "x".into(),
        level: Level::Green,
        detail: String::new(),
        session: None,
        turn: None,
    }
}

pub(super) fn says(channel: &str, author: &str, content: &str) -> NewPost {
    NewPost {
        author: author.parse().unwrap(),
        wake: WakeUrgency::InTime,
        ..NewPost::of_system(&id(channel), content.to_owned(), 10)
    }
}

pub(super) async fn make(store: &Store, channel: &str, members: &[&str]) {
    let new = NewChannel {
        id: id(channel),
        topic: "a topic".into(),
        created_by: Party::human("ann"),
        members: members.iter().map(|member| member.parse().unwrap()).collect(),
        now: 1,
    };
    assert!(store.channels().create(new, None, entry("channel.create")).await.unwrap().is_some());
}

pub(super) async fn seq(store: &Store, post: NewPost) -> u64 {
    store.posts().add(post).await.unwrap().posted().unwrap().seq
}

const ALL: BatchLimits = BatchLimits { messages: 50, bytes: 16 << 10, alone: |_| false, may_be_alone: true };

#[tokio::test]
async fn a_character_that_one_database_can_not_store_harms_neither_a_message_nor_the_audit() {
    let (_folder, store) = open();
    make(&store, "x", &[]).await;
    seq(&store, says("x", "human:ann", "one\0two")).await;
    let read = store.posts().page(&id("x"), Page::Last, 10).await.unwrap();
    let content = &read.last().unwrap().content;
    assert!(content == "one\0two" || content == "one\u{fffd}two", "{content:?}");
    store.audit().append(AuditEntry { detail: "a\0b".to_owned(), ..entry("x") }, 5).await.unwrap();
    let rows = store.audit().rows(&AuditFilter::default(), 1).await.unwrap();
    assert_eq!(rows[0].detail, "a\u{fffd}b", "what every database can store has the hash");
    assert_eq!(store.audit().verify().await.unwrap().broken, None);
}

#[tokio::test]
async fn channel_ids_are_unique_without_regard_to_case() {
    let (_folder, store) = open();
    make(&store, "Fizz-Buzz", &["coder", "human:ann"]).await;
    let again = NewChannel {
        id: id("fizz-buzz"),
        topic: "other".into(),
        created_by: Party::human("bob"),
        members: Vec::new(),
        now: 2,
    };
    assert_eq!(store.channels().create(again, None, entry("channel.create")).await.unwrap(), None);
    let found = store.channels().find(&id("FIZZ-BUZZ")).await.unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.topic.as_str(), found.members.len()), ("Fizz-Buzz", "a topic", 2));
    assert!(found.has(&Party::human("ann")) && !found.has(&Party::human("bob")));
    assert_eq!(seq(&store, says("fizz-buzz", "coder", "hi")).await, 1);
    assert_eq!(store.channels().list(Some(&"coder".parse().unwrap()), None).await.unwrap().len(), 1);
    assert_eq!(
        store.channels().list(Some(&"code_".parse().unwrap()), None).await.unwrap().len(),
        0,
        "no pattern"
    );
    assert_eq!(store.channels().list(None, Some(ChannelState::Archived)).await.unwrap().len(), 0);
}

#[tokio::test]
async fn simultaneous_posts_get_consecutive_numbers() {
    let (_folder, store) = open();
    make(&store, "x", &["a", "b"]).await;
    let posts = (0..64).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { seq(&store, says("x", "human:ann", &format!("message {n}"))).await })
    });
    let mut seqs = Vec::new();
    for post in posts.collect::<Vec<_>>() {
        seqs.push(post.await.unwrap());
    }
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=64).collect::<Vec<_>>());
    assert_eq!(store.channels().find(&id("x")).await.unwrap().unwrap().last_seq, 64);
}

#[tokio::test]
async fn pages_can_be_read_in_both_directions() {
    let (_folder, store) = open();
    make(&store, "x", &[]).await;
    for n in 1..=10 {
        seq(&store, says("x", "human:ann", &format!("n{n}"))).await;
    }
    let seqs = async |page, limit| -> Vec<u64> {
        store.posts().page(&id("x"), page, limit).await.unwrap().iter().map(|post| post.seq).collect()
    };
    assert_eq!(seqs(Page::Last, 3).await, [8, 9, 10]);
    assert_eq!(seqs(Page::Before(8), 3).await, [5, 6, 7]);
    assert_eq!(seqs(Page::Before(2), 3).await, [1]);
    assert_eq!(seqs(Page::After(8), 3).await, [9, 10]);
    assert_eq!(seqs(Page::After(u64::MAX), 3).await, [0; 0]);
}

#[tokio::test]
async fn a_search_query_is_read_as_words_only() {
    let (_folder, store) = open();
    make(&store, "x", &[]).await;
    make(&store, "y", &[]).await;
    seq(&store, says("x", "human:ann", "the Café is open")).await;
    seq(&store, says("y", "human:ann", "the cafe is closed")).await;
    let found = async |channel: Option<&str>, query: &str| {
        store.posts().search(channel.map(id).as_ref(), query, 10).await.unwrap().len()
    };
    assert_eq!(found(None, "cafe").await, 2);
    assert_eq!(found(Some("X"), "cafe").await, 1);
    assert_eq!(found(None, "caf op").await, 0, "only the last word may be a beginning");
    assert_eq!(found(None, "café clo").await, 1);
    assert_eq!(
        (found(None, "ca").await, found(None, "c").await, found(None, "cafe c").await),
        (2, 0, 0),
        "one letter is a word"
    );
    seq(&store, says("y", "human:ann", "plan B, or b again")).await;
    assert_eq!((found(None, "b").await, found(None, "b ag").await), (1, 1));
    for hostile in ["", "\"", "content:x", "a OR b", "NEAR(", "*", "-x", "^", "'; DROP TABLE message; --"] {
        assert_eq!(found(None, hostile).await, 0, "{hostile:?}");
    }
}

#[tokio::test]
async fn words_of_any_language_are_found_by_their_letters_and_newest_first() {
    let (_folder, store) = open();
    make(&store, "x", &[]).await;
    for text in [
        "run build_all.sh with release-2.10",
        "Gr\u{f6}\u{df}e und Breite",
        "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}, \u{41c}\u{438}\u{440}",
        "\u{6771}\u{4eac}\u{90fd} and build #1234",
        "na\u{ef}ve fac\u{327}ade \u{1f426} v2beta",
    ] {
        seq(&store, says("x", "human:ann", text)).await;
    }
    let found = async |query: &str| -> Vec<u64> {
        let found = store.posts().search(None, query, 10).await.unwrap();
        found.iter().map(|post| post.seq).collect()
    };
    for (query, wanted) in [
        ("build", vec![4, 1]),
        ("build_al", vec![1]),
        ("release 2", vec![1]),
        ("GROSSE", vec![]),
        ("gr\u{f6}\u{df}", vec![2]),
        ("\u{41c}\u{418}\u{420}", vec![3]),
        ("\u{6771}\u{4eac}", vec![4]),
        ("123", vec![4]),
        ("facade naive", vec![5]),
        ("v2", vec![5]),
        ("2beta", vec![]),
    ] {
        assert_eq!(found(query).await, wanted, "{query}");
    }
    // What is changed is found by its new words, and what is deleted by none.
    for text in
        ["UPDATE message SET content = 'a newer text' WHERE seq = 1", "DELETE FROM message WHERE seq = 4"]
    {
        store.write("change", move |change| change.execute(text, ()).map(drop)).await.unwrap();
    }
    assert_eq!(found("build").await, [0; 0]);
    assert_eq!(found("newer").await, [1]);
}

#[tokio::test]
async fn an_agent_receives_new_messages_without_its_own() {
    let (_folder, store) = open();
    make(&store, "x", &["a", "b", "human:ann"]).await;
    assert_eq!(store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap(), None);
    seq(&store, says("x", "a", "mine")).await;
    assert_eq!(store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap(), None, "its own wakes nobody");
    seq(&store, says("x", "human:ann", "hello")).await;
    seq(&store, NewPost { wake: WakeUrgency::Nobody, ..says("x", "b", "aside") }).await;

    let turn = TurnId::new();
    let batch = store.deliveries().take_batch(agent("a"), id("X"), turn, ALL).await.unwrap().unwrap();
    let seqs: Vec<u64> = batch.messages.iter().map(|post| post.seq).collect();
    assert_eq!((seqs, batch.after, batch.up_to, batch.more), (vec![2, 3], 0, 3, 0));
    assert_eq!(
        store.deliveries().take_batch(agent("a"), id("x"), turn, ALL).await.unwrap(),
        None,
        "it is in flight"
    );
    assert_eq!(store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap(), None);

    // The turn never began, so all messages count as new again.
    store.deliveries().end(agent("a"), id("x"), turn, None).await.unwrap();
    assert!(store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap().unwrap().human);
    assert_eq!(
        store.deliveries().unseen(&agent("c"), &id("x")).await.unwrap(),
        None,
        "no member, and given nothing"
    );
    let turn = TurnId::new();
    let batch = store.deliveries().take_batch(agent("a"), id("x"), turn, ALL).await.unwrap().unwrap();
    // A message that arrives during the turn is a batch of its own for the same turn.
    seq(&store, says("x", "b", "more")).await;
    let steered = store.deliveries().take_batch(agent("a"), id("x"), turn, ALL).await.unwrap().unwrap();
    assert_eq!((batch.up_to, steered.after, steered.up_to, steered.messages.len()), (3, 3, 4, 1));
    assert_eq!(store.deliveries().in_flight().await.unwrap()[0].up_to, 4);
    // Only the first of the two batches reached the transcript.
    store.deliveries().end(agent("a"), id("x"), turn, Some(3)).await.unwrap();
    let batch =
        store.deliveries().take_batch(agent("a"), id("x"), TurnId::new(), ALL).await.unwrap().unwrap();
    assert_eq!((batch.after, batch.messages[0].seq), (3, 4));
}

#[tokio::test]
async fn a_batch_holds_whole_messages_and_says_how_many_follow() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    for size in [10, 60, 60, 60, 10] {
        seq(&store, says("x", "human:ann", &"x".repeat(size))).await;
    }
    let limits = BatchLimits { bytes: 100, ..ALL };
    let turn = TurnId::new();
    let batch = store.deliveries().take_batch(agent("a"), id("x"), turn, limits).await.unwrap().unwrap();
    assert_eq!((batch.messages.len(), batch.up_to, batch.more), (2, 2, 3));
    let batch = store.deliveries().take_batch(agent("a"), id("x"), turn, limits).await.unwrap().unwrap();
    assert_eq!((batch.messages.len(), batch.up_to, batch.more), (2, 4, 1));
}

#[tokio::test]
async fn a_text_too_long_for_a_batch_is_not_read_and_later_messages_are_counted_up_to_a_limit() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    seq(&store, says("x", "human:ann", &"한".repeat(34))).await;
    for n in 0..MOST_COUNTED + 7 {
        seq(&store, says("x", "human:ann", &format!("n{n}"))).await;
    }
    let limits = BatchLimits { messages: 2, bytes: 100, ..ALL };
    let turn = TurnId::new();
    let batch = store.deliveries().take_batch(agent("a"), id("x"), turn, limits).await.unwrap().unwrap();
    let given: Vec<_> = batch.messages.iter().map(|given| (given.size, given.content.as_deref())).collect();
    assert_eq!(given, [(102, None), (2, Some("n0"))]);
    assert_eq!((batch.up_to, batch.more), (2, MOST_COUNTED));
    let rest = BatchLimits { messages: 10_000, bytes: 100_000, ..ALL };
    let batch = store.deliveries().take_batch(agent("a"), id("x"), turn, rest).await.unwrap().unwrap();
    assert_eq!((batch.messages.len() as u64, batch.more), (MOST_COUNTED + 6, 0));
}

#[tokio::test]
async fn unseen_messages_report_urgency_author_and_mention() {
    let (_folder, store) = open();
    make(&store, "x", &["a", "a-b", "human:ann"]).await;
    let mentions = PostMentions { agents: vec![agent("a-b")], all: false };
    seq(&store, NewPost { mentions, wake: WakeUrgency::AtOnce, ..says("x", "human:ann", "@a-b go") }).await;
    let unseen = store.deliveries().all_unseen().await.unwrap();
    let of = |who: &str| unseen.iter().find(|unseen| unseen.agent.as_str() == who).unwrap().clone();
    assert!(of("a-b").mention && of("a-b").human && of("a-b").wake == WakeUrgency::AtOnce);
    assert!(!of("a").mention && of("a").human);
    seq(&store, NewPost { wake: WakeUrgency::Nobody, ..says("x", "system", "an aside") }).await;
    assert_eq!(store.deliveries().all_unseen().await.unwrap(), unseen, "an aside changes nothing");
}

#[tokio::test]
async fn each_member_is_told_of_its_own_unseen_messages() {
    let (_folder, store) = open();
    for channel in ["x", "y", "z"] {
        make(&store, channel, &["a", "b", "human:ann"]).await;
    }
    seq(&store, says("x", "b", "hello")).await;
    seq(&store, NewPost { wake: WakeUrgency::AtOnce, ..says("y", "human:ann", "go") }).await;
    let turn = TurnId::new();
    store.deliveries().take_batch(agent("a"), id("y"), turn, ALL).await.unwrap().unwrap();
    let mark = store.deliveries().newest_message().await.unwrap();
    let mentions = PostMentions { agents: Vec::new(), all: true };
    seq(&store, NewPost { mentions, ..says("z", "a", "@all") }).await;
    let facts = |unseen: Vec<UnseenSummary>| {
        let mut facts: Vec<_> = unseen
            .into_iter()
            .map(|one| (one.agent.to_string(), one.channel.to_string(), one.wake, one.human, one.mention))
            .collect();
        facts.sort();
        facts
    };
    let fact = |agent: &str, channel: &str, wake, human, mention| {
        (agent.to_owned(), channel.to_owned(), wake, human, mention)
    };
    let mut all = vec![
        fact("a", "x", WakeUrgency::InTime, false, false),
        fact("b", "y", WakeUrgency::AtOnce, true, false),
        fact("b", "z", WakeUrgency::InTime, false, true),
    ];
    assert_eq!(facts(store.deliveries().all_unseen().await.unwrap()), all);
    assert_eq!(store.deliveries().count_unseen().await.unwrap(), 3);
    assert_eq!(facts(store.deliveries().unseen_of([&agent("b"), &agent("c")]).await.unwrap()), all[1..]);
    let (newest, since) = store.deliveries().unseen_since(mark).await.unwrap();
    assert_eq!(facts(since), [all[2].clone()]);
    assert_eq!(store.deliveries().unseen_since(newest).await.unwrap(), (newest, Vec::new()));
    // The turn ended without them, so they are new again.
    store.deliveries().end(agent("a"), id("y"), turn, None).await.unwrap();
    all.insert(1, fact("a", "y", WakeUrgency::AtOnce, true, false));
    assert_eq!(facts(store.deliveries().all_unseen().await.unwrap()), all);
    assert_eq!(store.deliveries().count_unseen().await.unwrap(), 4);
}

#[tokio::test]
async fn a_mention_behind_many_that_wake_nobody_is_found() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    for n in 0..600 {
        seq(&store, NewPost { wake: WakeUrgency::Nobody, ..says("x", "system", &format!("aside {n}")) })
            .await;
    }
    assert_eq!(store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap(), None);
    assert_eq!(store.deliveries().count_unseen().await.unwrap(), 0);
    let mentions = PostMentions { agents: vec![agent("a")], all: false };
    seq(&store, NewPost { mentions, wake: WakeUrgency::AtOnce, ..says("x", "human:ann", "@a go") }).await;
    let found = store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap().unwrap();
    assert!(found.mention && found.human && found.wake == WakeUrgency::AtOnce);
    assert_eq!(store.deliveries().all_unseen().await.unwrap(), std::slice::from_ref(&found));
    assert_eq!(store.deliveries().unseen_since(0).await.unwrap().1, [found]);
}

#[tokio::test]
async fn an_underscore_in_a_name_is_no_wildcard() {
    let (_folder, store) = open();
    make(&store, "one", &["dev_a", "dev-a"]).await;
    make(&store, "two", &["dev-a"]).await;
    let of =
        async |member: &str| store.channels().list(Some(&member.parse().unwrap()), None).await.unwrap().len();
    assert_eq!((of("dev_a").await, of("dev-a").await), (1, 2));
    let mentions = PostMentions { agents: vec![agent("dev_a")], all: false };
    seq(&store, NewPost { mentions, ..says("one", "human:ann", "@dev_a go") }).await;
    let is_mentioned =
        async |who: &str| store.deliveries().unseen(&agent(who), &id("one")).await.unwrap().unwrap().mention;
    assert_eq!((is_mentioned("dev_a").await, is_mentioned("dev-a").await), (true, false));
    let change =
        MemberChange { channel: id("one"), add: Vec::new(), remove: vec!["dev_a".parse().unwrap()], now: 5 };
    let notice = |_: &[Party], _: &[Party]| says("one", "system", "left");
    store.channels().change_members(change, notice, entry("channel.members")).await.unwrap().unwrap();
    assert_eq!((of("dev_a").await, of("dev-a").await), (0, 2));
}

#[tokio::test]
async fn a_member_that_joins_late_is_given_the_newest_of_the_past() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    for n in 0..70 {
        seq(&store, says("x", "human:ann", &format!("n{n}"))).await;
    }
    let change = MemberChange {
        channel: id("x"),
        add: vec!["b".parse().unwrap()],
        remove: vec!["a".parse().unwrap()],
        now: 5,
    };
    let notice = |joined: &[Party], left: &[Party]| says("x", "system", &format!("{joined:?} {left:?}"));
    let changed = store
        .channels()
        .change_members(change.clone(), notice, entry("channel.members"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((changed.joined.len(), changed.left.len(), changed.posted.unwrap().seq), (1, 1, 71));
    let again =
        store.channels().change_members(change, notice, entry("channel.members")).await.unwrap().unwrap();
    assert_eq!(again, Changed::default(), "nothing changed, so nothing is said");
    let batch =
        store.deliveries().take_batch(agent("b"), id("x"), TurnId::new(), ALL).await.unwrap().unwrap();
    assert_eq!((batch.after, batch.messages.len(), batch.more), (20, 50, 1));
    assert_eq!(
        store.deliveries().take_batch(agent("a"), id("x"), TurnId::new(), ALL).await.unwrap(),
        None,
        "it has left"
    );
}

#[tokio::test]
async fn an_outline_ends_at_the_last_message_of_a_person_whatever_the_clock_said() {
    let (_folder, store) = open();
    make(&store, "x", &["a", "b"]).await;
    let outline = async || {
        let posts = store.posts().since_human(&id("X"), 100).await.unwrap();
        posts.into_iter().map(|post| post.start).collect::<Vec<_>>()
    };
    seq(&store, says("x", "a", "first")).await;
    assert_eq!(outline().await, ["first"], "nobody has written");
    for (author, content, now) in [
        ("human:ann", "hello", 100),
        ("a", "one", 101),
        // The clock was set back.
        ("human:bob", "again", 50),
        ("b", "two", 51),
        ("a", "three", 52),
    ] {
        seq(&store, NewPost { now, ..says("x", author, content) }).await;
    }
    assert_eq!(outline().await, ["three", "two", "again"]);
    seq(&store, NewPost { now: 200, ..says("x", "human:ann", "enough") }).await;
    assert_eq!(outline().await, ["enough"]);
}

#[tokio::test]
async fn a_repeated_post_is_not_stored_twice() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    assert_eq!(seq(&store, says("x", "a", "done")).await, 1);
    assert_eq!(
        store.posts().add(says("x", "a", "done")).await.unwrap(),
        PostOutcome::Repeated { channel: id("x"), seq: 1 }
    );
    seq(&store, says("x", "human:ann", "again?")).await;
    assert_eq!(seq(&store, says("x", "a", "done")).await, 3, "after somebody else it is an answer");
    seq(&store, says("x", "human:ann", "yes")).await;
    assert_eq!(seq(&store, says("x", "human:ann", "yes")).await, 5, "a person may");
    let turn = TurnId::new();
    let last = NewPost { turn: Some(turn), is_final: true, ..says("x", "a", "the end") };
    assert_eq!(seq(&store, last.clone()).await, 6);
    seq(&store, says("x", "human:ann", "thanks")).await;
    assert_eq!(store.posts().add(last).await.unwrap(), PostOutcome::Repeated { channel: id("x"), seq: 6 });
    assert!(store.posts().has_posted(&id("X"), turn).await.unwrap());
    assert!(!store.posts().has_posted(&id("y"), turn).await.unwrap());
    assert!(!store.posts().has_posted(&id("x"), TurnId::new()).await.unwrap());
    assert_eq!(store.posts().add(says("nowhere", "a", "x")).await.unwrap(), PostOutcome::NoChannel);
}

#[tokio::test]
async fn items_return_to_the_queue_if_their_turn_never_began() {
    let (_folder, store) = open();
    let session = SessionKey::new(&agent("a"), SessionKind::Dm, "b");
    let item = |text: &str, task: Option<&str>| NewInboxItem {
        session: session.clone(),
        kind: InboxItemKind::Dm,
        sender: "b".into(),
        text: text.into(),
        task: task.map(str::to_owned),
        now: 1,
    };
    store.inbox().add(item("one", Some("t1"))).await.unwrap();
    store.inbox().add(item("two", None)).await.unwrap();
    assert_eq!(store.inbox().sessions().await.unwrap(), std::slice::from_ref(&session));
    let turn = TurnId::new();
    assert_eq!(store.inbox().take(session.clone(), turn).await.unwrap().unwrap().text, "one");
    store.inbox().requeue(turn).await.unwrap();
    let turn = TurnId::new();
    assert_eq!(store.inbox().take(session.clone(), turn).await.unwrap().unwrap().text, "one");
    assert_eq!(store.inbox().in_flight().await.unwrap().len(), 1);
    // The task broke off: its resume item comes before the item that waited.
    store.inbox().queue_resume(session.clone(), turn, "broke off".into(), 1, 9).await.unwrap();
    let next = TurnId::new();
    let resumed = store.inbox().take(session.clone(), next).await.unwrap().unwrap();
    assert_eq!(
        (resumed.kind, resumed.task.as_deref(), resumed.attempts),
        (InboxItemKind::Resume, Some("t1"), 1)
    );
    store.inbox().delete(next).await.unwrap();
    assert_eq!(store.inbox().take(session.clone(), TurnId::new()).await.unwrap().unwrap().text, "two");
    assert!(!store.inbox().has_items(&session).await.unwrap());
}

#[tokio::test]
async fn a_failed_change_does_not_undo_others_of_its_batch() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    // The writer is blocked until all posts wait together.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    store.write_behind("hold", move |_| {
        let _ = held.recv();
        Ok(())
    });
    let spawn = |n: u32| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            match n {
                3 => store
                    .write("fail", |transaction| {
                        transaction.execute("DELETE FROM message", ())?;
                        Err(sql::Error::Malformed)
                    })
                    .await
                    .map(|()| 0),
                5 => store.write("break", |_| panic!("a defect")).await,
                _ => Ok(seq(&store, says("x", "human:ann", &format!("m{n}"))).await),
            }
        })
    };
    let tasks: Vec<_> = (0..8).map(spawn).collect();
    tokio::task::yield_now().await;
    hold.send(()).unwrap();
    let mut good = 0;
    for (n, task) in tasks.into_iter().enumerate() {
        let result = task.await.unwrap();
        assert_eq!(result.is_err(), n == 3 || n == 5, "{n}: {result:?}");
        good += usize::from(result.is_ok());
    }
    assert_eq!(store.posts().page(&id("x"), Page::Last, 50).await.unwrap().len(), good);
}

#[tokio::test]
async fn posts_go_to_the_outbox_of_each_active_link() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    let add = |state: &'static str| {
        store.write("add a link", move |transaction| {
            transaction.execute(
                "INSERT INTO link (id, channel, bridge, external, title, state, created_by, created_at)
                 VALUES (?1, 'x', ?1, '1', 'x', ?1, 'human:ann', 0)",
                [state],
            )
        })
    };
    add("active").await.unwrap();
    add("paused").await.unwrap();
    seq(&store, says("X", "human:ann", "hi")).await;
    let sent: Vec<(String, i64)> = store
        .pool
        .read("look", |connection| {
            connection
                .prepare("SELECT link, seq FROM outbox")?
                .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .unwrap();
    assert_eq!(sent, [("active".to_owned(), 1)]);
}

#[tokio::test]
async fn an_exclusive_message_gets_its_own_batch_or_waits() {
    let (_dir, store) = open();
    make(&store, "dev", &["coder"]).await;
    for text in ["one", "two", "!", "three"] {
        seq(&store, says("dev", "human:ann", text)).await;
    }
    let alone = |given: &Given| given.content.as_deref() == Some("!");
    let turn = TurnId::new();
    let take = async |may_be_alone| {
        let limits = BatchLimits { alone, may_be_alone, ..ALL };
        let batch =
            store.deliveries().take_batch("coder".parse().unwrap(), id("dev"), turn, limits).await.unwrap();
        batch.map(|batch| {
            let texts = batch.messages.iter().filter_map(|given| given.content.clone());
            (texts.collect::<Vec<_>>().join(" "), batch.up_to, batch.more)
        })
    };
    assert_eq!(take(true).await, Some(("one two".to_owned(), 2, 2)), "what is before it");
    assert_eq!(take(false).await, None, "it waits, and what is after it with it");
    assert_eq!(take(true).await, Some(("!".to_owned(), 3, 1)));
    assert_eq!(take(true).await, Some(("three".to_owned(), 4, 0)));
}

#[tokio::test]
async fn positions_never_point_past_the_last_message() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    seq(&store, says("x", "human:ann", "one")).await;
    let turn = TurnId::new();
    store.deliveries().take_batch(agent("a"), id("x"), turn, ALL).await.unwrap().unwrap();
    // The transcript names more messages than the database still has.
    store.deliveries().record(agent("a"), id("x"), turn, 7).await.unwrap();
    store.deliveries().end(agent("a"), id("x"), turn, Some(9)).await.unwrap();
    seq(&store, says("x", "human:ann", "two")).await;
    let turn = TurnId::new();
    let batch = store.deliveries().take_batch(agent("a"), id("x"), turn, ALL).await.unwrap().unwrap();
    assert_eq!(batch.messages[0].seq, 2);
    store.deliveries().end(agent("a"), id("x"), turn, Some(2)).await.unwrap();
    // An earlier version of flock could leave such positions.
    store
        .write("point past the end", |transaction| {
            transaction.execute("UPDATE delivery SET delivered_seq = 50, inflight_seq = 60", ()).map(drop)
        })
        .await
        .unwrap();
    let is_past = async || store.deliveries().are_past_the_end([&agent("b"), &agent("a")]).await.unwrap();
    assert!(is_past().await);
    assert_eq!(store.deliveries().clamp_positions().await.unwrap(), 1);
    assert!(!is_past().await);
    assert_eq!(store.deliveries().clamp_positions().await.unwrap(), 0);
    store.deliveries().end(agent("a"), id("x"), turn, None).await.unwrap();
    seq(&store, says("x", "human:ann", "three")).await;
    assert!(store.deliveries().unseen(&agent("a"), &id("x")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_channels_last_number_is_corrected_to_its_last_message() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    for text in ["one", "two", "three"] {
        seq(&store, says("x", "human:ann", text)).await;
    }
    let before = store.channels().find(&id("x")).await.unwrap().unwrap().last_seq;
    assert_eq!(store.deliveries().clamp_positions().await.unwrap(), 0);
    // A disk that lost a page leaves the database like this.
    store
        .write("lose a message", move |transaction| {
            transaction
                .execute("DELETE FROM message WHERE seq = ?1", [i64::try_from(before).unwrap()])
                .map(drop)
        })
        .await
        .unwrap();
    assert!(store.deliveries().are_past_the_end([&agent("a")]).await.unwrap());
    assert!(!store.deliveries().are_past_the_end([&agent("b")]).await.unwrap());
    assert_eq!(store.deliveries().clamp_positions().await.unwrap(), 1);
    assert_eq!(seq(&store, says("x", "human:ann", "three again")).await, before);
    assert!(store.deliveries().rewind(agent("a"), id("x"), 0).await.is_ok_and(|is_back| !is_back));
}

#[tokio::test]
async fn messages_held_by_another_turn_are_not_skipped() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    seq(&store, says("x", "human:ann", "one")).await;
    let first = TurnId::new();
    store.deliveries().take_batch(agent("a"), id("x"), first, ALL).await.unwrap().unwrap();
    seq(&store, says("x", "human:ann", "two")).await;
    let session: crate::id::SessionKey = "agent:a:flock:channel:x".parse().unwrap();
    assert_eq!(store.deliveries().turns_in_flight(&session).await.unwrap(), [first]);
    assert_eq!(store.deliveries().take_batch(agent("a"), id("x"), TurnId::new(), ALL).await.unwrap(), None);
    store.deliveries().end(agent("a"), id("x"), first, None).await.unwrap();
    let batch =
        store.deliveries().take_batch(agent("a"), id("x"), TurnId::new(), ALL).await.unwrap().unwrap();
    assert_eq!(batch.messages.len(), 2);
}
