//! Runs the checks of a delivery and writes the receipt.

mod comparison;

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::comparison::{base_runs, canaries, old_tests};
use super::canary::{CanaryRun, canary, without_new_tests};
use super::document::{ChainPosition, Commit, FORMAT, Probe, Receipt, RequiredFile, Run, SetupRun};
use super::key::SigningKey;
use super::objects::Repo;
use super::packages::{CheckPackages, PackageSource};
use super::sshsig::RECEIPT_NAMESPACE;
use super::tree::Tree;
use super::{Acceptance, Checks, ReceiptError, acceptance, canonical, check_files, test_count};
use crate::clock;
use crate::config::Agent;
use crate::home::Home;
use crate::sandbox::check::{
    CheckPlan, CheckReport, CheckRunner, CheckSandbox, CommandReport, SetupReport, TreeFileKind,
    TreeSource as _,
};
use crate::store::{AuditEntry, Level, NewReceipt, Store, StoredOutput, StoredReceipt};

/// A delivery: the commit that an agent says is done, and what it is compared with.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    pub project: &'a str,
    pub task: &'a str,
    pub branch: &'a str,
    /// The agent that delivers. The sandbox of its checks has the specification of this agent's.
    pub agent: &'a Agent,
    /// The bare repository that has both commits.
    pub repository: &'a Path,
    /// The commit that the branch is compared with, as its full hash.
    pub base: &'a str,
    /// The delivered commit, as its full hash.
    pub commit: &'a str,
    pub checks: &'a Checks,
}

/// The parts of flock that a receipt needs.
#[derive(Clone, Copy)]
pub struct Prover<'a> {
    pub home: &'a Home,
    pub store: &'a Store,
    pub runner: &'a dyn CheckRunner,
    pub packages: &'a dyn PackageSource,
}

/// A receipt that was made, and the decision that follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The hash of the receipt.
    pub id: String,
    pub receipt: Receipt,
    pub acceptance: Acceptance,
    /// The kept output of each command, in order.
    pub outputs: Vec<StoredOutput>,
}

/// Runs the checks on exactly the delivered tree, and on the base if it was not checked before, and writes the receipt:
/// signed, stored, and named by a row of the audit. A check that fails gives a receipt, too.
///
/// # Errors
///
/// Fails if the commits or trees can't be read, if a sandbox can't be made or is not confined, and if the receipt can't be
/// stored. No receipt exists then.
pub async fn prove(
    delivery: &Delivery<'_>,
    prover: &Prover<'_>,
    cancel: &CancellationToken,
) -> Result<Proof, ReceiptError> {
    let checks = delivery.checks;
    checks.validate()?;
    let (base, delivered) = trees(delivery).await?;
    let packages = prover.packages.packages(&delivery.agent.id).await?;
    let sandbox = CheckSandbox::of(delivery.agent, packages.paths());
    let plan = |tree: &Arc<Tree>| CheckPlan {
        tree: Arc::clone(tree) as _,
        sandbox: sandbox.clone(),
        setup: checks.setup_step(),
        commands: checks.commands.clone(),
        limits: checks.limits(),
        extra: Vec::new(),
        watched: check_files::watched(checks, tree, if tree.id() == base.id() { &delivered } else { &base }),
    };
    let report = prover.runner.run(&plan(&delivered), cancel).await?;
    let runs: Vec<Run> = report.runs.iter().map(record).collect();
    // A tree whose checks fail is refused without a comparison.
    let compared = if !runs.iter().all(Run::is_success) {
        Compared::default()
    } else if base.id() == delivered.id() {
        Compared { base_runs: runs.clone(), ..Compared::default() }
    } else {
        let key = base_key(checks, &base, &sandbox, &packages)?;
        let base_runs = base_runs(prover, key.clone(), &plan(&base), cancel).await?;
        let named = check_files::named(&checks.commands);
        let made = if checks.canary { canary(&base, &delivered, &named) } else { None };
        let canaries = match made {
            Some(made) => {
                let plans = [plan(&base), plan(&delivered)];
                canaries(prover, key, plans, (&base_runs, made), cancel).await?
            }
            None => Vec::new(),
        };
        let mut without = plan(&delivered);
        without.extra = if checks.canary { without_new_tests(&base, &delivered) } else { Vec::new() };
        let old_tests = old_tests(prover, without, &base_runs, cancel).await?;
        Compared { base_runs, canaries, old_tests }
    };
    let parts = Parts { delivery, base: &base, delivered: &delivered, sandbox, packages, report: &report };
    let receipt = parts.receipt(runs, compared, prover.store).await?;
    let acceptance = acceptance(checks, &receipt, &receipt.delivered.tree)?;
    let outputs: Vec<StoredOutput> = report.runs.iter().map(kept).collect();
    let place = delivery.repository;
    let place = place.strip_prefix(prover.home.root()).unwrap_or(place).to_string_lossy().into_owned();
    let id = issue(prover, &receipt, &acceptance, (place, outputs.clone())).await?;
    Ok(Proof { id, receipt, acceptance, outputs })
}

