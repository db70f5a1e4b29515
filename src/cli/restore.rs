//! `flock restore`: restores the database from its newest undamaged backup, with what can be read of the damaged one, or a
//! whole home from an archive.

mod whole;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::{Context, Exit, Failure, team};
use crate::agent::transcript::inspect;
use crate::clock::{self, unix_ms};
use crate::config;
use crate::error::{Kind, is_of_disk};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::store::{self, BackupKind, Level, RestoreOutcome, Store, backups, restore};
use crate::swarm::Actor;
use crate::ui::StyledLine;

/// Restore a home from a backup, or a damaged database from its newest intact copy
///
/// With ARCHIVE, a file of `flock backup`, a whole home is made, at the place that --home names. Nothing may be there yet,
/// unless --replace is given. Its database is in a file then, wherever it was, or with --to on a server of PostgreSQL, in a
/// schema that has nothing yet. Without ARCHIVE, the database is restored, after a question: flock keeps the old one, and takes
/// over its newer data as far as it can be read, and sessions that exist only in their transcripts. Nothing of the home may
/// run in either case.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Backup of a whole home to restore
    #[arg(value_name = "ARCHIVE", conflicts_with_all = ["from", "list"])]
    archive: Option<PathBuf>,
    /// Move the home that is there aside first, and say where it is then
    #[arg(long, requires = "archive")]
    replace: bool,
    /// Place of the restored database: postgres://USER@HOST/DATABASE without a password, or sqlite [default: sqlite]
    #[arg(long, value_name = "PLACE", requires = "archive")]
    to: Option<String>,
    /// Schema for the tables on the server [default: flock]
    #[arg(long, value_name = "NAME", requires = "to")]
    schema: Option<String>,
    /// Secret of the restored home with the password of the database's user [default: postgres]
    #[arg(long, value_name = "NAME", requires = "to")]
    password_secret: Option<String>,
    /// Replacement of NUL characters, which PostgreSQL can't store, by U+FFFD in the copy on the server
    #[arg(long, requires = "to")]
    replace_nul: bool,
    /// Backup of the database to start with [default: the newest intact one]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// List the backups of the database, and restore nothing
    #[arg(long)]
    list: bool,
}

/// Restores the database, or a whole home.
///
/// # Errors
///
/// Returns an error if something of the home runs, if the person did not agree, or if a step fails. What was there is then
/// unchanged.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if let Some(archive) = &args.archive {
        let names = (args.schema.as_deref(), args.password_secret.as_deref());
        let to = super::destination::of(args.to.as_deref().unwrap_or("sqlite"), names, args.replace_nul)
            .map_err(|text| Failure::new(Kind::Usage, text).hint("flock restore --help"))?;
        let wish = whole::Wish { archive, replace: args.replace, to, replace_nul: args.replace_nul };
        return whole::run(&wish, context);
    }
    let home = context.writable_home()?;
    if args.list {
        return Ok(list(&home, context));
    }
    if let Some(from) = args.from.as_deref().filter(|from| from.to_string_lossy().ends_with(".tar.gz")) {
        let text = format!("{} is a backup of a whole home, not of the database alone", from.display());
        return Err(Failure::new(Kind::Usage, text).hint(format!("flock restore {}", from.display())));
    }
    if !context.yes() {
        let unasked = Failure::new(Kind::Usage, "replacing the database must be confirmed");
        let question =
            "Replace the database by its newest intact backup and the rows that can still be read?";
        context.confirm(question, unasked.hint("flock restore --yes"), "nothing was changed")?;
    }
    let done = restore_database(&home, args.from.as_deref(), context)?;
    context.printer.if_json(&done);
    done.lines().into_iter().for_each(|line| context.printer.say(line));
    context.printer.say(StyledLine::new().plain("start it with ").accent("flock start"));
    Ok(Exit::Done)
}

fn list(home: &Home, context: &Context) -> Exit {
    let found = backups(home);
    let kind = |kind| match kind {
        BackupKind::Daily => "daily",
        BackupKind::Migration => "migration",
    };
    if context.printer.is_json() {
        let of = |backup: &crate::store::Backup| json!({"path": backup.path, "at": backup.at, "kind": kind(backup.kind)});
        context.printer.json(&json!({"backups": found.iter().map(of).collect::<Vec<_>>()}));
    } else {
        for backup in &found {
            let line =
                format!("{}  {:<9}  {}", clock::local(backup.at), kind(backup.kind), backup.path.display());
            context.printer.line(line);
        }
    }
    Exit::Done
}

