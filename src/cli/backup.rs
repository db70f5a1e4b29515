//! `flock backup`: writes the whole home into one archive, or verifies one.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Context, Exit, Failure, person};
use crate::backup::manifest::{Manifest, Named, Part};
use crate::backup::{BackupRequest, BackupWatcher, MadeBackup, make, verify};
use crate::home::Home;
use crate::store::Level;
use crate::ui::{Printer, Progress, StyledLine};
use crate::{clean, clock};

/// Most characters of a file's name in the audit.
const MAX_NAME: usize = 200;

/// Back up the whole home into one file, or verify a backup
///
/// The gateway may run meanwhile. The archive has the database as of one moment, the configuration, transcripts, keys,
/// workspaces, vaults and everything else that flock can't make again. It is verified before it gets its name.
/// `flock restore FILE` makes a home of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Archive to write, or folder for it [default: flock-HOME-TIME.tar.gz in this folder]
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
    file: Option<PathBuf>,
    /// Read FILE and check everything in it, and back up nothing
    #[arg(long, requires = "file", conflicts_with_all = ["without_workspaces", "without_secrets", "no_verify"])]
    verify: bool,
    /// Leave out the workspaces and checkpoints
    #[arg(long)]
    without_workspaces: bool,
    /// Leave out keys and tokens, which have to be entered again after a restore
    #[arg(long)]
    without_secrets: bool,
    /// Do not read the archive again after it was written
    #[arg(long)]
    no_verify: bool,
}

/// Makes or verifies a backup.
///
/// # Errors
///
/// Returns an error if the archive can't be made, or is not whole. No file is left of one that can't be made.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if let Some(file) = args.file.as_deref().filter(|_| args.verify) {
        return verify_archive(file, context);
    }
    let home = context.home()?;
    crate::home::version::check_writable(&home)?;
    let mut without = Vec::new();
    if args.without_workspaces {
        without.push(Part::Workspaces);
    }
    if args.without_secrets {
        without.push(Part::Secrets);
    }
    let file = archive_path(&home, args.file.as_deref())?;
    let request = BackupRequest { home: &home, file: &file, without: &without, verify: !args.no_verify };
    let watcher = ProgressWatcher(context.printer.progress("backing up the home"));
    let made = make(&request, &watcher)?;
    watcher.0.done(&summary(&made, args.no_verify));
    record(&home, &file, args, context);
    report(&file, &made, args, context);
    Ok(Exit::Done)
}

/// Returns the path of the archive that is to be written.
fn archive_path(home: &Home, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let given = given.unwrap_or(Path::new(""));
    let path = if given.as_os_str().is_empty() || given.is_dir() {
        given.join(default_name(home, clock::unix_ms()))
    } else {
        given.to_owned()
    };
    // An absolute path stays right in the record of the newest backup.
    std::path::absolute(&path)
        .map_err(|error| Failure::with_cause(format!("failed to resolve {}", path.display()), &error))
}

/// Returns `flock-<time>.tar.gz` for the home `.flock`, and `flock-<name>-<time>.tar.gz` for every other one.
fn default_name(home: &Home, at: i64) -> String {
    let name = home.root().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.trim_start_matches('.');
    let time = clock::file_time(at);
    if name.is_empty() || name == "flock" {
        format!("flock-{time}.tar.gz")
    } else {
        format!("flock-{name}-{time}.tar.gz")
    }
}

/// Records who made the backup, and what is in it. The archive is good also without the record.
fn record(home: &Home, file: &Path, args: &Args, context: &Context) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let parts = [
        (args.without_secrets, "without keys", "with the keys"),
        (args.without_workspaces, "without workspaces", "with the workspaces"),
        (args.no_verify, "not verified", "verified"),
    ];
    let detail = parts.map(|(is_set, then, otherwise)| if is_set { then } else { otherwise }).join(", ");
    let subject = clean::summary(&name, MAX_NAME);
    let recorded = context.block_on(person::record(home, "home.backup", &subject, Level::Yellow, detail));
    if let Err(failure) = recorded {
        context.printer.warn(&format!("the audit does not have this backup: {}", failure.message));
    }
}

