//! The client for buckets against a stand-in that checks signatures and fails, and against a real server if
//! `FLOCK_TEST_S3` names one: `standalone/objects.sh` starts it.

use std::sync::Arc;

use bytes::Bytes;
use flock::blob::{BlobError, BlobKey, BlobStore, Condition, PAGE, ProbeReport, Put, list_all, open, probe};
use flock::config::{BlobSettings, S3Settings, secret};
use flock::error::{Explain as _, chain};
use flock::home::Home;

use crate::support::object_server::{BUCKET, Fault, KEY_ID, ObjectServer, REGION, SECRET};

/// A home with the key for a bucket.
struct Scene {
    _folder: tempfile::TempDir,
    home: Home,
    settings: S3Settings,
}

impl Scene {
    fn at(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        secret::set(&home, "blobs.secret", SECRET).unwrap();
        let settings = S3Settings {
            endpoint: url.to_owned(),
            bucket: Some(BUCKET.to_owned()),
            prefix: "flock/a".to_owned(),
            region: REGION.to_owned(),
            key_id: KEY_ID.to_owned(),
            secret: "secret:blobs.secret".to_owned(),
            token: None,
        };
        Self { _folder: folder, home, settings }
    }

    /// The real server, with a prefix of its own. `FLOCK_TEST_S3` is `http://ID:SECRET@HOST:PORT/BUCKET`.
    fn real() -> Option<Self> {
        let Ok(address) = std::env::var("FLOCK_TEST_S3") else {
            assert!(std::env::var_os("FLOCK_TEST_REQUIRE_S3").is_none(), "FLOCK_TEST_S3 names no server");
            eprintln!("skipped: FLOCK_TEST_S3 names no server");
            return None;
        };
        let rest = address.strip_prefix("http://").unwrap();
        let (user, rest) = rest.split_once('@').unwrap();
        let ((id, secret), (host, bucket)) = (user.split_once(':').unwrap(), rest.split_once('/').unwrap());
        let mut scene = Self::at(&format!("http://{host}"));
        secret::set(&scene.home, "blobs.secret", secret).unwrap();
        scene.settings.key_id = id.to_owned();
        scene.settings.bucket = Some(bucket.to_owned());
        scene.settings.region = "us-east-1".to_owned();
        scene.settings.prefix = format!("test-{}", uuid::Uuid::new_v4().simple());
        Some(scene)
    }

    fn store(&self) -> Arc<dyn BlobStore> {
        open(&self.home, &BlobSettings::S3(self.settings.clone()))
    }
}

fn key(text: &str) -> BlobKey {
    text.parse().unwrap()
}

/// Everything that flock needs of a bucket. A server without conditions replaces a blob.
async fn exercise(store: &dyn BlobStore, keeps_conditions: bool) {
    let at = key("a/b/c.1");
    assert!(store.get(&at, None).await.unwrap_err().is_missing());
    assert_eq!(store.head(&at).await.unwrap(), None);
    store.delete(&at).await.unwrap();
    assert_eq!(store.put(&at, "hello".into(), Condition::Absent).await.unwrap(), Put::Written);
    if keeps_conditions {
        assert_eq!(store.put(&at, "other".into(), Condition::Absent).await.unwrap(), Put::Exists);
    }
    assert_eq!(store.get(&at, None).await.unwrap(), "hello");
    assert_eq!(store.get(&at, Some(1..3)).await.unwrap(), "el");
    assert_eq!(store.get(&at, Some(2..2)).await.unwrap(), "");
    let short = store.get(&at, Some(3..9)).await.unwrap_err();
    assert!(matches!(short, BlobError::Damaged { .. }), "{short}");
    let far = store.get(&at, Some(30..31)).await.unwrap_err();
    assert!(matches!(far, BlobError::Damaged { .. }), "{far}");
    let facts = store.head(&at).await.unwrap().unwrap();
    assert_eq!(facts.size, 5);
    assert!(facts.at > 1_700_000_000_000, "{facts:?}");
    assert_eq!(store.put(&at, "new".into(), Condition::Any).await.unwrap(), Put::Written);
    assert_eq!(store.get(&at, None).await.unwrap(), "new");
    let empty = key("a/empty");
    store.put(&empty, Bytes::new(), Condition::Absent).await.unwrap();
    assert_eq!(store.get(&empty, None).await.unwrap(), "");
    let large: Bytes = (0..9_u32 << 20).map(|at| (at % 251) as u8).collect();
    let big = key("a/large");
    store.put(&big, large.clone(), Condition::Absent).await.unwrap();
    assert_eq!(store.get(&big, None).await.unwrap(), large);
    let part = (8 << 20)..(8 << 20) + 1000;
    assert_eq!(
        store.get(&big, Some(part.start..part.end)).await.unwrap(),
        large[part.start as usize..part.end as usize]
    );
    let listed: Vec<String> =
        list_all(store, "a/").await.unwrap().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(listed, ["a/b/c.1", "a/empty", "a/large"]);
    for key in [&at, &empty, &big] {
        store.delete(key).await.unwrap();
    }
    assert_eq!(list_all(store, "").await.unwrap(), []);
}

