//! `flock home`: moves the home's database between a file and a server.

use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Subcommand;

use super::{Context, Exit, Failure, destination, restore};
use crate::clock::unix_ms;
use crate::error::{Kind, chain};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::process::login;
use crate::store::transfer::{
    self, Destination, MoveError, MovePlan, MoveReport, MoveRequest, MoveWatcher, MovedRows,
};
use crate::store::{Level, Store};
use crate::swarm::Actor;
use crate::ui::{Progress, StyledLine, Table};

/// Move the home's database to a server of PostgreSQL, or back into a file
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Move the database to another place, and use it there
    ///
    /// All rows are copied and compared, and the audit is verified in the copy. Only then does the home use the new
    /// database. The old one is kept, and is not written any more. Nothing of the home may run meanwhile. A move that was
    /// interrupted goes on where it was: run the same command again.
    ///
    /// The password of the database's user is a secret of the home: the file secrets/postgres with the mode 600.
    #[command(after_long_help = "\
Examples:
  flock home move --to postgres://flock@db.example/flock --dry-run
  flock home move --to postgres://flock@db.example/flock
  flock home move --to sqlite")]
    Move(MoveArgs),
}

#[derive(Debug, clap::Args)]
struct MoveArgs {
    /// New place: postgres://USER@HOST/DATABASE without a password, or sqlite for a file of the home
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// Schema for the tables on the server [default: flock]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Secret with the password of the database's user [default: postgres]
    #[arg(long, value_name = "NAME")]
    password_secret: Option<String>,
    /// Replacement of NUL characters, which PostgreSQL can't store, by U+FFFD in the copy
    #[arg(long)]
    replace_nul: bool,
    /// Show what would be moved, and move nothing
    #[arg(long)]
    dry_run: bool,
}

/// Carries out one of the verbs.
///
/// # Errors
///
/// Returns an error if something of the home runs, or if the database can't be moved. The home then uses the one that it
/// had.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Move(args) => move_database(args, context),
    }
}

fn move_database(args: &MoveArgs, context: &Context) -> Result<Exit, Failure> {
    let home = if args.dry_run { context.home()? } else { context.writable_home()? };
    let to = args.destination()?;
    let request = MoveRequest { home, to, replace_nul: args.replace_nul, owner: None };
    let command = args.command();
    if args.dry_run {
        return plan(request, &command, context);
    }
    let home = request.home.clone();
    let _locks = take_locks(&home, context)?;
    let progress = context.printer.progress("moving the database");
    let (moved, progress) = watched(progress, context, move |watcher| transfer::run(&request, watcher))?;
    let report = moved.map_err(|error| failure(error, &command))?;
    progress.done(&format!("copied and compared {} rows", report.rows));
    // The move itself is over, whatever becomes of its row in the audit.
    if let Err(failure) = context.block_on(record(&home, &report)) {
        context.printer.warn(&format!("the move is not in the audit: {}", failure.to_line_with_hint()));
    }
    show(&report, context);
    Ok(Exit::Done)
}

impl MoveArgs {
    fn destination(&self) -> Result<Destination, Failure> {
        let names = (self.schema.as_deref(), self.password_secret.as_deref());
        destination::of(&self.to, names, self.replace_nul)
            .map_err(|text| Failure::new(Kind::Usage, text).hint("flock home move --help"))
    }

    /// Returns the command line, for the advice to run it again.
    fn command(&self) -> String {
        let mut command = format!("flock home move --to {}", quoted(&self.to));
        for (option, value) in [("--schema", &self.schema), ("--password-secret", &self.password_secret)] {
            if let Some(value) = value {
                // A String takes whatever is written to it.
                let _ = write!(command, " {option} {}", quoted(value));
            }
        }
        if self.replace_nul {
            command.push_str(" --replace-nul");
        }
        command
    }
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Returns the failure for an error, with the command that goes on once its reason is gone.
fn failure(error: MoveError, command: &str) -> Failure {
    let goes_on = error.may_go_on();
    let mut failure = Failure::from(error);
    if goes_on {
        failure.hint = Some(match failure.hint.take() {
            Some(hint) => format!("{hint}; then go on with: {command}"),
            None => command.to_owned(),
        });
    }
    failure
}

/// The locks that keep everybody else from the database: supervisors, gateways, and commands that change it themselves.
pub(super) struct MoveLocks {
    _supervisor: Lock,
    _gateway: Lock,
    _move: Lock,
}

pub(super) fn take_locks(home: &Home, context: &Context) -> Result<MoveLocks, Failure> {
    home.make_folders()?;
    let moving = Lock::try_acquire(&home.move_lock()).map_err(|error| match error {
        HomeError::Held { .. } => Failure::new(Kind::Conflict, "the database is being moved already")
            .hint("try again when that is done"),
        error => error.into(),
    })?;
    let supervisor = restore::require_stopped(home, "the database is in use: flock runs", context)?;
    let gateway = Lock::try_acquire(&home.gateway_lock())?;
    Ok(MoveLocks { _supervisor: supervisor, _gateway: gateway, _move: moving })
}

/// Shows how far a move is, and stops it if a person wants that.
struct CliWatcher {
    progress: Progress,
    is_stopped: Arc<AtomicBool>,
}

impl MoveWatcher for CliWatcher {
    fn step(&self, text: &str) {
        self.progress.step(text);
    }

