use std::sync::Arc;

use super::*;
use crate::home::Home;
use crate::store::gateway::{Judging, LIFETIME_MS, NewGateway};
use crate::store::{AuditEntry, Level, testing};

struct Place {
    store: Arc<Store>,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        Self { store: Arc::new(Store::open(&home).unwrap()), _folder: folder }
    }

    async fn start(&self, home: &str) -> Epoch {
        let new = NewGateway {
            home: home.to_owned(),
            name: home.to_owned(),
            address: "127.0.0.1:18789".to_owned(),
            version: "1.0.0".to_owned(),
        };
        testing::register_gateway(&self.store, new).await
    }

    /// Takes subjects, and returns the names and tokens of those that it got.
    async fn take(&self, owner: Epoch, names: &[&str]) -> Vec<(String, i64)> {
        let taken = self.store.leases().take(owner, agents(names)).await.unwrap();
        assert!(taken.iter().all(|lease| lease.owner == Some(owner)));
        taken.into_iter().map(|lease| (lease.subject.name, lease.token)).collect()
    }

    /// Reads the leases again if they have changed, and returns `true` if they have. Then all of them are known.
    async fn have_changed(&self, known: &mut LeaseTable) -> bool {
        let changed = self.store.leases().changed(known).await.unwrap();
        let have_changed = changed.is_some();
        if let Some(changed) = changed {
            *known = changed;
        }
        let all = self.store.leases().list().await.unwrap();
        assert!(known.leases.values().eq(&all), "{known:?} {all:?}");
        have_changed
    }

    async fn owners(&self) -> Vec<(String, Option<Epoch>)> {
        let leases = self.store.leases().list().await.unwrap();
        leases.into_iter().map(|lease| (lease.subject.name, lease.owner)).collect()
    }
}

fn agents(names: &[&str]) -> BTreeSet<LeaseSubject> {
    let subject = |name: &&str| LeaseSubject { kind: LeaseKind::Agent, name: (*name).to_owned() };
    names.iter().map(subject).collect()
}

fn with_tokens(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(name, token)| ((*name).to_owned(), *token)).collect()
}

#[tokio::test]
async fn a_subject_is_taken_only_while_it_is_free_and_each_owner_has_another_token() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    assert_eq!(place.take(first, &["coder", "writer"]).await, with_tokens(&[("coder", 1), ("writer", 1)]));
    assert_eq!(place.take(second, &["coder", "tester"]).await, with_tokens(&[("tester", 1)]));
    // Also by its owner: a second time is no news.
    assert!(place.take(first, &["coder"]).await.is_empty());
    // Only the owner gives it up.
    assert_eq!(place.store.leases().give_up(second, agents(&["coder"])).await.unwrap(), 0);
    assert_eq!(place.store.leases().give_up(first, agents(&["coder", "tester", "x"])).await.unwrap(), 1);
    assert_eq!(place.take(second, &["coder"]).await, with_tokens(&[("coder", 2)]));
    let owners = [("coder", second), ("tester", second), ("writer", first)];
    let owners: Vec<_> = owners.iter().map(|(name, owner)| ((*name).to_owned(), Some(*owner))).collect();
    assert_eq!(place.owners().await, owners);
}

#[tokio::test]
async fn kinds_are_apart_and_one_call_takes_all_of_them() {
    let place = Place::new();
    let owner = place.start("a").await;
    let subjects: BTreeSet<LeaseSubject> =
        LeaseKind::ALL.into_iter().map(|kind| LeaseSubject { kind, name: "x".to_owned() }).collect();
    let taken = place.store.leases().take(owner, subjects.clone()).await.unwrap();
    assert_eq!(taken.iter().map(|lease| lease.subject.clone()).collect::<BTreeSet<_>>(), subjects);
    let bridge = LeaseSubject { kind: LeaseKind::Bridge, name: "x".to_owned() };
    assert_eq!(place.store.leases().give_up(owner, BTreeSet::from([bridge.clone()])).await.unwrap(), 1);
    let free: Vec<_> = place.store.leases().list().await.unwrap();
    let free: Vec<_> = free.into_iter().filter(|lease| lease.owner.is_none()).collect();
    assert_eq!(free, [Lease { subject: bridge, owner: None, token: 1 }]);
}

#[tokio::test]
async fn what_an_ended_gateway_owned_is_free_in_the_same_change() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    place.take(first, &["coder", "writer"]).await;
    testing::silence_gateway(&place.store, first, LIFETIME_MS).await;
    assert!(place.take(second, &["coder"]).await.is_empty(), "silence alone frees nothing");
    assert_eq!(
        place.store.gateways().beat(second, Judging::Yes, testing::replaced).await.unwrap().ended,
        [first]
    );
    assert_eq!(place.owners().await, [("coder".to_owned(), None), ("writer".to_owned(), None)]);
    let refused = place.store.leases().take(first, agents(&["coder"])).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused:?}");
    assert_eq!(place.take(second, &["coder"]).await, with_tokens(&[("coder", 2)]));
    // Its return takes nothing away.
    assert_eq!(place.store.leases().give_up(first, agents(&["coder"])).await.unwrap(), 0);
    place.store.gateways().leave(second).await.unwrap();
    assert_eq!(place.owners().await, [("coder".to_owned(), None), ("writer".to_owned(), None)]);
}

