//! `flock verify`: checks a receipt of this home, or a bundle from anywhere, and runs its checks again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Context, Exit, Failure, receipt, team};
use crate::config;
use crate::error::Kind;
use crate::home::Home;
use crate::receipt::ReceiptError;
use crate::receipt::bundle::{self, Bundle};
use crate::receipt::key::SigningKey;
use crate::receipt::rebuild;
use crate::receipt::sshsig::PublicKey;
use crate::receipt::verify::{self, Finding, Outcome};
use crate::sandbox::check::DockerChecks;
use crate::ui::{StyledLine, TextStyle};

/// Check a receipt, and run its checks again
///
/// Verifies the signature, the form of the receipt, the delivered tree, its place in the audit and the kept outputs. Then
/// it builds a sandbox of the same specification, runs the checks again and compares exit codes and numbers of tests. It
/// needs neither a model nor a key, and works in any home.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock verify 4f2a91
  flock verify fix.receipt --allowed-signers signers
  flock verify fix.receipt --key home.pub --no-rerun")]
pub(crate) struct Args {
    /// Id of a receipt of this home, or the path of a bundle
    #[arg(value_name = "RECEIPT|BUNDLE")]
    receipt: String,
    /// File with the public key that must have signed it
    #[arg(long, value_name = "FILE", conflicts_with = "allowed_signers")]
    key: Option<PathBuf>,
    /// File of allowed signers, as ssh-keygen takes it
    #[arg(long, value_name = "FILE")]
    allowed_signers: Option<PathBuf>,
    /// Run the checks again, as without this option
    #[arg(long, overrides_with = "no_rerun")]
    rerun: bool,
    /// Check only the documents
    #[arg(long, overrides_with = "rerun")]
    no_rerun: bool,
}

/// Verifies the receipt and prints each part of the verification with its outcome.
///
/// # Errors
///
/// Returns an error if the receipt or bundle can't be read or is not valid, and if its checks can't be run again.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let is_file = Path::new(&args.receipt).is_file();
    let bundle = if is_file { read_file(Path::new(&args.receipt))? } else { of_home(&home, &args.receipt)? };
    let trusted = trusted(args, &home, is_file)?;
    let mut findings = verify::documents(&bundle, trusted.as_deref());
    let mut ran = false;
    let again = args.rerun || !args.no_rerun;
    if again {
        may_run(&bundle, trusted.as_deref(), context)?;
        let home = context.writable_home()?;
        let more = context.block_on(rerun(&bundle, &home, context))?;
        ran = more.iter().any(|finding| finding.part == "check") || bundle.receipt.runs.is_empty();
        findings.extend(more);
    }
    report(&bundle, &findings, ran, context);
    let differs = findings.iter().any(|finding| finding.outcome == Outcome::Differs);
    let failed = differs || (again && !ran);
    Ok(if failed { Exit::Failed(Kind::Failed) } else { Exit::Done })
}

fn read_file(path: &Path) -> Result<Bundle, Failure> {
    let failed = |source| ReceiptError::File { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    Ok(bundle::read(std::io::BufReader::new(file))?)
}

/// Makes the bundle of a receipt of this home, so that both kinds are verified in the same way.
fn of_home(home: &Home, id: &str) -> Result<Bundle, Failure> {
    let stored = receipt::find(home, id)?;
    let load = receipt::load(home, stored.clone())?;
    let bytes = bundle::export(&load, &receipt::repository(home, &stored), Vec::new())?;
    Ok(bundle::read(bytes.as_slice())?)
}

/// Returns the keys that the receipt may be signed with. `None` if it comes from elsewhere and no key was named.
fn trusted(args: &Args, home: &Home, is_file: bool) -> Result<Option<Vec<PublicKey>>, Failure> {
    let read = |path: &Path| -> Result<String, ReceiptError> {
        fs_err::read_to_string(path).map_err(|source| ReceiptError::File { path: path.to_owned(), source })
    };
    if let Some(path) = &args.key {
        let text = read(path)?;
        let line = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
        return Ok(Some(vec![PublicKey::parse(line.unwrap_or_default()).map_err(ReceiptError::from)?]));
    }
    if let Some(path) = &args.allowed_signers {
        return Ok(Some(PublicKey::allowed_signers(&read(path)?)));
    }
    let own = SigningKey::read(home)?.map(|key| vec![key.public()]);
    // A bundle may be another home's, so this home's key is no expectation of its own.
    Ok(if is_file { None } else { own })
}

/// Asks before commands of a stranger reach hosts that the stranger chose. All other commands are as confined as an
/// agent's.
fn may_run(bundle: &Bundle, trusted: Option<&[PublicKey]>, context: &Context) -> Result<(), Failure> {
    let hosts = bundle.receipt.checks.setup.as_ref().map(|setup| setup.egress.join(", ")).unwrap_or_default();
    if hosts.is_empty() || trusted.is_some_and(|keys| keys.contains(&bundle.key)) {
        return Ok(());
    }
    let hosts = crate::clean::summary(&hosts, 400);
    let question =
        format!("The setup step of this bundle may reach {hosts}. Nobody vouched for its key. Run it?");
    let unasked =
        Failure::new(Kind::NeedsApproval, format!("the setup step of this bundle wants to reach {hosts}"))
            .hint("flock verify BUNDLE --key FILE, or --no-rerun, or -y");
    context.confirm(&question, unasked, "the checks were not run again")
}

async fn rerun(bundle: &Bundle, home: &Home, context: &Context) -> Result<Vec<Finding>, Failure> {
    let config = config::read(home)?;
    let engine = team::engine().await?;
    let store = team::store(home, &config, Arc::clone(&engine));
    let runner = DockerChecks::new(home.clone(), team::fixed_config(&config), engine);
    let cancel = CancellationToken::new();
    let progress = context.printer.progress("running the checks again");
    let mut findings = rebuild::packages(bundle, &store, &cancel, &|line| progress.detail(line)).await?;
    // Without its packages a check would fail for another reason than the tree.
    if findings.iter().all(|finding| finding.outcome == Outcome::Verified) {
        findings.extend(verify::rerun(bundle, &runner, &cancel).await?);
    }
    progress.done("ran the checks again");
    Ok(findings)
}

fn report(bundle: &Bundle, findings: &[Finding], ran: bool, context: &Context) {
    let differs = findings.iter().any(|finding| finding.outcome == Outcome::Differs);
    if context.printer.is_json() {
        context.printer.json(&json!({
            "receipt": bundle.id, "tree": bundle.receipt.delivered.tree, "key": bundle.key.fingerprint(),
            "valid": !differs, "rerun": ran, "findings": findings,
        }));
        return;
    }
    for finding in findings {
        let (word, tone) = match finding.outcome {
            Outcome::Verified => ("verified", TextStyle::Good),
            Outcome::Differs => ("differs", TextStyle::Bad),
            Outcome::NotVerified => ("not verified", TextStyle::Warn),
        };
        let line = StyledLine::new().with(tone, format!("{word:<13}"));
        context.printer.line(line.with(TextStyle::Dim, format!("{:<10}", finding.part)).plain(&finding.text));
    }
}
