use std::sync::Arc;

use git2::{ObjectType, Oid};

use super::*;
use crate::home::Home;
use crate::receipt::key::SigningKey;
use crate::receipt::objects::ObjectMap;
use crate::receipt::prove::{ISSUE_ACTION, detail};
use crate::receipt::sshsig::{CHAIN_NAMESPACE, RECEIPT_NAMESPACE};
use crate::receipt::tree::Tree;
use crate::receipt::verify::{self, Outcome};
use crate::receipt::{Checks, Receipt, canonical, testing};
use crate::store::{AuditEntry, Level, NewReceipt, Store, StoredOutput};

/// The names and contents of a bundle's entries, in their order.
type Entries = Vec<(String, Vec<u8>)>;

const OUTPUT: &str = "===== 3 passed in 0.1s =====";

/// The parts of an exported bundle, and the key that signed it.
struct Scene {
    _folder: tempfile::TempDir,
    key: SigningKey,
    parts: Vec<(String, Vec<u8>)>,
}

impl Scene {
    /// Makes a receipt in a home, with rows of others around it, and exports it.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        let repository = git2::Repository::init_bare(folder.path().join("repo.git")).unwrap();
        let files =
            [("README.md", "100644", "x"), ("bin/run", "100755", "y"), ("link", "120000", "README.md")];
        let (map, root) = testing::tree_objects(&files);
        for data in map.0.values() {
            for kind in [ObjectType::Blob, ObjectType::Tree] {
                // The right kind is the one under which the tree refers to it. The other one is not referred to.
                let _ = repository.odb().unwrap().write(kind, data);
            }
        }
        let tree = Arc::new(Tree::load(Arc::new(map), &root).unwrap());
        let commit = format!("tree {root}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nwork\n");
        let commit = repository.odb().unwrap().write(ObjectType::Commit, commit.as_bytes()).unwrap();
        let other = |text: &str| {
            AuditEntry::new("coder", "channel.post", "general", Level::Green, format!("sk-planted {text}"))
        };
        store.audit().append(other("a"), 1).await.unwrap();
        store.audit().append(other("b"), 2).await.unwrap();
        let (row, hash) = store.audit().end().await.unwrap();
        let checks = Checks { required: vec!["README.md".to_owned()], ..Checks::of(&["pytest"]) };
        let mut receipt = testing::receipt(&checks, &tree);
        receipt.delivered.commit = commit.to_string();
        receipt.chain = crate::receipt::document::ChainPosition { hash, row };
        let key = SigningKey::of(&home).unwrap();
        store.audit().append(other("c"), 3).await.unwrap();
        let document = receipt.canonical().unwrap();
        let id = canonical::hash(&document);
        let entry =
            AuditEntry::new("system", ISSUE_ACTION, "t1", Level::Green, detail(&id, &root, "accepted"));
        let new = NewReceipt {
            id: id.clone(),
            project: "web".to_owned(),
            task: "t1".to_owned(),
            branch: receipt.branch.clone(),
            author: "coder".to_owned(),
            tree: root,
            checks: receipt.checks_hash.clone(),
            signature: key.sign(RECEIPT_NAMESPACE, &document),
            document: String::from_utf8(document).unwrap(),
            repository: String::new(),
            outputs: vec![StoredOutput { head: OUTPUT.into(), tail: Vec::new(), total: OUTPUT.len() as u64 }],
        };
        store.receipts().add(new, entry, 4).await.unwrap();
        store.audit().append(other("d"), 5).await.unwrap();
        let stored = store.receipts().find(&id).await.unwrap().remove(0);
        let load = Export::load(&home, &store, stored).await.unwrap();
        let bytes = export(&load, repository.path(), Vec::new()).unwrap();
        let parts = archive::entries(bytes.as_slice()).unwrap();
        Self { _folder: folder, key, parts }
    }

    fn part(&self, name: &str) -> Vec<u8> {
        self.parts.iter().find(|(found, _)| found == name).unwrap().1.clone()
    }

    fn receipt(&self) -> Receipt {
        Receipt::parse(&self.part(RECEIPT)).unwrap()
    }

    fn chain(&self) -> ChainDocument {
        canonical::read("it", &self.part(CHAIN)).unwrap()
    }
}

fn pack(parts: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut writer = archive::Writer(Vec::new());
    for (name, content) in parts {
        writer.add(name, content).unwrap();
    }
    writer.finish().unwrap()
}