/// Reads a receipt from the database and compares it with its id, its signature and the home's key.
///
/// # Errors
///
/// Returns [`ReceiptError::Changed`] or [`ReceiptError::Signature`] if it is not the receipt that this home made.
pub fn read_stored(home: &Home, stored: &StoredReceipt) -> Result<Receipt, ReceiptError> {
    let changed = |reason| ReceiptError::Changed { id: stored.id.clone(), reason };
    let document = stored.document.as_bytes();
    if canonical::hash(document) != stored.id {
        return Err(changed("its id is not its hash"));
    }
    let key = SigningKey::read(home)?.ok_or(ReceiptError::Key)?.public();
    key.verify(RECEIPT_NAMESPACE, document, &stored.signature)?;
    let receipt = Receipt::parse(document)?;
    if receipt.delivered.tree != stored.tree || receipt.checks_hash != stored.checks {
        return Err(changed("it is filed under another tree or other checks"));
    }
    Ok(receipt)
}

/// Reads the trees of both commits.
async fn trees(delivery: &Delivery<'_>) -> Result<(Arc<Tree>, Arc<Tree>), ReceiptError> {
    let path = delivery.repository.to_owned();
    let commits = [delivery.base.to_owned(), delivery.commit.to_owned()];
    let read = move || {
        let repo = Arc::new(Repo::open(&path)?);
        let [base, delivered] = commits.map(|commit| -> Result<_, ReceiptError> {
            let id = repo.tree_of(&commit)?;
            Ok(Arc::new(Tree::load(Arc::clone(&repo) as _, &id)?))
        });
        Ok((base?, delivered?))
    };
    blocking(read).await
}

/// Returns the hash of all that decides about the result of the checks on a base.
fn base_key(
    checks: &Checks,
    base: &Tree,
    sandbox: &CheckSandbox,
    packages: &CheckPackages,
) -> Result<String, ReceiptError> {
    let parts = (checks.hash()?, base.id(), sandbox, &packages.closure, env!("FLOCK_VERSION"));
    Ok(canonical::hash(&canonical::write("the checks of a base", &parts)?))
}

/// Returns the record of a command, with the numbers of tests in its output.
pub(super) fn record(report: &CommandReport) -> Run {
    Run::of(report, test_count::count(&report.output.text()))
}

pub(super) fn setup_record(setup: &SetupReport) -> SetupRun {
    SetupRun {
        cached: setup.cached,
        key: setup.key.clone(),
        result_sha256: setup.result.clone(),
        run: Run::of(&setup.run, Vec::new()),
    }
}

fn kept(report: &CommandReport) -> StoredOutput {
    let output = report.output.clone();
    StoredOutput { head: output.head, tail: output.tail, total: output.total }
}

/// The results of the comparison with the base.
#[derive(Default)]
struct Compared {
    base_runs: Vec<Run>,
    canaries: Vec<CanaryRun>,
    old_tests: Vec<Run>,
}

/// Everything that a receipt is made of.
struct Parts<'a> {
    delivery: &'a Delivery<'a>,
    base: &'a Arc<Tree>,
    delivered: &'a Arc<Tree>,
    sandbox: CheckSandbox,
    packages: CheckPackages,
    report: &'a CheckReport,
}

