//! The `flock` command. Starting up, in order:
//!
//! 1. A panic gets a short message and exit code 70.
//! 2. Called as util-linux's `flock`, the process becomes that program.
//! 3. The command line is read; `--help` and `--version` end here.
//! 4. The verb runs. Only verbs that need one make a runtime, so that the others start at once.
//! 5. What went wrong is reported, and the exit code says what kind it was.

use std::process::ExitCode;

fn main() -> ExitCode {
    flock::ui::panic::guard(flock::cli::main)
}
