//! Runs a program on a copy of the home before it is put in use. It must report the right version, and open the home's
//! configuration and database.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::{LOG, SelfUpdateError, UpdateLock, build};
use crate::home::{Home, regular};
use crate::install::error::io;
use crate::install::step::{self, StepCommand};
use crate::install::{InstallError, InstallEvent, InstallPhase, build_environment};
use crate::store;

/// The result of a successful trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrialResult {
    /// `true` if the program migrates the database when it opens it.
    pub migrates: bool,
}

/// The output of `flock gateway check`.
#[derive(Debug, Deserialize)]
struct CheckOutput {
    schema: u32,
}

const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// Runs `--version`, which must print `name`, and then lets the program open a copy of the home. With `backup` the copy has
/// that database.
///
/// # Errors
///
/// Returns [`SelfUpdateError::Untried`] if a command fails or its answer is wrong, and another error if the home cannot be
/// copied.
pub(crate) fn run(
    _: &UpdateLock,
    home: &Home,
    (file, name): (&Path, &str),
    backup: Option<&Path>,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<TrialResult, SelfUpdateError> {
    events(InstallEvent::Phase(InstallPhase::Trying));
    let folder = home.program().join("trial-home");
    let tried = tried(home, (file, name), backup, &folder, events);
    // The next trial overwrites what cannot be removed.
    drop(fs_err::remove_dir_all(&folder));
    tried
}

fn tried(
    home: &Home,
    (file, name): (&Path, &str),
    backup: Option<&Path>,
    folder: &Path,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<TrialResult, SelfUpdateError> {
    let fail = |reason: String| SelfUpdateError::Untried {
        program: format!("flock {name}"),
        reason,
        log: home.log(LOG),
    };
    let ask = |title: &str, args: &[&str]| {
        run_command(home, file, title, args, folder, events).map_err(|error| match error {
            InstallError::Step { command, how, tail, .. } => {
                // The last line of output usually names the cause.
                let last = tail.iter().rev().find(|line| !line.trim().is_empty());
                let last = last.map(|line| format!(": {line}")).unwrap_or_default();
                fail(format!("{command} {how}{last}"))
            }
            error => error.into(),
        })
    };
    copy(home, backup, folder)?;
    let said = ask("flock --version", &["--version"])?;
    if !said.iter().any(|line| line.contains(name)) {
        return Err(fail(format!("it says that it is {:?} and not {name}", said.join(" "))));
    }
    let before = match backup {
        Some(backup) => {
            store::row_counts::census(backup)?.schema.and_then(|schema| u32::try_from(schema).ok())
        }
        None => store::schema_version(home)?,
    };
    let said = ask("flock gateway check", &["gateway", "check"])?;
    // Other lines may be log output.
    let answer = said.iter().find_map(|line| serde_json::from_str::<CheckOutput>(line).ok());
    let answer = answer
        .ok_or_else(|| fail("it did not report the result of its check of a copy of the home".to_owned()))?;
    match before {
        // An older flock would refuse this home's database once it is in use.
        Some(before) if answer.schema < before => {
            Err(fail(format!("its database is of version {}, this home's of {before}", answer.schema)))
        }
        before => Ok(TrialResult { migrates: before.is_some_and(|before| answer.schema > before) }),
    }
}

/// Copies the files that a program opens when it starts. Keys, transcripts and workspaces are not copied.
fn copy(home: &Home, backup: Option<&Path>, folder: &Path) -> Result<(), SelfUpdateError> {
    drop(fs_err::remove_dir_all(folder));
    let there = Home::new(folder.to_owned(), None);
    // All folders are made, because a program may write, for example to change the copy's paths to its own folders.
    there.make_folders().map_err(|error| io("make the folders of", folder)(std::io::Error::other(error)))?;
    // The head of the audit chain is copied before the rows. Rows that are added in between do no harm, but a missing
    // row would look like a cut.
    let mut files = vec![
        (home.config(), there.config()),
        (home.version(), there.version()),
        (home.instance(), there.instance()),
    ];
    // The program is tried with a database of its own: one on a server is in use, also by other homes.
    let is_file = store::server_address(home)?.is_none();
    if is_file {
        files.push((home.audit_head(), there.audit_head()));
    }
    for (from, to) in files {
        if from.exists() {
            regular::copy(&from, &to).map_err(io("copy", from))?;
        }
    }
    if let Some(backup) = backup {
        regular::copy(backup, &there.database()).map_err(io("copy", backup))?;
        // The head is that of the present database.
        drop(fs_err::remove_file(there.audit_head()));
        return Ok(());
    }
    // A running gateway may be writing, so the database is copied by SQLite itself.
    if is_file && home.database().exists() {
        store::snapshot(home, &there.database())?;
    }
    Ok(())
}

fn run_command(
    home: &Home,
    file: &Path,
    title: &str,
    args: &[&str],
    folder: &Path,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<Vec<String>, InstallError> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let mut env: Vec<(OsString, OsString)> = build_environment::for_cargo();
    env.push(("FLOCK_HOME".into(), folder.into()));
    let run = StepCommand {
        title,
        program: file,
        args: &args,
        folder: home.root(),
        env: &env,
        limit: COMMAND_LIMIT,
        log: home.log(LOG),
    };
    step::run(&run, &mut build::log(home), events)
}