impl Parts<'_> {
    async fn receipt(
        self,
        runs: Vec<Run>,
        compared: Compared,
        store: &Store,
    ) -> Result<Receipt, ReceiptError> {
        let Compared { base_runs, canaries, old_tests } = compared;
        let Self { delivery, base, delivered, sandbox, packages, report } = self;
        let checks = delivery.checks.clone();
        let (old, new, known) = (Arc::clone(base), Arc::clone(delivered), checks.clone());
        let looked = blocking(move || {
            let check_files = check_files::changed(&known, &old, &new);
            let required: Vec<RequiredFile> = known
                .required
                .iter()
                .map(|path| RequiredFile { path: path.clone(), present: has_required(&old, &new, path) })
                .collect();
            Ok((check_files, required, new.sha256()?))
        });
        let (check_files, required, delivered_sha256) = looked.await?;
        // Read last, so that as little as possible happens between this row and the receipt's own.
        let (row, hash) = store.audit().end().await?;
        Ok(Receipt {
            at: clock::unix_ms(),
            author: delivery.agent.id.to_string(),
            base: Commit { commit: delivery.base.to_owned(), tree: base.id().to_owned() },
            base_runs,
            branch: delivery.branch.to_owned(),
            canaries,
            chain: ChainPosition { hash, row },
            check_files,
            checks_hash: checks.hash()?,
            checks,
            closure: packages.closure,
            delivered: Commit { commit: delivery.commit.to_owned(), tree: delivered.id().to_owned() },
            delivered_sha256,
            flock: env!("FLOCK_VERSION").to_owned(),
            format: FORMAT,
            old_tests,
            packages: packages.packages,
            probe: Probe { at: report.probed_at, findings: Vec::new(), image: report.image.clone() },
            project: delivery.project.to_owned(),
            required,
            runs,
            sandbox_hash: canonical::hash(&canonical::write("the sandbox", &sandbox)?),
            sandbox,
            setup: report.setup.as_ref().map(setup_record),
            task: delivery.task.to_owned(),
        })
    }
}

/// Returns `true` if a tree has a required file: one with a content of its own, or a link to one in the tree. A folder counts only
/// if the owner asked for one.
fn has_required(base: &Tree, tree: &Tree, path: &str) -> bool {
    let name = Path::new(path.trim_end_matches('/'));
    let Some(file) = tree.file(name) else {
        return tree.has(name) && (path.ends_with('/') || (base.has(name) && base.file(name).is_none()));
    };
    match file.kind {
        TreeFileKind::File | TreeFileKind::Executable => true,
        TreeFileKind::Submodule => false,
        TreeFileKind::Link => check_files::link_target(name, tree)
            .is_some_and(|target| tree.file(&target).is_some_and(|file| file.kind != TreeFileKind::Link)),
    }
}

/// Signs and stores a receipt, with the row of the audit that names it. Returns its id.
async fn issue(
    prover: &Prover<'_>,
    receipt: &Receipt,
    acceptance: &Acceptance,
    (repository, outputs): (String, Vec<StoredOutput>),
) -> Result<String, ReceiptError> {
    let document = receipt.canonical()?;
    let id = canonical::hash(&document);
    let home = prover.home.clone();
    let key = blocking(move || SigningKey::of(&home)).await?;
    let signature = key.sign(RECEIPT_NAMESPACE, &document);
    let level = match acceptance {
        Acceptance::Accepted => Level::Green,
        Acceptance::Stale | Acceptance::Refused(_) => Level::Yellow,
        Acceptance::NeedsPerson(_) => Level::Red,
    };
    let detail = detail(&id, &receipt.delivered.tree, acceptance.as_str());
    let subject = if receipt.task.is_empty() { &receipt.branch } else { &receipt.task };
    let entry = AuditEntry::new("system", ISSUE_ACTION, subject, level, detail);
    let stored = NewReceipt {
        id: id.clone(),
        project: receipt.project.clone(),
        task: receipt.task.clone(),
        branch: receipt.branch.clone(),
        author: receipt.author.clone(),
        tree: receipt.delivered.tree.clone(),
        checks: receipt.checks_hash.clone(),
        // The canonical form is JSON, so it is text.
        document: String::from_utf8_lossy(&document).into_owned(),
        signature,
        repository,
        outputs,
    };
    prover.store.receipts().add(stored, entry, clock::unix_ms()).await?;
    // Somebody may act on the receipt at once, so it has to survive a power cut.
    prover.store.sync().await?;
    Ok(id)
}

/// The action of the row of the audit that names a receipt.
pub(super) const ISSUE_ACTION: &str = "receipt.issue";

/// Returns the detail of that row.
pub(super) fn detail(id: &str, tree: &str, acceptance: &str) -> String {
    format!("receipt {id} tree {tree} {acceptance}")
}

/// Runs blocking work on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReceiptError> + Send + 'static,
) -> Result<T, ReceiptError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ReceiptError::Malformed { what: "the work", reason: error.to_string() })?
}

#[cfg(test)]
#[path = "prove_tests.rs"]
mod tests;
