//! The campaign of liars: each of them is a branch that does not deserve to be accepted, and none is. The honest branches
//! beside them are all accepted. The cases are files, which README.md in this folder describes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use flock::home::Home;
use flock::receipt::document::Run;
use flock::receipt::key::SigningKey;
use flock::receipt::sshsig::RECEIPT_NAMESPACE;
use flock::receipt::verify::{self, Outcome};
use flock::receipt::{
    Acceptance, Checks, Delivery, NoPackages, Proof, Prover, Receipt, ReceiptError, acceptance, bundle,
    prove, read_stored,
};
use flock::store::{Store, StoredReceipt};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::cases::{self, Case, Sign};
use super::{Scene, bundle_of};
use crate::support::docker;
use crate::support::docker::worker;

/// Cases that are run if nobody asks for all of them.
const SHORT: [(&str, usize); 2] = [("liars", 10), ("honest", 4)];
/// Cases that run beside each other.
const BESIDE: usize = 4;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/docker/receipts").join(name)
}

/// Takes `count` cases, evenly spread over their sorted names, and others for another seed.
fn spread(cases: Vec<Case>, count: usize, seed: usize) -> Vec<Case> {
    let all = cases.len();
    let chosen = |at: usize| (0..count).any(|number| (number * all / count + seed) % all == at);
    cases.into_iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, case)| case).collect()
}

/// Returns the cases to run, and what was chosen, in words. `FLOCK_TEST_LIARS` is `all`, a part of names, or a seed.
fn chosen() -> (Vec<Case>, String) {
    let wanted = std::env::var("FLOCK_TEST_LIARS").unwrap_or_default();
    let read = |name: &str| cases::all(&folder(name), &folder("bases")).unwrap();
    let seed = wanted.parse().ok().or(wanted.is_empty().then(rand::random::<u16>));
    let Some(seed) = seed else {
        let mut all = [read("liars"), read("honest")].into_iter().flatten().collect::<Vec<_>>();
        all.retain(|case| wanted == "all" || case.name.contains(&wanted));
        return (all, format!("FLOCK_TEST_LIARS={wanted}"));
    };
    let some = SHORT.into_iter().flat_map(|(name, count)| spread(read(name), count, seed.into()));
    (some.collect(), format!("FLOCK_TEST_LIARS={seed}"))
}

/// Where the cases are tried.
struct Court {
    scene: Scene,
    store: Store,
    /// The key of somebody else.
    other: SigningKey,
    /// The bases, as tree and checks, and if these succeed there.
    bases: Mutex<HashMap<(String, Vec<String>), bool>>,
    _other_home: tempfile::TempDir,
}

impl Court {
    fn new() -> Option<Self> {
        let scene = Scene::new()?;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let (store, other) = (scene.store(), SigningKey::of(&home).unwrap());
        Some(Self { scene, store, other, bases: Mutex::default(), _other_home: folder })
    }

    async fn prove(&self, checks: &Checks, base: &str, commit: &str) -> Result<Proof, ReceiptError> {
        let home = &self.scene.team.home;
        let agent = worker(home, "coder");
        let delivery = Delivery {
            project: "calc",
            task: "t1",
            branch: "flock/coder/t1",
            agent: &agent,
            repository: self.scene.repository.path(),
            base,
            commit,
            checks,
        };
        let prover = Prover { home, store: &self.store, runner: &self.scene.runner(), packages: &NoPackages };
        Box::pin(prove(&delivery, &prover, &CancellationToken::new())).await
    }

    /// Returns `true` if each check succeeds on a base.
    async fn passes(&self, checks: &Checks, base: &str) -> bool {
        let key = (self.tree_of(base), checks.commands.clone());
        if let Some(known) = self.bases.lock().unwrap().get(&key) {
            return *known;
        }
        let proof = self.prove(checks, base, base).await;
        let passes = proof.is_ok_and(|proof| proof.receipt.runs.iter().all(Run::is_success));
        self.bases.lock().unwrap().insert(key, passes);
        passes
    }

    fn tree_of(&self, commit: &str) -> String {
        self.scene.repository.find_commit(commit.parse().unwrap()).unwrap().tree_id().to_string()
    }

