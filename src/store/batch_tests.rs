use std::sync::mpsc;

use futures_util::future::join_all;

use super::channel_tests::{id, make, open, says};
use super::*;
use crate::id::ChannelId;

/// Has the writing thread take these messages as one batch. Returns what became of each.
pub(super) async fn post_at_once(store: &Store, posts: Vec<NewPost>) -> Vec<Result<PostOutcome, StoreError>> {
    let (go, gate) = mpsc::channel::<()>();
    let wait = move || {
        // An error means that this test has failed.
        let _ = gate.recv();
    };
    store.access.engine.when_written(wait).unwrap();
    let mut posted = Box::pin(join_all(posts.into_iter().map(|post| store.posts().add(post))));
    // The first look submits all of them.
    assert!(futures_util::poll!(&mut posted).is_pending());
    go.send(()).unwrap();
    posted.await
}

fn posted(outcome: Result<PostOutcome, StoreError>) -> (ChannelId, u64, usize) {
    let CommittedPost { channel, seq, recipients } = outcome.unwrap().posted().unwrap();
    (channel, seq, recipients.len())
}

#[tokio::test]
async fn messages_that_wait_together_are_posted_each_in_its_channel() {
    let (_folder, store) = open();
    make(&store, "ops", &["a", "b"]).await;
    make(&store, "dev", &["b"]).await;
    make(&store, "old", &[]).await;
    let archive = |transaction: &sql::Transaction<'_>| {
        transaction.execute("UPDATE channel SET state = 'archived' WHERE id = 'old'", ()).map(drop)
    };
    store.write("archive a channel", archive).await.unwrap();
    let said = |channel: &str, text: &str| says(channel, "a", text);
    let outcomes = post_at_once(
        &store,
        vec![
            said("ops", "1"),
            said("dev", "2"),
            said("OPS", "3"),
            said("ops", "3"),
            said("nowhere", "4"),
            said("old", "5"),
            said("ops", "6"),
        ],
    )
    .await;
    let mut outcomes = outcomes.into_iter();
    assert_eq!(posted(outcomes.next().unwrap()), (id("ops"), 1, 1));
    assert_eq!(posted(outcomes.next().unwrap()), (id("dev"), 1, 1));
    assert_eq!(posted(outcomes.next().unwrap()), (id("ops"), 2, 1));
    assert_eq!(
        outcomes.next().unwrap().unwrap(),
        PostOutcome::Repeated { channel: id("ops"), seq: 2 },
        "it sees those before it"
    );
    assert_eq!(outcomes.next().unwrap().unwrap(), PostOutcome::NoChannel);
    assert_eq!(outcomes.next().unwrap().unwrap(), PostOutcome::Archived);
    assert_eq!(posted(outcomes.next().unwrap()), (id("ops"), 3, 1));
    let texts = store.posts().page(&id("ops"), Page::Last, 9).await.unwrap();
    assert_eq!(texts.iter().map(|post| post.content.as_str()).collect::<Vec<_>>(), ["1", "3", "6"]);
    assert!(store.audit().verify().await.unwrap().broken.is_none());
}

#[tokio::test]
async fn messages_of_many_channels_are_numbered_in_each_of_them() {
    let (_folder, store) = open();
    let names: Vec<String> = (0..70).map(|number| format!("Channel-{number}")).collect();
    for name in &names {
        make(&store, name, &["a"]).await;
    }
    for round in 0..2 {
        let twice = names.iter().chain(&names).enumerate();
        let posts =
            twice.map(|(number, name)| says(&name.to_lowercase(), "human:ann", &format!("{round} {number}")));
        let outcomes = post_at_once(&store, posts.collect()).await;
        let mut found: Vec<_> = outcomes.into_iter().map(posted).collect();
        found.sort();
        let mut wanted: Vec<_> = names
            .iter()
            .flat_map(|name| [(id(name), 2 * round + 1, 1), (id(name), 2 * round + 2, 1)])
            .collect();
        wanted.sort();
        assert_eq!(found, wanted, "the numbers of the first round are in the database");
    }
    for name in &names {
        let page = store.posts().page(&id(name), Page::Last, 9).await.unwrap();
        assert_eq!(page.iter().map(|post| post.seq).collect::<Vec<_>>(), [1, 2, 3, 4], "{name}");
        assert!(page[0].content.starts_with("0 ") && page[3].content.starts_with("1 "), "{page:?}");
    }
    assert!(store.audit().verify().await.unwrap().broken.is_none());
}

#[tokio::test]
async fn a_message_that_fails_takes_no_other_with_it() {
    let (_folder, store) = open();
    make(&store, "ops", &["a", "b"]).await;
    // What the database itself refuses is found when the messages were sent already.
    let refuse = |transaction: &sql::Transaction<'_>| {
        transaction.execute("CREATE UNIQUE INDEX each_once ON message (content)", ()).map(drop)
    };
    store.write("refuse a text", refuse).await.unwrap();
    let said = |text: &str| says("ops", "human:ann", text);
    let outcomes = post_at_once(&store, vec![said("1"), said("2"), said("1"), said("3")]).await;
    let mut outcomes = outcomes.into_iter();
    assert_eq!(posted(outcomes.next().unwrap()), (id("ops"), 1, 2));
    assert_eq!(posted(outcomes.next().unwrap()), (id("ops"), 2, 2));
    outcomes.next().unwrap().unwrap_err();
    assert_eq!(posted(outcomes.next().unwrap()), (id("ops"), 3, 2));
    let audit = store.audit().verify().await.unwrap();
    assert!(audit.broken.is_none());
    assert_eq!(store.audit().rows_about("channel.post").await.len(), 3);
}
