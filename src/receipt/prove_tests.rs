use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::provider::BoxFuture;
use crate::receipt::NoPackages;
use crate::sandbox::check::{CheckEnd, CheckError};
use crate::sandbox::{Output, testing};
use crate::store::ReceiptFilter;

/// Runs no commands: it answers with the output that the tree's file `answer` holds, and remembers the trees.
struct FakeRunner(Mutex<Vec<String>>);

impl CheckRunner for FakeRunner {
    fn run<'a>(
        &'a self,
        plan: &'a CheckPlan,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CheckReport, CheckError>> {
        self.0.lock().unwrap().push(plan.tree.id().to_owned());
        let file = plan.tree.files().iter().find(|file| file.path == Path::new("answer")).unwrap();
        let answer = String::from_utf8(plan.tree.read(file).unwrap()).unwrap();
        let run = |command: &String| CommandReport {
            command: command.clone(),
            end: CheckEnd::Exited(i32::from(answer.contains("failed"))),
            took: Duration::from_millis(3),
            digest: canonical::hash(answer.as_bytes()),
            changed: Vec::new(),
            output: Output {
                head: answer.clone().into_bytes(),
                tail: Vec::new(),
                total: answer.len() as u64,
            },
        };
        let report = CheckReport {
            image: "sha256:abc".to_owned(),
            probed_at: 1,
            setup: None,
            runs: plan.commands.iter().map(run).collect(),
        };
        Box::pin(async { Ok(report) })
    }
}

struct Scene {
    _folder: tempfile::TempDir,
    home: Home,
    store: Store,
    runner: FakeRunner,
    repository: git2::Repository,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        let repository = git2::Repository::init_bare(folder.path().join("repo.git")).unwrap();
        Self { _folder: folder, home, store, runner: FakeRunner(Mutex::default()), repository }
    }

    /// Commits these files and returns the hash.
    fn commit(&self, files: &[(&str, &str)]) -> String {
        let mut builder = self.repository.treebuilder(None).unwrap();
        for (name, text) in files {
            builder.insert(name, self.repository.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
        }
        let tree = self.repository.find_tree(builder.write().unwrap()).unwrap();
        let who = git2::Signature::new("coder", "coder@example.com", &git2::Time::new(1, 0)).unwrap();
        self.repository.commit(None, &who, &who, "work", &tree, &[]).unwrap().to_string()
    }

    async fn prove(&self, base: &str, commit: &str) -> Proof {
        let agent = testing::agent("coder", "/w".into());
        let checks = Checks::of(&["pytest"]);
        let delivery = Delivery {
            project: "web",
            task: "t1",
            branch: "flock/coder/t1",
            agent: &agent,
            repository: self.repository.path(),
            base,
            commit,
            checks: &checks,
        };
        let prover =
            Prover { home: &self.home, store: &self.store, runner: &self.runner, packages: &NoPackages };
        prove(&delivery, &prover, &CancellationToken::new()).await.unwrap()
    }

    async fn stored(&self) -> Vec<StoredReceipt> {
        self.store.receipts().list(&ReceiptFilter::default(), 10).await.unwrap()
    }
}

#[tokio::test]
async fn a_receipt_is_made_for_the_delivered_tree_and_named_by_the_audit() {
    let scene = Scene::new();
    let base = scene.commit(&[("answer", "3 passed in 0.1s")]);
    let done = scene.commit(&[("answer", "4 passed in 0.1s"), ("new", "x")]);
    let proof = scene.prove(&base, &done).await;
    // The file that holds the runner's output looks like one, which is for a person.
    assert!(matches!(proof.acceptance, Acceptance::NeedsPerson(_)), "{:?}", proof.acceptance);
    assert_eq!(proof.receipt.runs[0].counts[0].passed, 4);
    assert_eq!(proof.receipt.base_runs[0].counts[0].passed, 3);
    let stored = scene.stored().await;
    assert_eq!(stored[0].id, proof.id);
    assert_eq!(read_stored(&scene.home, &stored[0]).unwrap(), proof.receipt);
    let slice = scene.store.audit().slice(proof.receipt.chain.row, stored[0].audit_row, 100).await.unwrap();
    let slice = slice.unwrap();
    assert_eq!(slice.start, (proof.receipt.chain.row, proof.receipt.chain.hash.clone()));
    let own = slice.rows.iter().find_map(|row| row.fields.as_ref()).unwrap();
    assert_eq!(own[2], ISSUE_ACTION);
    assert!(own[5].contains(&proof.id) && own[5].ends_with("needs-person"), "{own:?}");
    assert_eq!(crate::store::follow_chain(&slice.start.1, &slice.rows), Some(slice.end.1));
    assert_eq!(scene.store.audit().verify().await.unwrap().broken, None);
    assert_eq!(scene.store.receipts().outputs(&proof.id).await.unwrap()[0].head, b"4 passed in 0.1s");
}