/// The result of a restore.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RestoreReport {
    #[serde(flatten)]
    restored: RestoreOutcome,
    /// Number of sessions that were found only in their transcripts.
    sessions: usize,
}

impl RestoreReport {
    /// Returns the report for a person, line by line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let restored = &self.restored;
        let mut lines = Vec::new();
        lines.push(match (&restored.backup, restored.backup_at) {
            (Some(path), Some(at)) => {
                format!("restored the backup of {}: {}", clock::local(at), path.display())
            }
            (Some(path), None) => format!("restored {}", path.display()),
            (None, _) => "there was no intact backup: made a new database".to_owned(),
        });
        let lost: Vec<&str> = restored
            .tables
            .iter()
            .filter(|table| !table.is_complete)
            .map(|table| table.name.as_str())
            .collect();
        let rows: u64 = restored.tables.iter().map(|table| table.rows).sum();
        if restored.tables.is_empty() && restored.set_aside.is_some() {
            lines.push("nothing could be read from the old database".to_owned());
        } else if lost.is_empty() && rows > 0 {
            lines.push(format!("took over all {rows} rows of the old database"));
        } else if rows > 0 {
            lines.push(format!(
                "took over {rows} rows of the old database; some rows of {} could not be read, and their content \
                 since the backup is lost",
                lost.join(", ")
            ));
        }
        if self.sessions > 0 {
            lines.push(format!(
                "restored {} sessions from their transcripts, because the database did not have them",
                self.sessions
            ));
        }
        if let Some(folder) = &restored.set_aside {
            lines.push(format!("the old database is kept in {}", folder.display()));
        }
        lines
    }
}

/// Restores the database of a home in which nothing runs.
///
/// # Errors
///
/// Returns an error if a supervisor or a gateway runs, if the disk fails to read a transcript, or if the backup can't
/// be restored.
pub(crate) fn restore_database(
    home: &Home,
    from: Option<&Path>,
    context: &Context,
) -> Result<RestoreReport, Failure> {
    store::database_file(home, "restore the database")?;
    // The lock is held until the end, so that no supervisor can start during the restore.
    let _lock = require_stopped(home, "the database is in use: flock runs", context)?;
    home.make_folders()?;
    let mut lost = Vec::new();
    for path in inspect::all(home) {
        match inspect::survey(&path) {
            Ok((session, _)) => lost.extend(session),
            // The transcript may be readable again later. Without it now, the new database would not know its session.
            Err(source) if is_of_disk(&source) => {
                return Err(HomeError::Io { verb: "read", path, source }.into());
            }
            Err(_) => {}
        }
    }
    let restored = restore(home, from)?;
    // If several transcripts name one session, the one that was used last wins, because it comes first.
    lost.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
    let store = Store::open(home)?;
    let sessions = context.block_on(async {
        let sessions = store.sessions().restore(lost).await?;
        let detail = match &restored.backup {
            Some(path) => format!("from {}", path.display()),
            None => "without a backup".to_owned(),
        };
        let entry = Actor::system().entry("database.restore", "database", Level::Red, detail);
        store.audit().append(entry, unix_ms()).await?;
        // The restored database is written to disk completely before the command reports success.
        store.settle().await?;
        Ok(sessions)
    })?;
    Ok(RestoreReport { restored, sessions })
}

/// Checks that nothing of a home runs, and takes the lock that keeps a supervisor from starting.
///
/// # Errors
///
/// Returns a failure with this message if a supervisor or a gateway runs, and another error if that can't be found out.
pub(super) fn require_stopped(home: &Home, message: &str, context: &Context) -> Result<Lock, Failure> {
    let running = || Failure::new(Kind::Conflict, message).hint("flock stop");
    let lock = match Lock::try_acquire(&home.supervisor_lock()) {
        Ok(lock) => lock,
        Err(HomeError::Held { .. }) => return Err(running()),
        Err(error) => return Err(error.into()),
    };
    // A gateway without a supervisor does not hold that lock, so it is looked for separately. One of an older version
    // holds no lock of its own either.
    if team::lives(home) {
        return Err(running());
    }
    if let Ok(config) = config::read(home)
        && context.block_on(team::gateway(home, &config))?.is_some()
    {
        return Err(running());
    }
    Ok(lock)
}
