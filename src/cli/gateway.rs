//! `flock gateway serve`: the gateway's own process. The supervisor runs it; people run `flock start`.

use super::{Context, Exit, Failure};
use crate::gateway::serve::serve;
use crate::ui::log;

/// Run the gateway in the foreground, as the supervisor does
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Serve this home until SIGTERM
    Serve,
}

/// Serves until it is told to stop.
///
/// # Errors
///
/// As [`crate::gateway::serve::ServeError`] says.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let Action::Serve = args.action;
    log::start();
    let home = context.place()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, MAX_WORKERS))
        .max_blocking_threads(MAX_BLOCKING)
        .thread_name("gateway")
        .enable_all()
        .build()
        .map_err(|error| Failure::caused("failed to start the runtime", &error))?;
    let served = runtime.block_on(serve(home));
    // A blocking thread that hangs in a system call must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    served?;
    Ok(Exit::Done)
}

/// Turns wait for models and sandboxes; more threads would only cost memory.
const MAX_WORKERS: usize = 4;
const MAX_BLOCKING: usize = 16;