/// A list with more than one page.
async fn exercise_pages(store: &dyn BlobStore) {
    let keys: Vec<String> = (0..PAGE + 3).map(|number| format!("page/{number:05}")).collect();
    for key in &keys {
        store.put(&key.parse().unwrap(), "x".into(), Condition::Any).await.unwrap();
    }
    let first = store.list("page/", None).await.unwrap();
    assert_eq!((first.blobs.len(), first.next.as_deref()), (PAGE, Some(keys[PAGE - 1].as_str())));
    let all = list_all(store, "page/").await.unwrap();
    assert_eq!(all.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), keys);
    for key in &keys {
        store.delete(&key.parse().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_bucket_does_what_flock_needs() {
    let server = ObjectServer::start();
    let scene = Scene::at(&server.url());
    let store = scene.store();
    exercise(&*store, true).await;
    exercise_pages(&*store).await;
    store.put(&key("x"), "1".into(), Condition::Any).await.unwrap();
    assert_eq!(server.keys(""), ["flock/a/x"], "everything is below the prefix");
    // A beginning of the prefix is not the prefix.
    server.set_blob("flock/ab", Some("other".into()));
    assert_eq!(list_all(&*store, "").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_real_server_does_what_flock_needs() {
    let Some(scene) = Scene::real() else { return };
    let store = scene.store();
    let keeps_conditions = std::env::var_os("FLOCK_TEST_S3_WITHOUT_CONDITIONS").is_none();
    exercise(&*store, keeps_conditions).await;
    exercise_pages(&*store).await;
    let report = probe(&*store).await.unwrap();
    assert_eq!(report.keeps_conditions, keeps_conditions);
    assert!(report.clock_ahead.is_some_and(|ahead| ahead.abs() < 60_000), "{report:?}");
}

#[tokio::test]
async fn a_request_that_failed_for_a_while_is_repeated() {
    let server = ObjectServer::start();
    let scene = Scene::at(&server.url());
    let store = scene.store();
    let at = key("x");
    for fault in [
        Fault::Status(500, "InternalError"),
        Fault::Status(503, "SlowDown"),
        Fault::Status(409, "ConditionalRequestConflict"),
        Fault::Lost,
        Fault::Garbled,
        Fault::Slow(300),
    ] {
        server.fail(fault);
        let put = store.put(&at, "hello".into(), Condition::Absent).await;
        assert_eq!(put.unwrap(), Put::Written, "{fault:?}");
        assert_eq!(server.blob("flock/a/x").unwrap(), "hello", "{fault:?}");
        server.fail(fault);
        assert_eq!(store.get(&at, None).await.unwrap(), "hello", "{fault:?}");
        server.fail(fault);
        assert_eq!(list_all(&*store, "").await.unwrap().len(), 1, "{fault:?}");
        server.fail(fault);
        store.delete(&at).await.unwrap();
        assert_eq!(server.keys(""), Vec::<String>::new(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_blob_that_broke_off_is_read_again_and_never_taken_for_whole() {
    let server = ObjectServer::start();
    let scene = Scene::at(&server.url());
    let store = scene.store();
    store.put(&key("x"), "hello".into(), Condition::Any).await.unwrap();
    server.fail(Fault::Truncated);
    assert_eq!(store.get(&key("x"), None).await.unwrap(), "hello");
    server.fail(Fault::Truncated);
    assert_eq!(store.get(&key("x"), Some(0..4)).await.unwrap(), "hell");
    server.always(Some(Fault::Truncated));
    let error = store.get(&key("x"), None).await.unwrap_err();
    assert!(matches!(error, BlobError::Unreachable { .. }) && error.may_pass(), "{error}");
}

#[tokio::test]
async fn an_own_blob_whose_answer_was_lost_is_known_from_that_of_another_writer() {
    let server = ObjectServer::start();
    let scene = Scene::at(&server.url());
    let store = scene.store();
    server.fail(Fault::Lost);
    assert_eq!(store.put(&key("own"), "mine".into(), Condition::Absent).await.unwrap(), Put::Written);
    server.set_blob("flock/a/taken", Some("theirs".into()));
    server.fail(Fault::Status(500, "InternalError"));
    assert_eq!(store.put(&key("taken"), "mine".into(), Condition::Absent).await.unwrap(), Put::Exists);
    assert_eq!(server.blob("flock/a/taken").unwrap(), "theirs");
}

#[tokio::test]
async fn a_refusal_says_what_mends_it_and_no_secret() {
    let server = ObjectServer::start();
    let mut scene = Scene::at(&server.url());
    let at = key("x");
    let told = |error: &BlobError| {
        let text = format!("{} {error:?} {}", chain(error), error.hint().unwrap());
        assert!(!text.contains(SECRET), "{text}");
        text
    };
    secret::set(&scene.home, "blobs.secret", "another+Secret/of-9Zk").unwrap();
    let error = scene.store().get(&at, None).await.unwrap_err();
    assert!(told(&error).contains("SignatureDoesNotMatch"), "{error}");
    assert!(error.hint().unwrap().contains("storage.blobs.secretAccessKey"), "{error}");
    std::fs::remove_file(scene.home.secrets().join("blobs.secret")).unwrap();
    let error = scene.store().get(&at, None).await.unwrap_err();
    assert!(told(&error).contains("there is no secret named blobs.secret"), "{error}");
    secret::set(&scene.home, "blobs.secret", SECRET).unwrap();
    server.set_clock_ahead(3_600_000);
    let error = scene.store().put(&at, "x".into(), Condition::Any).await.unwrap_err();
    assert!(matches!(error, BlobError::Clock { .. }) && told(&error).contains("clock"), "{error}");
    server.set_clock_ahead(0);
    scene.settings.bucket = Some("gone".to_owned());
    let error = scene.store().get(&at, None).await.unwrap_err();
    assert!(matches!(error, BlobError::Refused { .. }) && told(&error).contains("NoSuchBucket"), "{error}");
    scene.settings.region = "elsewhere".to_owned();
    let error = scene.store().get(&at, None).await.unwrap_err();
    assert!(told(&error).contains("AuthorizationHeaderMalformed"), "{error}");
    // A server that repeats the key in its error.
    scene.settings.region = REGION.to_owned();
    server.always(Some(Fault::Status(403, SECRET)));
    let error = scene.store().get(&at, None).await.unwrap_err();
    assert!(told(&error).contains("[key]"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_said_after_some_attempts() {
    let server = ObjectServer::start();
    let scene = Scene::at(&server.url());
    drop(server);
    let error = scene.store().get(&key("x"), None).await.unwrap_err();
    assert!(matches!(error, BlobError::Unreachable { .. }), "{error}");
    assert_eq!(error.hint().as_deref(), Some("flock storage check"));
}

#[tokio::test]
async fn a_server_that_sends_all_instead_of_a_range_is_understood() {
    let server = ObjectServer::start();
    server.ignore_ranges();
    let store = Scene::at(&server.url());
    let store = store.store();
    store.put(&key("x"), "hello".into(), Condition::Any).await.unwrap();
    assert_eq!(store.get(&key("x"), Some(1..3)).await.unwrap(), "el");
    assert!(store.get(&key("x"), Some(4..7)).await.is_err());
}

#[tokio::test]
async fn the_probe_finds_what_a_server_lacks() {
    let server = ObjectServer::start();
    let scene = Scene::at(&server.url());
    let store = scene.store();
    server.set_clock_ahead(120_000);
    let ProbeReport { clock_ahead, keeps_conditions } = probe(&*store).await.unwrap();
    // The date of an answer has no fractions of a second.
    assert!((100_000..=125_000).contains(&clock_ahead.unwrap()) && keeps_conditions, "{clock_ahead:?}");
    assert_eq!(server.keys(""), Vec::<String>::new(), "nothing is left");
    server.ignore_conditions();
    assert!(!probe(&*store).await.unwrap().keeps_conditions);
    assert_eq!(server.keys(""), Vec::<String>::new());
    server.fail(Fault::Slow(0)).fail(Fault::Flipped);
    let error = probe(&*store).await.unwrap_err();
    assert!(error.to_string().contains("it is not what was written"), "{error}");
    assert_eq!(server.keys(""), Vec::<String>::new(), "nothing is left of one that failed either");
}