    fn at(&self, done: u64, of: u64) {
        self.progress.at(done, of);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// Runs `work`, and has it end after the present batch of rows if the person presses Ctrl-C.
fn watched<T: Send + 'static>(
    progress: Progress,
    context: &Context,
    work: impl FnOnce(&CliWatcher) -> T + Send + 'static,
) -> Result<(T, Progress), Failure> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let watcher = CliWatcher { progress, is_stopped: Arc::clone(&is_stopped) };
    context.block_on(async move {
        let mut running = tokio::task::spawn_blocking(move || (work(&watcher), watcher.progress));
        loop {
            tokio::select! {
                done = &mut running => {
                    return Ok(done.unwrap_or_else(|error| resume_unwind(error.into_panic())));
                }
                // A second one changes nothing: the batch under way ends in a moment.
                _ = tokio::signal::ctrl_c() => is_stopped.store(true, Ordering::Relaxed),
            }
        }
    })
}

fn plan(request: MoveRequest, command: &str, context: &Context) -> Result<Exit, Failure> {
    let progress = context.printer.progress("looking at the database");
    let (planned, progress) = watched(progress, context, move |watcher| transfer::plan(&request, watcher))?;
    let plan = planned.map_err(|error| failure(error, &format!("{command} --dry-run")))?;
    progress.done(&format!("read {} rows", plan.rows));
    if context.printer.is_json() {
        context.printer.json(&plan);
        return Ok(Exit::Done);
    }
    let MovePlan { from, to, target, rows, tables } = &plan;
    context.printer.table(&table(tables));
    context.printer.say(format!("{rows} rows would be moved from {from} to {to}; {target}"));
    context.printer.say(StyledLine::new().plain("move them with ").accent(command));
    Ok(Exit::Done)
}

/// Writes the move into the audit of the new database, which shows as well that it can be written.
async fn record(home: &Home, report: &MoveReport) -> Result<(), Failure> {
    let detail = format!("{} rows from {} to {}", report.rows, report.from, report.to);
    let entry = Actor::human(&login()).entry("home.move", "database", Level::Red, detail);
    let store = Store::open(home)?;
    store.audit().append(entry, unix_ms()).await?;
    store.settle().await.map_err(|error| Failure::new(Kind::Failed, chain(&error)))
}

fn show(report: &MoveReport, context: &Context) {
    let printer = &context.printer;
    if let Some(fault) = &report.audit_fault {
        printer.warn(&format!("the audit of the home is not whole, and is so in the new database: {fault}"));
    }
    if printer.is_json() {
        printer.json(report);
        return;
    }
    if report.began_anew {
        printer.say("the database was changed since the interrupted move, so the copy began anew");
    } else if report.copied_before > 0 {
        printer.say(format!("{} of the rows were there from an interrupted move", report.copied_before));
    }
    printer.line(format!(
        "the database is at {} now: {} rows in {} tables, the audit verified up to row {}",
        report.to,
        report.rows,
        report.tables.len(),
        report.audit_end
    ));
    printer.say(format!("the old one is kept at {}, and is not written any more", report.kept.place));
    printer.say(StyledLine::new().plain("delete it with ").accent(&*report.kept.delete));
    printer.say(StyledLine::new().plain("start it with ").accent("flock start"));
}

fn table(rows: &[MovedRows]) -> Table {
    let mut table = Table::new(&["TABLE", "ROWS"]);
    for MovedRows { name, rows } in rows.iter().filter(|table| table.rows > 0) {
        table.row([name.clone(), rows.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(to: &str) -> MoveArgs {
        MoveArgs {
            to: to.to_owned(),
            schema: None,
            password_secret: None,
            replace_nul: false,
            dry_run: false,
        }
    }

    #[test]
    fn a_place_is_a_server_or_a_file() {
        assert_eq!(args("sqlite").destination().unwrap(), Destination::File);
        let given = MoveArgs { schema: Some("team".to_owned()), ..args("postgres://a@db/b") };
        let Destination::Server { address, schema, secret } = given.destination().unwrap() else { panic!() };
        assert_eq!((&*address, schema.as_deref(), secret), ("postgres://a@db/b", Some("team"), None));
        for wrong in ["", "mysql://hunter2@db/b", "SQLite"] {
            let refused = args(wrong).destination().unwrap_err();
            assert!(refused.kind == Kind::Usage && !refused.text().contains("hunter2"), "{refused:?}");
        }
        let refused = MoveArgs { replace_nul: true, ..args("sqlite") }.destination().unwrap_err();
        assert!(refused.text().contains("--replace-nul"), "{refused:?}");
    }

    #[test]
    fn the_advice_is_the_same_command() {
        let given = MoveArgs {
            schema: Some("a team's".to_owned()),
            replace_nul: true,
            ..args("postgres://a@db/b?sslmode=require")
        };
        assert_eq!(
            given.command(),
            r"flock home move --to 'postgres://a@db/b?sslmode=require' --schema 'a team'\''s' --replace-nul"
        );
        let stopped = failure(MoveError::Stopped, &args("sqlite").command());
        assert_eq!(stopped.hint.as_deref(), Some("flock home move --to sqlite"));
        let refused = failure(MoveError::NoDatabase, "x");
        assert_eq!(refused.hint.as_deref(), Some("flock start"));
    }
}