#[tokio::test]
async fn a_bundle_is_read_back_and_shows_nothing_of_others() {
    let scene = Scene::new().await;
    let bytes = pack(&scene.parts);
    let bundle = read(bytes.as_slice()).unwrap();
    assert_eq!(bundle.receipt, scene.receipt());
    assert_eq!(bundle.key, scene.key.public());
    assert_eq!(bundle.outputs, [OUTPUT.as_bytes()]);
    assert_eq!(bundle.row, Some(bundle.receipt.chain.row + 2));
    assert_eq!(bundle.chain.as_ref().unwrap().end.row, bundle.receipt.chain.row + 3);
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("sk-planted") && !text.contains("general"), "rows of others are digests");
    let own = [scene.key.public()];
    let outcome = |trusted: Option<&[crate::receipt::sshsig::PublicKey]>| {
        verify::documents(&bundle, trusted)
            .into_iter()
            .map(|finding| (finding.part, finding.outcome))
            .collect::<Vec<_>>()
    };
    assert!(
        outcome(Some(&own)).iter().all(|(_, outcome)| *outcome == Outcome::Verified),
        "{:?}",
        outcome(Some(&own))
    );
    assert_eq!(outcome(None)[0], ("signature", Outcome::NotVerified));
    assert_eq!(outcome(Some(&[]))[0], ("signature", Outcome::Differs));
}

/// Changes a receipt, signs it with another key, and leaves the rest of the bundle as it is.
fn resigned(scene: &Scene, change: impl FnOnce(&mut Receipt)) -> Vec<(String, Vec<u8>)> {
    let mut receipt = scene.receipt();
    change(&mut receipt);
    let document = receipt.canonical().unwrap();
    let mut parts = scene.parts.clone();
    parts[1].1 = scene.key.sign(RECEIPT_NAMESPACE, &document).into_bytes();
    parts[0].1 = document;
    parts
}

/// Changes the part of the audit and signs it again.
fn rechained(scene: &Scene, change: impl FnOnce(&mut ChainDocument)) -> Vec<(String, Vec<u8>)> {
    let mut chain = scene.chain();
    change(&mut chain);
    let text = canonical::write("it", &chain).unwrap();
    let mut parts = scene.parts.clone();
    parts[4].1 = scene.key.sign(CHAIN_NAMESPACE, &text).into_bytes();
    parts[3].1 = text;
    parts
}

