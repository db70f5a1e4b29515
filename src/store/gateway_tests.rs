use super::*;
use crate::home::Home;
use crate::store::{AuditFilter, testing};

fn new(home: &str) -> NewGateway {
    NewGateway {
        home: home.to_owned(),
        name: format!("machine of {home}"),
        address: "127.0.0.1:18789".to_owned(),
        version: "1.0.0".to_owned(),
    }
}

struct Place {
    store: Store,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        Self { store: Store::open(&home).unwrap(), _folder: folder }
    }

    async fn start(&self, home: &str) -> Epoch {
        testing::register_gateway(&self.store, new(home)).await
    }

    async fn beat(&self, epoch: Epoch, judging: Judging) -> Result<Beat, StoreError> {
        self.store.gateways().beat(epoch, judging, testing::replaced).await
    }

    async fn living(&self) -> Vec<Epoch> {
        self.store.gateways().living().await.unwrap().1.into_iter().map(|found| found.epoch).collect()
    }
}

fn of(beat: &Beat) -> Vec<Epoch> {
    beat.living.iter().map(|found| found.epoch).collect()
}

#[tokio::test]
async fn each_run_has_a_higher_number_and_a_home_has_one_gateway() {
    let place = Place::new();
    let (first, other) = (place.start("a").await, place.start("b").await);
    assert!(first < other);
    let second = place.start("a").await;
    assert!(other < second);
    assert_eq!(place.living().await, [other, second]);
    assert!(matches!(place.beat(first, Judging::No).await, Err(StoreError::Fenced { .. })));
    let (now, found) = place.store.gateways().living().await.unwrap();
    let own = found.into_iter().find(|found| found.epoch == second).unwrap();
    assert_eq!((own.home.as_str(), own.name.as_str(), own.version.as_str()), ("a", "machine of a", "1.0.0"));
    assert!(own.started_at <= now && own.beat_until == own.started_at + LIFETIME_MS);
}

#[tokio::test]
async fn the_newest_number_is_not_given_again_when_old_rows_go() {
    let place = Place::new();
    let first = place.start("a").await;
    place.store.gateways().leave(first).await.unwrap();
    // Both are older than what is kept.
    testing::age_gateways(&place.store, KEPT_MS * 2).await;
    let second = place.start("b").await;
    assert!(first < second);
    let rows = testing::count(&place.store, "gateway").await;
    assert_eq!(rows, 1, "the old row is gone");
}

#[tokio::test]
async fn a_gateway_without_a_sign_of_life_is_ended_and_stays_so() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    let beat = place.beat(second, Judging::Yes).await.unwrap();
    assert_eq!((beat.was_late, beat.ended.as_slice(), of(&beat)), (false, &[][..], vec![first, second]));
    testing::silence_gateway(&place.store, first, LIFETIME_MS).await;
    // A gateway that may not judge leaves it alone.
    assert!(place.beat(second, Judging::No).await.unwrap().ended.is_empty());
    let beat = place.beat(second, Judging::Yes).await.unwrap();
    assert_eq!((beat.ended.as_slice(), of(&beat)), (&[first][..], vec![second]));
    let late = place.beat(first, Judging::Yes).await.unwrap_err();
    assert!(matches!(late, StoreError::Fenced { .. }), "{late:?}");
    assert_eq!(place.living().await, [second], "it has ended nobody");
    let filter = AuditFilter { action: Some("gateway.replaced".to_owned()), ..AuditFilter::default() };
    let rows = place.store.audit().rows(&filter, 10).await.unwrap();
    let recorded: Vec<_> = rows.into_iter().map(|row| row.detail).collect();
    assert_eq!(recorded, [first.0.to_string()], "in the change that ended it, and once");
}

#[tokio::test]
async fn a_gateway_that_was_late_itself_ends_nobody() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    // The database was away for both, and the second one had beaten last.
    testing::silence_gateway(&place.store, first, LIFETIME_MS).await;
    testing::silence_gateway(&place.store, second, LATE_MS + 1).await;
    let beat = place.beat(second, Judging::Yes).await.unwrap();
    assert!(beat.was_late && beat.ended.is_empty(), "{beat:?}");
    let beat = place.beat(first, Judging::Yes).await.unwrap();
    assert!(beat.was_late && beat.ended.is_empty(), "{beat:?}");
    assert!(!place.beat(first, Judging::Yes).await.unwrap().was_late);
}

#[tokio::test]
async fn a_clock_that_was_set_back_keeps_no_dead_gateway_alive() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    testing::silence_gateway(&place.store, first, -3_600_000).await;
    let beat = place.beat(second, Judging::Yes).await.unwrap();
    let until = beat.living.iter().find(|found| found.epoch == first).unwrap().beat_until;
    assert_eq!(until, beat.now + LIFETIME_MS);
}

#[tokio::test]
async fn a_gateway_that_leaves_is_gone_at_once() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    place.store.gateways().leave(first).await.unwrap();
    assert_eq!(place.living().await, [second]);
    assert!(matches!(place.beat(first, Judging::No).await, Err(StoreError::Fenced { .. })));
    place.store.gateways().leave(first).await.unwrap();
}

#[tokio::test]
async fn the_only_gateway_ends_all_others() {
    let place = Place::new();
    place.start("a").await;
    place.start("b").await;
    let alone = testing::register_gateway_alone(&place.store, new("c")).await;
    assert_eq!(place.living().await, [alone]);
}

#[tokio::test]
async fn each_gateway_says_which_engines_answer_it() {
    let place = Place::new();
    let (first, second) = (place.start("a").await, place.start("b").await);
    place.start("c").await;
    let both: BTreeSet<EngineName> = BTreeSet::from([EngineName::local(), "far".parse().unwrap()]);
    let none = BTreeSet::new();
    place.store.gateways().set_engines(first, &both).await.unwrap();
    place.store.gateways().set_engines(second, &none).await.unwrap();
    let (_, living) = place.store.gateways().living().await.unwrap();
    let told: Vec<_> = living.into_iter().map(|found| found.engines).collect();
    assert_eq!(told, [both, none.clone(), none], "the third has not asked any yet");
}