#[tokio::test]
async fn the_base_is_checked_once_and_only_if_the_delivery_succeeds() {
    let scene = Scene::new();
    let base = scene.commit(&[("answer", "3 passed in 0.1s")]);
    let failing = scene.commit(&[("answer", "1 failed in 0.1s")]);
    let proof = scene.prove(&base, &failing).await;
    assert!(matches!(proof.acceptance, Acceptance::Refused(_)));
    assert_eq!(scene.runner.0.lock().unwrap().len(), 1);
    let proof = scene.prove(&base, &base).await;
    assert_eq!(proof.acceptance, Acceptance::Accepted);
    assert_eq!(scene.runner.0.lock().unwrap().len(), 2, "it is the base itself");
    for text in ["a", "b"] {
        let done = scene.commit(&[("answer", "3 passed in 0.1s"), ("new", text)]);
        assert_eq!(scene.prove(&base, &done).await.acceptance, Acceptance::Accepted);
    }
    assert_eq!(scene.runner.0.lock().unwrap().len(), 5, "the base was run once");
}

#[tokio::test]
async fn a_stored_receipt_that_was_changed_is_not_believed() {
    let scene = Scene::new();
    let base = scene.commit(&[("answer", "3 passed in 0.1s")]);
    scene.prove(&base, &base).await;
    let stored = scene.stored().await.remove(0);
    let other = "0".repeat(40);
    let forged = stored.document.replace(&stored.tree, &other);
    let forged_id = canonical::hash(forged.as_bytes());
    let (_other_folder, other_home) = {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        (folder, home)
    };
    let by_other = SigningKey::of(&other_home).unwrap().sign(RECEIPT_NAMESPACE, forged.as_bytes());
    let variants = [
        StoredReceipt { document: forged.clone(), ..stored.clone() },
        StoredReceipt {
            document: forged.clone(),
            id: forged_id.clone(),
            tree: other.clone(),
            ..stored.clone()
        },
        StoredReceipt {
            document: forged,
            id: forged_id,
            tree: other.clone(),
            signature: by_other,
            ..stored.clone()
        },
        StoredReceipt { tree: other, ..stored.clone() },
        StoredReceipt { signature: String::new(), ..stored.clone() },
        StoredReceipt { checks: "1".repeat(64), ..stored.clone() },
    ];
    for variant in variants {
        assert!(read_stored(&scene.home, &variant).is_err(), "{variant:?}");
    }
    assert!(read_stored(&scene.home, &stored).is_ok());
}

#[tokio::test]
async fn a_planted_key_is_not_in_a_receipt() {
    let scene = Scene::new();
    let base = scene.commit(&[("answer", "3 passed in 0.1s")]);
    let mut agent = testing::agent("coder", "/w".into());
    agent.docker.env.insert("API_KEY".to_owned(), "sk-planted-key".to_owned());
    let checks = Checks::of(&["pytest"]);
    let delivery = Delivery {
        project: "web",
        task: "t1",
        branch: "flock/coder/t1",
        agent: &agent,
        repository: scene.repository.path(),
        base: &base,
        commit: &base,
        checks: &checks,
    };
    let prover =
        Prover { home: &scene.home, store: &scene.store, runner: &scene.runner, packages: &NoPackages };
    let proof = prove(&delivery, &prover, &CancellationToken::new()).await.unwrap();
    let text = String::from_utf8(proof.receipt.canonical().unwrap()).unwrap();
    assert!(!text.contains("sk-planted-key"));
    let secret = std::fs::read_to_string(scene.home.secrets().join(super::super::key::SECRET)).unwrap();
    assert!(!text.contains(secret.trim()));
    assert!(!text.contains(&scene.home.root().display().to_string()), "{text}");
}