#[tokio::test]
async fn forty_kinds_of_tampering_are_refused() {
    let scene = Scene::new().await;
    let names: Vec<&str> = scene.parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..6], [RECEIPT, SIGNATURE, KEY, CHAIN, CHAIN_SIGNATURE, "outputs/0000"]);
    let object = |kind: ObjectType| {
        let is = |name: &str, data: &[u8]| {
            Oid::hash_object(kind, data).is_ok_and(|id| name == format!("{OBJECTS}{id}"))
        };
        scene.parts.iter().position(|(name, data)| is(name, data)).unwrap()
    };
    let (blob, tree, commit) =
        (object(ObjectType::Blob), object(ObjectType::Tree), object(ObjectType::Commit));
    let other_folder = tempfile::tempdir().unwrap();
    let other_home = Home::new(other_folder.path().join("home"), None);
    other_home.make_folders().unwrap();
    let other = SigningKey::of(&other_home).unwrap();
    let with = |change: &dyn Fn(&mut Entries)| {
        let mut parts = scene.parts.clone();
        change(&mut parts);
        parts
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let extra = {
        let mut map = ObjectMap::default();
        let id = testing::put(&mut map, testing::Object::Blob(b"another"));
        (format!("{OBJECTS}{id}"), b"another".to_vec())
    };
    let tampered: Vec<(&str, Entries)> = vec![
        // The receipt and its signature.
        (
            "an exit code is changed",
            with(&|parts| parts[0].1 = text(&parts[0].1).replacen("\"exit\":0", "\"exit\":1", 1).into()),
        ),
        (
            "a number of tests is changed",
            with(&|parts| parts[0].1 = text(&parts[0].1).replacen("\"passed\":3", "\"passed\":9", 1).into()),
        ),
        (
            "the author is changed",
            with(&|parts| parts[0].1 = text(&parts[0].1).replace("\"coder\"", "\"other\"").into()),
        ),
        ("white space is added", with(&|parts| parts[0].1.push(b'\n'))),
        ("the receipt is empty", with(&|parts| parts[0].1.clear())),
        ("the signature is cut off", with(&|parts| parts[1].1.truncate(80))),
        ("the signature is empty", with(&|parts| parts[1].1.clear())),
        (
            "the signature is by another key",
            with(&|parts| parts[1].1 = other.sign(RECEIPT_NAMESPACE, &parts[0].1).into()),
        ),
        (
            "the signature is for another purpose",
            with(&|parts| parts[1].1 = scene.key.sign("file", &parts[0].1).into()),
        ),
        (
            "the key is another one",
            with(&|parts| parts[2].1 = (other.public().line("flock-receipt") + "\n").into()),
        ),
        (
            "the key has another comment",
            with(&|parts| parts[2].1 = (scene.key.public().line("ann") + "\n").into()),
        ),
        (
            "the receipt and signature of another key",
            with(&|parts| {
                parts[1].1 = other.sign(RECEIPT_NAMESPACE, &parts[0].1).into();
                parts[2].1 = (other.public().line("flock-receipt") + "\n").into();
            }),
        ),
        // The receipt signed again by the home's key, with the rest of another receipt.
        ("the tree is another one", resigned(&scene, |receipt| receipt.delivered.tree = "0".repeat(40))),
        ("the commit is another one", resigned(&scene, |receipt| receipt.delivered.commit = "0".repeat(40))),
        ("the SHA-256 is another one", resigned(&scene, |receipt| receipt.delivered_sha256 = "0".repeat(64))),
        ("the checks are others", resigned(&scene, |receipt| receipt.checks.commands[0] = "true".to_owned())),
        (
            "the hash of the checks is another one",
            resigned(&scene, |receipt| receipt.checks_hash = "0".repeat(64)),
        ),
        ("the sandbox is another one", resigned(&scene, |receipt| receipt.sandbox.memory += 1)),
        ("a result is left out", resigned(&scene, |receipt| receipt.runs.clear())),
        ("a required file is left out", resigned(&scene, |receipt| receipt.required.clear())),
        ("the format is another one", resigned(&scene, |receipt| receipt.format = 2)),
        (
            "the output is another one",
            resigned(&scene, |receipt| receipt.runs[0].kept_sha256 = "0".repeat(64)),
        ),
        (
            "a package is outside of the store",
            resigned(&scene, |receipt| receipt.sandbox.packages.push("/tmp".to_owned())),
        ),
        // The part of the audit.
        ("the part of the audit is unsigned", with(&|parts| parts[4].1.clear())),
        (
            "the part of the audit is signed by another key",
            with(&|parts| parts[4].1 = other.sign(CHAIN_NAMESPACE, &parts[3].1).into()),
        ),
        ("a row is left out", rechained(&scene, |chain| drop(chain.rows.remove(0)))),
        ("a row is added", rechained(&scene, |chain| chain.rows.insert(0, chain.rows[0].clone()))),
        ("a row is changed", rechained(&scene, |chain| chain.rows[0].digest = "0".repeat(64))),
        (
            "the own row is changed",
            rechained(&scene, |chain| chain.rows[1].fields.as_mut().unwrap()[1] = "ann".to_owned()),
        ),
        ("the own row is hidden", rechained(&scene, |chain| chain.rows[1].fields = None)),
        ("rows are swapped", rechained(&scene, |chain| chain.rows.swap(0, 1))),
        ("the end is another one", rechained(&scene, |chain| chain.end.hash = "0".repeat(64))),
        ("the start is another one", rechained(&scene, |chain| chain.start.row = 0)),
        ("the part is that of another receipt", rechained(&scene, |chain| chain.receipt = "0".repeat(64))),
        ("the signature of the part is missing", with(&|parts| drop(parts.remove(4)))),
        // The outputs and the objects.
        ("the kept output is changed", with(&|parts| parts[5].1[6] ^= 1)),
        ("the kept output is missing", with(&|parts| drop(parts.remove(5)))),
        ("a file is changed", with(&|parts| parts[blob].1.push(b'x'))),
        ("a file is missing", with(&|parts| drop(parts.remove(blob)))),
        ("a folder is changed", with(&|parts| parts[tree].1.clear())),
        ("the commit is changed", with(&|parts| parts[commit].1.push(b'x'))),
        ("the commit is missing", with(&|parts| drop(parts.remove(commit)))),
        (
            "an object is added",
            with(&|parts| {
                parts.push(extra.clone());
                parts[6..].sort();
            }),
        ),
        ("an object is there twice", with(&|parts| parts.insert(blob, parts[blob].clone()))),
        ("objects are swapped", with(&|parts| parts.swap(6, 7))),
        ("a file of another name", with(&|parts| parts.push(("readme".to_owned(), b"x".to_vec())))),
        (
            "a path that leads out",
            with(&|parts| parts.push(("objects/../../etc/passwd".to_owned(), b"x".to_vec()))),
        ),
        ("a part is at another place", with(&|parts| parts.swap(1, 2))),
        ("the receipt is there twice", with(&|parts| parts.insert(1, parts[0].clone()))),
    ];
    for (what, parts) in &tampered {
        // A name with `..` is one that the writer itself refuses.
        let mut writer = archive::Writer(Vec::new());
        if parts.iter().any(|(name, content)| writer.add(name, content).is_err()) {
            continue;
        }
        assert!(read(writer.finish().unwrap().as_slice()).is_err(), "{what}");
    }
    assert!(tampered.len() >= 40);
}

#[tokio::test]
async fn a_bundle_without_its_part_of_the_audit_says_so() {
    let scene = Scene::new().await;
    let mut parts = scene.parts.clone();
    parts.drain(3..5);
    let bundle = read(pack(&parts).as_slice()).unwrap();
    assert!(bundle.chain.is_none());
    let findings = verify::documents(&bundle, Some(&[scene.key.public()]));
    let audit = findings.iter().find(|finding| finding.part == "audit").unwrap();
    assert_eq!(audit.outcome, Outcome::NotVerified);
}

#[test]
fn bytes_that_are_no_bundle_are_refused() {
    for bytes in [&b""[..], b"hello", &[0; 512], &[0; 1024], &[0xff; 4096]] {
        assert!(read(bytes).is_err(), "{}", bytes.len());
    }
}