fn summary(made: &MadeBackup, unverified: bool) -> String {
    let (files, bytes) = made.manifest.totals();
    let verified = if unverified { "" } else { ", and verified it" };
    format!("backed up {files} files ({}) in {}{verified}", mib(bytes), mib(made.bytes))
}

fn mib(bytes: u64) -> String {
    format!("{}.{} MiB", bytes >> 20, ((bytes & ((1 << 20) - 1)) * 10) >> 20)
}

fn report(file: &Path, made: &MadeBackup, args: &Args, context: &Context) {
    let printer = &context.printer;
    let manifest = &made.manifest;
    let changed = manifest.changed();
    if printer.is_json() {
        let mut value = facts(file, manifest);
        value["bytes"] = json!(made.bytes);
        value["verified"] = json!(!args.no_verify);
        printer.json(&value);
        return;
    }
    printer.line(file.display().to_string().as_str());
    warn_named(printer, "files were left out", &manifest.left_out);
    warn_named(printer, "files may be of several moments", &changed);
    if let Some(fault) = manifest.database.as_ref().and_then(|database| database.audit_fault.as_ref()) {
        printer.warn(&format!("the audit of the home is not whole, and is so in the backup: {fault}"));
    }
    if manifest.without.contains(&Part::Secrets) {
        let list = manifest.enter_again.join(", ");
        printer.say(
            format!("keys that are not in it, and have to be entered again after a restore: {list}").as_str(),
        );
    } else {
        printer.say("it has the keys of the home: keep it as safe as the home itself");
    }
    printer.say(
        StyledLine::new()
            .plain("make a home of it with ")
            .accent(format!("flock restore {}", file.display())),
    );
}

fn warn_named(printer: &Printer, what: &str, named: &Named) {
    if named.count == 0 {
        return;
    }
    printer.warn(&format!("{} {what}", named.count));
    for path in &named.paths {
        printer.say(format!("  {path}").as_str());
    }
}

fn verify_archive(file: &Path, context: &Context) -> Result<Exit, Failure> {
    let watcher = ProgressWatcher(context.printer.progress("verifying the backup"));
    let manifest = verify::read(file, &watcher)?;
    let (files, bytes) = manifest.totals();
    watcher.0.done(&format!("verified {files} files ({})", mib(bytes)));
    if context.printer.is_json() {
        let mut value = facts(file, &manifest);
        value["verified"] = json!(true);
        context.printer.json(&value);
    } else {
        context.printer.line(about(&manifest).as_str());
    }
    Ok(Exit::Done)
}

/// Returns a line about an archive.
fn about(manifest: &Manifest) -> String {
    let rows: u64 = manifest.database.iter().flat_map(|database| database.rows.values()).sum();
    format!(
        "the backup of {} from {}, made by flock {}: {rows} rows, whole",
        manifest.home.path.display(),
        clock::local(manifest.at),
        manifest.flock
    )
}

/// Returns the facts about an archive, for programs.
fn facts(file: &Path, manifest: &Manifest) -> serde_json::Value {
    let (files, content) = manifest.totals();
    json!({
        "file": file,
        "at": manifest.at,
        "flock": manifest.flock,
        "home": manifest.home,
        "files": files,
        "contentBytes": content,
        "database": manifest.database,
        "without": manifest.without,
        "enterAgain": manifest.enter_again,
        "leftOut": manifest.left_out,
        "changed": manifest.changed(),
    })
}

/// Shows the progress of a backup or a restore.
pub(super) struct ProgressWatcher(pub(super) Progress);

impl BackupWatcher for ProgressWatcher {
    fn step(&self, text: &str) {
        self.0.step(text);
    }

    fn at(&self, done: u64, of: u64) {
        self.0.at(done, of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_name_has_the_home_and_the_time() {
        let name = |root: &str| default_name(&Home::new(root.into(), None), 0);
        assert!(name("/home/ann/.flock").starts_with("flock-19"), "{}", name("/home/ann/.flock"));
        assert!(name("/srv/team").starts_with("flock-team-19") && name("/srv/team").ends_with(".tar.gz"));
        assert_eq!(mib((3 << 20) + (1 << 19)), "3.5 MiB");
        assert_eq!(mib(0), "0.0 MiB");
    }
}