#[tokio::test]
async fn all_leases_are_read_again_after_each_change_and_only_then() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    let mut known = LeaseTable::default();
    place.take(first, &["coder", "writer"]).await;
    assert!(place.have_changed(&mut known).await);
    // Nothing is taken from an owner, and given up by another one.
    assert!(place.take(second, &["coder"]).await.is_empty());
    assert_eq!(place.store.leases().give_up(second, agents(&["coder"])).await.unwrap(), 0);
    assert!(!place.have_changed(&mut known).await);
    place.store.leases().give_up(first, agents(&["coder"])).await.unwrap();
    assert!(place.have_changed(&mut known).await);
    let id = |name: &str| name.parse::<crate::id::AgentId>().unwrap();
    let entry = AuditEntry::new("human:ann", "agent.rename", "writer", Level::Green, String::new());
    place.store.agents().rename(id("writer"), id("author"), entry, 1).await.unwrap();
    assert!(place.have_changed(&mut known).await);
    testing::silence_gateway(&place.store, first, LIFETIME_MS).await;
    assert_eq!(
        place.store.gateways().beat(second, Judging::Yes, testing::replaced).await.unwrap().ended,
        [first]
    );
    assert!(place.have_changed(&mut known).await && !place.have_changed(&mut known).await);
    // A server that lacks the newest changes, and has the text that it had before them.
    let restore = |transaction: &Transaction<'_>| {
        transaction.execute("UPDATE lease_change SET mark = 'of before'", ())?;
        transaction.execute("UPDATE lease SET epoch = 1", ()).map(drop)
    };
    place.store.write("restore leases", restore).await.unwrap();
    assert!(place.have_changed(&mut known).await);
}

#[tokio::test]
async fn gateways_that_reach_for_the_same_share_it_without_overlap() {
    let place = Place::new();
    let names: Vec<String> = (0..200).map(|number| format!("agent-{number:03}")).collect();
    let mut owners = Vec::new();
    for home in ["a", "b", "c"] {
        owners.push(place.start(home).await);
    }
    let reach = |owner: Epoch| {
        let (store, names) = (Arc::clone(&place.store), names.clone());
        tokio::spawn(async move {
            let mut count = 0;
            for part in names.chunks(20) {
                let part: Vec<&str> = part.iter().map(String::as_str).collect();
                count += store.leases().take(owner, agents(&part)).await.unwrap().len();
            }
            count
        })
    };
    let reaching: Vec<_> = owners.iter().map(|owner| reach(*owner)).collect();
    let mut taken = 0;
    for reaching in reaching {
        taken += reaching.await.unwrap();
    }
    assert_eq!(taken, names.len());
    assert!(place.store.leases().list().await.unwrap().iter().all(|lease| lease.token == 1));
}

#[tokio::test]
async fn a_kind_of_a_newer_version_is_left_alone() {
    let place = Place::new();
    let owner = place.start("a").await;
    place.take(owner, &["coder"]).await;
    let sql = "INSERT INTO lease (kind, subject, epoch, token, since) VALUES ('moon', 'x', NULL, 1, 1)";
    let add = move |transaction: &Transaction<'_>| transaction.execute(sql, ()).map(drop);
    place.store.write("add a lease", add).await.unwrap();
    assert_eq!(place.owners().await, [("coder".to_owned(), Some(owner))]);
}

#[tokio::test]
async fn a_renamed_agent_keeps_its_owner() {
    let place = Place::new();
    let owner = place.start("a").await;
    place.take(owner, &["coder"]).await;
    let entry = |subject: &str| AuditEntry {
        actor: "human:ann".to_owned(),
        action: "agent.rename",
        subject: subject.to_owned(),
        level: Level::Green,
        detail: "renamed".to_owned(),
        session: None,
        turn: None,
    };
    let id = |name: &str| name.parse::<crate::id::AgentId>().unwrap();
    let agents = || place.store.agents();
    agents().rename(id("coder"), id("maker"), entry("coder"), 1).await.unwrap();
    assert_eq!(place.owners().await, [("maker".to_owned(), Some(owner))]);
    // One whose new id an earlier agent had: both rows stay, each with its token.
    place.take(owner, &["tester"]).await;
    agents().rename(id("tester"), id("maker"), entry("tester"), 1).await.unwrap();
    let names: Vec<String> = place.owners().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["maker", "tester"]);
}
