use super::channel_tests::{agent, entry, id, make, open, says};
use super::*;
use crate::id::Party;

const DUE: i64 = 1000;

/// Applies a step. Returns `true` if the channel was in the state that the step needs.
async fn step(store: &Store, step: ArchiveStep, now: i64) -> bool {
    let action = match step {
        ArchiveStep::Begin { .. } => "channel.archive",
        ArchiveStep::Ready(_) => "channel.ready",
        ArchiveStep::Finish { .. } => "channel.archived",
        ArchiveStep::Cancel => "channel.archive_cancel",
        ArchiveStep::Reopen => "channel.reopen",
    };
    let notice = NewPost { now, ..says("x", "system", action) };
    store.channels().archive_step(id("x"), step, notice, entry(action)).await.unwrap().is_some()
}

fn begin() -> ArchiveStep {
    ArchiveStep::Begin { by: Party::human("ann"), due_at: DUE }
}

fn ready(who: &str) -> ArchiveStep {
    ArchiveStep::Ready(agent(who))
}

const END: ArchiveStep = ArchiveStep::Finish { forced: false };

async fn join(store: &Store, who: &str) {
    let change =
        MemberChange { channel: id("x"), add: vec![who.parse().unwrap()], remove: Vec::new(), now: 5 };
    let notice = |_: &[Party], _: &[Party]| says("x", "system", "joined");
    store.channels().change_members(change, notice, entry("channel.members")).await.unwrap().unwrap();
}

async fn state(store: &Store) -> ChannelState {
    store.channels().find(&id("x")).await.unwrap().unwrap().state
}

/// Callers decide from an older view of the channel, so the state at the moment of the change has to count.
#[tokio::test]
async fn an_archive_ends_only_when_due_or_with_all_current_agents_ready() {
    let (_folder, store) = open();
    make(&store, "x", &["a", "human:ann"]).await;
    assert!(!step(&store, END, 10).await, "nobody began it");
    assert!(step(&store, begin(), 10).await);
    assert!(!step(&store, END, 10).await, "`a` is not ready");
    assert!(step(&store, ready("a"), 10).await);
    join(&store, "b").await;
    assert!(!step(&store, END, 10).await, "`b` joined and was not asked yet");
    assert!(step(&store, ready("b"), 10).await);
    assert!(step(&store, ArchiveStep::Cancel, 10).await);
    assert!(!step(&store, END, DUE + 1).await, "it was called off");
    assert_eq!(state(&store).await, ChannelState::Active);

    assert!(step(&store, begin(), 10).await);
    assert!(!step(&store, END, DUE - 1).await, "its time is not over");
    assert!(step(&store, END, DUE).await);
    assert!(!step(&store, ArchiveStep::Finish { forced: true }, DUE).await, "it is archived");
    assert!(step(&store, ArchiveStep::Reopen, DUE).await);
    assert!(step(&store, ArchiveStep::Finish { forced: true }, DUE).await, "whoever is ready");
}

#[tokio::test]
async fn a_second_begin_keeps_the_members_that_are_ready() {
    let (_folder, store) = open();
    make(&store, "x", &["a", "b"]).await;
    assert!(step(&store, begin(), 10).await);
    assert!(step(&store, ready("a"), 11).await);
    assert!(!step(&store, begin(), 12).await);
    assert!(!step(&store, ready("a"), 13).await, "it is ready already");
    assert!(step(&store, ready("b"), 13).await);
    assert!(step(&store, END, 14).await);
}

#[tokio::test]
async fn two_steps_in_one_millisecond_are_two_rows_of_the_audit() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    for _ in 0..2 {
        assert!(step(&store, begin(), 10).await);
        assert!(step(&store, ArchiveStep::Cancel, 10).await);
    }
    let actions = store.audit().actions().await;
    let count = |action: &str| actions.iter().filter(|known| *known == action).count();
    assert_eq!((count("channel.archive"), count("channel.archive_cancel")), (2, 2), "{actions:?}");
    assert_eq!(store.audit().verify().await.unwrap().broken, None);
}

#[tokio::test]
async fn active_links_are_notified_and_paused_ones_stay_paused() {
    let (_folder, store) = open();
    make(&store, "x", &["a"]).await;
    for (bridge, state) in [("b1", "active"), ("b2", "paused")] {
        store
            .write("add a link", move |transaction| {
                transaction.execute(
                    "INSERT INTO link (id, channel, bridge, external, title, state, created_by, created_at)
                     VALUES (?1, 'x', ?1, '1', 'x', ?2, 'human:ann', 0)",
                    (bridge, state),
                )
            })
            .await
            .unwrap();
    }
    let rows = |sql: &str| -> Vec<(String, String)> {
        store
            .pool
            .read("look", |connection| {
                connection.prepare(sql)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .unwrap()
    };
    let states = || rows("SELECT id, state FROM link ORDER BY id");
    let told = || rows("SELECT link, notice FROM outbox WHERE notice IS NOT NULL ORDER BY id");
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert!(step(&store, ArchiveStep::Finish { forced: true }, 10).await);
    assert_eq!(states(), [pair("b1", "archived"), pair("b2", "paused")]);
    assert_eq!(told(), [pair("b1", "archived")]);
    assert!(step(&store, ArchiveStep::Reopen, 11).await);
    assert_eq!(states(), [pair("b1", "active"), pair("b2", "paused")]);
    assert_eq!(told(), [pair("b1", "archived"), pair("b1", "reopened")]);
}
