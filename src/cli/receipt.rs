//! `flock receipt`: shows the receipts of checks, exports one as a bundle, and prints the key that signs them.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::{Context, Exit, Failure};
use crate::cli::database;
use crate::clock;
use crate::error::Kind;
use crate::gateway::routes::receipts;
use crate::home::Home;
use crate::id::AgentId;
use crate::receipt::bundle::{self, Export};
use crate::receipt::document::Run;
use crate::receipt::key::SigningKey;
use crate::receipt::sshsig::RECEIPT_NAMESPACE;
use crate::receipt::{Acceptance, Receipt, ReceiptError, decision, read_stored};
use crate::store::{ReceiptFilter, StoredReceipt};
use crate::ui::{StyledLine, Table, TextStyle};

/// Show, export and check receipts of delivered work
///
/// A receipt says which checks ran on exactly which tree, in which sandbox, and how they ended. flock runs the checks
/// itself and signs the receipt with a key of the home. Others can check it with `flock verify` or `ssh-keygen`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List receipts, newest first
    List {
        /// Show only receipts of this project
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
        /// Show only receipts of this task
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Show only receipts of this agent's work
        #[arg(long, value_name = "ID")]
        agent: Option<AgentId>,
        /// Number of receipts to show
        #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Show a receipt: what was checked, and how it ended
    Show {
        /// Id of the receipt, or its beginning
        id: String,
        /// Also print the kept output of its checks
        #[arg(long)]
        output: bool,
    },
    /// Write a receipt with all that is needed to check it elsewhere into one file
    #[command(after_long_help = "Example:\n  flock receipt export 4f2a91 --to fix.receipt")]
    Export {
        /// Id of the receipt, or its beginning
        id: String,
        /// File to write [default: the start of the id, with the ending .receipt]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Print the key that signs receipts, as a line for a file of allowed signers
    Key,
}

/// Runs the verb below `receipt`.
///
/// # Errors
///
/// Returns an error if there is no such receipt, if it was changed, or if a file or the database can't be used.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::List { project, task, agent, limit } => {
            let filter = ReceiptFilter {
                project: project.clone(),
                task: task.clone(),
                author: agent.as_ref().map(ToString::to_string),
                tree: None,
            };
            list(&filter, *limit, context)
        }
        Verb::Show { id, output } => show(id, *output, context),
        Verb::Export { id, to } => export(id, to.as_deref(), context),
        Verb::Key => key(context),
    }
}

fn list(filter: &ReceiptFilter, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let found = database::read(&home, async |reader| reader.receipts().list(filter, limit).await)?;
    let mut rows = Vec::new();
    let mut table = Table::new(&["RECEIPT", "TIME", "PROJECT", "TASK", "AGENT", "TREE", "RESULT"]);
    for stored in found.unwrap_or_default() {
        // `show` says what is wrong with one that is invalid.
        let result = receipts::result(&home, &stored);
        let tone = match result {
            "accepted" => TextStyle::Good,
            "needs-person" => TextStyle::Warn,
            _ => TextStyle::Bad,
        };
        table.styled_row(vec![
            (TextStyle::Accent, short(&stored.id).to_owned()),
            (TextStyle::Plain, clock::local(stored.created_at)),
            (TextStyle::Plain, stored.project.clone()),
            (TextStyle::Plain, stored.task.clone()),
            (TextStyle::Plain, stored.author.clone()),
            (TextStyle::Dim, short(&stored.tree).to_owned()),
            (tone, result.to_owned()),
        ]);
        rows.push(receipts::listed(&home, &stored));
    }
    context.printer.list(&json!({"receipts": rows}), &table, "there are no receipts");
    Ok(Exit::Done)
}

fn show(id: &str, with_output: bool, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let stored = find(&home, id)?;
    let receipt = read_stored(&home, &stored)?;
    let decision = decision(&receipt)?;
    if context.printer.is_json() {
        context.printer.json(&receipts::shown(&stored, &decision));
        return Ok(Exit::Done);
    }
    summary(&stored, &receipt, &decision, context);
    if with_output {
        let outputs = database::read(&home, async |reader| reader.receipts().outputs(&stored.id).await)?;
        for (run, output) in receipt.runs.iter().zip(outputs.unwrap_or_default()) {
            let left = run.output_bytes.saturating_sub((output.head.len() + output.tail.len()) as u64);
            context.printer.line(StyledLine::new().with(TextStyle::Accent, format!("$ {}", run.command)));
            context.printer.line(String::from_utf8_lossy(&output.head).into_owned());
            if left > 0 {
                context
                    .printer
                    .line(StyledLine::new().with(TextStyle::Dim, format!("({left} bytes left out)")));
                context.printer.line(String::from_utf8_lossy(&output.tail).into_owned());
            }
        }
    }
    Ok(Exit::Done)
}

