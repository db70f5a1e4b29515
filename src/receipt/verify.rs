//! Verification of a receipt: what its documents prove by themselves, and a second run of its checks.

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::bundle::Bundle;
use super::document::Run;
use super::prove::record;
use super::sshsig::PublicKey;
use super::test_count::TestCounts;
use super::{Acceptance, ReceiptError, decision};
use crate::sandbox::check::{CheckPlan, CheckReport, CheckRunner};

/// The outcome of one part of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is as the receipt says.
    Verified,
    /// It is not as the receipt says.
    Differs,
    /// It was not or could not be looked at.
    NotVerified,
}

/// One part of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A short name, for programs: `signature`, `tree`, `check` and so on.
    pub part: &'static str,
    pub outcome: Outcome,
    pub text: String,
}

impl Finding {
    pub(crate) fn new(part: &'static str, outcome: Outcome, text: impl Into<String>) -> Self {
        Self { part, outcome, text: text.into() }
    }
}

/// Returns what the documents of a bundle prove. `trusted` are the keys that the caller believes; `None` if it named none.
#[must_use]
pub fn documents(bundle: &Bundle, trusted: Option<&[PublicKey]>) -> Vec<Finding> {
    use Outcome::{Differs, NotVerified, Verified};
    let receipt = &bundle.receipt;
    let print = bundle.key.fingerprint();
    let signature = match trusted {
        Some(keys) if keys.contains(&bundle.key) => {
            Finding::new("signature", Verified, format!("signed by the expected key {print}"))
        }
        Some(_) => {
            Finding::new("signature", Differs, format!("signed by another key than expected: {print}"))
        }
        None => Finding::new(
            "signature",
            NotVerified,
            format!("signed by the key {print}; whose key it is, the bundle can't prove"),
        ),
    };
    let chain = match (&bundle.chain, bundle.row) {
        (Some(chain), Some(row)) => Finding::new(
            "audit",
            Verified,
            format!(
                "row {row} of the audit names the receipt, {} rows before the shown end",
                chain.end.row - row
            ),
        ),
        _ => Finding::new("audit", NotVerified, "the bundle does not show the receipt's place in the audit"),
    };
    let count = crate::sandbox::check::TreeSource::files(&*bundle.tree).len();
    let decision = match decision(receipt) {
        Ok(Acceptance::Accepted) => Finding::new("rule", Verified, "the rule accepts it"),
        Ok(decision) => {
            let reasons = decision.reasons().join("; ");
            Finding::new(
                "rule",
                Differs,
                format!("the rule does not accept it ({}): {reasons}", decision.as_str()),
            )
        }
        Err(error) => Finding::new("rule", Differs, error.to_string()),
    };
    vec![
        signature,
        Finding::new("document", Verified, format!("the receipt {} is in its canonical form", bundle.id)),
        Finding::new("tree", Verified, format!("the tree {} has {count} files", receipt.delivered.tree)),
        chain,
        Finding::new("outputs", Verified, format!("{} kept outputs fit their hashes", bundle.outputs.len())),
        decision,
    ]
}

/// Runs the checks of a bundle again, in sandboxes of the same specification, and compares the results.
///
/// # Errors
///
/// Fails if a sandbox can't be made, is not confined or is lost.
pub async fn rerun(
    bundle: &Bundle,
    runner: &dyn CheckRunner,
    cancel: &CancellationToken,
) -> Result<Vec<Finding>, ReceiptError> {
    let receipt = &bundle.receipt;
    let (sandbox, differs) = receipt.sandbox.of_this_flock();
    let mut findings = vec![if differs.is_empty() {
        Finding::new("sandbox", Outcome::Verified, "the sandbox has the same specification")
    } else {
        let text = format!("this flock's sandbox has another {}", differs.join(", "));
        Finding::new("sandbox", Outcome::NotVerified, text)
    }];
    let plan = CheckPlan {
        tree: std::sync::Arc::clone(&bundle.tree) as _,
        sandbox,
        setup: receipt.checks.setup_step(),
        commands: receipt.checks.commands.clone(),
        limits: receipt.checks.limits(),
        extra: Vec::new(),
        watched: Vec::new(),
    };
    let report = runner.run(&plan, cancel).await?;
    findings.extend(compare(bundle, &report));
    Ok(findings)
}

/// Compares a second run with the receipt.
fn compare(bundle: &Bundle, report: &CheckReport) -> Vec<Finding> {
    use Outcome::{Differs, NotVerified, Verified};
    let receipt = &bundle.receipt;
    let mut findings = Vec::new();
    findings.push(if report.image == receipt.probe.image {
        Finding::new("image", Verified, "the image is the same")
    } else {
        let text = format!("the image is another one ({} instead of {})", report.image, receipt.probe.image);
        Finding::new("image", NotVerified, text)
    });
    if let (Some(then), Some(now)) = (&receipt.setup, &report.setup) {
        let ends = then.run.is_success() == now.run.end.is_success();
        let outcome = if ends { Verified } else { Differs };
        let result = if then.result_sha256 == now.result { "the same" } else { "another" };
        findings.push(Finding::new("setup", outcome, format!("the setup step left {result} result")));
    }
    for (at, then) in receipt.runs.iter().enumerate() {
        let name = crate::clean::summary(&then.command, 80);
        let Some(now) = report.runs.get(at).map(record) else {
            findings.push(Finding::new("check", Differs, format!("`{name}` was not run again")));
            continue;
        };
        findings.push(check(&name, then, &now));
    }
    findings
}

fn check(name: &str, then: &Run, now: &Run) -> Finding {
    if (&then.end, then.exit) != (&now.end, now.exit) {
        let text = format!("`{name}` {} this time, and {} before", now.verdict(), then.verdict());
        return Finding::new("check", Outcome::Differs, text);
    }
    if then.counts != now.counts {
        let text = format!("`{name}` has other numbers of tests: {}, and {} before", shown(now), shown(then));
        return Finding::new("check", Outcome::Differs, text);
    }
    let output = if then.output_sha256 == now.output_sha256 { "the same output" } else { "another output" };
    let text = format!("`{name}` {} again, with the same numbers of tests and {output}", now.verdict());
    Finding::new("check", Outcome::Verified, text)
}

fn shown(run: &Run) -> String {
    let one = |counts: &TestCounts| {
        let TestCounts { runner, passed, failed, skipped, filtered, .. } = counts;
        format!("{runner} {passed} passed, {failed} failed, {skipped} skipped, {filtered} filtered out")
    };
    let all: Vec<String> = run.counts.iter().map(one).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}
