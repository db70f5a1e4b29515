//! `flock gateway serve`: the process of the gateway. The supervisor runs it; people run `flock start`.
//!
//! `flock gateway check` opens the home without serving it. The verbs that have several gateways use one database are in
//! files of their own.

mod invite;
mod join;

use std::time::Duration;

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::config;
use crate::error::Kind;
use crate::gateway::lifecycle::serve;
use crate::home::FORMAT;
use crate::sandbox::workspace_files::BLOCKING_THREADS;
use crate::store::integrity::{self, CheckDepth};
use crate::store::{self, Store};
use crate::ui::log;

/// Have several gateways use one database, and share its agents
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Serve this home until SIGTERM
    #[command(hide = true)]
    Serve,
    /// Open this home as the gateway does, and report the result
    #[command(hide = true)]
    Check,
    /// Let gateways of other homes use the database beside this one
    ///
    /// The database has to be on a server of PostgreSQL. Each of the gateways takes care of some of the agents. If one ends or
    /// dies, the others take its agents over. They share the configuration, which is in the database then. Each has keys of
    /// its own in secrets/, and all of them need the files of the agents in one folder that each machine sees: this home.
    #[command(after_long_help = "\
Examples:
  flock gateway invite
  flock gateway invite --end")]
    Invite(invite::Args),
    /// Use the database and the agents of other gateways, beside them
    ///
    /// The home takes their configuration. It keeps its own keys, port and owner's token. It must not have conversations of
    /// its own: make one with flock init for this.
    #[command(after_long_help = "\
Examples:
  flock gateway join postgres://flock@db.example/flock --files /mnt/team/.flock")]
    Join(join::Args),
}

/// Serves until it is told to stop, or checks that it could.
///
/// # Errors
///
/// Returns an error if the home or its configuration is not usable, if the database is damaged, if the gateway can't
/// serve, as [`crate::gateway::lifecycle::ServeError`] describes, or if it can't have others beside it.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::Serve => run_gateway(context),
        Action::Check => check(context),
        Action::Invite(args) => invite::run(args, context),
        Action::Join(args) => join::run(args, context),
    }
}

/// Opens the configuration and migrates the database to this version. An update runs it on a copy of the home.
fn check(context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    config::read(&home)?;
    // Opening the store runs the migrations. Dropping it closes the database before it is checked.
    drop(Store::open(&home)?);
    if let Ok(path) = store::database_file(&home, "check the database") {
        let found = integrity::check(&path, CheckDepth::Quick(CHECK_LIMIT))?;
        if !found.is_whole() {
            return Err(Failure::new(Kind::Damaged, found.summary()));
        }
    }
    let schema = store::schema_version(&home)?;
    context.printer.json_line(&json!({"version": env!("FLOCK_VERSION"), "format": FORMAT, "schema": schema}));
    Ok(Exit::Done)
}

const CHECK_LIMIT: Duration = Duration::from_secs(60);

fn run_gateway(context: &Context) -> Result<Exit, Failure> {
    log::start();
    let home = context.place()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, MAX_WORKERS))
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .thread_name("gateway")
        .enable_all()
        .build()
        .map_err(|error| Failure::with_cause("failed to start the runtime", &error))?;
    // An idle gateway frees no memory, and jemalloc returns pages only during its calls. This thread does it in
    // between.
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!(%error, "failed to start the thread that returns free memory, so free memory is kept");
    }
    let served = runtime.block_on(serve(home));
    // A blocking thread that hangs in a system call must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    served?;
    Ok(Exit::Done)
}

/// Turns wait for models and sandboxes most of the time. More threads would only use more memory.
const MAX_WORKERS: usize = 4;
/// Time that an idle thread for blocking work is kept. Each one has a stack and a part of the allocator's memory.
const THREAD_KEEP_ALIVE: std::time::Duration = std::time::Duration::from_secs(2);