fn summary(stored: &StoredReceipt, receipt: &Receipt, decision: &Acceptance, context: &Context) {
    let line = |name: &str, text: String| {
        context.printer.line(StyledLine::new().with(TextStyle::Dim, format!("{name:<10}")).plain(text));
    };
    line("receipt", stored.id.clone());
    line("time", clock::local(receipt.at));
    line(
        "work",
        format!("{} of {} in {}, task {}", receipt.branch, receipt.author, receipt.project, receipt.task),
    );
    line("tree", format!("{} (commit {})", receipt.delivered.tree, receipt.delivered.commit));
    line("base", format!("{} (commit {})", receipt.base.tree, receipt.base.commit));
    line("sandbox", format!("{} on the image {}", short(&receipt.sandbox_hash), receipt.probe.image));
    for package in &receipt.packages {
        line("package", format!("{} of {}", package.attribute, package.flake));
    }
    if let Some(setup) = &receipt.setup {
        let cached = if setup.cached { ", by an earlier run" } else { "" };
        line("setup", format!("{} {}{cached}", setup.run.command, setup.run.verdict()));
    }
    for run in &receipt.runs {
        line("check", format!("{} {} in {} ms{}", run.command, run.verdict(), run.took_ms, numbers(run)));
    }
    for file in &receipt.required {
        line("file", format!("{} is {}", file.path, if file.present { "there" } else { "missing" }));
    }
    for file in receipt.check_files.iter().filter(|file| !file.needs_person) {
        line("note", format!("{} {}", file.path, file.reason));
    }
    line("audit", format!("row {}", stored.audit_row));
    line("result", decision.as_str().to_owned());
    for reason in decision.reasons() {
        line("", reason.clone());
    }
}

fn numbers(run: &Run) -> String {
    let one = |counts: &crate::receipt::test_count::TestCounts| {
        format!(
            "; {}: {} run, {} skipped, {} filtered out",
            counts.runner,
            counts.run(),
            counts.skipped,
            counts.filtered
        )
    };
    run.counts.iter().map(one).collect()
}

fn export(id: &str, to: Option<&Path>, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let stored = find(&home, id)?;
    let default = PathBuf::from(format!("{}.receipt", &stored.id[..12]));
    let path = to.unwrap_or(&default);
    let load = load(&home, stored.clone())?;
    let failed = |error: std::io::Error| ReceiptError::File { path: path.to_owned(), source: error };
    // Beside its place, so that an interrupted export leaves no half of a bundle under the name.
    let folder = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let draft = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let written: BufWriter<&File> =
        bundle::export(&load, &repository(&home, &stored), BufWriter::new(draft.as_file()))?;
    written.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
    draft.persist(path).map_err(|error| failed(error.error))?;
    if !load.has_chain() {
        context.printer.warn(
            "rows of the audit were deleted since, so the bundle does not show the receipt's place in it",
        );
    }
    let value = json!({"id": stored.id, "file": path, "audit": load.has_chain()});
    context.printer.result(&value, format!("wrote {}", path.display()));
    Ok(Exit::Done)
}

/// The name of the signer in a file of allowed signers.
const SIGNER: &str = "flock";

fn key(context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let key = SigningKey::of(&home)?.public();
    let line = format!("{SIGNER} namespaces=\"{RECEIPT_NAMESPACE}\" {}", key.line("flock-receipt"));
    let value = json!({"allowedSigner": line, "fingerprint": key.fingerprint()});
    context.printer.result(&value, line);
    Ok(Exit::Done)
}

/// Returns the receipt whose id begins with this text.
pub(super) fn find(home: &Home, id: &str) -> Result<StoredReceipt, Failure> {
    let found = database::read(home, async |reader| reader.receipts().find(id).await)?.unwrap_or_default();
    let shown = crate::clean::summary(id, 80);
    match <[StoredReceipt; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(found) if found.is_empty() => {
            Err(ReceiptError::NotFound(format!("there is no receipt {shown}")).into())
        }
        Err(_) => Err(ReceiptError::NotFound(format!("several receipts begin with {shown}")).into()),
    }
}

/// Reads everything of a receipt that a bundle shows.
pub(super) fn load(home: &Home, stored: StoredReceipt) -> Result<Export, Failure> {
    let read = database::read(home, async |reader| Ok(Export::load(home, &reader, stored).await))?;
    let missing = || Failure::new(Kind::Failed, "the database is not there").hint("flock doctor");
    Ok(read.ok_or_else(missing)??)
}

/// Returns the repository that has the delivered commit.
pub(super) fn repository(home: &Home, stored: &StoredReceipt) -> PathBuf {
    home.root().join(&stored.repository)
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