    /// Returns the decision about a case, and what the checks printed.
    async fn decide(&self, case: &Case) -> (Acceptance, String) {
        let repository = &self.scene.repository;
        let [base, commit] = [&case.base, &case.delivered].map(|tree| cases::commit(repository, tree));
        // A base whose checks fail would let every branch be refused, whatever it does.
        if case.is_lie && !case.base_fails && !self.passes(&case.checks, &base).await {
            return (Acceptance::Accepted, "the checks fail on the base".to_owned());
        }
        let proof = match self.prove(&case.checks, &base, &commit).await {
            Ok(proof) => proof,
            Err(error) => return (Acceptance::Refused(vec![format!("no receipt: {error}")]), String::new()),
        };
        let later = case.later.as_ref().map(|tree| cases::commit(repository, tree));
        let tree = self.tree_of(later.as_ref().unwrap_or(&commit));
        let checks = case.later_checks.as_ref().unwrap_or(&case.checks);
        let mut decision = acceptance(checks, &proof.receipt, &tree).unwrap();
        if !case.forged.is_empty() || case.sign != Sign::Not {
            decision = self.decide_forged(case, &proof, checks, &tree).await;
        }
        (decision, printed(&proof))
    }

    /// Presents a changed receipt in both ways in which flock takes one: from the database, and as a bundle.
    async fn decide_forged(&self, case: &Case, proof: &Proof, checks: &Checks, tree: &str) -> Acceptance {
        let stored = self.store.receipts().find(&proof.id).await.unwrap().remove(0);
        let forged = match forge(&proof.receipt, case, tree) {
            Ok(forged) => forged,
            Err(error) => return Acceptance::Refused(vec![format!("it is no receipt: {error}")]),
        };
        let document = String::from_utf8(forged.canonical().unwrap()).unwrap();
        let signature = match case.sign {
            Sign::Not => stored.signature.clone(),
            Sign::Other => self.other.sign(RECEIPT_NAMESPACE, document.as_bytes()),
            Sign::Empty => String::new(),
        };
        let row = StoredReceipt {
            id: forged.id().unwrap(),
            tree: forged.delivered.tree.clone(),
            checks: forged.checks_hash.clone(),
            document: document.clone(),
            signature: signature.clone(),
            ..stored
        };
        let home = &self.scene.team.home;
        let from_store = match read_stored(home, &row) {
            Ok(receipt) => acceptance(checks, &receipt, tree).unwrap(),
            Err(error) => Acceptance::Refused(vec![error.to_string()]),
        };
        let bytes = bundle_of(&self.scene, &self.store, &proof.id).await;
        let mut changes =
            vec![("receipt.json", document.into_bytes()), ("receipt.sig", signature.into_bytes())];
        if case.sign == Sign::Other {
            changes.push(("key.pub", self.other.public().line("flock").into_bytes()));
        }
        let key = SigningKey::of(home).unwrap().public();
        let is_believed = bundle::read(with_entries(&bytes, &changes).as_slice()).is_ok_and(|bundle| {
            let findings = verify::documents(&bundle, Some(&[key]));
            findings.iter().all(|finding| finding.outcome == Outcome::Verified)
                && acceptance(checks, &bundle.receipt, tree).unwrap() == Acceptance::Accepted
        });
        if is_believed { Acceptance::Accepted } else { from_store }
    }
}

fn printed(proof: &Proof) -> String {
    let one = |output: &flock::store::StoredOutput| {
        let text = String::from_utf8_lossy(&[output.head.as_slice(), &output.tail].concat()).into_owned();
        text.chars().take(2000).collect::<String>()
    };
    proof.outputs.iter().map(one).collect::<Vec<_>>().join("\n---\n")
}

/// Changes the fields of a receipt that a case names.
fn forge(receipt: &Receipt, case: &Case, tree: &str) -> Result<Receipt, String> {
    let mut value = serde_json::to_value(receipt).map_err(|error| error.to_string())?;
    for (field, text) in &case.forged {
        let text = text.replace("DELIVERED", &receipt.delivered.tree).replace("LATER", tree);
        let new = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
        let pointer = format!("/{}", field.trim_start_matches('/'));
        if let Some(old) = value.pointer_mut(&pointer) {
            *old = new;
        } else {
            let (above, name) = pointer.rsplit_once('/').unwrap_or_default();
            let above = value.pointer_mut(above).and_then(|value| value.as_object_mut());
            above.ok_or_else(|| format!("no field {field}"))?.insert(name.to_owned(), new);
        }
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Returns a bundle with other contents of some parts.
fn with_entries(bytes: &[u8], changes: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in tar::Archive::new(bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        if let Some((_, new)) = changes.iter().find(|(known, _)| *known == name) {
            content.clone_from(new);
        }
        let mut header = entry.header().clone();
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn no_liar_is_accepted_and_no_honest_branch_refused() {
    let Some(court) = Court::new() else { return };
    let (cases, chosen) = chosen();
    assert!(!cases.is_empty(), "no case has such a name: {chosen}");
    let begin = Instant::now();
    let results = docker::block_on(async {
        let court = &court;
        let judged = futures_util::stream::iter(&cases)
            .map(|case| async move {
                let decided = court.decide(case).await;
                if std::env::var_os("FLOCK_TEST_LIARS_SHOW").is_some() {
                    let (decision, printed) = &decided;
                    let reasons = decision.reasons().join("; ");
                    println!("{} {}: {reasons}", case.name, decision.as_str());
                    if case.is_lie == (*decision == Acceptance::Accepted) {
                        println!("WRONG {} {printed}", case.name);
                    }
                }
                (case, decided)
            })
            .buffer_unordered(BESIDE);
        judged.collect::<Vec<_>>().await
    });
    let mut wrong = Vec::new();
    let mut numbers: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for (case, (decision, printed)) in results {
        *numbers.entry((case.is_lie, decision.as_str())).or_default() += 1;
        if case.is_lie == (decision == Acceptance::Accepted) {
            let kind = if case.is_lie { "liar" } else { "honest" };
            let reasons = decision.reasons().join("; ");
            let Case { name, text, .. } = case;
            wrong.push(format!("{kind} {name} ({text}): {} {reasons}\n{printed}", decision.as_str()));
        }
    }
    println!("{chosen}: {numbers:?} (`true` are liars) in {} s", begin.elapsed().as_secs());
    assert!(wrong.is_empty(), "{chosen}: {} wrong decisions\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_case_can_be_read_and_there_are_as_many_as_promised() {
    for (name, least) in [("liars", 200), ("honest", 50), ("beyond", 1)] {
        let cases = cases::all(&folder(name), &folder("bases")).unwrap();
        assert!(cases.len() >= least, "{} {name}", cases.len());
        assert!(cases.iter().all(|case| case.is_lie == (name != "honest")), "a case is in the wrong folder");
        let mut known: HashMap<String, &str> = HashMap::new();
        for case in &cases {
            let Case { name, base, delivered, later, checks, later_checks, forged, sign, .. } = case;
            let branch =
                format!("{base:?} {delivered:?} {later:?} {checks:?} {later_checks:?} {forged:?} {sign:?}");
            let same = known.insert(branch, name);
            assert_eq!(same, None, "{name} is the same case");
        }
    }
    let some: Vec<usize> = SHORT
        .iter()
        .map(|(name, count)| spread(cases::all(&folder(name), &folder("bases")).unwrap(), *count, 7).len())
        .collect();
    assert_eq!(some, SHORT.map(|(_, count)| count));
}

#[test]
fn a_case_that_says_nothing_is_an_error() {
    let read = |text: &str| cases::read("a", text, &folder("bases")).map(drop);
    assert_eq!(read("lie: x\n\n@@ write calc.py\ndef add(a, b):\n    return 0\n"), Ok(()));
    for wrong in [
        "",
        "@@ write calc.py\nx\n",
        "lie: x\n",
        "lie: x\nbase: none\n\n@@ delete calc.py\n",
        "lie: x\nkey: y\n\n@@ delete calc.py\n",
        "lie: x\n\n@@ delete other.py\n",
        "lie: x\n\n@@ remove calc.py\n",
        "lie: x\n\n@@ write README.md\nA calculator.\n",
        "lie: x\n\n@@ write README.md empty\nA calculator.\n",
        "lie: x\n\n@@ delete calc.py\ntext\n",
        "lie: x\n\n@@ then\n",
        "lie: x\n\n@@ escaped a\n\\xZZ\n",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}
